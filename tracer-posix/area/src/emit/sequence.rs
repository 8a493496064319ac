//! An emission as a restartable sequence (`rseq`): the usual way of an event into a chunk.
//!
//! The C library registers a small structure for each thread with the kernel. A thread stores the
//! address of a descriptor there, and is in the descriptor's sequence while it executes the
//! instructions that the descriptor names. A thread that is preempted, migrated or interrupted by a
//! signal meanwhile does not go on, but begins the sequence again. So:
//!
//! - nothing else that this thread does comes in between: a handler that interrupts an emission,
//!   and emits, is done before the emission begins anew, and one that never returns
//!   (`siglongjmp()`, `pthread_exit()`) leaves nothing half done;
//! - what is recorded has a time from after the last interruption. A reader in the same process
//!   reads the clock and makes the kernel interrupt every thread (`process::restart_emissions`):
//!   nothing that is not recorded yet can carry an older time.
//!
//! The sequence ends with the store that moves the chunk's head past the record. Where there is no
//! `rseq`, `Chunk::write` does the same, in Rust.

/// Result of an emission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Outcome {
    /// The event is recorded.
    Recorded = 0,
    /// There is no chunk, or no space in it.
    NoSpace = 1,
    /// The stream has ended.
    Stale = 2,
    /// The stream's gate is shut.
    NotAccepted = 3,
    /// The sequence was interrupted. Nothing is recorded: try again.
    Interrupted = 4,
}

/// Offset of the descriptor's address in the kernel's structure.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const RSEQ_CS: usize = 8;
/// Offset of the CPU in that structure.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const RSEQ_CPU: usize = 4;

