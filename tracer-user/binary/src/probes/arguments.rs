//! Arguments of static probes as their notes describe them: `-4@%edi 8@-8(%rbp) 8@$5`, a size and
//! an operand of the assembler each.
//!
//! Arguments that are variables of the program: `8+table(%rip)`, an address relative to that of the
//! instruction.

use tracer_common::kernel::{ProbeArgument, probe_source};

use super::registers::{Register, named};

/// One argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocatedArgument {
    /// Location of its value.
    pub location: ProbeArgument,
    /// Signed integer.
    pub is_signed: bool,
}

impl LocatedArgument {
    /// Returns a register as a whole, whatever the function takes it for.
    pub fn in_register(register: Register) -> Self {
        let location = ProbeArgument {
            register: register.offset,
            source: probe_source::REGISTER,
            ..nowhere(8)
        };
        Self {
            location,
            is_signed: true,
        }
    }
}

/// Returns the arguments that `described` lists. What cannot be read on this machine (a
/// floating-point register, an address relative to the instruction) is an argument without a
/// location.
pub fn parse(described: &str) -> Vec<LocatedArgument> {
    split(described).iter().map(|word| argument(word)).collect()
}

/// Splits a description into arguments. An operand may have spaces (`8@[sp, 16]`): each argument
/// starts with its size.
fn split(described: &str) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    for word in described.split_ascii_whitespace() {
        let size = word.split_once('@').map(|(size, _)| size);
        let is_start = size.is_some_and(|size| size_and_sign(size).is_some());
        match arguments.last_mut() {
            Some(last) if !is_start => last.push_str(word),
            _ => arguments.push(word.to_owned()),
        }
    }
    arguments
}

fn argument(word: &str) -> LocatedArgument {
    // Old assemblers left the size out.
    let (typed, operand) = word.split_once('@').unwrap_or(("8", word));
    let Some((size, is_signed)) = size_and_sign(typed) else {
        return LocatedArgument {
            location: nowhere(8),
            is_signed: false,
        };
    };
    let location = match typed.ends_with('f') {
        true => None,
        false => operand_location(operand, size),
    };
    LocatedArgument {
        location: location.unwrap_or_else(|| nowhere(size)),
        is_signed,
    }
}

/// Reads the size and sign: `-4`, `8`, or `8f` for a floating-point value.
fn size_and_sign(typed: &str) -> Option<(u8, bool)> {
    let signed_size: i8 = typed.strip_suffix('f').unwrap_or(typed).parse().ok()?;
    let size = signed_size.unsigned_abs();
    matches!(size, 1 | 2 | 4 | 8).then_some((size, signed_size < 0))
}

fn operand_location(operand: &str, size: u8) -> Option<ProbeArgument> {
    if cfg!(target_arch = "aarch64") {
        arm_location(operand, size)
    } else {
        x86_location(operand, size)
    }
}

/// Reads an operand such as `$5`, `%eax`, `-8(%rbp)`, `16(%rax,%rbx,4)`.
fn x86_location(operand: &str, size: u8) -> Option<ProbeArgument> {
    if let Some(constant) = operand.strip_prefix('$') {
        return Some(constant_of(integer(constant)?, size));
    }
    if let Some(register) = operand.strip_prefix('%') {
        return Some(ProbeArgument {
            register: named(register)?.offset,
            source: probe_source::REGISTER,
            ..nowhere(size)
        });
    }
    let (displacement, rest) = operand.split_once('(')?;
    let inside = rest.strip_suffix(')')?;
    let value = match displacement {
        "" => 0,
        typed => integer(typed)?,
    };
    let mut parts = inside.split(',').map(str::trim);
    let register = |part: &str| named(part.strip_prefix('%')?).map(|register| register.offset);
    let memory = ProbeArgument {
        value,
        register: register(parts.next()?)?,
        source: probe_source::MEMORY,
        ..nowhere(size)
    };
    let Some(index) = parts.next() else {
        return Some(memory);
    };
    let scale: u8 = parts.next().unwrap_or("1").parse().ok()?;
    if !matches!(scale, 1 | 2 | 4 | 8) {
        return None;
    }
    Some(ProbeArgument {
        index: register(index)?,
        source: probe_source::INDEXED,
        shift: u8::try_from(scale.trailing_zeros()).ok()?,
        ..memory
    })
}

/// Reads an operand such as `5`, `x1`, `[sp]`, `[x0,16]`.
fn arm_location(operand: &str, size: u8) -> Option<ProbeArgument> {
    if let Some(inside) = operand.strip_prefix('[') {
        let inside = inside.strip_suffix(']')?;
        let (register, value) = match inside.split_once(',') {
            Some((register, value)) => (register, integer(value.trim())?),
            None => (inside, 0),
        };
        return Some(ProbeArgument {
            value,
            register: named(register.trim())?.offset,
            source: probe_source::MEMORY,
            ..nowhere(size)
        });
    }
    if let Some(register) = named(operand) {
        return Some(ProbeArgument {
            register: register.offset,
            source: probe_source::REGISTER,
            ..nowhere(size)
        });
    }
    Some(constant_of(integer(operand)?, size))
}

fn constant_of(value: u64, size: u8) -> ProbeArgument {
    ProbeArgument {
        value,
        source: probe_source::CONSTANT,
        ..nowhere(size)
    }
}

