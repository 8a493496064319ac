//! What reads bytes that somebody else wrote, by one name each: for the fuzz targets in `fuzz`, and for the tests
//! that run the same with bytes that are always the same.
//!
//! Each takes any bytes, comes to an end in a moment, and does not panic.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

use crate::probes::Binary;

pub use crate::agent::converse as agent_asked;
pub use crate::kernel::look_through_btf as btf;
pub use crate::probes::look_through_notes as usdt_notes;

/// The description of a static probe's arguments.
pub fn usdt_arguments(untrusted: &[u8]) {
    let described = String::from_utf8_lossy(untrusted);
    let (all, readable) = crate::probes::argument_counts(&described);
    assert!(readable <= all && all <= described.len());
}

/// A program: its functions, its static probes, the first code of each.
pub fn elf(untrusted: &[u8]) {
    let Some((_file, path)) = file_of(untrusted) else {
        return;
    };
    let Ok(binary) = Binary::open(&path, Path::new("program"), Path::new("/nowhere")) else {
        return;
    };
    let _ = (binary.is_stripped(), binary.static_probes());
    for function in binary.functions().unwrap_or_default().iter().take(100) {
        if let Ok(code) = binary.code(function, 64) {
            assert!(code.len() <= 64);
        }
    }
}

/// A file in memory with these bytes, and its path.
fn file_of(bytes: &[u8]) -> Option<(File, PathBuf)> {
    // SAFETY: the name ends with a null.
    let descriptor = unsafe { libc::memfd_create(c"untrusted".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: it was opened just now and is nobody else's.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes).ok()?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Some((file, path.into()))
}
