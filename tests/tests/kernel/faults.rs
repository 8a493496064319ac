//! Page faults and moves between CPUs against what the kernel counted.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;

use tests::dist;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;

/// Runs `program` with `arguments` while it is traced with `options`; returns what it said and its
/// events.
fn run(
    program: &str,
    arguments: &[&str],
    events: &str,
    options: &[&str],
) -> anyhow::Result<(Vec<String>, Vec<Event>)> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile(program, folder.path())?;
    let (mut target, mut said) = Target::start(Command::new(program).args(arguments))?;
    let events = format!("{events},switch");
    let options = [&["--events", &events], options].concat();
    let mut tracer = Tracer::attach(target.pid(), &options)?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    target.go()?;
    said.extend(target.wait_until_done()?);
    let trace = tracer.stop()?;
    assert_eq!(trace.summary()?.all_lost(), 0);
    Ok((said, trace.events()?))
}

fn region(said: &[String], word: &str) -> Range<i64> {
    let ends = values_after(said, word).expect("addresses");
    let end = |index: usize| i64::try_from(ends[0][index]).expect("an address of a program");
    end(0)..end(1)
}

/// The pages of `region` that were faulted in by events of type `name`.
fn pages(events: &[Event], name: &str, region: &Range<i64>) -> BTreeSet<i64> {
    events
        .iter()
        .filter(|event| event.is_system(name))
        .filter_map(|event| event.integer("address"))
        .filter(|address| region.contains(address))
        .map(|address| address / 4096)
        .collect()
}

#[test]
#[ignore = "loads eBPF"]
fn every_first_touch_is_a_fault_and_the_kernel_counted_as_many() {
    const PAGES: usize = 2000;
    if missing_right().is_some() {
        return;
    }
    let (said, events) = run("faults", &[&PAGES.to_string()], "fault", &[]).unwrap();
    let touched = region(&said, "touched");
    let filled = region(&said, "filled");
    // Each page is touched by the program or filled by the kernel, and never both.
    assert_eq!(pages(&events, "fault_user", &touched).len(), PAGES);
    assert_eq!(pages(&events, "fault_kernel", &filled).len(), PAGES);
    assert_eq!(pages(&events, "fault_kernel", &touched).len(), 0);
    assert_eq!(pages(&events, "fault_user", &filled).len(), 0);

    let is_ours = |event: &&Event| {
        let address = event.integer("address");
        address.is_some_and(|at| touched.contains(&at) || filled.contains(&at))
    };
    let ours: Vec<_> = events.iter().filter(is_ours).collect();
    for event in &ours {
        assert_eq!(event.integer("write"), Some(1), "{}", event.line);
        assert_eq!(event.integer("fetch"), Some(0), "{}", event.line);
        assert!(event.prog_address.is_some(), "{}", event.line);
    }
    // The kernel may do one twice, when another CPU changes the tables meanwhile; and it counts
    // the few others of the program's.
    let counted = usize::try_from(values_after(&said, "faults").unwrap()[0][0]).unwrap();
    assert!(counted >= 2 * PAGES, "{counted}");
    assert!(
        ours.len().abs_diff(counted) < PAGES / 100,
        "{} {counted}",
        ours.len()
    );
}

#[test]
#[ignore = "loads eBPF"]
fn what_a_tracer_cannot_read_is_no_fault_of_the_program() {
    const NAPS: usize = 1000;
    if missing_right().is_some() {
        return;
    }
    // More is copied of a stack than the thread has, each time that it blocks.
    let options = "--stack user --stack-for none --unwind dwarf,8K --off-cpu 1s";
    let options: Vec<_> = options.split(' ').collect();
    let (said, events) = run("faults", &["10", &NAPS.to_string()], "fault", &options).unwrap();
    let counted = usize::try_from(values_after(&said, "faults").unwrap()[0][0]).unwrap();
    let left = usize::try_from(values_after(&said, "naps").unwrap()[0][0]).unwrap();
    let seen = |name| events.iter().filter(|event| event.is_system(name)).count();

    assert!(left >= NAPS / 2, "{left}");
    let switches = seen("switch_out");
    assert!(switches >= left, "{switches} {left}");
    // A few are before and after what the program counts.
    let faults = seen("fault_user") + seen("fault_kernel");
    assert!(faults.abs_diff(counted) < NAPS / 5, "{faults} {counted}");
}