impl Outcome {
    /// Decodes the value that the sequence has left in its register.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    fn of_register(outcome: u64) -> Self {
        match outcome {
            0 => Self::Recorded,
            1 => Self::NoSpace,
            2 => Self::Stale,
            3 => Self::NotAccepted,
            _ => Self::Interrupted,
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::emit;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::emit;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::mem::offset_of;
    use std::arch::asm;

    use tracer_common::area::{ChunkHeader, StreamControl, WINDOW_BYTES, emitters};

    use super::{Outcome, RSEQ_CPU, RSEQ_CS};
    use crate::emit::thread::PerStream;
    use crate::layout::record::{Emission, last_word};

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
                #[cfg(feature = "coarse-clock")]
                "and rax, -{coarse_tick}",
                "mov rdx, qword ptr [{per_stream} + {per_stream_control}]",
                "cmp rax, qword ptr [rdx + {lease}]",
                "ja 38f",
                "mov qword ptr [{at}], rax",
                // The record is there.
                "mov qword ptr [{chunk}], {next}",
                "32:",
                "xor eax, eax",
                "jmp 33f",
                // An invalid instruction that contains the signature. The code behind it is part of
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
                lease = const offset_of!(StreamControl, accepts_until),
                alone = const emitters::ONE,
                begun = const offset_of!(ChunkHeader, begun),
                window = const WINDOW_BYTES,
                #[cfg(feature = "coarse-clock")]
                coarse_tick = const crate::layout::ticks::COARSE_TICK,
                options(nostack),
            );
        }
        Outcome::of_register(outcome)
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use core::mem::offset_of;
    use std::arch::asm;

    use tracer_common::area::{ChunkHeader, StreamControl, WINDOW_BYTES};

    use super::{Outcome, RSEQ_CPU, RSEQ_CS};
    use crate::emit::thread::PerStream;
    use crate::layout::record::{Emission, last_word};

    /// Records an event in the thread's chunk, if there is space.
    ///
    /// The steps are those on x86-64, with two differences. On x86-64 other threads see each store
    /// after those before it; here the last store has to ask for that (`stlr`), as the reader's
    /// load of the head (`Chunk::head`) expects. And here a thread that emits alone waits for its
    /// loads too: the processor may do them in any order, so a thread that has seen what another
    /// thread did may not see that thread's note yet.
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
                "adrp {a}, 30b",
                "add {a}, {a}, :lo12:30b",
                "str {a}, [{rseq}, #{rseq_cs}]",
                "31:",
                // The chunk and its head.
                "ldr {chunk}, [{per_stream}, #{per_stream_chunk}]",
                "cbz {chunk}, 35f",
                "ldr {a}, [{chunk}]",
                "mov {at:w}, {a:w}",
                // Bytes of the record, and whether there is space.
                "lsr {next}, {third}, #48",
                "add {next}, {next}, #31",
                "and {next}, {next}, #-8",
                "add {b}, {at}, {next}",
                "ldr {c}, [{per_stream}, #{per_stream_limit}]",
                "cmp {b}, {c}",
                "b.hi 35f",
                // What the head will be.
                "add {next}, {next}, {a}",
                "mov {b}, #0x100000000",
                "add {next}, {next}, {b}",
                // The mark, in the chunk's header.
                "and {a}, {chunk}, #-{window}",
                "and {b}, {chunk}, #{window} - 1",
                "lsr {b}, {b}, {shift}",
                "add {a}, {a}, {b}",
                "str {next}, [{a}, #{begun}]",
                // Whether the stream still is the one that the chunk was opened for.
                "ldr {a}, [{per_stream}, #{per_stream_control}]",
                "ldr {b:w}, [{a}, #{generation}]",
                "ldr {c:w}, [{per_stream}, #{per_stream_generation}]",
                "cmp {b:w}, {c:w}",
                "b.ne 37f",
                // The record but for its time.
                "add {at}, {at}, {chunk}",
                "ldr {b:w}, [{rseq}, #{rseq_cpu}]",
                "add {b:w}, {b:w}, #1",
                "orr {b}, {second}, {b}, lsl #48",
                "str {b}, [{at}, #8]",
                "str {third}, [{at}, #16]",
                "add {c}, {at}, #24",
                "lsr {b}, {third}, #51",
                "cbz {b}, 42f",
                "41:",
                "sub {b}, {b}, #1",
                "ldr {a}, [{data}, {b}, lsl #3]",
                "str {a}, [{c}, {b}, lsl #3]",
                "cbnz {b}, 41b",
                "42:",
                "lsr {b}, {third}, #48",
                "tst {b}, #7",
                "b.eq 43f",
                "and {b}, {b}, #0xfff8",
                "str {last}, [{c}, {b}]",
                "43:",
                // The time, when earlier loads have their values.
                "dsb ishld",
                "isb",
                "mrs {a}, cntvct_el0",
                "ldr {b}, [{per_stream}, #{per_stream_control}]",
                "ldr {b}, [{b}, #{lease}]",
                "cmp {a}, {b}",
                "b.hi 38f",
                "str {a}, [{at}]",
                // The record is there.
                "stlr {next}, [{chunk}]",
                "32:",
                "mov {a}, #0",
                "b 33f",
                // An invalid instruction: the signature. The code behind it is part of the
                // function: a handler may unwind it from there.
                ".inst 0xd428bc00",
                "34:",
                "mov {a}, #4",
                "b 33f",
                "35:",
                "mov {a}, #1",
                "b 33f",
                "37:",
                "mov {a}, #2",
                "b 33f",
                "38:",
                "mov {a}, #3",
                "33:",
                rseq = in(reg) rseq,
                per_stream = in(reg) per_stream,
                data = in(reg) words.as_ptr(),
                second = in(reg) emission.second_word(),
                third = in(reg) emission.third_word(),
                last = in(reg) last,
                shift = in(reg) per_stream.header_shift.get(),
                chunk = out(reg) _,
                at = out(reg) _,
                next = out(reg) _,
                a = out(reg) outcome,
                b = out(reg) _,
                c = out(reg) _,
                rseq_cs = const RSEQ_CS,
                rseq_cpu = const RSEQ_CPU,
                per_stream_chunk = const offset_of!(PerStream, chunk),
                per_stream_limit = const offset_of!(PerStream, limit),
                per_stream_control = const offset_of!(PerStream, control),
                per_stream_generation = const offset_of!(PerStream, generation),
                generation = const offset_of!(StreamControl, generation),
                lease = const offset_of!(StreamControl, accepts_until),
                begun = const offset_of!(ChunkHeader, begun),
                window = const WINDOW_BYTES,
                options(nostack),
            );
        }
        Outcome::of_register(outcome)
    }
}

