//! Logs of programs that emit sequences of events (`crash` and `flood` of `tests/programs`): the
//! data of each is its thread's index and its own among the events of that thread.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tracer_engine::source::LossCause;
use tracer_log::{FinalStatus, LogReader};

/// Threads of `crash`.
pub const THREADS: usize = 3;

/// Time that a log may take to be completed after its controller is gone.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the file in which the program notes what it has emitted.
///
/// # Errors
///
/// It cannot be made.
pub fn make_notes(path: &Path) -> anyhow::Result<()> {
    Ok(fs::write(path, vec![0; 4096])?)
}

/// The last sequence number that each thread noted.
///
/// # Errors
///
/// The notes cannot be read.
pub fn notes(path: &Path) -> anyhow::Result<Vec<u64>> {
    let bytes = fs::read(path)?;
    let sequences = bytes.chunks_exact(8).take(THREADS);
    sequences
        .map(|bytes| Ok(u64::from_ne_bytes(bytes.try_into()?)))
        .collect()
}

/// Content of a log.
#[derive(Debug, Default)]
pub struct Found {
    /// The sequence numbers of each thread, in the order in which they are in the log.
    pub sequences: BTreeMap<u32, Vec<u64>>,
    /// The names of the types of the other events, in order.
    pub others: Vec<String>,
    /// The status at the end.
    pub status: Option<FinalStatus>,
    /// Events that the log says it lost before they came into it.
    pub lost: u64,
    /// Events that gave way to others in the log, or could not be written.
    pub lost_in_log: u64,
}

impl Found {
    /// The first and the last sequence number of a thread, when none between is missing or comes
    /// twice.
    ///
    /// # Errors
    ///
    /// It is not so, or there is none.
    pub fn range(&self, thread: u32) -> anyhow::Result<(u64, u64)> {
        let sequences = self.sequences.get(&thread).map(Vec::as_slice);
        let [first, .., last] = sequences.unwrap_or_default() else {
            bail!("thread {thread} is not there, or as good as not");
        };
        for pair in sequences.unwrap_or_default().windows(2) {
            ensure!(
                pair[1] == pair[0] + 1,
                "thread {thread}: {} follows {}",
                pair[1],
                pair[0]
            );
        }
        Ok((*first, *last))
    }
}

/// Reads a log in which the events with sequence numbers have the type `event_type`. Nothing may be
/// damaged, and time must never go back.
///
/// # Errors
///
/// It is not so.
pub fn read(path: &Path, event_type: &str) -> anyhow::Result<Found> {
    let mut log = LogReader::open(File::open(path)?)?;
    let mut found = Found {
        status: log.final_status(),
        ..Found::default()
    };
    let types = log.event_types().clone();
    let mut time = 0;
    while let Some(record) = log.next_record()? {
        let header = record.event.header;
        ensure!(header.time.0 >= time, "time goes back");
        time = header.time.0;
        let name = String::from_utf8_lossy(types.name(header.event_type).unwrap_or_default());
        if name != event_type {
            found.others.push(name.into_owned());
            continue;
        }
        let data = record.event.data;
        let thread = data.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        let thread = thread.context("an event without data")?;
        let sequence = data.get(8..16).context("an event with too little data")?;
        let sequence = u64::from_ne_bytes(sequence.try_into()?);
        found.sequences.entry(thread).or_default().push(sequence);
    }
    let damage = log.damage();
    ensure!(damage.sites == 0, "{damage:?}");
    found.lost = LossCause::ALL.iter().map(|cause| log.lost(*cause)).sum();
    found.lost_in_log = log.lost_in_log();
    Ok(found)
}

/// Waits until a log is complete, and reads it.
///
/// # Errors
///
/// It is not completed in time, or is not right.
pub fn read_completed(path: &Path, event_type: &str) -> anyhow::Result<Found> {
    let since = Instant::now();
    loop {
        let log = LogReader::open(File::open(path)?);
        if log.is_ok_and(|log| log.final_status().is_some()) {
            return read(path, event_type);
        }
        ensure!(
            since.elapsed() < crate::timeout(TIMEOUT),
            "the log is not completed though its controller is gone"
        );
        thread::sleep(Duration::from_millis(2));
    }
}
