//! The program's part of the stack of a thread that was looked at.
//!
//! An eBPF program cannot wait for a page of another process's memory, so the agent reads this
//! memory, by the registers that the look has brought. Afterwards it asks the kernel whether the
//! thread is still where it was. If not, the program's part is left out.

use std::collections::BTreeMap;
use std::fs;

use tracer_common::kernel::{
    COPIED_BYTES, MOST_FRAMES, REGISTERS, RecordHeader, STACK_RECORD, UNWIND_RECORD,
};
use zerocopy::IntoBytes as _;

use super::Places;
use super::by_program::Looked;
use tracer_binary::stacks::StackOptions;
use tracer_binary::{bounded_proc, process_memory};

/// Lowest address of a stack: the kernel maps nothing below.
const LOWEST: u64 = 0x1_0000;

/// Bits of an address to which a function returns. On arm64, signed addresses have their signature
/// above them.
const CODE: u64 = if cfg!(target_arch = "aarch64") {
    (1 << 48) - 1
} else {
    u64::MAX
};

/// Stacks that are recorded.
#[derive(Debug)]
pub struct LookStacks {
    options: StackOptions,
    /// Offsets of registers; `None`: nothing is known of a program's registers.
    places: Option<Places>,
}

/// The program's part of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    /// Its functions, by frame pointers.
    Frames(Vec<u64>),
    /// The memory at the stack pointer of the program, from which its functions are found.
    Memory(Vec<u8>),
}

/// Thread whose program is to be read.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Index among those that were looked at.
    index: usize,
    tid: i32,
    address: u64,
    stack: u64,
    frame: u64,
}

impl LookStacks {
    pub fn new(options: StackOptions, places: Option<Places>) -> Self {
        Self { options, places }
    }

    /// Returns the records of the threads that were looked at. The record of a thread's stack,
    /// where it has one, comes before that of its event.
    pub fn records(&self, looked: Vec<Looked>) -> Vec<Vec<u8>> {
        let mut users = self.users(&looked);
        let mut records = Vec::with_capacity(2 * looked.len());
        for (index, one) in looked.into_iter().enumerate() {
            records.extend(self.record(&one, users.remove(&index)));
            records.push(one.event);
        }
        records
    }

    /// Returns the programs' parts of the stacks, by the index of the thread.
    fn users(&self, looked: &[Looked]) -> BTreeMap<usize, User> {
        let mut by_process: BTreeMap<i32, Vec<Wanted>> = BTreeMap::new();
        for (index, one) in looked.iter().enumerate() {
            if let Some((pid, wanted)) = self.wanted(index, one) {
                by_process.entry(pid).or_default().push(wanted);
            }
        }
        let mut users = BTreeMap::new();
        for (pid, wanted) in by_process {
            let options = self.options;
            // Another process may have to supply a page of the stack (`userfaultfd`, FUSE).
            let read = bounded_proc::ask_process(pid, move || {
                let each = wanted.into_iter();
                let each = each.filter_map(|one| Some((one.index, user_of(pid, &one, &options)?)));
                each.collect::<Vec<_>>()
            });
            users.extend(read.unwrap_or_default());
        }
        users
    }

    fn wanted(&self, index: usize, looked: &Looked) -> Option<(i32, Wanted)> {
        let (registers, places) = (looked.registers?, self.places?);
        let header = looked.header()?;
        let of = |place: usize| registers.get(place).copied();
        let wanted = Wanted {
            index,
            tid: i32::try_from(header.tid).ok()?,
            address: of(places.address)?,
            stack: of(places.stack)?,
            frame: of(places.frame)?,
        };
        let pid = i32::try_from(header.pid).ok()?;
        (self.options.user_frames > 0 && wanted.stack >= LOWEST).then_some((pid, wanted))
    }

    /// Returns the record of a stack; `None` where nothing of it is known.
    fn record(&self, looked: &Looked, user: Option<User>) -> Option<Vec<u8>> {
        if looked.kernel.is_empty() && user.is_none() {
            return None;
        }
        let mut kernel = looked.kernel.clone();
        let kernel_bytes = bytes_of(&kernel)?;
        kernel.resize(MOST_FRAMES, 0);
        let header = looked.header()?;
        let front = |record_type, user_bytes: u32| {
            let event_type = u32::from(header.event_type);
            let header = RecordHeader {
                event_type: record_type,
                program_address: 0,
                ..header
            };
            let words = [event_type, kernel_bytes, user_bytes, 0];
            [
                header.as_bytes(),
                words.as_bytes(),
                &[0; 16],
                kernel.as_bytes(),
            ]
            .concat()
        };
        Some(match user {
            Some(User::Memory(memory)) => {
                let space = COPIED_BYTES
                    .into_iter()
                    .find(|space| memory.len() <= *space)?;
                let mut record = front(UNWIND_RECORD, u32::try_from(memory.len()).ok()?);
                let registers = looked.registers.unwrap_or([0; REGISTERS]);
                record.extend_from_slice(registers.as_bytes());
                let end = record.len() + space;
                record.extend_from_slice(&memory);
                record.resize(end, 0);
                record
            }
            other => {
                let mut frames = match other {
                    Some(User::Frames(frames)) => frames,
                    _ => Vec::new(),
                };
                let bytes = bytes_of(&frames)?;
                frames.resize(MOST_FRAMES, 0);
                [&front(STACK_RECORD, bytes), frames.as_bytes()].concat()
            }
        })
    }
}

