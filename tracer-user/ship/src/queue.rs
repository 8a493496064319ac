//! Slices that wait to be shipped: files, each with all that is to be known of it in its name, so
//! that a change is one renaming, which is done or is not, and needs no space on the disk.
//!
//! `SLICE.BOOT.HOST.slice` has to be shipped; `SLICE.BOOT.HOST.stored` is in the store, and its
//! spans are still to be sent.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

/// Slice that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedSlice {
    /// Name that its content gives it: 32 hexadecimal digits.
    pub slice: String,
    /// Boot in which it was recorded, where that is known.
    pub boot_id: Option<String>,
    /// Host on which it was recorded.
    pub host: String,
    /// Whether it is in the store.
    pub is_stored: bool,
    /// Bytes of its log.
    pub bytes: u64,
    /// Time of its last change: the oldest gives way.
    pub changed: SystemTime,
}

/// Extensions of names.
const WAITS: &str = "slice";
const STORED: &str = "stored";

/// Place of the boot where it is not known.
const NO_BOOT: &str = "-";

/// Digits of a slice's name.
const DIGITS: usize = 32;

impl QueuedSlice {
    /// Returns the name of its file.
    pub fn file_name(&self) -> String {
        let boot = self.boot_id.as_deref().unwrap_or(NO_BOOT);
        let extension = if self.is_stored { STORED } else { WAITS };
        format!("{}.{boot}.{}.{extension}", self.slice, self.host)
    }

    /// Reads the name of a file; `None` for that of no slice.
    fn parse(name: &str) -> Option<Self> {
        let (rest, extension) = name.rsplit_once('.')?;
        let is_stored = match extension {
            WAITS => false,
            STORED => true,
            _ => return None,
        };
        let mut parts = rest.splitn(3, '.');
        let (slice, boot, host) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_boot = |text: &str| text.len() == 36 && is_hex(&text.replace('-', ""));
        let is_name = slice.len() == DIGITS
            && is_hex(slice)
            && (boot == NO_BOOT || is_boot(boot))
            && check_host(host).is_ok();
        is_name.then(|| Self {
            slice: slice.to_owned(),
            boot_id: (boot != NO_BOOT).then(|| boot.to_owned()),
            host: host.to_owned(),
            is_stored,
            bytes: 0,
            changed: SystemTime::UNIX_EPOCH,
        })
    }
}

/// Checks the name of a host: it is a part of names of files and objects.
///
/// # Errors
///
/// It cannot be that.
pub fn check_host(host: &str) -> anyhow::Result<()> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    ensure!(
        (1..=128).contains(&host.len()) && host.bytes().all(is_fine) && !host.starts_with('.'),
        "the host's name {host:?} cannot be a part of objects' names; give --host a name of up to \
         128 letters, digits, '-', '_' and '.'"
    );
    Ok(())
}

/// Returns the name that the content of a log gives it.
///
/// # Errors
///
/// It cannot be read.
pub fn name_of(log: &mut File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => hash.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hex(&hash.finalize()).chars().take(DIGITS).collect())
}

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Queue, which belongs to this process as long as it is open.
#[derive(Debug)]
pub struct SliceQueue {
    folder: PathBuf,
    _lock: File,
}

