//! Forks and execs against what strace counts for the same command.

use std::fs;

use tests::rights::missing_right;
use tests::strace::{self, Counts};
use tests::tracer::Tracer;

fn traced(command: &[&str]) -> anyhow::Result<Counts> {
    let arguments = ["--"].iter().chain(command);
    let trace = Tracer::start("run", arguments)?.finish()?;
    assert_eq!(trace.summary()?.all_lost(), 0);
    let mut counts = Counts::default();
    for event in trace.events()? {
        counts.forks += u64::from(event.is_system("fork"));
        counts.execs += u64::from(event.is_system("exec"));
    }
    Ok(counts)
}

#[test]
#[ignore = "loads eBPF"]
fn a_shell_scripts_forks_and_execs_are_those_that_strace_counts() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(
        &script,
        "i=0\nwhile [ $i -lt 20 ]; do\n  /bin/true; (exit 0); echo $i | cat >/dev/null\n  \
         /nowhere/at/all 2>/dev/null; i=$((i + 1))\ndone\n/bin/sh -c 'ls / | wc -l & wait' \
         >/dev/null\nexec /bin/true\n",
    )
    .unwrap();
    let command = ["/bin/sh", script.to_str().unwrap()];

    let counts = strace::count(&command).unwrap();
    assert!(counts.forks >= 100 && counts.execs >= 40, "{counts:?}");
    assert_eq!(traced(&command).unwrap(), counts);
}

#[test]
#[ignore = "loads eBPF"]
fn a_make_runs_forks_and_execs_are_those_that_strace_counts() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let makefile = folder.path().join("Makefile");
    fs::write(
        &makefile,
        "all: $(addprefix part,1 2 3 4 5 6 7 8 9)\npart%:\n\t@true $@; ls / >/dev/null\n\t@/bin/true\n",
    )
    .unwrap();
    let command = ["make", "-j2", "-f", makefile.to_str().unwrap()];

    let counts = strace::count(&command).unwrap();
    assert!(counts.forks >= 18 && counts.execs >= 18, "{counts:?}");
    assert_eq!(traced(&command).unwrap(), counts);
}
