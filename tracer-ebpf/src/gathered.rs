//! Data that arguments of a system call lead to by several addresses: the texts of an exec, the
//! parts of a vectored read, the sets of `select`.
//!
//! How long each is decides where the next one begins, so they are gathered in memory of the CPU
//! and copied from there: of a record's space the verifier knows only fixed offsets.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths that are limited where they are read"
)]

use core::arch::asm;
use core::mem::offset_of;

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{
    bpf_probe_read_kernel, bpf_probe_read_user, bpf_probe_read_user_str,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

use tracer_common::kernel::call_texts;
use tracer_common::kernel::gathered::{
    ATTRIBUTE, COUNTED_BYTES, COUNTED_INTEGERS, EACH, ENTRIES, ENTRIES_AT_MOST, FILLED_MESSAGE,
    FILLED_MESSAGES, FILLED_PARTS, HEAD, HEADER, MESSAGE, MESSAGE_HEAD, MESSAGES, MORE, MOST,
    MOST_MESSAGES, MOUNTED, NAME, OLD_MASK_STEP, OLD_SIGNAL_MASK, PART, PARTS, SET, SETS,
    SETS_AND_TIME, STRINGS, THREE_INTEGERS, TIME_AND_SIGNALS, TRUNCATED, UNKNOWN, UNREAD,
    VARIABLES,
};
use tracer_common::kernel::string_space::LEAST_TEXT;

use crate::offsets::STRING_BYTES;

/// Bytes that are gathered, before the last text or part: a mask, so that the verifier sees it.
const BYTES: usize = 4096;

/// Space that the last one needs beyond.
const SLACK: usize = PART + 2 + EACH as usize + 8;

#[repr(C)]
struct Space {
    /// The thread that gathers. Another one on this CPU may come between.
    by: u64,
    /// Where the next text or part begins. What the verifier follows as a value, it follows for
    /// each way through the loop.
    at: u64,
    /// Bytes that may still be read.
    left: u64,
    /// Values of the registers for arguments, with nothing before them and the mask of signals
    /// behind them.
    arguments: [u64; 8],
    bytes: [u8; BYTES + SLACK],
}

#[map]
static GATHERED: PerCpuArray<Space> = PerCpuArray::with_max_entries(1, 0);

/// Returns the thread that runs.
#[inline(always)]
fn thread() -> u64 {
    bpf_get_current_pid_tgid()
}

/// The space of this CPU, for the thread that runs.
struct Gathering(*mut Space);

impl Gathering {
    #[inline(always)]
    fn begin(at: u64, left: u64) -> Option<Self> {
        let gathering = Self::current()?;
        gathering.set(offset_of!(Space, by), thread());
        gathering.set(offset_of!(Space, at), at);
        gathering.set(offset_of!(Space, left), left);
        Some(gathering)
    }

    /// Returns the gathering that has begun.
    #[inline(always)]
    fn current() -> Option<Self> {
        GATHERED.get_ptr_mut(0).map(Self)
    }

    /// Returns the member at this offset, which is a word.
    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        let word = self.0.cast::<u8>().wrapping_add(offset).cast::<u64>();
        // SAFETY: inside the entry that the look-up gave.
        unsafe { word.read_volatile() }
    }

    /// Sets it.
    #[inline(always)]
    fn set(&self, offset: usize, value: u64) {
        let word = self.0.cast::<u8>().wrapping_add(offset).cast::<u64>();
        // SAFETY: inside the entry that the look-up gave.
        unsafe { word.write_volatile(value) };
    }

    /// Returns the value of the register for an argument.
    #[inline(always)]
    fn argument(&self, nth: usize) -> u64 {
        self.word(offset_of!(Space, arguments) + (nth + 1) * size_of::<u64>())
    }

    /// Returns where the gathered data lies.
    #[inline(always)]
    fn bytes(&self) -> *mut u8 {
        self.0.cast::<u8>().wrapping_add(offset_of!(Space, bytes))
    }

    /// Returns where the next one begins.
    #[inline(always)]
    fn at(&self) -> u64 {
        self.word(offset_of!(Space, at))
    }

    /// Moves the end on by `bytes`, which have been added.
    #[inline(always)]
    fn add(&self, bytes: u64) {
        self.set(offset_of!(Space, at), self.at() + bytes);
    }

    /// Returns how many of so many bytes may be read. They are then used up.
    #[inline(always)]
    fn use_up(&self, bytes: u64) -> u64 {
        let left = self.word(offset_of!(Space, left));
        let used = bytes.min(left);
        self.set(offset_of!(Space, left), left - used);
        used
    }

    /// Returns space for the next one, unless it is used up.
    #[inline(always)]
    fn entry(&self) -> Option<*mut u8> {
        let at = self.at();
        if at >= BYTES as u64 {
            return None;
        }
        Some(self.bytes().wrapping_add(at as usize & (BYTES - 1)))
    }

    /// Returns how many bytes there are.
    #[inline(always)]
    fn end(&self) -> i32 {
        self.at() as i32
    }

    /// Writes the first words of what is gathered.
    #[inline(always)]
    fn write_head(&self, has_more: bool, variables: u16) {
        let head = [if has_more { MORE } else { 0 }, variables];
        // SAFETY: there is space for more.
        unsafe { self.bytes().cast::<[u16; 2]>().write_unaligned(head) };
    }
}

