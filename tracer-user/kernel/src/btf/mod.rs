//! Types of the running kernel, in BTF.
//!
//! - `build_id`: identifies the build of the kernel.
//! - `comparison`: compares the offsets of two kernels.
//! - `file`: BTF in a file that the user names.
//! - `reader`: finds structs, their members and function prototypes.
//! - `raw`: integers, and the fixed part of each type.
//! - `containment`: finds types that contain themselves, which `reader` refuses.
//! - `offsets`: the offsets that the eBPF programs need.
//! - `tracepoints`: lists all tracepoints with their fields.
//! - `variables`: the kernel's variables that the eBPF programs read.

pub mod build_id;
pub mod comparison;
mod containment;
pub mod file;
pub mod machine;
pub mod offsets;
mod raw;
pub mod reader;
pub mod tracepoints;
pub mod variables;
