//! Pid namespace, as every container has one: the kernel's view of processes has to be right there
//! too.

use std::ffi::OsString;

use super::binaries::Setting;

/// Files of tests that run in a namespace as well: each family of the kernel's events, and the
/// selection of processes; and for each file the test that always runs there. The others run in a
/// whole test run.
pub const FILES: [(&str, &str); 18] = [
    (
        "causes",
        "a_wait_that_ended_in_vain_is_of_who_ended_it_in_the_end",
    ),
    (
        "cgroups",
        "a_thread_that_is_moved_alone_is_distinguished_from_its_process",
    ),
    (
        "kernel_choices",
        "a_system_call_carries_its_arguments_its_result_and_where_it_was_made",
    ),
    (
        "choosing",
        "processes_of_a_name_are_traced_those_that_begin_later_too",
    ),
    (
        "counts",
        "calls_are_counted_as_often_as_strace_counts_them_and_fail_as_often",
    ),
    (
        "faults",
        "every_first_touch_is_a_fault_and_the_kernel_counted_as_many",
    ),
    (
        "forks",
        "a_shell_scripts_forks_and_execs_are_those_that_strace_counts",
    ),
    (
        "kernel_in_streams",
        "an_unchanged_program_is_given_them_by_its_environment",
    ),
    (
        "machine",
        "a_process_that_takes_too_much_memory_is_seen_to_be_chosen_and_killed",
    ),
    ("names", "threads_that_live_shortly_have_their_names"),
    (
        "probes",
        "arguments_are_those_of_the_program_and_of_its_child",
    ),
    (
        "run",
        "what_a_command_and_its_children_emit_at_once_is_all_there",
    ),
    ("signals", "a_sent_signal_shows_sender_receiver_and_call"),
    ("spans", "who_wakes_is_traced_too_where_that_is_asked_for"),
    (
        "switches",
        "each_threads_switches_are_as_many_as_the_kernel_counted",
    ),
    (
        "syscalls",
        "every_call_is_there_as_often_as_strace_counts_it_and_fails_as_often",
    ),
    (
        "waits_in",
        "a_thread_that_does_not_block_is_in_nothing_and_one_that_ends_in_its_exit",
    ),
    (
        "wakers",
        "a_wakeup_names_what_asked_for_it_and_never_who_was_interrupted",
    ),
];

/// Tests of those files that cannot run there, since the tool they compare with knows processes
/// only by the numbers of the whole machine.
pub const LEFT_OUT: [&str; 6] = [
    "bpftrace_at_the_same_tracepoint_sees_as_long_runs",
    "bpftrace_counts_as_many_calls_of_the_same_run",
    "bpftrace_counts_the_same_probes_as_often",
    "of_the_whole_machine_every_process_that_is_made_is_there_but_the_tracers_own",
    "the_kernels_own_tracer_says_the_same_of_each_move",
    "the_kernels_own_tracer_says_the_same_of_each_wakeup",
];

/// Tests of [`FILES`] that always run there.
const USUAL: [&str; FILES.len()] = {
    let mut names = [""; FILES.len()];
    let mut index = 0;
    while index < FILES.len() {
        names[index] = FILES[index].1;
        index += 1;
    }
    names
};

/// Returns the setting that runs a command in a pid namespace. The command fails where no namespace
/// can be made.
///
/// In a chroot the root may be a folder of a mount that has no name there: then `/proc` is made
/// private instead, so that the mount on it is not seen outside. The shell stays, as the
/// namespace's first process: it adopts the children whose parents have ended.
pub fn setting(is_whole: bool) -> Setting {
    let unshare = ["unshare", "--pid", "--fork", "--kill-child"];
    let mounts = ["--mount", "--propagation", "unchanged", "--"];
    let shell = ["sh", "-ec", ENTER, "sh"];
    let words = unshare.into_iter().chain(mounts).chain(shell);
    Setting {
        words: words.map(OsString::from).collect(),
        left_out: &LEFT_OUT,
        only: (!is_whole).then_some(&USUAL),
    }
}

const ENTER: &str = "\
mount --make-rprivate / 2>/dev/null || mount --make-private /proc
mount -t proc proc /proc
[ $$ = 1 ]
status=0
\"$@\" || status=$?
exit $status";
