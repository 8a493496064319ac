//! User namespaces for which others may look into a process.
//!
//! A user has all capabilities in a user namespace that it has made, as seen from the namespace in
//! which it has made that, and in all namespaces within (`cap_capable`); and so has a process with
//! these capabilities there. The kernel tells who has made the namespace of a process, and which it
//! is, only to those that may trace the process. So a small eBPF
//! program reads it. It is attached to nothing: this process runs it on request, in the calling
//! thread.
//!
//! What the program follows stays while it runs: the kernel frees processes, their credentials and
//! their memory only once it has ended (RCU), or refuses to read what is gone.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use crate::assembled::{
    self, ADD, ADD_REGISTER, AND, Assembly, COPY, Instruction, JUMP_IF, READ, register,
};
use crate::btf::reader::Btf;
use crate::call;
use crate::found::{self, FilePlaces, FolderPlaces, place};
use crate::types;

/// Program that tells who has made the user namespace of a process.
#[derive(Debug)]
pub struct NamespaceOwners {
    program: OwnedFd,
    places: Places,
}

/// User namespace right within the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutermostNamespace {
    /// User who has made it, in the first one.
    pub owner: u32,
    /// Its inode, which no other namespace has as long as it exists; 0 where this is not known.
    pub id: u32,
}

impl NamespaceOwners {
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
            io::Error::other("the kernel's types have not what a user namespace is found by")
        })?;
        Ok(Self {
            program: assembled::load("owners", &assemble(&places))?,
            places,
        })
    }

    /// Returns the user namespace right within the first one that a process is in, or that its
    /// namespace is in, where its owner may look into the process from the first one, whichever
    /// rights that has: its memory may be dumped, or counts in such a namespace too. `None` where
    /// there is none, or this cannot be known. `folder` is the process's folder in `/proc`.
    ///
    /// # Errors
    ///
    /// The kernel does not run the program: kernels run programs of this kind since Linux 5.10.
    pub fn outermost(&self, folder: BorrowedFd<'_>) -> io::Result<Option<OutermostNamespace>> {
        let member = |place: i32| {
            let wide = |number: i32| u64::from(number.cast_unsigned());
            let asked = [wide(folder.as_raw_fd()), wide(place)];
            call::run(self.program.as_fd(), &asked).map(|result| result.checked_sub(LEAST))
        };
        // The process never leaves this namespace: both are of one.
        let (owner, id) = (member(self.places.owner)?, member(self.places.id)?);
        Ok(owner.map(|owner| OutermostNamespace {
            owner,
            id: id.unwrap_or(0),
        }))
    }
}

/// Result of the program for a member that is 0; 0 is none.
const LEAST: u32 = 1;

/// Level of the deepest user namespace that the kernel makes: one in a namespace of level 32.
const DEEPEST: u32 = 33;

/// Bits of `mm_struct::flags` that say whether the memory may be dumped, and their value where its
/// user may do so.
const DUMPABLE_BITS: i32 = 3;
const DUMPABLE: i32 = 1;

/// Offsets of the members of the kernel's structures that the program reads.
#[derive(Debug)]
struct Places {
    files: FilePlaces,
    folder: FolderPlaces,
    /// Pointer to what the first task has of a `struct pid` of its process.
    process: i32,
    /// That, in a task.
    link: i32,
    credentials: i32,
    namespace: i32,
    level: i32,
    parent: i32,
    owner: i32,
    id: i32,
    memory: i32,
    flags: i32,
    of_memory: i32,
}

impl Places {
    fn find(types: &Btf<'_>) -> Option<Self> {
        /// `PIDTYPE_TGID`.
        const PROCESS: i32 = 1;
        let place = |of, member| place(types, of, &[member]);
        let pointer = i32::try_from(size_of::<u64>()).ok()?;
        let link = i32::try_from(types.struct_bytes("hlist_node")?).ok()?;
        Some(Self {
            files: FilePlaces::find(types)?,
            folder: FolderPlaces::find(types)?,
            process: place("pid", "tasks")? + PROCESS * pointer,
            link: place("task_struct", "pid_links")? + PROCESS * link,
            credentials: place("task_struct", "real_cred")?,
            namespace: place("cred", "user_ns")?,
            level: place("user_namespace", "level")?,
            parent: place("user_namespace", "parent")?,
            owner: place("user_namespace", "owner")?,
            id: found::place(types, "user_namespace", &["ns", "inum"])?,
            memory: place("task_struct", "mm")?,
            flags: place("mm_struct", "flags")?,
            of_memory: place("mm_struct", "user_ns")?,
        })
    }
}

/// Registers that calls of helpers leave as they are, and their content once the process is found.
mod kept {
    pub use crate::found::kept::ASKED;
    /// The task.
    pub const TASK: u8 = 7;
    /// A user namespace.
    pub const NAMESPACE: u8 = 8;
    /// First the memory, then the level of the user namespace.
    pub const LEVEL: u8 = 9;
}

fn assemble(places: &Places) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.begin_with_files(&places.files);
    program.pid_of_folder(0, &places.folder);
    program.follow_or_leave(places.process);
    program.put(ADD, register::THIRD, 0, -places.link);
    program.put(COPY, kept::TASK, register::THIRD, 0);

    // The credentials come first: the kernel makes memory undumpable before it changes them.
    program.follow_or_leave(places.credentials);
    program.follow_or_leave(places.namespace);
    program.put(COPY, kept::NAMESPACE, register::THIRD, 0);

    program.put(COPY, register::THIRD, kept::TASK, 0);
    program.follow_or_leave(places.memory);
    program.put(COPY, kept::LEVEL, register::THIRD, 0);
    program.half(kept::LEVEL, places.flags);
    program.put(AND, register::THIRD, 0, DUMPABLE_BITS);
    program.skip_where(JUMP_IF, register::THIRD, DUMPABLE, |program| {
        program.put(COPY, register::THIRD, kept::LEVEL, 0);
        program.follow_or_leave(places.of_memory);
        program.half(register::THIRD, places.level);
        program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    });

    // Outwards, to the namespace right within the first one.
    program.half(kept::NAMESPACE, places.level);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put(COPY, kept::LEVEL, register::THIRD, 0);
    for _ in 1..DEEPEST {
        program.skip_where(JUMP_IF, kept::LEVEL, 1, |program| {
            program.put(COPY, register::THIRD, kept::NAMESPACE, 0);
            program.follow_or_leave(places.parent);
            program.put(COPY, kept::NAMESPACE, register::THIRD, 0);
            program.put(ADD, kept::LEVEL, 0, -1);
        });
    }
    program.leave_unless(kept::LEVEL, 1);
    program.put_at(READ, register::FIRST, kept::ASKED, 8, 0);
    program.put(ADD_REGISTER, kept::NAMESPACE, register::FIRST, 0);
    program.half(kept::NAMESPACE, 0);
    program.put(COPY, register::RESULT, register::THIRD, 0);
    program.put(ADD, register::RESULT, 0, LEAST.cast_signed());
    program.finish()
}
