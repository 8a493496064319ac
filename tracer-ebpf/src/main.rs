//! The eBPF programs: one file per event family.
//!
//! A program first checks whether the process is traced and the event type is wanted. It checks
//! the type first where it needs a helper to find the process. It does not check the type of an
//! event that the agent always needs, such as the end of a process. Then it reserves the record,
//! reads the clock, fills the record and submits it; [`record`] explains this order.
//!
//! A program for a fixed tracepoint exists twice, from the same code: for a BTF tracepoint, where
//! it loads fields of the kernel's structs directly, and for a raw tracepoint, where a helper reads
//! them ([`context`]). The agent loads the first and falls back to the second.
//!
//! The programs do not know at which offset a struct has a field: the agent sets [`offsets`],
//! read-only globals, from the BTF of the running kernel.
//!
//! # Building
//!
//! `cargo xtask build-ebpf` runs the command below with `bpf-linker` 0.13 (LLVM 22). It removes the
//! debug sections from `target/ebpf/bpfel-unknown-none/release/tracer-ebpf` and writes the rest to
//! `tracer-user/kernel/ebpf/tracer-ebpf.o`, which is a part of the repository. It also removes the
//! paths of the machine (`--remap-path-prefix`), so that the object has the same bytes everywhere.
//! The character 0x1f separates the flags in `CARGO_ENCODED_RUSTFLAGS`:
//!
//! ```text
//! RUSTC_BOOTSTRAP=1
//! CARGO_ENCODED_RUSTFLAGS=-Clinker=bpf-linker -Cdebuginfo=2 -Clink-arg=--btf -Ctarget-cpu=v3
//! cargo build --package tracer-ebpf --bins --release --target bpfel-unknown-none
//!     -Z build-std=core --target-dir target/ebpf
//! ```
//!
//! Every kernel from 5.8 on accepts what these programs use of `v3`: 32-bit arithmetic and jumps
//! (5.1) and, of the atomic instructions, only the addition without a result, which is as old as
//! eBPF.

#![no_std]
#![no_main]
// The first feature allows `asm!` for single instructions, the second one inlining attributes on
// closures. Both are unstable: the toolchain is pinned.
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
    // Never reached: the verifier refuses a program that can get here, as it would never end.
    loop {}
}
