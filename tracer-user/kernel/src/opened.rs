//! Tells of which process an open file is the memory (`/proc/PID/mem`), whichever mount of `/proc`
//! it was opened in.
//!
//! From outside, the files of two mounts of `/proc` cannot be compared: they have other devices,
//! other inodes and, in another pid namespace, other names. The kernel's own structures say it: the
//! operations of the file are those of the memory of processes, and its inode has the `struct pid`
//! of the process. A small eBPF program reads them. It is attached to nothing: this process runs it
//! on request, in the calling thread.
//!
//! All that the program follows exists while it runs: the descriptors belong to the calling
//! process, an open file keeps its inode, and the inode keeps its `struct pid`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use crate::assembled::{
    self, ADD, ADD_REGISTER, Assembly, COPY, Instruction, JUMP_IF, READ, SET, SHIFT, WRITE, helper,
    register,
};
use crate::btf::reader::Btf;
use crate::call;
use crate::types;

/// Program that tells whether an open file is the memory of a process.
#[derive(Debug)]
pub struct OpenedMemory {
    program: OwnedFd,
    /// The memory of this process: a file with the operations that the program looks for.
    own: File,
}

impl OpenedMemory {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// The kernel does not take the program, or its types do not say where the members are that the
    /// program reads; or this process has no `/proc`, descriptor or memory for the program.
    pub fn load() -> io::Result<Self> {
        let own = File::open("/proc/self/mem")?;
        let types = types::read(None).map_err(io::Error::other)?;
        let types = types.parse().map_err(io::Error::other)?;
        let places = Places::find(&types).ok_or_else(|| {
            io::Error::other("the kernel's types have not what the memory of a process is found by")
        })?;
        Ok(Self {
            program: assembled::load("opened_memory", &assemble(&places))?,
            own,
        })
    }

    /// Tells whether a file is the memory of the process that has this `pid` in the pid namespace
    /// of this process, and has not been waited for. This reads nothing from the file, and asks no
    /// file system.
    ///
    /// # Errors
    ///
    /// The kernel does not run the program: kernels run programs of this kind since Linux 5.10.
    pub fn is_of(&self, file: BorrowedFd<'_>, pid: i32) -> io::Result<bool> {
        let wide = |number: i32| u64::from(number.cast_unsigned());
        let asked: [u64; 3] = [
            wide(file.as_raw_fd()),
            wide(self.own.as_raw_fd()),
            wide(pid),
        ];
        Ok(call::run(self.program.as_fd(), &asked)? == IS_OF)
    }
}

/// Result of the program where the file is the process's memory.
const IS_OF: u32 = 1;

/// Offsets of the members of the kernel's structures that the program reads.
#[derive(Debug)]
struct Places {
    files: i32,
    table: i32,
    descriptors: i32,
    operations: i32,
    inode: i32,
    /// Distance from an inode to the pointer to the `struct pid`, which is in the same structure.
    pid_behind_inode: i32,
    own_pid: i32,
    level: i32,
    numbers: i32,
    number: i32,
    namespace: i32,
    each_number: i32,
    /// Pointer to the first task whose process has a `struct pid` as its own.
    process: i32,
}

impl Places {
    fn find(types: &Btf<'_>) -> Option<Self> {
        /// `PIDTYPE_TGID`.
        const PROCESS: i32 = 1;
        let place = |of, path: &[&str]| i32::try_from(types.member_offset(of, path)?).ok();
        let pointer = i32::try_from(size_of::<u64>()).ok()?;
        Some(Self {
            files: place("task_struct", &["files"])?,
            table: place("files_struct", &["fdt"])?,
            descriptors: place("fdtable", &["fd"])?,
            operations: place("file", &["f_op"])?,
            inode: place("file", &["f_inode"])?,
            pid_behind_inode: place("proc_inode", &["pid"])? - place("proc_inode", &["vfs_inode"])?,
            own_pid: place("task_struct", &["thread_pid"])?,
            level: place("pid", &["level"])?,
            numbers: place("pid", &["numbers"])?,
            number: place("upid", &["nr"])?,
            namespace: place("upid", &["ns"])?,
            each_number: i32::try_from(types.struct_bytes("upid")?).ok()?,
            process: place("pid", &["tasks"])? + PROCESS * pointer,
        })
    }
}

