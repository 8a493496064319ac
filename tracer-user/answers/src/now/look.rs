//! The look at the threads of some processes: what each of them waits for, and who has it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracer_binary::process_memory;
use tracer_binary::thread_context::ThreadContext;
use tracer_syscalls::names::{Table, name};

use super::asking::ask;
use super::descriptors::{self, DescriptorIndex, DescriptorLink, Direction, ProcessDescriptor};
use super::file_locks::{self, FileLock};
use super::maps::SharedMemories;
use super::places::{Places, ThreadPlace};
use super::robust;
use super::sockets;
use super::table::ProcessTable;
use super::threads::{InCall, ProcessFacts, ThreadFacts, ThreadId, read_thread};
use super::waits::{ThreadActivity, ThreadWait, WaitHolder, WaitKind};
use tracer_analysis::layouts::{self, FoundLock, FutexWait, LockKind, LockOwner};

/// Time after which no more processes are looked at.
const TIME: Duration = Duration::from_secs(3);

/// Times that a thread is looked at again where it has moved meanwhile.
const TRIES: usize = 3;

/// Looks at threads, and what was read for that.
pub struct WaitLook {
    deadline: Instant,
    processes: BTreeMap<i32, Option<ProcessFacts>>,
    table: Option<ProcessTable>,
    descriptors: Option<DescriptorIndex>,
    locks: Option<Vec<FileLock>>,
    memories: SharedMemories,
    places: Places,
}

/// A thread that was looked at.
#[derive(Clone, Debug)]
pub struct LookedAt {
    /// Facts about it.
    pub facts: ThreadFacts,
    /// System call that it is in.
    pub system_call: Option<String>,
    /// Its activity.
    pub activity: ThreadActivity,
    /// Where in its program it waits.
    pub place: ThreadPlace,
    /// Trace and span that it works for.
    pub context: Option<ThreadContext>,
}

impl WaitLook {
    /// Begins a look.
    pub fn new() -> Self {
        Self {
            deadline: Instant::now() + TIME,
            processes: BTreeMap::new(),
            table: None,
            descriptors: None,
            locks: None,
            memories: SharedMemories::default(),
            places: Places::default(),
        }
    }

    /// Tells whether the time is over.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns the facts about a process, which are read once; `None` where it has ended.
    pub fn process(&mut self, pid: i32) -> Option<&ProcessFacts> {
        let deadline = self.deadline;
        let known = self.processes.entry(pid);
        let is_late = move || Instant::now() >= deadline;
        known
            .or_insert_with(|| ProcessFacts::read(pid, is_late))
            .as_ref()
    }

    /// Looks at a thread, of which these facts are known; `None` where it has ended.
    pub fn thread(&mut self, pid: i32, mut facts: ThreadFacts) -> Option<LookedAt> {
        for _ in 0..TRIES {
            let looked = self.at_facts(pid, facts);
            let Ok(Some(now)) = read_thread(pid, looked.facts.tid) else {
                return Some(looked);
            };
            // What was read of its memory belongs to what it is in only if it is still there.
            if looked.activity.wait().is_none() || now.is_unmoved_since(&looked.facts) {
                return Some(looked);
            }
            facts = now;
        }
        let mut looked = self.at_facts(pid, facts);
        // It runs again and again.
        looked.activity = ThreadActivity::Runs;
        looked.place = ThreadPlace::default();
        looked.context = None;
        Some(looked)
    }

