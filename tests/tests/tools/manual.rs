//! Examples of the help and of the manual pages, which do what is said of them, and what the pages
//! say of defaults.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::env;
use std::process::{Command, Stdio};

use tests::dist;
use tests::log_reader::Log;
use tracer_engine::Attributes;

/// The lines that the long help of a subcommand gives as examples.
fn examples(subcommand: &str) -> Vec<String> {
    let output = Command::new(dist::tracer_user().unwrap())
        .args([subcommand, "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, examples) = help.split_once("Examples:\n").unwrap();
    examples
        .lines()
        .filter_map(|line| line.strip_prefix("  tracer-user "))
        .map(|line| format!("tracer-user {line}"))
        .collect()
}

/// Tells whether an example ends by itself, and needs only what the tests have.
fn is_for_here(line: &&String) -> bool {
    !["--follow", "duckdb"]
        .iter()
        .any(|word| line.contains(word))
}

#[test]
fn examples_that_need_no_rights_find_something() {
    let log = Log::make(0).unwrap();
    let folder = log.path().parent().unwrap().to_owned();
    std::fs::rename(log.path(), folder.join("trace.log")).unwrap();
    let path = format!(
        "{}:{}",
        dist::folder().unwrap().join("bin").display(),
        env::var("PATH").unwrap()
    );
    let lines: Vec<_> = ["read", "info", "export", "events"]
        .into_iter()
        .flat_map(examples)
        .collect();
    assert!(lines.len() > 7, "{lines:?}");
    for line in lines.iter().filter(is_for_here) {
        let output = Command::new("bash")
            .args(["-o", "pipefail", "-c", line])
            .env("PATH", &path)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        // grep, jq and babeltrace2 fail where there is nothing to be found or read.
        assert!(output.status.success(), "{line}: {output:?}");
        let (_, made) = line.rsplit_once(" -o ").unwrap_or_default();
        let made = made.split(' ').next().filter(|made| !made.is_empty());
        let is_made = made.is_some_and(|made| folder.join(made).exists());
        assert!(is_made || !output.stdout.is_empty(), "{line}: {output:?}");
    }
}

#[test]
fn the_manual_has_the_defaults_of_the_attributes() {
    let page = include_str!("../../../man/posix_trace_attr_init.3");
    let attributes = Attributes::default();
    let rows = [
        format!("stream size\t{} bytes", attributes.stream_min_size()),
        format!(
            "most data of a user event\t{} bytes",
            attributes.max_data_size()
        ),
        format!("log size\t{} bytes", attributes.log_max_size()),
    ];
    for row in rows {
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}
