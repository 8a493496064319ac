//! Traces that need no rights: the user events of one's own process.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::command;
use tests::dist::{self, Linkage};
use tests::rights::is_root;
use tests::target::Target;
use tests::tracer::{Trace, Tracer};

/// A command that runs `program` as a user without rights.
fn as_nobody(program: &Path) -> Command {
    as_nobody_with(&[], program)
}

/// A command that runs `program` as a user without rights but for the capabilities that these
/// options of `setpriv` give, where they can be given.
fn as_nobody_with(options: &[&str], program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(options).arg(program);
    command
}

/// Traces `flood` as compiled by `compile`, both without rights.
fn trace_flood(compile: impl Fn(&str, &Path) -> anyhow::Result<PathBuf>) -> anyhow::Result<Trace> {
    let folder = tempfile::tempdir()?;
    let everyones = dist::copy_for_everyone(folder.path())?;
    let program = compile("flood", folder.path())?;
    let mut flood = as_nobody(&program);
    flood.args(["2", "20000", "1"]);
    flood.env("LD_LIBRARY_PATH", everyones.join("lib"));
    let (mut target, _) = Target::start(&mut flood)?;

    let mut command = as_nobody(&everyones.join("bin/tracer-user"));
    command.args(["attach", "--format", "json", "--no-system"]);
    command.arg(target.pid().to_string());
    let mut tracer = Tracer::start_command(&mut command)?;
    tracer.wait_for(|event| event.is_user("marker"))?;
    target.go()?;
    target.wait_until_done()?;
    tracer.stop()
}

#[test]
fn a_program_with_the_library_inside_is_traced_like_any_other() {
    let trace = trace_flood(dist::compile_static).unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    let flood = events.iter().filter(|event| event.is_user("flood"));
    assert_eq!(flood.count(), 20_000);
}

/// Runs `burst`, which runs itself twice, under `tracer-user run`, without rights.
fn run_burst(events: &str) -> anyhow::Result<Trace> {
    let folder = tempfile::tempdir()?;
    let everyones = dist::copy_for_everyone(folder.path())?;
    let program = dist::compile("burst", folder.path())?;
    let mut command = as_nobody(&everyones.join("bin/tracer-user"));
    command.args([
        "run",
        "--no-system",
        "--format",
        "json",
        "--output",
        "-",
        "--",
    ]);
    command.arg(program).args([events, "1"]);
    command.env("LD_LIBRARY_PATH", everyones.join("lib"));
    Tracer::start_command(&mut command)?.finish()
}

#[test]
fn a_command_with_children_ends_when_they_have() {
    // A machine that is busy takes its time; the trace alone never takes a second.
    let least = (0..5).map(|_| {
        let trace = run_burst("10").unwrap();
        assert_eq!(trace.events().unwrap().len(), 30);
        trace.summary().unwrap().seconds
    });
    let least = least.fold(f64::INFINITY, f64::min);
    assert!(least < 0.8, "{least} s for 30 events");
}

#[test]
fn a_command_is_known_by_its_name_however_short_it_lives() {
    for _ in 0..10 {
        let trace = run_burst("1").unwrap();
        let events = trace.events().unwrap();
        // The first is the command's own.
        assert!(
            events[0].line.contains("\"comm\":\"burst\""),
            "{}",
            events[0].line
        );
    }
}

#[test]
fn the_user_events_of_ones_own_process_can_be_traced_without_rights() {
    let trace = trace_flood(dist::compile).unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    assert!(events.iter().all(|event| event.class == "user"));
    let flood = events.iter().filter(|event| event.is_user("flood"));
    assert_eq!(flood.count(), 20_000);
    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
}

