//! Thread-local variables of programs and libraries: what a file says of where they lie, and where
//! that is in a process.
//!
//! Only for x86-64 and arm64, and for glibc where a library was loaded when threads were there
//! already: for others, it is unknown.

use object::elf::{
    PT_TLS, R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_TPREL, R_AARCH64_TLSDESC, R_X86_64_DTPMOD64,
    R_X86_64_TLSDESC, R_X86_64_TPOFF64, STT_TLS, STV_DEFAULT, STV_PROTECTED,
};
use object::read::elf::ProgramHeader as _;
use object::{
    Object as _, ObjectSymbol as _, ReadRef, RelocationFlags, RelocationTarget, SymbolFlags,
};

/// A thread-local variable that a file defines for others too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadVariable {
    /// Bytes from the thread pointer to it, where the file is the program itself.
    in_program: i64,
    /// Entry that the loader fills in, where the file has one.
    slot: Option<Slot>,
    side: Side,
}

/// Side of the thread pointer on which the memory lies that a thread has from its beginning on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Below it: x86-64.
    Below,
    /// Above it, behind two words of the C library: arm64.
    Above,
}

/// Bytes between the thread pointer and the memory above it, at least.
const RESERVED: u64 = 16;

/// Addresses below this one are no process's memory (`vm.mmap_min_addr`, at least).
const FIRST_ADDRESS: i64 = 0x8000;

impl Side {
    /// Returns the distance of the program's own memory from the thread pointer, which has this
    /// size and alignment, and its pattern at this address.
    fn of_program(self, start: u64, size: u64, align: u64) -> u64 {
        match self {
            // It ends at the thread pointer.
            Self::Below => {
                let behind = start.wrapping_add(size).wrapping_neg() & (align - 1);
                size.wrapping_add(behind).wrapping_neg()
            }
            Self::Above => RESERVED + (start.wrapping_sub(RESERVED) & (align - 1)),
        }
    }

    /// Reads the bytes from the thread pointer to a variable.
    fn distance(self, word: u64) -> Option<VariablePlace> {
        let distance = word.cast_signed();
        let is_on_it = match self {
            Self::Below => distance < 0,
            Self::Above => distance >= RESERVED.cast_signed(),
        };
        (is_on_it && distance % 8 == 0).then_some(VariablePlace::Distance(distance))
    }
}

/// Entry by which a file's code finds the variable. Addresses are those of the file's own address
/// space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Word: the bytes from the thread pointer.
    Distance(u64),
    /// Descriptor (`TLSDESC`): a function, and its argument.
    Descriptor(u64),
    /// Number of the module, where the variable lies so many bytes into its memory.
    Module(u64, u64),
}

/// Location of a variable for all threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariablePlace {
    /// Bytes from the thread pointer.
    Distance(i64),
    /// Offset in the memory that each thread has of a module, from a generation of its table on.
    Module {
        /// Number of the module.
        module: u64,
        /// Offset in its memory.
        offset: u64,
        /// Generation.
        generation: u64,
    },
}

/// Relocations of a file that are looked at.
const MOST_RELOCATIONS: usize = 1 << 20;

/// Bytes from the thread pointer to the address of the thread's table of modules (glibc).
const TABLE_AT: u64 = if cfg!(target_arch = "x86_64") { 8 } else { 0 };

/// Modules that a process may have.
const MOST_MODULES: u64 = 1 << 16;

/// Finds a pointer of this name; `None` where the file has none, or says of it what is not known
/// here.
pub(crate) fn find<'a, R: ReadRef<'a>>(
    parsed: &object::File<'a, R>,
    name: &[u8],
) -> Option<ThreadVariable> {
    let object::File::Elf64(elf) = parsed else {
        return None;
    };
    let (side, to_distance, to_descriptor, to_module) = match parsed.architecture() {
        object::Architecture::X86_64 => (
            Side::Below,
            R_X86_64_TPOFF64,
            R_X86_64_TLSDESC,
            R_X86_64_DTPMOD64,
        ),
        object::Architecture::Aarch64 => (
            Side::Above,
            R_AARCH64_TLS_TPREL,
            R_AARCH64_TLSDESC,
            R_AARCH64_TLS_DTPMOD,
        ),
        _ => return None,
    };
    let symbol = elf.dynamic_symbols().find(|symbol| {
        let SymbolFlags::Elf { st_info, st_other } = symbol.flags() else {
            return false;
        };
        st_info & 15 == STT_TLS
            && matches!(st_other & 3, STV_DEFAULT | STV_PROTECTED)
            && !symbol.is_undefined()
            && symbol.size() == 8
            && symbol.name_bytes() == Ok(name)
    })?;
    let value = symbol.address();
    let (mut distance, mut module) = (None, None);
    let mut descriptor = None;
    let relocations = elf.dynamic_relocations().into_iter().flatten();
    for (at, relocation) in relocations.take(MOST_RELOCATIONS) {
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let is_named = relocation.target() == RelocationTarget::Symbol(symbol.index());
        let is_own = relocation.target() == RelocationTarget::Absolute;
        let is_it = is_named && relocation.addend() == 0
            || is_own && relocation.addend().cast_unsigned() == value;
        if r_type == to_distance && is_it {
            distance = Some(Slot::Distance(at));
        } else if r_type == to_descriptor && is_it {
            descriptor = Some(Slot::Descriptor(at));
        } else if r_type == to_module && (is_named || is_own) {
            module = Some(Slot::Module(at, value));
        }
    }
    let endian = elf.endian();
    let mut headers = elf.elf_program_headers().iter();
    let header = headers.find(|header| header.p_type(endian) == PT_TLS)?;
    let (start, size) = (header.p_vaddr(endian), header.p_memsz(endian));
    let align = header.p_align(endian).max(1);
    if !align.is_power_of_two() || value.checked_add(8)? > size {
        return None;
    }
    let in_program = side.of_program(start, size, align).wrapping_add(value);
    Some(ThreadVariable {
        in_program: in_program.cast_signed(),
        slot: distance.or(descriptor).or(module),
        side,
    })
}

