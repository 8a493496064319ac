//! Facts about threads and processes at a moment, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use tracer_binary::bounded_proc::HeldProcess;
use tracer_binary::probes::open_ordinary;

use super::asking::ask;

/// A thread, by the ids of this pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
}

/// System call, or other place in the kernel, that a thread was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InCall {
    /// The kernel does not tell this user.
    Untold,
    /// It has a CPU, or waits for one.
    Running,
    /// Blocked outside a system call: in a page fault, say.
    Outside {
        /// Its stack pointer.
        stack: u64,
        /// Where it continues.
        ip: u64,
    },
    /// Blocked in a system call.
    Call {
        /// Number of the call.
        number: i32,
        /// Its arguments.
        args: [u64; 6],
        /// Stack pointer of the thread.
        stack: u64,
        /// Where it continues.
        ip: u64,
    },
}

impl InCall {
    /// Reads the contents of `/proc/PID/task/TID/syscall`.
    fn parse(untrusted: &str) -> Option<Self> {
        let mut words = untrusted.split_ascii_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Self::Running);
        }
        let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        if first == "-1" {
            let (stack, ip) = (word()?, word()?);
            return Some(Self::Outside { stack, ip });
        }
        let number = first.parse().ok()?;
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = word()?;
        }
        let (stack, ip) = (word()?, word()?);
        Some(Self::Call {
            number,
            args,
            stack,
            ip,
        })
    }

    /// Returns where the thread continues, and its stack pointer.
    pub fn registers(&self) -> Option<(u64, u64)> {
        match self {
            Self::Untold | Self::Running => None,
            Self::Outside { stack, ip } | Self::Call { stack, ip, .. } => Some((*ip, *stack)),
        }
    }
}

/// Facts about a thread.
#[derive(Clone, Debug)]
pub struct ThreadFacts {
    /// The thread.
    pub tid: i32,
    /// Its name, any bytes.
    pub comm: Vec<u8>,
    /// The letter of its state.
    pub state: u8,
    /// Its ids, from this pid namespace to its own.
    pub inner_tids: Vec<i32>,
    /// The thread that traces it; 0 for none.
    pub tracer: i32,
    /// Function of the kernel in which it is blocked; empty where that is not told.
    pub kernel_function: String,
    /// The system call that it is blocked in.
    pub call: InCall,
    /// Times that it has left a CPU.
    pub switches: u64,
}

impl ThreadFacts {
    /// Reads the facts; `None` where the thread has ended.
    fn read(pid: i32, tid: i32) -> Option<Self> {
        let task = format!("/proc/{pid}/task/{tid}");
        let comm = fs::read(format!("{task}/comm")).ok()?;
        // Before the rest: where the count is the same later, the rest was so all the time.
        let status = fs::read(format!("{task}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let call = match fs::read_to_string(format!("{task}/syscall")) {
            Ok(line) => InCall::parse(&line).unwrap_or(InCall::Untold),
            Err(_) => InCall::Untold,
        };
        let kernel_function = fs::read_to_string(format!("{task}/wchan")).unwrap_or_default();
        let count = |name| number_of(&status, name).unwrap_or(0);
        Some(Self {
            tid,
            comm: comm.strip_suffix(b"\n").unwrap_or(&comm).to_vec(),
            state: *value_of(&status, "State")?.as_bytes().first()?,
            inner_tids: value_of(&status, "NSpid")
                .map(|ids| ids.split_ascii_whitespace())
                .into_iter()
                .flatten()
                .filter_map(|id| id.parse().ok())
                .collect(),
            tracer: number_of(&status, "TracerPid").unwrap_or(0),
            kernel_function: match kernel_function.as_str() {
                "0" => String::new(),
                _ => kernel_function,
            },
            call,
            switches: u64::saturating_add(
                count("voluntary_ctxt_switches"),
                count("nonvoluntary_ctxt_switches"),
            ),
        })
    }

    /// Returns its id in its own pid namespace.
    pub fn innermost(&self) -> i32 {
        self.inner_tids.last().copied().unwrap_or(self.tid)
    }

    /// Tells whether it has not run between two looks.
    pub fn is_unmoved_since(&self, before: &Self) -> bool {
        self.switches == before.switches && self.state == before.state && self.call == before.call
    }

    /// Tells whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Returns the value of a line of `status`.
fn value_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.strip_prefix(':')?.trim())
}

fn number_of<N: std::str::FromStr>(status: &str, name: &str) -> Option<N> {
    value_of(status, name)?.parse().ok()
}

/// Part of a process that may be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessAccess {
    /// All.
    Whole,
    /// Not what its threads are in, as this user may not trace it.
    Refused,
    /// Nothing: it keeps the kernel from answering.
    Held,
}

/// Facts about a process.
#[derive(Clone, Debug)]
pub struct ProcessFacts {
    /// A thread that lives, under which the kernel tells of the process.
    pub reader: i32,
    /// Its threads, but for those that have ended.
    pub threads: BTreeMap<i32, ThreadFacts>,
    /// Threads that were not looked at, as there are too many.
    pub left_out: usize,
    /// Thread of the kernel, which has no program.
    pub is_kernel: bool,
    /// Program of 32 bits.
    pub is_compat: bool,
    /// Its pid namespace; empty where that is not told.
    pub pid_namespace: String,
    /// Part of this that is known.
    pub access: ProcessAccess,
}

