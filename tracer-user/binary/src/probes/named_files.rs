//! Files that a probe names: by paths, or by the names of files that are mapped.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::binary::{Binary, BinaryError};
use super::files;
use super::find::Subject;
use super::find_error::FindProbeError;

/// Returns the files that `file` names: one by its path, or the mapped files that have this name.
pub(super) fn named(
    file: &Path,
    used: &[Arc<Binary>],
    subject: Subject<'_>,
) -> Result<Vec<Arc<Binary>>, FindProbeError> {
    if file.as_os_str().as_bytes().contains(&b'/') {
        return at_path(file, used, subject);
    }
    let mut called: Vec<_> = used
        .iter()
        .filter(|binary| is_called(binary.path(), file.as_os_str()))
        .cloned()
        .collect();
    if called.is_empty()
        && let Some(linked) = files::open_linked(file.as_os_str())
    {
        // `python3` is a link to `python3.11`, and only that is mapped.
        let is_it = |binary: &&Arc<Binary>| binary.identity() == linked.identity();
        called.extend(used.iter().filter(is_it).cloned());
    }
    if called.is_empty() {
        let mapped = used.iter().filter_map(|binary| binary.path().file_name());
        return Err(FindProbeError::NotMapped {
            file: file.to_owned(),
            mapped: mapped
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
        });
    }
    Ok(called)
}

/// Words that the kernel puts behind the path of a mapped file that was removed, or replaced by
/// another one.
const DELETED: &[u8] = b" (deleted)";

/// Returns the file of that path. Where a mapped file was replaced meanwhile, returns both: the
/// mapped one, and the new one, which may be run next.
fn at_path(
    file: &Path,
    used: &[Arc<Binary>],
    subject: Subject<'_>,
) -> Result<Vec<Arc<Binary>>, FindProbeError> {
    let typed = file.as_os_str().as_bytes();
    let is_it = |binary: &&Arc<Binary>| {
        let path = binary.path().as_os_str().as_bytes();
        path.strip_suffix(DELETED) == Some(typed) || path == typed && path.ends_with(DELETED)
    };
    let mut found: Vec<_> = used.iter().filter(is_it).cloned().collect();
    match by_path(file, subject) {
        Ok(binary) => found.push(Arc::new(binary)),
        Err(error) if found.is_empty() => return Err(error.into()),
        // It was removed.
        Err(_) => {}
    }
    Ok(found)
}

/// Returns the file of that path, as the probed process sees it, or as `/proc/PID` leads to it. It
/// need not be mapped yet.
fn by_path(file: &Path, subject: Subject<'_>) -> Result<Binary, BinaryError> {
    if let Some((pid, rest)) = in_proc(file) {
        let living = files::living_thread(pid);
        let root = files::root_of(living);
        let location = Path::new("/proc").join(living.to_string()).join(rest);
        return match rest.strip_prefix("root") {
            Ok(below) => Binary::open_below(&root, &Path::new("/").join(below)),
            Err(_) => Binary::open(&location, file, &root),
        };
    }
    let root = match subject {
        Subject::Processes([pid, ..]) if file.is_absolute() => {
            files::root_of(files::living_thread(*pid))
        }
        Subject::Processes(_) | Subject::Command(_) => {
            return Binary::open(file, file, Path::new("/"));
        }
    };
    Binary::open_below(&root, file)
}

/// Returns the process in whose folder of `/proc` a path is, and the rest of it.
fn in_proc(file: &Path) -> Option<(i32, &Path)> {
    let mut parts = file.strip_prefix("/proc").ok()?.components();
    let pid = parts.next()?.as_os_str().to_str()?.parse().ok()?;
    Some((pid, parts.as_path()))
}

/// Tells whether a file has this name: `libc.so.6`, or `libc` for any version.
fn is_called(path: &Path, name: &OsStr) -> bool {
    let Some(file) = path.file_name() else {
        return false;
    };
    let rest = file.as_bytes().strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest == DELETED || rest.starts_with(b".so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_may_be_called_without_its_version() {
        let path = Path::new("/usr/lib/libc.so.6");
        for (name, is_it) in [
            ("libc", true),
            ("libc.so.6", true),
            ("lib", false),
            ("c", false),
        ] {
            assert_eq!(is_called(path, OsStr::new(name)), is_it, "{name}");
        }
    }
}
