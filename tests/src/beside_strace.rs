//! Programs under strace and `tracer-user` in the same run, line by line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::call_lines::{self, Compared};
use crate::dist;

/// The calls that programs make most: those of which ten of them made most, as they were counted.
pub const HUNDRED: [&str; 100] = [
    "accept4",
    "access",
    "arch_prctl",
    "bind",
    "brk",
    "capget",
    "chdir",
    "chmod",
    "clock_nanosleep",
    "clone",
    "clone3",
    "close",
    "connect",
    "copy_file_range",
    "dup",
    "dup2",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "execve",
    "exit",
    "exit_group",
    "fadvise64",
    "fchmod",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fstat",
    "fsync",
    "ftruncate",
    "futex",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "getrandom",
    "getsockname",
    "getsockopt",
    "gettid",
    "getuid",
    "getxattr",
    "ioctl",
    "kill",
    "lgetxattr",
    "link",
    "listen",
    "lseek",
    "madvise",
    "mkdir",
    "mkdirat",
    "mmap",
    "mprotect",
    "munmap",
    "newfstatat",
    "open",
    "openat",
    "pipe2",
    "poll",
    "prctl",
    "pread64",
    "prlimit64",
    "pselect6",
    "pwrite64",
    "read",
    "readlink",
    "recvfrom",
    "recvmsg",
    "rename",
    "rmdir",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sendfile",
    "sendmsg",
    "sendto",
    "set_robust_list",
    "set_tid_address",
    "setpgid",
    "setsockopt",
    "socket",
    "statfs",
    "statx",
    "sysinfo",
    "tgkill",
    "umask",
    "uname",
    "unlink",
    "unlinkat",
    "utimensat",
    "vfork",
    "wait4",
    "waitid",
    "write",
    "writev",
];

/// A pair of lines, of strace and of `tracer-user`, that may differ, and why.
struct Known {
    /// Whether these two are such lines: the second one is empty where `tracer-user` has none.
    is_it: fn(&str, &str) -> bool,
    /// Reason of the difference.
    reason: &'static str,
}

/// Known differences. Every other difference fails a test.
const KNOWN: &[Known] = &[
    Known {
        is_it: |theirs, ours| {
            // 231 is `exit_group`, which another thread is in.
            let call = theirs.strip_suffix("= ?");
            let call = call.or_else(|| theirs.strip_suffix("= 231"));
            call.is_some_and(|call| ours.is_empty() || ours.starts_with(&format!("{call}= ")))
        },
        reason: "a call that ends with its process: strace has no result of it, we the kernel's, if any",
    },
    Known {
        is_it: |theirs, ours| {
            let begun = theirs.strip_suffix("<unfinished ...>) = ?");
            begun.is_some_and(|begun| ours.starts_with(begun))
        },
        reason: "a call that ends with its process, of which strace shows what it saw before",
    },
    Known {
        is_it: |theirs, ours| theirs.contains("nlmsg_type=0x") && ours.contains("nlmsg_type=RTM_"),
        reason: "a socket of another network namespace, of which strace does not know the protocol",
    },
    Known {
        is_it: |theirs, _| {
            theirs.starts_with("seccomp(SECCOMP_GET_ACTION_AVAIL, 0, [")
                || theirs.starts_with("seccomp(SECCOMP_SET_MODE_STRICT, 0x1, ")
        },
        reason: "what the kernel can: an action in memory, and a flag of the other operation",
    },
    Known {
        is_it: |theirs, _| theirs.starts_with("restart_syscall("),
        reason: "strace says which call is made again, of which the kernel says nothing",
    },
    Known {
        is_it: |theirs, ours| {
            let without = |line: &str| line.split_once(", tls=").map(|(call, _)| call.to_owned());
            theirs.contains("tls={entry_") && without(theirs) == without(ours)
        },
        reason: "a 32-bit program's segment for its thread's own memory: by its address",
    },
    Known {
        is_it: |theirs, ours| ours.replacen(">(deleted)", ">", 1) == theirs,
        reason: "a file that another process removes after strace has looked, and before we do",
    },
    Known {
        is_it: |theirs, ours| name(theirs) == "pwritev" && ours.contains("..."),
        reason: "of many parts, as much is shown as a record has space for",
    },
    Known {
        is_it: |theirs, ours| {
            // Of a text, its beginning.
            let start = ours.split("...").next().unwrap_or_default();
            let start = start.strip_suffix('"').unwrap_or(start);
            theirs.contains("{nlmsg_len=") && ours.contains("...") && theirs.starts_with(start)
        },
        reason: "of a long datagram of netlink, as much is shown as a record has space for",
    },
    Known {
        is_it: |theirs, _| theirs.starts_with("set_thread_area("),
        reason: "the same",
    },
];

/// File of the scripts for shells among the programs: its first argument names the script.
pub const SCRIPTS: &str = "scripts.sh";

/// Returns the folder of the programs that are compared.
#[must_use]
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/beside_strace")
}

/// Form in which lines show descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The integers alone.
    Plain,
    /// The integers and what they refer to: `strace -y`.
    Paths,
}

