//! An emission as a restartable sequence (`rseq`): the usual way of an event into a chunk.
//!
//! The C library registers a small structure for each thread with the kernel. A thread that stores
//! the address of a descriptor there is in the descriptor's sequence while it executes its
//! instructions: whoever is preempted, migrated or interrupted by a signal meanwhile does not go
//! on, but begins the sequence again. So:
//!
//! - nothing else that this thread does comes in between: a handler that interrupts an emission,
//!   and emits, is done before the emission begins anew, and one that never returns
//!   (`siglongjmp()`, `pthread_exit()`) leaves nothing half done;
//! - what is recorded has a time from after the last interruption. A reader in the same process
//!   reads the clock and makes the kernel interrupt every thread (`process::restart_emissions`):
//!   nothing that is not recorded yet can carry an older time.
//!
//! The sequence ends with the store that moves the chunk's head past the record. `Chunk::write`
//! does the same where there is no `rseq`, and says it in Rust.

/// What became of an emission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Outcome {
    /// It is recorded.
    Recorded = 0,
    /// There is no chunk, or no space in it.
    NoSpace = 1,
    /// The stream has ended.
    Stale = 2,
    /// Its controller gave no sign of life for too long.
    LeaseExpired = 3,
    /// It was interrupted. Nothing is recorded: try again.
    Interrupted = 4,
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::emit;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::mem::offset_of;
    use std::arch::asm;

    use tracer_common::area::{ChunkHeader, StreamControl, WINDOW_BYTES, emitters};

    use super::Outcome;
    use crate::emit::thread::PerStream;
    use crate::layout::record::{Emission, last_word};

    /// Where the kernel's structure has the address of the descriptor, and the CPU.
    const RSEQ_CS: usize = 8;
    const RSEQ_CPU: usize = 4;

    /// Records an event in the thread's chunk, if there is space.
    ///
    /// # Safety
    ///
    /// `rseq` is this thread's structure, which the C library has registered. The slot is this
    /// thread's, and its chunk is null or that of a mapped window, of the shape that the slot's
    /// `limit` and `header_shift` say. The data has at most 65,535 bytes.
    #[inline(always)]
    pub(in super::super) unsafe fn emit(
        rseq: *mut u8,
        per_stream: &PerStream,
        emission: &Emission<'_>,
    ) -> Outcome {
        let (words, rest) = emission.data.as_chunks::<8>();
        let last = if rest.is_empty() { 0 } else { last_word(rest) };
        let outcome: u64;
        // SAFETY: all that is written lies within the chunk, or is its header's mark: the offset in
        // the head, which other processes may write, is checked against the slot's own limit. The
        // descriptor names the instructions between its labels, and an address to continue at,
        // which the signature precedes.
        unsafe {
            asm!(
                // The descriptor: version and flags, start, length, where to go on when
                // interrupted.
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "30:",
                ".long 0, 0",
                ".quad 31f, 32f - 31f, 34f",
                ".popsection",
                "lea rax, [rip + 30b]",
                "mov qword ptr [{rseq} + {rseq_cs}], rax",
                "31:",
                // The chunk and its head.
                "mov {chunk}, qword ptr [{per_stream} + {per_stream_chunk}]",
                "test {chunk}, {chunk}",
                "jz 35f",
                "mov rax, qword ptr [{chunk}]",
                "mov {at:e}, eax",
                // Bytes of the record, and whether there is space.
                "mov {next}, {third}",
                "shr {next}, 48",
                "add {next}, 31",
                "and {next}, -8",
                "lea rdx, [{at} + {next}]",
                "cmp rdx, qword ptr [{per_stream} + {per_stream_limit}]",
                "ja 35f",
                // What the head will be.
                "add {next}, rax",
                "mov edx, 1",
                "shl rdx, 32",
                "add {next}, rdx",
                // The mark, in the chunk's header.
                "mov rax, {chunk}",
                "mov rdx, {chunk}",
                "and rax, -{window}",
                "and edx, {window} - 1",
                "shr rdx, cl",
                "mov qword ptr [rax + rdx + {begun}], {next}",
                // Whether the stream still is the one that the chunk was opened for.
                "mov rax, qword ptr [{per_stream} + {per_stream_control}]",
                "mov edx, dword ptr [rax + {generation}]",
                "cmp edx, dword ptr [{per_stream} + {per_stream_generation}]",
                "jne 37f",
                // The record but for its time.
                "add {at}, {chunk}",
                "mov edx, dword ptr [{rseq} + {rseq_cpu}]",
                "inc edx",
                "shl rdx, 48",
                "or rdx, {second}",
                "mov qword ptr [{at} + 8], rdx",
                "mov qword ptr [{at} + 16], {third}",
                "mov rdx, {third}",
                "shr rdx, 51",
                "jz 42f",
                "41:",
                "mov rax, qword ptr [{data} + rdx * 8 - 8]",
                "mov qword ptr [{at} + rdx * 8 + 16], rax",
                "dec rdx",
                "jnz 41b",
                "42:",
                "mov rdx, {third}",
                "shr rdx, 48",
                "test dl, 7",
                "jz 43f",
                "and edx, 0xfff8",
                "mov qword ptr [{at} + rdx + 24], {last}",
                "43:",
                // The time. A thread that emits alone need not wait for its loads.
                "mov rax, qword ptr [{per_stream} + {per_stream_control}]",
                "cmp dword ptr [rax + {emitters}], {alone}",
                "je 44f",
                "lfence",
                "44:",
                "rdtsc",
                "shl rdx, 32",
                "or rax, rdx",
                "mov rdx, qword ptr [{per_stream} + {per_stream_control}]",
                "cmp rax, qword ptr [rdx + {lease}]",
                "ja 38f",
                "mov qword ptr [{at}], rax",
                // The record is there.
                "mov qword ptr [{chunk}], {next}",
                "32:",
                "xor eax, eax",
                "jmp 33f",
                // An instruction that is none, with the signature in it. What follows is part of
                // the function: a handler may unwind it from there.
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "34:",
                "mov eax, 4",
                "jmp 33f",
                "35:",
                "mov eax, 1",
                "jmp 33f",
                "37:",
                "mov eax, 2",
                "jmp 33f",
                "38:",
                "mov eax, 3",
                "33:",
                rseq = in(reg) rseq,
                per_stream = in(reg) per_stream,
                data = in(reg) words.as_ptr(),
                second = in(reg) emission.second_word(),
                third = in(reg) emission.third_word(),
                last = in(reg) last,
                chunk = out(reg) _,
                at = out(reg) _,
                next = out(reg) _,
                in("rcx") per_stream.header_shift.get(),
                out("rax") outcome,
                out("rdx") _,
                rseq_cs = const RSEQ_CS,
                rseq_cpu = const RSEQ_CPU,
                per_stream_chunk = const offset_of!(PerStream, chunk),
                per_stream_limit = const offset_of!(PerStream, limit),
                per_stream_control = const offset_of!(PerStream, control),
                per_stream_generation = const offset_of!(PerStream, generation),
                generation = const offset_of!(StreamControl, generation),
                emitters = const offset_of!(StreamControl, emitters),
                lease = const offset_of!(StreamControl, lease_until),
                alone = const emitters::ONE,
                begun = const offset_of!(ChunkHeader, begun),
                window = const WINDOW_BYTES,
                options(nostack),
            );
        }
        match outcome {
            0 => Outcome::Recorded,
            1 => Outcome::NoSpace,
            2 => Outcome::Stale,
            3 => Outcome::LeaseExpired,
            _ => Outcome::Interrupted,
        }
    }
}

/// Elsewhere no sequence is written yet: a slot is never restartable.
///
/// # Safety
///
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn emit(
    _rseq: *mut u8,
    _per_stream: &super::thread::PerStream,
    _emission: &crate::layout::record::Emission<'_>,
) -> Outcome {
    Outcome::Interrupted
}
