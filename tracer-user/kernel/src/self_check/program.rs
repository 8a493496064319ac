//! The program that reads the values to be compared, in the calling thread.
//!
//! This thread attaches it to the entries of all system calls for as long as one call takes. No
//! other program makes this call with these arguments.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::SelfCheckError;
use super::readings::{Base, Reading, VALUE_BYTES};
use crate::assembled::{self, ADD, Assembly, COPY, Instruction, READ, SET, WRITE};
use crate::call;
use crate::mapping::{Access, MapMemory};

/// The system call that is made: it takes no arguments, and so changes nothing.
pub const CALL: u64 = libc::SYS_getpid as u64;
/// Arguments that are passed to the call all the same: the program finds them in the registers.
pub const ARGUMENTS: [u64; 6] = [
    0x5a01_0000_0b1f_0001,
    0x5a02_0000_0b1f_0002,
    0x5a03_0000_0b1f_0003,
    0x5a04_0000_0b1f_0004,
    0x5a05_0000_0b1f_0005,
    0x5a06_0000_0b1f_0006,
];

/// Values that were read.
pub struct Observed {
    /// Value of each reading; `None` where nothing can be read there.
    pub values: Vec<Option<[u8; VALUE_BYTES]>>,
    pub around: Around,
}

/// Values of the kernel's helpers at the same moment.
pub struct Around {
    pub cpu: u64,
    /// The thread's control group.
    pub group: u64,
    pub root_group: u64,
    /// Address of the registers.
    pub registers: u64,
}

/// Offsets in the map, in bytes.
mod at {
    pub const DONE: i16 = 0;
    pub const CPU: i16 = 8;
    pub const GROUP: i16 = 16;
    pub const ROOT_GROUP: i16 = 24;
    pub const REGISTERS: i16 = 32;
    pub const VALUES: usize = 64;
    /// Bytes of a value, and of the return value of the helper that read it.
    pub const EACH: usize = super::VALUE_BYTES + 8;
}

/// Reads the values of all readings.
///
/// # Errors
///
/// The kernel does not take the program, or does not run it.
pub fn observe(readings: &[Reading]) -> Result<Observed, SelfCheckError> {
    let bytes = at::VALUES + readings.len() * at::EACH;
    let map =
        call::make_mappable(bytes).map_err(SelfCheckError::impossible("bpf(BPF_MAP_CREATE)"))?;
    let seen = MapMemory::new(map.as_fd(), bytes, Access::Read);
    let seen = seen.map_err(SelfCheckError::impossible("mmap"))?;
    let program = assembled::load("self_check", &assemble(map.as_raw_fd(), readings));
    let program = program.map_err(SelfCheckError::impossible("bpf(BPF_PROG_LOAD)"))?;
    // Where this thread may not be pinned, the comparison shows less.
    let _pinned = Pinned::to_last().ok();
    leave_the_cpu();
    let link = call::attach(&program, Some(c"sys_enter"));
    let link = link.map_err(SelfCheckError::impossible("bpf(BPF_RAW_TRACEPOINT_OPEN)"))?;
    call();
    drop(link);
    let word = |at: usize| seen.word(at).map_or(0, |word| word.load(Ordering::Acquire));
    let header = |at: i16| usize::try_from(at).map_or(0, word);
    if header(at::DONE) == 0 {
        let why = io::Error::other("the program did not run");
        return Err(SelfCheckError::impossible("sys_enter")(why));
    }
    let values = (0..readings.len()).map(|index| {
        let start = at::VALUES + index * at::EACH;
        let mut value = [0; VALUE_BYTES];
        let (low, high) = value.split_at_mut(8);
        low.copy_from_slice(&word(start).to_ne_bytes());
        high.copy_from_slice(&word(start + 8).to_ne_bytes());
        (word(start + VALUE_BYTES) == 0).then_some(value)
    });
    Ok(Observed {
        values: values.collect(),
        around: Around {
            cpu: header(at::CPU),
            group: header(at::GROUP),
            root_group: header(at::ROOT_GROUP),
            registers: header(at::REGISTERS),
        },
    })
}

/// Leaves the CPU: the kernel stores some registers of a thread only when the thread leaves its
/// CPU.
fn leave_the_cpu() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Makes the call.
fn call() {
    let [a, b, c, d, e, f] = ARGUMENTS;
    // SAFETY: the call takes no arguments, whatever is in the registers for them.
    unsafe { libc::syscall(libc::SYS_getpid, a, b, c, d, e, f) };
}

