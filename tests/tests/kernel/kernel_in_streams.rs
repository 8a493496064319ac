//! The kernel's events in the streams of C programs, from the agent under which they were started.

use std::path::Path;
use std::process::{Command, Output};

use tests::dist;
use tests::rights::missing_right;

/// Runs the program under `tracer-user run` with the options `agent`, or alone.
fn run(
    program: &Path,
    arguments: &[&str],
    is_wanted: bool,
    agent: Option<&[&str]>,
) -> anyhow::Result<Output> {
    let mut command = if let Some(options) = agent {
        let mut command = Command::new(dist::tracer_user()?);
        command.args(["run", "--output", "/dev/null"]);
        command.args(options).arg("--");
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", dist::folder()?.join("lib"))
        .env("LINUX_TRACE_DEBUG", "1");
    if is_wanted {
        command.env("LINUX_TRACE_KERNEL_EVENTS", "1");
    }
    Ok(command.output()?)
}

fn says_ok(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "ok\n", "{errors}");
}

fn program() -> anyhow::Result<(tempfile::TempDir, std::path::PathBuf)> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile("kernel_events", folder.path())?;
    Ok((folder, program))
}

#[test]
#[ignore = "loads eBPF"]
fn an_unchanged_program_is_given_them_by_its_environment() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program().unwrap();
    says_ok(&run(&program, &[], true, Some(&[])).unwrap());
}

#[test]
#[ignore = "loads eBPF"]
fn what_the_trace_itself_shows_does_not_matter_to_them() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program().unwrap();
    for shown in ["fork", "user", "fault"] {
        let agent = ["--events", shown];
        says_ok(&run(&program, &[], true, Some(&agent)).unwrap());
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_log_has_them_too() {
    if missing_right().is_some() {
        return;
    }
    let (folder, program) = program().unwrap();
    let log = folder.path().join("log");
    let arguments = ["withlog", log.to_str().unwrap()];
    says_ok(&run(&program, &arguments, true, Some(&[])).unwrap());
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_that_does_not_ask_sees_what_it_saw_elsewhere() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program().unwrap();
    says_ok(&run(&program, &["off"], false, Some(&[])).unwrap());
}

#[test]
fn without_an_agent_the_program_is_shown_what_to_do() {
    let (_folder, program) = program().unwrap();
    let output = run(&program, &[], true, None).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("sudo tracer-user run -- PROGRAM"),
        "{errors}"
    );
    assert!(errors.contains("(error 95)"), "{errors}");
    assert!(!output.status.success());
}
