//! Arguments of a function as the debugger's part of a file (DWARF) describes them.
//!
//! Only values that the calling convention passes in registers of their own are taken over:
//! integers, addresses and floating-point values. A struct that is passed or returned moves others,
//! so nothing behind it is known. The maker of the file may have made all of this up: the
//! references that are followed have limits, and the worst that is shown is a register under a
//! wrong name.

use std::time::{Duration, Instant};

use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, NativeEndian, Unit, constants,
};
use object::ReadRef;
use tracer_common::kernel::{PROBE_ARGUMENTS, typed_data};

use super::debug_data::{SectionSlice, info_bytes, sections};
use super::types::{Signature, ValueType};

type Entry<'a> = DebuggingInformationEntry<SectionSlice<'a>>;

/// Allowance of entries to look at, for all functions together: some seconds of work. A function
/// for which nothing is left is treated as one without a debugger's part.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    left: u64,
    until: Instant,
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            left: 20_000_000,
            until: Instant::now() + LONGEST,
        }
    }
}

impl Entries {
    fn spend(&mut self, count: u64) -> Option<()> {
        self.left = self.left.checked_sub(count)?;
        Some(())
    }

    /// Begins a unit. Its entries do not say how long that takes: many small units may each have
    /// the largest table of abbreviations.
    fn begin_unit(&mut self) -> Option<()> {
        (Instant::now() < self.until).then_some(())
    }
}

/// Time for which units are begun.
const LONGEST: Duration = Duration::from_secs(5);

/// Bytes that take as long to read as an entry takes to look at.
const BYTES_OF_AN_ENTRY: u64 = 64;

/// Steps from a parameter to its type.
const MOST_STEPS: u32 = 16;

/// Bytes of a name.
const MOST_NAME_BYTES: usize = 64;

/// Returns the arguments of the function that starts where `is_start` says; `None` where that is
/// not known.
pub fn signature<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
    is_start: impl Fn(u64) -> bool,
    left: &mut Entries,
) -> Option<Signature> {
    left.spend(info_bytes(parsed)? / BYTES_OF_AN_ENTRY)?;
    // To unpack them takes as long, for each function again.
    left.begin_unit()?;
    let sections = sections(parsed, |bytes| bytes);
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, NativeEndian));
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        left.begin_unit()?;
        // One that cannot be read is not the last one.
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        let of = Of {
            dwarf: &dwarf,
            unit: &unit,
        };
        if let Some(found) = of.signature(&is_start, left)? {
            return Some(found);
        }
    }
    None
}

/// Unit, with the data by which its entries are read.
struct Of<'d, 'a> {
    dwarf: &'d Dwarf<SectionSlice<'a>>,
    unit: &'d Unit<SectionSlice<'a>>,
}

