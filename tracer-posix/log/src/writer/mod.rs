//! Writing a log.

mod core;
#[cfg(test)]
mod dates;
#[cfg(test)]
mod failing;
mod pending;
mod resume;

use std::fs::File;

use self::core::WriterCore;
pub(super) use self::core::least_size;
use super::error::WriteError;
use super::medium::LogFile;
use super::{FinalStatus, LogHeader, LogOptions, sys};
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::{ClockPair, EventTypes, Ledger};

/// Writes a log.
///
/// The writer gathers events into packets of up to 16 KiB, and writes a packet when it is full or
/// when [`flush`](Self::flush) is called. A write that fails loses nothing at first: its packets
/// wait for the next flush, up to a bound. Events beyond that bound count as lost in the log.
///
/// A writer that is dropped without [`complete`](Self::complete) leaves a log that can be read,
/// without what was not flushed.
#[derive(Debug)]
pub struct LogWriter {
    core: WriterCore<LogFile>,
}

impl LogWriter {
    /// Makes a log in `file`, from offset 0 on, and drops what the file held. The writer never
    /// reads: the file may be open for writing only. It reserves space for the whole log where the
    /// file system can. Other processes cannot write a log to the same file until this one is
    /// completed, or its process has ended.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn create(file: File, header: &LogHeader, options: LogOptions) -> Result<Self, WriteError> {
        check(&file)?;
        let core = WriterCore::create(LogFile(file), header, options)?;
        Ok(Self { core })
    }

    /// Continues the log that `file` holds already, after its last whole packet; its policy and
    /// size stay what they are. Returns its event types too: new events must use their identifiers.
    /// `file` has to be open for reading and writing.
    ///
    /// The log says that it is incomplete until it is completed again. If the machine was restarted
    /// since, the times of new events continue after the last one of the log.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn append_to(file: File) -> Result<(Self, EventTypes), WriteError> {
        check(&file)?;
        if !sys::opened(&file)?.for_reading {
            return Err(WriteError::NotReadable);
        }
        let (core, types) = resume::resume(file)?;
        Ok((Self { core }, types))
    }

    /// Sets the moment from which the log's times count, before an event is added. The log says
    /// that it was made then.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn begin_at(&mut self, anchor: ClockPair) -> Result<(), WriteError> {
        self.core.begin_at(anchor)
    }

    /// Adds an event, whose thread is named `comm` (empty where unknown; truncated at 16 bytes).
    /// `types` knows the name of its type. The event is recorded, or counted as lost, even if this
    /// call fails.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn append(
        &mut self,
        header: &EventHeader,
        data: &[u8],
        comm: &[u8],
        types: &EventTypes,
    ) -> Result<(), WriteError> {
        self.core.append(header, data, comm, types)
    }

    /// Records what was lost so far. Called before events are added that came after those losses:
    /// their packets then state the losses.
    pub fn count_losses(&mut self, lost: &Ledger) {
        self.core.count_losses(lost);
    }

    /// Writes the events that are not in the file yet. `lost` has the losses of the stream so far.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn flush(&mut self, lost: &Ledger) -> Result<(), WriteError> {
        self.core.flush(lost)
    }

    /// Empties the log (`posix_trace_clear`): it is as when it was made, with a new id.
    ///
    /// # Errors
    ///
    /// See [`WriteError`]. Even then, events that are added later are the log's first.
    pub fn clear(&mut self) -> Result<(), WriteError> {
        self.core.clear()
    }

    /// Tells whether the log is full (`posix_log_full_status`): with `UNTIL_FULL` it takes no more,
    /// with `LOOP` it has begun to overwrite its oldest events.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.is_full()
    }

    /// Tells whether events of the log were overwritten, discarded or could not be written since
    /// this was last asked (`posix_log_overrun_status`).
    pub fn take_overrun(&mut self) -> bool {
        self.core.take_overrun()
    }

    /// Returns the number of events that the log had to overwrite or discard because it was full or
    /// could not be written.
    #[must_use]
    pub fn lost_in_log(&self) -> u64 {
        self.core.lost_in_log()
    }

    /// Tells whether the log takes no more: it is full, and its policy is `UNTIL_FULL`.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core.is_closed
    }

    /// Returns the number of events that gave way to newer ones, or came after the end of a full
    /// log.
    #[must_use]
    pub fn gave_way(&self) -> u64 {
        self.core.lost_in_log() - self.core.losses.unwritten
    }

    /// Returns the number of events that could not be written.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.core.losses.unwritten
    }

    /// Records that the trace has come to this moment, on the clock of its events: all events up to
    /// it were added. Once the log is complete, it says how long the trace went on after the last
    /// event.
    pub fn advance(&mut self, to: MonotonicNs) {
        self.core.advance(to);
    }

    /// Writes the remaining events, all event types and the final status, and marks the log as
    /// complete. Nothing may be added afterwards. The writer adds to `status` what it knows of the
    /// log itself (full, overrun, an error of this very flush).
    ///
    /// The log is not forced to the disk: a program that needs it to outlive a power failure calls
    /// `sync_all` on the file.
    ///
    /// # Errors
    ///
    /// See [`WriteError`]. The log is then as complete as possible, and says what is missing.
    pub fn complete(
        &mut self,
        types: &EventTypes,
        lost: &Ledger,
        status: FinalStatus,
    ) -> Result<(), WriteError> {
        let completed = self.core.complete(types, lost, status);
        sys::unlock(&self.core.medium.0);
        completed
    }
}

/// Checks that a file is fit for a log, and locks it against logs of other processes.
fn check(file: &File) -> Result<(), WriteError> {
    let opened = sys::opened(file)?;
    if !opened.for_writing {
        return Err(WriteError::NotWritable);
    }
    if !file.metadata()?.is_file() {
        return Err(WriteError::NotARegularFile);
    }
    if opened.appending {
        return Err(WriteError::Appending);
    }
    if opened.direct {
        return Err(WriteError::Direct);
    }
    match sys::lock(file) {
        Some(pid) => Err(WriteError::InUse { pid }),
        None => Ok(()),
    }
}
