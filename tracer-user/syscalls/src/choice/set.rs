//! A set of system calls.

use tracer_common::kernel::syscalls;

use super::classes;
use crate::names::{Table, all_names, syscall_number};
use tracer_text::suggest;

/// A set of system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallSet {
    /// Bits as [`syscalls`] describes them: the table of the machine, and that for 32-bit programs.
    sets: [[u64; syscalls::WORDS]; 2],
}

/// Word that no system call has as its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no system call is called {name:?}{}", hint(name))]
pub struct UnknownSyscall {
    /// The name.
    pub name: String,
}

impl SyscallSet {
    /// Returns the set of every call, those without a name included.
    #[must_use]
    pub fn all() -> Self {
        Self {
            sets: [[u64::MAX; syscalls::WORDS]; 2],
        }
    }

    /// Returns the set of no call.
    #[must_use]
    pub fn none() -> Self {
        Self {
            sets: [[0; syscalls::WORDS]; 2],
        }
    }

    /// Returns the set with these bits, as [`words`](Self::words) returns them.
    #[must_use]
    pub fn from_words(sets: [[u64; syscalls::WORDS]; 2]) -> Self {
        Self { sets }
    }

    /// Returns the calls of these names, for programs of both kinds.
    ///
    /// # Errors
    ///
    /// A name is none of a system call.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownSyscall> {
        let mut set = Self::none();
        for name in names {
            if !set.add_name(name) {
                return Err(UnknownSyscall {
                    name: name.to_owned(),
                });
            }
        }
        Ok(set)
    }

    /// Adds the calls of a name. Returns whether there are any.
    pub(super) fn add_name(&mut self, name: &str) -> bool {
        let codes = [Table::Native, Table::Compat].map(|table| syscall_number(table, name));
        for (words, code) in self.sets.iter_mut().zip(codes) {
            let Some(code) = code else { continue };
            let (index, bit) = position(code);
            if let Some(word) = words.get_mut(index) {
                *word |= bit;
            }
        }
        codes != [None, None]
    }

    /// Returns the calls that are in this set or in the other.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        self.joined(other, |word, other| word | other)
    }

    /// Returns the calls that are in this set and not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.joined(other, |word, other| word & !other)
    }

    fn joined(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let mut set = self.clone();
        let words = set.sets.as_flattened_mut().iter_mut();
        for (word, other) in words.zip(other.sets.as_flattened()) {
            *word = join(*word, *other);
        }
        set
    }

    /// Tells whether a call is among them, by its system call number in a table.
    #[must_use]
    pub fn has(&self, table: Table, nr: i32) -> bool {
        let [native, compat] = &self.sets;
        let words = match table {
            Table::Native => native,
            Table::Compat => compat,
        };
        // Negative ones are among the others too.
        let (index, bit) = position(u32::try_from(nr).unwrap_or(syscalls::OTHERS));
        words.get(index).is_some_and(|word| word & bit != 0)
    }

    /// Takes the calls out of which `is_left` is not true, by their system call numbers in a table;
    /// those that share a bit are asked for together, without one.
    pub fn retain(&mut self, is_left: impl Fn(Table, Option<i32>) -> bool) {
        for (words, table) in self.sets.iter_mut().zip([Table::Native, Table::Compat]) {
            for code in 0..=syscalls::OTHERS {
                let (index, bit) = position(code);
                let Some(word) = words.get_mut(index) else {
                    continue;
                };
                let nr = (code < syscalls::OTHERS).then_some(code.cast_signed());
                if *word & bit != 0 && !is_left(table, nr) {
                    *word &= !bit;
                }
            }
        }
    }

    /// Tells whether it has no call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.as_flattened().iter().all(|word| *word == 0)
    }

    /// Returns the set as the map [`syscalls`] has it: for the machine's table, and for that of
    /// 32-bit programs.
    pub fn words(&self) -> &[[u64; syscalls::WORDS]; 2] {
        &self.sets
    }
}

/// Returns the word that a call is in, and its bit there.
fn position(code: u32) -> (usize, u64) {
    let bit = code.min(syscalls::OTHERS);
    ((bit / 64) as usize, 1 << (bit % 64))
}

/// Returns the end of the complaint: the name that may be meant, or where names are found.
fn hint(typed: &str) -> String {
    let class = format!("%{typed}");
    if classes::names().any(|name| name == class) {
        return format!("; is {class} meant?");
    }
    match suggest(typed, all_names()) {
        Some(name) => format!("; is {name} meant?"),
        None => " (`man 2 syscalls` lists them; all means all)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_chosen_by_name_in_both_tables() {
        let set = SyscallSet::of_names(["openat", "getpid"]).unwrap();
        let count = |words: &[u64]| words.iter().map(|word| word.count_ones()).sum::<u32>();

        assert_eq!(count(&set.words()[0]), 2);
        let nr = i32::try_from(libc::SYS_openat).unwrap();
        assert!(set.has(Table::Native, nr) && !set.has(Table::Native, nr + 1));
        if cfg!(target_arch = "x86_64") {
            assert!(set.has(Table::Compat, 295) && !set.has(Table::Compat, 257));
        }
    }

    #[test]
    fn calls_without_a_bit_of_their_own_are_in_all() {
        for nr in [-1, i32::MIN, 1023, 5000, i32::MAX] {
            assert!(SyscallSet::all().has(Table::Native, nr), "{nr}");
            assert!(!SyscallSet::none().has(Table::Compat, nr), "{nr}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_answered_with_what_may_be_meant() {
        let error = |name| SyscallSet::of_names([name]).unwrap_err().to_string();

        assert_eq!(
            error("opneat"),
            "no system call is called \"opneat\"; is openat meant?"
        );
        assert_eq!(
            error("file"),
            "no system call is called \"file\"; is %file meant?"
        );
        assert_eq!(
            error("frobnicate"),
            "no system call is called \"frobnicate\" (`man 2 syscalls` lists them; all means all)"
        );
        assert!(error("").starts_with("no system call is called \"\" ("));
    }
}
