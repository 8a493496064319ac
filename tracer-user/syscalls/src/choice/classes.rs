//! The classes of system calls, such as `%file`.
//!
//! `classes.txt` has for each class the calls that strace shows for it, by name, whichever machine
//! they are of, and classes that are part of it. A test compares it with strace.

use super::set::SyscallSet;

const CLASSES: &str = include_str!("classes.txt");

/// Deepest nesting of classes within classes, and more than that.
const DEPTH: u32 = 4;

/// Returns the names of the classes.
pub fn names() -> impl Iterator<Item = &'static str> {
    CLASSES
        .split_whitespace()
        .filter_map(|word| word.strip_suffix(':'))
}

/// Returns the calls of a class; `None` where no class has this name, `%` included.
pub fn members(class: &str) -> Option<SyscallSet> {
    members_within(class, DEPTH)
}

fn members_within(class: &str, depth: u32) -> Option<SyscallSet> {
    let mut words = CLASSES.split_whitespace();
    words.find(|word| word.strip_suffix(':') == Some(class))?;
    let mut set = SyscallSet::none();
    for word in words.take_while(|word| !word.ends_with(':')) {
        if word.starts_with('%') {
            let part = members_within(word, depth.checked_sub(1)?)?;
            set = set.with(&part);
        } else {
            // Calls of other machines have no entry in the tables of this one.
            set.add_name(word);
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_calls_and_those_within_it_are_classes() {
        for class in names() {
            let members = members(class).unwrap();
            assert!(!members.is_empty(), "{class}");
        }
        assert_eq!(members("%net"), members("%network"));
        assert_eq!(members("file"), None);
        assert_eq!(members("%"), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn names_of_no_call_are_those_of_other_machines() {
        let words = CLASSES.split_whitespace();
        let names = words.filter(|word| !word.starts_with('%'));
        let mut strange: Vec<_> = names
            .filter(|name| !SyscallSet::none().add_name(name))
            .collect();
        strange.sort_unstable();
        strange.dedup();
        assert_eq!(
            strange,
            ["arm_fadvise64_64", "arm_sync_file_range", "fstatat"]
        );
    }
}