impl ThreadVariable {
    /// Returns where the variable lies in a process, for all threads: of the program itself, or of
    /// a library that lies `bias` bytes from its own address space. `None` where that is unknown.
    /// `words` reads a word of the process.
    pub fn place(
        &self,
        is_program: bool,
        bias: u64,
        words: impl Fn(u64) -> Option<u64>,
    ) -> Option<VariablePlace> {
        if is_program {
            return Some(VariablePlace::Distance(self.in_program));
        }
        match self.slot? {
            Slot::Distance(at) => self.side.distance(words(bias.wrapping_add(at))?),
            Slot::Descriptor(at) => {
                let argument = words(bias.wrapping_add(at).checked_add(8)?)?;
                // A distance is no address of the program: these are neither in the upper half nor
                // among the first.
                if argument.cast_signed() < FIRST_ADDRESS {
                    return self.side.distance(argument);
                }
                let word = |index: u64| words(argument.checked_add(index * 8)?);
                in_module(word(0)?, word(1)?, word(2)?)
            }
            Slot::Module(at, offset) => in_module(words(bias.wrapping_add(at))?, offset, 0),
        }
    }
}

fn in_module(module: u64, offset: u64, generation: u64) -> Option<VariablePlace> {
    let is_known =
        (1..MOST_MODULES).contains(&module) && offset < 1 << 32 && offset.is_multiple_of(8);
    is_known.then_some(VariablePlace::Module {
        module,
        offset,
        generation,
    })
}

impl VariablePlace {
    /// Returns the variable's address for the thread of this thread pointer; `None` where it has
    /// none yet, or where that is unknown. `words` reads a word of the process.
    pub fn address(&self, thread_pointer: u64, words: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        match *self {
            Self::Distance(distance) => thread_pointer.checked_add_signed(distance),
            Self::Module {
                module,
                offset,
                generation,
            } => {
                /// Memory that was not asked for yet.
                const UNALLOCATED: u64 = u64::MAX;
                // The second word of a thread, on arm64 the first; entries have two words, and the
                // one before the first says how many there are.
                let table = words(thread_pointer.checked_add(TABLE_AT)?)?;
                let count = words(table.checked_sub(16)?)?;
                if module > count || words(table)? < generation {
                    return None;
                }
                let memory = words(table.checked_add(module * 16)?)?;
                let is_there = memory != UNALLOCATED && memory != 0;
                memory.checked_add(offset).filter(|_| is_there)
            }
        }
    }
}

/// Bytes before the list of a thread's locks in which glibc's description of the thread begins:
/// what [`thread_pointer`] reads.
pub const DESCRIPTION_BYTES: usize = 0x800;

