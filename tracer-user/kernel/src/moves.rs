//! Code that processes move (`mremap`). The kernel does not report this to profilers, so two small
//! eBPF programs, where that call begins and where it ends, report it into the rings that all other
//! reports go to.
//!
//! The programs run only when that call is made, and cost nothing elsewhere. Where the kernel
//! attaches no programs to its functions, they run at all system calls instead, if these are
//! recorded anyway: otherwise this would cost every process of the machine too much. From the
//! beginning of the call to its end, the moved code is unknown, since another thread may run it
//! meanwhile.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use aya::Btf;
use aya_obj::btf::BtfKind;

use super::assembled::{self, ADD, Assembly, COPY, Instruction, READ, SET, WRITE, register};
use super::call::{self, bpf};
use super::mapping::page_bytes;
use super::perf::{self, EventAttributes};
use super::shared_memory;
use tracer_binary::stacks::Mapping;

/// `MREMAP_FIXED`.
const FIXED: u64 = 2;

/// Call that moves, or resizes, what a process has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Address of what is moved.
    old: u64,
    old_bytes: u64,
    new_bytes: u64,
    /// Address that it is moved to; `None` where the kernel chooses one.
    wanted: Option<u64>,
}

impl Move {
    /// Returns the move that a call with these arguments makes.
    pub(super) fn new([old, old_bytes, new_bytes, flags, new]: [u64; 5]) -> Self {
        let page = u64::try_from(page_bytes()).unwrap_or(4096);
        let whole = |bytes: u64| bytes.checked_next_multiple_of(page).unwrap_or(bytes);
        Self {
            old,
            old_bytes: whole(old_bytes),
            new_bytes: whole(new_bytes),
            wanted: (flags & FIXED != 0).then_some(new),
        }
    }

    /// Returns mappings of nothing at the addresses that are unknown from the beginning of the call
    /// on.
    pub fn unknown_before(&self) -> impl Iterator<Item = Mapping> + use<> {
        let old = nothing_at(self.old, self.old_bytes);
        let new = self.wanted.and_then(|new| nothing_at(new, self.new_bytes));
        old.into_iter().chain(new)
    }

    /// Returns a mapping of nothing at the address that the call returned, where nothing is left of
    /// what was there before; `None` where the call failed.
    pub fn unknown_after(&self, result: u64) -> Option<Mapping> {
        nothing_at(self.done(result)?, self.new_bytes)
    }

    /// Returns the addresses of what is moved.
    pub(super) fn moved(&self) -> Range<u64> {
        self.old..self.old.saturating_add(self.old_bytes)
    }

    /// Returns where a part of what was moved is after the call; `None` where it is gone.
    pub(super) fn place(&self, part: &Mapping, result: u64) -> Option<Mapping> {
        let Some(new) = self.done(result) else {
            return Some(part.clone());
        };
        let moved = self.moved();
        let grown = self.new_bytes.saturating_sub(self.old_bytes);
        let end = if part.end == moved.end && grown > 0 {
            part.end.checked_add(grown)?
        } else {
            part.end.min(self.old.checked_add(self.new_bytes)?)
        };
        let to = |address: u64| new.checked_add(address.checked_sub(self.old)?);
        (part.start < end).then_some(Mapping {
            start: to(part.start)?,
            end: to(end)?,
            ..part.clone()
        })
    }

    fn done(&self, result: u64) -> Option<u64> {
        // Results in the last page of addresses are errors.
        (result < u64::MAX - 4095).then_some(result)
    }
}

fn nothing_at(start: u64, bytes: u64) -> Option<Mapping> {
    let end = start.checked_add(bytes)?;
    (start < end).then(|| Mapping::nothing_at(start, end))
}

/// Beginning, or end with its result, of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// The call begins.
    Begins,
    /// The call has ended with this result.
    Ended(u64),
}

/// Number of words of the registers that are read, and the places of the call's arguments among
/// them.
#[cfg(target_arch = "x86_64")]
mod registers {
    pub const WORDS: usize = 15;
    pub const ARGUMENTS: [usize; 5] = [14, 13, 12, 7, 9];
    pub const COMPAT_ARGUMENTS: [usize; 5] = [5, 11, 12, 13, 14];
    /// Offset of the number of the call, and its bytes.
    pub const CALL: (i32, usize) = (120, 8);
}
#[cfg(target_arch = "aarch64")]
mod registers {
    pub const WORDS: usize = 5;
    pub const ARGUMENTS: [usize; 5] = [0, 1, 2, 3, 4];
    pub const COMPAT_ARGUMENTS: [usize; 5] = ARGUMENTS;
    /// Offset of the number of the call, and its bytes.
    pub const CALL: (i32, usize) = (280, 4);
}