/// Registers of the program, and their content.
mod register {
    pub use crate::assembled::register::{FIRST, RESULT, THIRD};
    /// The context: a `struct pt_regs *`, and then the number of the call.
    pub const CONTEXT: u8 = 6;
    pub const MAP: u8 = 7;
    pub const TASK: u8 = 8;
}

/// Helpers, as the kernel counts them.
mod helper {
    pub use crate::assembled::helper::TASK;
    pub const CPU: i32 = 8;
    pub const PID: i32 = 14;
    pub const GROUP: i32 = 80;
    pub const ANCESTOR: i32 = 123;
}

impl Assembly {
    /// Calls a helper, and writes its result to the map.
    fn write_down(&mut self, helper: i32, at: i16) {
        self.call(helper);
        self.put_at(WRITE, register::MAP, register::RESULT, at, 0);
    }

    /// Follows the pointers of a reading, and reads the value at their end to the map.
    fn reading(&mut self, reading: &Reading, to: usize) {
        let base = match reading.base {
            Base::Task => register::TASK,
            Base::Registers => register::CONTEXT,
        };
        if base == register::CONTEXT {
            self.put_at(READ, register::THIRD, base, 0, 0);
        } else {
            self.put(COPY, register::THIRD, base, 0);
        }
        let (last, pointers) = reading.steps.split_last().unwrap_or((&0, &[]));
        for offset in pointers {
            self.follow(*offset);
        }
        self.put(ADD, register::THIRD, 0, *last);
        self.put(COPY, register::FIRST, register::MAP, 0);
        self.put(ADD, register::FIRST, 0, i32::try_from(to).unwrap_or(0));
        self.read(reading.bytes);
        let failed = i16::try_from(to + VALUE_BYTES).unwrap_or(0);
        self.put_at(WRITE, register::MAP, register::RESULT, failed, 0);
    }
}

fn assemble(map: i32, readings: &[Reading]) -> Vec<Instruction> {
    let mut program = Assembly::default();
    program.put(COPY, register::CONTEXT, register::FIRST, 0);
    // The program goes on only in this thread, in this call, and once.
    program.call(helper::PID);
    // SAFETY: takes nothing, and cannot fail.
    let tid = unsafe { libc::gettid() };
    let pid = std::process::id();
    program.load(register::FIRST, 0, tid.cast_unsigned(), pid);
    program.leave_unless_same(register::RESULT, register::FIRST);
    program.put_at(READ, register::FIRST, register::CONTEXT, 8, 0);
    program.leave_unless(register::FIRST, i32::try_from(CALL).unwrap_or(-1));
    program.load_entry(register::MAP, map);
    program.put_at(READ, register::FIRST, register::MAP, at::DONE, 0);
    program.leave_unless(register::FIRST, 0);
    program.write_down(helper::CPU, at::CPU);
    if readings.iter().any(Reading::is_of_group) {
        program.write_down(helper::GROUP, at::GROUP);
        program.put(SET, register::FIRST, 0, 0);
        program.write_down(helper::ANCESTOR, at::ROOT_GROUP);
    }
    program.put_at(READ, register::FIRST, register::CONTEXT, 0, 0);
    program.put_at(WRITE, register::MAP, register::FIRST, at::REGISTERS, 0);
    program.call(helper::TASK);
    program.put(COPY, register::TASK, register::RESULT, 0);
    for (index, reading) in readings.iter().enumerate() {
        program.reading(reading, at::VALUES + index * at::EACH);
    }
    program.put(SET, register::FIRST, 0, 1);
    program.put_at(WRITE, register::MAP, register::FIRST, at::DONE, 0);
    program.put(SET, register::RESULT, 0, 0);
    program.finish()
}

/// Keeps this thread on one CPU, as long as this lives.
struct Pinned {
    before: libc::cpu_set_t,
}

impl Pinned {
    /// Pins the thread to the last CPU that it may have. The number of the first one is 0, as many
    /// other values are, so that it would show little.
    fn to_last() -> io::Result<Self> {
        // SAFETY: all-zero bytes are an empty set.
        let mut before: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `before` is a set of the size that the call is given.
        let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&before), &raw mut before) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        let cpus = 0..8 * size_of::<libc::cpu_set_t>();
        // SAFETY: the index is within the set.
        let last = cpus
            .rev()
            .find(|cpu| unsafe { libc::CPU_ISSET(*cpu, &before) });
        // SAFETY: all-zero bytes are an empty set.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the index is within the set.
        unsafe { libc::CPU_SET(last.unwrap_or(0), &mut one) };
        set_cpus(&one)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = set_cpus(&self.before);
    }
}

fn set_cpus(cpus: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `cpus` is a set of the size that the call is given.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(cpus), std::ptr::from_ref(cpus)) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
