//! Counts of what was dropped, by cause, until a row in the store says so.
//!
//! They are in a file whose space is there from the first start on, so that they can be written
//! when the disk is full. It has two places, each with its checksum: the older one is written over,
//! so a crash leaves the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tracer_text::say;

/// Bytes of a place.
const PLACE_BYTES: u64 = 2048;

/// Reason for which something was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The queue was full: the oldest slice gave way.
    QueueFull,
    /// A slice is larger than the queue may be.
    LargerThanQueue,
    /// A slice cannot be read.
    Unreadable,
    /// The receiver of spans refused them for good.
    OtlpRefused,
    /// The counts themselves were damaged: what they said is not known.
    CountsDamaged,
}

impl Cause {
    /// Returns its name, as rows have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::LargerThanQueue => "larger_than_queue",
            Self::Unreadable => "unreadable",
            Self::OtlpRefused => "otlp_refused",
            Self::CountsDamaged => "counts_damaged",
        }
    }
}

/// Count of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCount {
    /// Slices.
    pub slices: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Spans.
    pub spans: u64,
    /// Date of the newest [ns since 1970].
    pub date: u64,
}

impl DropCount {
    /// Returns the count of a slice.
    pub fn slice(bytes: u64) -> Self {
        Self {
            slices: 1,
            bytes,
            ..Self::default()
        }
    }

    /// Returns the count of spans.
    pub fn spans(spans: u64) -> Self {
        Self {
            spans,
            ..Self::default()
        }
    }
}

/// Counts by cause.
pub type ByCause = BTreeMap<Cause, DropCount>;

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// Number of times that it was written.
    number: u64,
    /// Counts since those that are being shipped.
    counts: ByCause,
    /// Counts that are being shipped, and a number that no other ones have.
    shipped: Option<(u64, ByCause)>,
    /// Name of the file of what is counted, which is about to be removed.
    removed: Option<String>,
}

/// Counts, which outlast this process.
#[derive(Debug)]
pub struct DropCounts {
    path: PathBuf,
    file: Option<File>,
    content: Content,
    is_saved: bool,
    has_said: bool,
    has_dropped: bool,
}

impl DropCounts {
    /// Opens the counts in the queue's folder.
    pub fn open(folder: &Path) -> Self {
        let path = folder.join("counts");
        let mut counts = Self {
            path,
            file: None,
            content: Content::default(),
            is_saved: true,
            has_said: false,
            has_dropped: false,
        };
        match File::options().read(true).write(true).open(&counts.path) {
            Ok(file) => {
                match newest(&file) {
                    Some(content) => counts.content = content,
                    None => {
                        say(&format!(
                            "{} is damaged: how much was dropped before is not known",
                            counts.path.display()
                        ));
                        counts.count(Cause::CountsDamaged, DropCount::default());
                    }
                }
                counts.file = Some(file);
            }
            // Made now, while there may be space.
            Err(_) => counts.is_saved = false,
        }
        counts.save();
        counts
    }

    /// Counts something that is dropped.
    pub fn add(&mut self, cause: Cause, count: DropCount) {
        self.count(cause, count);
        self.save();
    }

    /// Counts something whose file is about to be removed: once, even if this process ends before
    /// it is.
    pub fn add_removed(&mut self, cause: Cause, name: &str, count: DropCount) {
        self.content.removed = Some(name.to_owned());
        self.add(cause, count);
    }

    /// Tells whether this process has counted something.
    pub fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// Returns the file of what was counted, which may still be there.
    pub fn removed(&self) -> Option<&str> {
        self.content.removed.as_deref()
    }

    /// Returns the counts that are to be shipped, with the number that is theirs: the same until
    /// [`note_shipped`](Self::note_shipped).
    pub fn begin_shipping(&mut self) -> Option<(u64, ByCause)> {
        if self.content.shipped.is_none() && !self.content.counts.is_empty() {
            let counts = std::mem::take(&mut self.content.counts);
            self.content.shipped = Some((now(), counts));
            self.is_saved = false;
            self.save();
        }
        self.content.shipped.clone()
    }

    /// Notes that those are in the store.
    pub fn note_shipped(&mut self) {
        self.content.shipped = None;
        self.is_saved = false;
        self.save();
    }

    fn count(&mut self, cause: Cause, more: DropCount) {
        let count = self.content.counts.entry(cause).or_default();
        count.slices = count.slices.saturating_add(more.slices);
        count.bytes = count.bytes.saturating_add(more.bytes);
        count.spans = count.spans.saturating_add(more.spans);
        count.date = now();
        self.has_dropped = true;
        self.is_saved = false;
    }

