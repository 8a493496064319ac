//! The classes of system calls, such as `%file`.
//!
//! The table has for each class the calls that strace shows for it, by name, whichever machine they
//! are of, and classes that are part of it. A test compares it with strace.

use super::set::SyscallSet;
use crate::table;

/// Deepest nesting of classes within classes, and more than that.
const DEPTH: u32 = 4;

/// Returns the names of the classes.
pub fn names() -> impl Iterator<Item = &'static str> {
    table::classes().iter().map(|class| class.name)
}

/// Returns the calls of a class; `None` where no class has this name, `%` included.
pub fn members(class: &str) -> Option<SyscallSet> {
    members_within(class, DEPTH)
}

fn members_within(class: &str, depth: u32) -> Option<SyscallSet> {
    let mut classes = table::classes().iter();
    let class = classes.find(|known| known.name == class)?;
    let mut set = SyscallSet::none();
    for part in class.parts {
        let part = members_within(part, depth.checked_sub(1)?)?;
        set = set.with(&part);
    }
    for name in class.calls {
        // Calls of other machines have no entry in the tables of this one.
        set.add_name(name);
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
        let names = table::classes()
            .iter()
            .flat_map(|class| class.calls.iter().copied());
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
