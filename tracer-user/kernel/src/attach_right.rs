//! The kernel's answer to whether a process may attach to another one with `ptrace`, as the asker
//! gets it: seen by this process, which does not have to believe what the asker says.
//!
//! `pidfd_getfd(pidfd, -1, 0)` changes nothing. It fails by `EPERM` where the rules of `ptrace`
//! refuse an attachment (`PTRACE_MODE_ATTACH_REALCREDS`, as `PTRACE_SEIZE` asks for), and else by
//! `EBADF`, as no process has such a descriptor. Small eBPF programs at the beginning and the end
//! of all system calls wait for it to be made with one open pidfd.
//!
//! What else could look like that is ruled out:
//!
//! - a result that a filter (seccomp) or a tracer has made up: no call begins then;
//! - `EBADF` because of the pidfd: the caller's table of descriptors has it, and is no other
//!   task's, so that no other task replaces it meanwhile;
//! - a call of 32-bit programs, whose arguments are in other registers;
//! - an end that is not the call's own: the kernel says whether it has passed over the programs.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use crate::assembled::{
    self, ADD_REGISTER, AND, Assembly, COPY, Instruction, JUMP_IF, READ, SET, SHIFT, WRITE, helper,
    register,
};
use crate::btf::machine::COMPAT_STATUS;
use crate::btf::reader::Btf;
use crate::call;
use crate::found::{FilePlaces, place};
use crate::mapping::{Access, MapMemory};
use crate::types;

/// Source of programs that see the kernel's answers.
#[derive(Debug)]
pub struct AttachRights(Places);

impl AttachRights {
    /// Finds out how the programs see it.
    ///
    /// # Errors
    ///
    /// The kernel's types do not say where the members are that the programs read.
    pub fn find() -> io::Result<Self> {
        let types = types::read(None).map_err(io::Error::other)?;
        let types = types.parse().map_err(io::Error::other)?;
        let places = Places::find(&types).ok_or_else(|| {
            io::Error::other("the kernel's types have not what a call of a process is known by")
        })?;
        Ok(Self(places))
    }

    /// Watches from now on for the call with this open pidfd, which the caller knows to be one, of
    /// a process. Every system call of the machine is slower as long as the returned value lives.
    ///
    /// # Errors
    ///
    /// The kernel does not take the programs, or does not run them.
    pub fn watch(&self, process: BorrowedFd<'_>) -> io::Result<WatchedRight> {
        let map = call::make_mappable(BYTES)?;
        let note = assembled::load("noted_pidfd", &note_file(map.as_raw_fd(), &self.0))?;
        let asked = [u64::from(process.as_raw_fd().cast_unsigned())];
        call::run(note.as_fd(), &asked)?;
        let seen = MapMemory::new(map.as_fd(), BYTES, Access::Read)?;
        if seen.word(at::FILE.into()).is_none_or(is_zero) {
            return Err(io::Error::other("the kernel does not tell the file"));
        }
        let end = assembled::load("right_end", &end(map.as_raw_fd(), &self.0))?;
        let begin = assembled::load("right_begin", &begin(map.as_raw_fd(), &self.0))?;
        let links = [
            call::attach(&end, Some(c"sys_exit"))?,
            call::attach(&begin, Some(c"sys_enter"))?,
        ];
        Ok(WatchedRight {
            _links: links,
            programs: [begin, end],
            seen,
        })
    }
}

/// Watch for the kernel's answer. The pidfd has to stay open as long as this lives.
#[derive(Debug)]
pub struct WatchedRight {
    _links: [OwnedFd; 2],
    programs: [OwnedFd; 2],
    seen: MapMemory,
}

impl WatchedRight {
    /// Tells whether the kernel has let a task attach to the process. The task had the pidfd from
    /// this process, or has given it.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        let is_whole = |program: &OwnedFd| {
            call::runs_of(program.as_fd()).is_ok_and(|runs| runs.passed_over == 0)
        };
        let is_seen = self.seen.word(at::IS_PROVEN.into());
        is_seen.is_some_and(|word| !is_zero(word)) && self.programs.iter().all(is_whole)
    }
}