    fn at_facts(&mut self, pid: i32, facts: ThreadFacts) -> LookedAt {
        let process = self.process(pid);
        let is_compat = process.is_some_and(|process| process.is_compat);
        let is_kernel = process.is_some_and(|process| process.is_kernel);
        let reader = process.map_or(pid, |process| process.reader);
        let table = if is_compat {
            Table::Compat
        } else {
            Table::Native
        };
        let system_call = match facts.call {
            InCall::Call { number, .. } if !is_kernel => {
                Some(name(table, number).map_or_else(|| format!("syscall_{number}"), str::to_owned))
            }
            _ => None,
        };
        let is_blocked = matches!(facts.state, b'S' | b'D' | b'I' | b'K' | b'P');
        let mut place = ThreadPlace::default();
        let mut context = None;
        let activity = match facts.state {
            b'T' => ThreadActivity::Stopped,
            b't' => ThreadActivity::Traced(process_of(facts.tracer)),
            // It makes no calls: what is said of one are bytes of its stack.
            _ if is_blocked && is_kernel => waits(ThreadWait::new(WaitKind::Kernel)),
            _ if is_blocked => {
                if let (Some(registers), false) = (facts.call.registers(), is_compat) {
                    place = self.places.place(reader, registers);
                    let locks = robust::head(facts.tid);
                    context = locks.and_then(|locks| self.places.context(reader, locks));
                }
                let id = ThreadId {
                    pid,
                    tid: facts.tid,
                };
                match (&facts.call, system_call.as_deref()) {
                    (InCall::Untold, _) => ThreadActivity::Untold,
                    (InCall::Running, _) => ThreadActivity::Runs,
                    (InCall::Outside { .. }, _) => waits(ThreadWait::new(WaitKind::Page)),
                    (InCall::Call { args, .. }, called) => {
                        let call = Call {
                            thread: id,
                            reader,
                            name: called.unwrap_or_default(),
                            args,
                            facts: &facts,
                            place: &place,
                            is_compat,
                        };
                        waits(self.wait(&call))
                    }
                }
            }
            _ => ThreadActivity::Runs,
        };
        LookedAt {
            facts,
            system_call,
            activity,
            place,
            context,
        }
    }

    /// Returns what a thread waits for in a system call.
    fn wait(&mut self, call: &Call<'_>) -> ThreadWait {
        let kernel = call.facts.kernel_function.as_str();
        if kernel.contains("request_wait_answer") || kernel.starts_with("fuse_") {
            return self.served_file(call);
        }
        let called = match call.name {
            // The call that a signal has interrupted.
            "restart_syscall" => match kernel {
                _ if kernel.starts_with("futex") => "futex",
                _ if kernel.contains("nanosleep") => "nanosleep",
                _ if kernel.contains("poll") => "poll",
                _ if sleeps(call.place) => "nanosleep",
                _ => call.name,
            },
            called => called,
        };
        let [first, second, third, fourth, fifth, _] = *call.args;
        let timed = |kind, has_timeout| ThreadWait {
            has_timeout,
            ..ThreadWait::new(kind)
        };
        match called {
            "futex" | "futex_time64" => self.futex(call),
            "flock" => self.file_lock(call, &["FLOCK"]),
            "fcntl" | "fcntl64" => match i32::try_from(second) {
                Ok(libc::F_SETLKW) => self.file_lock(call, &["POSIX"]),
                Ok(libc::F_OFD_SETLKW) => self.file_lock(call, &["OFDLCK"]),
                _ => ThreadWait::new(WaitKind::Kernel),
            },
            "wait4" | "waitpid" => {
                let pid = signed(first);
                self.child(call, (pid > 0).then_some(pid), pid == -1 || pid > 0)
            }
            "waitid" => self.waitid(call),
            "vfork" | "clone" | "clone3" => self.borrowed(call),
            "restart_syscall" => timed(WaitKind::Kernel, true),
            "nanosleep" | "clock_nanosleep" | "clock_nanosleep_time64" => {
                timed(WaitKind::Time, true)
            }
            "pause" | "rt_sigsuspend" | "sigsuspend" => ThreadWait::new(WaitKind::Signal),
            "rt_sigtimedwait" | "rt_sigtimedwait_time64" => timed(WaitKind::Signal, third != 0),
            "poll" => self.polled(call, signed(third) >= 0),
            "ppoll" => self.polled(call, third != 0),
            "epoll_wait" | "epoll_pwait" => self.epoll(call, signed(fourth) >= 0),
            "epoll_pwait2" => self.epoll(call, fourth != 0),
            "select" | "pselect6" | "_newselect" => timed(WaitKind::Descriptors, fifth != 0),
            "semop" => timed(WaitKind::Semaphore, false).unknown(NO_OWNER),
            "semtimedop" => timed(WaitKind::Semaphore, fourth != 0).unknown(NO_OWNER),
            _ if READING.contains(&called) => self.descriptor(call, signed(first), Direction::Read),
            _ if WRITING.contains(&called) => {
                self.descriptor(call, signed(first), Direction::Write)
            }
            _ => ThreadWait::new(WaitKind::Kernel),
        }
    }

