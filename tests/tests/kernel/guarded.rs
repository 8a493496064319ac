//! Guarded processes, whose events are recorded only while they may be looked into: against what
//! the program counts itself, and against a second tracer, of root, which sees everything.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::attacker::{VICTIM, command_as, open_to_all};
use tests::rights::missing_right;
use tests::target::Target;
use tests::{dist, timeout};
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Batch, Loss, LossCause, Pending, Source as _};
use tracer_kernel::{
    ExecStep, Guard, KernelOptions, KernelSource, KernelTracer, ReportsExecs as _,
};

/// Types beside those that are always recorded.
const WANTED: &[EventTypeId] = &[
    EventTypeId::SWITCH_IN,
    EventTypeId::SWITCH_OUT,
    EventTypeId::WAKEUP,
    EventTypeId::MIGRATE,
    EventTypeId::SIGNAL_GENERATE,
    EventTypeId::SIGNAL_DELIVER,
    EventTypeId::FAULT_USER,
    EventTypeId::SYSCALL_ENTER,
    EventTypeId::SYSCALL_EXIT,
];

/// A loaded tracer and what it has brought.
struct Tracing {
    tracer: KernelTracer,
    source: KernelSource,
    types: EventTypes,
    events: Vec<Pending>,
    data: Vec<u8>,
    losses: Vec<Loss>,
}

