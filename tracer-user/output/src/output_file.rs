//! Files that we make: their owners, and who may read them.
//!
//! A trace of root is for root's eyes. So a file that root makes is readable for its owner alone;
//! and under `sudo` its owner is the user who called, who is to work with it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown,
};
use std::path::Path;

/// Refusal to write to a file that exists already.
#[derive(Debug, thiserror::Error)]
#[error(
    "it belongs to user {owner}, who would get what is root's; remove it, or give another name"
)]
pub struct AnothersFile {
    owner: u32,
}

/// Makes the file, or empties the one that is there.
///
/// # Errors
///
/// It cannot be made, or is another user's ([`AnothersFile`]).
pub fn create(path: &Path) -> io::Result<File> {
    match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let mut options = OpenOptions::new();
    // With `O_CREAT`, so that the kernel's protection of folders that all users write to holds
    // (`fs.protected_regular`). The file is emptied only when its owner is known.
    options.write(true).create(true).mode(mode());
    let file = options.custom_flags(libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        ensure_ours(&metadata)?;
        if is_root() {
            file.set_permissions(Permissions::from_mode(mode()))?;
        }
        file.set_len(0)?;
    }
    Ok(file)
}

/// Opens a file to read and to write, or makes it; its content stays. Also returns whether it was
/// made.
///
/// # Errors
///
/// It cannot be opened or made, or is another user's ([`AnothersFile`]).
pub fn open_log(path: &Path) -> io::Result<(File, bool)> {
    let made = create_new(path);
    let is_new = made.is_ok();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(!is_new).mode(mode());
    let file = options.custom_flags(libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if !is_new && metadata.is_file() {
        ensure_ours(&metadata)?;
        if is_root() {
            file.set_permissions(Permissions::from_mode(mode()))?;
        }
    }
    Ok((file, is_new))
}

/// Makes a file that must not be there, not even as a link.
///
/// # Errors
///
/// It cannot be made.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode());
    let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
    if let Some((user, group)) = caller() {
        fchown(&file, Some(user), Some(group))?;
    }
    Ok(file)
}

/// Makes a file in this folder that has no name, and is gone when no process has it open.
///
/// # Errors
///
/// It cannot be made, or the file system knows no such files.
pub fn create_unnamed(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(mode());
    let file = options.custom_flags(libc::O_TMPFILE).open(folder)?;
    if let Some((user, group)) = caller() {
        fchown(&file, Some(user), Some(group))?;
    }
    Ok(file)
}

/// Makes a folder that must not be there.
///
/// # Errors
///
/// It cannot be made.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mode = if is_root() { 0o700 } else { 0o777 };
    DirBuilder::new().mode(mode).create(path)?;
    if let Some((user, group)) = caller() {
        lchown(path, Some(user), Some(group))?;
    }
    Ok(())
}

/// Refuses a file that is there already and that root would fill for another user.
///
/// # Errors
///
/// [`AnothersFile`].
pub fn ensure_ours(file: &fs::Metadata) -> io::Result<()> {
    let owner = file.uid();
    let is_callers = caller().is_some_and(|(user, _)| user == owner);
    if is_root() && owner != 0 && !is_callers {
        let error = AnothersFile { owner };
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
    }
    Ok(())
}

fn mode() -> u32 {
    if is_root() { 0o600 } else { 0o666 }
}

fn is_root() -> bool {
    // SAFETY: the call has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the user and group of the caller of `sudo` that started us.
fn caller() -> Option<(u32, u32)> {
    let id = |name| std::env::var(name).ok()?.parse().ok();
    let (user, group) = (id("SUDO_UID")?, id("SUDO_GID")?);
    is_root().then_some((user, group))
}

/// Tells whether both name one file.
#[must_use]
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    of(one).is_some_and(|one| of(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_new_file_is_never_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(create_new(&link).is_err() && create_new(&victim).is_err());
        symlink(
            folder.path().join("nowhere"),
            folder.path().join("dangling"),
        )
        .unwrap();
        assert!(create_new(&folder.path().join("dangling")).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn what_is_there_is_emptied_and_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "something long").unwrap();
        create(&path).unwrap().write_all(b"new").unwrap();
        let mut text = String::new();
        File::open(&path)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "new");
    }
}