    fn futex(&mut self, call: &Call<'_>) -> ThreadWait {
        let Some(wait) = FutexWait::from_args(call.args) else {
            return ThreadWait::new(WaitKind::Futex);
        };
        let by_function = kind_by_function(call.place);
        let mut found = ThreadWait {
            address: Some(wait.address),
            has_timeout: wait.has_timeout,
            ..ThreadWait::new(by_function.unwrap_or(WaitKind::Futex))
        };
        let reader = call.reader;
        found.variable = self.places.variable(reader, wait.address);
        let runtime = call.place.runtime().filter(|_| !call.is_compat);
        let read = || {
            layouts::find(&wait, runtime, &|address, to| {
                read_words(reader, address, to)
            })
        };
        // What has a function of its own is that, whatever its words look like.
        let has_owner = !matches!(by_function, Some(WaitKind::Semaphore | WaitKind::Barrier));
        let Some(lock) = read().filter(|_| has_owner) else {
            return found.unknown(match by_function {
                Some(kind) if kind != WaitKind::Mutex => NO_OWNER,
                _ => "its layout tells no owner",
            });
        };
        found.kind = match lock.kind {
            LockKind::Mutex | LockKind::RobustMutex => WaitKind::Mutex,
            LockKind::RwLock => WaitKind::RwLock,
            LockKind::ThreadEnd => WaitKind::ThreadEnd,
        };
        let tid = match lock.owner {
            LockOwner::Thread(tid) => tid,
            LockOwner::Readers(count) => {
                found.readers = count;
                return found.unknown("readers are counted and not named");
            }
        };
        match self.owner(call, &wait, lock, tid) {
            // It may have changed hands while its owner was looked for.
            Ok(_) if read() != Some(lock) => found.unknown("it changes hands"),
            Ok(owner) => found.held_by(vec![WaitHolder::Thread(owner)]),
            Err(why) => found.unknown(why),
        }
    }

