//! Layouts and tables that more than one side of a boundary needs.
//!
//! - [`event_type`]: the one table of system event types: identifiers, names, fields.
//! - [`kernel`]: what the eBPF programs write and the agent reads.
//! - [`area`]: the trace area, written by the target and read by the controller.
//!
//! Nothing here acts: it is all layout, constants and tables.

#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

// Not for eBPF programs, which have no use for it and lack its atomics.
#[cfg(not(target_arch = "bpf"))]
pub mod area;
pub mod event_type;
pub mod kernel;
