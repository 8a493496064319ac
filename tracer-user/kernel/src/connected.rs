//! Rights that another process had when it connected to a socket of this one.
//!
//! When a process connects to a socket, the kernel notes the credentials of the process. It tells
//! the user and the groups (`SO_PEERCRED`), but not the capabilities. The capabilities that a
//! process has now say nothing of those: another process may have made the connection and passed it
//! on. So small eBPF programs read the noted credentials. They are attached to nothing: this
//! process runs them on request, in the calling thread.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use crate::assembled::{
    self, ADD_REGISTER, AND, Assembly, COPY, Instruction, JUMP_IF, READ, SET, WRITE, register,
};
use crate::btf::reader::Btf;
use crate::call;
use crate::found::{self, FilePlaces, NotedPlaces, kept, place};
use crate::types;

/// Programs that tell what the process that connected was allowed to, and where.
#[derive(Debug)]
pub struct ConnectedRights {
    capabilities: OwnedFd,
    namespace: OwnedFd,
    within: OwnedFd,
}

impl ConnectedRights {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// The kernel does not take the programs, or its types do not say where the members are that
    /// they read.
    pub fn load() -> io::Result<Self> {
        let types = types::read(None).map_err(io::Error::other)?;
        let types = types.parse().map_err(io::Error::other)?;
        let places = Places::find(&types).ok_or_else(|| {
            io::Error::other("the kernel's types have not what who connects is known by")
        })?;
        let load = |name, program: fn(&mut Assembly, &Places)| {
            assembled::load(name, &assemble(&places, program))
        };
        Ok(Self {
            capabilities: load("connected_rights", capabilities)?,
            namespace: load("connected_place", namespace)?,
            within: load("connected_within", within)?,
        })
    }

    /// Returns the capabilities that the process that connected to this Unix socket, which this
    /// process has accepted, had in force then in the user namespace of this process.
    ///
    /// # Errors
    ///
    /// The kernel does not run the program: kernels run programs of this kind since Linux 5.10.
    pub fn capabilities(&self, connection: BorrowedFd<'_>) -> io::Result<u64> {
        let half = |offset| {
            let asked = [u64::from(connection.as_raw_fd().cast_unsigned()), offset];
            call::run(self.capabilities.as_fd(), &asked).map(u64::from)
        };
        Ok(half(0)? | half(HALF_BYTES)? << 32)
    }

    /// Returns the inode of the user namespace in which that process was then, where this is right
    /// within the first one, and the process had `CAP_SYS_PTRACE` in force there.
    ///
    /// # Errors
    ///
    /// As of [`capabilities`](Self::capabilities).
    pub fn traces_within(&self, connection: BorrowedFd<'_>) -> io::Result<Option<u32>> {
        let asked = [u64::from(connection.as_raw_fd().cast_unsigned())];
        let id = call::run(self.within.as_fd(), &asked)?;
        Ok((id != 0).then_some(id))
    }

    /// Tells whether that process was in the first user namespace then.
    ///
    /// # Errors
    ///
    /// As of [`capabilities`](Self::capabilities).
    pub fn is_of_first_namespace(&self, connection: BorrowedFd<'_>) -> io::Result<bool> {
        let asked = [u64::from(connection.as_raw_fd().cast_unsigned())];
        Ok(call::run(self.namespace.as_fd(), &asked)? == IS_OF_FIRST)
    }
}

/// `CAP_SYS_PTRACE`, as a bit of the lower half of a set.
const MAY_TRACE_ALL: i32 = 1 << 19;

/// Result of the program for the user namespace where that is the first one.
const IS_OF_FIRST: u32 = 1;

/// Bytes of one half of a set of capabilities.
const HALF_BYTES: u64 = 4;

/// Offsets of the members of the kernel's structures that the program reads.
#[derive(Debug)]
struct Places {
    files: FilePlaces,
    noted: NotedPlaces,
    effective: i32,
    namespace: i32,
    level: i32,
    id: i32,
    own: i32,
}

impl Places {
    fn find(types: &Btf<'_>) -> Option<Self> {
        let place = |of, member| place(types, of, &[member]);
        Some(Self {
            files: FilePlaces::find(types)?,
            noted: NotedPlaces::find(types)?,
            effective: place("cred", "cap_effective")?,
            namespace: place("cred", "user_ns")?,
            level: place("user_namespace", "level")?,
            id: found::place(types, "user_namespace", &["ns", "inum"])?,
            own: place("task_struct", "real_cred")?,
        })
    }
}

/// Register for the credentials that were noted, once the table of descriptors is not needed.
const NOTED: u8 = kept::TABLE;

/// Offset from the frame pointer of the value that is compared.
const COMPARED: i16 = Assembly::WORD - 8;

/// Returns the program that finds the credentials that the kernel has noted, and ends with `rest`.
fn assemble(places: &Places, rest: fn(&mut Assembly, &Places)) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.begin_with_files(&places.files);
    program.noted_credentials(0, &places.noted);
    program.put(COPY, NOTED, register::THIRD, 0);
    rest(&mut program, places);
    program.finish()
}

