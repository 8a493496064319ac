//! Costs of the library in a process that is never traced.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::dist::{self, Linkage};
use tests::strace;
use tests::target::Target;

fn compile(name: &str, options: &[&str], linkage: Linkage, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/untraced.c");
    let program = folder.join(name);
    dist::compile_file("cc", &source, &program, options, linkage).unwrap();
    program
}

/// Compiles the program without the library, but with the libraries that that needs itself.
fn without(folder: &Path) -> PathBuf {
    let options = ["-DWITHOUT_LIBRARY", "-Wl,--no-as-needed", "-lgcc_s"];
    compile("without", &options, Linkage::Shared, folder)
}

/// Returns what the descriptors of the process refer to, without the three that it was given.
fn descriptors(pid: i32) -> Vec<String> {
    let mut open = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let path = entry.unwrap().path();
        let fd: u32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        if fd > 2 {
            open.push(fs::read_link(path).unwrap().display().to_string());
        }
    }
    open.sort();
    open
}

#[test]
fn one_memfd_and_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, _) = Target::start(Command::new(without(folder.path())).arg("wait")).unwrap();
    let mut expected = descriptors(plain.pid());
    expected.push("/memfd:posix_trace_area (deleted)".to_owned());
    expected.sort();
    for linkage in [Linkage::Shared, Linkage::Static] {
        let program = compile("with", &[], linkage, folder.path());
        let (target, _) = Target::start(Command::new(program).arg("wait")).unwrap();
        assert_eq!(descriptors(target.pid()), expected, "{linkage:?}");
        let threads = fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
        assert_eq!(threads.count(), 1, "{linkage:?}");
    }
}

/// The system calls that setting the library up may make, and how many of each.
const CALLS: [(&str, u64); 17] = [
    // Whether the program before handed on its area: each descriptor that it may be is looked at.
    // And the area's own.
    ("prlimit64", 3),
    ("fcntl", 35),
    // The area.
    ("memfd_create", 1),
    ("ftruncate", 1),
    ("fchmod", 1),
    ("fstat", 1),
    ("newfstatat", 1),
    // The descriptor that it may be handed on by, and whether the kernel promises no more memory
    // than it has; and whether its parent has an area that it may be traced in.
    ("openat", 3),
    ("getppid", 1),
    ("read", 1),
    ("close", 3),
    ("mmap", 2),
    ("clock_gettime", 1),
    ("madvise", 1),
    ("membarrier", 2),
    ("getpid", 1),
    // Segments that are read-only once they are relocated.
    ("mprotect", 1),
];

#[test]
fn starting_makes_a_few_system_calls_more() {
    let folder = tempfile::tempdir().unwrap();
    let plain = strace::calls(&without(folder.path())).unwrap();
    // With the shared library the dynamic linker's calls would come on top, by the length of its
    // search path.
    let program = compile("with", &[], Linkage::Static, folder.path());
    let calls = strace::calls(&program).unwrap();

    let more: BTreeMap<_, _> = calls
        .iter()
        .map(|(name, count)| {
            (
                &name[..],
                count.saturating_sub(plain.get(name).copied().unwrap_or(0)),
            )
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    assert!(more.contains_key("memfd_create"), "{more:?}");
    let allowed = BTreeMap::from(CALLS);
    for (name, count) in &more {
        let most = allowed.get(name).copied().unwrap_or(0);
        assert!(*count <= most, "{name}: {count} of {most}; {more:?}");
    }
}