    /// Writes the counts, if they are not written yet. What cannot be written is tried again at
    /// the next call.
    pub fn save(&mut self) {
        if self.is_saved {
            return;
        }
        match self.write() {
            Ok(()) => (self.is_saved, self.has_said) = (true, false),
            Err(error) => {
                if !std::mem::replace(&mut self.has_said, true) {
                    say(&format!(
                        "cannot write {}: {error}; what is dropped is counted in memory until it can be",
                        self.path.display()
                    ));
                }
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => make(&self.path)?,
        };
        self.content.number += 1;
        let written = put(&file, &self.content);
        self.file = Some(file);
        written
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Makes the file with all its space.
fn make(path: &Path) -> io::Result<File> {
    let new = path.with_extension("new");
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&new)?;
    for place in 0..2 {
        put_in(&file, place, &Content::default())?;
    }
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    Ok(file)
}

fn put(file: &File, content: &Content) -> io::Result<()> {
    put_in(file, content.number % 2, content)?;
    file.sync_data()
}

fn put_in(file: &File, place: u64, content: &Content) -> io::Result<()> {
    let json = serde_json::to_vec(content).map_err(io::Error::other)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&crc32c::crc32c(&json).to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&json);
    let whole = usize::try_from(PLACE_BYTES).map_err(io::Error::other)?;
    if bytes.len() > whole {
        return Err(io::Error::other("they are too long"));
    }
    bytes.resize(whole, 0);
    file.write_all_at(&bytes, place * PLACE_BYTES)
}

fn newest(file: &File) -> Option<Content> {
    let places = (0..2).filter_map(|place| get(file, place));
    places.max_by_key(|content| content.number)
}

fn get(file: &File, place: u64) -> Option<Content> {
    let mut bytes = vec![0; usize::try_from(PLACE_BYTES).ok()?];
    file.read_exact_at(&mut bytes, place * PLACE_BYTES).ok()?;
    let (sum, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let json = rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    if crc32c::crc32c(json) != u32::from_le_bytes(*sum) {
        return None;
    }
    serde_json::from_slice(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(counts: &DropCounts, cause: Cause) -> Option<(u64, u64)> {
        let count = counts.content.counts.get(&cause)?;
        Some((count.slices, count.bytes))
    }

    #[test]
    fn counts_outlast_the_process_and_are_shipped_under_one_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut counts = DropCounts::open(folder.path());
        assert_eq!(counts.begin_shipping(), None);
        counts.add_removed(Cause::QueueFull, "a.slice", DropCount::slice(100));
        counts.add(Cause::QueueFull, DropCount::slice(11));
        let mut counts = DropCounts::open(folder.path());
        assert_eq!(count(&counts, Cause::QueueFull), Some((2, 111)));
        assert_eq!(counts.removed(), Some("a.slice"));
        let first = counts.begin_shipping().unwrap();
        counts.add(Cause::Unreadable, DropCount::slice(5));
        let mut counts = DropCounts::open(folder.path());
        assert_eq!(counts.begin_shipping().unwrap(), first);
        counts.note_shipped();
        let mut counts = DropCounts::open(folder.path());
        let second = counts.begin_shipping().unwrap();
        assert_ne!(second.0, first.0);
        assert_eq!(second.1.keys().collect::<Vec<_>>(), [&Cause::Unreadable]);
    }

    #[test]
    fn of_a_damaged_place_the_other_one_counts_and_of_two_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut counts = DropCounts::open(folder.path());
        (0..3).for_each(|_| counts.add(Cause::QueueFull, DropCount::slice(1)));
        let newest = counts.content.number % 2;
        let file = File::options().write(true).open(&counts.path).unwrap();
        file.write_all_at(b"#", newest * PLACE_BYTES + 20).unwrap();
        let counts = DropCounts::open(folder.path());
        assert_eq!(count(&counts, Cause::QueueFull), Some((2, 2)));
        for place in 0..2 {
            file.write_all_at(b"#", place * PLACE_BYTES + 20).unwrap();
        }
        let counts = DropCounts::open(folder.path());
        assert_eq!(count(&counts, Cause::CountsDamaged), Some((0, 0)));
        assert_eq!(count(&counts, Cause::QueueFull), None);
    }

    #[test]
    fn all_causes_with_the_largest_counts_have_space() {
        let most = DropCount {
            slices: u64::MAX,
            bytes: u64::MAX,
            spans: u64::MAX,
            date: u64::MAX,
        };
        let causes = [
            Cause::QueueFull,
            Cause::LargerThanQueue,
            Cause::Unreadable,
            Cause::OtlpRefused,
            Cause::CountsDamaged,
        ];
        let counts: ByCause = causes.into_iter().map(|cause| (cause, most)).collect();
        let content = Content {
            number: u64::MAX,
            counts: counts.clone(),
            shipped: Some((u64::MAX, counts)),
            removed: Some("x".repeat(255)),
        };
        let folder = tempfile::tempdir().unwrap();
        let file = make(&folder.path().join("counts")).unwrap();
        put(&file, &content).unwrap();
        assert_eq!(newest(&file), Some(content));
    }
}
