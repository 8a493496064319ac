//! Reader of BTF, limited to what is needed here: the offsets of members, the arguments of
//! tracepoints, and the identifiers of variables, functions and structs.
//!
//! The bytes come from the kernel or from a file. Every offset and count is checked: damaged bytes
//! give an error or no answer, never a panic or an endless loop.

use std::ops::Range;

use super::containment::type_in_itself;
use super::raw::{Type, kind, read_type, read_u16, read_u32};

/// Reason why the bytes are not BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BtfError {
    /// Header that is truncated.
    #[error("{have} bytes are too few for a header")]
    HeaderTruncated {
        /// Number of bytes.
        have: usize,
    },
    /// The first bytes are not those of BTF in this machine's byte order.
    #[error("the magic is {found:#06x}")]
    Magic {
        /// The first two bytes, as a number.
        found: u16,
    },
    /// Section that reaches beyond the end.
    #[error("a section reaches beyond the end")]
    SectionTruncated,
    /// Type that reaches beyond the section of types.
    #[error("the type at byte {at} of its section is truncated")]
    TypeTruncated {
        /// Byte at which it begins.
        at: usize,
    },
    /// Type of an unknown kind, so that its size is not known either.
    #[error("the type at byte {at} of its section has the unknown kind {kind}")]
    UnknownKind {
        /// Byte at which it begins.
        at: usize,
        /// Its kind.
        kind: u8,
    },
    /// Type that contains itself: it would have no end.
    #[error("the type at byte {at} of its section contains itself")]
    ContainsItself {
        /// Byte at which it begins.
        at: usize,
    },
}

const MAGIC: u16 = 0xeb9f;

/// Depth to which anonymous structs, typedefs and modifiers are followed. In the kernel it is less
/// than 8.
const DEPTH_LIMIT: u32 = 32;

/// Identifies a type. Unique within one [`Btf`]; 0 is `void`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeId(pub(super) u32);

/// Kind of an argument, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Address.
    Pointer,
    /// Integer or truth value.
    Integer,
}

/// The types of one BTF file.
#[derive(Debug)]
pub struct Btf<'a> {
    pub(super) types: &'a [u8],
    pub(super) strings: &'a [u8],
    /// Beginning of each type; the type with identifier *n* is at *n* - 1.
    pub(super) starts: Vec<usize>,
}

/// Member of a struct or union.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// Offset from the beginning, in bits.
    bits: u32,
    /// Its type.
    of: TypeId,
    is_bit_field: bool,
}

impl<'a> Btf<'a> {
    /// Tells whether a file that begins with these bytes may be BTF of this machine.
    #[must_use]
    pub fn begins(untrusted: &[u8]) -> bool {
        read_u16(untrusted, 0) == Some(MAGIC)
    }

