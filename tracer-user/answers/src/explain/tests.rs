//! Explanations of traces that are made up.

use tracer_analysis::Thread;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    FaultData, ForkData, LockWaitData, SwitchInData, SwitchOutData, SyscallEnterData,
    SyscallExitData, WakeupData, waits_in,
};
use tracer_engine::event::{Event, EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::LossCause;
use tracer_event::event_view::EventView;
use tracer_syscalls::pointer_data::push_item;
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::*;

const MS: u64 = 1_000_000;

/// System calls of x86-64.
const OPENAT: i32 = 257;
const READ: i32 = 0;
const RECVFROM: i32 = 45;
const FUTEX: i32 = 202;
const NANOSLEEP: i32 = 35;

/// States in which a thread leaves its CPU.
const SLEEPS: u32 = 1;
const STOPPED: u32 = 4;
const DEAD: u32 = 0x80;

/// A trace of a process whose threads have one CPU, one after the other. Other processes have
/// another one.
struct Made {
    gatherer: Gatherer,
    now: u64,
    /// When the running thread got the CPU.
    since: u64,
    names: Vec<(i32, &'static [u8])>,
}

impl Made {
    fn new(names: &[(i32, &'static str)]) -> Self {
        Self {
            gatherer: Gatherer::new(None),
            now: 0,
            since: 0,
            names: names
                .iter()
                .map(|(tid, name)| (*tid, name.as_bytes()))
                .collect(),
        }
    }

    fn event(&mut self, event_type: EventTypeId, of: Thread, data: &[u8]) {
        let name = self.names.iter().find(|(tid, _)| *tid == of.tid);
        let header = EventHeader {
            time: MonotonicNs(self.now),
            event_type,
            pid: of.pid,
            tid: of.tid,
            thread_id: 0,
            program_address: 0,
            cpu: Some(u32::from(of.pid != 1)),
            truncation: Truncation::None,
        };
        let event = Event { header, data };
        let name = name.map_or(&b"x"[..], |(_, name)| *name);
        self.gatherer.event(&EventView::bare(event, name)).unwrap();
    }

    fn switch_in(&mut self, of: Thread) {
        let woken = WakeupData::new_zeroed();
        self.event(EventTypeId::WAKEUP, of, woken.as_bytes());
        let data = SwitchInData::new_zeroed();
        self.event(EventTypeId::SWITCH_IN, of, data.as_bytes());
        self.since = self.now;
    }

    fn switch_out(&mut self, of: Thread, state: u32, call: Option<i32>) {
        let mut data = SwitchOutData::new_zeroed();
        (data.state, data.ran_ns) = (state, self.now - self.since);
        if let Some(call) = call {
            (data.waits_in, data.syscall) = (waits_in::SYSCALL, u16::try_from(call).unwrap());
        }
        self.event(EventTypeId::SWITCH_OUT, of, data.as_bytes());
    }

    fn enter(&mut self, of: Thread, number: i32, args: [u64; 6], path: Option<&str>) {
        let mut data = SyscallEnterData::new_zeroed();
        (data.number, data.args) = (number, args);
        let mut data = data.as_bytes().to_vec();
        if let Some(path) = path {
            push_item(&mut data, 1, 0, path.as_bytes());
        }
        self.event(EventTypeId::SYSCALL_ENTER, of, &data);
    }

    fn exit(&mut self, of: Thread, number: i32, ret: i64) {
        let mut data = SyscallExitData::new_zeroed();
        (data.number, data.ret) = (number, ret);
        self.event(EventTypeId::SYSCALL_EXIT, of, data.as_bytes());
    }

    /// A call that takes so long on a CPU.
    fn call(&mut self, of: Thread, (number, fd): (i32, u64), ret: i64, ns: u64) {
        self.enter(of, number, [fd, 0, 0, 0, 0, 0], None);
        self.now += ns;
        self.exit(of, number, ret);
    }

    fn finish(mut self, lost: u64) -> Explanation {
        self.gatherer.idle(MonotonicNs(self.now));
        let lost = vec![(LossCause::KernelRingFull, lost)];
        let elapsed = std::time::Duration::from_nanos(self.now);
        let summary = Summary::new(Vec::new(), lost, elapsed);
        let subject = ExplainSubject::Log("log".to_owned());
        Explanation::finish(self.gatherer, &summary, &subject)
    }

    fn finding(self, rule: &str) -> Option<RuleFinding> {
        let explanation = self.finish(0);
        let mut findings = explanation.findings().iter();
        findings.find(|found| found.rule == rule).cloned()
    }
}

fn thread(pid: i32, tid: i32) -> Thread {
    Thread { pid, tid }
}

#[test]
fn calls_that_fail_when_they_have_waited_keep_no_cpu_busy() {
    let of = thread(1, 1);
    let fails = |waited: u64| {
        let mut made = Made::new(&[(1, "asks")]);
        made.switch_in(of);
        for _ in 0..1000 {
            made.enter(of, RECVFROM, [3, 0, 0, 0, 0, 0], None);
            made.now += 20_000;
            made.switch_out(of, SLEEPS, Some(RECVFROM));
            made.now += waited;
            made.switch_in(of);
            made.now += 20_000;
            made.exit(of, RECVFROM, -11);
        }
        made.switch_out(of, DEAD, None);
        made.finding("failing")
    };
    let busy = fails(1000).unwrap();
    assert!(busy.ns >= 40 * MS && busy.share > 900, "{busy:?}");
    assert_eq!(fails(2 * MS), None, "nearly all of it is a wait");
}

#[test]
fn those_who_make_most_of_the_calls_are_named() {
    let mut made = Made::new(&[(1, "main"), (2, "worker"), (3, "worker"), (4, "last")]);
    for (tid, calls) in [(2, 2000), (3, 1000), (4, 1), (1, 1)] {
        let of = thread(1, tid);
        made.switch_in(of);
        for _ in 0..calls {
            made.call(of, (RECVFROM, 3), -11, 30_000);
        }
        made.switch_out(of, DEAD, None);
    }
    let found = made.finding("failing").unwrap();
    assert_eq!(found.who, "worker (2 threads of 1)");

    let mut made = Made::new(&[(1, "pool"), (2, "pool")]);
    for (tid, calls) in [(1, 0), (2, 2000)] {
        let of = thread(1, tid);
        made.switch_in(of);
        for _ in 0..calls {
            made.call(of, (RECVFROM, 3), -11, 30_000);
        }
        made.now += 1000;
        made.switch_out(of, DEAD, None);
    }
    let found = made.finding("failing").unwrap();
    assert_eq!(found.who, "pool 1/2", "the other one made none");
}

#[test]
fn the_file_that_takes_most_is_named() {
    let of = thread(1, 1);
    let mut made = Made::new(&[(1, "reads")]);
    made.switch_in(of);
    for (fd, path) in [(3, "/often"), (4, "/slow")] {
        made.enter(of, OPENAT, [0; 6], Some(path));
        made.exit(of, OPENAT, fd);
    }
    for nth in 0..2000_u64 {
        let (fd, ns) = if nth % 4 == 0 {
            (4, 100_000)
        } else {
            (3, 1000)
        };
        made.call(of, (READ, fd), 10, ns);
    }
    made.switch_out(of, DEAD, None);
    let found = made.finding("small-io").unwrap();
    assert!(found.what.contains(" of /slow and 1 more"), "{found:?}");
    assert_eq!(found.object.as_deref(), Some("/slow"));
}

#[test]
fn processes_that_live_at_the_same_time_take_it_once() {
    let of = thread(1, 1);
    let mut made = Made::new(&[(1, "make")]);
    made.switch_in(of);
    for round in 0..10 {
        for child in 0..4 {
            let mut data = ForkData::new_zeroed();
            let pid = 100 + round * 4 + child;
            (data.child_pid, data.child_tid) = (pid, pid);
            made.event(EventTypeId::FORK, of, data.as_bytes());
        }
        made.now += 10 * MS;
        for child in 0..4 {
            let pid = i32::try_from(100 + round * 4 + child).unwrap();
            made.event(EventTypeId::EXIT, thread(pid, pid), b"");
        }
        made.now += 10 * MS;
    }
    made.switch_out(of, DEAD, None);
    let found = made.finding("processes").unwrap();
    assert_eq!((found.count, found.ns), (40, 400 * MS));
    assert!((490..=510).contains(&found.share), "{found:?}");
}

#[test]
fn what_has_a_time_limit_does_not_hang() {
    let hung = |calls: [(i32, [u64; 6]); 2]| {
        let mut made = Made::new(&[(1, "waits"), (2, "waits")]);
        for (tid, (number, args)) in (1..).zip(calls) {
            let of = thread(1, tid);
            made.enter(of, number, args, None);
            made.switch_out(of, SLEEPS, Some(number));
        }
        made.now += 2000 * MS;
        made.finding("hung")
    };
    let lock = (FUTEX, [0x1000, 0x80, 2, 0, 0, 0]);
    assert!(hung([lock, lock]).is_some());
    let sleep = (NANOSLEEP, [0x2000, 0, 0, 0, 0, 0]);
    assert_eq!(hung([lock, sleep]), None);
    let timed = (FUTEX, [0x1000, 0x89, 0, 0x3000, 0, 0]);
    assert_eq!(hung([lock, timed]), None);
}

#[test]
fn threads_that_wait_for_locks_of_each_other_hang_while_others_go_on() {
    let hung = |holders: [(i32, u64); 2], limit, waited| {
        let mut made = Made::new(&[(1, "one"), (2, "two"), (3, "ticks")]);
        // A lock has an owner that is known as a thread of the process.
        for tid in 1..=3 {
            made.switch_in(thread(1, tid));
            made.now += 1000;
            made.switch_out(thread(1, tid), SLEEPS, None);
        }
        for (nth, (tid, (holder, lock))) in (1..).zip(holders).enumerate() {
            let of = thread(1, tid);
            made.switch_in(of);
            let operation = if limit == 0 { 0x80 } else { 0x89 };
            made.enter(of, FUTEX, [lock, operation, 2, limit, 0, 0], None);
            let mut data = LockWaitData::new_zeroed();
            (data.address, data.operation, data.value) = (lock, 128, 2);
            (data.parts, data.own_tid) = (7, u32::try_from(tid).unwrap());
            let holder = u64::try_from(holder).unwrap();
            (data.memory[2], data.memory[3]) = (2, holder | 1 << 32);
            made.event(EventTypeId::LOCK_WAIT, of, data.as_bytes());
            made.switch_out(of, SLEEPS, Some(FUTEX));
            made.now += u64::try_from(nth).unwrap();
        }
        let ticks = thread(1, 3);
        let rounds = waited / (10 * MS);
        for _ in 0..rounds {
            made.switch_in(ticks);
            made.enter(ticks, NANOSLEEP, [0x2000, 0, 0, 0, 0, 0], None);
            made.now += 100_000;
            made.switch_out(ticks, SLEEPS, Some(NANOSLEEP));
            made.now += 10 * MS;
            made.switch_in(ticks);
            made.exit(ticks, NANOSLEEP, 0);
        }
        made.switch_out(ticks, SLEEPS, None);
        made.finding("hung")
    };
    let circle = [(2, 0x1000), (1, 0x5000)];
    let found = hung(circle, 0, 2000 * MS).unwrap();
    assert_eq!(found.count, 2);
    assert!(found.what.contains("may wait for each other"), "{found:?}");
    assert!(found.what.contains("mutex 0x1000, which two 1/2 had"));
    assert!(matches!(found.sure, Sure::Inferred(_)), "{found:?}");
    // Not long enough, with a time limit, and both for one that goes on.
    assert_eq!(hung(circle, 0, 500 * MS), None);
    assert_eq!(hung(circle, 0x3000, 2000 * MS), None);
    assert_eq!(hung([(3, 0x1000), (3, 0x5000)], 0, 2000 * MS), None);
}

#[test]
fn each_stop_counts() {
    let of = thread(1, 1);
    let mut made = Made::new(&[(1, "stops")]);
    for _ in 0..3 {
        made.switch_in(of);
        made.now += MS;
        made.switch_out(of, STOPPED, None);
        made.now += 50 * MS;
    }
    assert_eq!(made.finding("stopped").unwrap().count, 3);
}

#[test]
fn where_events_were_lost_a_share_is_the_least_that_it_is() {
    let explain = |lost| {
        let of = thread(1, 1);
        let mut made = Made::new(&[(1, "stops")]);
        made.switch_in(of);
        made.now += MS;
        made.switch_out(of, STOPPED, None);
        made.now += 100 * MS;
        made.switch_in(of);
        if lost > 0 {
            made.gatherer.gap(&tracer_event::gap::Gap {
                next: MonotonicNs(made.now + 100 * MS),
                until: Some(MonotonicNs(made.now + 100 * MS)),
                is_kernels: true,
                is_unrecorded: false,
                tid: None,
            });
        }
        made.now += 100 * MS;
        made.switch_in(of);
        made.switch_out(of, DEAD, None);
        text(&made.finish(lost))
    };
    assert!(
        explain(9).contains("1. at least 50 % [stopped]"),
        "{}",
        explain(9)
    );
    assert!(explain(0).contains("1. 50 % [stopped]"), "{}", explain(0));
}

#[test]
fn pages_are_copied_since_a_fork_where_one_was_recorded() {
    let explain = |has_fork: bool| {
        let of = thread(1, 1);
        let mut made = Made::new(&[(1, "writes")]);
        made.switch_in(of);
        if has_fork {
            let mut data = ForkData::new_zeroed();
            (data.child_pid, data.child_tid) = (2, 2);
            made.event(EventTypeId::FORK, of, data.as_bytes());
        }
        let mut data = FaultData::new_zeroed();
        (data.write, data.protection) = (1, 1);
        for _ in 0..50_000 {
            made.event(EventTypeId::FAULT_USER, of, data.as_bytes());
            made.now += 2000;
        }
        made.switch_out(of, DEAD, None);
        made.finding("faults").unwrap().what
    };
    let forked = explain(true);
    assert!(
        forked.contains("copy pages that are shared since a fork"),
        "{forked}"
    );
    let alone = explain(false);
    assert!(alone.contains("a fork that was not recorded"), "{alone}");
}
