//! Shipping: from the spool into the queue, from the queue into the store, and to the receiver.

use std::fs;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior};
use tracer_engine::event::RealtimeNs;
use tracer_tables::{TABLES, TableDefinition};
use tracer_text::WallClock;
use tracer_text::quantity::{size, time};
use tracer_text::say;

use crate::counts::{Cause, DropCount, DropCounts};
use crate::marker;
use crate::options::ShipArgs;
use crate::otlp::{Receiver, SendError};
use crate::queue::{QueuedSlice, SliceQueue, check_host, hex};
use crate::retry::Failures;
use crate::slice::{self, MadeTables, TableMessage};
use crate::spool::{Spool, Taken, is_temporary, set_aside};
use crate::store::{ObjectPart, Target, Upload};
use crate::words;

/// Interval between looks at the spool folder.
const TICK: Duration = Duration::from_secs(1);

/// Exit code where all was shipped but what is counted as dropped.
const DROPPED: u8 = 1;

/// Exit code where something could not be shipped.
const FAILED: u8 = 2;

/// Shipper of one spool folder.
struct Shipper {
    spool: Spool,
    counts: DropCounts,
    way: Arc<Way>,
    host: String,
    most_bytes: u64,
    /// Slice or counts that are being shipped.
    work: Option<Work>,
    /// Slices that failed, the last one at the end: others come before them.
    failed: Vec<String>,
}

/// Way that slices take.
struct Way {
    queue: SliceQueue,
    target: Target,
    receiver: Option<Receiver>,
}

/// Something that is being shipped.
struct Work {
    /// The slice; `None` for the counts.
    entry: Option<QueuedSlice>,
    /// Number of spans that were refused, at the end.
    going: Pin<Box<dyn Future<Output = Result<u64, Failure>>>>,
}

/// Reason for which a slice is not shipped.
enum Failure {
    /// The slice itself cannot be read.
    OfSlice(anyhow::Error),
    /// Anything else, which may be gone later.
    Other(anyhow::Error),
}

impl Failure {
    /// Returns the failure of reading a slice.
    fn of_reading(error: anyhow::Error) -> Self {
        if is_temporary(&error) {
            Self::Other(error)
        } else {
            Self::OfSlice(error)
        }
    }
}

/// Ships until it is told to end, or, with `--once`, what is there.
///
/// # Errors
///
/// An option makes no sense, or the spool folder cannot be used.
pub fn run(args: &ShipArgs) -> anyhow::Result<ExitCode> {
    // The only one there is; a second call would say so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let host = match &args.host {
        Some(host) => host.clone(),
        None => own_name()?,
    };
    check_host(&host)?;
    let timeout = time("--timeout", &args.timeout)?;
    let retry_most = time("--retry-most", &args.retry_most)?;
    let most_bytes = size("--queue-bytes", &args.queue_bytes, 1, u64::MAX)?;
    let receiver = args.otlp.as_deref().map(|url| Receiver::new(url, timeout));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .context("cannot start")?;
    runtime.block_on(async {
        let target = Target::open(&args.to, timeout)?;
        ensure!(
            args.spool.is_dir(),
            "--spool {} is no folder; make it, and have recorders write there",
            args.spool.display()
        );
        let queue = SliceQueue::open(&args.spool)?;
        let counts = DropCounts::open(queue.folder());
        let way = Way {
            queue,
            target,
            receiver: receiver.transpose()?,
        };
        let mut shipper = Shipper {
            spool: Spool::new(&args.spool, &host),
            counts,
            way: Arc::new(way),
            host,
            most_bytes,
            work: None,
            failed: Vec::new(),
        };
        shipper.end_removal()?;
        if args.once {
            return shipper.ship_once().await;
        }
        shipper.ship_on(retry_most).await
    })
}

/// Returns the name of this host.
fn own_name() -> anyhow::Result<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.context("cannot find the name of this host; give it by --host")?;
    Ok(name.trim().to_owned())
}

/// Signals that it is sent.
struct Signals {
    ends: [Signal; 2],
    wakes: Signal,
}

impl Signals {
    fn watch() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self {
            ends: [on(SignalKind::terminate())?, on(SignalKind::interrupt())?],
            wakes: on(SignalKind::user_defined1())?,
        })
    }

    /// Waits for a signal. Returns whether it is to end.
    async fn next(&mut self) -> bool {
        let [terminate, interrupt] = &mut self.ends;
        tokio::select! {
            _ = terminate.recv() => true,
            _ = interrupt.recv() => true,
            _ = self.wakes.recv() => false,
        }
    }
}

