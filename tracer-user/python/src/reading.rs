//! Going through a log in a thread of its own, which is a batch ahead at most.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use pyo3::prelude::*;
use tracer_answers::queries::Following;
use tracer_event::consumer::Consumer as _;
use tracer_event::summary::Summary;
use tracer_log::LogReader;
use tracer_log_view::{Pause, Walk, WantedEvents, Writers, open};
use tracer_tables::{RowBatch, TableMaker, TableSetup};

use crate::failure::exception;

/// Setup of a way through a log.
#[derive(Clone)]
pub struct LogReading {
    /// The log.
    pub path: Arc<Path>,
    /// Events of it that are wanted.
    pub wanted: WantedEvents,
    /// Table that is made of them.
    pub setup: TableSetup,
    /// Whether to wait for events that are still to be written.
    pub follow: bool,
}

/// Message of the thread that reads.
enum Message {
    /// The next rows.
    RowBatch(Box<RowBatch>),
    /// End of the log, and what its reader should know.
    End(Option<String>),
    /// The log cannot be read further.
    Failed(anyhow::Error),
}

/// Batches that come.
pub struct Batches(Option<Receiver<Message>>);

/// Interval between looks at a log that is being written, and at whether to go on.
const TICK: Duration = Duration::from_millis(50);

/// Events between two looks at whether to go on.
const AT_ONCE: usize = 4096;

impl LogReading {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// There is no thread for it.
    pub fn start(&self) -> anyhow::Result<Batches> {
        // The reader waits until its batch is taken: so there are two at most.
        let (sender, receiver) = sync_channel(0);
        let reading = self.clone();
        let thread = thread::Builder::new().name("tracer-read".to_owned());
        thread
            .spawn(move || {
                let end = match reading.read(&sender) {
                    Ok(warning) => Message::End(warning),
                    Err(error) => Message::Failed(error),
                };
                // There is no taker any more: so be it.
                let _ = sender.send(end);
            })
            .context("cannot start the thread that reads the log")?;
        Ok(Batches(Some(receiver)))
    }

    fn read(&self, sender: &SyncSender<Message>) -> anyhow::Result<Option<String>> {
        let wanted = self.wanted.settled_in(&self.path)?;
        let mut walk = Walk::new(open(&self.path)?, wanted).naming_by(&self.path);
        let mut maker = TableMaker::new(&self.setup, |batch| hand_over(batch, sender));
        let mut following = Following::default();
        let writers = self.follow.then(|| Writers::open(&self.path));
        loop {
            // Asked for first: what was written before is read below.
            let is_over = writers
                .as_ref()
                .is_none_or(|writers| writers.have_ended() || walk.log().final_status().is_some());
            let mut pause = Pause::Midway;
            while pause == Pause::Midway {
                pause = following.go_on(&mut walk, AT_ONCE, &mut maker)?;
            }
            if is_over || pause == Pause::Enough {
                break;
            }
            maker.flush()?;
            thread::sleep(TICK);
        }
        walk.finish(|view| maker.event(view))?;
        following.end(&walk, &mut maker);
        let summary = walk.summary();
        maker.end(&summary)?;
        Ok(warning(&walk, &summary))
    }
}

/// Gives a batch to its taker. While that is busy, renders what it would have to.
fn hand_over(batch: RowBatch, sender: &SyncSender<Message>) -> anyhow::Result<()> {
    const AT_ONCE: usize = 512;
    let mut batch = Box::new(batch);
    loop {
        match sender.try_send(Message::RowBatch(batch)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(Message::RowBatch(back))) => batch = back,
            Err(_) => bail!(NO_TAKER),
        }
        if !batch.render(AT_ONCE) {
            return sender.send(Message::RowBatch(batch)).context(NO_TAKER);
        }
    }
}

const NO_TAKER: &str = "nothing takes the rows any more";

/// Returns what is missing, for people; `None` where nothing is.
fn warning(walk: &Walk<LogReader>, summary: &Summary) -> Option<String> {
    let log = summary.log.unwrap_or_default();
    let mut parts = Vec::new();
    if !log.is_whole() {
        parts.push(format!(
            "the log is damaged at {} sites ({} bytes, {} packets missing): what could be read is there",
            log.damage.sites, log.damage.bytes, log.damage.packets_missing
        ));
    }
    let lost = summary.lost_by_tracer();
    if lost > 0 {
        parts.push(format!("{lost} events were lost while it was recorded"));
    }
    if !log.is_completed && parts.is_empty() {
        parts.push("the log was not completed: the events written last may be missing".to_owned());
    }
    for name in walk.names_without_events() {
        parts.push(format!(
            "no event was of type {:?}",
            String::from_utf8_lossy(name)
        ));
    }
    (!parts.is_empty()).then(|| format!("{}; log.losses() has what is known", parts.join("; ")))
}

impl Batches {
    /// Returns the next batch; `None` at the end, which may bring a warning.
    ///
    /// # Errors
    ///
    /// The log cannot be read, the warning is an error, or the user has interrupted it.
    pub fn next(&mut self) -> PyResult<Option<RowBatch>> {
        let Some(receiver) = &self.0 else {
            return Ok(None);
        };
        let message = loop {
            match receiver.recv_timeout(TICK) {
                Ok(message) => break message,
                Err(RecvTimeoutError::Timeout) => interruption()?,
                Err(RecvTimeoutError::Disconnected) => break Message::End(None),
            }
        };
        match message {
            Message::RowBatch(mut batch) => {
                batch.render(usize::MAX);
                Ok(Some(*batch))
            }
            Message::End(warning) => {
                self.0 = None;
                let warned = warning.and_then(|text| Python::try_attach(|py| warn(py, &text)));
                warned.transpose()?;
                Ok(None)
            }
            Message::Failed(error) => {
                self.0 = None;
                Err(exception(&error))
            }
        }
    }
}

/// Fails where the user has interrupted the thread that handles that, which is the main one.
/// Another thread asks nothing: who waits for it may hold Python's lock.
fn interruption() -> PyResult<()> {
    let this = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let is_main = this.file_name() == this.iter().next();
    let checked = is_main.then(|| Python::try_attach(|py| py.check_signals()));
    checked.flatten().transpose().map(drop)
}

/// Warns, as `tracer.TracerWarning`.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let class = py.import("tracer._errors")?.getattr("TracerWarning")?;
    let warn = py.import("warnings")?.getattr("warn")?;
    warn.call1((text, class, 2)).map(drop)
}
