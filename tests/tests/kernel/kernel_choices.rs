//! Choices are made in the kernel: needs the eBPF object and the rights to load it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_engine::event::EventHeader;
use tracer_engine::source::{Batch, Control, LossCause, Source};
use tracer_engine::{EventSet, EventTypes};
use tracer_kernel::{KernelOptions, KernelSource, KernelTracer, LoadError};
use tracer_syscalls::choice::SyscallSet;

use tests::timeout;

/// Lock that runs one test at a time: they look at what this process has loaded.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Tracing {
    tracer: KernelTracer,
    source: KernelSource,
    types: EventTypes,
    _turn: MutexGuard<'static, ()>,
}

impl Tracing {
    /// Loads for these types and calls, or returns `None` where this test may not run.
    fn load(wanted: &[EventTypeId], syscalls: SyscallSet) -> Option<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let options = KernelOptions {
            ring_bytes: 1 << 20,
            wanted: wanted.to_vec(),
            syscalls,
            wakes_at_exec: true,
            ..KernelOptions::default()
        };
        match KernelTracer::load(&options) {
            Ok((tracer, source)) => Some(Self {
                tracer,
                source,
                types: EventTypes::default(),
                _turn: turn,
            }),
            Err(error @ LoadError::Unmet { .. }) => {
                let is_required =
                    std::env::var_os("TRACER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
                assert!(!is_required, "privileged test cannot run: {error}");
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}: {error:?}"),
        }
    }

    fn trace_this_process(&mut self) {
        let pid = i32::try_from(std::process::id()).unwrap();
        self.tracer.trace(pid, false).unwrap();
    }

