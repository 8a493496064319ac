//! The folder into which recorders put slices.
//!
//! A slice is taken once it is complete and has not changed for a moment: who waits for it, as
//! `tracer-user snapshot` does, sees it there. What is taken has another name at once, so that a
//! recorder that renames its snapshots meanwhile loses none and gets none twice.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use tracer_log::{LogReader, OpenError, clocks_now};
use tracer_log_view::Writers;
use tracer_text::say;

use crate::counts::{Cause, DropCount, DropCounts};
use crate::queue::{QueuedSlice, SliceQueue, name_of};
use crate::slice;
use crate::words;

/// Time in which a slice must not have changed.
const SETTLED: Duration = Duration::from_secs(1);

/// Difference of clocks that shows that one was set, or that it was another boot, in nanoseconds.
const OTHER_CLOCK_NS: u64 = 2_000_000_000;

/// Names of what is taken, until it is in the queue.
const TAKEN: &str = "taken.";

/// Folder of the queue for what cannot be read.
const UNREADABLE: &str = "unreadable";

/// Spool folder.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    host: String,
    /// Files that were seen, how they were, and since when.
    seen: HashMap<OsString, (Identity, Instant)>,
    /// Files of which it was said why they stay.
    said: HashMap<OsString, Identity>,
    next: u64,
    /// Failure of the folder that was said last.
    failure: String,
}

/// Properties that change when a file does.
type Identity = (u64, u64, u64, i64, i64);

fn identity(data: &Metadata) -> Identity {
    (
        data.dev(),
        data.ino(),
        data.len(),
        data.mtime(),
        data.mtime_nsec(),
    )
}

/// Outcome of taking slices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Whether some will soon be ready.
    pub is_any_fresh: bool,
    /// Whether some could not be read or taken.
    pub has_failed: bool,
}

/// State of a file in the spool folder.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Slice to be taken.
    Slice,
    /// Slice that is not complete yet, or may be still written.
    Unfinished,
    /// No log at all.
    Other,
}

