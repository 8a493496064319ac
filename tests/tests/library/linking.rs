//! Ways to have the library in a program: all of it static, in a plug-in.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tests::dist::{self, Linkage};

/// Returns the folder in which the programs are made.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn source(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(name)
}

fn assert_succeeded(output: &Output, what: &str) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_program_without_any_shared_library_traces_itself() {
    for compiler in ["gcc", "clang"] {
        let name = format!("static-{compiler}");
        let program = folder().join(&name);
        let logs = source("standard/logs.c");
        dist::compile_file(compiler, &logs, &program, &["-static"], Linkage::Static).unwrap();

        let case = "a_completed_log_has_everything_in_order";
        let output = Command::new(&program).arg(case).output().unwrap();
        assert_succeeded(&output, &name);
    }
}

/// A log that was recorded by a program, and by no fork.
const LOG_BY_PROGRAM: &str = "a_log_needs_no_fork_and_no_file";

#[test]
#[ignore = "needs root"]
fn a_static_program_in_a_root_of_its_own_has_a_log_by_a_program() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("tmp")).unwrap();
    let (source, program) = (source("standard/recorder.c"), root.path().join("program"));
    dist::compile_file("cc", &source, &program, &["-static"], Linkage::Static).unwrap();

    let mut command = Command::new("chroot");
    command.arg(root.path()).args(["/program", LOG_BY_PROGRAM]);
    assert_succeeded(&command.output().unwrap(), "in a root of its own");
}

#[test]
fn a_plug_in_has_a_log_by_a_program() {
    let (runner, plugin) = (folder().join("runner"), folder().join("recorder.so"));
    dist::compile_file(
        "cc",
        &source("linking/runner.c"),
        &runner,
        &["-Wall", "-Wextra", "-Werror", "-ldl"],
        Linkage::Shared,
    )
    .unwrap();
    dist::compile_file(
        "cc",
        &source("standard/recorder.c"),
        &plugin,
        &["-shared", "-fPIC"],
        Linkage::Static,
    )
    .unwrap();

    let output = Command::new(&runner)
        .arg(&plugin)
        .arg(LOG_BY_PROGRAM)
        .output()
        .unwrap();
    assert_succeeded(&output, "plug-in");
}

#[test]
fn a_static_program_for_musl_traces_itself() {
    let flags = dist::flags_of("posixtrace-musl", Linkage::Static).unwrap();
    let program = folder().join("musl");
    let compiled = Command::new("musl-gcc")
        .args(["-O2", "-std=c99", "-static", "-Wall", "-Wextra", "-Werror"])
        .arg("-o")
        .arg(&program)
        .arg(source("standard/threads.c"))
        .args(flags.split_whitespace())
        .output()
        .expect("run: cargo xtask setup --test");
    assert_succeeded(&compiled, "musl-gcc");

    // The second takes the C library's unwinder.
    for case in [
        "the_events_of_threads_that_have_ended_are_all_there",
        "the_clean_up_handlers_of_a_reader_run_with_its_own_signal_mask",
    ] {
        let output = Command::new(&program).arg(case).output().unwrap();
        assert_succeeded(&output, case);
    }
}

#[test]
fn a_plug_in_stays_loaded_with_one_area() {
    let (host, plugin) = (folder().join("host"), folder().join("plugin.so"));
    let strict = ["-Wall", "-Wextra", "-Werror"];
    dist::compile_file(
        "cc",
        &source("linking/host.c"),
        &host,
        &[&strict[..], &["-ldl"]].concat(),
        Linkage::Shared,
    )
    .unwrap();
    dist::compile_file(
        "cc",
        &source("linking/plugin.c"),
        &plugin,
        &[&strict[..], &["-shared", "-fPIC"]].concat(),
        Linkage::Static,
    )
    .unwrap();

    let output = Command::new(&host).arg(&plugin).output().unwrap();
    assert_succeeded(&output, "host");
}
