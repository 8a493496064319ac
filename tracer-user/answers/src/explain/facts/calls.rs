//! System calls of each process, with what a rule may ask of them.

use std::sync::Arc;

use foldhash::HashMap;
use tracer_analysis::{CallKey, OpenCalls, Thread, TotalsByKey, calls_are_recorded};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{SwitchOutData, SyscallEnterData, SyscallExitData, waits_in};
use tracer_engine::event::Event;
use tracer_syscalls::pointer_data::Texts;
use zerocopy::FromBytes as _;

use super::descriptors::{KnownDescriptors, descriptor, harmless};
use super::{CallCost, CallCoverage, WaitClass, WaitDetail, classes};
use crate::queries::words::call_name;

/// Returned errors that are told apart in one sum; those beyond count as the last of them.
const MOST_ERRORS: usize = 8;

/// Objects of calls that are told apart.
const MOST_OBJECTS: usize = 8192;

/// The lowest value that is an error number, negated.
const LOWEST_ERROR: i64 = -4095;

/// Bytes up to which a read or a write is a small one.
pub const SMALL_BYTES: i64 = 512;

/// Process and a system call of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallOf {
    /// The process.
    pub pid: i32,
    /// The system call.
    pub key: CallKey,
}

/// Calls of one kind of a process.
#[derive(Clone, Debug, Default)]
pub struct CallSum {
    /// How many returned.
    pub count: u64,
    /// How long they took, in nanoseconds.
    pub ns: u64,
    /// Errors, with how often each came.
    pub errors: Vec<(i64, u64)>,
    /// How many returned 0.
    pub zero: u64,
    /// Bytes that they returned, where that is what they return.
    pub bytes: u64,
    /// How many of them returned few bytes.
    pub small: u64,
    /// Their time, in nanoseconds.
    pub small_ns: u64,
    /// A thread that made them.
    pub thread: Thread,
    /// The part of the time from which all of this is estimated, in thousandths; `None` where all
    /// calls were recorded.
    pub sampled: Option<u64>,
    /// Least and most that `count` is, where it is an estimate.
    pub count_between: Option<(u64, u64)>,
}

/// The calls of all processes.
#[derive(Debug, Default)]
pub struct CallSums {
    open: OpenCalls<Entered>,
    sums: TotalsByKey<CallOf, CallSum>,
    /// How often, by process, call and object.
    objects: HashMap<(CallOf, Arc<str>), u64>,
    descriptors: KnownDescriptors,
    /// Details of waits in the calls of each process.
    usual: HashMap<CallOf, UsualWait>,
    has_calls: bool,
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
            _ => {
                self.open.follow(event);
            }
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
            let whole = |counted: &mut u64| {
                *counted = windows.whole(of.pid, *counted, cost).likely;
            };
            let CallSum {
                count,
                ns,
                errors,
                zero,
                bytes,
                small,
                small_ns,
                thread: _,
                sampled: _,
                count_between: _,
            } = sum;
            for counted in [count, zero, bytes, small] {
                whole(counted);
            }
            errors.iter_mut().for_each(|(_, count)| whole(count));
            for time in [ns, small_ns] {
                *time = windows.whole_ns(of.pid, *time);
            }
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
        self.note_object(of, &name, &entered);
        let given = (&entered.args, entered.path.as_deref());
        self.descriptors
            .learn_exit(header.pid, &name, given, returned);
        let texts = Texts::behind(size_of::<SyscallExitData>(), event.data);
        self.descriptors.learn_pair(header.pid, &name, texts);
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let ns = header.time.0.saturating_sub(entered.at);
        self.sums.get_or_insert(of).add(thread, &name, returned, ns);
    }

    fn note_object(&mut self, of: CallOf, name: &str, entered: &Entered) {
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
        let key = (of, object);
        if count < MOST_OBJECTS || self.objects.contains_key(&key) {
            *self.objects.entry(key).or_default() += 1;
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

    /// Returns the object that most of these calls were of, and how many.
    #[must_use]
    pub fn main_object(&self, of: CallOf) -> Option<(Arc<str>, u64)> {
        let of_it = self.objects.iter().filter(|((call, _), _)| *call == of);
        let most = of_it.max_by(|((_, one), a), ((_, other), b)| a.cmp(b).then(other.cmp(one)));
        most.map(|((_, object), count)| (Arc::clone(object), *count))
    }

    /// Counts the different objects of these calls.
    #[must_use]
    pub fn count_objects(&self, of: CallOf) -> usize {
        self.objects.keys().filter(|(call, _)| *call == of).count()
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

/// Tells whether a call returns how many bytes it has read or written.
#[must_use]
pub fn returns_bytes(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
        "pwritev2", "recvfrom", "recvmsg", "sendto", "sendmsg",
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

impl CallSum {
    fn add(&mut self, thread: Thread, name: &str, returned: i64, ns: u64) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
        self.thread = thread;
        self.zero += u64::from(returned == 0);
        if (LOWEST_ERROR..0).contains(&returned) {
            self.fail(returned.saturating_neg());
        } else if returns_bytes(name) && returned > 0 {
            self.bytes = self.bytes.saturating_add(returned.unsigned_abs());
            if returned <= SMALL_BYTES {
                self.small += 1;
                self.small_ns = self.small_ns.saturating_add(ns);
            }
        }
    }

    fn fail(&mut self, error: i64) {
        if let Some((_, count)) = self.errors.iter_mut().find(|(known, _)| *known == error) {
            *count += 1;
        } else if self.errors.len() < MOST_ERRORS {
            self.errors.push((error, 1));
        } else if let Some((_, count)) = self.errors.last_mut() {
            *count += 1;
        }
    }

    /// Returns the error that came most often, and how often.
    #[must_use]
    pub fn main_error(&self) -> Option<(i64, u64)> {
        let errors = self.errors.iter().copied();
        errors.max_by_key(|(error, count)| (*count, std::cmp::Reverse(*error)))
    }
}
