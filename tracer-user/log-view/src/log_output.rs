//! A log as the destination of events.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tracer_area::monotonic_now;
use tracer_common::area::MAX_DATA_BYTES;
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use tracer_engine::{
    Attributes, ClockPair, EventTypes, Inheritance, Ledger, LogFullPolicy, Origin, StreamCore,
    StreamFullPolicy,
};
use tracer_log::{
    FinalStatus, LogHeader, LogOptions, LogReader, LogWriter, WriteError, clocks_now,
};

use super::held_names::HeldNames;
use super::snapshots;
use tracer_binary::stacks::{AddressName, push_symbol};
use tracer_event::predicate::{LogChoices, STREAM_NAME};
use tracer_event::summary::WriteLosses;
use tracer_output::output_file;
use tracer_text::say;

/// Longest interval between writes of added events.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Bytes of a thread's name, as the kernel has it.
const COMM_BYTES: usize = 16;

/// Treatment of a file that exists where a log is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The file stays, and there is no trace.
    Stays,
    /// The file is replaced.
    Replaced,
    /// The log in it is continued.
    Continued,
}

/// The log that a trace goes to, as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSetup {
    /// The file.
    pub path: PathBuf,
    /// Treatment of a file that exists already.
    pub existing: Existing,
    /// Most bytes for events.
    pub max_size: u64,
    /// Behavior of the log when it is full.
    pub policy: LogFullPolicy,
    /// Behavior of the stream when it is full. Under `Flush` events go to the log as they come;
    /// else they stay in the stream until a flush is asked for, or the end.
    pub stream_policy: StreamFullPolicy,
    /// Bytes of the stream.
    pub stream_bytes: usize,
    /// Whether children are traced too.
    pub inherit: bool,
    /// Most snapshots: each flush makes one of the log. None: a flush adds to it.
    pub snapshots: Option<u32>,
    /// Name of its stream, which says what events have passed to come into it.
    pub stream_name: String,
}

impl LogSetup {
    /// Tells whether there is a log that is continued.
    #[must_use]
    pub fn continues(&self) -> bool {
        let has_content = || fs::metadata(&self.path).is_ok_and(|found| found.len() > 0);
        self.existing == Existing::Continued && has_content()
    }
}

/// A log that is being written.
pub struct LogOutput {
    writer: LogWriter,
    path: PathBuf,
    /// Options of snapshots, if they are made.
    snapshots: Option<(u32, LogSetup)>,
    /// Events dropped and not written in earlier snapshots.
    earlier: WriteLosses,
    /// Events lost by the time of the last of them.
    lost_before: u64,
    /// Whether there is no log any more after a snapshot.
    is_over: bool,
    /// Events that wait for a flush; `None` where they go to the log at once.
    stream: Option<StreamCore>,
    /// Events that name functions, and for which the stream has no space.
    held: HeldNames,
    record: Vec<u8>,
    last_write: Instant,
    has_failed: bool,
    /// Names of addresses, which are written at the end.
    names: Vec<AddressName>,
    /// Time of the last event.
    last: MonotonicNs,
    /// New file, as long as there is no trace in it yet.
    new_file: Option<NewFile>,
    /// Whether the log is made anew and has not begun.
    is_unbegun: bool,
}

impl LogOutput {
    /// Makes the log, or opens the one that is continued; then its event types are returned too.
    ///
    /// # Errors
    ///
    /// The log cannot be made or continued.
    pub fn open(setup: &LogSetup) -> anyhow::Result<(Self, Option<EventTypes>)> {
        let path = &setup.path;
        let (file, found) = open(path)?;
        let new_file = (found == Found::Nothing).then(|| NewFile::new(path, &file));
        let mut is_unbegun = false;
        let (writer, types) = if setup.existing == Existing::Continued && found == Found::Content {
            let what = || format!("cannot continue {}", path.display());
            check_name(path, &setup.stream_name).with_context(what)?;
            let (writer, types) = LogWriter::append_to(file).with_context(what)?;
            (writer, Some(types))
        } else {
            // An empty file is there as well: its maker may need it.
            ensure!(
                found == Found::Nothing || setup.existing != Existing::Stays,
                "{} is there already; give --append to go on with the log in it, --force to replace it, or \
                 --log another name",
                path.display()
            );
            is_unbegun = true;
            (create(file, setup, clocks_now())?, None)
        };
        let stream = match setup.stream_policy {
            StreamFullPolicy::Flush => None,
            policy @ (StreamFullPolicy::Loop | StreamFullPolicy::UntilFull) => {
                let mut stream = StreamCore::new(policy, setup.stream_bytes);
                // That it was started, the stream that is read says.
                stream.start(MonotonicNs(0), Origin::NONE);
                stream.clear(MonotonicNs(0));
                Some(stream)
            }
        };
        let output = Self {
            writer,
            path: path.clone(),
            snapshots: setup.snapshots.map(|most| (most, setup.clone())),
            earlier: WriteLosses::default(),
            lost_before: 0,
            is_over: false,
            stream,
            held: HeldNames::default(),
            record: Vec::new(),
            last_write: Instant::now(),
            has_failed: false,
            names: Vec::new(),
            last: MonotonicNs(0),
            new_file,
            is_unbegun,
        };
        Ok((output, types))
    }