/// Number of the call in programs of 64 bits, and of 32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers of calls are small"
)]
const CALL: i32 = libc::SYS_mremap as i32;
const COMPAT_CALL: i32 = 163;

/// The kernel's functions of the call, with the number of each.
#[cfg(target_arch = "x86_64")]
const FUNCTIONS: [(&str, i32); 2] = [
    ("__x64_sys_mremap", CALL),
    ("__ia32_sys_mremap", COMPAT_CALL),
];
#[cfg(target_arch = "aarch64")]
const FUNCTIONS: [(&str, i32); 1] = [("__arm64_sys_mremap", CALL)];

/// Words of a report: whether the call ends, its number, the result, the registers.
const WORDS: usize = 3 + registers::WORDS;

/// Reads a report of the programs; `None` for other bytes.
pub(super) fn parse(data: &[u8]) -> Option<(Move, MoveStep)> {
    let (words, _) = data.as_chunks::<{ size_of::<u64>() }>();
    let words: &[[u8; 8]; WORDS] = words.first_chunk()?;
    let word = |at: usize| Some(u64::from_ne_bytes(*words.get(at)?));
    // In programs of the other kind, this number may be that of another call: the report then makes
    // some code unknown.
    let is_compat = word(1)? == u64::from(COMPAT_CALL.cast_unsigned());
    let places = if is_compat {
        registers::COMPAT_ARGUMENTS
    } else {
        registers::ARGUMENTS
    };
    let mut arguments = [0; 5];
    for (argument, place) in arguments.iter_mut().zip(places) {
        *argument = word(3 + place)?;
        if is_compat {
            *argument &= u64::from(u32::MAX);
        }
    }
    let step = if word(0)? == 0 {
        MoveStep::Begins
    } else {
        MoveStep::Ended(word(2)?)
    };
    Some((Move::new(arguments), step))
}

/// Functions that the programs may be attached to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MoveHooks<'a> {
    /// The kernel's own types, by which the programs are attached to the functions of the call
    /// alone.
    pub btf: Option<&'a Btf>,
    /// Whether the programs may run at all system calls, where the kernel does not attach them to
    /// functions: other programs run there anyway.
    pub at_calls: bool,
}

/// The attached programs, and the events that they report to.
#[derive(Debug)]
pub(super) struct MoveReports {
    _attached: Vec<OwnedFd>,
    _events: Vec<OwnedFd>,
    /// Map of the events by CPU. It is kept open, since the kernel empties it once its descriptor
    /// is closed.
    _map: OwnedFd,
}

impl MoveReports {
    /// Begins to report into the rings of these events, one on each CPU. Moves are left out where
    /// the kernel does not take those programs, or does not attach them to its functions.
    ///
    /// # Errors
    ///
    /// The kernel takes no programs that report.
    pub fn begin<'a>(
        hooks: MoveHooks<'_>,
        sample_type: u64,
        rings: impl Iterator<Item = (u32, BorrowedFd<'a>)>,
    ) -> io::Result<Self> {
        const ARRAY_OF_EVENTS: u32 = 4;
        const CREATE: libc::c_int = 0;
        let cpus = aya::util::nr_cpus().map_err(|(_, source)| source)?;
        let cpus = u32::try_from(cpus).map_err(io::Error::other)?;
        let attributes: [u32; 5] = [ARRAY_OF_EVENTS, 4, 4, cpus, 0];
        // SAFETY: it names nothing in memory.
        let map = unsafe { bpf(CREATE, &attributes) }?;
        let mut events = Vec::new();
        for (cpu, ring) in rings {
            let event = open_event(cpu, sample_type)?;
            perf::report_into(&event, ring)?;
            call::set_descriptor(&map, cpu, &event)?;
            events.push(event);
        }
        let attached = attach_to_functions(hooks.btf, &map).or_else(|error| {
            if !hooks.at_calls {
                return Err(error);
            }
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "no program at functions of the kernel, so all system calls are looked at"
            );
            attach_to_calls(&map)
        });
        let mut attached = attached.unwrap_or_else(|error| {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "moves of code are not reported"
            );
            Vec::new()
        });
        attached.push(shared_memory::attach(&map)?);
        Ok(Self {
            _attached: attached,
            _events: events,
            _map: map,
        })
    }
}