fn bytes_of(frames: &[u64]) -> Option<u32> {
    u32::try_from(size_of_val(frames)).ok()
}

/// Returns the program's part of a stack, if the thread has stayed where it was.
fn user_of(pid: i32, of: &Wanted, options: &StackOptions) -> Option<User> {
    let user = if options.copied_bytes > 0 {
        let mut memory = vec![0; usize::try_from(options.copied_bytes).ok()?];
        let read = process_memory::read(pid, of.stack, &mut memory);
        memory.truncate(read);
        User::Memory(memory)
    } else {
        let most = usize::try_from(options.user_frames).ok()?.min(MOST_FRAMES);
        User::Frames(frames(of, most, |address, to| {
            process_memory::read(pid, address, to) == to.len()
        }))
    };
    is_still_at(pid, of).then_some(user)
}

/// Returns the functions of the program, by its frame pointers, the innermost first.
fn frames(of: &Wanted, most: usize, read: impl Fn(u64, &mut [u8]) -> bool) -> Vec<u64> {
    let mut frames = vec![of.address];
    let mut frame = of.frame;
    // A frame has the address of its caller's frame, and the address at which the caller goes on.
    while frames.len() < most && frame >= LOWEST && frame.is_multiple_of(8) {
        let mut words = [0_u64; 2];
        if !read(frame, words.as_mut_bytes()) {
            break;
        }
        let [next, address] = words;
        if address & CODE == 0 {
            break;
        }
        frames.push(address & CODE);
        // Callers lie further out.
        if next <= frame {
            break;
        }
        frame = next;
    }
    frames
}

/// Tells whether a thread is where it was: whether its stack pointer and the place in its program
/// are the same.
fn is_still_at(pid: i32, of: &Wanted) -> bool {
    let path = format!("/proc/{pid}/task/{}/syscall", of.tid);
    let line = fs::read_to_string(path).unwrap_or_default();
    ends_with(&line, of.stack, of.address)
}

/// Tells whether the line ends with these two addresses.
fn ends_with(line: &str, stack: u64, address: u64) -> bool {
    let mut words = line.split_ascii_whitespace().rev();
    let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    word() == Some(address) && word() == Some(stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted {
        index: 0,
        tid: 7,
        address: 0x40_0000,
        stack: 0x1_0000,
        frame: 0x2_0000,
    };

    #[test]
    fn frames_are_followed_outwards_and_no_further() {
        let walk = |memory: &[(u64, [u64; 2])], most| {
            frames(&WANTED, most, |at, to| {
                let found = memory.iter().find(|(address, _)| *address == at);
                found.is_some_and(|(_, words)| {
                    to.copy_from_slice(words.as_bytes());
                    true
                })
            })
        };
        let chain = [
            (0x2_0000, [0x2_0040, 0x40_0001]),
            (0x2_0040, [0x2_0080, 0x40_0002]),
            (0x2_0080, [0, 0x40_0003]),
        ];
        assert_eq!(
            walk(&chain, 9),
            [0x40_0000, 0x40_0001, 0x40_0002, 0x40_0003]
        );
        assert_eq!(walk(&chain, 2), [0x40_0000, 0x40_0001]);
        assert_eq!(walk(&[], 9), [0x40_0000]);
        // A frame that leads to itself, or inwards, ends the walk.
        assert_eq!(walk(&[(0x2_0000, [0x2_0000, 5])], 9), [0x40_0000, 5]);
    }

    #[test]
    fn memory_of_this_process_is_read_as_far_as_there_is_some() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let bytes = *b"some bytes";
        let mut read = [0; 10];
        let at = bytes.as_ptr() as u64;
        assert_eq!(process_memory::read(pid, at, &mut read), 10);
        assert_eq!(read, bytes);
        assert_eq!(process_memory::read(pid, 8, &mut read), 0);
        assert_eq!(process_memory::read(pid, u64::MAX, &mut read), 0);
    }

    #[test]
    fn a_thread_is_where_it_was_if_both_ends_are() {
        let line = "202 0x1 0x2 0x3 0x4 0x5 0x6 0x10000 0x400000\n";
        assert!(ends_with(line, 0x1_0000, 0x40_0000));
        assert!(!ends_with(line, 0x1_0008, 0x40_0000));
        assert!(!ends_with(line, 0x1_0000, 0x40_0004));
        assert!(!ends_with("running\n", 0x1_0000, 0x40_0000));
        assert!(!ends_with("", 0, 0));
    }
}