    /// Finds the thread that a lock names by its id in its own pid namespace.
    fn owner(
        &mut self,
        call: &Call<'_>,
        wait: &FutexWait,
        lock: FoundLock,
        tid: i32,
    ) -> Result<ThreadId, &'static str> {
        const GONE: &str = "the thread that it names is not there";
        let pid = call.thread.pid;
        let word = match wait.is_private {
            true => None,
            false => {
                let memory = self.memories.of_process(call.reader);
                memory.and_then(|memory| memory.word(wait.address))
            }
        };
        let Some(word) = word else {
            let process = self.process(pid).ok_or(GONE)?;
            let known = process.by_innermost(tid).map(|thread| thread.tid);
            let tid = known.or_else(|| newcomer(pid, tid)).ok_or(GONE)?;
            let owner = ThreadId { pid, tid };
            return confirmed(owner, lock, &[wait.address]);
        };
        let namespace = self
            .process(pid)
            .map(|process| process.pid_namespace.clone());
        let mut owners = Vec::new();
        for (other, reader) in self.table().readers() {
            if self.is_late() {
                return Err("there was no time to look for the processes that share it");
            }
            let Some(memory) = self.memories.of_process(reader) else {
                continue;
            };
            let addresses: Vec<u64> = memory.addresses(&word).collect();
            let process = match addresses.is_empty() {
                true => None,
                false => self.process(other),
            };
            let Some(thread) = process.and_then(|process| process.by_innermost(tid)) else {
                continue;
            };
            let owner = ThreadId {
                pid: other,
                tid: thread.tid,
            };
            let is_near = process_namespace(self.process(other)) == namespace;
            owners.push((confirmed(owner, lock, &addresses), is_near));
        }
        // The list of a thread proves that it has the lock.
        if lock.kind == LockKind::RobustMutex {
            owners.retain(|(owner, _)| owner.is_ok());
        }
        match &owners[..] {
            [(owner, true)] => *owner,
            [(owner, false)] if lock.kind == LockKind::RobustMutex => *owner,
            [] => Err(GONE),
            _ => Err("threads of several pid namespaces may have it"),
        }
    }

    fn file_lock(&mut self, call: &Call<'_>, kinds: &[&str]) -> ThreadWait {
        let pid = call.thread.pid;
        let descriptor = signed(call.args.first().copied().unwrap_or(0));
        let link = descriptors::link(call.reader, descriptor);
        let found = ThreadWait {
            descriptor: Some(descriptor),
            file: link.as_ref().map(|link| link.to_vec()),
            ..ThreadWait::new(WaitKind::FileLock)
        };
        let details = descriptors::details(call.reader, descriptor).unwrap_or_default();
        let Some(inode) = descriptors::detail(&details, "ino").map(str::to_owned) else {
            return found.unknown("the kernel does not say which file it is");
        };
        // Who waits now may have begun to after they were read.
        for _ in 0..2 {
            let locks = self.locks.get_or_insert_with(file_locks::read_all);
            let waited = file_locks::waited_for(locks, pid, &inode, kinds);
            let Some(held) = waited.map(|(_, held)| held.clone()) else {
                self.locks = None;
                continue;
            };
            if held.kind == "POSIX" && held.pid > 0 {
                return found.held_by(vec![WaitHolder::Process(held.pid)]);
            }
            let (holders, is_whole) = self.with_lock(&held, link.as_ref());
            if holders.is_empty() {
                return found.unknown("no process that may be looked into has it");
            }
            return ThreadWait {
                is_whole,
                ..found.held_by(holders)
            };
        }
        found.unknown("the kernel's list does not say which lock it is")
    }

    /// Returns the processes that have the open file to which a lock belongs.
    fn with_lock(
        &mut self,
        held: &FileLock,
        link: Option<&DescriptorLink>,
    ) -> (Vec<WaitHolder>, bool) {
        let index = self.descriptors();
        let with_link = link.map_or(&[][..], |link| index.with_link(link)).to_vec();
        let is_whole = index.is_whole;
        let has_it = |named: &ProcessDescriptor| {
            let details = named.details();
            let lines = details
                .lines()
                .filter_map(|line| line.strip_prefix("lock:"));
            let mut locks = lines.filter_map(FileLock::parse);
            locks.any(|lock| {
                (&lock.kind, &lock.file, lock.range) == (&held.kind, &held.file, held.range)
            })
        };
        let holders = with_link.iter().filter(|one| has_it(one));
        (each_once(holders.map(|named| named.pid)), is_whole)
    }

    fn waitid(&mut self, call: &Call<'_>) -> ThreadWait {
        const P_ALL: u64 = 0;
        const P_PID: u64 = 1;
        const P_PIDFD: u64 = 3;
        let [by, id, ..] = *call.args;
        match by {
            P_ALL => self.child(call, None, true),
            P_PID => self.child(call, Some(signed(id)), true),
            P_PIDFD => {
                let details = descriptors::details(call.reader, signed(id));
                let pid = details
                    .as_deref()
                    .and_then(|one| descriptors::detail(one, "Pid"));
                match pid.and_then(|pid| pid.parse().ok()).filter(|pid| *pid > 0) {
                    Some(pid) => {
                        ThreadWait::new(WaitKind::Child).held_by(vec![WaitHolder::Process(pid)])
                    }
                    None => ThreadWait::new(WaitKind::Child).unknown(NO_CHILD),
                }
            }
            _ => self.child(call, None, false),
        }
    }

    /// Returns the wait for a child, by its id in the thread's pid namespace, or for any.
    fn child(&mut self, call: &Call<'_>, id: Option<i32>, is_whole: bool) -> ThreadWait {
        let depth = call.facts.inner_tids.len().saturating_sub(1);
        let called = id.map(|id| (depth, id));
        let children = self.table().waited_for(call.thread.pid, called);
        if children.is_empty() {
            return ThreadWait::new(WaitKind::Child).unknown(NO_CHILD);
        }
        let wait = ThreadWait::new(WaitKind::Child);
        let wait = wait.held_by(children.into_iter().map(WaitHolder::Process).collect());
        ThreadWait { is_whole, ..wait }
    }

    fn borrowed(&mut self, call: &Call<'_>) -> ThreadWait {
        let children = self.table().waited_for(call.thread.pid, None);
        let wait = ThreadWait::new(WaitKind::Borrowed);
        match children[..] {
            [only] => wait.held_by(vec![WaitHolder::Process(only)]),
            [] => wait.unknown(NO_CHILD),
            _ => wait.unknown("it has several children"),
        }
    }

    /// Returns the wait for one of the descriptors of `poll()`.
    fn polled(&mut self, call: &Call<'_>, has_timeout: bool) -> ThreadWait {
        /// `POLLIN` and `POLLOUT`.
        const READABLE: u32 = 1;
        const WRITABLE: u32 = 4;
        let [address, count, ..] = *call.args;
        let mut words = [0; 2];
        let wait = if count == 1 && read_words(call.reader, address, &mut words) {
            let [descriptor, events] = words;
            match (descriptor.cast_signed(), events & (READABLE | WRITABLE)) {
                (descriptor, READABLE) => self.descriptor(call, descriptor, Direction::Read),
                (descriptor, WRITABLE) => self.descriptor(call, descriptor, Direction::Write),
                _ => ThreadWait::new(WaitKind::Descriptors),
            }
        } else if count == 0 {
            ThreadWait::new(WaitKind::Time)
        } else {
            ThreadWait::new(WaitKind::Descriptors)
        };
        ThreadWait {
            has_timeout,
            ..wait
        }
    }

    fn epoll(&mut self, call: &Call<'_>, has_timeout: bool) -> ThreadWait {
        let descriptor = signed(call.args.first().copied().unwrap_or(0));
        let details = descriptors::details(call.reader, descriptor).unwrap_or_default();
        let mut lines = details.lines().filter_map(|line| line.strip_prefix("tfd:"));
        let only = lines.next().filter(|_| lines.next().is_none());
        let watched = only.and_then(|line| {
            let (watched, events) = line.trim_start().split_once("events:")?;
            let events = u32::from_str_radix(events.split_whitespace().next()?, 16).ok()?;
            Some((watched.trim().parse().ok()?, events & 5))
        });
        let wait = match watched {
            Some((watched, 1)) => self.descriptor(call, watched, Direction::Read),
            Some((watched, 4)) => self.descriptor(call, watched, Direction::Write),
            _ => ThreadWait::new(WaitKind::Descriptors),
        };
        ThreadWait {
            has_timeout,
            ..wait
        }
    }

    fn descriptor(&mut self, call: &Call<'_>, descriptor: i32, way: Direction) -> ThreadWait {
        let link = descriptors::link(call.reader, descriptor);
        let named = |kind| ThreadWait {
            descriptor: Some(descriptor),
            file: link.as_ref().map(|link| link.to_vec()),
            ..ThreadWait::new(kind)
        };
        let Some(link) = &link else {
            return named(WaitKind::Descriptor);
        };
        let is_fifo = link.starts_with(b"/") && call.facts.kernel_function.contains("pipe");
        if link.starts_with(b"pipe:[") || is_fifo {
            return self.pipe(named(WaitKind::Pipe), link, way);
        }
        match sockets::inode_of(link) {
            Some(inode) => self.socket(call.reader, inode, named(WaitKind::Socket)),
            None => named(WaitKind::Descriptor),
        }
    }

    fn pipe(&mut self, wait: ThreadWait, link: &DescriptorLink, way: Direction) -> ThreadWait {
        let other = match way {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        };
        let index = self.descriptors();
        let (ends, is_whole) = (index.with_link(link).to_vec(), index.is_whole);
        let has_other = |end: &ProcessDescriptor| descriptors::allows(&end.details(), other);
        let holders = ends.iter().filter(|end| has_other(end));
        let holders = each_once(holders.map(|named| named.pid));
        if holders.is_empty() {
            return wait.unknown("no process that may be looked into has its other end");
        }
        ThreadWait {
            is_whole,
            ..wait.held_by(holders)
        }
    }

    fn socket(&mut self, pid: i32, inode: u64, mut wait: ThreadWait) -> ThreadWait {
        let Some(socket) = sockets::find(pid, inode) else {
            return wait.unknown("its other end is not known");
        };
        if let Some((own, other)) = socket.addresses {
            wait.file = Some(format!("{own} from {other}").into_bytes());
        }
        let Some(peer) = socket.peer else {
            return wait.unknown("its other end is on another machine, or is not seen");
        };
        let link = format!("socket:[{peer}]");
        let holders = self.descriptors().with_link(link.as_bytes());
        let holders = each_once(holders.iter().map(|named| named.pid));
        if holders.is_empty() {
            return wait.unknown("no process that may be looked into has its other end");
        }
        // A socket may have a time limit of its own, which is not seen.
        ThreadWait {
            is_whole: false,
            ..wait.held_by(holders)
        }
    }

    /// Returns the wait for a program that serves a file, by the descriptor of that file.
    fn served_file(&mut self, call: &Call<'_>) -> ThreadWait {
        let pid = call.reader;
        let of_descriptor = READING.contains(&call.name) || WRITING.contains(&call.name);
        let descriptor = of_descriptor.then(|| signed(call.args.first().copied().unwrap_or(0)));
        let mut wait = ThreadWait {
            descriptor,
            ..ThreadWait::new(WaitKind::ServedFile)
        };
        let link = descriptor.and_then(|descriptor| descriptors::link(pid, descriptor));
        wait.file = link.map(|link| link.to_vec());
        let connection = descriptor.and_then(|one| connection(pid, one));
        let Some(connection) = connection else {
            return wait.unknown("the call does not say which file system it is");
        };
        let servers = self.descriptors().with_link(b"/dev/fuse").to_vec();
        let serves = |named: &ProcessDescriptor| {
            descriptors::detail(&named.details(), "fuse_connection") == Some(connection.as_str())
        };
        let holders = servers.iter().filter(|server| serves(server));
        let holders = each_once(holders.map(|named| named.pid));
        if holders.is_empty() {
            return wait.unknown("the program that serves it is not seen");
        }
        wait.held_by(holders)
    }

    fn table(&mut self) -> &ProcessTable {
        let deadline = self.deadline;
        let is_late = move || Instant::now() >= deadline;
        self.table
            .get_or_insert_with(|| ProcessTable::read(is_late))
    }

    fn descriptors(&mut self) -> &DescriptorIndex {
        let readers = self.table().readers();
        let deadline = self.deadline;
        let is_late = move || Instant::now() >= deadline;
        let index = &mut self.descriptors;
        index.get_or_insert_with(|| DescriptorIndex::read(&readers, is_late))
    }
}

