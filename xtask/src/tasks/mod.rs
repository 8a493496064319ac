//! Tasks, one per file.

mod archive;
pub mod arm64;
pub mod bench;
pub mod build;
pub mod build_ebpf;
pub mod conformance;
pub mod demo;
pub mod dist;
pub mod fleet;
pub mod for_c;
pub mod fuzz;
pub mod header;
pub mod install;
pub mod interface;
pub mod json;
pub mod lint;
pub mod man;
pub mod miri;
pub mod nightly;
pub mod package;
pub mod pictures;
pub mod recorder;
pub mod setup;
pub mod stress;
pub mod test;
pub mod vmtest;
pub mod wheel;