/// Returns the smaller one, in one register of 64 bits. Of a copy of 32 bits the verifier of 6.1
/// does not notice that the other one was compared.
#[inline(always)]
pub fn bounded(mut value: u64, most: u64) -> u64 {
    // SAFETY: it changes nothing, and after it the compiler does not know where the value is from.
    // Without an instruction two lines of the source would have one address, which no kernel takes.
    unsafe { asm!("{0} = {0}", inout(reg) value, options(pure, nomem, nostack)) };
    let mut bounded = value.min(most);
    // SAFETY: the same.
    unsafe { asm!("{0} = {0}", inout(reg) bounded, options(pure, nomem, nostack)) };
    bounded
}

/// Copies what was gathered: how many bytes that are, or an error.
#[inline(always)]
pub fn take(to: *mut u8, length: i32, most: u32) -> i32 {
    let Some(gathering) = Gathering::current() else {
        return -1;
    };
    if length < 0 {
        return length;
    }
    let size = bounded(u64::from(length.cast_unsigned()), u64::from(most)) as u32;
    // SAFETY: the helper writes at most `most` bytes, for which there is space.
    let read = unsafe { bpf_probe_read_kernel(to.cast(), size, gathering.bytes().cast()) };
    if read < 0 || gathering.word(offset_of!(Space, by)) != thread() {
        return -1;
    }
    length
}

/// Reads the address at an address of the program, of which each has so many bytes.
#[inline(always)]
fn address_at(at: u64, is_compat: u32) -> Option<u64> {
    let size = if is_compat != 0 { 4 } else { 8 };
    let mut address = 0_u64;
    // SAFETY: the helper writes at most the 8 bytes of `address`, and checks the address.
    let read = unsafe { bpf_probe_read_user((&raw mut address).cast(), size, at as *const _) };
    (read >= 0).then_some(address)
}

/// Says what the registers for arguments hold, with nothing before them and the mask of signals
/// behind them, before something is gathered.
#[inline(always)]
pub fn set_arguments(arguments: &[u64; 8]) {
    if let Some(gathering) = Gathering::current() {
        let mut nth = 0;
        while nth < arguments.len() {
            let at = offset_of!(Space, arguments) + nth * size_of::<u64>();
            #[expect(clippy::indexing_slicing, reason = "below its length")]
            gathering.set(at, arguments[nth]);
            nth += 1;
        }
    }
}

/// Gathers what the argument leads to that the lowest bits of `points_to` name: how many bytes that
/// are, or an error.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather(points_to: u32, returned: u64, is_compat: u32) -> i32 {
    let Some(gathering) = Gathering::current() else {
        return -1;
    };
    let index = (points_to & call_texts::ARGUMENT) as usize;
    let at = offset_of!(Space, arguments) + index * size_of::<u64>();
    let (address, next) = (gathering.word(at), gathering.word(at + size_of::<u64>()));
    let shape = points_to >> call_texts::SIZE_AT & call_texts::SIZE;
    match shape {
        STRINGS => gather_strings(address, next, is_compat),
        PARTS => gather_parts(address, next, u64::MAX, HEAD as u32, is_compat),
        FILLED_PARTS => gather_parts(address, next, returned, HEAD as u32, is_compat),
        MESSAGE => gather_message(address, u64::MAX, is_compat),
        FILLED_MESSAGE => gather_message(address, returned, is_compat),
        // Of those that are about to be sent it is not known yet how many will be.
        MESSAGES if returned == 0 => gather_messages(address, next & 0xffff_ffff, 0, is_compat),
        MESSAGES => gather_messages(address, returned, 0, is_compat),
        FILLED_MESSAGES => gather_messages(address, returned, 1, is_compat),
        SETS | SETS_AND_TIME => gather_sets(u32::from(shape == SETS), is_compat),
        MOUNTED => gather_mounted(),
        ATTRIBUTE => gather_attribute(),
        ENTRIES => gather_entries(address, returned),
        TIME_AND_SIGNALS => gather_two(address, time_bytes(is_compat), next, 8),
        THREE_INTEGERS => gather_integers(),
        COUNTED_INTEGERS => gather_counted(0, 4),
        COUNTED_BYTES => gather_counted(1, 1),
        OLD_SIGNAL_MASK => gather_two(address, 4, address + OLD_MASK_STEP, 4),
        _ => -1,
    }
}

