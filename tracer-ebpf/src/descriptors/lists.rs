//! Descriptors that are in memory of the program: in a list, in sets, in a message.

use aya_ebpf::helpers::generated::bpf_probe_read_user;

use tracer_common::kernel::descriptors::{LISTED, MOST_LISTED};

use super::describe;

/// Words of a set that are looked at: as many descriptors as C libraries have in one.
const SET_WORDS: u32 = 1024 / u64::BITS;

/// Control messages that are looked at.
const MOST_MESSAGES: u32 = 8;

/// Adds what the descriptors are in a list of the program that has so many entries of so many
/// bytes.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn describe_list(address: u64, bytes: u64, count: u64) -> i32 {
    if address == 0 {
        return 0;
    }
    let mut nth = 0;
    while nth < MOST_LISTED && u64::from(nth) < count {
        let Some(descriptor) = integer(address + u64::from(nth) * bytes) else {
            return 0;
        };
        describe(u32::from(LISTED) + nth, descriptor);
        nth += 1;
    }
    0
}

/// Adds what those are that are in any of three sets, of the first so many descriptors.
#[inline(always)]
pub fn describe_sets(count: u64, first: u64, second: u64, third: u64) {
    #[expect(clippy::cast_possible_truncation, reason = "the argument is an int")]
    let count = u64::from(count as u32);
    let (mut word, mut done) = (0, 0);
    while word < SET_WORDS {
        let base = word * u64::BITS;
        if u64::from(base) >= count || done >= MOST_LISTED {
            break;
        }
        let left = count - u64::from(base);
        done += describe_word(first, second, third, base | done << 16, left);
        word += 1;
    }
}

/// Adds what those are of one word of the sets that begins at a descriptor, of which so many are
/// left: how many. The upper half of `at` says how many were added before.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn describe_word(first: u64, second: u64, third: u64, at: u32, left: u64) -> u32 {
    let (base, before) = (at & 0xffff, at >> 16);
    let offset = u64::from(base / 8);
    let mut bits = word(first, offset) | word(second, offset) | word(third, offset);
    if left < 64 {
        bits &= (1 << (left & 63)) - 1;
    }
    let mut nth = 0;
    while nth < MOST_LISTED {
        if bits == 0 || nth + before >= MOST_LISTED {
            break;
        }
        describe(
            u32::from(LISTED) + before + nth,
            base + bits.trailing_zeros(),
        );
        bits &= bits - 1;
        nth += 1;
    }
    nth
}

/// Reads a word of a set; zero where there is none.
#[inline(always)]
fn word(set: u64, offset: u64) -> u64 {
    let mut word = 0_u64;
    if set != 0 {
        let at = (set + offset) as *const _;
        // SAFETY: the helper writes at most the 8 bytes of `word`, and checks the address. Where it
        // fails, it writes zeros.
        unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, at) };
    }
    word
}

/// Adds what those are that the message brings which a `struct msghdr` has.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn describe_sent(message: u64, is_compat: u32) -> i32 {
    const SOL_SOCKET: u32 = 1;
    const SCM_RIGHTS: u32 = 1;
    if message == 0 {
        return 0;
    }
    // Addresses and lengths have so many bytes; what is before them is as long in both.
    let (size, control) = if is_compat != 0 { (4, 16) } else { (8, 32) };
    let (Some(mut at), Some(bytes)) = (
        pointer(message + control, is_compat),
        pointer(message + control + size, is_compat),
    ) else {
        return 0;
    };
    let end = at.wrapping_add(bytes);
    // A length, a level and a type.
    let head = size + 8;
    let mut nth = 0;
    while nth < MOST_MESSAGES && at.wrapping_add(head) <= end {
        let (Some(length), Some(level), Some(kind)) = (
            pointer(at, is_compat),
            integer(at + size),
            integer(at + size + 4),
        ) else {
            return 0;
        };
        if length < head {
            return 0;
        }
        if level == SOL_SOCKET && kind == SCM_RIGHTS {
            return describe_list(at + head, 4, (length - head) / 4);
        }
        at = at.wrapping_add((length + size - 1) & !(size - 1));
        nth += 1;
    }
    0
}

/// Reads an address or length of the program.
#[inline(always)]
fn pointer(at: u64, is_compat: u32) -> Option<u64> {
    let size = if is_compat != 0 { 4 } else { 8 };
    let mut value = 0_u64;
    // SAFETY: the helper writes at most the 8 bytes of `value`, and checks the address.
    let read = unsafe { bpf_probe_read_user((&raw mut value).cast(), size, at as *const _) };
    (read >= 0).then_some(value)
}

/// Reads an integer of the program.
#[inline(always)]
fn integer(at: u64) -> Option<u32> {
    let mut value = 0_u32;
    // SAFETY: the helper writes at most the 4 bytes of `value`, and checks the address.
    let read = unsafe { bpf_probe_read_user((&raw mut value).cast(), 4, at as *const _) };
    (read >= 0).then_some(value)
}