/// Returns what the program is called in the kernel.
fn name(ends: bool) -> &'static str {
    if ends { "move_ends" } else { "move_begins" }
}

/// Attaches the programs to the kernel's functions of the call, so that they run at this call
/// alone.
fn attach_to_functions(btf: Option<&Btf>, map: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let btf = btf.ok_or_else(|| io::Error::other("the kernel has no types of its own"))?;
    let mut attached = Vec::new();
    for (index, (function, number)) in FUNCTIONS.into_iter().enumerate() {
        let id = match btf.id_by_type_name_kind(function, BtfKind::Func) {
            Ok(id) => id,
            // The kernel does not run programs of 32 bits.
            Err(_) if index > 0 => continue,
            Err(source) => return Err(io::Error::other(source)),
        };
        for ends in [false, true] {
            let program = assemble(map, ends, Some(number));
            attached.push(assembled::attach_to_function(
                name(ends),
                &program,
                id,
                ends,
            )?);
        }
    }
    Ok(attached)
}

/// Attaches the programs where all system calls begin and end.
fn attach_to_calls(map: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let places = [(c"sys_enter", false), (c"sys_exit", true)];
    let attached = places.into_iter().map(|(place, ends)| {
        let program = assembled::load(name(ends), &assemble(map, ends, None))?;
        call::attach(&program, Some(place))
    });
    attached.collect()
}

/// Opens an event into which programs report on a CPU.
fn open_event(cpu: u32, sample_type: u64) -> io::Result<OwnedFd> {
    const SOFTWARE: u32 = 1;
    const OF_PROGRAMS: u64 = 10;
    /// `sample_id_all`, `use_clockid`.
    const FLAGS: u64 = 1 << 18 | 1 << 25;
    let attributes = EventAttributes {
        kind: SOFTWARE,
        config: OF_PROGRAMS,
        sample_period: 1,
        sample_type,
        flags: FLAGS,
        clock: libc::CLOCK_MONOTONIC,
        ..EventAttributes::default()
    };
    perf::open_on(attributes, cpu)
}

/// Returns the program that reports where the call begins, or where it ends. With a `number`, the
/// program runs at the function of the call with this number. Without one, it runs at all system
/// calls, and reports this one alone. The context has the address of the process's registers.
/// Behind it, a beginning has the number of the call, and an end has the result.
fn assemble(map: &OwnedFd, ends: bool, number: Option<i32>) -> Vec<Instruction> {
    const CONTEXT: u8 = 6;
    const NUMBER: u8 = 7;
    /// Loads 32 bits from an address into a register.
    const READ_HALF: u8 = 0x61;
    const AND: u8 = 0x57;
    /// Jumps where a register has a value.
    const JUMP_IF: u8 = 0x15;
    /// Bits of a call's number, without the one that marks x32.
    const NUMBERS: i32 = 0x3fff_ffff;
    #[expect(clippy::cast_possible_truncation, reason = "a few words")]
    const BYTES: i16 = (WORDS * size_of::<u64>()) as i16;
    const REGISTERS: i16 = BYTES - 24;
    let mut program = Assembly::default();
    program.put(COPY, CONTEXT, register::FIRST, 0);
    match number {
        Some(number) => program.put(SET, NUMBER, 0, number),
        None => {
            if ends {
                let (offset, bytes) = registers::CALL;
                program.put_at(READ, register::THIRD, CONTEXT, 0, 0);
                program.put(ADD, register::THIRD, 0, offset);
                program.read_word(bytes);
                program.put_at(READ_HALF, NUMBER, register::FRAME, Assembly::WORD, 0);
            } else {
                program.put_at(READ, NUMBER, CONTEXT, 8, 0);
            }
            program.put(AND, NUMBER, 0, NUMBERS);
            // Jumps past the next instruction.
            program.put_at(JUMP_IF, NUMBER, 0, 1, CALL);
            program.leave_unless(NUMBER, COMPAT_CALL);
        }
    }
    program.put(COPY, register::FIRST, register::FRAME, 0);
    program.put(ADD, register::FIRST, 0, (-REGISTERS).into());
    program.put_at(READ, register::THIRD, CONTEXT, 0, 0);
    program.read(registers::WORDS * size_of::<u64>());
    program.put(SET, register::FIRST, 0, ends.into());
    program.put_at(WRITE, register::FRAME, register::FIRST, -BYTES, 0);
    program.put_at(WRITE, register::FRAME, NUMBER, 8 - BYTES, 0);
    if ends {
        program.put_at(READ, register::FIRST, CONTEXT, 8, 0);
    }
    program.put_at(WRITE, register::FRAME, register::FIRST, 16 - BYTES, 0);
    put_report(&mut program, map, CONTEXT, BYTES);
    program.finish()
}

