//! Finds the exits of a function: its return instructions, in its code.
//!
//! The kernel can stop at the return of a function by itself, by writing over the return address on
//! the stack. Other code that reads or moves that stack fails: an exception that unwinds through
//! the function ends the program, and so does Go when a stack grows; coroutines continue elsewhere.
//! A probe at the instruction that returns writes nothing on any stack.
//!
//! It sees every way out only where the whole code can be decoded. Where that is not certain the
//! function is refused, with the reason.

/// Piece of a function's code. A compiler may put seldom executed code elsewhere.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Offset in the file.
    pub offset: u64,
    /// The code.
    pub code: Vec<u8>,
}

/// Beginning and ends of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Borders {
    /// Offset in the file of its beginning: behind the check of the stack, where that comes back to
    /// the start.
    pub entry: u64,
    /// Offsets in the file of its return instructions.
    pub returns: Vec<u64>,
    /// Offsets in the file at which it continues in another function, which returns to its caller
    /// (a tail call).
    pub tail_calls: Vec<u64>,
}

/// Reason why it is not certain where a function is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDecoded {
    /// Size that is not known.
    #[error("its size is not known")]
    NoSize,
    /// Bytes that are no instruction.
    #[error("what is at +{0:#x} is no instruction")]
    NoInstruction(u64),
    /// Jump to a computed address.
    #[error("the jump at +{0:#x} may leave it, or not: its address is computed")]
    ComputedJump(u64),
    /// Conditional jump to another function.
    #[error("the conditional jump at +{0:#x} leaves it or not")]
    ConditionalLeave(u64),
    /// Loop over its first instruction.
    #[error("the jump at +{0:#x} goes back to its first instruction, as a call would")]
    LoopsToStart(u64),
    /// Function that no instruction leaves.
    #[error("no instruction of it returns")]
    NeverReturns,
}

/// Returns the borders of the function whose code is in these pieces, the one with its start first;
/// whether its language has tail calls, so that a jump by a table may be one: to a function of
/// several.
pub fn borders(pieces: &[Piece], has_tail_calls: bool) -> Result<Borders, NotDecoded> {
    let start = match pieces.first() {
        Some(first) if !first.code.is_empty() => first.offset,
        _ => return Err(NotDecoded::NoSize),
    };
    let is_inside = |address: u64| {
        pieces.iter().any(|piece| {
            let within = address.checked_sub(piece.offset);
            within.is_some_and(|within| within < piece.code.len() as u64)
        })
    };
    let mut found = Borders {
        entry: start,
        ..Borders::default()
    };
    let mut back_to_start = None;
    for piece in pieces {
        machine::walk(piece, |step| {
            let at = step.at;
            let into = at.wrapping_sub(start);
            match step.kind {
                Kind::Plain => {}
                Kind::Return => found.returns.push(at),
                Kind::Jump { target, .. } if target == start => back_to_start = Some(at),
                Kind::Jump { target, .. } if is_inside(target) => {}
                Kind::Jump {
                    is_conditional: true,
                    ..
                } => return Err(NotDecoded::ConditionalLeave(into)),
                Kind::Jump { .. } | Kind::JumpElsewhere => found.tail_calls.push(at),
                Kind::ByTable if !has_tail_calls => {}
                Kind::ByTable | Kind::Computed => return Err(NotDecoded::ComputedJump(into)),
                Kind::Invalid => return Err(NotDecoded::NoInstruction(into)),
            }
            Ok(())
        })?;
    }
    if let Some(at) = back_to_start {
        // Go compares the stack pointer with the end of the stack first, and comes back when the
        // stack has grown.
        let checked = pieces.first().and_then(machine::after_stack_check);
        found.entry = checked.ok_or(NotDecoded::LoopsToStart(at.wrapping_sub(start)))?;
    }
    if found.returns.is_empty() && found.tail_calls.is_empty() {
        return Err(NotDecoded::NeverReturns);
    }
    Ok(found)
}

/// One instruction.
struct Step {
    /// Offset in the file.
    at: u64,
    kind: Kind,
}