const MULTIPLY: u8 = 0x27;
/// Jumps where a register is less than another one.
const JUMP_IF_LESS: u8 = 0xad;

/// Registers that calls of helpers leave as they are, and their content.
mod kept {
    /// The context: the question.
    pub const ASKED: u8 = 6;
    /// The calling task.
    pub const TASK: u8 = 7;
    /// First the table of descriptors, then the `struct pid` of the calling process.
    pub const OWN: u8 = 8;
    /// First the file, then the `struct pid` of the process whose memory it is.
    pub const THEIRS: u8 = 9;
}

/// Offset from the frame pointer of the value that is compared.
const COMPARED: i16 = Assembly::WORD - 8;

/// Parts of the question, by their places in the context.
mod asked {
    pub const FILE: i16 = 0;
    pub const OWN_MEMORY: i16 = 8;
    pub const PID: i16 = 16;
}

impl Assembly {
    /// Reads the file of a descriptor into the third register. `descriptor` is the place of the
    /// descriptor in the question.
    fn file(&mut self, descriptor: i16) {
        self.put_at(READ, register::THIRD, kept::ASKED, descriptor, 0);
        self.put(SHIFT, register::THIRD, 0, 3);
        self.put(ADD_REGISTER, register::THIRD, kept::OWN, 0);
        self.follow(0);
        self.leave_where(JUMP_IF, register::THIRD, 0, 0);
    }

    /// Leaves the program unless the third register has the value that `compare` has noted, and
    /// this is not 0.
    fn leave_unless_as_compared(&mut self) {
        self.leave_where(JUMP_IF, register::THIRD, 0, 0);
        self.put_at(READ, register::FIRST, register::FRAME, COMPARED, 0);
        self.leave_unless_same(register::THIRD, register::FIRST);
    }

    /// Notes the value of the third register, which is to be compared.
    fn compare(&mut self) {
        self.put_at(WRITE, register::FRAME, register::THIRD, COMPARED, 0);
    }
}

fn assemble(places: &Places) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.put(COPY, kept::ASKED, register::FIRST, 0);
    program.call(helper::TASK);
    program.put(COPY, kept::TASK, register::RESULT, 0);
    program.pointer(kept::TASK, places.files);
    program.follow(places.table);
    program.follow(places.descriptors);
    program.put(COPY, kept::OWN, register::THIRD, 0);

    // The file must have the operations of the memory of processes.
    program.file(asked::OWN_MEMORY);
    program.follow(places.operations);
    program.compare();
    program.file(asked::FILE);
    program.put(COPY, kept::THEIRS, register::THIRD, 0);
    program.follow(places.operations);
    program.leave_unless_as_compared();

    // Its `struct pid` must be that of a process that is still there, and not that of a single
    // thread.
    program.pointer(kept::THEIRS, places.inode);
    program.follow(places.pid_behind_inode);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);
    program.put(COPY, kept::THEIRS, register::THIRD, 0);
    program.follow(places.process);
    program.leave_where(JUMP_IF, register::THIRD, 0, 0);

    // It must have this number in the pid namespace of the calling process.
    program.pointer(kept::TASK, places.own_pid);
    program.put(COPY, kept::OWN, register::THIRD, 0);
    program.half(kept::OWN, places.level);
    program.put(COPY, kept::TASK, register::THIRD, 0);
    program.half(kept::THEIRS, places.level);
    program.leave_where(JUMP_IF_LESS, register::THIRD, kept::TASK, 0);
    program.put(MULTIPLY, kept::TASK, 0, places.each_number);
    program.put(ADD, kept::TASK, 0, places.numbers);
    program.put(ADD_REGISTER, kept::OWN, kept::TASK, 0);
    program.put(ADD_REGISTER, kept::THEIRS, kept::TASK, 0);
    program.pointer(kept::OWN, places.namespace);
    program.compare();
    program.pointer(kept::THEIRS, places.namespace);
    program.leave_unless_as_compared();
    program.half(kept::THEIRS, places.number);
    program.put_at(READ, register::FIRST, kept::ASKED, asked::PID, 0);
    program.leave_unless_same(register::THIRD, register::FIRST);
    program.put(SET, register::RESULT, 0, IS_OF.cast_signed());
    program.finish()
}
