//! Looks at threads in `/proc`, where no eBPF program can do it.
//!
//! `/proc` says less: not which threads have a CPU, and nothing of stacks.

use std::fs;

use tracer_area::{monotonic_now, proc_stat};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{RecordHeader, ThreadStateData, thread_state, waits_in};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::by_program::Looked;
use tracer_binary::bounded_proc;

/// Looks at the threads of a process; returns none where the process keeps the kernel from
/// answering.
pub fn look(pid: i32, is_followed: bool) -> Vec<Looked> {
    let looked = bounded_proc::ask_process(pid, move || {
        let is_compat = is_of_32_bits(pid);
        let threads = threads(pid).into_iter();
        threads
            .filter_map(|tid| look_at(pid, tid, is_compat, is_followed))
            .collect()
    });
    looked.unwrap_or_default()
}

fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Tells whether the program of a process has 32 bits, by its file.
fn is_of_32_bits(pid: i32) -> bool {
    /// Offset of the class, behind the four bytes with which every ELF file begins. 1 is
    /// `ELFCLASS32`.
    const CLASS: usize = 4;
    let mut head = [0; CLASS + 1];
    let file = fs::File::open(format!("/proc/{pid}/exe"));
    let is_read = file.and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    is_read.is_ok() && head[CLASS] == 1
}

/// Looks at a thread; `None` where it has ended.
fn look_at(pid: i32, tid: i32, is_compat: bool, is_followed: bool) -> Option<Looked> {
    let task = format!("/proc/{pid}/task/{tid}");
    // The clock is read before the thread is looked at: what happens after the look has a later
    // time.
    let time = monotonic_now();
    let stat = fs::read(format!("{task}/stat")).ok()?;
    let letter = proc_stat::field(&stat, 3)?.chars().next()?;
    let cpu = proc_stat::field(&stat, 39).and_then(|cpu| cpu.parse().ok());
    let mut data = ThreadStateData::new_zeroed();
    data.number = -1;
    data.followed = u8::from(is_followed);
    // The kernel's state bits that the letter stands for.
    (data.state, data.kernel_state) = match letter {
        'S' => (thread_state::BLOCKED, 0x1),
        'D' => (thread_state::BLOCKED, 0x2),
        'I' => (thread_state::BLOCKED, 0x402),
        'T' => (thread_state::STOPPED, 0x4),
        't' => (thread_state::TRACED, 0x8),
        'X' | 'x' | 'Z' => return None,
        // The thread runs or could run: the letter does not say which.
        _ => (thread_state::UNKNOWN, 0),
    };
    let mut address = 0;
    if data.state != thread_state::UNKNOWN {
        let syscall = fs::read_to_string(format!("{task}/syscall")).unwrap_or_default();
        match Syscall::parse(&syscall) {
            Some(Syscall::Call { nr, args, ip }) => {
                data.number = i32::from(nr);
                data.compat = u32::from(is_compat);
                data.args = args;
                data.syscall = nr;
                data.waits_in = if is_compat {
                    waits_in::COMPAT_SYSCALL
                } else {
                    waits_in::SYSCALL
                };
                address = ip;
            }
            Some(Syscall::None) => data.waits_in = waits_in::FAULT,
            // The thread has gone on since its state was read.
            Some(Syscall::Running) => data.state = thread_state::UNKNOWN,
            None => {}
        }
    }
    let header = RecordHeader {
        time_ns: time.0,
        thread_id: 0,
        program_address: address,
        pid: u32::try_from(pid).ok()?,
        tid: u32::try_from(tid).ok()?,
        event_type: u16::try_from(EventTypeId::THREAD_STATE.0).ok()?,
        cpu: cpu.unwrap_or(0),
        truncated: 0,
    };
    Some(Looked {
        event: [header.as_bytes(), data.as_bytes()].concat(),
        kernel: Vec::new(),
        registers: None,
    })
}

/// The contents of `/proc/PID/task/TID/syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syscall {
    /// System call that blocks the thread.
    Call { nr: u16, args: [u64; 6], ip: u64 },
    /// No system call, though the thread is blocked.
    None,
    /// Thread that does not block.
    Running,
}

impl Syscall {
    /// Reads the contents; `None` where they say something else, or nothing.
    fn parse(untrusted: &str) -> Option<Self> {
        let mut words = untrusted.split_ascii_whitespace();
        match words.next()? {
            "running" => Some(Self::Running),
            "-1" => Some(Self::None),
            nr => {
                let nr = nr.parse().ok()?;
                let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
                let mut args = [0; 6];
                for arg in &mut args {
                    *arg = word()?;
                }
                let (_stack, ip) = (word()?, word()?);
                Some(Self::Call { nr, args, ip })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_a_call_none_or_no_answer() {
        let call = Syscall::Call {
            nr: 202,
            args: [0x55, 0x189, 2, 0, 0, 0xff],
            ip: 0x7f01,
        };
        let line = "202 0x55 0x189 0x2 0x0 0x0 0xff 0x7ffe 0x7f01\n";
        assert_eq!(Syscall::parse(line), Some(call));
        assert_eq!(Syscall::parse("running\n"), Some(Syscall::Running));
        assert_eq!(Syscall::parse("-1 0x7ffe 0x7f01\n"), Some(Syscall::None));
        for damaged in [
            "",
            "x",
            "202",
            "202 0x55",
            "70000 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0",
        ] {
            assert_eq!(Syscall::parse(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn what_is_seen_of_the_threads_of_this_process_are_records_of_events() {
        use super::super::super::decode::decode;
        let pid = i32::try_from(std::process::id()).unwrap();
        let looked = look(pid, false);
        assert!(!looked.is_empty());
        for one in looked {
            let mut seen = 0;
            decode(&one.event, |header, _| {
                assert_eq!(
                    (header.pid, header.event_type),
                    (pid, EventTypeId::THREAD_STATE)
                );
                seen += 1;
            })
            .unwrap();
            assert_eq!(seen, 1);
        }
    }

    #[test]
    fn a_thread_that_waits_is_blocked_in_the_call_that_it_waits_in() {
        let (sender, receiver) = mpsc::channel::<()>();
        let (said, tid) = mpsc::channel();
        let waiting = std::thread::spawn(move || {
            // SAFETY: takes nothing and cannot fail.
            said.send(unsafe { libc::gettid() }).unwrap();
            receiver.recv().unwrap();
        });
        let tid = tid.recv().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let data = loop {
            let looked = look_at(pid, tid, false, true).unwrap();
            let (_, data) = looked.event.split_at(size_of::<RecordHeader>());
            let data: ThreadStateData = zerocopy::FromBytes::read_from_bytes(data).unwrap();
            // The thread may not have reached the call yet.
            if data.state == thread_state::BLOCKED {
                break data;
            }
        };
        sender.send(()).unwrap();
        waiting.join().unwrap();
        assert_eq!(i64::from(data.number), libc::SYS_futex);
        assert_eq!((data.waits_in, data.followed), (waits_in::SYSCALL, 1));
        assert!(look_at(pid, 0, false, true).is_none());
    }
}
