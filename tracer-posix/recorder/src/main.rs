//! The program that writes a stream's log: what `posix_trace_create_withlog` starts.
//!
//! It is no program for people: `cargo xtask` builds it and puts it into the library, which starts
//! it from memory and asks it over a socket to record. It has no command line and no messages, and
//! needs no file at run time.

#![no_main]

use std::ffi::c_int;

use tracer_area::reserve::Allocator;

/// Allocator with which the recorder never ends for want of memory: see [`tracer_area::reserve`].
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Where the C library begins. Rust's own beginning would look after signals and standard
/// descriptors that are not this program's.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> c_int {
    tracer_posix::logged::be_the_recorder();
    0
}
