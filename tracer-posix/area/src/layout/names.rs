//! The names of an area's user event types: one table for the whole family of processes, in which
//! equal names have one number, whichever process has opened them.
//!
//! A process hands out identifiers of its own ([`own_types`](crate::emit::own_types)); the numbers
//! are what records and filters have. The first numbers have [identifiers](fixed_id) that all
//! processes of the family use, so that they differ where names do.
//!
//! The entries are filled in order and never emptied: a record that was not read yet may be of any
//! of them. An entry is written first, and comes into the list of its bucket after that, by one
//! store. So no thread ever waits for another, and a thread that is killed, or interrupted by a
//! handler that opens the same name, leaves an entry that is not used, and nothing else.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use tracer_common::area::{NAME_BUCKETS, NAME_SLOTS, NameEntry, name_state, type_number};
use tracer_common::event_type::{
    EVENT_ID_LIMIT, EventTypeId, FIRST_USER_EVENT, TRACE_EVENT_NAME_MAX, TRACE_USER_EVENT_MAX,
};

use super::mapping::Parts;
use super::overcommit;

/// The name is longer than `{TRACE_EVENT_NAME_MAX}` (`ENAMETOOLONG`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event name of {length} bytes, and at most {TRACE_EVENT_NAME_MAX} are possible")]
pub struct NameTooLong {
    /// Bytes of the name that was given.
    pub length: usize,
}

impl NameTooLong {
    /// Checks that the name is not too long.
    pub(crate) fn check(name: &[u8]) -> Result<(), Self> {
        let length = name.len();
        (length <= TRACE_EVENT_NAME_MAX)
            .then_some(())
            .ok_or(Self { length })
    }

    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        libc::ENAMETOOLONG
    }
}

/// Returns the number of `name`, if it is in the table.
pub(crate) fn find(parts: Parts<'_>, name: &[u8]) -> Option<u32> {
    match look(bucket(parts, name)?, parts, name) {
        Found::Entry(number) => Some(number),
        Found::End(_) | Found::Nonsense => None,
    }
}

/// Use of a name that is added.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// Processes have an identifier for it: the [fixed](fixed_id) one, or where it has none most
    /// likely this one, which is 0 where it is not known.
    Identified(EventTypeId),
    /// Processes use the number alone.
    Beside,
}

impl Use {
    fn first_id(self, number: u32) -> EventTypeId {
        match self {
            Self::Identified(other) => fixed_id(number).unwrap_or(other),
            Self::Beside => EventTypeId(0),
        }
    }
}

/// Returns the identifier of the type with this number in all processes of the family, but in one
/// that has given it away before. The first numbers have one: half as many as a process may have
/// types. The other identifiers are for types of larger numbers, first come first served.
pub(crate) fn fixed_id(number: u32) -> Option<EventTypeId> {
    let index = number.checked_sub(type_number::FIRST_NAMED)?;
    (index < FIXED_IDS).then(|| EventTypeId(FIRST_USER_EVENT + 1 + index))
}

/// Number of types that have a fixed identifier.
pub(crate) const FIXED_IDS: u32 = TRACE_USER_EVENT_MAX / 2 - 1;

/// Returns the number of `name`, which is not longer than a name may be. A name that is not in the
/// table is added. Where no entry is left, returns `None` and counts that.
pub(crate) fn add(parts: Parts<'_>, name: &[u8], how: Use) -> Option<u32> {
    let added = try_to_add(parts, name, how);
    if added.is_none() {
        parts.header().names_refused.fetch_add(1, Relaxed);
    }
    added
}

fn try_to_add(parts: Parts<'_>, name: &[u8], how: Use) -> Option<u32> {
    let mut link = bucket(parts, name)?;
    let mut mine = None;
    // Each round that adds nothing passes an entry that another thread has added.
    for _ in 0..=NAME_SLOTS {
        match look(link, parts, name) {
            Found::Entry(number) => return Some(number),
            Found::Nonsense => return None,
            Found::End(end) => {
                let index = match mine {
                    Some(index) => index,
                    None => *mine.insert(write(parts, name, how)?),
                };
                let ours = index.checked_add(1)?;
                if end.compare_exchange(0, ours, AcqRel, Acquire).is_ok() {
                    return number_of(index);
                }
                link = end;
            }
        }
    }
    None
}

/// Returns the name with this number, or `None` where there is none.
pub(crate) fn name(parts: Parts<'_>, number: u32) -> Option<Vec<u8>> {
    Some(bytes_of(parts, number)?.collect())
}

/// Returns the bytes of the name with this number, one by one, without allocating memory.
pub(crate) fn bytes_of(
    parts: Parts<'_>,
    number: u32,
) -> Option<impl ExactSizeIterator<Item = u8> + Clone> {
    ready(parts, number).map(bytes)
}