/// Returns how many bytes a `struct timespec` or `struct timeval` has.
#[inline(always)]
fn time_bytes(is_compat: u32) -> u32 {
    if is_compat != 0 { 8 } else { 16 }
}

/// Gathers what two addresses lead to, so many bytes of each: how many bytes that makes.
#[inline(always)]
fn gather_two(first: u64, first_bytes: u32, second: u64, second_bytes: u32) -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    add_bytes(first, first_bytes);
    add_bytes(second, second_bytes);
    gathering.write_head(false, UNKNOWN);
    gathering.end()
}

/// Gathers the integers that the first three arguments point to.
#[inline(always)]
fn gather_integers() -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    add_bytes(gathering.argument(0), 4);
    add_bytes(gathering.argument(1), 4);
    add_bytes(gathering.argument(2), 4);
    gathering.write_head(false, UNKNOWN);
    gathering.end()
}

/// Gathers what an argument points to, of which the one before it says how much there is.
#[inline(always)]
fn gather_counted(count: usize, size: u32) -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    let bytes = (gathering.argument(count) as u32).min(u32::from(u16::MAX) / 4) * size;
    add_bytes(gathering.argument(count + 1), bytes);
    gathering.write_head(false, UNKNOWN);
    gathering.end()
}

/// Gathers the texts that `mount` is given.
#[inline(always)]
fn gather_mounted() -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    let least = LEAST_TEXT;
    add_text(gathering.argument(0), least);
    add_text(gathering.argument(1), least);
    add_text(gathering.argument(2), least);
    add_text(gathering.argument(4), least);
    gathering.write_head(false, UNKNOWN);
    gathering.end()
}

/// Gathers the texts that `setxattr` is given, and the value.
#[inline(always)]
fn gather_attribute() -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    add_text(gathering.argument(0), LEAST_TEXT);
    add_text(gathering.argument(1), LEAST_TEXT);
    let bytes = gathering.argument(3).min(u64::from(u16::MAX));
    add_data(gathering.argument(2), bytes as u32);
    gathering.write_head(false, UNKNOWN);
    gathering.end()
}

/// Gathers sets of descriptors, a time, and a set of signals where there is one.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather_sets(has_signals: u32, is_compat: u32) -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    let word = if is_compat != 0 { 32 } else { 64 };
    let descriptors = (gathering.argument(0) as u32).min(SET * 8);
    let bytes = descriptors.div_ceil(word) * (word / 8);
    add_bytes(gathering.argument(1), bytes);
    add_bytes(gathering.argument(2), bytes);
    add_bytes(gathering.argument(3), bytes);
    add_bytes(gathering.argument(4), time_bytes(is_compat));
    let signals = gathering.argument(5);
    if has_signals != 0 {
        add_bytes(signals, time_bytes(is_compat));
        if signals != 0 {
            add_bytes(address_at(signals, is_compat).unwrap_or(0), 8);
        }
    }
    gathering.write_head(false, UNKNOWN);
    gathering.end()
}

/// Adds so many bytes, [`NAME`] at most. See `add_text`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_bytes(address: u64, bytes: u32) -> i32 {
    add_at_most(address, bytes, NAME as u32)
}

/// Adds so many bytes, as many at most as are read of data.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_data(address: u64, bytes: u32) -> i32 {
    add_at_most(address, bytes, STRING_BYTES.load())
}