impl Tracing {
    fn load() -> Self {
        let (tracer, source) = KernelTracer::load(&KernelOptions {
            string_bytes: 64,
            ring_bytes: 16 << 20,
            wanted: WANTED.to_vec(),
            guards: true,
            ..KernelOptions::default()
        })
        .unwrap();
        Self {
            tracer,
            source,
            types: EventTypes::default(),
            events: Vec::new(),
            data: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// Collects until everything up to `time` is there.
    fn collect(&mut self, time: MonotonicNs) {
        let start = Instant::now();
        loop {
            let mut batch = Batch::new(
                &mut self.types,
                &mut self.events,
                &mut self.data,
                &mut self.losses,
            );
            if self.source.collect(&mut batch) >= time {
                return;
            }
            assert!(start.elapsed() < timeout(Duration::from_secs(20)));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn headers(&self) -> impl Iterator<Item = &EventHeader> {
        self.events.iter().map(|event| &event.header)
    }

    fn assert_nothing_lost(&self) {
        let lost = self.losses.iter();
        let lost = lost.filter(|loss| loss.cause != LossCause::KernelNotReported);
        assert_eq!(lost.count(), 0, "{:?}", self.losses);
    }
}

/// Work of the program between two times, as it says.
#[derive(Debug)]
struct Work {
    pid: i32,
    from: MonotonicNs,
    to: MonotonicNs,
    forks: u64,
    signals: u64,
    switches: u64,
}

impl Work {
    /// Finds the line of this name.
    fn said(said: &[String], name: &str) -> Self {
        let line = said
            .iter()
            .find(|line| line.split(' ').next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {said:?}"));
        let values: Vec<u64> = line
            .split(' ')
            .skip(1)
            .map(|word| word.parse().unwrap())
            .collect();
        let [pid, from, to, forks, signals, switches] = values[..] else {
            panic!("{line}");
        };
        assert!(forks == 20 && signals == 30 && switches >= 40, "{line}");
        Self {
            pid: i32::try_from(pid).unwrap(),
            from: MonotonicNs(from),
            to: MonotonicNs(to),
            forks,
            signals,
            switches,
        }
    }

    fn events<'t>(&self, tracing: &'t Tracing) -> impl Iterator<Item = &'t EventHeader> {
        let (from, to) = (self.from, self.to);
        let headers = tracing.headers();
        headers.filter(move |header| header.time > from && header.time < to)
    }

    /// Checks that the events are those that the program counted.
    fn assert_recorded(&self, tracing: &Tracing) {
        let own = |id| {
            let events = self.events(tracing);
            let own = events.filter(|header| header.pid == self.pid && header.event_type == id);
            own.count() as u64
        };
        assert_eq!(own(EventTypeId::FORK), self.forks);
        assert_eq!(own(EventTypeId::SIGNAL_DELIVER), self.signals);
        assert_eq!(own(EventTypeId::SWITCH_OUT), self.switches);
        let ends = self.events(tracing);
        let ends =
            ends.filter(|header| header.pid != self.pid && header.event_type == EventTypeId::EXIT);
        assert_eq!(ends.count() as u64, self.forks);
    }

    /// Checks that there is no event, of the process and those that it made; but of `other`.
    fn assert_withheld(&self, tracing: &Tracing, other: i32) {
        let events: Vec<_> = self
            .events(tracing)
            .filter(|header| header.pid != other)
            .collect();
        assert!(events.is_empty(), "{events:?}");
    }
}

/// A program that goes through steps, under a tracer that guards it and one that does not.
struct Guarded {
    guarded: Tracing,
    all: Tracing,
    said: Vec<String>,
    pid: i32,
}

impl Guarded {
    fn run(user: u32, program: &Path, steps: &[&str]) -> Self {
        Self::run_with(Guard::FirstNamespace, user, program, steps)
    }

    fn run_with(guard: Guard, user: u32, program: &Path, steps: &[&str]) -> Self {
        let mut guarded = Tracing::load();
        let mut all = Tracing::load();
        let mut command = if user == 0 {
            std::process::Command::new(program)
        } else {
            command_as(user, program)
        };
        let (mut target, _) = Target::start(command.arg("wait").args(steps)).unwrap();
        let pid = target.pid();
        if user == 0 {
            guarded
                .tracer
                .trace_found_guarded(&[pid], true, guard)
                .unwrap();
        } else {
            guarded.tracer.trace_guarded(pid, true, guard).unwrap();
        }
        all.tracer.trace(pid, true).unwrap();
        target.go().unwrap();
        let said = target.wait_until_done().unwrap();
        target.end().unwrap();
        let now = now();
        guarded.collect(now);
        all.collect(now);
        guarded.assert_nothing_lost();
        all.assert_nothing_lost();
        let this = Self {
            guarded,
            all,
            said,
            pid,
        };
        this.assert_counted();
        this
    }

    fn work(&self, name: &str) -> Work {
        Work::said(&self.said, name)
    }

    /// Checks that each event is recorded or counted.
    fn assert_counted(&self) {
        let (shown, all) = (self.guarded.events.len(), self.all.events.len());
        let withheld = usize::try_from(self.guarded.tracer.withheld()).unwrap();
        assert_eq!(shown + withheld, all, "{shown} shown");
        assert!(withheld > 0 && self.all.tracer.withheld() == 0);
    }

    fn count(&self, pid: i32, id: EventTypeId) -> usize {
        let events = self.guarded.headers();
        let events = events.filter(|header| header.pid == pid && header.event_type == id);
        events.count()
    }
}

fn now() -> MonotonicNs {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a `timespec` to write to; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let [seconds, rest] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap());
    MonotonicNs(seconds * 1_000_000_000 + rest)
}

/// Makes the program, for all users.
fn program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path()).unwrap();
    let program = dist::compile("guarded", folder.path()).unwrap();
    (folder, program)
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_process_that_is_not_dumpable_is_not_recorded_until_it_is_again() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    let steps = [
        "work:open",
        "thread:beside",
        "dumpable:0",
        "work:closed",
        "thread:closed_beside",
        "dumpable:1",
        "work:again",
    ];
    let run = Guarded::run(VICTIM, &program, &steps);
    for name in ["open", "beside", "again"] {
        run.work(name).assert_recorded(&run.guarded);
    }
    for name in ["closed", "closed_beside"] {
        let work = run.work(name);
        work.assert_recorded(&run.all);
        work.assert_withheld(&run.guarded, 0);
    }
    assert_eq!(run.count(run.pid, EventTypeId::EXIT), 1);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_process_with_a_user_namespace_of_its_own_is_not_recorded() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    // It stays dumpable, and is made so once more; then nothing but its namespace differs.
    let steps = [
        "work:open",
        "namespace",
        "dumpable:1",
        "work:inside",
        "powerless",
        "dumpable:1",
        "work:powerless",
    ];
    let run = Guarded::run(VICTIM, &program, &steps);
    assert!(
        run.said.contains(&"namespaces 1".to_owned()),
        "{:?}",
        run.said
    );
    run.work("open").assert_recorded(&run.guarded);
    for name in ["inside", "powerless"] {
        let work = run.work(name);
        work.assert_recorded(&run.all);
        work.assert_withheld(&run.guarded, 0);
    }
    assert_eq!(run.count(run.pid, EventTypeId::EXIT), 0);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_process_in_a_namespace_of_its_user_s_is_recorded_as_far_as_its_memory_counts_there() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    let runs = format!("run:{}", program.display());
    let steps = [
        "work:open",
        "dumpable:0",
        "work:closed",
        // The memory is still that of the exec outside.
        "namespace",
        "work:inside_closed",
        "dumpable:1",
        "work:inside",
        "thread:beside",
        "powerless",
        "work:powerless",
        "dumpable:0",
        "work:closed_again",
        &runs,
        "work:run",
        "dumpable:0",
        "work:run_closed",
        "thread:run_beside",
        "end",
    ];
    let run = Guarded::run_with(Guard::OwnNamespaces, VICTIM, &program, &steps);
    assert!(
        run.said.contains(&"namespaces 1".to_owned()),
        "{:?}",
        run.said
    );
    for name in ["closed", "inside_closed", "closed_again"] {
        let work = run.work(name);
        work.assert_recorded(&run.all);
        work.assert_withheld(&run.guarded, 0);
    }
    for name in ["open", "inside", "beside", "powerless"] {
        run.work(name).assert_recorded(&run.guarded);
    }
    let child = run.work("run").pid;
    assert_ne!(child, run.pid);
    for name in ["run", "run_closed", "run_beside"] {
        let work = run.work(name);
        assert_eq!(work.pid, child);
        work.assert_recorded(&run.guarded);
    }
    // The parent may not be dumped, and the child counts as what it was judged last.
    assert_eq!(run.count(child, EventTypeId::EXIT), 1);
    assert_eq!(run.count(run.pid, EventTypeId::EXIT), 0);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_process_that_gives_its_rights_up_is_recorded_once_it_is_dumpable() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    let user = format!("become:{VICTIM}");
    let steps = [
        "work:root",
        &user,
        "work:undumpable",
        "dumpable:1",
        "work:user",
    ];
    let run = Guarded::run(0, &program, &steps);
    for name in ["root", "undumpable"] {
        let work = run.work(name);
        work.assert_recorded(&run.all);
        work.assert_withheld(&run.guarded, 0);
    }
    run.work("user").assert_recorded(&run.guarded);
    assert_eq!(run.count(run.pid, EventTypeId::EXIT), 1);
}