/// Reason for an unknown holder of what has none.
const NO_OWNER: &str = "it has no owner";

/// Reason for an unknown child.
const NO_CHILD: &str = "no such child is seen";

/// System calls that read from their first argument, and wait for that.
const READING: [&str; 14] = [
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
    "getdents64",
    "getdents",
    "fstat",
];

/// System calls that write to their first argument.
const WRITING: [&str; 13] = [
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "connect",
    "fsync",
    "fdatasync",
    "close",
];

/// System call in which a thread waits.
struct Call<'a> {
    thread: ThreadId,
    /// A thread of its process that lives, under which the kernel tells of the process.
    reader: i32,
    name: &'a str,
    args: &'a [u64; 6],
    facts: &'a ThreadFacts,
    place: &'a ThreadPlace,
    is_compat: bool,
}

fn waits(wait: ThreadWait) -> ThreadActivity {
    ThreadActivity::Waits(Box::new(wait))
}

/// Returns an argument as the kernel takes an `int`.
fn signed(arg: u64) -> i32 {
    let [a, b, c, d, ..] = arg.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Returns each process once.
fn each_once(pids: impl Iterator<Item = i32>) -> Vec<WaitHolder> {
    let mut pids: Vec<i32> = pids.collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().map(WaitHolder::Process).collect()
}

fn process_namespace(process: Option<&ProcessFacts>) -> Option<String> {
    process.map(|process| process.pid_namespace.clone())
}

/// Reads words of a process's memory, all of them.
fn read_words(pid: i32, address: u64, to: &mut [u32]) -> bool {
    let length = size_of_val(to);
    let read = ask(pid, move || {
        let mut bytes = vec![0; length];
        (process_memory::read(pid, address, &mut bytes) == bytes.len()).then_some(bytes)
    });
    let Ok(Some(bytes)) = read else { return false };
    for (to, from) in to.iter_mut().zip(bytes.chunks_exact(size_of::<u32>())) {
        *to = from.try_into().map_or(0, u32::from_ne_bytes);
    }
    true
}

/// Returns a thread that has come since its process was looked at, by its innermost id.
fn newcomer(pid: i32, innermost: i32) -> Option<i32> {
    let process = ProcessFacts::read(pid, || false)?;
    process.by_innermost(innermost).map(|thread| thread.tid)
}

/// Returns the owner, where nothing contradicts: one of a robust mutex has it in its list.
fn confirmed(
    owner: ThreadId,
    lock: FoundLock,
    addresses: &[u64],
) -> Result<ThreadId, &'static str> {
    if lock.kind == LockKind::RobustMutex && !robust::has(owner, addresses) {
        return Err("the thread that it names does not have it in its list");
    }
    Ok(owner)
}

