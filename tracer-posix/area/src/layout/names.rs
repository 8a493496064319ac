//! The event-name table of an area: one for the whole family, so that equal names have equal
//! identifiers in all of its processes.
//!
//! Entries are filled in order and never emptied. Whoever adds a name looks at each entry up to
//! the first free one, and waits for one that is being written: so no name is there twice.

use std::ffi::c_int;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use tracer_common::area::{NAME_SLOTS, NameEntry, name_state};
use tracer_common::event_type::{
    EventTypeId, FIRST_USER_EVENT, TRACE_EVENT_NAME_MAX, predefined_event_type,
};

use super::mapping::Parts;
use crate::system::pids::{own_pid, process_exists};

/// How long this process waits for others to finish their entries, all of them and all names
/// together, before they are taken for stuck: a hostile process may claim every entry and write
/// none. Writing one takes a microsecond.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How much of it is used up, in nanoseconds.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// The name is longer than `{TRACE_EVENT_NAME_MAX}` (`ENAMETOOLONG`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event name of {length} bytes, and at most {TRACE_EVENT_NAME_MAX} are possible")]
pub struct NameTooLong {
    /// Bytes of the name that was given.
    pub length: usize,
}

impl NameTooLong {
    /// The error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        libc::ENAMETOOLONG
    }
}

/// The identifier of `name`; a new one where it is not in the table yet. A predefined name gives
/// the predefined identifier, and a full table `POSIX_TRACE_UNNAMED_USEREVENT`.
pub(crate) fn define(parts: Parts<'_>, name: &[u8]) -> Result<EventTypeId, NameTooLong> {
    if name.len() > TRACE_EVENT_NAME_MAX {
        return Err(NameTooLong { length: name.len() });
    }
    if let Some(id) = predefined_event_type(name) {
        return Ok(id);
    }
    for index in 0..NAME_SLOTS {
        let Some(entry) = parts.name(index) else {
            break;
        };
        if claim(entry) {
            write(entry, name);
            raise_count(parts, index + 1);
            return Ok(identifier(index));
        }
        match settled(entry, name) {
            Settled::Same => return Ok(identifier(index)),
            Settled::Taken => {
                raise_count(parts, index + 1);
                return Ok(identifier(index));
            }
            Settled::Other => {}
        }
    }
    Ok(EventTypeId::UNNAMED_USEREVENT)
}

/// The name with this identifier, as its writer left it, or `None` where there is none.
pub(crate) fn name(parts: Parts<'_>, id: EventTypeId) -> Option<Vec<u8>> {
    Some(bytes_of(parts, id)?.collect())
}

/// The same, byte by byte: without memory of its own.
fn bytes_of(
    parts: Parts<'_>,
    id: EventTypeId,
) -> Option<impl ExactSizeIterator<Item = u8> + Clone> {
    let index = usize::try_from(id.0.checked_sub(FIRST_USER_EVENT + 1)?).ok()?;
    let entry = parts.name(index)?;
    (entry.state.load(Acquire) == name_state::READY).then(|| bytes(entry))
}

/// The type that is called as the type `id`, and then `word`; a new one where there is none. A type
/// without a name is itself. A name that is too long for that has the word in front, and is
/// truncated. Takes no memory: trace points call it.
pub(crate) fn define_border(parts: Parts<'_>, id: EventTypeId, word: &str) -> EventTypeId {
    let Some(name) = bytes_of(parts, id) else {
        return id;
    };
    let word = word.bytes();
    let space = std::iter::once(b' ');
    let mut whole = [0; TRACE_EVENT_NAME_MAX];
    let length = if name.len() + 1 + word.len() <= TRACE_EVENT_NAME_MAX {
        fill(&mut whole, name.chain(space).chain(word))
    } else {
        fill(&mut whole, word.chain(space).chain(name))
    };
    define(parts, whole.get(..length).unwrap_or_default()).unwrap_or(id)
}

/// Fills what there is space for: how much that is.
fn fill(space: &mut [u8], bytes: impl Iterator<Item = u8>) -> usize {
    let mut length = 0;
    for (to, byte) in space.iter_mut().zip(bytes) {
        *to = byte;
        length += 1;
    }
    length
}

/// Reports every name and its identifier.
pub(crate) fn for_each(parts: Parts<'_>, report: &mut dyn FnMut(&[u8], EventTypeId)) {
    let untrusted_count = parts.header().name_count.load(Acquire);
    let count = usize::try_from(untrusted_count).unwrap_or(usize::MAX);
    for id in (0..count.min(NAME_SLOTS)).map(identifier) {
        if let Some(name) = name(parts, id) {
            report(&name, id);
        }
    }
}

/// The identifier of entry `index`.
pub(super) fn identifier(index: usize) -> EventTypeId {
    let index = u32::try_from(index).unwrap_or(u32::MAX - FIRST_USER_EVENT - 1);
    EventTypeId(FIRST_USER_EVENT + 1 + index)
}

enum Settled {
    /// The entry has the name that was looked for.
    Same,
    /// The entry has another name.
    Other,
    /// Its writer is gone; the entry was taken over and has the name that was looked for now.
    Taken,
}

/// Waits until `entry` is written.
fn settled(entry: &NameEntry, wanted: &[u8]) -> Settled {
    let mut last_look = None;
    while entry.state.load(Acquire) != name_state::READY {
        let writer = entry.writer.load(Relaxed);
        let is_writer_gone = writer > 0 && !process_exists(writer);
        if is_writer_gone
            && entry
                .writer
                .compare_exchange(writer, own_pid(), Relaxed, Relaxed)
                .is_ok()
        {
            write(entry, wanted);
            return Settled::Taken;
        }
        let now = Instant::now();
        let since = now.saturating_duration_since(last_look.replace(now).unwrap_or(now));
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let waited = WAITED.fetch_add(since, Relaxed).saturating_add(since);
        if Duration::from_nanos(waited) > TIMEOUT {
            return Settled::Other;
        }
        std::thread::yield_now();
    }
    if bytes(entry).eq(wanted.iter().copied()) {
        Settled::Same
    } else {
        Settled::Other
    }
}

fn claim(entry: &NameEntry) -> bool {
    let is_claimed = entry
        .state
        .compare_exchange(name_state::FREE, name_state::CLAIMED, Acquire, Relaxed)
        .is_ok();
    if is_claimed {
        entry.writer.store(own_pid(), Relaxed);
    }
    is_claimed
}

fn write(entry: &NameEntry, name: &[u8]) {
    for (to, byte) in entry.bytes.iter().zip(name) {
        to.store(*byte, Relaxed);
    }
    // At most TRACE_EVENT_NAME_MAX: checked where the name came in.
    entry
        .length
        .store(u32::try_from(name.len()).unwrap_or(0), Relaxed);
    entry.state.store(name_state::READY, Release);
}

fn bytes(entry: &NameEntry) -> impl ExactSizeIterator<Item = u8> + Clone {
    let untrusted_length = usize::try_from(entry.length.load(Relaxed)).unwrap_or(usize::MAX);
    entry
        .bytes
        .iter()
        .take(untrusted_length)
        .map(|byte| byte.load(Relaxed))
}

fn raise_count(parts: Parts<'_>, count: usize) {
    parts
        .header()
        .name_count
        .fetch_max(u32::try_from(count).unwrap_or(0), Release);
}