/// Returns the identifier of the type with this number in the process that opened it first.
pub(crate) fn first_id(parts: Parts<'_>, number: u32) -> Option<EventTypeId> {
    let untrusted = ready(parts, number)?.first_id.load(Relaxed);
    (FIRST_USER_EVENT + 1..EVENT_ID_LIMIT)
        .contains(&untrusted)
        .then_some(EventTypeId(untrusted))
}

/// Returns the numbers of all names but the first `first` ones, in order.
pub(crate) fn numbers_from(parts: Parts<'_>, first: usize) -> impl Iterator<Item = u32> {
    let untrusted_count = parts.header().name_count.load(Acquire);
    let most = u32::try_from(NAME_SLOTS).unwrap_or(0);
    let first = u32::try_from(first).unwrap_or(u32::MAX);
    (first..untrusted_count.min(most)).filter_map(number_of)
}

/// Returns how often a name got no number because there was no entry left.
pub(crate) fn refused(parts: Parts<'_>) -> u64 {
    parts.header().names_refused.load(Relaxed).into()
}

fn number_of(index: u32) -> Option<u32> {
    index.checked_add(type_number::FIRST_NAMED)
}

fn entry(parts: Parts<'_>, number: u32) -> Option<&NameEntry> {
    let index = number.checked_sub(type_number::FIRST_NAMED)?;
    parts.name(usize::try_from(index).ok()?)
}

fn ready(parts: Parts<'_>, number: u32) -> Option<&NameEntry> {
    entry(parts, number).filter(|entry| entry.state.load(Acquire) == name_state::READY)
}

/// Result of looking for a name in a list.
enum Found<'a> {
    /// The name is there, with this number.
    Entry(u32),
    /// The name is not there. This is the link at the end of the list.
    End(&'a AtomicU32),
    /// The list has entries that this library never writes.
    Nonsense,
}

/// Looks for a name in the list that goes on at `link`.
fn look<'a>(mut link: &'a AtomicU32, parts: Parts<'a>, name: &[u8]) -> Found<'a> {
    for _ in 0..=NAME_SLOTS {
        let Some(index) = link.load(Acquire).checked_sub(1) else {
            return Found::End(link);
        };
        let Some((number, entry)) = number_of(index).and_then(|number| {
            let entry = ready(parts, number)?;
            Some((number, entry))
        }) else {
            return Found::Nonsense;
        };
        if bytes(entry).eq(name.iter().copied()) {
            return Found::Entry(number);
        }
        link = &entry.next;
    }
    Found::Nonsense
}

/// Takes an entry and writes it. Returns its index. The entry is in no list yet.
fn write(parts: Parts<'_>, name: &[u8], how: Use) -> Option<u32> {
    let count = &parts.header().name_count;
    let most = u32::try_from(NAME_SLOTS).ok()?;
    // A thread that finds no entry left does not count further.
    if count.load(Relaxed) >= most {
        return None;
    }
    let index = count.fetch_add(1, AcqRel);
    let entry = parts.name(usize::try_from(index).ok()?)?;
    if !is_provided(parts, entry) {
        return None;
    }
    for (to, byte) in entry.bytes.iter().zip(name) {
        to.store(*byte, Relaxed);
    }
    entry.length.store(u32::try_from(name.len()).ok()?, Relaxed);
    let id = how.first_id(number_of(index)?);
    entry.first_id.store(id.0, Relaxed);
    entry.next.store(0, Relaxed);
    entry.state.store(name_state::READY, Release);
    Some(index)
}

fn bytes(entry: &NameEntry) -> impl ExactSizeIterator<Item = u8> + Clone {
    let untrusted_length = usize::try_from(entry.length.load(Relaxed)).unwrap_or(usize::MAX);
    entry
        .bytes
        .iter()
        .take(untrusted_length)
        .map(|byte| byte.load(Relaxed))
}

/// Returns the beginning of the list that a name belongs in (FNV-1a). `None` where there is no
/// memory.
fn bucket<'a>(parts: Parts<'a>, name: &[u8]) -> Option<&'a AtomicU32> {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let index = usize::try_from(hash ^ hash >> 32).ok()? % NAME_BUCKETS;
    let bucket = parts.name_bucket(index)?;
    is_provided(parts, bucket).then_some(bucket)
}

/// Tells whether there is memory for a part that is smaller than a page.
fn is_provided<T>(parts: Parts<'_>, part: &T) -> bool {
    const PAGE: usize = 4096;
    let part = NonNull::from(part).cast::<u8>();
    let base = parts.base();
    let start = (part.addr().get() - base.addr().get()) / PAGE * PAGE;
    let end = part.addr().get() - base.addr().get() + size_of::<T>();
    // SAFETY: within the fixed parts, which begin on a page.
    let page = unsafe { base.add(start) };
    overcommit::provide_if_strict(parts, page, end - start)
}
