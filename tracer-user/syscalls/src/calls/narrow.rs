//! Structs of 32-bit programs, as they are in those of 64 bits. The table has their members.

/// Layout of a struct in 32-bit programs. Integers of 64 bits are aligned as on i386.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// Layout of 64-bit programs.
    Same,
    /// Layout with these members.
    Layout(&'static [Member]),
}

/// A member of a struct: its form in 32-bit programs, and in those of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// Bits that are the same in both.
    Short,
    /// 32 bits that are the same in both.
    Int,
    /// 64 bits that are the same in both.
    Quad,
    /// A signed integer of 32 bits, and of 64.
    Long,
    /// An address or an unsigned integer of 32 bits, and of 64.
    Word,
    /// An address or an unsigned integer as `Word`, of which the greatest means that there is no
    /// limit.
    Limit,
    /// This count of bytes, which only 32-bit programs have.
    Skip(usize),
    /// This count of bytes, which only 64-bit programs have.
    Gap(usize),
}

use Member::{Gap, Int, Limit, Long, Quad, Short, Skip, Word};

/// Returns the bytes of it in 32-bit programs.
pub fn size(layout: &[Member]) -> usize {
    layout.iter().map(|member| narrow_bytes(*member)).sum()
}

fn narrow_bytes(member: Member) -> usize {
    match member {
        Short => 2,
        Int | Long | Word | Limit => 4,
        Quad => 8,
        Skip(bytes) => bytes,
        Gap(_) => 0,
    }
}

/// Widens a struct to that of a 64-bit program with the same values; `None` where there is too
/// little. A last member that is not there at all may lack.
pub fn widen(layout: &[Member], untrusted: &[u8]) -> Option<Vec<u8>> {
    let mut wide = Vec::new();
    let mut rest = untrusted;
    for member in layout {
        let (narrow, behind) = match rest.split_at_checked(narrow_bytes(*member)) {
            Some(parts) => parts,
            None if rest.is_empty() => break,
            None => return None,
        };
        rest = behind;
        let word = || narrow.first_chunk().map(|word| u32::from_ne_bytes(*word));
        match member {
            Short | Int | Quad => {
                let bytes = narrow.len();
                wide.resize(wide.len().next_multiple_of(bytes), 0);
                wide.extend_from_slice(narrow);
            }
            Long => push_long(&mut wide, i64::from(word()?.cast_signed()).cast_unsigned()),
            Word => push_long(&mut wide, word()?.into()),
            Limit => push_long(
                &mut wide,
                match word()? {
                    u32::MAX => u64::MAX,
                    word => word.into(),
                },
            ),
            Skip(_) => {}
            Gap(bytes) => wide.resize(wide.len() + bytes, 0),
        }
    }
    wide.resize(wide.len().next_multiple_of(8), 0);
    Some(wide)
}

fn push_long(wide: &mut Vec<u8>, value: u64) {
    wide.resize(wide.len().next_multiple_of(8), 0);
    wide.extend_from_slice(&value.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;
    use crate::table::structure;

    #[test]
    fn each_struct_is_as_long_as_that_of_64_bits() {
        for (kind, bytes) in [
            ("timespec", size_of::<libc::timespec>()),
            ("itimerspec", size_of::<libc::itimerspec>()),
            ("rlimit", size_of::<libc::rlimit>()),
            ("rusage", 144),
            ("sysinfo", 112),
            ("sigaction", 32),
            ("sigstack", size_of::<libc::stack_t>()),
            ("flock", size_of::<libc::flock>()),
            ("stat", size_of::<libc::stat>()),
        ] {
            let Narrow::Layout(layout) = structure(kind).unwrap().narrow else {
                panic!("{kind}");
            };
            let wide = widen(layout, &vec![1; size(layout)]).unwrap();
            assert_eq!(wide.len(), bytes, "{kind}");
            assert_eq!(widen(layout, &[1; 3]), None);
        }
    }

    #[test]
    fn values_stay_the_same() {
        let narrow = [(-1_i32).to_ne_bytes(), 7_i32.to_ne_bytes()].concat();
        let wide = [(-1_i64).to_ne_bytes(), 7_i64.to_ne_bytes()].concat();
        assert_eq!(widen(&[Long, Long], &narrow), Some(wide));
        let unlimited = u64::MAX.to_ne_bytes().to_vec();
        assert_eq!(widen(&[Limit], &[0xff; 4]), Some(unlimited));
    }
}