/// Has the program return whether the credentials are of the first user namespace.
fn namespace(program: &mut Assembly, places: &Places) {
    program.pointer(NOTED, places.namespace);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put(COPY, NOTED, register::THIRD, 0);
    program.half(NOTED, places.level);
    program.leave_unless(register::THIRD, 0);
    program.put(SET, register::RESULT, 0, IS_OF_FIRST.cast_signed());
}

/// Has the program return the inode of the user namespace, where that is right within the first
/// one, and the process that connected might trace every process there.
fn within(program: &mut Assembly, places: &Places) {
    program.half(NOTED, places.effective);
    program.put(AND, register::THIRD, 0, MAY_TRACE_ALL);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.pointer(NOTED, places.namespace);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put(COPY, NOTED, register::THIRD, 0);
    program.half(NOTED, places.level);
    program.leave_unless(register::THIRD, 1);
    program.half(NOTED, places.id);
    program.put(COPY, register::RESULT, register::THIRD, 0);
}

/// Has the program return half of the capabilities in force.
fn capabilities(program: &mut Assembly, places: &Places) {
    // The credentials must be of the user namespace of the calling task. A pointer that cannot be
    // read is 0, which is no namespace.
    program.pointer(NOTED, places.namespace);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put_at(WRITE, register::FRAME, register::THIRD, COMPARED, 0);
    program.pointer(kept::TASK, places.own);
    program.follow(places.namespace);
    program.put_at(READ, register::FIRST, register::FRAME, COMPARED, 0);
    program.leave_unless_same(register::THIRD, register::FIRST);

    program.put_at(READ, register::FIRST, kept::ASKED, 8, 0);
    program.put(ADD_REGISTER, NOTED, register::FIRST, 0);
    program.half(NOTED, places.effective);
    program.put(COPY, register::RESULT, register::THIRD, 0);
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::thread;

    use super::*;

    const MAY_TRACE_ALL: u32 = super::MAY_TRACE_ALL.cast_unsigned();

    /// Puts these capabilities of the thread in force, of those that it has. Returns those that
    /// were in force before.
    fn put_in_force(lower: u32) -> u32 {
        let mut header = [0x2008_0522_u32, 0];
        // In force, permitted, inheritable: the lower halves, and then the upper ones.
        let mut sets = [0_u32; 6];
        // SAFETY: a header of version 3, and space for its two times three sets.
        let failed =
            unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
        assert_eq!(failed, 0);
        let before = sets[0];
        sets[0] = lower;
        // SAFETY: as above.
        let failed = unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) };
        assert_eq!(failed, 0);
        before
    }

    /// Connects in a thread that first calls `before`, which may change its capabilities, and then
    /// puts the capabilities in force that `before` has returned.
    fn connected(
        at: &Path,
        listener: &UnixListener,
        before: impl FnOnce() -> u32 + Send,
    ) -> [UnixStream; 2] {
        thread::scope(|scope| {
            let client = scope.spawn(|| {
                let all = before();
                let client = UnixStream::connect(at).unwrap();
                put_in_force(all);
                client
            });
            [listener.accept().unwrap().0, client.join().unwrap()]
        })
    }

    #[test]
    #[ignore = "loads eBPF"]
    fn what_counts_is_what_was_in_force_as_it_connected() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("socket");
        let listener = UnixListener::bind(&at).unwrap();
        let rights = ConnectedRights::load().unwrap();
        let in_force = |of: &[UnixStream; 2]| rights.capabilities(of[0].as_fd()).unwrap();
        let might = |of: &[UnixStream; 2]| in_force(of) & u64::from(MAY_TRACE_ALL) != 0;
        let all = put_in_force_as_is();
        let able = connected(&at, &listener, || all);
        assert!(might(&able));
        assert!(rights.is_of_first_namespace(able[0].as_fd()).unwrap());
        // The capability is in force again by now, but it was not when the thread connected.
        let without = all & !MAY_TRACE_ALL;
        assert!(!might(&connected(&at, &listener, || {
            put_in_force(without);
            all
        })));
        let only = connected(&at, &listener, || {
            put_in_force(MAY_TRACE_ALL);
            all
        });
        // The test leaves the upper half as it is: all or nothing.
        assert_eq!(in_force(&only) & u64::from(u32::MAX), MAY_TRACE_ALL.into());
        // A descriptor of nothing.
        // SAFETY: it is not used but as a number.
        let none = unsafe { BorrowedFd::borrow_raw(1000) };
        assert_eq!(rights.capabilities(none).unwrap(), 0);
        assert!(!rights.is_of_first_namespace(none).unwrap());
    }

    /// Returns the capabilities that are in force, and leaves them in force.
    fn put_in_force_as_is() -> u32 {
        let all = put_in_force(0);
        put_in_force(all);
        all
    }
}
