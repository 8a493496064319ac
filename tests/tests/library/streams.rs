//! The standard C interface, used by a C program as it would be used anywhere.

use std::path::Path;
use std::process::Command;

use tests::dist::{self, Linkage};

/// Runs a program of `tests/programs`, which succeeds. Returns its output.
fn said_by(name: &str) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile(name, folder.path())?;
    let library = dist::folder()?.join("lib");
    tests::command::text(Command::new(program).env("LD_LIBRARY_PATH", library))
}

#[test]
fn a_c_program_that_traces_itself_gets_what_the_standard_says() {
    assert_eq!(said_by("streams").unwrap(), "ok\n");
}

#[test]
fn a_thread_that_is_preempted_as_a_stream_ends_holds_no_slot() {
    assert_eq!(said_by("ended_slots").unwrap(), "ok\n");
}

#[test]
fn the_program_that_prints_the_defaults_is_strictly_standard_and_prints_sensible_values() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("defaults");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tracer-posix/libposixtrace/examples/defaults.c");
    let strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"];
    dist::compile_file("gcc", &source, &program, &strict, Linkage::Shared).unwrap();

    let output = Command::new(program)
        .env("LD_LIBRARY_PATH", dist::folder().unwrap().join("lib"))
        .output()
        .unwrap();

    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {said}")).trim()
    };
    assert!(!value("generation version").is_empty());
    assert_eq!(value("stream name"), "");
    assert!(value("created").ends_with(" UTC"));
    assert_eq!(value("clock resolution"), "1 ns");
    assert_eq!(value("stream full policy"), "POSIX_TRACE_LOOP");
    assert_eq!(value("log full policy"), "POSIX_TRACE_LOOP");
    assert_eq!(value("inheritance"), "POSIX_TRACE_CLOSE_FOR_CHILD");
    let bytes = |name| -> u64 {
        let bytes = value(name).strip_suffix(" bytes").unwrap();
        bytes.parse().unwrap()
    };
    assert!(bytes("user event, max") > bytes("user event data, max"));
    assert!(bytes("stream size, min") > bytes("user event, max") + bytes("system event, max"));
    assert!(bytes("log size, max") > bytes("stream size, min"));
}
