//! Forks and execs against what strace counts for the same command.

use std::collections::BTreeSet;
use std::fs;

use tests::dist;
use tests::rights::missing_right;
use tests::strace::{self, Counts};
use tests::tracer::{Tracer, run_to_end};

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

#[test]
#[ignore = "loads eBPF"]
fn the_workers_that_the_kernel_makes_for_a_program_begin_and_end() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("workers", folder.path()).unwrap();
    // It ends with 77 where there is no io_uring.
    let (threads, events) = run_to_end("thread-create,thread-exit", &program).unwrap();
    let of_kernel: BTreeSet<u64> = threads.lines().map(|tid| tid.parse().unwrap()).collect();
    assert!(of_kernel.len() > 1, "{of_kernel:?}");
    let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event["type"].as_str() {
            Some("linux_trace_thread_create") => {
                begun.insert(event["data"]["child_tid"].as_u64().unwrap());
                begun.insert(event["pid"].as_u64().unwrap());
            }
            Some("linux_trace_thread_exit") => {
                ended.insert(event["tid"].as_u64().unwrap());
            }
            _ => {}
        }
    }
    // More may begin once the program has looked.
    assert!(begun.is_superset(&of_kernel), "{begun:?} {of_kernel:?}");
    assert!(begun.is_superset(&ended), "{begun:?} {ended:?}");
}