/// Returns the thread pointer of a thread of glibc, by the list of its robust locks, which the
/// kernel tells (`get_robust_list()`): both are in the thread's description, which begins with two
/// pointers to itself. `None` where there is no such description. `words` reads a word of the
/// process.
pub fn thread_pointer(locks: u64, words: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let from = locks.checked_sub(DESCRIPTION_BYTES as u64)?;
    let is_description =
        |at: &u64| words(*at) == Some(*at) && at.checked_add(16).and_then(&words) == Some(*at);
    let mut found = (from..locks).step_by(8).filter(is_description);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn words(pairs: &[(u64, u64)]) -> impl Fn(u64) -> Option<u64> + use<> {
        let words: HashMap<u64, u64> = pairs.iter().copied().collect();
        move |at| words.get(&at).copied()
    }

    #[test]
    fn a_slot_that_the_loader_has_filled_in_says_where_the_variable_lies() {
        let of = |slot| ThreadVariable {
            in_program: -8,
            slot,
            side: Side::Below,
        };
        let none = words(&[]);
        let own = VariablePlace::Distance(-8);
        assert_eq!(of(None).place(true, 0, &none), Some(own));
        assert_eq!(of(None).place(false, 0, &none), None);
        let below = 0_u64.wrapping_sub(64);
        let slot = Some(Slot::Distance(0x10));
        let filled = words(&[(0x1010, below)]);
        let early = VariablePlace::Distance(-64);
        assert_eq!(of(slot).place(false, 0x1000, &filled), Some(early));
        // A positive distance would be no thread's memory.
        assert_eq!(of(slot).place(false, 0x1000, words(&[(0x1010, 64)])), None);
        let slot = Some(Slot::Descriptor(0x10));
        let filled = words(&[(0x1010, 0x5000), (0x1018, below)]);
        assert_eq!(of(slot).place(false, 0x1000, &filled), Some(early));
        let late = VariablePlace::Module {
            module: 3,
            offset: 24,
            generation: 7,
        };
        let filled = words(&[(0x1018, 0x9000), (0x9000, 3), (0x9008, 24), (0x9010, 7)]);
        assert_eq!(of(slot).place(false, 0x1000, &filled), Some(late));
        let unresolved = words(&[
            (0x1018, 0x9000),
            (0x9000, 0x20_0000),
            (0x9008, 24),
            (0x9010, 7),
        ]);
        assert_eq!(of(slot).place(false, 0x1000, &unresolved), None);
        assert_eq!(of(slot).place(false, u64::MAX, &none), None);
    }

    #[test]
    fn on_arm64_what_the_loader_fills_in_lies_above_the_thread_pointer() {
        let of = |slot| ThreadVariable {
            in_program: 16,
            slot: Some(slot),
            side: Side::Above,
        };
        let (exact, described) = (of(Slot::Distance(0x10)), of(Slot::Descriptor(0x10)));
        let early = VariablePlace::Distance(64);
        let filled = words(&[(0x1010, 64)]);
        assert_eq!(exact.place(false, 0x1000, filled), Some(early));
        // These are the C library's own.
        assert_eq!(exact.place(false, 0x1000, words(&[(0x1010, 8)])), None);
        let filled = words(&[(0x1018, 64)]);
        assert_eq!(described.place(false, 0x1000, filled), Some(early));
        let late = VariablePlace::Module {
            module: 3,
            offset: 24,
            generation: 7,
        };
        let filled = words(&[(0x1018, 0x9000), (0x9000, 3), (0x9008, 24), (0x9010, 7)]);
        assert_eq!(described.place(false, 0x1000, filled), Some(late));
    }

    #[test]
    fn memory_of_the_program_lies_as_linkers_place_it() {
        let below = |size, align| Side::Below.of_program(0x3000, size, align).cast_signed();
        assert_eq!((below(8, 8), below(24, 64)), (-8, -64));
        let above = |start, align| Side::Above.of_program(start, 8, align);
        assert_eq!((above(0x3000, 8), above(0x3000, 64)), (16, 64));
        // It begins amid what it is aligned to.
        assert_eq!(above(0x3020, 64), 32);
    }

    #[test]
    fn a_thread_without_memory_of_a_module_has_no_variable() {
        let place = VariablePlace::Module {
            module: 2,
            offset: 16,
            generation: 5,
        };
        let table = |generation, memory| {
            words(&[
                (0x1000 + TABLE_AT, 0x2000),
                (0x1ff0, 4),
                (0x2000, generation),
                (0x2020, memory),
            ])
        };
        assert_eq!(place.address(0x1000, table(5, 0x7000)), Some(0x7010));
        assert_eq!(
            place.address(0x1000, table(4, 0x7000)),
            None,
            "of another module"
        );
        assert_eq!(place.address(0x1000, table(5, u64::MAX)), None);
        assert_eq!(place.address(0x1000, table(5, 0)), None);
        let beyond = VariablePlace::Module {
            module: 5,
            offset: 16,
            generation: 5,
        };
        assert_eq!(beyond.address(0x1000, table(5, 0x7000)), None);
        assert_eq!(
            VariablePlace::Distance(-8).address(0x1000, words(&[])),
            Some(0xff8)
        );
    }

    #[test]
    fn a_thread_is_where_two_pointers_say_so() {
        let locks = 0x10_02e0;
        let thread = words(&[(0x10_0000, 0x10_0000), (0x10_0010, 0x10_0000)]);
        assert_eq!(thread_pointer(locks, thread), Some(0x10_0000));
        let half = words(&[(0x10_0000, 0x10_0000), (0x10_0010, 0x10_0008)]);
        assert_eq!(thread_pointer(locks, half), None);
        let two = words(&[
            (0x10_0000, 0x10_0000),
            (0x10_0010, 0x10_0000),
            (0x10_0100, 0x10_0100),
            (0x10_0110, 0x10_0100),
        ]);
        assert_eq!(thread_pointer(locks, two), None);
        assert_eq!(thread_pointer(8, words(&[])), None);
    }
}
