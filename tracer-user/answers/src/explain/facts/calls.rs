//! System calls of each process, with what a rule may ask of them.

use std::sync::Arc;

use foldhash::HashMap;
use tracer_analysis::{CallKey, OpenCalls, Thread, TotalsByKey, calls_are_recorded};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SwitchOutData, SyscallEnterData, SyscallExitData, waits_in};
use tracer_engine::event::{Event, EventHeader};
use tracer_syscalls::pointer_data::Texts;
use zerocopy::FromBytes as _;

use super::call_sum::{CallSum, CallTime};
use super::descriptors::{KnownDescriptors, descriptor, harmless};
use super::{CallCost, CallCoverage, WaitClass, WaitDetail, classes};
use crate::queries::words::call_name;

/// Objects of calls that are told apart.
const MOST_OBJECTS: usize = 8192;

/// Process and a system call of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallOf {
    /// The process.
    pub pid: i32,
    /// The system call.
    pub key: CallKey,
}

/// The calls of all processes.
#[derive(Debug, Default)]
pub struct CallSums {
    open: OpenCalls<Entered>,
    sums: TotalsByKey<CallOf, CallSum>,
    /// How long they had a CPU, in nanoseconds, and how many they were.
    objects: HashMap<CallsOn, (u64, u64)>,
    descriptors: KnownDescriptors,
    /// Details of waits in the calls of each process.
    usual: HashMap<CallOf, UsualWait>,
    has_calls: bool,
}

/// Calls of a process on an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallsOn {
    of: CallOf,
    object: Arc<str>,
    /// Whether they failed.
    has_failed: bool,
}

/// Waits in a call of a process, where the call was recorded.
#[derive(Clone, Debug)]
struct UsualWait {
    detail: WaitDetail,
    /// How many were of that kind, and how many of another one.
    same: u64,
    others: u64,
}

/// Waits in a call before it is known what they are usually for.
const FEW_WAITS: u64 = 3;

/// Beginning of a call.
#[derive(Clone, Debug)]
struct Entered {
    at: u64,
    args: [u64; 6],
    path: Option<Arc<str>>,
    /// The first of the descriptors that `poll()` is given.
    polled: Option<i32>,
    /// How long its thread had no CPU since, in nanoseconds.
    away: u64,
    /// When its thread has left its CPU, while it has none.
    left: Option<u64>,
}

impl Entered {
    /// Returns how long the call took that ends now, and how long its thread had a CPU, in
    /// nanoseconds.
    fn took(&self, now: u64) -> CallTime {
        let took = now.saturating_sub(self.at);
        // When it got a CPU again was not seen.
        let away = self.left.map_or(0, |left| now.saturating_sub(left));
        CallTime {
            took,
            on_cpu: took.saturating_sub(self.away.saturating_add(away)),
        }
    }
}

impl CallSums {
    /// Notes that events were lost before the next one.
    pub fn lose(&mut self) {
        self.open.clear();
    }

    /// Notes that a process was made.
    pub fn fork(&mut self, parent: i32, child: i32) {
        self.descriptors.fork(parent, child);
    }

    /// Tells whether system calls were recorded.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Goes on by one event.
    pub fn feed(&mut self, event: &Event<'_>) {
        match event.header.event_type {
            EventTypeId::SYSCALL_ENTER => self.enter(event),
            EventTypeId::SYSCALL_EXIT => self.leave(event),
            EventTypeId::FILTER if calls_are_recorded(event) == Some(false) => self.lose(),
            EventTypeId::SWITCH_OUT | EventTypeId::SWITCH_IN => self.switch(&event.header),
            _ => {
                self.open.follow(event);
            }
        }
    }

    /// Notes that a thread gets or leaves its CPU.
    fn switch(&mut self, header: &EventHeader) {
        let Some(entered) = self.open.current_mut(header.tid) else {
            return;
        };
        let now = header.time.0;
        if header.event_type == EventTypeId::SWITCH_OUT {
            entered.left = Some(now);
        } else if let Some(left) = entered.left.take() {
            entered.away = entered.away.saturating_add(now.saturating_sub(left));
        }
    }

    /// Makes estimates of the whole from what was recorded in windows.
    pub fn estimate(&mut self, windows: &CallCoverage, cost: CallCost) {
        for (of, sum) in self.sums.iter_mut() {
            let Some(share) = windows.share_of(of.pid) else {
                continue;
            };
            sum.sampled = Some(share);
            sum.count_between = Some(windows.whole(of.pid, sum.count, cost).between);
            let whole = |counted| windows.whole(of.pid, counted, cost).likely;
            sum.scale(whole, |time| windows.whole_ns(of.pid, time));
        }
    }