impl<'a> Of<'_, 'a> {
    /// Returns the function's arguments where it is in this unit; `None` where there is no use in
    /// looking further.
    fn signature(
        &self,
        is_start: &impl Fn(u64) -> bool,
        left: &mut Entries,
    ) -> Option<Option<Signature>> {
        let mut entries = self.unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            left.spend(1)?;
            if entry.tag() != constants::DW_TAG_subprogram || !self.starts(entry, is_start) {
                continue;
            }
            // Another language may pass them as it likes; and what is returned through memory takes
            // a register before all arguments.
            if self.is_of_other_convention() || !self.returns_in_register(entry) {
                return None;
            }
            let depth = entry.depth();
            let mut values = Vec::new();
            while let Ok(Some(entry)) = entries.next_dfs() {
                left.spend(1)?;
                if entry.depth() <= depth || values.len() == PROBE_ARGUMENTS {
                    break;
                }
                if entry.depth() != depth + 1 || entry.tag() != constants::DW_TAG_formal_parameter {
                    continue;
                }
                let kind = self.attribute(entry, constants::DW_AT_type);
                let kind = kind.and_then(|kind| self.value_type(kind));
                // How many registers it takes is not known either.
                let is_behind_one = values
                    .last()
                    .is_some_and(|(_, last)| *last == ValueType::UNKNOWN);
                let kind = kind
                    .filter(|_| !is_behind_one)
                    .unwrap_or(ValueType::UNKNOWN);
                values.push((self.name(entry, values.len()), kind));
            }
            return Some(Some(Signature { values }));
        }
        Some(None)
    }

    fn starts(&self, entry: &Entry<'a>, is_start: impl Fn(u64) -> bool) -> bool {
        let low = entry.attr_value(constants::DW_AT_low_pc);
        let low = low.and_then(|low| self.dwarf.attr_address(self.unit, low).ok().flatten());
        low.is_some_and(is_start)
    }

    fn is_of_other_convention(&self) -> bool {
        let Ok(root) = self.unit.entry(self.unit.header.root_offset()) else {
            return true;
        };
        let language = root.attr_value(constants::DW_AT_language);
        !matches!(
            language,
            Some(AttributeValue::Language(
                constants::DW_LANG_C
                    | constants::DW_LANG_C89
                    | constants::DW_LANG_C99
                    | constants::DW_LANG_C11
                    | constants::DW_LANG_C17
                    | constants::DW_LANG_C_plus_plus
                    | constants::DW_LANG_C_plus_plus_03
                    | constants::DW_LANG_C_plus_plus_11
                    | constants::DW_LANG_C_plus_plus_14
                    | constants::DW_LANG_C_plus_plus_17
                    | constants::DW_LANG_C_plus_plus_20
            ))
        )
    }

    fn returns_in_register(&self, entry: &Entry<'a>) -> bool {
        match self.attribute(entry, constants::DW_AT_type) {
            None => true,
            Some(kind) => self.value_type(kind).is_some(),
        }
    }

    /// Returns an attribute of an entry, or of the entry that it is an instance of.
    fn attribute(
        &self,
        entry: &Entry<'a>,
        name: constants::DwAt,
    ) -> Option<AttributeValue<SectionSlice<'a>>> {
        let mut entry = entry.clone();
        for _ in 0..MOST_STEPS {
            if let Some(value) = entry.attr_value(name) {
                return Some(value);
            }
            let origin = entry
                .attr_value(constants::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(constants::DW_AT_specification))?;
            entry = self.entry(origin)?;
        }
        None
    }

    /// Returns the entry of this unit that is referred to.
    fn entry(&self, reference: AttributeValue<SectionSlice<'a>>) -> Option<Entry<'a>> {
        let offset = match reference {
            AttributeValue::UnitRef(offset) => offset,
            AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&self.unit.header)?,
            _ => return None,
        };
        self.unit.entry(offset).ok()
    }

    fn name(&self, entry: &Entry<'a>, nth: usize) -> String {
        let name = self.attribute(entry, constants::DW_AT_name);
        let name = name.and_then(|name| self.dwarf.attr_string(self.unit, name).ok());
        let name = name.map(|name| String::from_utf8_lossy(name.slice()).into_owned());
        let mut name = name
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| format!("arg{nth}"));
        name.truncate(name.floor_char_boundary(MOST_NAME_BYTES));
        name
    }

    /// Returns the type that is referred to; `None` where it is passed in no register of its own.
    fn value_type(&self, reference: AttributeValue<SectionSlice<'a>>) -> Option<ValueType> {
        let entry = self.unqualified(reference)?.0;
        match entry.tag() {
            constants::DW_TAG_base_type => self.base(&entry),
            constants::DW_TAG_enumeration_type => {
                let size = size(&entry)?;
                (size <= 8).then_some(ValueType {
                    kind: typed_data::SIGNED,
                    size,
                })
            }
            constants::DW_TAG_pointer_type => Some(self.pointer(&entry)),
            constants::DW_TAG_reference_type | constants::DW_TAG_rvalue_reference_type => {
                Some(ValueType::POINTER)
            }
            _ => None,
        }
    }

    /// Returns the type of a pointer: a text where it leads to characters that the function does
    /// not change; a buffer that the function is to fill in is no text yet.
    fn pointer(&self, entry: &Entry<'a>) -> ValueType {
        let pointee = entry.attr_value(constants::DW_AT_type);
        let pointee = pointee.and_then(|pointee| self.unqualified(pointee));
        let is_text = pointee.is_some_and(|(pointee, is_constant)| {
            let is_base = pointee.tag() == constants::DW_TAG_base_type;
            let base = self.base(&pointee).filter(|_| is_base && is_constant);
            base.is_some_and(|base| base.kind == typed_data::CHARACTER)
        });
        ValueType {
            kind: if is_text {
                typed_data::TEXT
            } else {
                typed_data::ADDRESS
            },
            ..ValueType::POINTER
        }
    }

    /// Returns the type behind other names and qualifiers, and whether it is constant.
    fn unqualified(
        &self,
        reference: AttributeValue<SectionSlice<'a>>,
    ) -> Option<(Entry<'a>, bool)> {
        let mut entry = self.entry(reference)?;
        let mut is_constant = false;
        for _ in 0..MOST_STEPS {
            match entry.tag() {
                constants::DW_TAG_const_type => is_constant = true,
                constants::DW_TAG_typedef
                | constants::DW_TAG_volatile_type
                | constants::DW_TAG_restrict_type
                | constants::DW_TAG_atomic_type => {}
                _ => return Some((entry, is_constant)),
            }
            entry = self.entry(entry.attr_value(constants::DW_AT_type)?)?;
        }
        None
    }

    fn base(&self, entry: &Entry<'a>) -> Option<ValueType> {
        let size = size(entry)?;
        let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(constants::DW_AT_encoding)
        else {
            return None;
        };
        let kind = match encoding {
            constants::DW_ATE_float => typed_data::FLOAT,
            // Of two registers.
            _ if size > 8 => return None,
            constants::DW_ATE_boolean => typed_data::FLAG,
            // Integers of one byte have the same encodings.
            constants::DW_ATE_signed_char | constants::DW_ATE_unsigned_char
                if self.name(entry, 0) == "char" =>
            {
                typed_data::CHARACTER
            }
            constants::DW_ATE_signed | constants::DW_ATE_signed_char => typed_data::SIGNED,
            constants::DW_ATE_unsigned | constants::DW_ATE_unsigned_char => typed_data::UNSIGNED,
            constants::DW_ATE_address => typed_data::ADDRESS,
            _ => return None,
        };
        Some(ValueType { kind, size })
    }
}