/// A program that runs in a folder of its own.
#[derive(Debug)]
pub struct Beside {
    folder: TempDir,
    /// Most bytes that are shown of a text.
    text_bytes: u32,
    /// A class of calls, which alone is looked at.
    class: Option<&'static str>,
}

impl Beside {
    /// Makes the folder.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("work"))?;
        Ok(Self {
            folder,
            text_bytes: 64,
            class: None,
        })
    }

    /// Shows at most this many bytes of texts, of a class of calls alone.
    #[must_use]
    pub fn with_text_bytes_of(self, class: &'static str, text_bytes: u32) -> Self {
        Self {
            text_bytes,
            class: Some(class),
            ..self
        }
    }

    /// The folder in which the program runs.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs a command under both, and compares each of its calls.
    ///
    /// # Errors
    ///
    /// It cannot be run, it fails, or something of it is lost.
    pub fn compare(&self, shown: Shown, command: &mut Command) -> anyhow::Result<Compared> {
        let file = |name: &str| self.folder.path().join(name);
        let (log, theirs) = (file("log"), file("strace"));
        let mut run = Command::new(dist::tracer_user()?);
        // What strace itself does most would be most of the log.
        let calls = self.class.unwrap_or("all,!ptrace,!process_vm_readv");
        run.args(["run", "--events", "syscall", "--syscalls", calls]);
        if shown == Shown::Paths {
            run.arg("--descriptors=paths");
        }
        let text_bytes = self.text_bytes.to_string();
        run.args(["--string-size", &text_bytes, "--ring-size", "32M"]);
        run.args(["--stream-size", "512M", "--log"]).arg(&log);
        run.args(["--", "strace", "-f", "-s", &text_bytes]);
        run.args(self.class.map(|class| format!("--trace={class}")));
        if shown == Shown::Paths {
            run.arg("-y");
        }
        run.arg("-o");
        run.arg(&theirs).arg(command.get_program());
        let output = run
            .args(command.get_args())
            .current_dir(self.work())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(File::create(file("said"))?)
            .output()
            .context("cannot run tracer-user")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {complaint}");
        ensure!(complaint.contains(" 0 lost"), "{complaint}");
        let ours = call_lines::read_log(&dist::tracer_user()?, &log)?;
        let theirs = call_lines::read_strace(&theirs)?;
        Ok(call_lines::compare(&theirs, &ours, normal))
    }
}

/// A line, without what differs between two runs of strace too: dates in words. Interfaces are
/// numbers, which strace looks up in its own network namespace.
fn normal(line: &str) -> Option<String> {
    let line = call_lines::normal(line)?;
    let mut parts = line.split("if_nametoindex(\"");
    let mut normal = parts.next()?.to_owned();
    for part in parts {
        let (name, behind) = part.split_once("\")")?;
        let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
        normal += index.trim();
        normal += behind;
    }
    Some(normal)
}

fn name(line: &str) -> &str {
    line.split('(').next().unwrap_or(line)
}

/// Fails where a line differs for no reason that is known.
///
/// # Panics
///
/// There is such a line.
pub fn assert_has_reasons(compared: &Compared) {
    let unknown = compared.differ.iter().filter(|both| {
        let mut known = KNOWN.iter();
        known.all(|known| !(known.is_it)(&both.0, &both.1))
    });
    let unknown: Vec<_> = unknown.collect();
    assert!(unknown.is_empty(), "without a reason: {unknown:#?}");
}

/// Prints what differs, and fails unless nearly all calls of the hundred are the same and there is
/// a reason for each that is not.
///
/// # Panics
///
/// Too many differ, or one for which there is no reason.
pub fn assert_agrees(program: &str, compared: &Compared, names: impl Fn(&str) -> bool) {
    let mut groups: BTreeMap<(&str, &str), Vec<&(String, String)>> = BTreeMap::new();
    let mut unknown = Vec::new();
    let mut differ = 0;
    for both in &compared.differ {
        let known = KNOWN.iter().find(|known| (known.is_it)(&both.0, &both.1));
        let is_one = names(name(&both.0));
        differ += usize::from(is_one);
        if is_one && known.is_none() {
            unknown.push(both);
        }
        let reason = known.map_or("not known", |known| known.reason);
        groups
            .entry((name(&both.0), reason))
            .or_default()
            .push(both);
    }
    let all = compared
        .lines
        .iter()
        .filter(|line| names(name(line)))
        .count();
    let share = 100.0 * (all - differ) as f64 / all as f64;
    let mut words = format!(
        "{program}: {} of {all} calls of the hundred are the same, {share:.2} %; {} of {} in all\n",
        all - differ,
        compared.same,
        compared.all
    );
    for ((call, reason), both) in &groups {
        let _ = writeln!(words, "  {call}: {} ({reason})", both.len());
        for (theirs, ours) in both.iter().take(2) {
            let _ = writeln!(words, "    strace {theirs}\n    ours   {ours}");
        }
    }
    println!("{words}");
    assert!(all > 0 && share >= 99.0, "{words}");
    assert!(unknown.is_empty(), "without a reason: {unknown:#?}");
}