/// Adds what reports the lowest `bytes` of the stack to the events in `map`; `context` has the
/// program's context.
pub(super) fn put_report(program: &mut Assembly, map: &OwnedFd, context: u8, bytes: i16) {
    const FOURTH: u8 = 4;
    const FIFTH: u8 = 5;
    const OUTPUT: i32 = 25;
    /// A constant that is a map's descriptor.
    const MAP: u8 = 1;
    /// Flag for the event of the CPU that the program runs on.
    const THIS_CPU: u32 = u32::MAX;
    program.put(COPY, register::FIRST, context, 0);
    program.load(register::SECOND, MAP, map.as_raw_fd().cast_unsigned(), 0);
    program.load(register::THIRD, 0, THIS_CPU, 0);
    program.put(COPY, FOURTH, register::FRAME, 0);
    program.put(ADD, FOURTH, 0, (-bytes).into());
    program.put(SET, FIFTH, 0, bytes.into());
    program.call(OUTPUT);
    program.put(SET, register::RESULT, 0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, end: u64) -> Mapping {
        Mapping {
            start,
            end,
            file_offset: 0x5000,
            path: b"/a".as_slice().into(),
            ..Mapping::default()
        }
    }

    #[test]
    fn a_part_is_where_it_was_moved_to_or_is_gone() {
        let page = u64::try_from(page_bytes()).unwrap();
        let at = |pages: u64| pages * page;
        let place = |arguments: [u64; 5], from: u64, to: u64, result: u64| {
            let moved = Move::new(arguments);
            let found = moved.place(&part(at(from), at(to)), result)?;
            assert_eq!(found.file_offset, 0x5000);
            Some((found.start / page, found.end / page))
        };
        let moved = [at(16), at(4), at(4), 1 | FIXED, at(64)];
        assert_eq!(place(moved, 16, 20, at(64)), Some((64, 68)));
        assert_eq!(place(moved, 17, 18, at(64)), Some((65, 66)));
        // The call failed: all is where it was.
        assert_eq!(
            place(moved, 17, 18, (-12_i64).cast_unsigned()),
            Some((17, 18))
        );
        // Grown where it is, and shrunk.
        let grown = [at(16), at(4), at(8) - 5, 0, 0];
        assert_eq!(place(grown, 16, 20, at(16)), Some((16, 24)));
        assert_eq!(place(grown, 16, 19, at(16)), Some((16, 19)));
        let shrunk = [at(16), at(4), at(2), 0, 0];
        assert_eq!(place(shrunk, 16, 20, at(16)), Some((16, 18)));
        assert_eq!(place(shrunk, 18, 20, at(16)), None);
        // Addresses beyond the last one.
        let beyond = [u64::MAX - 10, u64::MAX, u64::MAX, FIXED, u64::MAX - 10];
        assert_eq!(Move::new(beyond).unknown_before().count(), 0);
        assert!(
            Move::new(beyond)
                .place(&part(at(1), at(2)), at(9))
                .is_none()
        );
    }

    #[test]
    fn a_report_of_any_length_is_refused_or_read_within_it() {
        let mut words = [0_u64; WORDS];
        words[..3].copy_from_slice(&[1, u64::from(CALL.cast_unsigned()), 0x9000]);
        for (value, place) in [0x1000, 0x2000, 0x3000, 3, 0x9000]
            .into_iter()
            .zip(registers::ARGUMENTS)
        {
            words[3 + place] = value;
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (moved, step) = parse(&bytes).unwrap();
        assert_eq!(step, MoveStep::Ended(0x9000));
        assert_eq!(moved.wanted, Some(0x9000));
        assert_eq!(moved.moved(), 0x1000..0x3000.max(0x1000 + moved.old_bytes));
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length]).is_none());
        }
    }
}
