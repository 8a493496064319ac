//! Facts from `/proc` about processes that existed before we looked.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::ensure;
use tracer_area::{monotonic_now, proc_stat};
use tracer_engine::event::MonotonicNs;

use super::processes::Comm;
use tracer_binary::bounded_proc::{self, HeldProcess};
use tracer_event::event_view::NamespaceIds;
use tracer_kernel::{MOUNT_PROC, PROC_OF_ANOTHER, is_proc_own};

/// Makes sure that `/proc` is there, and speaks of processes by the pids that we know.
///
/// # Errors
///
/// It is not, or is that of another pid namespace.
pub fn ensure_own() -> anyhow::Result<()> {
    ensure!(is_proc_own(), "{PROC_OF_ANOTHER}; {MOUNT_PROC}");
    Ok(())
}

/// Makes sure that programs started by this process are in its own pid namespace: otherwise the
/// kernel lets it start no thread.
///
/// # Errors
///
/// It is not.
pub fn ensure_children_here() -> anyhow::Result<()> {
    let namespace = |name| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    // One that has no process yet cannot be read.
    ensure!(
        namespace("pid_for_children") == namespace("pid"),
        "what is started here goes into another pid namespace than tracer-user is in; start \
         tracer-user in that one: unshare --pid --fork --mount-proc"
    );
    Ok(())
}

/// Facts of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The letter of its state.
    pub state: u8,
    /// The process that made it.
    pub parent: i32,
    /// Its threads, the ended first one included.
    pub threads: u32,
    /// Time of its start, in the kernel's ticks after boot. With the pid it names a process for
    /// good.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads the facts of process `pid`, or `None` where there is no such process.
    ///
    /// # Errors
    ///
    /// The process keeps the kernel from answering.
    pub fn read(pid: i32) -> Result<Option<Self>, HeldProcess> {
        let stat = bounded_proc::ask_process(pid, move || fs::read(format!("/proc/{pid}/stat")))?;
        Ok(stat.ok().and_then(|stat| Self::parse(&stat)))
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        let field = |index| proc_stat::field(stat, index);
        Some(Self {
            state: *field(3)?.as_bytes().first()?,
            parent: field(4)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
            start_ticks: field(22)?.parse().ok()?,
        })
    }

    /// Tells whether all its threads have ended. The first thread may end before the others and is
    /// then shown as a zombie although the process lives.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }
}

/// Tells whether process `pid` was started later than this moment, so that it is another one than
/// the process that had the pid then. The kernel states starts to the hundredth of a second, and
/// `false` is returned where the start is not known: of no process, and in a time namespace, whose
/// clocks are not those of the kernel's events.
///
/// # Errors
///
/// The process keeps the kernel from answering.
pub fn was_started_after(pid: i32, moment: MonotonicNs) -> Result<bool, HeldProcess> {
    /// The offset between two clocks, which are not read at the same moment.
    const MARGIN_NS: u64 = 1_000_000;
    let Some(stat) = Stat::read(pid)?.filter(|_| has_first_clocks()) else {
        return Ok(false);
    };
    // SAFETY: takes an integer only.
    let ticks_a_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100);
    let start = stat
        .start_ticks
        .saturating_mul(1_000_000_000 / ticks_a_second.max(1));
    // The one goes on while the machine sleeps.
    let asleep = boottime_now().saturating_sub(monotonic_now().0);
    Ok(start.saturating_sub(asleep) > moment.0.saturating_add(MARGIN_NS))
}

/// Tells whether this process has the machine's own clocks, and not those of a time namespace.
fn has_first_clocks() -> bool {
    /// The inode of the first one, as the kernel fixes it.
    const FIRST: &str = "time:[4026531834]";
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let own = fs::read_link("/proc/self/ns/time");
        // Kernels before 5.6 have none.
        own.map_or(true, |own| own.as_os_str() == FIRST)
    })
}

/// Reads `CLOCK_BOOTTIME` in nanoseconds.
fn boottime_now() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns the name of a thread.
pub fn comm(pid: i32, tid: i32) -> Option<Comm> {
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(Comm::new(name.strip_suffix(b"\n").unwrap_or(&name)))
}