    /// Reads the header of `untrusted`, and finds where each type begins.
    ///
    /// # Errors
    ///
    /// See [`BtfError`].
    pub fn parse(untrusted: &'a [u8]) -> Result<Self, BtfError> {
        let truncated = BtfError::HeaderTruncated {
            have: untrusted.len(),
        };
        let magic = read_u16(untrusted, 0).ok_or(truncated)?;
        if magic != MAGIC {
            return Err(BtfError::Magic { found: magic });
        }
        let header_length = read_u32(untrusted, 4).ok_or(truncated)?;
        let section = |at: usize| -> Result<&'a [u8], BtfError> {
            let offset = read_u32(untrusted, at).ok_or(truncated)?;
            let length = read_u32(untrusted, at + 4).ok_or(truncated)?;
            section(untrusted, header_length, offset, length).ok_or(BtfError::SectionTruncated)
        };
        let (types, strings) = (section(8)?, section(16)?);
        let starts = type_starts(types)?;
        if let Some(at) = type_in_itself(types, &starts) {
            return Err(BtfError::ContainsItself { at });
        }
        Ok(Self {
            types,
            strings,
            starts,
        })
    }

    /// Returns the offset in bytes of a member of `struct_name`. `path` names the member, then a
    /// member of that one, and so on; anonymous structs and unions on the way are searched too.
    /// `None` where there is no such member or it is a bit field.
    #[must_use]
    pub fn member_offset(&self, struct_name: &str, path: &[&str]) -> Option<u32> {
        let mut id = self.find(kind::STRUCT, struct_name)?;
        let mut bits = 0_u32;
        for name in path {
            let member = self.member(id, name, &mut vec![false; self.starts.len()], 0)?;
            if member.is_bit_field {
                return None;
            }
            bits = bits.checked_add(member.bits)?;
            id = member.of;
        }
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Returns the offset in bits of the member `name` of `struct_name`, which is a bit field.
    #[must_use]
    pub fn bit_field(&self, struct_name: &str, name: &str) -> Option<u32> {
        let id = self.find(kind::STRUCT, struct_name)?;
        let member = self.member(id, name, &mut vec![false; self.starts.len()], 0)?;
        member.is_bit_field.then_some(member.bits)
    }

    /// Returns the number of the variable `name`, by which an eBPF program may name it.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<u32> {
        self.find(kind::VAR, name).map(|id| id.0)
    }

    /// Returns the offset of the variable `name` in its section.
    #[must_use]
    pub fn offset_of_variable(&self, name: &str) -> Option<u32> {
        let variable = self.variable(name)?;
        let sections = self.starts.iter();
        let sections = sections.filter_map(|start| read_type(self.types, *start));
        for section in sections.filter(|found| found.kind == kind::DATASEC) {
            for i in 0..section.length {
                // An entry has the variable, its offset, and its size.
                let at = section.rest.checked_add(i.checked_mul(12)?)?;
                if read_u32(self.types, at)? == variable {
                    return read_u32(self.types, at.checked_add(4)?);
                }
            }
        }
        None
    }

    /// Returns the number of the function `name`. An eBPF program that may call the function names
    /// it by this number.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<u32> {
        self.find(kind::FUNC, name).map(|id| id.0)
    }

    /// Returns the number of the struct `name`.
    #[must_use]
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find(kind::STRUCT, name).map(|id| id.0)
    }

    /// Returns the number of entries of the variable `name`, which is an array.
    #[must_use]
    pub fn entries_of_variable(&self, name: &str) -> Option<u32> {
        let variable = self.get(self.find(kind::VAR, name)?)?;
        let array = self.get(self.strip(TypeId(variable.size_or_type))?)?;
        // The types of the entries and of the index come before their count.
        let count = || read_u32(self.types, array.rest.checked_add(8)?);
        (array.kind == kind::ARRAY).then(count).flatten()
    }

    /// Returns the size of the struct `name`, in bytes.
    #[must_use]
    pub fn struct_bytes(&self, name: &str) -> Option<u32> {
        let id = self.find(kind::STRUCT, name)?;
        self.get(id).map(|found| found.size_or_type)
    }

    /// Tells whether the kernel has the helper `name` for eBPF programs. This holds for helpers
    /// that the kernel defines by its macro `BPF_CALL`, which is nearly all of them.
    #[must_use]
    pub fn has_helper(&self, name: &str) -> bool {
        self.find(kind::TYPEDEF, &format!("btf_{name}")).is_some()
    }

    /// Returns the arguments of the BTF tracepoint `name`, or `None` where the kernel has none.
    #[must_use]
    pub fn tracepoint_arguments(&self, name: &str) -> Option<Vec<ParameterKind>> {
        // typedef void (*btf_trace_NAME)(void *, ...): the first argument is the tracer's own.
        let typedef = self.find(kind::TYPEDEF, &format!("btf_trace_{name}"))?;
        let pointer = self.get(self.strip(typedef)?)?;
        if pointer.kind != kind::PTR {
            return None;
        }
        let prototype = self.get(TypeId(pointer.size_or_type))?;
        if prototype.kind != kind::FUNC_PROTO {
            return None;
        }
        (1..prototype.length)
            .map(|i| {
                let at = prototype.rest.checked_add(i.checked_mul(8)?)?;
                let id = read_u32(self.types, at.checked_add(4)?)?;
                let argument = self.get(self.strip(TypeId(id))?)?;
                Some(if argument.kind == kind::PTR {
                    ParameterKind::Pointer
                } else {
                    ParameterKind::Integer
                })
            })
            .collect()
    }

    /// Finds the member `name` of a struct or union.
    ///
    /// Each type is searched once, however often it is reached: a type that lacks the member the
    /// first time lacks it later too.
    fn member(
        &self,
        id: TypeId,
        name: &str,
        looked_through: &mut [bool],
        depth: u32,
    ) -> Option<Member> {
        let id = self.strip(id)?;
        let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
        if depth == DEPTH_LIMIT || std::mem::replace(looked_through.get_mut(index)?, true) {
            return None;
        }
        let owner = self.get(id)?;
        if owner.kind != kind::STRUCT && owner.kind != kind::UNION {
            return None;
        }
        for i in 0..owner.length {
            let at = owner.rest.checked_add(i.checked_mul(12)?)?;
            let member_name = read_u32(self.types, at)?;
            let member_type = TypeId(read_u32(self.types, at.checked_add(4)?)?);
            let encoded = read_u32(self.types, at.checked_add(8)?)?;
            let (offset, is_bit_field) = if owner.has_bit_fields {
                (encoded & 0x00ff_ffff, encoded >> 24 != 0)
            } else {
                (encoded, false)
            };
            if member_name == 0 {
                let inside = self.member(member_type, name, looked_through, depth + 1);
                if let Some(inner) = inside {
                    return Some(Member {
                        bits: offset.checked_add(inner.bits)?,
                        ..inner
                    });
                }
            } else if self.is_named(member_name, name) {
                return Some(Member {
                    bits: offset,
                    of: member_type,
                    is_bit_field,
                });
            }
        }
        None
    }

    /// Returns the type without typedefs and modifiers such as `const`.
    fn strip(&self, mut id: TypeId) -> Option<TypeId> {
        for _ in 0..DEPTH_LIMIT {
            let found = self.get(id)?;
            match found.kind {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = TypeId(found.size_or_type)
                }
                _ => return Some(id),
            }
        }
        None
    }

    fn find(&self, kind: u8, name: &str) -> Option<TypeId> {
        (1..)
            .map(TypeId)
            .zip(&self.starts)
            .find(|(_, start)| {
                read_type(self.types, **start)
                    .is_some_and(|found| found.kind == kind && self.is_named(found.name, name))
            })
            .map(|(id, _)| id)
    }

    pub(super) fn get(&self, id: TypeId) -> Option<Type> {
        let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
        read_type(self.types, *self.starts.get(index)?)
    }

    fn is_named(&self, offset: u32, name: &str) -> bool {
        usize::try_from(offset)
            .ok()
            .and_then(|offset| self.strings.get(offset..))
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn section(bytes: &[u8], header_length: u32, offset: u32, length: u32) -> Option<&[u8]> {
    let start = header_length.checked_add(offset)?;
    let range: Range<usize> =
        usize::try_from(start).ok()?..usize::try_from(start.checked_add(length)?).ok()?;
    bytes.get(range)
}

fn type_starts(types: &[u8]) -> Result<Vec<usize>, BtfError> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < types.len() {
        let truncated = BtfError::TypeTruncated { at };
        let found = read_type(types, at).ok_or(truncated)?;
        let rest_length = match found.kind {
            kind::PTR
            | kind::FWD
            | kind::TYPEDEF
            | kind::VOLATILE
            | kind::CONST
            | kind::RESTRICT
            | kind::FUNC
            | kind::FLOAT
            | kind::TYPE_TAG => 0,
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::ENUM | kind::FUNC_PROTO => found.length * 8,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => found.length * 12,
            kind => return Err(BtfError::UnknownKind { at, kind }),
        };
        let end = found.rest + rest_length;
        if end > types.len() {
            return Err(truncated);
        }
        starts.push(at);
        at = end;
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds BTF type by type.
    #[derive(Default)]
    struct Builder {
        types: Vec<u8>,
        strings: Vec<u8>,
        count: u32,
    }

    impl Builder {
        fn new() -> Self {
            Self {
                strings: vec![0],
                ..Self::default()
            }
        }

        fn name(&mut self, name: &str) -> u32 {
            if name.is_empty() {
                return 0;
            }
            let at = u32::try_from(self.strings.len()).unwrap();
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            at
        }

        fn words(&mut self, words: &[u32]) {
            for word in words {
                self.types.extend_from_slice(&word.to_ne_bytes());
            }
        }

        fn add(&mut self, kind: u8, name: &str, length: u32, last: u32) -> u32 {
            let name = self.name(name);
            self.words(&[name, u32::from(kind) << 24 | length, last]);
            self.count += 1;
            self.count
        }

        fn int(&mut self) -> u32 {
            let id = self.add(kind::INT, "int", 0, 4);
            self.words(&[32]);
            id
        }

        /// Adds a struct or union. Each of `members` is a name, a type and an offset in bits.
        fn aggregate(&mut self, kind: u8, name: &str, members: &[(&str, u32, u32)]) -> u32 {
            let id = self.add(kind, name, u32::try_from(members.len()).unwrap(), 64);
            for (name, of, offset) in members {
                let name = self.name(name);
                self.words(&[name, *of, *offset]);
            }
            id
        }

        fn build(&self) -> Vec<u8> {
            let types = u32::try_from(self.types.len()).unwrap();
            let strings = u32::try_from(self.strings.len()).unwrap();
            let mut bytes = MAGIC.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[1, 0]);
            for word in [24, 0, types, types, strings] {
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
            bytes.extend_from_slice(&self.types);
            bytes.extend_from_slice(&self.strings);
            bytes
        }
    }

    fn task_struct() -> Vec<u8> {
        let mut builder = Builder::new();
        let int = builder.int();
        let inner = builder.aggregate(kind::STRUCT, "", &[("a", int, 0), ("deep", int, 32)]);
        let anonymous = builder.aggregate(kind::UNION, "", &[("", inner, 0), ("x", int, 0)]);
        let thread = builder.aggregate(kind::STRUCT, "thread_struct", &[("fsbase", int, 128)]);
        let constant = builder.add(kind::CONST, "", 0, thread);
        let alias = builder.add(kind::TYPEDEF, "thread_t", 0, constant);
        builder.aggregate(
            kind::STRUCT,
            "task_struct",
            &[
                ("pid", int, 64),
                ("", anonymous, 96),
                ("thread", alias, 256),
            ],
        );
        let pointer = builder.add(kind::PTR, "", 0, thread);
        let prototype = builder.add(kind::FUNC_PROTO, "", 3, 0);
        builder.words(&[0, pointer, 0, int, 0, pointer]);
        let pointer = builder.add(kind::PTR, "", 0, prototype);
        builder.add(kind::TYPEDEF, "btf_trace_test", 0, pointer);
        builder.build()
    }

    #[test]
    fn members_are_found_through_anonymous_and_nested_structs() {
        let bytes = task_struct();
        let btf = Btf::parse(&bytes).unwrap();

        assert_eq!(btf.member_offset("task_struct", &["pid"]), Some(8));
        assert_eq!(btf.member_offset("task_struct", &["deep"]), Some(16));
        assert_eq!(
            btf.member_offset("task_struct", &["thread", "fsbase"]),
            Some(48)
        );
    }

    /// Returns the error for BTF whose type at byte `at` contains itself.
    fn endless(at: usize) -> Result<(), BtfError> {
        Err(BtfError::ContainsItself { at })
    }

    #[test]
    fn a_struct_that_contains_itself_is_refused_and_costs_no_time() {
        let mut builder = Builder::new();
        // A search that does not remember types takes 4 to the power of the depth of nesting.
        let anonymous = [("", 1, 0); 4];
        builder.aggregate(kind::STRUCT, "task_struct", &anonymous);
        let bytes = builder.build();
        assert!(bytes.len() < 225);
        let start = std::time::Instant::now();
        assert_eq!(Btf::parse(&bytes).map(drop), endless(0));
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn what_contains_itself_is_refused_however_far_in_that_is() {
        // The last type of each chain refers to an earlier one by its identifier.
        let mut members = Builder::new();
        members.aggregate(kind::STRUCT, "outer", &[("named", 2, 0)]);
        members.aggregate(kind::UNION, "", &[("alias", 3, 0)]);
        members.add(kind::TYPEDEF, "outer_t", 0, 4);
        members.add(kind::CONST, "", 0, 1);
        let mut array = Builder::new();
        array.aggregate(kind::STRUCT, "outer", &[("entries", 2, 0)]);
        array.add(kind::ARRAY, "", 0, 0);
        array.words(&[1, 1, 4]);
        let mut names = Builder::new();
        names.add(kind::TYPEDEF, "a", 0, 2);
        names.add(kind::VOLATILE, "", 0, 1);
        for builder in [members, array, names] {
            let parsed = Btf::parse(&builder.build()).map(drop);
            assert!(
                matches!(parsed, Err(BtfError::ContainsItself { .. })),
                "{parsed:?}"
            );
        }
    }

    #[test]
    fn a_struct_may_point_to_itself_and_be_in_many_others() {
        let mut builder = Builder::new();
        let list = builder.aggregate(
            kind::STRUCT,
            "list_head",
            &[("next", 2, 0), ("prev", 2, 64)],
        );
        builder.add(kind::PTR, "", 0, list);
        let twice = [("first", list, 0), ("second", list, 128)];
        let pair = builder.aggregate(kind::STRUCT, "pair", &twice);
        builder.aggregate(
            kind::STRUCT,
            "task_struct",
            &[("list", list, 0), ("pair", pair, 128)],
        );
        let bytes = builder.build();
        let btf = Btf::parse(&bytes).unwrap();
        let second = btf.member_offset("task_struct", &["pair", "second"]);
        assert_eq!(second, Some(32));
    }

    #[test]
    fn many_ways_to_one_struct_are_one() {
        let mut builder = Builder::new();
        let int = builder.int();
        let mut inner = builder.aggregate(kind::STRUCT, "", &[("other", int, 0)]);
        for _ in 0..30 {
            let twice = [("", inner, 0), ("", inner, 32)];
            inner = builder.aggregate(kind::STRUCT, "", &twice);
        }
        builder.aggregate(
            kind::STRUCT,
            "task_struct",
            &[("", inner, 0), ("pid", int, 64)],
        );
        let bytes = builder.build();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.member_offset("task_struct", &["pid"]), Some(8));
        assert_eq!(btf.member_offset("task_struct", &["other"]), Some(0));
    }

    #[test]
    fn a_missing_member_or_struct_has_no_offset() {
        let bytes = task_struct();
        let btf = Btf::parse(&bytes).unwrap();

        assert_eq!(btf.member_offset("task_struct", &["pi"]), None);
        assert_eq!(btf.member_offset("task_struct", &["pid", "x"]), None);
        assert_eq!(btf.member_offset("other", &["pid"]), None);
    }

    #[test]
    fn arguments_of_a_tracepoint_are_listed_without_the_first() {
        let bytes = task_struct();
        let btf = Btf::parse(&bytes).unwrap();

        assert_eq!(
            btf.tracepoint_arguments("test"),
            Some(vec![ParameterKind::Integer, ParameterKind::Pointer])
        );
        assert_eq!(btf.tracepoint_arguments("none"), None);
    }

    #[test]
    fn what_reaches_beyond_its_end_is_refused() {
        let mut builder = Builder::new();
        let int = builder.int();
        let at = builder.types.len();
        builder.aggregate(kind::STRUCT, "pair", &[("a", int, 0), ("b", int, 32)]);
        let whole = builder.build();
        assert!(Btf::parse(&whole).is_ok());
        let section = Btf::parse(&whole[..whole.len() - 1]);
        assert_eq!(section.err(), Some(BtfError::SectionTruncated));
        // The last member lacks its last word.
        builder.types.truncate(builder.types.len() - 4);
        let types = builder.build();
        assert_eq!(
            Btf::parse(&types).err(),
            Some(BtfError::TypeTruncated { at })
        );
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let whole = task_struct();
        for length in 0..whole.len() {
            if let Ok(btf) = Btf::parse(&whole[..length]) {
                let _ = btf.member_offset("task_struct", &["thread", "fsbase"]);
            }
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                if let Ok(btf) = Btf::parse(&bytes) {
                    let _ = btf.member_offset("task_struct", &["thread", "fsbase"]);
                    let _ = btf.tracepoint_arguments("test");
                }
            }
        }
    }
}