#[inline(always)]
fn add_at_most(address: u64, bytes: u32, most: u32) -> i32 {
    let Some(gathering) = Gathering::current() else {
        return 1;
    };
    let Some(entry) = gathering.entry() else {
        return 1;
    };
    let wanted = if address == 0 { 0 } else { bytes };
    let shown = bounded(u64::from(wanted.min(most)), NAME as u64) as u32;
    let to = entry.wrapping_add(2).cast();
    // SAFETY: the helper writes at most 256 bytes, for which there is space, and checks the
    // address.
    let read = unsafe { bpf_probe_read_user(to, shown, address as *const _) };
    // SAFETY: there is space for it.
    unsafe {
        entry
            .cast::<u16>()
            .write_unaligned(head(read, shown, wanted))
    };
    gathering.add(2 + if read < 0 { 0 } else { u64::from(shown) });
    0
}

/// Counts the entries of a folder in so many bytes.
#[inline(always)]
fn gather_entries(address: u64, bytes: u64) -> i32 {
    let Some(gathering) = Gathering::begin(address, address.wrapping_add(bytes)) else {
        return -1;
    };
    let (mut nth, mut count) = (0, 0);
    while nth < ENTRIES_AT_MOST / ENTRIES_AT_ONCE {
        let counted = count_entries();
        count += counted;
        if counted != ENTRIES_AT_ONCE {
            break;
        }
        nth += 1;
    }
    gathering.write_head(count >= ENTRIES_AT_MOST, count as u16);
    HEAD as i32
}

/// Entries that are counted by one call.
const ENTRIES_AT_ONCE: u32 = 128;

/// Counts entries, from where the next one begins up to where they end. See `add_text`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn count_entries() -> u32 {
    /// Where an entry says how long it is.
    const LENGTH_AT: u64 = 16;
    let Some(gathering) = Gathering::current() else {
        return 0;
    };
    let end = gathering.word(offset_of!(Space, left));
    let mut count = 0;
    while count < ENTRIES_AT_ONCE {
        let at = gathering.at();
        if at >= end {
            break;
        }
        let mut length = 0_u16;
        let from = (at + LENGTH_AT) as *const _;
        // SAFETY: the helper writes the 2 bytes of `length`, and checks the address.
        let read = unsafe { bpf_probe_read_user((&raw mut length).cast(), 2, from) };
        if read < 0 || length == 0 {
            break;
        }
        gathering.add(length.into());
        count += 1;
    }
    count
}

/// Gathers the texts whose addresses begin here, and counts the variables of the environment: how
/// many bytes that are, or an error.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather_strings(addresses: u64, environment: u64, is_compat: u32) -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    let step = if is_compat != 0 { 4 } else { 8 };
    let mut has_more = true;
    let mut nth = 0;
    while nth < MOST + 1 {
        let Some(text) = address_at(addresses + u64::from(nth) * step, is_compat) else {
            if nth == 0 {
                return -1;
            }
            break;
        };
        if text == 0 {
            has_more = false;
            break;
        }
        if nth == MOST || add_text(text, 0) != 0 {
            break;
        }
        nth += 1;
    }
    gathering.write_head(has_more, variables(environment, is_compat));
    gathering.end()
}

/// Adds a text, of which at least so many bytes are wanted; 1 where there is no space for it. A
/// function of its own, so that the verifier walks it once, and not for each that may be added.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_text(text: u64, least: u32) -> i32 {
    let wanted = STRING_BYTES.load().max(least).min(EACH);
    let Some(gathering) = Gathering::current() else {
        return 1;
    };
    let Some(entry) = gathering.entry() else {
        return 1;
    };
    let to = entry.wrapping_add(2).cast();
    // SAFETY: the helper writes at most `wanted + 2` bytes, for which there is space, and checks
    // the address.
    let read = unsafe { bpf_probe_read_user_str(to, wanted + 2, text as *const _) };
    let length = if read > 0 { (read - 1) as u32 } else { 0 };
    let shown = length.min(wanted);
    // SAFETY: there is space for it.
    unsafe {
        entry
            .cast::<u16>()
            .write_unaligned(head(read, shown, length))
    };
    gathering.add(2 + u64::from(shown));
    0
}

/// Returns the word before the bytes of a text or part: how many were read, and whether there are
/// more.
#[inline(always)]
fn head(read: i64, shown: u32, length: u32) -> u16 {
    let more = if length > shown { TRUNCATED } else { 0 };
    if read < 0 {
        UNREAD
    } else {
        shown as u16 | more
    }
}