/// Runs a case of a standard program as a user without rights, or with those that `more` gives.
fn run_standard(program: &str, case: &str, more: &[&str]) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let everyones = dist::copy_for_everyone(folder.path())?;
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/standard");
    let source = programs.join(format!("{program}.c"));
    let program = folder.path().join(program);
    dist::compile_file("cc", &source, &program, &[], Linkage::Shared)?;
    let mut command = as_nobody_with(more, &program);
    command.env("LD_LIBRARY_PATH", everyones.join("lib"));
    let output = command.arg(case).output()?;
    anyhow::ensure!(
        output.status.success(),
        "{case} {more:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[test]
fn what_records_for_a_user_is_a_program_with_the_rights_of_that_user() {
    let rights = "a_recorder_has_the_rights_that_its_program_was_started_with";
    run_standard("recorder_rights", rights, &[]).unwrap();
    let costs = "a_log_costs_a_large_program_neither_a_copy_nor_its_fork_handlers";
    run_standard("recorder", costs, &[]).unwrap();
}

#[test]
#[ignore = "needs root"]
fn what_records_for_a_user_with_capabilities_has_them_too() {
    let rights = "a_recorder_has_the_rights_that_its_program_was_started_with";
    let more = [
        "--inh-caps=+sys_ptrace,+chown",
        "--ambient-caps=+sys_ptrace",
    ];
    run_standard("recorder_rights", rights, &more).unwrap();
}

/// Attaches to `fork_server`, whose children open ten names each, with these options.
fn trace_fork_server(children: &str, options: &[&str]) -> anyhow::Result<Trace> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile("fork_server", folder.path())?;
    let (mut target, _) = Target::start(Command::new(program).args([children, "10"]))?;
    let mut tracer = Tracer::attach(target.pid(), options)?;
    if options.contains(&"--log") {
        // Nothing is shown meanwhile.
        std::thread::sleep(std::time::Duration::from_secs(1));
    } else {
        tracer.wait_for(|event| event.is_user("marker"))?;
    }
    target.go()?;
    target.wait_until_done()?;
    tracer.stop()
}

/// Checks that each of ten thousand events has the name that is in its data.
fn have_their_names<'a>(events: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut names = std::collections::HashSet::new();
    for (name, carried) in events.filter(|(name, _)| *name != "marker") {
        assert_eq!(name, carried);
        names.insert(name);
    }
    assert_eq!(names.len(), 10_000);
}

#[test]
fn each_event_of_a_thousand_children_has_its_own_name() {
    let trace = trace_fork_server("1000", &["--no-system"]).unwrap();

    let events = trace.events().unwrap();
    let named = events
        .iter()
        .map(|event| (event.event_type.as_str(), event.text().unwrap_or_default()));
    have_their_names(named);
}

#[test]
fn each_event_of_a_thousand_children_has_its_own_name_in_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    trace_fork_server("1000", &["--no-system", "--log", log.to_str().unwrap()]).unwrap();

    let read = tests::log_reader::run("read", &log, &["--format", "json"]).unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    let events: Vec<_> = text
        .lines()
        .filter_map(|line| match tests::event::Line::parse(line).unwrap() {
            tests::event::Line::Event(event) => Some(event),
            tests::event::Line::Summary(_) => None,
        })
        .filter(|event| event.class == "user")
        .collect();
    let named = events
        .iter()
        .map(|event| (event.event_type.as_str(), event.text().unwrap_or_default()));
    have_their_names(named);
}

#[test]
fn a_family_that_has_used_up_all_names_says_so() {
    let trace = trace_fork_server("3300", &["--no-system"]).unwrap();

    let events = trace.events().unwrap();
    let unnamed = events
        .iter()
        .filter(|event| event.is_user("posix_trace_unnamed_userevent"));
    // One of the names is the marker's.
    let refused = 33_000 + 1 - 32_766;
    assert_eq!(unnamed.count(), refused);
    let said = format!("{refused} names of event types were given to no type");
    assert!(trace.stderr.contains(&said), "{}", trace.stderr);
}

/// Returns the signals that a program ignores or blocks which is started by `command`, as the
/// kernel has them.
fn signals_of(command: &mut Command) -> anyhow::Result<Vec<u64>> {
    /// Signals 32 and 33, which the C library has for itself.
    const OF_THE_LIBRARY: u64 = 0b11 << 31;
    let said = command::text(command.args(["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"]))?;
    let masks = said.lines().filter_map(|line| line.split_once('\t'));
    masks
        .map(|(_, mask)| Ok(u64::from_str_radix(mask, 16)? & !OF_THE_LIBRARY))
        .collect()
}

#[test]
fn a_command_that_is_traced_has_the_signals_that_it_has_untraced() {
    let untraced = signals_of(&mut Command::new("env")).unwrap();
    assert_eq!(untraced.len(), 2);
    let mut tracer = Command::new(dist::tracer_user().unwrap());
    tracer.args(["run", "--no-system", "--"]);
    assert_eq!(signals_of(&mut tracer).unwrap(), untraced);
}