fn is_zero(word: &std::sync::atomic::AtomicU64) -> bool {
    word.load(Ordering::Acquire) == 0
}

/// Bytes of the map.
const BYTES: usize = 24;

/// Offsets in the map, in bytes.
mod at {
    /// The open pidfd, as the kernel has it (`struct file *`).
    pub const FILE: u8 = 0;
    /// The task that is amid the call, or 0.
    pub const TASK: u8 = 8;
    /// Not 0 once the kernel has allowed it.
    pub const IS_PROVEN: u8 = 16;
}

/// The call, and its result where the right is there and the descriptor is none.
#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers of calls are small"
)]
const CALL: i32 = libc::SYS_pidfd_getfd as i32;
const ALLOWED: i32 = -libc::EBADF;

/// Offsets of the members of the kernel's structures that the programs read.
#[derive(Debug)]
struct Places {
    of_file: FilePlaces,
    files: i32,
    users: i32,
    table: i32,
    count: i32,
    descriptors: i32,
    registers: Registers,
    /// Where a task says that it is in a system call of a 32-bit program.
    compat: i32,
}

/// Offsets of the registers in `struct pt_regs`: those of the first two arguments, and the number
/// of the call at its end.
#[derive(Debug)]
struct Registers {
    first: i32,
    second: i32,
    number: i32,
}

impl Places {
    fn find(types: &Btf<'_>) -> Option<Self> {
        Some(Self {
            of_file: FilePlaces::find(types)?,
            files: place(types, "task_struct", &["files"])?,
            users: place(types, "files_struct", &["count"])?,
            table: place(types, "files_struct", &["fdt"])?,
            count: place(types, "fdtable", &["max_fds"])?,
            descriptors: place(types, "fdtable", &["fd"])?,
            registers: Registers::find(types)?,
            compat: compat(types)?,
        })
    }
}

impl Registers {
    fn find(types: &Btf<'_>) -> Option<Self> {
        let place = |name| place(types, "pt_regs", &[name]);
        // x86-64, and Arm 64.
        if let Some(first) = place("di") {
            return Some(Self {
                first,
                second: place("si")?,
                number: place("orig_ax")?,
            });
        }
        let first = place("regs")?;
        Some(Self {
            first,
            second: first + 8,
            number: place("syscallno")?,
        })
    }
}

/// Returns where a task says that it is in a system call of a 32-bit program.
fn compat(types: &Btf<'_>) -> Option<i32> {
    let member = |name| place(types, "task_struct", &["thread_info", name]);
    let at = member("status").or_else(|| member("flags"));
    at.filter(|_| COMPAT_STATUS != 0)
}

/// Registers that calls of helpers leave as they are, and their content.
mod kept {
    /// The context: a `struct pt_regs *`, and then the number of the call, or its result.
    pub const CONTEXT: u8 = 6;
    /// The calling task.
    pub const TASK: u8 = 7;
    /// The table of descriptors.
    pub const TABLE: u8 = 8;
    /// A descriptor.
    pub const DESCRIPTOR: u8 = 9;
}

/// Jumps where a register is at least as great as another one.
const JUMP_UNLESS_LESS: u8 = 0x3d;

impl Assembly {
    /// Loads the address of the map into the first register.
    fn map(&mut self, map: i32) {
        self.load_entry(register::FIRST, map);
    }

    /// Reads the lower half of a register of the program that makes the call.
    fn argument(&mut self, at: i32) {
        self.put_at(READ, register::THIRD, kept::CONTEXT, 0, 0);
        self.half(register::THIRD, at);
    }
}

/// Returns the program that notes the file of the descriptor that it is asked for.
fn note_file(map: i32, places: &Places) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.begin_with_files(&places.of_file);
    program.file_asked(0);
    program.map(map);
    program.put_at(WRITE, register::FIRST, register::THIRD, at::FILE.into(), 0);
    program.put(SET, register::RESULT, 0, 0);
    program.finish()
}

