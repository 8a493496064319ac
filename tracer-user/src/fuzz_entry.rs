//! Readers of bytes that another party wrote, by one name each: for the fuzz targets in `fuzz`, and
//! for the tests that run the same with bytes that are always the same.
//!
//! Each takes any bytes, comes to an end in a moment, and does not panic.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::path::Path;

use tracer_binary::probes::Binary;
use tracer_binary::thread_context;

pub use tracer_agent::{converse as agent_asked, converse_with_service as service_asked};
pub use tracer_answers::look_at_lock_wait as lock_wait;
pub use tracer_binary::probes::look_through_notes as usdt_notes;
pub use tracer_kernel::look_through_btf as btf;

/// Reads the description of a static probe's arguments.
pub fn usdt_arguments(untrusted: &[u8]) {
    let described = String::from_utf8_lossy(untrusted);
    let (all, readable) = tracer_binary::probes::argument_counts(&described);
    assert!(readable <= all && all <= described.len());
}

/// Reads a program: its functions, its static probes, the first code of each, its thread context;
/// and as what else names functions: packed symbols, what tells of generated code, parts of stacks;
/// and as what a process publishes. Returns how many functions and probes it has.
pub fn elf(untrusted: &[u8]) -> usize {
    tracer_binary::probes::look_through_packed(untrusted);
    tracer_binary::probes::look_through_go_lines(untrusted);
    tracer_binary::stacks::look_through_perf_map(untrusted);
    tracer_binary::stacks::look_through_jit_dump(untrusted);
    tracer_binary::stacks::look_through_parts(untrusted);
    tracer_binary::python::look_through(untrusted);
    let _ = thread_context::has_thread_contexts(untrusted);
    let _ = thread_context::published_at(untrusted);
    let file = file_of(untrusted);
    let Ok(binary) = Binary::from_opened(file, Path::new("program"), Path::new("/nowhere")) else {
        return 0;
    };
    let _ = binary.is_stripped();
    if let Ok(Some(variable)) = binary.thread_variable(thread_context::VARIABLE) {
        let word = |at: u64| {
            let at = usize::try_from(at).ok()?;
            untrusted.get(at..)?.first_chunk().copied()
        };
        let word = |at| word(at).map(u64::from_ne_bytes);
        let place = variable.place(false, 0, word);
        let _ = place.and_then(|place| place.address(0x1000, word));
    }
    let probes = binary.static_probes().unwrap_or_default();
    let functions = binary.functions().unwrap_or_default();
    for function in functions.iter().take(100) {
        if let Ok(code) = binary.code(function, 64) {
            assert!(code.len() <= 64);
        }
    }
    functions.len() + probes.len()
}

/// Makes a file in memory with these bytes.
fn file_of(bytes: &[u8]) -> io::Result<File> {
    // SAFETY: the name ends with a null.
    let descriptor = unsafe { libc::memfd_create(c"untrusted".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened just now, and no other value owns it.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes)?;
    Ok(file)
}