impl Shipper {
    /// Ships until a signal ends it. What is being shipped then is shipped anew at the next start.
    async fn ship_on(&mut self, retry_most: Duration) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::watch()?;
        let mut failures = Failures::default();
        let mut last_error = String::new();
        let mut not_before = Instant::now();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.work.is_none() && not_before <= Instant::now() {
                self.work = self.next_work()?;
            }
            tokio::select! {
                _ = ticks.tick() => {
                    self.take();
                }
                is_end = signals.next() => {
                    if is_end {
                        return Ok(ExitCode::SUCCESS);
                    }
                    not_before = Instant::now();
                    self.take();
                }
                outcome = go_on(&mut self.work) => match self.end_work(outcome) {
                    Ok(()) => {
                        failures.end();
                        if !std::mem::take(&mut last_error).is_empty() {
                            say("what waits is being shipped again");
                        }
                    }
                    Err(error) => {
                        not_before = Instant::now() + failures.wait(retry_most, rand::random());
                        let text = words(&error);
                        if text != last_error {
                            say(&format!("{text}; it is tried again"));
                            last_error = text;
                        }
                    }
                },
            }
        }
    }

    /// Ships what is there, each slice tried once.
    async fn ship_once(&mut self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::watch()?;
        let mut taken = self.take();
        while taken.is_any_fresh {
            tokio::time::sleep(TICK / 4).await;
            taken = self.take();
        }
        let mut has_failed = taken.has_failed;
        loop {
            self.work = self.next_work()?;
            let is_tried = |entry: &QueuedSlice| self.failed.contains(&entry.slice);
            match &self.work {
                None => break,
                Some(work) if work.entry.as_ref().is_some_and(is_tried) => {
                    // The counts are still to be tried.
                    self.work = self.counts_work();
                    if self.work.is_none() {
                        break;
                    }
                }
                Some(_) => {}
            }
            let is_of_counts = self.work.as_ref().is_some_and(|work| work.entry.is_none());
            let outcome = tokio::select! {
                outcome = go_on(&mut self.work) => outcome,
                () = until_end(&mut signals) => return Ok(FAILED.into()),
            };
            if let Err(error) = self.end_work(outcome) {
                has_failed = true;
                say(&format!("{}; it stays in the queue", words(&error)));
                if is_of_counts {
                    break;
                }
            }
        }
        Ok(match (has_failed, self.counts.has_dropped()) {
            (true, _) => FAILED.into(),
            (false, true) => DROPPED.into(),
            (false, false) => ExitCode::SUCCESS,
        })
    }

    /// Takes what is ready in the spool, and has the oldest slices give way where the queue is
    /// full.
    fn take(&mut self) -> Taken {
        let taken = self.spool.take(&self.way.queue, &mut self.counts);
        let bounded = self.bound();
        self.counts.save();
        if let Err(error) = bounded {
            say(&words(&error));
        }
        taken.unwrap_or_else(|error| {
            self.spool.say_failure(&error);
            Taken {
                has_failed: true,
                ..Taken::default()
            }
        })
    }

    /// Removes what was counted as dropped when an earlier process ended.
    fn end_removal(&mut self) -> anyhow::Result<()> {
        let Some(name) = self.counts.removed() else {
            return Ok(());
        };
        // It is a file of the folder, whatever the counts say.
        let name = Path::new(name).file_name().unwrap_or_default();
        match fs::remove_file(self.way.queue.folder().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).context("cannot remove what an earlier process has dropped")
            }
            _ => Ok(()),
        }
    }

    /// Holds the queue within its bound: what cannot be read goes first, then the oldest.
    fn bound(&mut self) -> anyhow::Result<()> {
        let queue = &self.way.queue;
        let entries = queue.entries()?;
        let mut bytes = entries
            .iter()
            .fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes));
        self.spool
            .forget_unreadable(queue, self.most_bytes.saturating_sub(bytes));
        let mut dropped = 0_u64;
        for entry in &entries {
            let is_too_large = entry.bytes > self.most_bytes;
            let work = self.work.as_ref().and_then(|work| work.entry.as_ref());
            let is_being_shipped = work.is_some_and(|other| other.slice == entry.slice);
            if (bytes <= self.most_bytes && !is_too_large) || is_being_shipped {
                continue;
            }
            let cause = if is_too_large {
                Cause::LargerThanQueue
            } else {
                Cause::QueueFull
            };
            let count = if entry.is_stored {
                // Only its spans are still to be sent.
                DropCount::spans(slice::spans(&queue.path(entry), |_| Ok(())).unwrap_or(0))
            } else {
                DropCount::slice(entry.bytes)
            };
            self.counts.add_removed(cause, &entry.file_name(), count);
            queue
                .remove(entry)
                .with_context(|| format!("cannot remove {}", queue.path(entry).display()))?;
            bytes = bytes.saturating_sub(entry.bytes);
            dropped += 1;
        }
        if dropped > 0 {
            say(&format!(
                "{dropped} slices were dropped: more than --queue-bytes {} wait",
                self.most_bytes
            ));
        }
        Ok(())
    }

    /// Begins to ship the next slice, or else the counts, where there is something.
    fn next_work(&mut self) -> anyhow::Result<Option<Work>> {
        let mut entries = self.way.queue.entries()?;
        // One that fails, for whatever reason, holds no other one up.
        let turn = |entry: &QueuedSlice| {
            let mut failed = self.failed.iter();
            let position = failed.position(|slice| *slice == entry.slice);
            position.map_or(0, |position| position + 1)
        };
        entries.sort_by_key(turn);
        self.failed
            .retain(|slice| entries.iter().any(|entry| entry.slice == *slice));
        let Some(entry) = entries.into_iter().next() else {
            return Ok(self.counts_work());
        };
        let (way, of) = (Arc::clone(&self.way), entry.clone());
        let has_failed = !self.failed.is_empty();
        Ok(Some(Work {
            entry: Some(entry),
            going: Box::pin(async move {
                if has_failed && !of.is_stored {
                    way.target.ask().await.map_err(Failure::Other)?;
                }
                way.ship(of).await
            }),
        }))
    }

    /// Begins to ship the counts of what was dropped, where there are some.
    fn counts_work(&mut self) -> Option<Work> {
        let (number, counts) = self.counts.begin_shipping()?;
        let rows = marker::of_counts(&self.host, &counts);
        let newest = rows.iter().map(|row| row.date).max().unwrap_or(0);
        let folder = format!("date={}/host={}", day(RealtimeNs(newest)), self.host);
        let name = format!("dropped-{}", hex(&number.to_be_bytes()));
        let way = Arc::clone(&self.way);
        Some(Work {
            entry: None,
            going: Box::pin(async move {
                let put = way.put_rows(&rows, &folder, &name).await;
                put.map(|()| 0).map_err(Failure::Other)
            }),
        })
    }

    /// Notes how the work has ended.
    fn end_work(&mut self, outcome: Result<u64, Failure>) -> anyhow::Result<()> {
        let entry = self.work.take().and_then(|work| work.entry);
        match (outcome, entry) {
            (Ok(_), None) => self.counts.note_shipped(),
            (Ok(refused), Some(entry)) => {
                self.failed.retain(|slice| *slice != entry.slice);
                if refused > 0 {
                    self.counts
                        .add(Cause::OtlpRefused, DropCount::spans(refused));
                }
            }
            (Err(Failure::OfSlice(error)), Some(entry)) => {
                // It may be in the store by now.
                let queue = &self.way.queue;
                let stored = QueuedSlice {
                    is_stored: true,
                    ..entry.clone()
                };
                let path = [queue.path(&entry), queue.path(&stored)];
                let path = path.iter().find(|path| path.exists());
                let path = path.context("a slice is gone that could not be read")?;
                set_aside(queue, path, &mut self.counts, &error)?;
            }
            (Err(Failure::Other(error) | Failure::OfSlice(error)), entry) => {
                if let Some(entry) = entry {
                    self.failed.retain(|slice| *slice != entry.slice);
                    self.failed.push(entry.slice);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Goes on with the work; for ever where there is none.
async fn go_on(work: &mut Option<Work>) -> Result<u64, Failure> {
    match work {
        Some(work) => work.going.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Way {
    /// Ships a slice, and removes it from the queue. Returns how many of its spans were refused.
    async fn ship(&self, mut entry: QueuedSlice) -> Result<u64, Failure> {
        let other = |error: std::io::Error| Failure::Other(error.into());
        let (date, _) = slice::beginning(&self.queue.path(&entry)).map_err(Failure::of_reading)?;
        let folder = format!("date={}/host={}", day(date), entry.host);
        let mut has_spans = true;
        if !entry.is_stored {
            has_spans = self.store(&entry, &folder, date.0).await? > 0;
            if has_spans && self.receiver.is_some() {
                self.queue.note_stored(&mut entry).map_err(other)?;
            }
        }
        let mut refused = 0;
        if let Some(receiver) = self.receiver.as_ref().filter(|_| has_spans) {
            let link = format!("events/{folder}/{}.parquet", entry.slice);
            let link = self.target.url_of(&link);
            let sent = receiver.send(&self.queue.path(&entry), &entry, &link).await;
            refused = sent.map_err(|error| match error {
                SendError::OfSlice(error) => Failure::of_reading(error),
                SendError::OfReceiver(error) => Failure::Other(error),
            })?;
        }
        self.queue.remove(&entry).map_err(other)?;
        Ok(refused)
    }

    /// Puts all tables of a slice into the store, and the row that says so. Returns the number of
    /// spans.
    async fn store(&self, entry: &QueuedSlice, folder: &str, date: u64) -> Result<u64, Failure> {
        let mut tables = TABLES.to_vec();
        let (mut events, mut spans) = (None, 0);
        while !tables.is_empty() {
            let made = self.put_tables(entry, &tables, folder).await?;
            for (table, told) in made.tables {
                if table == TableDefinition::events() {
                    events = Some(told);
                } else if table.name == "spans" {
                    spans = told.rows;
                }
            }
            tables = made.put_off;
        }
        let events = events
            .context("there is no table of events")
            .map_err(Failure::Other)?;
        let row = marker::of_slice(entry, &events, date);
        self.put_rows(&[row], folder, &entry.slice)
            .await
            .map_err(Failure::Other)?;
        Ok(spans)
    }

    /// Puts those of these tables into the store that are made on one way through the slice.
    async fn put_tables(
        &self,
        entry: &QueuedSlice,
        tables: &[&'static TableDefinition],
        folder: &str,
    ) -> Result<MadeTables, Failure> {
        // Of the parts that were made, one waits, and one is being put.
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let making = tokio::task::spawn_blocking({
            let (path, of) = (self.queue.path(entry), entry.clone());
            let tables = tables.to_vec();
            move || slice::make_tables(&path, &of, &tables, &sender)
        });
        let mut uploads = Uploads {
            uploads: Vec::new(),
            receiver,
        };
        let put = uploads.take_all(&self.target, folder, &entry.slice).await;
        // Who makes more ends then.
        drop(uploads.receiver);
        for (_, mut upload) in uploads.uploads {
            upload.give_up().await;
        }
        let made = making.await.context("the tables cannot be made");
        match (put, made.map_err(Failure::Other)?) {
            (Ok(()), Ok(made)) => Ok(made),
            // That the rest was not taken is the consequence.
            (Err(error), _) => Err(Failure::Other(error)),
            (Ok(()), Err(error)) => Err(Failure::of_reading(error)),
        }
    }

    async fn put_rows(
        &self,
        rows: &[marker::ShipRow],
        folder: &str,
        name: &str,
    ) -> anyhow::Result<()> {
        let file = marker::file(rows).context("cannot make the rows of ship")?;
        let name = format!("ship/{folder}/{name}.parquet");
        self.target.put(&name, file.into()).await
    }
}

/// Objects of a slice that are being put.
struct Uploads<'a> {
    /// Those that have begun and are not whole.
    uploads: Vec<(&'static TableDefinition, Upload<'a>)>,
    receiver: tokio::sync::mpsc::Receiver<(&'static TableDefinition, TableMessage)>,
}

impl<'a> Uploads<'a> {
    /// Puts parts, as they come, until there are no more.
    async fn take_all(
        &mut self,
        target: &'a Target,
        folder: &str,
        slice: &str,
    ) -> anyhow::Result<()> {
        while let Some((table, message)) = self.receiver.recv().await {
            let begun = self.uploads.iter().position(|(of, _)| *of == table);
            let mut upload = match begun {
                Some(index) => self.uploads.swap_remove(index).1,
                None => target.upload(&format!("{}/{folder}/{slice}.parquet", table.name)),
            };
            let is_last = matches!(message, TableMessage::Part(ObjectPart::Last(_)));
            let put = match message {
                TableMessage::Part(part) => upload.put(part).await,
                TableMessage::PutOff => {
                    upload.give_up().await;
                    continue;
                }
            };
            if !is_last || put.is_err() {
                self.uploads.push((table, upload));
            }
            put?;
        }
        Ok(())
    }
}

async fn until_end(signals: &mut Signals) {
    while !signals.next().await {}
}

/// Returns the day of a date, in UTC, as names have it: `2026-11-27`.
fn day(date: RealtimeNs) -> String {
    let mut text = Vec::new();
    WallClock::default().push_date(&mut text, date);
    String::from_utf8_lossy(text.get(..10).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_date() {
        // As `date -u -d @SECONDS +%F` says.
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_795_737_599, "2026-11-26"),
            (1_795_737_600, "2026-11-27"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(RealtimeNs(seconds * 1_000_000_000)), expected);
        }
    }
}
