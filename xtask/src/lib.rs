//! Implementation of the tasks, for the program that runs them and for the benchmark.

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "tasks of one project, whose failures are messages for the user who runs them"
)]

mod bpf_linker;
mod debug_sections;
pub mod interpreters;
mod node;
pub mod packages;
pub mod privilege;
pub mod process;
mod python;
pub mod tasks;
pub mod tracefs;
mod type_information;
pub mod workspace;