    /// Returns all events of the calling thread up to now that were not collected before.
    fn own_events(&mut self) -> Vec<(EventHeader, Vec<u8>)> {
        let (mut events, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        let (now, start) = (monotonic_now(), Instant::now());
        let mut collect = || {
            self.source.collect(&mut Batch::new(
                &mut self.types,
                &mut events,
                &mut data,
                &mut losses,
            ))
        };
        while collect() < now {
            assert!(
                start.elapsed() < timeout(Duration::from_secs(20)),
                "no watermark"
            );
        }
        // An event that the kernel did not report is no loss of the tracer's.
        losses.retain(|loss| loss.cause != LossCause::KernelNotReported);
        assert_eq!(losses, []);
        // SAFETY: `gettid` has no preconditions.
        let tid = unsafe { libc::gettid() };
        let own = events.iter().filter(|event| event.header.tid == tid);
        let mut own: Vec<_> = own
            .map(|event| (event.header, event.data(&data).to_vec()))
            .collect();
        // Each ring brings its own in one piece.
        own.sort_by_key(|(header, _)| header.time);
        own
    }
}

/// Counts the entries of each system call, by its system call number.
fn calls(events: &[(EventHeader, Vec<u8>)]) -> BTreeMap<i64, u32> {
    let mut calls = BTreeMap::new();
    for (header, data) in events {
        if header.event_type == EventTypeId::SYSCALL_ENTER {
            let code = i32::from_ne_bytes(data[..4].try_into().unwrap());
            *calls.entry(i64::from(code)).or_default() += 1;
        }
    }
    calls
}

fn call(code: libc::c_long, times: u32) {
    for _ in 0..times {
        // SAFETY: the calls that the tests name take no argument and change nothing.
        unsafe { libc::syscall(code) };
    }
}

/// Returns the programs that this process has descriptors of, by name as far as the kernel keeps
/// it.
fn own_programs() -> Vec<String> {
    let mut ids = Vec::new();
    for entry in fs::read_dir("/proc/self/fdinfo").unwrap() {
        let info = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        // A link's text names its program too.
        if info.contains("prog_jited:") {
            let id = info.lines().find_map(|line| line.strip_prefix("prog_id:"));
            ids.push(id.unwrap().trim().parse::<u32>().unwrap());
        }
    }
    ids.sort_unstable();
    ids.dedup();
    let loaded = aya::programs::loaded_programs().filter_map(Result::ok);
    let mut names: Vec<String> = loaded
        .filter(|program| ids.contains(&program.id()))
        .map(|program| without_form(program.name_as_str().unwrap_or_default()).to_owned())
        .collect();
    names.sort_unstable();
    names
}

/// Returns the name of a program without the ending of those of raw tracepoints, of which the
/// kernel may have a part alone.
fn without_form(name: &str) -> &str {
    let ends = ["_raw", "_ra", "_r", "_"];
    let name_of = |end| name.strip_suffix(end);
    ends.into_iter().find_map(name_of).unwrap_or(name)
}

/// Sorts names, each shortened to the kernel's limit on names of programs, which is like
/// `TASK_COMM_LEN`.
fn sorted(names: &[&str]) -> Vec<String> {
    let mut sorted: Vec<String> = names
        .iter()
        .map(|name| name.chars().take(15).collect())
        .collect();
    sorted.sort_unstable();
    sorted
}

const ALWAYS: [&str; 5] = [
    "sched_process_fork",
    "task_newtask",
    "sched_process_exit",
    "sched_process_exec",
    "task_rename",
];

/// Tells whether the kernel has this tracepoint: whether the texts in its BTF name it.
fn is_in_kernel(tracepoint: &str) -> bool {
    let btf = fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = format!("\0btf_trace_{tracepoint}\0");
    btf.windows(name.len()).any(|part| part == name.as_bytes())
}

/// Tells whether this is where the kernel's own pids are shown (`PROC_PID_INIT_INO`).
fn is_in_first_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").unwrap().ino() == 0xefff_fffc
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_program_that_is_not_wanted_is_not_loaded() {
    // Who starts a request is named by the first, before 6.5 by the second.
    let starts = ["block_io_start", "block_getrq"];
    let starts = starts.into_iter().find(|name| is_in_kernel(name)).unwrap();
    for (wanted, programs) in [
        (&[][..], &[][..]),
        (&[EventTypeId::SIGNAL_DELIVER], &["signal_deliver"]),
        (
            &[EventTypeId::SYSCALL_EXIT, EventTypeId::IDLE_ENTER],
            // Which call ends is known from its entry where the system call number is gone
            // (`rt_sigreturn`).
            &["sys_enter", "sys_exit", "cpu_idle"],
        ),
        (
            &[EventTypeId::BLOCK_COMPLETE],
            &[starts, "block_rq_issue", "block_rq_complete"],
        ),
    ] {
        let Some(tracing) = Tracing::load(wanted, SyscallSet::all()) else {
            return;
        };
        let expected = ALWAYS.iter().chain(programs).copied();
        let mut expected: Vec<&str> = expected.filter(|name| is_in_kernel(name)).collect();
        if wanted.contains(&EventTypeId::BLOCK_COMPLETE) {
            // It is run in the end, to see what has ended without a report.
            expected.push("request_state");
        }
        if !is_in_first_pid_namespace() {
            // The kernel has to list the processes that are there.
            expected.push("list_tasks");
        }
        assert_eq!(own_programs(), sorted(&expected));
        drop(tracing);
    }
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn other_system_calls_are_chosen_while_the_programs_run() {
    let wanted = [EventTypeId::SYSCALL_ENTER];
    let set = |name| SyscallSet::of_names([name]).unwrap();
    let Some(mut tracing) = Tracing::load(&wanted, set("getppid")) else {
        return;
    };
    tracing.trace_this_process();
    let round = |tracing: &mut Tracing| {
        call(libc::SYS_getppid, 10);
        call(libc::SYS_getuid, 20);
        calls(&tracing.own_events())
    };

    assert_eq!(
        round(&mut tracing),
        BTreeMap::from([(libc::SYS_getppid, 10)])
    );
    tracing.tracer.set_syscalls(&set("getuid"));
    assert_eq!(
        round(&mut tracing),
        BTreeMap::from([(libc::SYS_getuid, 20)])
    );
    tracing
        .tracer
        .set_syscalls(&SyscallSet::of_names([]).unwrap());
    assert_eq!(round(&mut tracing), BTreeMap::new());
    tracing.tracer.set_syscalls(&SyscallSet::all());
    let all = round(&mut tracing);
    assert_eq!((all[&libc::SYS_getppid], all[&libc::SYS_getuid]), (10, 20));
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_filter_takes_types_away_and_gives_them_back_while_the_programs_run() {
    let wanted = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
    let set = SyscallSet::of_names(["getppid"]).unwrap();
    let Some(mut tracing) = Tracing::load(&wanted, set) else {
        return;
    };
    tracing.trace_this_process();
    let mut round = |filtered: &[EventTypeId]| {
        tracing.source.control(&Control {
            running: true,
            filter: filtered.iter().copied().collect::<EventSet>(),
        });
        call(libc::SYS_getppid, 10);
        let events = tracing.own_events();
        let of = |id| {
            events
                .iter()
                .filter(|(header, _)| header.event_type == id)
                .count()
        };
        wanted.map(of)
    };

    assert_eq!(round(&[]), [10, 10]);
    assert_eq!(round(&[EventTypeId::SYSCALL_ENTER]), [0, 10]);
    assert_eq!(round(&wanted), [0, 0]);
    assert_eq!(round(&[EventTypeId::SYSCALL_EXIT]), [10, 0]);
    assert_eq!(round(&[]), [10, 10]);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_system_call_carries_its_arguments_its_result_and_where_it_was_made() {
    let wanted = [EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
    let set = SyscallSet::of_names(["lseek"]).unwrap();
    let Some(mut tracing) = Tracing::load(&wanted, set) else {
        return;
    };
    tracing.trace_this_process();
    // Whole registers: of an int, the upper half is anything.
    let offset = 0x1234_5678_9abc_i64;
    // SAFETY: there is no such file descriptor.
    let result = unsafe { libc::syscall(libc::SYS_lseek, -1, offset, 2_i64, 4_i64, 5_i64, 6_i64) };
    assert_eq!(result, -1);
    let events = tracing.own_events();

    let [(enter, entered), (exit, left)] = &events[..] else {
        panic!("{events:?}");
    };
    let long = |data: &[u8], at: usize| i64::from_ne_bytes(data[at..at + 8].try_into().unwrap());
    let arguments: Vec<i64> = (0..6).map(|i| long(entered, 8 + 8 * i)).collect();
    // The first is an int: the upper half of its register is undefined.
    assert_eq!(arguments[0] & 0xffff_ffff, 0xffff_ffff);
    assert_eq!(&arguments[1..], [0x1234_5678_9abc, 2, 4, 5, 6]);
    assert_eq!(long(left, 8), -i64::from(libc::EBADF));
    assert!(exit.time > enter.time);
    // SAFETY: `pthread_self` has no preconditions.
    let own = unsafe { libc::pthread_self() };
    for header in [enter, exit] {
        assert!(is_code(header.program_address), "{header:?}");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(header.thread_id, own as u64);
        }
    }
}

/// Tells whether an address is one of code of this process.
fn is_code(address: u64) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next().unwrap(), words.next().unwrap());
        let (start, end) = range.split_once('-').unwrap();
        let address_of = |hex| u64::from_str_radix(hex, 16).unwrap();
        rights.contains('x') && (address_of(start)..address_of(end)).contains(&address)
    })
}