/// Returns the process of a thread that traces another.
fn process_of(tracer: i32) -> WaitHolder {
    let status = std::fs::read_to_string(format!("/proc/{tracer}/status")).unwrap_or_default();
    let tgid = descriptors::detail(&status, "Tgid").and_then(|pid| pid.parse().ok());
    WaitHolder::Thread(ThreadId {
        pid: tgid.unwrap_or(tracer),
        tid: tracer,
    })
}

/// Tells whether a thread sleeps, by the function of the C library that it is in.
fn sleeps(place: &ThreadPlace) -> bool {
    let mut functions = place.runtime_functions();
    functions.any(|name| name.trim_start_matches('_').contains("nanosleep"))
}

/// Returns the kind of a lock by the function of the C library that waits for it.
fn kind_by_function(place: &ThreadPlace) -> Option<WaitKind> {
    const BY_NAME: [(&str, WaitKind); 9] = [
        ("pthread_mutex_", WaitKind::Mutex),
        ("pthread_rwlock_", WaitKind::RwLock),
        ("pthread_cond_", WaitKind::ConditionVariable),
        ("pthread_barrier_", WaitKind::Barrier),
        ("pthread_join", WaitKind::ThreadEnd),
        ("pthread_timedjoin", WaitKind::ThreadEnd),
        ("pthread_clockjoin", WaitKind::ThreadEnd),
        ("sem_", WaitKind::Semaphore),
        ("new_sem_", WaitKind::Semaphore),
    ];
    place.runtime_functions().find_map(|function| {
        let function = function.trim_start_matches('_');
        let mut known = BY_NAME.iter();
        let known = known.find(|(name, _)| function.starts_with(name));
        known.map(|(_, kind)| *kind)
    })
}

