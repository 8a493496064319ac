//! Output of a conversion so far, and the remains of one that was killed.
//!
//! A file has no name until it is whole, where the file system can do that: a killed conversion
//! leaves nothing. A folder must have a name, and a file of other file systems too. Those are
//! locked while their writer lives: one that no process has locked is abandoned, and the next
//! conversion to the same path removes it.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::output_file;

const SUFFIX: &str = ".partial";

/// Number of hexadecimal digits of the value, which no one can prepare for, such as by a link to
/// another file.
const DIGITS: usize = 16;

/// Folder in which a file without a name can be reached, to get one.
const DESCRIPTORS: &str = "/proc/self/fd";

/// Number of new names that are tried, where another process took the last for abandoned before it
/// was locked.
const ATTEMPTS: usize = 8;

/// File or folder without its final name. It is removed when this is dropped.
#[derive(Debug)]
pub struct Unfinished {
    state: State,
    /// Files that a folder may hold.
    files: &'static [&'static str],
}

#[derive(Debug)]
enum State {
    /// File that has no name.
    Unnamed(File),
    /// File or folder under a temporary name; it is locked.
    Named(PathBuf, File),
    /// Output with its final name.
    Done,
}

impl Unfinished {
    /// Creates a file that is to become `output`.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn file(output: &Path) -> io::Result<Self> {
        remove_abandoned(output, &[]);
        let can_be_named = Path::new(DESCRIPTORS).exists();
        match output_file::create_unnamed(folder_of(output)) {
            Ok(file) if can_be_named => Ok(Self {
                state: State::Unnamed(file),
                files: &[],
            }),
            // Not every file system can; whatever else is wrong, the other way says.
            _ => Self::named_file(output),
        }
    }

    fn named_file(output: &Path) -> io::Result<Self> {
        Self::named(output, &[], output_file::create_new)
    }

    /// Creates a folder that is to become `output`, for files of these names.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn folder(output: &Path, files: &'static [&'static str]) -> io::Result<Self> {
        remove_abandoned(output, files);
        Self::named(output, files, |path| {
            output_file::create_folder(path)?;
            open(path)
        })
    }

    fn named(
        output: &Path,
        files: &'static [&'static str],
        make: impl Fn(&Path) -> io::Result<File>,
    ) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let path = name_for(output);
            let made = make(&path)?;
            if lock(&made)? {
                let state = State::Named(path, made);
                return Ok(Self { state, files });
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Returns the file, to be written to.
    ///
    /// # Errors
    ///
    /// There are no descriptors left.
    pub fn writer(&self) -> io::Result<File> {
        match &self.state {
            State::Unnamed(file) | State::Named(_, file) => file.try_clone(),
            State::Done => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the temporary path of a folder.
    pub fn path(&self) -> &Path {
        match &self.state {
            State::Named(path, _) => path,
            State::Unnamed(_) | State::Done => Path::new(""),
        }
    }

    /// Gives it its name. Another file or folder of that name is replaced, or else it keeps the
    /// name.
    ///
    /// # Errors
    ///
    /// It cannot be named, or the name is taken.
    pub fn become_output(mut self, output: &Path, is_replaced: bool) -> io::Result<()> {
        if let State::Unnamed(file) = &self.state {
            if !is_replaced {
                link(file, output)?;
                self.state = State::Done;
                return Ok(());
            }
            // A link replaces nothing, and a rename needs a name.
            lock(file)?;
            let path = name_for(output);
            link(file, &path)?;
            let file = file.try_clone()?;
            self.state = State::Named(path, file);
        }
        let State::Named(path, _) = &self.state else {
            return Ok(());
        };
        match (is_replaced, self.files) {
            (true, []) => fs::rename(path, output)?,
            (true, files) => return replace_folder(path, output, files),
            (false, _) => match rename(path, output, libc::RENAME_NOREPLACE) {
                Err(error) if is_unknown(&error) => fs::rename(path, output)?,
                other => other?,
            },
        }
        self.state = State::Done;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let State::Named(path, _) = &self.state {
            // Whatever fails here, the failure that brought us here is what is reported.
            let _ = remove(path, self.files);
        }
    }
}

/// Removes the remains of killed conversions to `output`. Remains that cannot be removed do no
/// harm.
fn remove_abandoned(output: &Path, files: &[&str]) {
    let Some(name) = output.file_name() else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder_of(output)) else {
        return;
    };
    for entry in entries.flatten() {
        if is_for(&entry.file_name(), name)
            && let Ok(left) = open(&entry.path())
            && is_own(&left)
            && lock(&left).unwrap_or(false)
        {
            let _ = remove(&entry.path(), files);
        }
    }
}

/// Tells whether a name is one of those that [`name_for`] gives.
fn is_for(name: &OsStr, output: &OsStr) -> bool {
    let digits = name
        .as_bytes()
        .strip_prefix(output.as_bytes())
        .and_then(|rest| rest.strip_prefix(b"."))
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

fn name_for(output: &Path) -> PathBuf {
    let mut name = OsString::from(output.as_os_str());
    name.push(format!(".{:0DIGITS$x}{SUFFIX}", random()));
    PathBuf::from(name)
}

/// Returns an unpredictable value.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn folder_of(output: &Path) -> &Path {
    match output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // Neither a link nor the other end of a pipe is waited for.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}

/// Tells whether this program made it, or another one of this user: nothing of other users is
/// touched.
fn is_own(file: &File) -> bool {
    // SAFETY: the call has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    file.metadata().is_ok_and(|data| {
        (data.is_file() || data.is_dir())
            && output_file::ensure_ours(&data).is_ok()
            && (user == 0 || data.uid() == user)
    })
}