/// Stands in on other processors, for which no sequence is written yet. No thread calls it there,
/// since none is restartable.
///
/// # Safety
///
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) unsafe fn emit(
    _rseq: *mut u8,
    _per_stream: &super::thread::PerStream,
    _emission: &crate::layout::record::Emission<'_>,
) -> Outcome {
    Outcome::Interrupted
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
#[expect(clippy::unwrap_used, reason = "a test fails by a panic")]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicPtr, AtomicU64};

    use tracer_common::area::{ChunkHeader, StreamControl, WINDOW_BYTES, type_number};
    use tracer_common::event_type::EventTypeId;

    use super::*;
    use crate::emit::thread::{PerStream, Role};
    use crate::layout::chunk::{Chunk, Cursor, Found, Head, Moment};
    use crate::layout::record::Emission;
    use crate::layout::ticks::TickSource;

    const CHUNK_BYTES: usize = 16 << 10;
    const GENERATION: u32 = 5;
    const CPU: u32 = 2;

    /// A window, as the memory of a stream has them: headers at the start, and then chunks.
    struct Window {
        words: &'static [AtomicU64],
    }

    impl Window {
        fn new() -> Self {
            // SAFETY: asks for new memory, of which nothing else knows.
            let memory = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    2 * WINDOW_BYTES,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(memory, libc::MAP_FAILED);
            let aligned = memory.map_addr(|address| address.next_multiple_of(WINDOW_BYTES));
            // SAFETY: it is mapped, all zeros, for as long as the process lives.
            let words = unsafe { std::slice::from_raw_parts(aligned.cast(), WINDOW_BYTES / 8) };
            Self { words }
        }

        fn chunk(&self, index: usize) -> Chunk<'static> {
            let chunk_words = CHUNK_BYTES / 8;
            let words = &self.words[index * chunk_words..][..chunk_words];
            let begun = index * size_of::<ChunkHeader>() + std::mem::offset_of!(ChunkHeader, begun);
            Chunk::new(words, &self.words[begun / 8]).unwrap()
        }

        fn address(&self, index: usize) -> *mut u8 {
            let word = &raw const self.words[index * CHUNK_BYTES / 8];
            word.cast_mut().cast()
        }
    }

    /// The structure that is registered for a thread, as far as the sequence looks at it.
    #[repr(C, align(32))]
    struct Registered {
        cpus: [u32; 2],
        descriptor: Cell<*const Descriptor>,
    }

    /// Descriptor of a sequence, as the kernel reads it.
    #[repr(C)]
    struct Descriptor {
        version_and_flags: [u32; 2],
        start: u64,
        length: u64,
        abort: *const [u8; 4],
    }

    struct Thread {
        registered: Registered,
        per_stream: PerStream,
        control: &'static StreamControl,
    }

    impl Thread {
        /// Makes a thread whose chunk is the second of the window. The headers are in the first.
        fn new(window: &Window) -> Self {
            // SAFETY: all of it is atomics, for which zeros are valid.
            let control: StreamControl = unsafe { std::mem::zeroed() };
            control.generation.store(GENERATION, Relaxed);
            control.accepts_until.store(u64::MAX, Relaxed);
            let control: &'static StreamControl = Box::leak(Box::new(control));
            let shift = (CHUNK_BYTES / size_of::<ChunkHeader>()).trailing_zeros();
            Self {
                registered: Registered {
                    cpus: [CPU; 2],
                    descriptor: Cell::new(std::ptr::null()),
                },
                per_stream: PerStream {
                    chunk: AtomicPtr::new(window.address(1).cast()),
                    control: Cell::new(control),
                    limit: Cell::new(CHUNK_BYTES as u64 - 8),
                    header_shift: Cell::new(shift.into()),
                    generation: Cell::new(GENERATION),
                    max_data: Cell::new(1024),
                    role: Cell::new(Role::Emitter),
                },
                control,
            }
        }

        fn emit(&self, data: &[u8]) -> Outcome {
            let registered = (&raw const self.registered).cast_mut().cast();
            // SAFETY: the structure is this thread's, though the kernel does not know of it; the
            // chunk is of a window of the shape that the slot says.
            unsafe { emit(registered, &self.per_stream, &emission(data)) }
        }
    }

    impl Moment for &Thread {
        fn is_current(&self) -> bool {
            true
        }

        fn ticks(&self) -> u64 {
            TickSource::CycleCounter.now()
        }

        fn accepts(&self, _: u64) -> bool {
            true
        }

        fn cpu_plus_one(&self) -> u16 {
            u16::try_from(CPU).unwrap() + 1
        }
    }

    fn emission(data: &[u8]) -> Emission<'_> {
        Emission {
            event_type: EventTypeId::UNNAMED_USEREVENT,
            number: type_number::UNNAMED,
            address: 0x1234_5678_9abc,
            data,
            is_truncated: data.len() == 7,
        }
    }

    #[test]
    fn it_writes_what_is_written_without_it() {
        let window = Window::new();
        let thread = Thread::new(&window);
        let (ours, plain) = (window.chunk(1), window.chunk(2));
        ours.clear(1, 0);
        plain.clear(1, 0);
        let bytes: Vec<u8> = (1..=255).collect();
        let mut ticks = Vec::new();
        let (mut at, mut plain_at) = (Cursor::START, Cursor::START);
        for length in 0..=70 {
            let data = &bytes[..length];
            let before = TickSource::CycleCounter.now();
            assert_eq!(thread.emit(data), Outcome::Recorded);
            let after = TickSource::CycleCounter.now();
            assert_eq!(plain.write(&emission(data), &&thread), Ok(()));
            assert_eq!(ours.head(), plain.head(), "{length}");
            assert_eq!(ours.under_way(), None, "the mark is where the head is");

            let (mut read, mut plain_read) = (Vec::new(), Vec::new());
            let record = at.next(ours, ours.head(), &mut read);
            let plain_record = plain_at.next(plain, plain.head(), &mut plain_read);
            let (Found::Record(record), Found::Record(plain_record)) = (record, plain_record)
            else {
                panic!("{length}");
            };
            assert_eq!(read, data);
            assert_eq!(plain_read, data);
            assert!((before..=after).contains(&record.ticks));
            ticks.push(record.ticks);
            let mut expected = plain_record;
            expected.ticks = record.ticks;
            assert_eq!(record, expected);
            assert_eq!(record.cpu, Some(CPU));
        }
        assert!(ticks.is_sorted());
        assert_eq!(ours.head().events(), 71);
    }

    #[test]
    fn the_kernel_finds_the_sequence_and_its_signature() {
        /// Signature with which glibc registers threads (`RSEQ_SIG` of its `sys/rseq.h`).
        const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") {
            0xd428_bc00
        } else {
            0x5305_3053
        };
        let window = Window::new();
        let thread = Thread::new(&window);
        window.chunk(1).clear(1, 0);
        assert_eq!(thread.emit(b"x"), Outcome::Recorded);

        let descriptor = thread.registered.descriptor.get();
        assert!(descriptor.is_aligned() && descriptor.addr().is_multiple_of(32));
        // SAFETY: the sequence has left the address of its descriptor there.
        let descriptor = unsafe { &*descriptor };
        assert_eq!(descriptor.version_and_flags, [0, 0]);
        assert!((40..400).contains(&descriptor.length));
        let abort = descriptor.abort.addr() as u64;
        let is_inside = (descriptor.start..descriptor.start + descriptor.length).contains(&abort);
        assert!(!is_inside, "the kernel refuses it");
        let before = descriptor.abort.wrapping_sub(1);
        // SAFETY: it is code of this function, before an instruction of it.
        let before = unsafe { before.read() };
        assert_eq!(u32::from_le_bytes(before), SIGNATURE);
    }

    #[test]
    fn what_cannot_be_recorded_changes_no_record() {
        let window = Window::new();
        let thread = Thread::new(&window);
        let chunk = window.chunk(1);
        chunk.clear(1, 0);

        thread.control.generation.store(GENERATION + 1, Relaxed);
        assert_eq!(thread.emit(b"x"), Outcome::Stale);
        thread.control.generation.store(GENERATION, Relaxed);
        thread.control.accepts_until.store(1, Relaxed);
        assert_eq!(thread.emit(b"x"), Outcome::NotAccepted);
        thread.control.accepts_until.store(u64::MAX, Relaxed);
        assert_eq!(chunk.head(), Head::EMPTY);
        assert!(chunk.under_way().is_some(), "the mark was set before");

        let mut recorded = 0;
        while thread.emit(&[7; 1000]) == Outcome::Recorded {
            recorded += 1;
        }
        assert_eq!(recorded, (CHUNK_BYTES as u64 - 64 - 8) / 1024);
        assert_eq!(thread.emit(&[7; 1000]), Outcome::NoSpace);
        assert_eq!(chunk.head().events(), recorded);
        thread.per_stream.chunk.store(std::ptr::null_mut(), Relaxed);
        assert_eq!(thread.emit(b""), Outcome::NoSpace);
    }
}
