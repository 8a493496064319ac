//! Texts, one after the other, and names that many rows have.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};
use tracer_text::escape::push_for_people;

/// Number of names after which a new dictionary is begun with the next batch.
const MOST_NAMES: usize = 65_536;

/// ValuePlace of a value in the bytes of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuePlace {
    /// Offset of its first byte.
    pub start: u32,
    /// Number of its bytes.
    pub length: u32,
}

/// Values of text or bytes. Values that are the same may share their bytes.
#[derive(Clone, Debug, Default)]
pub struct TextValues {
    /// Bytes of all values.
    pub bytes: Vec<u8>,
    /// ValuePlace of each value in these.
    pub places: Vec<ValuePlace>,
}

impl TextValues {
    /// Returns space for as many values and bytes as `before` has.
    pub(crate) fn as_large_as(before: &Self) -> Self {
        Self {
            // Somewhat more, so that the next ones fit too.
            bytes: Vec::with_capacity(before.bytes.len() + before.bytes.len() / 16),
            places: Vec::with_capacity(before.places.len()),
        }
    }

    /// Adds the value that `write` appends.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.end_value(before);
    }

    /// Ends the value that begins at `before`.
    pub(crate) fn end_value(&mut self, before: usize) {
        let place = self.place_from(before);
        self.places.push(place);
    }

    /// Adds bytes that are no value yet, and returns their place.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> ValuePlace {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.place_from(before)
    }

    /// Returns the place of the bytes from `before` to the end.
    fn place_from(&mut self, before: usize) -> ValuePlace {
        let start = u32::try_from(before);
        let length = u32::try_from(self.bytes.len() - before);
        match (start, length) {
            (Ok(start), Ok(length)) => ValuePlace { start, length },
            // A batch is closed long before.
            _ => {
                self.bytes.truncate(before);
                ValuePlace::default()
            }
        }
    }

    /// Adds values without bytes until there are so many.
    pub(crate) fn resize(&mut self, count: usize) {
        self.places.resize(count, ValuePlace::default());
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns a value; empty beyond the last.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        self.at(self.places.get(index).copied().unwrap_or_default())
    }

    /// Returns the bytes at a place.
    #[must_use]
    pub fn at(&self, place: ValuePlace) -> &[u8] {
        let [start, length] =
            [place.start, place.length].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let end = start.saturating_add(length);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// Tells whether two names are the same. Byte by byte: names are short and have just been copied,
/// and `memcmp` would wait until all of a copy is in the cache, which took a sixth of the whole
/// time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other)
}

/// Dictionary of names: each has a number. Names of any bytes are in it as harmless text.
#[derive(Debug, Default)]
pub struct NameDictionary {
    known: HashMap<Box<[u8]>, i32>,
    /// The name that was asked for last.
    last: Option<(Box<[u8]>, i32)>,
    /// Numbers of names that have a key, by that.
    keyed: Vec<Option<i32>>,
    texts: Arc<TextValues>,
}

/// Keys that are remembered.
const MOST_KEYS: usize = 4096;

impl NameDictionary {
    /// Returns the number of a name.
    pub(crate) fn number(&mut self, name: &[u8]) -> i32 {
        if let Some((last, number)) = &self.last
            && is_same(last, name)
        {
            return *number;
        }
        let number = match self.known.get(name) {
            Some(number) => *number,
            None => {
                let number = i32::try_from(self.texts.count()).unwrap_or(i32::MAX);
                Arc::make_mut(&mut self.texts).push(|out| push_for_people(out, name));
                self.known.insert(name.into(), number);
                number
            }
        };
        match &mut self.last {
            // Names are short, and most as long as the one before.
            Some((last, of)) if last.len() == name.len() => {
                last.copy_from_slice(name);
                *of = number;
            }
            last => *last = Some((name.into(), number)),
        }
        number
    }

    /// Returns the number of the name that `key` has for good.
    pub(crate) fn number_of_key(&mut self, key: u32, name: &[u8]) -> i32 {
        let index = usize::try_from(key).unwrap_or(usize::MAX);
        if let Some(Some(number)) = self.keyed.get(index) {
            return *number;
        }
        let number = self.number(name);
        if index < MOST_KEYS {
            if self.keyed.len() <= index {
                self.keyed.resize(index + 1, None);
            }
            if let Some(slot) = self.keyed.get_mut(index) {
                *slot = Some(number);
            }
        }
        number
    }

    /// Returns the names, by number.
    #[must_use]
    pub fn texts(&self) -> &Arc<TextValues> {
        &self.texts
    }

    /// Takes the names for the next batch: those so far, unless they are many.
    pub(crate) fn next(&mut self) -> Self {
        if self.texts.count() >= MOST_NAMES {
            return Self::default();
        }
        Self {
            texts: Arc::clone(&self.texts),
            known: std::mem::replace(&mut self.known, HashMap::new()),
            last: self.last.take(),
            keyed: std::mem::take(&mut self.keyed),
        }
    }
}