fn size(entry: &Entry<'_>) -> Option<u8> {
    let size = entry
        .attr_value(constants::DW_AT_byte_size)?
        .udata_value()?;
    let size = u8::try_from(size).ok()?;
    matches!(size, 1 | 2 | 4 | 8 | 16).then_some(size)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::process::Command;

    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    const SOURCE: &str = "
        struct pair { long a, b; };
        typedef const char *text;
        enum kind { NONE, SOME };
        int known(text name, char *filled, enum kind kind, unsigned char byte, char letter, double x)
        { return name && filled ? (int)x + kind + byte + letter : 0; }
        long behind(int first, struct pair pair, int last) { return first + pair.a + last; }
        struct pair two; struct large { long a[9]; } nine;
        struct large returned(int first) { nine.a[0] = first; return nine; }
        int main(void) { return 0; }";

    /// Builds a program `a` whose debug data takes long to read: it has a `main` and many small
    /// units that all have the same large table of abbreviations.
    pub(crate) fn build_slow_to_read(folder: &Path) {
        // Each is of a type, without children or attributes; an integer of two bytes is its code.
        let abbreviations = (128_u32..16_000).flat_map(|code| {
            let [low, high, ..] = (code & 0x7f | 0x80 | code >> 7 << 8).to_le_bytes();
            [low, high, 0x24, 0, 0, 0]
        });
        let abbreviations: Vec<u8> = abbreviations.chain([0]).collect();
        // Length, version, abbreviations, bytes of an address, and an entry.
        let unit = [9, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0x80, 0x01];
        std::fs::write(folder.join("abbrev"), abbreviations).unwrap();
        std::fs::write(folder.join("info"), unit.repeat(100_000)).unwrap();
        let section =
            |name: &str| format!(".section .debug_{name},\"\",%progbits\n.incbin \"{name}\"\n");
        let mut source = ".globl main\n.type main,%function\nmain:\nret\n".to_owned();
        source.push_str(".size main,.-main\n.section .note.GNU-stack,\"\",%progbits\n");
        let source = source + &section("abbrev") + &section("info");
        std::fs::write(folder.join("a.s"), source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-o", "a", "a.s"]);
        assert!(compiler.current_dir(folder).status().unwrap().success());
    }

    /// Builds a program in C with its debugger's part.
    fn program() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (source, made) = (folder.path().join("a.c"), folder.path().join("a"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-O0", "-gz=none", "-o"]).arg(&made);
        assert!(compiler.arg(&source).status().unwrap().success());
        std::fs::read(made).unwrap()
    }

    fn read_signature(program: &[u8], function: &str) -> Option<Signature> {
        let parsed = object::File::parse(program).ok()?;
        let found = parsed
            .symbols()
            .find(|symbol| symbol.name() == Ok(function))?;
        let address = found.address();
        signature(&parsed, |start| start == address, &mut Entries::default())
    }

    #[test]
    fn what_is_compressed_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, packed] = ["plain", "packed"].map(|name| folder.path().join(name));
        std::fs::write(&plain, program()).unwrap();
        let expected = read_signature(&program(), "known");
        assert!(expected.is_some());
        for format in ["zlib", "zstd"] {
            let mut objcopy = Command::new("objcopy");
            objcopy.arg(format!("--compress-debug-sections={format}"));
            assert!(objcopy.arg(&plain).arg(&packed).status().unwrap().success());
            let program = std::fs::read(&packed).unwrap();
            let parsed = object::File::parse(&*program).unwrap();
            let info = parsed.section_by_name(".debug_info").unwrap();
            let range = info.compressed_file_range().unwrap();
            assert!(range.format != object::CompressionFormat::None, "{format}");
            assert_eq!(read_signature(&program, "known"), expected, "{format}");
        }
    }

    #[test]
    fn arguments_have_their_names_and_types() {
        let program = program();
        let shown = |function| -> Vec<(String, u8)> {
            let values = read_signature(&program, function).unwrap().values;
            let values = values.into_iter();
            values.map(|(name, kind)| (name, kind.kind)).collect()
        };
        let known = [
            ("name", typed_data::TEXT),
            ("filled", typed_data::ADDRESS),
            ("kind", typed_data::SIGNED),
            ("byte", typed_data::UNSIGNED),
            ("letter", typed_data::CHARACTER),
            ("x", typed_data::FLOAT),
        ];
        assert_eq!(
            shown("known"),
            known.map(|(name, kind)| (name.to_owned(), kind))
        );
        let unknown = typed_data::BYTES;
        let behind = [
            ("first", typed_data::SIGNED),
            ("pair", unknown),
            ("last", unknown),
        ];
        assert_eq!(
            shown("behind"),
            behind.map(|(name, kind)| (name.to_owned(), kind))
        );
        assert_eq!(read_signature(&program, "returned"), None);
        assert_eq!(read_signature(&program, "nothing"), None);
        assert_eq!(shown("main"), []);
    }

    #[test]
    fn units_that_take_long_are_given_up() {
        let folder = tempfile::tempdir().unwrap();
        build_slow_to_read(folder.path());
        let program = std::fs::read(folder.path().join("a")).unwrap();
        let parsed = object::File::parse(&*program).unwrap();
        let mut units = Entries {
            until: Instant::now() + Duration::from_millis(50),
            ..Entries::default()
        };
        assert_eq!(signature(&parsed, |_| true, &mut units), None);
        assert!(units.begin_unit().is_none(), "it was not over before");
    }

    #[test]
    fn damage_does_no_harm() {
        let whole = program();
        let parsed = object::File::parse(&*whole).unwrap();
        let ranges: Vec<_> = [".debug_info", ".debug_abbrev", ".debug_str"]
            .iter()
            .filter_map(|name| parsed.section_by_name(name)?.file_range())
            .collect();
        assert_eq!(ranges.len(), 3);
        let mut seed = 1_u64;
        for round in 0..1500 {
            let mut damaged = whole.clone();
            for _ in 0..=round % 4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (start, bytes) = ranges[(seed >> 33) as usize % ranges.len()];
                let at = start + (seed >> 20) % bytes;
                damaged[usize::try_from(at).unwrap()] = (seed >> 56) as u8;
            }
            if let Some(found) = read_signature(&damaged, "known") {
                assert!(found.values.len() <= PROBE_ARGUMENTS);
                assert!(
                    found
                        .values
                        .iter()
                        .all(|(name, _)| name.len() <= MOST_NAME_BYTES)
                );
            }
        }
    }
}