/// Returns how many variables an environment has.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn variables(environment: u64, is_compat: u32) -> u16 {
    let step = if is_compat != 0 { 4 } else { 8 };
    let mut count = 0;
    while count < VARIABLES {
        match address_at(environment + u64::from(count) * step, is_compat) {
            Some(0) => return count,
            Some(_) => count += 1,
            None => return UNKNOWN,
        }
    }
    VARIABLES
}

/// Gathers the parts whose addresses and lengths begin here, `limit` bytes of them at most, behind
/// what has been gathered up to `at`: how many bytes that makes, or an error.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather_parts(parts: u64, count: u64, limit: u64, at: u32, is_compat: u32) -> i32 {
    let step = if is_compat != 0 { PART / 2 } else { PART } as u64;
    let Some(gathering) = Gathering::begin(u64::from(at), limit) else {
        return -1;
    };
    let mut nth = 0;
    while nth < MOST && u64::from(nth) < count {
        if add_part(parts + u64::from(nth) * step, is_compat) != 0 {
            break;
        }
        nth += 1;
    }
    if nth == 0 && count != 0 {
        return -1;
    }
    gathering.write_head(u64::from(nth) < count, UNKNOWN);
    gathering.end()
}

/// Adds the part whose address and length are there; 1 where that cannot be. See `add_text`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_part(at: u64, is_compat: u32) -> i32 {
    let Some(gathering) = Gathering::current() else {
        return 1;
    };
    let Some(entry) = gathering.entry() else {
        return 1;
    };
    let size = if is_compat != 0 { PART / 2 } else { PART } as u32;
    // SAFETY: the helper writes 16 bytes at most, for which there is space, and checks the address.
    if unsafe { bpf_probe_read_user(entry.cast(), size, at as *const _) } < 0 {
        return 1;
    }
    if is_compat != 0 {
        // SAFETY: it is what was just read.
        let narrow = unsafe { entry.cast::<[u32; 2]>().read_unaligned() };
        let wide = narrow.map(u64::from);
        // SAFETY: there is space for twice as much.
        unsafe { entry.cast::<[u64; 2]>().write_unaligned(wide) };
    }
    // SAFETY: it is what was just read.
    let [address, length] = unsafe { entry.cast::<[u64; 2]>().read_unaligned() };
    let wanted = u64::from(STRING_BYTES.load().min(EACH));
    let there = gathering.use_up(length);
    let shown = bounded(there.min(wanted), u64::from(EACH)) as u32;
    let to = entry.wrapping_add(PART + 2).cast();
    // SAFETY: the helper writes at most `wanted` bytes, for which there is space, and checks the
    // address.
    let read = unsafe { bpf_probe_read_user(to, shown, address as *const _) };
    let shown = if read < 0 { 0 } else { shown };
    let head = head(read, shown, there.min(wanted + 1) as u32);
    // SAFETY: there is space for it.
    unsafe { entry.wrapping_add(PART).cast::<u16>().write_unaligned(head) };
    gathering.add((PART + 2) as u64 + u64::from(shown));
    0
}

/// Gathers a `struct msghdr`, its name, its control messages and its parts, `limit` bytes of them
/// at most: how many bytes that are, or an error.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather_message(address: u64, limit: u64, is_compat: u32) -> i32 {
    let Some(gathering) = Gathering::begin((HEAD + HEADER) as u64, 0) else {
        return -1;
    };
    let header = gathering.bytes().wrapping_add(HEAD);
    let size = if is_compat != 0 { HEADER / 2 } else { HEADER } as u32;
    // SAFETY: the helper writes 56 bytes at most, for which there is space, and checks the address.
    if unsafe { bpf_probe_read_user(header.cast(), size, address as *const _) } < 0 {
        return -1;
    }
    if is_compat != 0 {
        widen_header(header);
    }
    // Each is read when it is used: the callers share one stack, which is short.
    add_bytes(header_word(header, 0), header_word(header, 1) as u32);
    let control_length = header_word(header, 5).min(u64::from(u16::MAX));
    add_bytes(header_word(header, 4), control_length as u32);
    // Looked up again: held, it would be on that stack.
    let Some(gathering) = Gathering::current() else {
        return -1;
    };
    let header = gathering.bytes().wrapping_add(HEAD);
    let (parts, count) = (header_word(header, 2), header_word(header, 3));
    gather_parts(parts, count, limit, gathering.at() as u32, is_compat)
}