impl Spool {
    /// Opens the folder.
    pub fn new(folder: &Path, host: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            host: host.to_owned(),
            seen: HashMap::new(),
            said: HashMap::new(),
            next: 0,
            failure: String::new(),
        }
    }

    /// Takes all slices that are ready into the queue.
    ///
    /// # Errors
    ///
    /// The folder cannot be read or changed.
    pub fn take(&mut self, queue: &SliceQueue, counts: &mut DropCounts) -> anyhow::Result<Taken> {
        // First of all: what an earlier process has taken has names that are not given again.
        self.add_taken(queue, counts)?;
        let cannot = || format!("cannot read {}", self.folder.display());
        let mut outcome = Taken::default();
        let mut seen = HashMap::new();
        let files: Vec<_> = fs::read_dir(&self.folder)
            .with_context(cannot)?
            .collect::<Result<_, _>>()
            .with_context(cannot)?;
        for file in files {
            // A link is not followed: it might lead anywhere.
            let Ok(data) = file.metadata() else {
                continue;
            };
            if !data.is_file() || data.len() == 0 {
                continue;
            }
            let (name, path) = (file.file_name(), file.path());
            let now = (identity(&data), Instant::now());
            let since = match self.seen.get(&name) {
                Some(before) if before.0 == now.0 => *before,
                _ => now,
            };
            if !is_settled(&data) && since.1.elapsed() < SETTLED {
                outcome.is_any_fresh = true;
                seen.insert(name, since);
                continue;
            }
            seen.insert(name.clone(), since);
            match look_at(&path) {
                Ok(Found::Slice) => {
                    self.next += 1;
                    let taken = queue.folder().join(format!("{TAKEN}{}", self.next));
                    match fs::rename(&path, &taken) {
                        // A recorder has renamed it: it is found again.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        renamed => renamed.with_context(|| {
                            format!(
                                "cannot take {}; may this user change its folder?",
                                path.display()
                            )
                        })?,
                    }
                }
                Ok(Found::Unfinished) => {}
                Ok(Found::Other) => self.say_once(&name, &data, "is no log, and stays"),
                Err(error) => {
                    outcome.has_failed = true;
                    let text = format!("cannot be read, and stays: {}", words(&error));
                    self.say_once(&name, &data, &text);
                }
            }
        }
        self.seen = seen;
        self.said.retain(|name, _| {
            let is_taken = name.to_str().is_some_and(|name| name.starts_with(TAKEN));
            is_taken || self.seen.contains_key(name)
        });
        outcome.has_failed |= !self.add_taken(queue, counts)?;
        Ok(outcome)
    }

    /// Adds what was taken to the queue, that of an earlier process too. Tells whether all could be
    /// read.
    fn add_taken(&mut self, queue: &SliceQueue, counts: &mut DropCounts) -> anyhow::Result<bool> {
        let mut is_read = true;
        let cannot = || format!("cannot read {}", queue.folder().display());
        for file in fs::read_dir(queue.folder()).with_context(cannot)? {
            let file = file.with_context(cannot)?;
            let name = file.file_name();
            let Some(number) = name.to_str().and_then(|name| name.strip_prefix(TAKEN)) else {
                continue;
            };
            self.next = self.next.max(number.parse().unwrap_or(0));
            let path = file.path();
            // A recorder may have begun another log under the name before it was taken.
            if look_at(&path).is_ok_and(|found| found == Found::Unfinished) {
                continue;
            }
            match self.entry(&path) {
                Ok(entry) => queue
                    .add(&path, &entry)
                    .with_context(|| format!("cannot rename {}", path.display()))?,
                Err(error) if is_temporary(&error) => {
                    let data = file.metadata().with_context(cannot)?;
                    is_read = false;
                    let text = format!("cannot be read now: {}", words(&error));
                    self.say_once(&name, &data, &text);
                }
                Err(error) => set_aside(queue, &path, counts, &error)?,
            }
        }
        Ok(is_read)
    }

    fn entry(&self, path: &Path) -> anyhow::Result<QueuedSlice> {
        let mut file = File::open(path)?;
        let data = file.metadata()?;
        let slice = name_of(&mut file)?;
        // It counts on it from now on.
        file.sync_all()?;
        let (_, distance) = slice::beginning(path)?;
        Ok(QueuedSlice {
            slice,
            boot_id: boot_of(distance),
            host: self.host.clone(),
            is_stored: false,
            bytes: data.len(),
            changed: data.modified()?,
        })
    }

    /// Says, once, why the folder cannot be used.
    pub fn say_failure(&mut self, error: &anyhow::Error) {
        let text = words(error);
        if text != self.failure {
            say(&text);
            self.failure = text;
        }
    }

    /// Removes what cannot be read, the oldest first, where it has more than `most` bytes.
    pub fn forget_unreadable(&self, queue: &SliceQueue, most: u64) {
        let Ok(files) = fs::read_dir(queue.folder().join(UNREADABLE)) else {
            return;
        };
        let files = files.filter_map(|file| file.ok());
        let mut files: Vec<_> = files
            .filter_map(|file| Some((file.metadata().ok()?, file.path())))
            .collect();
        files.sort_by_key(|(data, _)| std::cmp::Reverse((data.mtime(), data.ino())));
        let mut bytes = 0_u64;
        for (data, path) in files {
            bytes = bytes.saturating_add(data.len());
            // It was counted when it came there.
            if bytes > most {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn say_once(&mut self, name: &OsString, data: &Metadata, what: &str) {
        let identity = identity(data);
        if self.said.insert(name.clone(), identity) != Some(identity) {
            let path = self.folder.join(name);
            say(&format!("{} {what}", path.display()));
        }
    }
}

/// Moves a slice that cannot be read to where it is in no way, and counts it.
///
/// # Errors
///
/// It cannot be counted or moved.
pub fn set_aside(
    queue: &SliceQueue,
    path: &Path,
    counts: &mut DropCounts,
    why: &anyhow::Error,
) -> anyhow::Result<()> {
    let folder = queue.folder().join(UNREADABLE);
    let cannot = || format!("cannot move {} to {}", path.display(), folder.display());
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(cannot);
        }
        _ => {}
    }
    let data = fs::metadata(path).with_context(cannot)?;
    let aside = folder.join(format!("{}-{}", data.ino(), data.mtime()));
    say(&format!(
        "a slice of {} bytes cannot be read, and is not shipped: {}; it is {}",
        data.len(),
        words(why),
        aside.display()
    ));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    counts.add_removed(Cause::Unreadable, &name, DropCount::slice(data.len()));
    fs::rename(path, aside).with_context(cannot)
}

/// Tells whether an error may be gone at the next attempt, and says nothing about the slice.
pub fn is_temporary(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| {
            // Those are of this process, or of the disk.
            !matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            )
        })
    })
}

/// Tells whether a file has not changed for a moment, by its dates; those of the future say
/// nothing.
fn is_settled(data: &Metadata) -> bool {
    let nanoseconds = u32::try_from(data.ctime_nsec()).unwrap_or(0);
    let changed = u64::try_from(data.ctime()).map(|seconds| Duration::new(seconds, nanoseconds));
    changed.is_ok_and(|changed| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed);
        since.is_ok_and(|since| since >= SETTLED)
    })
}

fn look_at(path: &Path) -> anyhow::Result<Found> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)?;
    let is_own = file.metadata()?.uid() == effective_user();
    let is_completed = match LogReader::open(file) {
        Ok(log) => log.final_status().is_some(),
        Err(OpenError::NotALog) => return Ok(Found::Other),
        // It is taken, and counted.
        Err(OpenError::HeaderDamaged) => false,
        Err(error) => return Err(error.into()),
    };
    let have_writers_ended = Writers::open(path).have_ended();
    // Of another user's file the kernel does not say who writes to it.
    Ok(if have_writers_ended || (is_completed && !is_own) {
        Found::Slice
    } else {
        Found::Unfinished
    })
}

fn effective_user() -> u32 {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the boot of this host where a log is of that, by the distance of the clocks in it; not
/// where a clock was set since.
fn boot_of(distance: u64) -> Option<String> {
    let now = clocks_now();
    let here = now.realtime.0.wrapping_sub(now.monotonic.0);
    if here.abs_diff(distance) > OTHER_CLOCK_NS {
        return None;
    }
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}