/// Returns an argument without a location that can be read.
const fn nowhere(size: u8) -> ProbeArgument {
    ProbeArgument {
        value: 0,
        register: 0,
        index: 0,
        source: probe_source::NONE,
        size,
        shift: 0,
        is_text: 0,
    }
}

/// Reads an integer as the assembler writes it, wrapped to 64 bits.
fn integer(typed: &str) -> Option<u64> {
    let (is_negative, digits) = match typed.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, typed.strip_prefix('+').unwrap_or(typed)),
    };
    let absolute = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if is_negative {
        absolute.wrapping_neg()
    } else {
        absolute
    })
}

/// Suffix that makes an argument relative.
pub const BASE: &str = "(%rip)";

/// Returns the description with each such variable as an integer: its distance from `probe`, the
/// address of the probe. `address_of` knows variables by name; those that it does not know stay as
/// they are.
pub fn resolved(described: &str, probe: u64, address_of: impl Fn(&str) -> Option<u64>) -> String {
    let word = |word: &str| {
        let (size, operand) = word.split_once('@')?;
        let expression = operand.strip_suffix(BASE)?;
        let address = sum(expression, &address_of)?;
        let distance = address.wrapping_sub(probe).cast_signed();
        Some(format!("{size}@{distance}{BASE}"))
    };
    let words = described.split_ascii_whitespace();
    let words = words.map(|typed| word(typed).unwrap_or_else(|| typed.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the value of `8+table-4`: integers, and at least one variable.
fn sum(expression: &str, address_of: &impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut total = 0_u64;
    let mut has_variable = false;
    let mut rest = expression;
    while !rest.is_empty() {
        let (is_negative, unsigned) = match rest.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, rest.strip_prefix('+').unwrap_or(rest)),
        };
        let end = unsigned.find(['+', '-']).unwrap_or(unsigned.len());
        let (term, after) = unsigned.split_at(end);
        let value = match term.parse() {
            Ok(value) => value,
            Err(_) if is_negative => return None,
            Err(_) => {
                has_variable = true;
                address_of(term)?
            }
        };
        total = if is_negative {
            total.wrapping_sub(value)
        } else {
            total.wrapping_add(value)
        };
        rest = after;
    }
    has_variable.then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(described: &str) -> Vec<u8> {
        let arguments = parse(described);
        arguments
            .iter()
            .map(|found| found.location.source)
            .collect()
    }

    #[test]
    fn sizes_and_signs_are_read() {
        let arguments = parse("-4@$5 8@$0x10 -1@$-3");
        let shown: Vec<_> = arguments
            .iter()
            .map(|found| (found.location.size, found.is_signed, found.location.value))
            .collect();
        assert_eq!(
            shown,
            [
                (4, true, 5),
                (8, false, 16),
                (1, true, 3_u64.wrapping_neg())
            ]
        );
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn operands_of_the_x86_assembler_are_read() {
        use super::super::registers::named;
        let offset = |name| named(name).unwrap().offset;

        let arguments = parse("8@%rax -4@-20(%rbp) 8@8(%rax,%rbx,4) 1@(%rcx,%rdx)");
        let [register, memory, indexed, unscaled] = &arguments[..] else {
            panic!("{arguments:?}");
        };
        assert_eq!(register.location.register, offset("rax"));
        assert_eq!(memory.location.value.cast_signed(), -20);
        assert_eq!(memory.location.register, offset("rbp"));
        assert_eq!(
            (
                indexed.location.index,
                indexed.location.shift,
                indexed.location.value
            ),
            (offset("rbx"), 2, 8)
        );
        assert_eq!(
            (unscaled.location.source, unscaled.location.shift),
            (probe_source::INDEXED, 0)
        );
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_cannot_be_read_is_an_argument_all_the_same() {
        const NONE: u8 = probe_source::NONE;
        let described = "8f@%xmm0 8@counter(%rip) 4@%nosuch 8@ junk 8@(%rax,%rbx,3) 8@%rax";
        assert_eq!(
            sources(described),
            [NONE, NONE, NONE, NONE, NONE, probe_source::REGISTER]
        );
        assert!(sources("").is_empty());
        // Bytes that a damaged file may hold.
        for junk in [
            "@",
            "@@@",
            "-@-",
            "99@%rax",
            "8@$",
            "8@(",
            "8@)(",
            "4@-(%rax)",
        ] {
            assert!(sources(junk).iter().all(|source| *source == NONE), "{junk}");
        }
    }

    #[test]
    fn operands_of_the_arm_assembler_are_read_with_their_spaces() {
        assert_eq!(split("8@[sp, 16] -4@x1"), ["8@[sp,16]", "-4@x1"]);
        assert_eq!(
            arm_location("7", 4).map(|location| (location.source, location.value)),
            Some((probe_source::CONSTANT, 7))
        );
    }

    fn at(name: &str) -> Option<u64> {
        (name == "table").then_some(0x4000)
    }

    #[test]
    fn variables_become_distances() {
        assert_eq!(
            resolved("-1@table(%rip) 8@8+table(%rip)", 0x4010, at),
            "-1@-16(%rip) 8@-8(%rip)"
        );
        assert_eq!(resolved("4@table-4+1(%rip)", 0, at), "4@16381(%rip)");
    }

    #[test]
    fn what_is_none_or_unknown_stays() {
        for same in [
            "8@%rax",
            "8@other(%rip)",
            "8@-table(%rip)",
            "8@5(%rip)",
            "4@+(%rip)",
        ] {
            assert_eq!(resolved(same, 1, at), same);
        }
    }
}
