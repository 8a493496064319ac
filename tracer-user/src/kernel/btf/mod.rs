//! What the running kernel says about its own types, in BTF.
//!
//! - `reader`: finds structs, their members and function prototypes.
//! - `offsets`: the answers that the eBPF programs need.
//! - `variables`: the variables that they read.

pub mod offsets;
pub mod reader;
pub mod variables;