/// Gathers so many of `struct mmsghdr`, with their names, control messages and parts; 1: of each
/// only as many bytes as its length says. How many bytes that are, or an error.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather_messages(address: u64, count: u64, is_filled: u32, is_compat: u32) -> i32 {
    let Some(gathering) = Gathering::begin(HEAD as u64, 0) else {
        return -1;
    };
    // Behind the header is its length, and what makes it a multiple of a word.
    let bytes = if is_compat != 0 {
        HEADER / 2 + 4
    } else {
        HEADER + 8
    } as u64;
    let mut nth = 0;
    while nth < MOST_MESSAGES && u64::from(nth) < count {
        if add_message(address + u64::from(nth) * bytes, is_filled, is_compat) != 0 {
            break;
        }
        nth += 1;
    }
    if nth == 0 && count != 0 {
        return -1;
    }
    gathering.write_head(u64::from(nth) < count, UNKNOWN);
    gathering.end()
}

/// Adds the `struct mmsghdr` that is there; 1 where that cannot be. See `add_text`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_message(at: u64, is_filled: u32, is_compat: u32) -> i32 {
    let Some(gathering) = Gathering::current() else {
        return 1;
    };
    gathering.set(offset_of!(Space, at), (gathering.at() + 7) & !7);
    let Some(header) = gathering.entry() else {
        return 1;
    };
    let size = if is_compat != 0 { HEADER / 2 } else { HEADER } as u32;
    // SAFETY: the helper writes 56 bytes at most, for which there is space, and checks the address.
    if unsafe { bpf_probe_read_user(header.cast(), size, at as *const _) } < 0 {
        return 1;
    }
    if is_compat != 0 {
        widen_header(header);
    }
    let length = header.wrapping_add(HEADER);
    let from = (at + u64::from(size)) as *const _;
    // SAFETY: the helper writes 4 bytes, for which there is space, and checks the address.
    unsafe { bpf_probe_read_user(length.cast(), 4, from) };
    // SAFETY: the helper has written it, zeros where it could not read.
    let length = u64::from(unsafe { length.cast::<u32>().read_volatile() });
    let limit = if is_filled != 0 { length } else { u64::MAX };
    gathering.set(offset_of!(Space, left), limit);
    gathering.add(MESSAGE_HEAD as u64);
    add_bytes(header_word(header, 0), header_word(header, 1) as u32);
    let control_length = header_word(header, 5).min(u64::from(u16::MAX));
    add_bytes(header_word(header, 4), control_length as u32);
    let step = if is_compat != 0 { PART / 2 } else { PART } as u64;
    let mut nth = 0;
    while nth < MOST && u64::from(nth) < header_word(header, 3) {
        let part = header_word(header, 2) + u64::from(nth) * step;
        if add_part(part, is_compat) != 0 {
            break;
        }
        nth += 1;
    }
    let count = header.wrapping_add(HEADER + 4).cast::<u32>();
    // SAFETY: there is space for it.
    unsafe { count.write_volatile(nth) };
    0
}

/// Returns a word of a `struct msghdr`, by halves: it begins at a multiple of four bytes.
#[inline(always)]
fn header_word(header: *mut u8, nth: usize) -> u64 {
    let halves = header.wrapping_add(8 * nth).cast::<[u32; 2]>();
    // SAFETY: inside the struct, which was just read.
    u64_of(unsafe { halves.read_volatile() })
}

/// Makes words of 64 bits of those of 32 where they are, the last one first.
#[inline(always)]
fn widen_header(header: *mut u8) {
    let mut left = HEADER / 8;
    while left > 0 {
        left -= 1;
        // SAFETY: inside the struct, which was just read.
        let word = unsafe { header.wrapping_add(4 * left).cast::<u32>().read_volatile() };
        let wide = header.wrapping_add(8 * left).cast::<[u32; 2]>();
        // SAFETY: there is space for twice as much.
        unsafe { wide.write_volatile(halves_of(u64::from(word))) };
    }
}

/// Returns a word of halves as they are in memory.
#[inline(always)]
fn u64_of([first, second]: [u32; 2]) -> u64 {
    if cfg!(target_endian = "little") {
        u64::from(first) | u64::from(second) << 32
    } else {
        u64::from(second) | u64::from(first) << 32
    }
}

/// Returns the halves of a word as they are in memory.
#[inline(always)]
fn halves_of(word: u64) -> [u32; 2] {
    let (low, high) = (word as u32, (word >> 32) as u32);
    if cfg!(target_endian = "little") {
        [low, high]
    } else {
        [high, low]
    }
}
