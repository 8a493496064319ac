//! The registers of a program, as the kernel saves them and as files name them, and its memory that
//! was copied.

use tracer_common::kernel::REGISTERS;

/// Number of registers that files name.
const COUNT: usize = 32;

/// Layout of a machine's registers.
#[derive(Debug)]
struct Machine {
    /// Bytes of `struct pt_regs`.
    bytes: u32,
    /// Offset of each register that files name, from the first one on.
    offsets: &'static [usize],
    /// Offset of the address at which the program continues.
    ip: usize,
    /// The index of the stack pointer.
    stack: u16,
    /// Registers that a function leaves as they were, if nothing is said of them.
    saved: &'static [usize],
    /// The word, its bits and their value, by which the program has 32 bits.
    narrow: (usize, u64, u64),
    /// Bits of an address of code: others may be signed.
    code: u64,
}

#[cfg(target_arch = "x86_64")]
const MACHINE: Machine = Machine {
    bytes: 21 * 8,
    // rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15
    offsets: &[10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0],
    ip: 16,
    stack: 7,
    saved: &[3, 6, 12, 13, 14, 15],
    // The code segment of programs of 32 bits.
    narrow: (17, 0xffff, 0x23),
    code: u64::MAX,
};

#[cfg(target_arch = "aarch64")]
const MACHINE: Machine = Machine {
    bytes: 34 * 8,
    offsets: &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27, 28, 29, 30, 31,
    ],
    ip: 32,
    stack: 31,
    // With the link register: a function that calls none may leave its return there.
    saved: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30],
    narrow: (33, 0x10, 0x10),
    code: (1 << 48) - 1,
};

/// Bytes of `struct pt_regs`.
pub const REGISTERS_BYTES: u32 = MACHINE.bytes;

/// The registers of a function.
#[derive(Clone, Debug)]
pub struct Registers {
    /// Address at which the function continues.
    pub ip: u64,
    /// Values by index; `None` where unknown.
    values: [Option<u64>; COUNT],
}

impl Registers {
    /// Reads the registers as the kernel has saved them.
    ///
    /// # Errors
    ///
    /// The program has 32 bits; the error is the address at which it continues.
    pub fn from_kernel(words: &[u64; REGISTERS]) -> Result<Self, u64> {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let (at, bits, value) = MACHINE.narrow;
        if word(at) & bits == value {
            return Err(word(MACHINE.ip));
        }
        let mut values = [None; COUNT];
        for (to, from) in values.iter_mut().zip(MACHINE.offsets) {
            *to = Some(word(*from));
        }
        Ok(Self {
            ip: word(MACHINE.ip),
            values,
        })
    }

    /// Returns the registers of a thread of which only these two are known.
    pub fn of_thread(ip: u64, stack: u64) -> Self {
        let mut registers = Self {
            ip,
            values: [None; COUNT],
        };
        registers.set(MACHINE.stack, Some(stack));
        registers
    }

    /// Returns the registers of a function's caller as far as they are known: its stack pointer,
    /// and those that functions leave as they were.
    pub fn restore_caller(&self, stack: u64) -> Self {
        let mut values = [None; COUNT];
        for index in MACHINE.saved {
            if let (Some(to), Some(from)) = (values.get_mut(*index), self.values.get(*index)) {
                *to = *from;
            }
        }
        let mut caller = Self { ip: 0, values };
        caller.set(MACHINE.stack, Some(stack));
        caller
    }

    /// Returns the register of this index.
    pub fn get(&self, index: u16) -> Option<u64> {
        self.values.get(usize::from(index)).copied().flatten()
    }

    /// Sets it.
    pub fn set(&mut self, index: u16, value: Option<u64>) {
        if let Some(to) = self.values.get_mut(usize::from(index)) {
            *to = value;
        }
    }

    /// Returns the stack pointer.
    pub fn stack(&self) -> u64 {
        self.get(MACHINE.stack).unwrap_or(0)
    }
}

/// Returns an address of code without the bits that sign it.
pub fn code(address: u64) -> u64 {
    address & MACHINE.code
}

/// Copied part of a stack, from its innermost end on.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Address in the program at which it begins.
    pub start: u64,
    /// Bytes that were there.
    pub bytes: &'a [u8],
}

impl Memory<'_> {
    /// Returns the word at an address; `None` where it was not copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8)
    }

    /// Returns `count` bytes at an address, eight at most.
    pub fn bytes(&self, address: u64, count: u8) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..)?.get(..usize::from(count))?;
        let mut word = [0; 8];
        let to = if cfg!(target_endian = "little") {
            word.get_mut(..bytes.len())
        } else {
            word.get_mut(8_usize.checked_sub(bytes.len())?..)
        };
        to?.copy_from_slice(bytes);
        Some(u64::from_ne_bytes(word))
    }
}
