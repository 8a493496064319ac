//! Rights that another process had when it connected to a socket of this one.
//!
//! When a process connects to a socket, the kernel notes the credentials of the process. It tells
//! the user and the groups (`SO_PEERCRED`), but not the capabilities. The capabilities that a
//! process has now say nothing of those: another process may have made the connection and passed it
//! on. So a small eBPF program reads the noted credentials. It is attached to nothing: this process
//! runs it on request, in the calling thread.
//!
//! All that the program follows exists while it runs: the descriptors belong to the calling
//! process, an open connection keeps its socket, and the socket keeps the noted credentials.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use crate::assembled::{
    self, ADD_REGISTER, AND, Assembly, COPY, Instruction, JUMP_IF, READ, READ_HALF, SET, SHIFT,
    WRITE, helper, register,
};
use crate::btf::reader::Btf;
use crate::call;
use crate::types;

/// Program that tells whether the process that connected was allowed to trace every process.
#[derive(Debug)]
pub struct ConnectedRights {
    program: OwnedFd,
}

impl ConnectedRights {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// The kernel does not take the program, or its types do not say where the members are that the
    /// program reads.
    pub fn load() -> io::Result<Self> {
        let types = types::read(None).map_err(io::Error::other)?;
        let types = types.parse().map_err(io::Error::other)?;
        let places = Places::find(&types).ok_or_else(|| {
            io::Error::other("the kernel's types have not what who connects is known by")
        })?;
        let program = assembled::load("connected", &assemble(&places))?;
        Ok(Self { program })
    }

    /// Tells whether the process that connected to this Unix socket, which this process has
    /// accepted, had `CAP_SYS_PTRACE` in force then, in the user namespace of this process.
    ///
    /// # Errors
    ///
    /// The kernel does not run the program: kernels run programs of this kind since Linux 5.10.
    pub fn might_trace_all(&self, connection: BorrowedFd<'_>) -> io::Result<bool> {
        let asked = [u64::from(connection.as_raw_fd().cast_unsigned())];
        Ok(call::run(self.program.as_fd(), &asked)? == MIGHT)
    }
}

/// Result of the program where the process was allowed to.
const MIGHT: u32 = 1;

/// `CAP_SYS_PTRACE`, in the first 32 bits of a set of capabilities.
const MAY_TRACE_ALL: i32 = 1 << 19;

/// Offsets of the members of the kernel's structures that the program reads.
#[derive(Debug)]
struct Places {
    files: i32,
    table: i32,
    descriptors: i32,
    socket: i32,
    connection: i32,
    noted: i32,
    effective: i32,
    namespace: i32,
    own: i32,
}

impl Places {
    fn find(types: &Btf<'_>) -> Option<Self> {
        let place = |of, member| i32::try_from(types.member_offset(of, &[member])?).ok();
        Some(Self {
            files: place("task_struct", "files")?,
            table: place("files_struct", "fdt")?,
            descriptors: place("fdtable", "fd")?,
            socket: place("file", "private_data")?,
            connection: place("socket", "sk")?,
            noted: place("sock", "sk_peer_cred")?,
            effective: place("cred", "cap_effective")?,
            namespace: place("cred", "user_ns")?,
            own: place("task_struct", "real_cred")?,
        })
    }
}

/// Registers that calls of helpers leave as they are, and their content.
mod kept {
    /// The context: the question.
    pub const ASKED: u8 = 6;
    /// The calling task.
    pub const TASK: u8 = 7;
    /// First the table of descriptors, then the credentials that were noted.
    pub const NOTED: u8 = 8;
}

/// Offset from the frame pointer of the value that is compared.
const COMPARED: i16 = Assembly::WORD - 8;

fn assemble(places: &Places) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.put(COPY, kept::ASKED, register::FIRST, 0);
    program.call(helper::TASK);
    program.put(COPY, kept::TASK, register::RESULT, 0);
    program.pointer(kept::TASK, places.files);
    program.follow(places.table);
    program.follow(places.descriptors);
    program.put(COPY, kept::NOTED, register::THIRD, 0);

    // From the descriptor to its file, the socket, and the credentials that the kernel noted there.
    program.put_at(READ, register::THIRD, kept::ASKED, 0, 0);
    program.put(SHIFT, register::THIRD, 0, 3);
    program.put(ADD_REGISTER, register::THIRD, kept::NOTED, 0);
    program.follow(0);
    for place in [places.socket, places.connection, places.noted] {
        program.leave_where(JUMP_IF, register::THIRD, 0, 0);
        program.follow(place);
    }
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put(COPY, kept::NOTED, register::THIRD, 0);

    // The credentials must be of the user namespace of the calling task. A pointer that cannot be
    // read is 0, which is no namespace.
    program.pointer(kept::NOTED, places.namespace);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put_at(WRITE, register::FRAME, register::THIRD, COMPARED, 0);
    program.pointer(kept::TASK, places.own);
    program.follow(places.namespace);
    program.put_at(READ, register::FIRST, register::FRAME, COMPARED, 0);
    program.leave_unless_same(register::THIRD, register::FIRST);

    program.put(COPY, register::THIRD, kept::NOTED, 0);
    program.put(assembled::ADD, register::THIRD, 0, places.effective);
    program.read_word(size_of::<u32>());
    program.put_at(
        READ_HALF,
        register::THIRD,
        register::FRAME,
        Assembly::WORD,
        0,
    );
    program.put(AND, register::THIRD, 0, MAY_TRACE_ALL);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put(SET, register::RESULT, 0, MIGHT.cast_signed());
    program.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::thread;

    use super::*;

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
        let might = |of: &[UnixStream; 2]| rights.might_trace_all(of[0].as_fd()).unwrap();
        let all = put_in_force_as_is();
        let able = connected(&at, &listener, || all);
        assert!(might(&able));
        // The capability is in force again by now, but it was not when the thread connected.
        let without = all & !MAY_TRACE_ALL.cast_unsigned();
        assert!(!might(&connected(&at, &listener, || {
            put_in_force(without);
            all
        })));
        let only = MAY_TRACE_ALL.cast_unsigned();
        assert!(might(&connected(&at, &listener, || {
            put_in_force(only);
            all
        })));
        // A descriptor of nothing.
        // SAFETY: it is not used but as a number.
        let none = unsafe { BorrowedFd::borrow_raw(1000) };
        assert!(!rights.might_trace_all(none).unwrap());
    }

    /// Returns the capabilities that are in force, and leaves them in force.
    fn put_in_force_as_is() -> u32 {
        let all = put_in_force(0);
        put_in_force(all);
        all
    }
}