/// Threads of a process that are looked at.
const MOST_THREADS: usize = 20_000;

impl ProcessFacts {
    /// Looks at a process; `None` where it has ended. `is_late` tells when the time for it is over.
    pub fn read(pid: i32, is_late: impl Fn() -> bool) -> Option<Self> {
        let mut tids = threads(pid)?;
        let mut left_out = tids.len().saturating_sub(MOST_THREADS);
        tids.truncate(MOST_THREADS);
        let mut found = Self {
            reader: pid,
            threads: BTreeMap::new(),
            left_out: 0,
            is_kernel: false,
            is_compat: false,
            pid_namespace: String::new(),
            access: ProcessAccess::Whole,
        };
        for (index, tid) in tids.iter().enumerate() {
            if is_late() {
                left_out = left_out.saturating_add(tids.len() - index);
                break;
            }
            match read_thread(pid, *tid) {
                Ok(Some(thread)) if thread.has_ended() => {}
                Ok(Some(thread)) => drop(found.threads.insert(*tid, thread)),
                Ok(None) => {}
                Err(_) => {
                    found.access = ProcessAccess::Held;
                    return Some(found);
                }
            }
        }
        found.left_out = left_out;
        if found.threads.is_empty() {
            return None;
        }
        // The first one may have ended before the others.
        let reader = match found.threads.first_key_value() {
            Some((first, _)) if !found.threads.contains_key(&pid) => *first,
            _ => pid,
        };
        found.reader = reader;
        let is_refused = fs::read_to_string(format!("/proc/{reader}/syscall"))
            .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if is_refused {
            found.access = ProcessAccess::Refused;
        }
        let more = ask(pid, move || {
            let namespace = fs::read_link(format!("/proc/{reader}/ns/pid"));
            let namespace = namespace.map(|link| link.to_string_lossy().into_owned());
            let namespace = namespace.unwrap_or_default();
            (namespace, is_of_32_bits(reader), is_of_kernel(reader))
        });
        (found.pid_namespace, found.is_compat, found.is_kernel) = more.unwrap_or_default();
        Some(found)
    }

    /// Returns a thread by its id in its own pid namespace.
    pub fn by_innermost(&self, tid: i32) -> Option<&ThreadFacts> {
        let mut threads = self.threads.values();
        threads.find(|thread| thread.innermost() == tid)
    }
}

/// Reads the facts about a thread; `None` where it has ended.
///
/// # Errors
///
/// Its process keeps the kernel from answering.
pub fn read_thread(pid: i32, tid: i32) -> Result<Option<ThreadFacts>, HeldProcess> {
    ask(pid, move || ThreadFacts::read(pid, tid))
}

fn threads(pid: i32) -> Option<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(tids.collect())
}

/// Tells whether a thread is one of the kernel's, by its flags.
fn is_of_kernel(tid: i32) -> bool {
    /// `PF_KTHREAD`.
    const KERNEL: u64 = 0x20_0000;
    /// Index of the flags among the fields behind the name, which may have any bytes.
    const FLAGS: usize = 6;
    let stat = fs::read(format!("/proc/{tid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let flags = behind.split_ascii_whitespace().nth(FLAGS);
    let flags = flags.and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL != 0)
}

/// Tells whether the program of a process has 32 bits, by its file.
fn is_of_32_bits(pid: i32) -> bool {
    /// `ELFCLASS32`, behind the four bytes that all begin with.
    const NARROW: u8 = 1;
    let mut head = [0; 5];
    let file = open_ordinary(format!("/proc/{pid}/exe").as_ref());
    let is_read = file.and_then(|mut file| io::Read::read_exact(&mut file, &mut head));
    is_read.is_ok() && head.last() == Some(&NARROW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_a_call_a_place_outside_or_no_answer() {
        let line = "202 0x55 0x189 0x2 0x0 0x0 0xff 0x7ffe 0x7f01\n";
        let call = InCall::Call {
            number: 202,
            args: [0x55, 0x189, 2, 0, 0, 0xff],
            stack: 0x7ffe,
            ip: 0x7f01,
        };
        assert_eq!(InCall::parse(line), Some(call));
        assert_eq!(call.registers(), Some((0x7f01, 0x7ffe)));
        assert_eq!(InCall::parse("running\n"), Some(InCall::Running));
        let outside = InCall::Outside { stack: 1, ip: 2 };
        assert_eq!(InCall::parse("-1 0x1 0x2\n"), Some(outside));
        for damaged in ["", "x", "202", "202 0x55", "-1", "-1 0x1"] {
            assert_eq!(InCall::parse(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn this_process_is_looked_at() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let found = ProcessFacts::read(pid, || false).unwrap();
        let own = found.threads.values();
        assert!(found.access == ProcessAccess::Whole && !found.is_compat && !found.is_kernel);
        assert!(own.clone().all(|thread| !thread.inner_tids.is_empty()));
        assert!(own.clone().any(|thread| thread.state == b'R'));
        assert!(found.pid_namespace.starts_with("pid:["));
        let tid = found.threads.values().next().unwrap().innermost();
        assert!(found.by_innermost(tid).is_some());
        assert!(found.by_innermost(-1).is_none());
    }
}
