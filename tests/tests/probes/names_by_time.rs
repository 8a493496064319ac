//! Names of code that comes and goes, beside the program's own words: whatever was at an address
//! before or after, a frame has the name of what was there then, or none.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::comes_and_goes::{NAMED, Play};
use tests::command;
use tests::dist;
use tests::rights::missing_right;

fn run(options: &[&str]) -> Command {
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--ring-size", "64M", "--format", "json"]);
    run.args(["--syscalls", "getppid", "--stack", "user"]);
    run.args(["--stack-for", "syscall-enter"]).args(options);
    run
}

fn unwinding(by: &'static str) -> &'static [&'static str] {
    if by.is_empty() {
        &[]
    } else {
        &["--unwind", "dwarf"]
    }
}

fn read(log: &Path) -> String {
    let mut read = Command::new(dist::tracer_user().unwrap());
    command::text(read.args(["read", "--format", "json"]).arg(log)).unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn code_that_comes_and_goes_has_the_name_that_it_had_then() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let play = Play::compile(folder.path()).unwrap();
    let (shown, log) = (play.file("shown"), play.file("log"));
    for (unwind, pause_us) in [
        ("frame-pointers", 0),
        ("frame-pointers", 3000),
        ("dwarf", 0),
    ] {
        for (libraries, is_copied) in [
            ("with", false),
            ("without", false),
            ("with", true),
            ("without", true),
        ] {
            let what = format!("{unwind} {pause_us} {libraries} {is_copied}");
            let mut live = run(unwinding(unwind));
            live.arg("-o").arg(&shown);
            play.add_to(&mut live, pause_us, libraries, is_copied);
            command::text(&mut live).unwrap();
            let lines = fs::read_to_string(&shown).unwrap();
            let live = play.compare(&lines).expect(&what);

            let mut logged = run(unwinding(unwind));
            logged.arg("--force");
            logged.arg("--log").arg(&log);
            play.add_to(&mut logged, pause_us, libraries, is_copied);
            command::text(&mut logged).unwrap();
            let logged = play.compare(&read(&log)).expect(&what);
            // A file that others replace at once may be gone before it is read.
            if !is_copied {
                assert_eq!((live, logged), (NAMED, NAMED), "{what}");
            }
        }
    }
}

#[test]
#[ignore = "loads eBPF"]
fn where_the_kernel_reports_no_mappings_no_name_is_wrong_either() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let play = Play::compile(folder.path()).unwrap();
    let wrapper = dist::compile("without_perf", folder.path()).unwrap();
    let log = play.file("log");
    for pause_us in [0, 1000, 3000, 10_000] {
        let inner = run(&["--force"]);
        let mut logged = Command::new(&wrapper);
        logged.arg(inner.get_program()).args(inner.get_args());
        logged.arg("--log").arg(&log);
        play.add_to(&mut logged, pause_us, "with", false);
        command::text(&mut logged).unwrap();
        play.compare(&read(&log)).unwrap();
    }
}