/// Returns the program at the beginning of system calls, which notes the task.
fn begin(map: i32, places: &Places) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.put(COPY, kept::CONTEXT, register::FIRST, 0);
    program.put_at(READ, register::FIRST, kept::CONTEXT, 8, 0);
    program.leave_unless(register::FIRST, CALL);
    program.call(helper::TASK);
    program.put(COPY, kept::TASK, register::RESULT, 0);
    program.half(kept::TASK, places.compat);
    program.put(AND, register::THIRD, 0, COMPAT_STATUS.cast_signed());
    program.leave_unless(register::THIRD, 0);

    // No other task has the table of descriptors, so that none changes it.
    program.pointer(kept::TASK, places.files);
    program.put(COPY, kept::TABLE, register::THIRD, 0);
    program.half(kept::TABLE, places.users);
    program.leave_unless(register::THIRD, 1);
    program.pointer(kept::TABLE, places.table);
    program.put(COPY, kept::TABLE, register::THIRD, 0);

    // The first argument is the pidfd.
    program.argument(places.registers.first);
    program.put(COPY, kept::DESCRIPTOR, register::THIRD, 0);
    program.half(kept::TABLE, places.count);
    program.leave_where(JUMP_UNLESS_LESS, kept::DESCRIPTOR, register::THIRD, 0);
    program.put(SHIFT, kept::DESCRIPTOR, 0, 3);
    program.pointer(kept::TABLE, places.descriptors);
    program.put(ADD_REGISTER, register::THIRD, kept::DESCRIPTOR, 0);
    program.follow(0);
    program.map(map);
    program.put_at(READ, register::FIRST, register::FIRST, at::FILE.into(), 0);
    program.leave_unless_same(register::THIRD, register::FIRST);

    // The second one is no descriptor of any process.
    program.argument(places.registers.second);
    program.load(register::FIRST, 0, u32::MAX, 0);
    program.leave_unless_same(register::THIRD, register::FIRST);
    program.map(map);
    program.put_at(WRITE, register::FIRST, kept::TASK, at::TASK.into(), 0);
    program.put(SET, register::RESULT, 0, 0);
    program.finish()
}

