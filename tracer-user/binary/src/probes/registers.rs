//! Offsets of the saved registers: `struct pt_regs` of this machine, which is part of the kernel's
//! interface (`<asm/ptrace.h>`) and has the layout of libc's `user_regs_struct`.

/// Register or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its offset in the saved registers, in bytes.
    pub offset: u16,
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::mem::offset_of;

    use libc::user_regs_struct as Saved;

    /// Offset of the instruction's address.
    pub const ADDRESS: usize = offset_of!(Saved, rip);
    /// Offsets of the registers that pass the first arguments.
    pub const ARGUMENTS: [usize; 6] = [
        offset_of!(Saved, rdi),
        offset_of!(Saved, rsi),
        offset_of!(Saved, rdx),
        offset_of!(Saved, rcx),
        offset_of!(Saved, r8),
        offset_of!(Saved, r9),
    ];
    /// Offset of the register that returns the result.
    pub const RESULT: usize = offset_of!(Saved, rax);

    /// Name of the whole register, of its lower half, quarter and eighth.
    const NAMES: [([&str; 4], usize); 17] = [
        (["rip", "eip", "ip", ""], ADDRESS),
        (["rax", "eax", "ax", "al"], offset_of!(Saved, rax)),
        (["rbx", "ebx", "bx", "bl"], offset_of!(Saved, rbx)),
        (["rcx", "ecx", "cx", "cl"], offset_of!(Saved, rcx)),
        (["rdx", "edx", "dx", "dl"], offset_of!(Saved, rdx)),
        (["rsi", "esi", "si", "sil"], offset_of!(Saved, rsi)),
        (["rdi", "edi", "di", "dil"], offset_of!(Saved, rdi)),
        (["rbp", "ebp", "bp", "bpl"], offset_of!(Saved, rbp)),
        (["rsp", "esp", "sp", "spl"], offset_of!(Saved, rsp)),
        (["r8", "r8d", "r8w", "r8b"], offset_of!(Saved, r8)),
        (["r9", "r9d", "r9w", "r9b"], offset_of!(Saved, r9)),
        (["r10", "r10d", "r10w", "r10b"], offset_of!(Saved, r10)),
        (["r11", "r11d", "r11w", "r11b"], offset_of!(Saved, r11)),
        (["r12", "r12d", "r12w", "r12b"], offset_of!(Saved, r12)),
        (["r13", "r13d", "r13w", "r13b"], offset_of!(Saved, r13)),
        (["r14", "r14d", "r14w", "r14b"], offset_of!(Saved, r14)),
        (["r15", "r15d", "r15w", "r15b"], offset_of!(Saved, r15)),
    ];

    /// Second lowest bytes of registers.
    const HIGH_BYTES: [(&str, usize); 4] = [
        ("ah", offset_of!(Saved, rax) + 1),
        ("bh", offset_of!(Saved, rbx) + 1),
        ("ch", offset_of!(Saved, rcx) + 1),
        ("dh", offset_of!(Saved, rdx) + 1),
    ];

    pub fn offset(name: &str) -> Option<usize> {
        if name.is_empty() {
            return None;
        }
        let whole = NAMES.iter().find(|(names, _)| names.contains(&name));
        let whole = whole.map(|(_, offset)| *offset);
        whole.or_else(|| {
            let high = HIGH_BYTES.iter().find(|(high, _)| *high == name);
            high.map(|(_, offset)| *offset)
        })
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use std::mem::offset_of;

    use libc::user_regs_struct as Saved;

    /// Offset of the instruction's address.
    pub const ADDRESS: usize = offset_of!(Saved, pc);
    /// Offsets of the registers that pass the first arguments.
    pub const ARGUMENTS: [usize; 6] = [0, 8, 16, 24, 32, 40];
    /// Offset of the register that returns the result.
    pub const RESULT: usize = 0;

    pub fn offset(name: &str) -> Option<usize> {
        if name == "sp" {
            return Some(offset_of!(Saved, sp));
        }
        let index: usize = name.strip_prefix(['x', 'w'])?.parse().ok()?;
        (index < 31).then_some(index * 8)
    }
}

/// Returns the register of this name.
pub fn named(name: &str) -> Option<Register> {
    machine::offset(name).map(at)
}

/// Returns the register of the instruction's address.
pub fn address() -> Register {
    at(machine::ADDRESS)
}

/// Returns the registers that pass the first arguments.
pub fn arguments() -> [Register; 6] {
    machine::ARGUMENTS.map(at)
}

/// Returns the register that returns the result.
pub fn result() -> Register {
    at(machine::RESULT)
}

fn at(offset: usize) -> Register {
    // The saved registers are some hundred bytes.
    let offset = u16::try_from(offset).unwrap_or(u16::MAX);
    Register { offset }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_register_lie_where_it_lies() {
        for name in ["rax", "eax", "ax", "al"] {
            assert_eq!(named(name), Some(result()), "{name}");
        }
        assert_eq!(named("ah").unwrap().offset, result().offset + 1);
        assert_eq!(named("r9d"), Some(arguments()[5]));
        assert_eq!(named("xmm0"), None);
        assert_eq!(named("rip"), Some(address()));
        assert_eq!(named(""), None);
    }
}