/// Marks a copy of a program as special.
type Mark = fn(&Path);

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn nothing_of_a_program_with_other_rights_follows_its_exec() {
    if missing_right().is_some() {
        return;
    }
    let (folder, program) = program();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let kinds: [(&str, Mark); 4] = [
        ("set-uid", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).unwrap();
        }),
        ("set-gid", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o2755)).unwrap();
        }),
        ("capable", |path| {
            let mut setcap = std::process::Command::new("setcap");
            let status = setcap.arg("cap_net_raw+ep").arg(path).status().unwrap();
            assert!(status.success());
        }),
        ("unreadable", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o711)).unwrap();
        }),
    ];
    for (kind, mark) in kinds {
        let special = folder.path().join(kind);
        fs::copy(&program, &special).unwrap();
        mode(&special, 0o755);
        mark(&special);
        // Dumpable again where it is not the file that must not be read: its rights are others all
        // the same.
        let dumpable = if kind == "unreadable" { "0" } else { "1" };
        let (dumpable, runs) = (
            format!("dumpable:{dumpable}"),
            format!("run:{}", special.display()),
        );
        let steps = [
            "work:before",
            &runs,
            "work:special",
            &dumpable,
            "work:still",
            "end",
        ];
        let mut run = Guarded::run(VICTIM, &program, &steps);
        run.work("before").assert_recorded(&run.guarded);
        for name in ["special", "still"] {
            let work = run.work(name);
            work.assert_recorded(&run.all);
            work.assert_withheld(&run.guarded, run.pid);
        }
        let child = run.work("special").pid;
        assert_ne!(child, run.pid);
        // The exec is recorded all the same, with what has to be known to judge.
        let mut execs = run.guarded.source.take_exec_signs();
        execs.retain(|sign| sign.pid == child);
        assert_eq!(execs.len(), 2, "{kind}: {execs:?}");
        assert_eq!(execs[0].step, ExecStep::Begins, "{kind}");
        let ExecStep::Done(sight) = execs[1].step else {
            panic!("{kind}: {execs:?}");
        };
        let is_plain = (sight.uid, sight.gid, sight.permitted) == (VICTIM, VICTIM, 0);
        assert_eq!(is_plain, kind == "unreadable", "{kind}: {sight:?}");
        assert_eq!(sight.is_dumpable, 0, "{kind}: {sight:?}");
        let (begins, done) = (execs[0].time, execs[1].time);
        // Of the time between both there may be events of the old memory, and after it none.
        let events = run.guarded.headers();
        let after: BTreeSet<_> = events
            .filter(|header| header.pid == child && header.time > begins)
            .map(|header| (header.time, header.event_type))
            .collect();
        let late = after.iter().filter(|(time, _)| *time > done);
        assert_eq!(late.count(), 0, "{kind}: {after:?}");
        assert_eq!(run.count(child, EventTypeId::EXEC), 1, "{kind}");
    }
}
