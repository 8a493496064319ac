//! The eBPF programs: one file per event family.
//!
//! Each program asks first whether the process is traced and the type wanted, the type first where
//! a helper has to say which process it is; then it reserves the record, reads the clock, fills
//! the record and submits it. See [`record`] for why in that order.
//!
//! Every program exists twice, from the same code: for a BTF tracepoint, where fields of the
//! kernel's structs are loaded directly, and for a raw tracepoint, where a helper reads them
//! ([`context`]). The agent loads the first and falls back to the second.
//!
//! Where a field lies is not known here: [`offsets`] are read-only globals that the agent sets
//! from the BTF of the running kernel.
//!
//! # Building
//!
//! `cargo xtask build-ebpf` runs this, with `bpf-linker` 0.13 (LLVM 22) on the path, takes what is
//! for debuggers out of `target/ebpf/bpfel-unknown-none/release/tracer-ebpf`, and leaves the rest
//! in `tracer-user/kernel/ebpf/tracer-ebpf.o`, which is a part of the repository. Paths of the
//! machine are taken out of it (`--remap-path-prefix`), so that its bytes are the same everywhere
//! (the flags in `CARGO_ENCODED_RUSTFLAGS` are separated by the character 0x1f):
//!
//! ```text
//! RUSTC_BOOTSTRAP=1
//! CARGO_ENCODED_RUSTFLAGS=-Clinker=bpf-linker -Cdebuginfo=2 -Clink-arg=--btf -Ctarget-cpu=v3
//! cargo build --package tracer-ebpf --bins --release --target bpfel-unknown-none
//!     -Z build-std=core --target-dir target/ebpf
//! ```
//!
//! `v3` is what every kernel from 5.8 on takes: 32-bit arithmetic and jumps (5.1); its atomic
//! instructions are limited here to the addition without a result, which is as old as eBPF.

#![no_std]
#![no_main]
// For single instructions in `context` and `maps`, and for closures that are no functions of their
// own; the toolchain is pinned.
#![feature(asm_experimental_arch, stmt_expr_attributes)]

mod asking;
mod block;
mod cgroup;
mod choice;
mod context;
mod counts;
mod cpu;
mod cpu_ring;
mod descriptors;
mod exec;
mod exit;
mod fault;
mod fork;
mod frame_pointers;
mod gathered;
mod group_path;
mod guard;
mod hrtimer;
mod idle;
mod interrupted;
mod irq;
mod listing;
mod lock;
mod look;
mod maps;
mod migrate;
mod off_cpu;
mod offsets;
mod oom;
mod packet;
mod pid;
mod pids;
mod probe;
mod python;
mod record;
mod rename;
mod sample;
mod sched;
mod sight;
mod signal;
mod socketcall;
mod softirq;
mod stack;
mod subject;
mod syscall;
mod task;
mod text;
mod texts;
mod thread_context;
mod throttle;
mod tracepoint;
mod truth;
mod unwind;
mod user;
mod wakeup;

/// Tracing helpers and BTF tracepoints are for programs compatible with the GPL; the kernel
/// reads this string.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // Never reached: the verifier refuses a program that can get here, for it would not end.
    loop {}
}