/// Returns the number of the connection to the program that serves a file: the minor number of its
/// device.
fn connection(pid: i32, descriptor: i32) -> Option<String> {
    let details = descriptors::details(pid, descriptor)?;
    let mount = descriptors::detail(&details, "mnt_id")?.to_owned();
    let mounts = ask(pid, move || std::fs::read(format!("/proc/{pid}/mountinfo")));
    let mounts = mounts.ok()?.ok()?;
    let mounts = String::from_utf8_lossy(&mounts);
    let line = mounts.lines().find_map(|line| {
        let (id, rest) = line.split_once(' ')?;
        (id == mount).then_some(rest)
    })?;
    let device = line.split(' ').nth(1)?;
    device.split_once(':').map(|(_, minor)| minor.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_as_wide_as_an_int() {
        assert_eq!(signed(0xffff_ffff), -1);
        assert_eq!(signed(u64::MAX), -1);
        assert_eq!(signed(0x1_0000_0005), 5);
    }

    #[test]
    fn words_that_are_not_there_are_not_read() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let words = [7_u32, 8];
        let mut read = [0; 2];
        assert!(read_words(pid, words.as_ptr() as u64, &mut read));
        assert_eq!(read, words);
        assert!(!read_words(pid, 4, &mut read));
    }
}