impl SliceQueue {
    /// Opens the queue in a spool folder.
    ///
    /// # Errors
    ///
    /// It cannot be made, or another process has it.
    pub fn open(spool: &Path) -> anyhow::Result<Self> {
        let folder = spool.join(".queue");
        let cannot = || format!("cannot use {}", folder.display());
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(cannot);
            }
            _ => {}
        }
        let lock = File::open(&folder).with_context(cannot)?;
        // SAFETY: takes integers only.
        let locked = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        ensure!(
            locked == 0,
            "another process ships what is in {}; end it, or give --spool another folder",
            spool.display()
        );
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a slice.
    pub fn path(&self, entry: &QueuedSlice) -> PathBuf {
        self.folder.join(entry.file_name())
    }

    /// Lists the slices that wait, the oldest first.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn entries(&self) -> anyhow::Result<Vec<QueuedSlice>> {
        let cannot = || format!("cannot read {}", self.folder.display());
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.folder).with_context(cannot)? {
            let file = file.with_context(cannot)?;
            let entry = file.file_name().to_str().and_then(QueuedSlice::parse);
            let Some((entry, data)) = entry.zip(file.metadata().ok()) else {
                continue;
            };
            entries.push(QueuedSlice {
                bytes: data.len(),
                changed: data.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                ..entry
            });
        }
        entries.sort_by(|one, other| (one.changed, &one.slice).cmp(&(other.changed, &other.slice)));
        Ok(entries)
    }

    /// Adds a file of the queue's folder as a slice.
    ///
    /// # Errors
    ///
    /// It cannot be renamed.
    pub fn add(&self, file: &Path, entry: &QueuedSlice) -> io::Result<()> {
        fs::rename(file, self.path(entry))?;
        self.sync()
    }

    /// Notes that a slice is in the store.
    ///
    /// # Errors
    ///
    /// It cannot be renamed.
    pub fn note_stored(&self, entry: &mut QueuedSlice) -> io::Result<()> {
        let before = self.path(entry);
        entry.is_stored = true;
        fs::rename(before, self.path(entry))?;
        self.sync()
    }

    /// Removes a slice.
    ///
    /// # Errors
    ///
    /// It cannot be removed. That it is not there is none.
    pub fn remove(&self, entry: &QueuedSlice) -> io::Result<()> {
        match fs::remove_file(self.path(entry)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync(),
        }
    }

    /// Has names in the folder outlast a crash of the host.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str) -> QueuedSlice {
        QueuedSlice {
            slice: "0123456789abcdef0123456789abcdef".to_owned(),
            boot_id: Some("d9428888-122b-11e1-b85c-61cd3cbb3210".to_owned()),
            host: host.to_owned(),
            is_stored: false,
            bytes: 0,
            changed: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_name_says_all_and_other_names_nothing() {
        for host in ["a", "web-1.example.org", "x_1"] {
            for boot_id in [entry(host).boot_id, None] {
                for is_stored in [false, true] {
                    let entry = QueuedSlice {
                        boot_id: boot_id.clone(),
                        is_stored,
                        ..entry(host)
                    };
                    assert_eq!(QueuedSlice::parse(&entry.file_name()), Some(entry));
                }
            }
        }
        for name in [
            "",
            "a.slice",
            "counts",
            "taken.1",
            "x.-.h.slice",
            ".slice",
            "é.-.h.slice",
        ] {
            assert_eq!(QueuedSlice::parse(name), None, "{name}");
        }
        let good = entry("h").file_name();
        assert_eq!(QueuedSlice::parse(&good.replace("slice", "other")), None);
        assert_eq!(QueuedSlice::parse(&good.replacen('0', "/", 1)), None);
        for host in ["", ".", "..", "a/b", "a b", "a=b", &"x".repeat(129)] {
            assert!(check_host(host).is_err(), "{host}");
        }
    }

    #[test]
    fn a_queue_has_one_owner_and_its_slices_in_order() {
        let spool = tempfile::tempdir().unwrap();
        let queue = SliceQueue::open(spool.path()).unwrap();
        let second = SliceQueue::open(spool.path()).unwrap_err().to_string();
        assert!(second.contains("another process ships"), "{second}");
        let mut names = Vec::new();
        for content in ["b", "a"] {
            let taken = queue.folder().join("taken.1");
            fs::write(&taken, content).unwrap();
            let slice = name_of(&mut File::open(&taken).unwrap()).unwrap();
            names.push(slice.clone());
            let entry = QueuedSlice {
                slice,
                ..entry("h")
            };
            queue.add(&taken, &entry).unwrap();
            let age = std::time::Duration::from_secs(if content == "b" { 20 } else { 10 });
            let file = File::options()
                .write(true)
                .open(queue.path(&entry))
                .unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        let mut entries = queue.entries().unwrap();
        let found: Vec<_> = entries.iter().map(|entry| entry.slice.clone()).collect();
        assert_eq!(found, names);
        // As sha256sum has it.
        assert_eq!(found[0], "3e23e8160039594a33894f6564e1b134");
        queue.note_stored(&mut entries[0]).unwrap();
        assert!(queue.entries().unwrap()[0].is_stored);
        queue.remove(&entries[0]).unwrap();
        queue.remove(&entries[0]).unwrap();
        assert_eq!(queue.entries().unwrap(), entries[1..]);
    }
}