/// Locks it as long as it is open; returns `false` if another process holds it, or has removed it
/// meanwhile.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        // It can be written without: what is left of it when we are killed stays.
        Err(fs::TryLockError::Error(_)) => Ok(true),
    }
}

/// Removes a file, or a folder that holds nothing but these files.
fn remove(path: &Path, files: &[&str]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {}
        other => return other,
    }
    // By a descriptor: a link that replaces it meanwhile does not lead us elsewhere.
    let folder = open(path)?;
    for file in files {
        match unlink(&folder, file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(path)
}

fn unlink(folder: &File, name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: the name is a C string.
    succeeded(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) })
}

/// Links a file without a name to this path.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("{DESCRIPTORS}/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    let (here, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both are C strings.
    succeeded(unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), flags) })
}

fn rename(from: &Path, to: &Path, flags: libc::c_uint) -> io::Result<()> {
    let from = CString::new(from.as_os_str().as_bytes())?;
    let to = CString::new(to.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    // By the kernel itself: not every C library has the function.
    // SAFETY: both are C strings.
    succeeded(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            here,
            from.as_ptr(),
            here,
            to.as_ptr(),
            flags,
        )
    })
}

/// Replaces a folder. Both names exist all the time, where the file system can do that.
fn replace_folder(path: &Path, output: &Path, files: &[&str]) -> io::Result<()> {
    match rename(path, output, libc::RENAME_EXCHANGE) {
        Err(error) if is_unknown(&error) => {
            remove(output, files)?;
            fs::rename(path, output)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(path, output),
        Err(error) => Err(error),
        Ok(()) => remove(path, files),
    }
}

/// Tells whether the file system does not support the request.
fn is_unknown(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP)
    )
}

fn succeeded(result: impl Into<i64>) -> io::Result<()> {
    if result.into() == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    pub const FILES: &[&str] = &["metadata", "stream"];

    /// Returns the names in a folder.
    pub fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_no_name_until_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        for is_replaced in [false, true] {
            let before = names(folder.path());
            let file = Unfinished::file(&output).unwrap();
            file.writer().unwrap().write_all(b"whole").unwrap();
            assert_eq!(names(folder.path()), before);
            file.become_output(&output, is_replaced).unwrap();
            assert_eq!(names(folder.path()), ["out"]);
            assert_eq!(fs::read(&output).unwrap(), b"whole");
        }
    }

    #[test]
    fn where_files_need_a_name_it_is_one_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let file = Unfinished::named_file(&output).unwrap();
        let partial = names(folder.path());
        assert!(
            is_for(OsStr::new(&partial[0]), OsStr::new("out")),
            "{partial:?}"
        );
        drop(file);
        assert_eq!(names(folder.path()), [""; 0]);
        for is_replaced in [false, true] {
            let file = Unfinished::named_file(&output).unwrap();
            file.become_output(&output, is_replaced).unwrap();
            assert_eq!(names(folder.path()), ["out"]);
        }
    }

    #[test]
    fn what_comes_to_bear_the_name_meanwhile_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let files = [
            Unfinished::file(&output).unwrap(),
            Unfinished::named_file(&output).unwrap(),
        ];
        fs::write(&output, "another's").unwrap();
        for file in files {
            let refusal = file.become_output(&output, false).unwrap_err();
            assert_eq!(refusal.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(names(folder.path()), ["out"]);
        assert_eq!(fs::read(&output).unwrap(), b"another's");
    }

    #[test]
    fn what_a_killed_one_left_is_removed_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let living = Unfinished::folder(&output, FILES).unwrap();
        let left = folder.path().join("out.0123456789abcdef.partial");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("stream"), "half").unwrap();
        let file_left = folder.path().join("out.fedcba9876543210.partial");
        fs::write(&file_left, "half").unwrap();

        let next = Unfinished::folder(&output, FILES).unwrap();
        assert!(!left.exists() && !file_left.exists());
        assert!(living.path().exists());
        next.become_output(&output, false).unwrap();
        living.become_output(&output, true).unwrap();
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn what_only_looks_abandoned_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(path("elsewhere/stream"), "precious").unwrap();
        symlink(path("elsewhere"), path("out.0123456789abcdef.partial")).unwrap();
        fs::create_dir(path("out.0000000000000000.partial")).unwrap();
        fs::write(path("out.0000000000000000.partial/thesis.tex"), "").unwrap();
        for name in [
            "out.partial",
            "out.0123.partial",
            "another.0123456789abcdef.partial",
        ] {
            fs::write(path(name), "precious").unwrap();
        }
        let before = names(folder.path());
        drop(Unfinished::folder(&path("out"), FILES).unwrap());
        drop(Unfinished::file(&path("out")).unwrap());
        assert_eq!(names(folder.path()), before);
        assert!(path("elsewhere/stream").exists());
    }
}