    fn enter(&mut self, event: &Event<'_>) {
        let Ok((data, _)) = SyscallEnterData::read_from_prefix(event.data) else {
            return;
        };
        self.has_calls = true;
        let header = event.header;
        let key = CallKey::new(data.compat != 0, data.number);
        let texts = Texts::behind(size_of::<SyscallEnterData>(), event.data);
        let name = call_name(key);
        self.descriptors
            .learn_entry(header.pid, &name, &data.args, texts);
        let path = texts
            .iter()
            .find(|text| !text.is_bytes && !text.bytes.is_empty());
        let path = path.filter(|_| is_by_path(&name)).map(|text| {
            let more = if text.has_more { "…" } else { "" };
            format!("{}{more}", harmless(text.bytes)).into()
        });
        let polled = is_poll(&name).then(|| texts.find(0)).flatten();
        let polled = polled.and_then(|text| text.bytes.first_chunk::<4>());
        let entered = Entered {
            at: header.time.0,
            args: data.args,
            path,
            polled: polled.map(|fd| i32::from_ne_bytes(*fd)),
            away: 0,
            left: None,
        };
        self.open.enter(header.tid, key, entered);
    }

    fn leave(&mut self, event: &Event<'_>) {
        let Some((key, returned)) = CallKey::from_exit(event.data) else {
            return;
        };
        self.has_calls = true;
        let header = event.header;
        let Some(begun) = self.open.leave(header.tid, key, returned) else {
            return;
        };
        if !begun.is_ended {
            return;
        }
        let (key, entered) = (begun.key, begun.facts);
        let name = call_name(key);
        let of = CallOf {
            pid: header.pid,
            key,
        };
        let time = entered.took(header.time.0);
        let has_failed = key.fails_with(returned);
        self.note_object((of, has_failed), &name, &entered, time.on_cpu);
        let given = (&entered.args, entered.path.as_deref());
        self.descriptors
            .learn_exit(header.pid, &name, given, returned);
        let texts = Texts::behind(size_of::<SyscallExitData>(), event.data);
        self.descriptors.learn_pair(header.pid, &name, texts);
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let failed = has_failed.then_some(returned.saturating_neg());
        let sum = self.sums.get_or_insert(of);
        sum.add(thread, &name, (returned, failed), time);
    }

    fn note_object(
        &mut self,
        (of, has_failed): (CallOf, bool),
        name: &str,
        entered: &Entered,
        on_cpu: u64,
    ) {
        let by_descriptor = || {
            let opened = self.descriptors.get(of.pid, descriptor(entered.args[0]))?;
            (!opened.name.is_empty()).then(|| Arc::clone(&opened.name))
        };
        let object = entered.path.clone().or_else(|| {
            let is_by = classes::is_by_descriptor(of.key) || is_on_descriptor(name);
            is_by.then(by_descriptor).flatten()
        });
        let Some(object) = object else {
            return;
        };
        let count = self.objects.len();
        let key = CallsOn {
            of,
            object,
            has_failed,
        };
        if count < MOST_OBJECTS || self.objects.contains_key(&key) {
            let (ns, calls) = self.objects.entry(key).or_default();
            *ns = ns.saturating_add(on_cpu);
            *calls += 1;
        }
    }

    /// Returns the detail of the wait of a thread that leaves its CPU now, in the call that it is
    /// in; `None` where that is not known.
    #[must_use]
    pub fn detail(&self, thread: Thread) -> Option<WaitDetail> {
        let (key, entered) = self.open.current(thread.tid)?;
        let args = &entered.args;
        let class = classes::of_call(key, Some(args));
        let name = call_name(key);
        let is_on = classes::is_by_descriptor(key) || is_on_descriptor(&name);
        let fd = entered
            .polled
            .or_else(|| is_on.then(|| descriptor(args[0])));
        let opened = fd.and_then(|fd| self.descriptors.get(thread.pid, fd));
        let class = match (class, opened) {
            (WaitClass::Other | WaitClass::Socket, Some(opened)) => opened.class,
            (WaitClass::Poll, Some(opened)) if opened.class == WaitClass::Dns => WaitClass::Dns,
            (class, _) => class,
        };
        let object = opened.map(|opened| Arc::clone(&opened.name));
        let object = object.or_else(|| entered.path.clone());
        Some(WaitDetail {
            class,
            object: object.filter(|object| !object.is_empty()),
            is_inferred: false,
        })
    }