enum Kind {
    /// Instruction behind which the function continues, or a jump to within the function or to a
    /// function that returns there.
    Plain,
    Return,
    Jump {
        target: u64,
        is_conditional: bool,
    },
    /// Jump to an address of another function, in a table of the linker.
    JumpElsewhere,
    /// Jump to one of the addresses of a table: of a switch, or of functions.
    ByTable,
    /// Jump to a computed address.
    Computed,
    Invalid,
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

    use super::{Kind, NotDecoded, Piece, Step};

    pub(super) fn walk(
        piece: &Piece,
        mut take: impl FnMut(Step) -> Result<(), NotDecoded>,
    ) -> Result<(), NotDecoded> {
        let mut decoder = decoder(piece);
        let mut before: Option<Instruction> = None;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let kind = kind_of(&instruction, before.as_ref());
            take(Step {
                at: instruction.ip(),
                kind,
            })?;
            before = Some(instruction);
        }
        Ok(())
    }

    fn decoder(piece: &Piece) -> Decoder<'_> {
        Decoder::with_ip(64, &piece.code, piece.offset, DecoderOptions::NONE)
    }

    fn kind_of(instruction: &Instruction, before: Option<&Instruction>) -> Kind {
        if instruction.is_invalid() {
            return Kind::Invalid;
        }
        let jump = |is_conditional| Kind::Jump {
            target: instruction.near_branch_target(),
            is_conditional,
        };
        match instruction.flow_control() {
            FlowControl::Return => Kind::Return,
            FlowControl::UnconditionalBranch if instruction.op0_kind() != OpKind::NearBranch64 => {
                Kind::Computed
            }
            FlowControl::UnconditionalBranch => jump(false),
            FlowControl::ConditionalBranch => jump(true),
            FlowControl::IndirectBranch => indirect(instruction, before),
            FlowControl::Next
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Interrupt
            | FlowControl::XbeginXabortXend
            | FlowControl::Exception => Kind::Plain,
        }
    }

    /// Classifies a jump to an address that is not in the instruction.
    fn indirect(instruction: &Instruction, before: Option<&Instruction>) -> Kind {
        // `notrack`: only to within the function is a compiler certain that it may jump so.
        if instruction.segment_prefix() == Register::DS {
            return Kind::Plain;
        }
        if instruction.op0_kind() == OpKind::Memory {
            // `jmp *symbol@GOTPCREL(%rip)`.
            if instruction.is_ip_rel_memory_operand() {
                return Kind::JumpElsewhere;
            }
            let is_indexed = instruction.memory_index() != Register::None;
            return if is_indexed && instruction.memory_index_scale() == 8 {
                // `jmp *table(,%rax,8)`.
                Kind::ByTable
            } else {
                Kind::Computed
            };
        }
        // `add %rdx, %rax; jmp *%rax`: a switch whose table has distances.
        let is_sum = before.is_some_and(|before| {
            before.mnemonic() == Mnemonic::Add
                && before.op0_kind() == OpKind::Register
                && before.op1_kind() == OpKind::Register
                && before.op0_register() == instruction.op0_register()
        });
        if is_sum { Kind::Plain } else { Kind::Computed }
    }

    /// Returns the offset of the code behind a comparison of the stack pointer, if the function
    /// begins with one.
    pub(super) fn after_stack_check(piece: &Piece) -> Option<u64> {
        const LONGEST: usize = 4;
        let is_stack = |instruction: &Instruction| {
            (0..instruction.op_count()).any(|nth| {
                let of_register = instruction.op_kind(nth) == OpKind::Register;
                of_register && instruction.op_register(nth) == Register::RSP
                    || instruction.memory_base() == Register::RSP
            })
        };
        let mut decoder = decoder(piece);
        let mut has_stack = false;
        for _ in 0..LONGEST {
            let instruction = decoder.decode();
            has_stack |= is_stack(&instruction);
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch if has_stack => return Some(instruction.next_ip()),
                _ => return None,
            }
        }
        None
    }
}

