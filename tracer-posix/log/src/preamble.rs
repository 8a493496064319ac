//! Preamble of a packet, before its events: the user event types that they use, and the events lost
//! so far.

use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT, STREAM_EVENT_ID_LIMIT};

use super::losses::{self, LossCounts};
use super::varint::{self, Cursor};
use tracer_engine::EventTypes;

/// Returns the most bytes of a preamble whose definitions take `definitions` bytes.
pub(super) const fn max_bytes(definitions: usize) -> usize {
    // The number of types fits into three bytes.
    3 + definitions + losses::MAX_BYTES
}

/// Returns the most bytes that the definition of a type named `name` takes.
pub(super) fn max_definition_bytes(name: &[u8]) -> usize {
    // The identifier, which is below STREAM_EVENT_ID_LIMIT, and the length.
    3 + varint::MAX_BYTES + name.len()
}

/// The definitions of event types, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Definitions {
    count: u64,
    bytes: Vec<u8>,
}

impl Definitions {
    /// Adds a type.
    pub fn add(&mut self, id: EventTypeId, name: &[u8]) {
        varint::put(&mut self.bytes, u64::from(id.0));
        varint::put(&mut self.bytes, name.len() as u64);
        self.bytes.extend_from_slice(name);
        self.count += 1;
    }

    /// Returns the number of bytes that they take.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes themselves, without the count.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all of them and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }
}

/// Appends a preamble.
pub(super) fn put(bytes: &mut Vec<u8>, definitions: &Definitions, losses: &LossCounts) {
    varint::put(bytes, definitions.count);
    bytes.extend_from_slice(&definitions.bytes);
    losses.put(bytes);
}

/// Reads a preamble, and adds the types that it defines to `types`. Returns `None`, and leaves
/// `types` as it was, if the bytes are no preamble.
///
/// Bytes after the losses are left for later versions.
pub(super) fn read(untrusted: &[u8], types: &mut EventTypes) -> Option<LossCounts> {
    let mut cursor = Cursor::new(untrusted, 0);
    let count = cursor.varint()?;
    let start = cursor.position();
    for _ in 0..count {
        let (id, name) = definition(&mut cursor)?;
        if !can_be_defined(types, id, name) {
            return None;
        }
    }
    let losses = LossCounts::read(&mut cursor)?;
    let mut cursor = Cursor::new(untrusted, start);
    for _ in 0..count {
        let (id, name) = definition(&mut cursor)?;
        if types.name(id).is_none() {
            types.define_user(name, Some(id));
        }
    }
    Some(losses)
}

/// Returns the next definition.
pub(super) fn definition<'a>(cursor: &mut Cursor<'a>) -> Option<(EventTypeId, &'a [u8])> {
    let id = EventTypeId(cursor.varint32()?);
    Some((id, cursor.counted_bytes()?))
}

/// Tells whether a definition is new, or repeats a known one: names and identifiers are one to one.
pub(super) fn can_be_defined(types: &EventTypes, id: EventTypeId, name: &[u8]) -> bool {
    let is_named_user_type = id.0 > FIRST_USER_EVENT && id.0 < STREAM_EVENT_ID_LIMIT;
    let id_fits = types.name(id).is_none_or(|known| known == name);
    let name_fits = types.id(name).is_none_or(|known| known == id);
    is_named_user_type && id_fits && name_fits
}

const _: () = assert!(STREAM_EVENT_ID_LIMIT < 1 << 21);

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: EventTypeId = EventTypeId(FIRST_USER_EVENT + 1);
    const SECOND: EventTypeId = EventTypeId(FIRST_USER_EVENT + 2);

    fn preamble(types: &[(EventTypeId, &str)]) -> Vec<u8> {
        let mut definitions = Definitions::default();
        for (id, name) in types {
            definitions.add(*id, name.as_bytes());
        }
        let losses = LossCounts {
            discarded: 3,
            ..LossCounts::default()
        };
        let mut bytes = Vec::new();
        put(&mut bytes, &definitions, &losses);
        assert!(bytes.len() <= max_bytes(definitions.len()));
        bytes
    }

    #[test]
    fn types_and_losses_come_back() {
        let mut types = EventTypes::default();

        let losses = read(&preamble(&[(SECOND, "two"), (FIRST, "one")]), &mut types).unwrap();

        assert_eq!(losses.discarded, 3);
        assert_eq!(types.name(FIRST), Some(&b"one"[..]));
        assert_eq!(types.name(SECOND), Some(&b"two"[..]));
    }

    #[test]
    fn a_type_may_be_defined_in_many_packets_but_always_alike() {
        let mut types = EventTypes::default();
        read(&preamble(&[(FIRST, "one")]), &mut types).unwrap();

        assert!(read(&preamble(&[(FIRST, "one"), (SECOND, "two")]), &mut types).is_some());
        assert_eq!(read(&preamble(&[(FIRST, "other")]), &mut types), None);
        assert_eq!(
            read(&preamble(&[(EventTypeId(300), "one")]), &mut types),
            None
        );
    }

    #[test]
    fn a_system_type_cannot_be_defined() {
        let mut types = EventTypes::default();

        assert_eq!(
            read(&preamble(&[(EventTypeId::FORK, "fork")]), &mut types),
            None
        );
        assert_eq!(
            read(
                &preamble(&[(EventTypeId(STREAM_EVENT_ID_LIMIT), "x")]),
                &mut types
            ),
            None
        );
    }

    #[test]
    fn a_preamble_that_is_truncated_defines_nothing() {
        let whole = preamble(&[(FIRST, "one"), (SECOND, "two")]);
        // An earlier version ended with the counts.
        let before = whole.len() - 8;
        for length in (0..whole.len()).filter(|length| *length != before) {
            let mut types = EventTypes::default();

            assert_eq!(read(&whole[..length], &mut types), None, "{length}");
            assert_eq!(types.name(FIRST), None);
        }
    }

    #[test]
    fn what_a_later_version_adds_is_skipped() {
        let mut longer = preamble(&[(FIRST, "one")]);
        longer.extend_from_slice(b"something new");

        assert!(read(&longer, &mut EventTypes::default()).is_some());
    }
}