/// Returns the program at the end of system calls, which notes that the noted task was allowed it.
fn end(map: i32, places: &Places) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.put(COPY, kept::CONTEXT, register::FIRST, 0);
    program.map(map);
    program.put_at(READ, kept::TASK, register::FIRST, at::TASK.into(), 0);
    program.leave_where(JUMP_IF, kept::TASK, 0, 0);
    program.call(helper::TASK);
    program.leave_unless_same(register::RESULT, kept::TASK);
    program.map(map);
    program.put(SET, register::SECOND, 0, 0);
    program.put_at(WRITE, register::FIRST, register::SECOND, at::TASK.into(), 0);
    program.argument(places.registers.number);
    program.leave_unless(register::THIRD, CALL);
    program.put_at(READ, register::FIRST, kept::CONTEXT, 8, 0);
    program.leave_unless(register::FIRST, ALLOWED);
    program.map(map);
    program.put(SET, register::SECOND, 0, 1);
    program.put_at(
        WRITE,
        register::FIRST,
        register::SECOND,
        at::IS_PROVEN.into(),
        0,
    );
    program.put(SET, register::RESULT, 0, 0);
    program.finish()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::FromRawFd as _;
    use std::process::{Child, Command};
    use std::thread;

    use super::*;

    /// A process that runs until this is dropped, and its pidfd.
    struct Target {
        child: Child,
        process: OwnedFd,
    }

    impl Target {
        fn start() -> Self {
            let child = Command::new("sleep").arg("100").spawn().unwrap();
            let process = pidfd(child.id().cast_signed());
            Self { child, process }
        }

        fn watched(&self) -> WatchedRight {
            let rights = AttachRights::find().unwrap();
            rights.watch(self.process.as_fd()).unwrap()
        }
    }

    impl Drop for Target {
        fn drop(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    fn pidfd(pid: i32) -> OwnedFd {
        // SAFETY: takes integers only.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        call::owned(opened).unwrap()
    }

    /// Makes the call. Returns 0, or its error.
    fn call_with(process: &OwnedFd, descriptor: i32) -> i32 {
        // SAFETY: takes integers only.
        let made =
            unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0) };
        match i32::try_from(made) {
            Ok(opened) if opened >= 0 => {
                // SAFETY: just opened, and no other value owns it.
                drop(unsafe { File::from_raw_fd(opened) });
                0
            }
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(0),
        }
    }

    /// Runs it in a thread with a table of descriptors of its own.
    fn apart<T: Send>(what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: takes an integer; the thread's descriptors are copies from here on.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
                what()
            });
            thread.join().unwrap()
        })
    }

    #[test]
    #[ignore = "loads eBPF"]
    fn what_the_kernel_allows_is_seen() {
        let target = Target::start();
        let watched = target.watched();
        assert!(!watched.is_proven());
        let error = apart(|| call_with(&target.process, -1));
        assert_eq!(error, libc::EBADF);
        assert!(watched.is_proven());
    }

    #[test]
    #[ignore = "loads eBPF"]
    fn what_the_kernel_refuses_is_no_right() {
        let target = Target::start();
        let watched = target.watched();
        let error = apart(|| {
            // Of this thread alone.
            // SAFETY: takes integers only.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            assert_eq!(changed, 0);
            call_with(&target.process, -1)
        });
        assert_eq!(error, libc::EPERM);
        assert!(!watched.is_proven());
    }

    #[test]
    #[ignore = "loads eBPF"]
    fn another_call_or_another_process_is_no_right() {
        let (target, other) = (Target::start(), Target::start());
        let watched = target.watched();
        let errors = apart(|| {
            [
                call_with(&target.process, 0),
                call_with(&other.process, -1),
                // The same process, and not what was given.
                call_with(&pidfd(target.child.id().cast_signed()), -1),
            ]
        });
        assert_eq!(errors, [0, libc::EBADF, libc::EBADF]);
        // Another thread could replace the descriptor meanwhile.
        assert_eq!(call_with(&target.process, -1), libc::EBADF);
        assert!(!watched.is_proven());
    }

    #[test]
    #[ignore = "loads eBPF"]
    fn a_result_that_a_filter_has_made_up_is_no_right() {
        let target = Target::start();
        let watched = target.watched();
        let instruction = |code, jump_if_not, k| libc::sock_filter {
            code,
            jt: 0,
            jf: jump_if_not,
            k,
        };
        let mut filter = [
            // The number of the call.
            instruction(0x20, 0, 0),
            instruction(0x15, 1, CALL.cast_unsigned()),
            instruction(
                0x06,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EBADF.cast_unsigned(),
            ),
            instruction(0x06, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let error = apart(|| {
            let program = libc::sock_fprog {
                len: u16::try_from(filter.len()).unwrap(),
                filter: filter.as_mut_ptr(),
            };
            // SAFETY: the program and its filter live until after the call.
            let set = unsafe {
                libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    0,
                    &raw const program,
                )
            };
            assert_eq!(set, 0, "{}", io::Error::last_os_error());
            call_with(&target.process, -1)
        });
        assert_eq!(error, libc::EBADF);
        assert!(!watched.is_proven());
    }

    /// The call as 32-bit programs make it, with arguments in the registers of both kinds.
    #[cfg(target_arch = "x86_64")]
    #[test]
    #[ignore = "loads eBPF"]
    fn a_call_with_arguments_in_other_registers_is_no_right() {
        let (target, other) = (Target::start(), Target::start());
        let watched = target.watched();
        let result = apart(|| {
            let result: i64;
            // SAFETY: a call that takes integers only; `rbx`, which the compiler holds, is given
            // back.
            unsafe {
                std::arch::asm!(
                    "xchg {other}, rbx",
                    "int 0x80",
                    "xchg {other}, rbx",
                    other = inout(reg) i64::from(other.process.as_raw_fd()) => _,
                    inout("rax") libc::SYS_pidfd_getfd => result,
                    in("rcx") 0xffff_ffff_u64,
                    in("rdx") 0_u64,
                    in("rdi") i64::from(target.process.as_raw_fd()),
                    in("rsi") 0xffff_ffff_u64,
                    lateout("r8") _,
                    lateout("r9") _,
                    lateout("r10") _,
                    lateout("r11") _,
                );
            }
            result
        });
        let expected = [-libc::EBADF, -libc::ENOSYS].map(i64::from);
        assert!(expected.contains(&result), "{result}");
        assert!(!watched.is_proven());
    }
}
