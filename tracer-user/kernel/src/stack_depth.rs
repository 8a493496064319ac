//! Checks how much stack the eBPF programs use with the functions that they call. This is read from
//! the object itself: the kernel that runs here may allow more than others do.

use std::collections::HashMap;

use object::{
    File, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex,
    SymbolKind,
};

use super::loading::object;

/// Most bytes of all frames together in kernels before 6.13.
const MOST: u64 = 512;

/// A function: its section, and where it begins there.
type Key = (SectionIndex, u64);

/// Function of the object.
struct Function {
    name: String,
    /// Bytes that it uses of its stack.
    depth: u64,
    calls: Vec<Key>,
}

/// Returns the functions of the object.
fn functions(file: &File<'_>) -> HashMap<Key, Function> {
    let mut functions = HashMap::new();
    for section in file.sections() {
        let calls: HashMap<u64, RelocationTarget> = section
            .relocations()
            .map(|(at, relocation)| (at, relocation.target()))
            .collect();
        for symbol in file.symbols() {
            if symbol.kind() != SymbolKind::Text || symbol.section_index() != Some(section.index())
            {
                continue;
            }
            let data = section.data_range(symbol.address(), symbol.size()).unwrap();
            let mut function = Function {
                name: symbol.name().unwrap().to_owned(),
                depth: 0,
                calls: Vec::new(),
            };
            let mut copied = 0_u16;
            for (nth, bytes) in data.unwrap_or_default().chunks_exact(8).enumerate() {
                let [op, registers, low, high, imm @ ..] = *bytes.as_array::<8>().unwrap();
                let (to, from) = (registers & 15, registers >> 4);
                let offset = i64::from(i16::from_le_bytes([low, high]));
                let imm = i32::from_le_bytes(imm);
                // Loads from the frame, stores to it, and its address with something added.
                let used = match op & 7 {
                    1 if from == 10 => -offset,
                    2 | 3 if to == 10 => -offset,
                    7 if op == 0x07 && copied >> to & 1 != 0 => -i64::from(imm),
                    _ => 0,
                };
                copied = match op {
                    0xbf if from == 10 => copied | 1 << to,
                    _ => copied & !(1 << to),
                };
                function.depth = function.depth.max(u64::try_from(used).unwrap_or(0));
                let at = symbol.address() + 8 * nth as u64;
                if op != 0x85 || from != 1 {
                    continue;
                }
                function.calls.push(match calls.get(&at) {
                    Some(RelocationTarget::Symbol(index)) => {
                        let called = file.symbol_by_index(*index).unwrap();
                        let into = called.section_index().unwrap();
                        match called.kind() {
                            SymbolKind::Section => (into, u64::try_from(imm + 1).unwrap() * 8),
                            _ => (into, called.address()),
                        }
                    }
                    _ => (
                        section.index(),
                        at.wrapping_add_signed(8 + 8 * i64::from(imm)),
                    ),
                });
            }
            functions.insert((section.index(), symbol.address()), function);
        }
    }
    functions
}

/// Returns the most stack that a function needs with all that it calls, and their names.
fn with_all_below(functions: &HashMap<Key, Function>, key: Key) -> (u64, Vec<&str>) {
    let Some(function) = functions.get(&key) else {
        return (0, Vec::new());
    };
    let below = function.calls.iter();
    let below = below.map(|called| with_all_below(functions, *called)).max();
    let (bytes, mut names) = below.unwrap_or_default();
    names.push(&function.name);
    (function.depth.max(1).next_multiple_of(32) + bytes, names)
}

#[test]
fn what_programs_call_fits_the_stack_that_old_kernels_give() {
    let file = File::parse(object()).unwrap();
    let text = file.section_by_name(".text").unwrap().index();
    let functions = functions(&file);
    let programs = functions
        .iter()
        .filter(|((section, _), _)| *section != text);
    let mut seen = 0;
    for (_, program) in programs {
        let own = program.depth.max(1).next_multiple_of(32);
        for called in &program.calls {
            let (below, names) = with_all_below(&functions, *called);
            let name = &program.name;
            assert!(own + below <= MOST, "{name}: {own} and {below}: {names:?}");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}
