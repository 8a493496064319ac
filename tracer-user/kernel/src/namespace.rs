//! The pid namespace of this process, and the pids that its processes have in the first pid
//! namespace.
//!
//! The eBPF programs know a process by its pid in the kernel's first pid namespace. Where this
//! process is in another one, as in a container, it cannot see those pids. So it asks the kernel
//! for both pids of every existing process (by a BPF iterator, which shows the processes of the
//! reader's own namespace), and a program notes both pids of every process that begins.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;

use aya::programs::Iter;
use aya::{Btf, Ebpf};

use tracer_common::kernel::TaskIds;
use zerocopy::FromBytes as _;

use super::call;
use super::error::LoadError;

/// The inodes of the kernel's first namespaces (`PROC_PID_INIT_INO`, `PROC_USER_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;
const FIRST_USER_NAMESPACE: u64 = 0xefff_fffd;

/// Program that lists the processes.
const LISTING: &str = "list_tasks";

/// Globals of the fields without which pids cannot be translated.
pub const FIELDS: &[(&str, &str, &str)] = &[
    ("TASK_THREAD_PID", "task_struct", "thread_pid"),
    ("TASK_LEADER", "task_struct", "group_leader"),
    ("PID_LEVEL", "pid", "level"),
    ("PID_UPIDS", "pid", "numbers"),
    ("UPID_NAMESPACE", "upid", "ns"),
    ("NAMESPACE_INODE", "pid_namespace", "ns.inum"),
];

/// Pid namespace that is not the first one, by its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nested(pub u32);

/// Returns the pid namespace of this process; `None` for the first one.
pub fn own() -> io::Result<Option<Nested>> {
    let inode = fs::metadata("/proc/self/ns/pid")?.ino();
    if inode == FIRST_PID_NAMESPACE {
        return Ok(None);
    }
    let inode = u32::try_from(inode).map_err(|_too_large| io::ErrorKind::InvalidData)?;
    Ok(Some(Nested(inode)))
}

/// Tells whether this process is in a user namespace of its own, where no capability counts for
/// eBPF.
pub fn is_in_user_namespace() -> bool {
    fs::metadata("/proc/self/ns/user").is_ok_and(|file| file.ino() != FIRST_USER_NAMESPACE)
}

/// Tells whether `/proc` shows the processes by the pids of this process's own pid namespace.
pub fn is_proc_own() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    let shown = shown.and_then(|link| link.to_str()?.parse::<u32>().ok());
    shown == Some(std::process::id())
}

/// Lists the processes of the reader's pid namespace.
#[derive(Debug)]
pub struct ProcessListing;

impl ProcessListing {
    /// Loads the program, whose first run also gives the other programs the pids of existing
    /// processes.
    pub fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<Self, LoadError> {
        let program = program(ebpf)?;
        call::load(|| program.load("task", btf)).map_err(|source| LoadError::Program {
            name: LISTING,
            source: Box::new(source),
        })?;
        Ok(Self)
    }

    /// Returns the threads that exist now.
    pub fn threads(&self, ebpf: &mut Ebpf) -> Result<Vec<TaskIds>, LoadError> {
        let bytes = read(program(ebpf)?).map_err(|source| LoadError::Listing { source })?;
        let whole = bytes.chunks_exact(size_of::<TaskIds>());
        Ok(whole
            .filter_map(|chunk| TaskIds::read_from_bytes(chunk).ok())
            .collect())
    }

    /// Returns the processes that exist now, each with its pid in this namespace and in the first
    /// one.
    pub fn processes(&self, ebpf: &mut Ebpf) -> Result<Vec<Process>, LoadError> {
        let threads = self.threads(ebpf)?;
        let of_first_threads = threads.iter().filter(|thread| thread.tid == thread.pid);
        Ok(of_first_threads
            .map(|thread| Process {
                here: thread.own_tid.cast_signed(),
                first: thread.pid.cast_signed(),
            })
            .collect())
    }
}

/// Process, by its pids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Pid in this process's pid namespace.
    pub here: i32,
    /// Pid in the first one.
    pub first: i32,
}

fn program(ebpf: &mut Ebpf) -> Result<&mut Iter, LoadError> {
    let missing = LoadError::PartMissing { name: LISTING };
    let program = ebpf.program_mut(LISTING).ok_or(missing)?;
    program
        .try_into()
        .map_err(|_other_kind| LoadError::PartMissing { name: LISTING })
}

/// Attaches the program for this one reading, and reads its output.
pub(super) fn read(program: &mut Iter) -> io::Result<Vec<u8>> {
    let link = program.attach().map_err(io::Error::other)?;
    let link = program.take_link(link).map_err(io::Error::other)?;
    let mut file = link.into_file().map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_of_this_process_is_the_one_that_its_status_shows() {
        // Kernels before 4.1 do not show this line; the eBPF that is needed here is newer than
        // that.
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let pids = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))
            .unwrap();
        let is_nested = own().unwrap().is_some();
        // A `/proc` of this process's own pid namespace shows one pid; that of an outer one shows
        // more.
        assert!(pids.split_whitespace().count() == 1 || is_nested);
        assert!(is_proc_own() || is_nested);
    }
}