    /// Returns the detail of the wait of a thread that leaves its CPU, with this data of its
    /// switch. Where calls `are_recorded` it is that of the call that it is in; where they are not,
    /// it is that of most waits in the same call of its process.
    pub fn detail_at_switch(
        &mut self,
        thread: Thread,
        untrusted: &[u8],
        are_recorded: bool,
    ) -> Option<WaitDetail> {
        let detail = self.detail(thread);
        let (data, _) = SwitchOutData::read_from_prefix(untrusted).ok()?;
        let key = match data.waits_in & !waits_in::IO {
            waits_in::SYSCALL => CallKey::new(false, data.syscall.into()),
            waits_in::COMPAT_SYSCALL => CallKey::new(true, data.syscall.into()),
            _ => return detail,
        };
        let of = CallOf {
            pid: thread.pid,
            key,
        };
        match detail {
            Some(detail) => {
                self.note_usual(of, &detail);
                Some(detail)
            }
            None if are_recorded => None,
            None => self.usual.get(&of).and_then(UsualWait::detail),
        }
    }

    fn note_usual(&mut self, of: CallOf, detail: &WaitDetail) {
        if let Some(usual) = self.usual.get_mut(&of) {
            let is_same = usual.detail.class == detail.class;
            usual.same += u64::from(is_same);
            usual.others += u64::from(!is_same);
            if usual.detail.object != detail.object {
                usual.detail.object = None;
            }
        } else if self.usual.len() < MOST_OBJECTS {
            let usual = UsualWait {
                detail: detail.clone(),
                same: 1,
                others: 0,
            };
            self.usual.insert(of, usual);
        }
    }

    /// Returns the sums, in order.
    #[must_use]
    pub fn sorted(&self) -> Vec<(CallOf, &CallSum)> {
        self.sums.sorted()
    }

    /// Returns the object on which these calls had a CPU for longest, of those that failed or those
    /// that did not, and the number of different objects.
    #[must_use]
    pub fn main_object(&self, of: CallOf, has_failed: bool) -> Option<(Arc<str>, usize)> {
        let meant = |on: &CallsOn| on.of == of && on.has_failed == has_failed;
        let of_it = self.objects.iter().filter(|(on, _)| meant(on));
        let count = of_it.clone().count();
        let most = of_it
            .max_by(|(one, a), (other, b)| a.cmp(b).then_with(|| other.object.cmp(&one.object)));
        most.map(|(on, _)| (Arc::clone(&on.object), count))
    }
}

fn is_poll(name: &str) -> bool {
    matches!(name, "poll" | "ppoll")
}

/// Tells whether a call is given the name of a file.
fn is_by_path(name: &str) -> bool {
    const NAMES: [&str; 24] = [
        "open",
        "openat",
        "openat2",
        "creat",
        "stat",
        "lstat",
        "newfstatat",
        "statx",
        "access",
        "faccessat",
        "faccessat2",
        "readlink",
        "readlinkat",
        "unlink",
        "unlinkat",
        "rename",
        "renameat",
        "renameat2",
        "mkdir",
        "mkdirat",
        "execve",
        "execveat",
        "chdir",
        "statfs",
    ];
    NAMES.contains(&name)
}

/// Tells whether a call is given a descriptor first, beside those that only that tells apart.
fn is_on_descriptor(name: &str) -> bool {
    const NAMES: [&str; 18] = [
        "fsync",
        "fdatasync",
        "sync_file_range",
        "ftruncate",
        "fallocate",
        "getdents64",
        "fcntl",
        "flock",
        "connect",
        "recvfrom",
        "recvmsg",
        "recvmmsg",
        "sendto",
        "sendmsg",
        "sendmmsg",
        "accept",
        "accept4",
        "lseek",
    ];
    NAMES.contains(&name)
}

impl UsualWait {
    /// Returns the detail of nearly all of the waits, where there were enough.
    fn detail(&self) -> Option<WaitDetail> {
        let is_usual = self.same >= FEW_WAITS && self.same / 9 >= self.others;
        is_usual.then(|| WaitDetail {
            is_inferred: true,
            ..self.detail.clone()
        })
    }
}
