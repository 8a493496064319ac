//! What the running kernel says about its own types, in BTF.
//!
//! - `build_id`: which build of the kernel it is.
//! - `comparison`: in which offsets two kernels differ.
//! - `file`: BTF in a file that the user names.
//! - `reader`: finds structs, their members and function prototypes.
//! - `raw`: integers, and the fixed part of each type.
//! - `containment`: refuses types that contain themselves.
//! - `offsets`: the answers that the eBPF programs need.
//! - `tracepoints`: what it says of all tracepoints.
//! - `variables`: the variables that they read.

pub mod build_id;
pub mod comparison;
mod containment;
pub mod file;
mod machine;
pub mod offsets;
mod raw;
pub mod reader;
pub mod tracepoints;
pub mod variables;
