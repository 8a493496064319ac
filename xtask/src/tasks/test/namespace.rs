//! A pid namespace, as every container has one: what the kernel says of processes has to be right
//! there too.

use std::ffi::OsString;

use super::binaries::Setting;

/// The files of tests that run in one as well: each family of the kernel's events, and what chooses
/// processes.
pub const FILES: [&str; 16] = [
    "causes",
    "cgroups",
    "choosing",
    "faults",
    "forks",
    "kernel_in_streams",
    "machine",
    "names",
    "probes",
    "run",
    "signals",
    "spans",
    "switches",
    "syscalls",
    "waits_in",
    "wakers",
];

/// Those of their tests that cannot, since what they compare with knows processes by the numbers of
/// the whole machine alone.
pub const LEFT_OUT: [&str; 6] = [
    "bpftrace_at_the_same_tracepoint_sees_as_long_runs",
    "bpftrace_counts_as_many_calls_of_the_same_run",
    "bpftrace_counts_the_same_probes_as_often",
    "of_the_whole_machine_every_process_that_is_made_is_there_but_the_tracers_own",
    "the_kernels_own_tracer_says_the_same_of_each_move",
    "the_kernels_own_tracer_says_the_same_of_each_wakeup",
];

/// A pid namespace for a command. It fails where there can be no namespace.
///
/// In a chroot the root may be a folder of a mount that has no name there: then it is `/proc` that
/// is made private, so that nobody outside sees what is mounted on it. The shell stays, as the
/// namespace's first process: it takes the children whose parents have ended.
pub fn setting() -> Setting {
    let unshare = ["unshare", "--pid", "--fork", "--kill-child"];
    let mounts = ["--mount", "--propagation", "unchanged", "--"];
    let shell = ["sh", "-ec", ENTER, "sh"];
    let words = unshare.into_iter().chain(mounts).chain(shell);
    Setting {
        words: words.map(OsString::from).collect(),
        left_out: &LEFT_OUT,
    }
}

const ENTER: &str = "\
mount --make-rprivate / 2>/dev/null || mount --make-private /proc
mount -t proc proc /proc
[ $$ = 1 ]
status=0
\"$@\" || status=$?
exit $status";
