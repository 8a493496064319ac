//! One run of `make -j2`, read by all readers: the same events, each as often.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../same_events/mod.rs"]
mod same_events;

use std::fs;
use std::process::Command;

use same_events::EVENTS;
use tests::dist;
use tests::log_reader::{Log, text};

/// A log of `make -j2`, which compiles six files and puts them together.
fn log() -> Log {
    Log::written_by(|log| {
        let folder = log.parent().unwrap();
        for digit in 0..6 {
            let source = format!("int f{digit}(int x) {{ return x * {digit}; }}\n");
            fs::write(folder.join(format!("f{digit}.c")), source)?;
        }
        let rules = "all: f0.o f1.o f2.o f3.o f4.o f5.o\n\tar rc all.a $^\n";
        fs::write(folder.join("Makefile"), rules)?;
        let output = Command::new(dist::tracer_user()?)
            .args(["run", "--events", EVENTS, "--log"])
            .arg(log)
            .args(["--", "make", "-s", "-j2", "-C"])
            .arg(folder)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{said}");
        anyhow::ensure!(folder.join("all.a").exists(), "{said}");
        Ok(())
    })
    .unwrap()
}

#[test]
#[ignore = "loads eBPF programs"]
fn all_readers_show_the_same_events() {
    let log = log();
    let events = same_events::all_readers_show_the_same(&log);

    // A shell or a compiler's driver for each of seven, and what six of them start.
    let forks = events
        .iter()
        .filter(|event| text(event, "type") == "linux_trace_fork");
    assert!(forks.count() >= 13);
}