    /// Lets a log that was made anew begin at this moment, from which its times count: what it
    /// took to get ready, since the file was made, is no part of the trace.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub fn begin(&mut self, at: MonotonicNs) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_unbegun) {
            let anchor = ClockPair {
                monotonic: at,
                realtime: clocks_now().date_of(at),
            };
            let begun = self.writer.begin_at(anchor);
            begun.with_context(|| format!("cannot write a log to {}", self.path.display()))?;
        }
        Ok(())
    }

    /// Adds an event.
    pub fn add(&mut self, event: &Event<'_>, comm: Option<&[u8]>, types: &EventTypes) {
        if self.is_over {
            self.earlier.unwritten += 1;
            return;
        }
        if !is_streams_own(&event.header) {
            self.keep();
        }
        let comm = comm.unwrap_or_default();
        self.last = self.last.max(event.header.time);
        let Some(stream) = &mut self.stream else {
            let result = self.writer.append(&event.header, event.data, comm, types);
            self.note(result);
            return;
        };
        self.record.clear();
        if !is_streams_own(&event.header) {
            // The name that the thread has now goes with the event.
            self.record.extend(comm.iter().take(COMM_BYTES));
            self.record.resize(COMM_BYTES, 0);
        }
        let comm_bytes = self.record.len();
        self.record.extend_from_slice(event.data);
        let record = (&*self.record, comm_bytes);
        self.held.feed(stream, &event.header, record);
    }

    /// Adds names of addresses. They are written once everything else has been.
    pub fn name(&mut self, names: Vec<AddressName>) {
        self.names = names;
    }

    fn write_names(&mut self, types: &EventTypes) {
        for name in std::mem::take(&mut self.names) {
            let header = EventHeader {
                time: self.last,
                event_type: EventTypeId::SYMBOL,
                pid: name.pid,
                tid: name.pid,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            let mut data = Vec::new();
            push_symbol(&mut data, &name);
            let result = self.writer.append(&header, &data, b"", types);
            self.note(result);
        }
    }

    /// Notes the events that were lost before those that are added next.
    pub fn count_losses(&mut self, lost: &Ledger) {
        self.writer.count_losses(lost);
    }

    /// Takes note that nothing else has happened up to this moment.
    pub fn advance(&mut self, to: MonotonicNs) {
        self.writer.advance(to);
    }

    /// Writes the added events, if it is time.
    pub fn write_now_and_then(&mut self, lost: &Ledger) {
        if self.stream.is_none() && self.last_write.elapsed() >= WRITE_EVERY {
            self.last_write = Instant::now();
            let result = self.writer.flush(lost);
            self.note(result);
        }
    }

    /// Copies the events that wait in the stream to the log, and the log to its file. Where
    /// snapshots are made, the log becomes the newest of them, and another one begins.
    pub fn flush(&mut self, types: &EventTypes, lost: &Ledger) {
        if self.snapshots.is_some() {
            // Where it could not become a snapshot it stays, and no other may replace it.
            self.is_over = !(self.finish(types, lost) && self.begin_anew(lost));
            return;
        }
        self.count_losses(lost);
        self.drain(types);
        let result = self.writer.flush(lost);
        self.note(result);
    }

    /// Tells whether each flush makes a log that is complete.
    pub fn makes_snapshots(&self) -> bool {
        self.snapshots.is_some()
    }

    /// Tells whether nothing goes into the log any more.
    pub fn is_at_end(&self) -> bool {
        self.is_over || self.writer.is_closed()
    }

    /// Completes the log, as well as it can be. Returns how many events gave way to newer ones, as
    /// the policies say, and how many could not be written.
    pub fn complete(&mut self, types: &EventTypes, lost: &Ledger) -> WriteLosses {
        if !self.is_over {
            self.finish(types, lost);
        }
        let of_stream = self.stream.as_ref();
        let of_stream = of_stream.map_or(0, |stream| stream.ledger().lost_in_all());
        WriteLosses {
            gave_way: of_stream + self.earlier.gave_way + self.writer.gave_way(),
            unwritten: self.earlier.unwritten + self.writer.unwritten(),
            has_failed: self.has_failed,
        }
    }

    /// Writes all that there is, and completes the log; a snapshot gets its name. Whether it has.
    fn finish(&mut self, types: &EventTypes, lost: &Ledger) -> bool {
        self.keep();
        self.count_losses(lost);
        self.drain(types);
        self.write_names(types);
        let status = FinalStatus {
            is_overrun: lost.lost_in_all() > self.lost_before,
            is_log_full: self.writer.is_full(),
            is_log_overrun: self.writer.take_overrun(),
            ..FinalStatus::default()
        };
        let result = self.writer.complete(types, lost, status);
        self.note(result);
        let Some((most, _)) = &self.snapshots else {
            return false;
        };
        if let Err(error) = snapshots::rotate(&self.path, *most) {
            self.has_failed = true;
            say(&format!(
                "cannot rename {} to a snapshot: {error}; it stays, and the trace ends",
                self.path.display()
            ));
            return false;
        }
        true
    }

    /// Begins another log, after the one that has become a snapshot. Returns whether there is one.
    fn begin_anew(&mut self, lost: &Ledger) -> bool {
        let Some((_, setup)) = &self.snapshots else {
            return false;
        };
        self.earlier.gave_way += self.writer.gave_way();
        self.earlier.unwritten += self.writer.unwritten();
        let made = output_file::open_log(&self.path).context("it cannot be made");
        let made = made.and_then(|(file, _)| {
            let new_file = NewFile::new(&self.path, &file);
            let mut writer = create(file, setup, clocks_now())?;
            // What was lost so far, the snapshot says.
            writer.count_losses(lost);
            writer.clear()?;
            Ok((writer, new_file))
        });
        match made {
            Ok((writer, new_file)) => {
                say(&format!(
                    "snapshot: {}",
                    snapshots::path(&self.path, 1).display()
                ));
                self.writer = writer;
                self.new_file = Some(new_file);
                self.lost_before = lost.lost_in_all();
                true
            }
            Err(error) => {
                self.has_failed = true;
                say(&format!(
                    "the trace ends, since there is no log for it after a snapshot: {}: {error:#}",
                    self.path.display()
                ));
                false
            }
        }
    }

    /// Retains the file: a trace has begun, and however it ends, what there is of it stays.
    fn keep(&mut self) {
        if let Some(file) = self.new_file.take() {
            file.keep();
        }
    }

    fn drain(&mut self, types: &EventTypes) {
        let Some(mut stream) = self.stream.take() else {
            return;
        };
        let mut record = std::mem::take(&mut self.record);
        loop {
            let next = stream.next(&mut record, monotonic_now);
            let held: Vec<_> = self.held.take_before(next.as_ref()).collect();
            for (header, record) in held {
                self.append(&header, &record, types);
            }
            let Some(header) = next else { break };
            self.append(&header, &record, types);
        }
        self.record = record;
        self.stream = Some(stream);
    }

    /// Writes an event that waited, with its record.
    fn append(&mut self, header: &EventHeader, record: &[u8], types: &EventTypes) {
        let (comm, data) = parts(header, record);
        let result = self.writer.append(header, data, comm, types);
        self.note(result);
    }

    /// Reports the first failure at once; what it cost is reported at the end.
    fn note(&mut self, result: Result<(), WriteError>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.has_failed, true)
        {
            say(&format!("cannot write {}: {error}", self.path.display()));
        }
    }
}