/// Returns a process and a thread of it by the ids of their own pid namespace.
pub fn inside(pid: i32, tid: i32) -> Option<NamespaceIds> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    // From our namespace inwards: the last one is the thread's own.
    let innermost = |name| {
        line_of(&status, name)?
            .split_ascii_whitespace()
            .last()?
            .parse()
            .ok()
    };
    Some(NamespaceIds {
        pid: innermost("NStgid:")?,
        tid: innermost("NSpid:")?,
    })
}

/// Returns the threads of a process.
pub fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns the file a process executes.
pub fn executable(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Returns the process that a thread belongs to, or `None` where there is no such thread.
///
/// # Errors
///
/// `/proc` cannot be read, for another reason than that the thread is not there.
pub fn process_of(tid: i32) -> io::Result<Option<i32>> {
    match fs::read_to_string(format!("/proc/{tid}/status")) {
        Ok(status) => Ok(line_of(&status, "Tgid:").and_then(|pid| pid.parse().ok())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells whether this process has a capability, by its bit.
#[must_use]
pub fn has_capability(bit: u32) -> bool {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| u64::from_str_radix(line_of(&status, "CapEff:")?, 16).ok())
        .is_some_and(|effective| effective >> bit & 1 == 1)
}

fn line_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Tells whether a process has this pid, ended or not. It needs no descriptor.
pub fn exists(pid: i32) -> bool {
    // SAFETY: signal 0 is never delivered: the call only looks.
    let result = unsafe { libc::kill(pid, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Tells whether a process has ended for certain; one that keeps the kernel from answering has not.
pub fn has_ended(pid: i32) -> bool {
    !exists(pid) || matches!(Stat::read(pid), Ok(Some(stat)) if stat.has_ended())
}

/// Tells whether a process has memory: one that ends gives it back before it counts as ended, and
/// the kernel's own threads have none.
pub fn has_memory(pid: i32) -> bool {
    let sizes = fs::read(format!("/proc/{pid}/statm")).unwrap_or_default();
    !sizes.is_empty() && !sizes.starts_with(b"0 ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(comm: &str, state: char, threads: u32) -> Stat {
        let fields = format!(
            "7 ({comm}) {state} 3 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 9876 0 0 more"
        );
        Stat::parse(fields.as_bytes()).unwrap()
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = stat("a) Z 1 (", 'S', 2);
        assert_eq!(
            (stat.state, stat.parent, stat.threads, stat.start_ticks),
            (b'S', 3, 2, 9876)
        );
    }

    #[test]
    fn a_process_whose_first_thread_ended_lives_on() {
        assert!(!stat("x", 'Z', 3).has_ended());
        assert!(stat("x", 'Z', 1).has_ended());
        assert!(!stat("x", 'R', 1).has_ended());
    }

    #[test]
    fn truncated_facts_are_no_facts() {
        assert_eq!(Stat::parse(b"7 (x) S 3"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn a_process_is_known_by_when_it_was_started() {
        let begin = monotonic_now();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let mut child = std::process::Command::new("sleep")
            .arg("10")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(was_started_after(pid, begin), Ok(true));
        assert_eq!(was_started_after(pid, monotonic_now()), Ok(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(was_started_after(pid, begin), Ok(false), "there is none");
    }

    #[test]
    fn a_process_that_has_ended_has_no_memory() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while !has_ended(pid) {
            std::thread::yield_now();
        }
        assert!(!has_memory(pid), "a zombie");
        child.wait().unwrap();
        assert!(!has_memory(pid), "none");
        assert!(has_memory(i32::try_from(std::process::id()).unwrap()));
    }

    #[test]
    fn this_process_is_found() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(process_of(pid).unwrap(), Some(pid));
        assert!(threads(pid).contains(&pid));
        assert!(!Stat::read(pid).unwrap().unwrap().has_ended());
        assert!(comm(pid, pid).is_some());
        assert!(inside(pid, pid).is_some_and(|inside| inside.pid > 0 && inside.pid == inside.tid));
    }
}