#[test]
#[ignore = "loads eBPF"]
fn every_move_to_another_cpu_that_the_kernel_counted_is_there() {
    const ROUNDS: usize = 200;
    if missing_right().is_some() {
        return;
    }
    let (said, events) = run("migrations", &[&ROUNDS.to_string()], "migrate", &[]).unwrap();
    let cpus = values_after(&said, "cpus").unwrap()[0][0];
    assert!(cpus >= 2, "one CPU is too few for this test");
    let counted = usize::try_from(values_after(&said, "moved").unwrap()[0][0]).unwrap();
    assert!(counted >= ROUNDS - 1, "{counted}");

    let moves: Vec<_> = events.iter().filter(|e| e.is_system("migrate")).collect();
    // Before and after the program's own count the scheduler may move it as it likes.
    assert!(
        moves.len() >= counted && moves.len() < counted + 50,
        "{} {counted}",
        moves.len()
    );
    for pair in moves.windows(2) {
        assert_ne!(pair[0].integer("from_cpu"), pair[0].integer("to_cpu"));
        assert_eq!(
            pair[0].integer("to_cpu"),
            pair[1].integer("from_cpu"),
            "{}",
            pair[1].line
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn perf_counts_as_many_faults_switches_and_moves_of_the_same_run() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("calls", folder.path()).unwrap();
    let report = folder.path().join("report");
    let counters = "page-faults,context-switches,cpu-migrations";
    let perf = [
        "--events",
        "fault,switch,migrate,exec,exit",
        "--",
        "perf",
        "stat",
        "-x,",
        "-e",
    ];
    let words = perf.into_iter().map(Into::into);
    let words = words.chain([
        counters.into(),
        "-o".into(),
        report.clone().into_os_string(),
    ]);
    let words = words.chain([
        "--no-inherit".into(),
        "--".into(),
        program.clone().into_os_string(),
    ]);
    let trace = Tracer::start("run", words.chain(["5000".into()])).unwrap();
    let trace = trace.finish().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0, "{}", trace.stderr);
    let events = trace.events().unwrap();

    let report = std::fs::read_to_string(report).unwrap();
    let counted = |name: &str| -> usize {
        let row = report.lines().find(|line| line.contains(name));
        let row = row.unwrap_or_else(|| panic!("no {name} in {report}"));
        row.split(',').next().unwrap().parse().unwrap()
    };
    let file = program.to_str();
    let exec = events
        .iter()
        .find(|e| e.is_system("exec") && e.word("file") == file)
        .unwrap();
    let own: Vec<_> = events
        .iter()
        .filter(|event| event.pid == exec.pid && event.ns > exec.ns)
        .collect();
    let end = own.iter().find(|event| event.is_system("exit")).unwrap().ns;
    let seen = |name: &str| {
        let of_type = own
            .iter()
            .filter(|event| event.is_system(name) && event.ns < end);
        of_type.count()
    };
    // perf begins a little before the exec's event, and ends a little after the exit's.
    let faults = seen("fault_user") + seen("fault_kernel");
    assert!(
        faults.abs_diff(counted("page-faults")) <= 25,
        "{faults}: {report}"
    );
    let switches = seen("switch_out");
    assert!(
        switches.abs_diff(counted("context-switches")) <= 3,
        "{switches}: {report}"
    );
    // It counts a move when the program runs again: two in a row are one.
    let moves = seen("migrate");
    let slack = 3 + moves / 10;
    assert!(
        moves.abs_diff(counted("cpu-migrations")) <= slack,
        "{moves}: {report}"
    );
}