/// Returns the name of its thread and the data of an event that waited in the stream.
fn parts<'a>(header: &EventHeader, record: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    match record.split_first_chunk::<COMM_BYTES>() {
        Some((comm, data)) if !is_streams_own(header) => {
            let mut parts = comm.split(|byte| *byte == 0);
            (parts.next().unwrap_or_default(), data)
        }
        _ => (&[], record),
    }
}

/// Tells whether the event concerns a stream: it has no thread.
fn is_streams_own(header: &EventHeader) -> bool {
    header.event_type <= EventTypeId::FLUSH_STOP
}

/// State of the file found where the log is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// No file: it was made.
    Nothing,
    /// A file with nothing in it.
    Emptiness,
    /// A file with something in it.
    Content,
}

/// Opens the file, as it is there or made. Nothing of it is changed yet: another process may be
/// writing to it.
fn open(path: &Path) -> anyhow::Result<(File, Found)> {
    let file = output_file::open_log(path);
    let (file, is_new) = file.with_context(|| format!("cannot make {}", path.display()))?;
    let is_empty = file.metadata().is_ok_and(|data| data.len() == 0);
    let found = match (is_new, is_empty) {
        (true, _) => Found::Nothing,
        (false, true) => Found::Emptiness,
        (false, false) => Found::Content,
    };
    Ok((file, found))
}