#[cfg(not(target_arch = "x86_64"))]
use arm64 as machine;

/// Decoder for arm64, whose instructions are four bytes each.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod arm64 {
    use super::{Kind, NotDecoded, Piece, Step};

    pub(super) fn walk(
        piece: &Piece,
        mut take: impl FnMut(Step) -> Result<(), NotDecoded>,
    ) -> Result<(), NotDecoded> {
        let (words, rest) = piece.code.as_chunks::<4>();
        for (at, word) in (piece.offset..).step_by(4).zip(words) {
            let kind = kind_of(u32::from_le_bytes(*word), at);
            take(Step { at, kind })?;
        }
        match rest {
            [] => Ok(()),
            _ => take(Step {
                at: piece.offset.wrapping_add(words.len() as u64 * 4),
                kind: Kind::Invalid,
            }),
        }
    }

    fn kind_of(word: u32, at: u64) -> Kind {
        let jump = |first: u32, bits: u32, is_conditional| {
            let distance = u64::from(word >> first) << (64 - bits);
            let distance = (distance.cast_signed() >> (64 - bits)).wrapping_mul(4);
            Kind::Jump {
                target: at.wrapping_add_signed(distance),
                is_conditional,
            }
        };
        match word {
            // ret, retaa, retab.
            _ if word & 0xffff_fc1f == 0xd65f_0000 => Kind::Return,
            0xd65f_0bff | 0xd65f_0fff => Kind::Return,
            // br, braa and their like.
            _ if word & 0xfeff_f000 == 0xd61f_0000 => Kind::Computed,
            // b.
            _ if word & 0xfc00_0000 == 0x1400_0000 => jump(0, 26, false),
            // b.cond, cbz, cbnz; tbz, tbnz.
            _ if word & 0xff00_0000 == 0x5400_0000 => jump(5, 19, true),
            _ if word & 0x7e00_0000 == 0x3400_0000 => jump(5, 19, true),
            _ if word & 0x7e00_0000 == 0x3600_0000 => jump(5, 14, true),
            // Permanently undefined, as data among code may be.
            _ if word >> 16 == 0 => Kind::Invalid,
            _ => Kind::Plain,
        }
    }

    /// Returns the offset of the code behind a comparison of the stack pointer: not known here.
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "for arm64"))]
    pub(super) fn after_stack_check(_piece: &Piece) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;

    #[cfg(target_arch = "x86_64")]
    fn find_borders(code: &[u8]) -> Result<Borders, NotDecoded> {
        let code = code.to_vec();
        borders(
            &[Piece {
                offset: START,
                code,
            }],
            true,
        )
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn each_return_is_found_and_a_tail_call_too() {
        // test %edi,%edi; je 1f; xor %eax,%eax; ret; 1: jmp far away
        let code = [0x85, 0xff, 0x74, 0x03, 0x31, 0xc0, 0xc3, 0xe9, 0, 1, 0, 0];
        let found = find_borders(&code).unwrap();
        assert_eq!(found.entry, START);
        assert_eq!(found.returns, [START + 6]);
        assert_eq!(found.tail_calls, [START + 7]);
        // jmp *0x100(%rip)
        let found = find_borders(&[0xff, 0x25, 0, 1, 0, 0]).unwrap();
        assert_eq!(found.tail_calls, [START]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_not_certain_is_refused() {
        assert_eq!(find_borders(&[]), Err(NotDecoded::NoSize));
        // je far away; ret
        let code = [0x0f, 0x84, 0, 1, 0, 0, 0xc3];
        assert_eq!(find_borders(&code), Err(NotDecoded::ConditionalLeave(0)));
        // jmp *%rax; jmp *0x10(%rax)
        assert_eq!(
            find_borders(&[0xff, 0xe0]),
            Err(NotDecoded::ComputedJump(0))
        );
        assert_eq!(
            find_borders(&[0xff, 0x60, 0x10]),
            Err(NotDecoded::ComputedJump(0))
        );
        assert_eq!(
            find_borders(&[0x90, 0x06]),
            Err(NotDecoded::NoInstruction(1))
        );
        // nop; jmp to itself
        assert_eq!(
            find_borders(&[0x90, 0xeb, 0xfe]),
            Err(NotDecoded::NeverReturns)
        );
        // nop; jmp to the start
        assert_eq!(
            find_borders(&[0x90, 0xeb, 0xfd]),
            Err(NotDecoded::LoopsToStart(1))
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn switches_stay_in_their_function() {
        let stays = |code: &[u8]| {
            let found = find_borders(code).unwrap();
            assert_eq!((found.returns.len(), found.tail_calls.len()), (1, 0));
        };
        // add %rdx,%rax; jmp *%rax; ret
        stays(&[0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3]);
        // notrack jmp *%rax; ret
        stays(&[0x3e, 0xff, 0xe0, 0xc3]);
        // notrack jmp *0(,%rax,8); ret
        stays(&[0x3e, 0xff, 0x24, 0xc5, 0, 0, 0, 0, 0xc3]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_table_may_be_of_functions_where_there_are_tail_calls() {
        // jmp *0(,%rax,8); ret
        let code = vec![0xff, 0x24, 0xc5, 0, 0, 0, 0, 0xc3];
        assert_eq!(find_borders(&code), Err(NotDecoded::ComputedJump(0)));
        let of_go = Piece {
            offset: START,
            code,
        };
        let found = borders(&[of_go], false).unwrap();
        assert_eq!((found.returns.len(), found.tail_calls.len()), (1, 0));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn code_that_lies_elsewhere_belongs_to_it() {
        // je to the other piece; ret. There: jmp back.
        let main = Piece {
            offset: START,
            code: vec![0x0f, 0x84, 0xfa, 0x0f, 0, 0, 0xc3],
        };
        let cold = Piece {
            offset: 2 * START,
            code: vec![0xe9, 1, 0xf0, 0xff, 0xff],
        };
        assert_eq!(
            borders(std::slice::from_ref(&main), true),
            Err(NotDecoded::ConditionalLeave(0))
        );
        let found = borders(&[main, cold], true).unwrap();
        assert_eq!(found.returns, [START + 6]);
        assert!(found.tail_calls.is_empty());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_stack_that_grows_does_not_begin_the_function_twice() {
        // cmp 0x10(%r14),%rsp; jbe 1f; nop; ret; 1: call far away; jmp to the start
        let code = [
            0x49, 0x3b, 0x66, 0x10, 0x76, 2, 0x90, 0xc3, 0xe8, 0, 1, 0, 0, 0xeb, 0xf1,
        ];
        let found = find_borders(&code).unwrap();
        assert_eq!(found.entry, START + 6);
        assert_eq!(found.returns, [START + 7]);
    }

    #[test]
    fn returns_of_arm64_are_found() {
        let mut seen = Vec::new();
        let words: [u32; 9] = [
            0xd503_233f, // paciasp
            0x3400_0060, // cbz w0, +12
            0x1400_0100, // b +0x400
            0xd65f_03c0, // ret
            0xd65f_0bff, // retaa
            0xd61f_0200, // br x16
            0xd71f_0a00, // braa x16, x0
            0xd63f_0200, // blr x16
            0x0000_0000, // udf #0
        ];
        let piece = Piece {
            offset: START,
            code: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        };
        arm64::walk(&piece, |step| {
            seen.push(match step.kind {
                Kind::Plain => "plain".to_owned(),
                Kind::Return => "return".to_owned(),
                Kind::Jump {
                    target,
                    is_conditional,
                } => format!("{:#x} {is_conditional}", target - step.at),
                Kind::Computed => "computed".to_owned(),
                Kind::Invalid => "invalid".to_owned(),
                Kind::ByTable | Kind::JumpElsewhere => "wrong".to_owned(),
            });
            Ok(())
        })
        .unwrap();
        let expected = [
            "plain",
            "0xc true",
            "0x400 false",
            "return",
            "return",
            "computed",
            "computed",
            "plain",
            "invalid",
        ];
        assert_eq!(seen, expected);
    }
}