/// Checks that a log's events have passed the same expression as those to come: it says one alone.
fn check_name(path: &Path, name: &str) -> anyhow::Result<()> {
    let Ok(log) = File::open(path).map(LogReader::open) else {
        return Ok(());
    };
    // A file that is none is refused by its writer.
    let Ok(log) = log else { return Ok(()) };
    let there = LogChoices::of_stream(log.header().attributes.name().as_bytes());
    let new = LogChoices::of_stream(name.as_bytes());
    let filters = [&there, &new].map(|choices| choices.filter.as_ref().map(|filter| &filter.text));
    let calls = [&there, &new].map(|choices| choices.calls.as_ref());
    for (option, [there, new]) in [("--filter", filters), ("--syscalls", calls)] {
        let words = |text: Option<&String>| match text {
            Some(text) => format!("with {option} {text:?}"),
            None => format!("without {option}"),
        };
        ensure!(
            there == new,
            "it was recorded {}, and this is a recording {}; give --log another name",
            words(there),
            words(new)
        );
    }
    Ok(())
}

/// Makes a log in the file, whose times count from `anchor`.
fn create(file: File, setup: &LogSetup, anchor: ClockPair) -> anyhow::Result<LogWriter> {
    let options = LogOptions {
        policy: setup.policy,
        max_size: setup.max_size,
    };
    let log = LogWriter::create(file, &header(setup, anchor), options);
    log.with_context(|| format!("cannot write a log to {}", setup.path.display()))
}

fn header(setup: &LogSetup, anchor: ClockPair) -> LogHeader {
    let attributes = attributes(anchor)
        .with_name(&setup.stream_name)
        .with_stream_full_policy(setup.stream_policy)
        .with_stream_min_size(setup.stream_bytes)
        .with_log_max_size(usize::try_from(setup.max_size).unwrap_or(usize::MAX))
        .with_log_full_policy(setup.policy)
        .with_inheritance(inheritance(setup.inherit));
    LogHeader { attributes, anchor }
}

/// Returns the attributes that all traces have, of one that began at `anchor`.
pub fn attributes(anchor: ClockPair) -> Attributes {
    Attributes::default()
        .with_name(STREAM_NAME)
        .with_max_data_size(usize::try_from(MAX_DATA_BYTES).unwrap_or(usize::MAX))
        .with_creation_time(anchor.realtime)
}

/// Returns the attribute that says whether children are traced too.
pub fn inheritance(inherits: bool) -> Inheritance {
    if inherits {
        Inheritance::Inherited
    } else {
        Inheritance::CloseForChild
    }
}

/// A file that was made just now; removed when this is dropped, unless it is to stay. So a trace
/// that could not begin leaves no file that would be in the way of the next attempt.
#[derive(Debug)]
struct NewFile {
    path: PathBuf,
    /// Device and inode: the name may lead to another file by then.
    identity: Option<(u64, u64)>,
}

impl NewFile {
    /// Returns the file at `path`, which is this one.
    fn new(path: &Path, file: &File) -> Self {
        Self {
            path: path.to_owned(),
            identity: file.metadata().ok().as_ref().map(file_identity),
        }
    }

    /// Lets the file stay.
    fn keep(mut self) {
        self.identity = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).ok();
        if self.identity.is_some() && there.as_ref().map(file_identity) == self.identity {
            // The failure that brought us here is what is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_identity(data: &Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_log_count_from_its_beginning_and_not_from_when_its_file_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let setup = LogSetup {
            path: folder.path().join("log"),
            existing: Existing::Stays,
            max_size: 0,
            policy: LogFullPolicy::Append,
            stream_policy: StreamFullPolicy::Flush,
            stream_bytes: 1 << 20,
            stream_name: "tracer-user".to_owned(),
            inherit: true,
            snapshots: None,
        };
        let (mut log, _) = LogOutput::open(&setup).unwrap();
        let at = MonotonicNs(clocks_now().monotonic.0 + 7_000_000_000);
        log.begin(at).unwrap();
        // It begins once.
        log.begin(MonotonicNs(1)).unwrap();
        let written = log.complete(&EventTypes::default(), &Ledger::default());
        assert!(!written.has_failed);
        let read = crate::open(&setup.path).unwrap();
        assert_eq!(crate::Log::header(&read).anchor.monotonic, at);
    }

    #[test]
    fn a_new_file_goes_unless_it_is_to_stay_or_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        drop(NewFile::new(&path, &File::create(&path).unwrap()));
        assert!(!path.exists());
        NewFile::new(&path, &File::create(&path).unwrap()).keep();
        assert!(path.exists());
        let file = NewFile::new(&path, &File::open(&path).unwrap());
        fs::rename(&path, folder.path().join("old")).unwrap();
        fs::write(&path, "another").unwrap();
        drop(file);
        assert!(path.exists());
    }
}
