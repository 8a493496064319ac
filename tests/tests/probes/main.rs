//! Probes, tracepoints of programs, spans and stacks.

mod debug_server;
mod inlined;
mod interpreters;
mod listed_code;
mod names_after_losses;
mod names_by_time;
mod probe_types;
mod probed_files;
mod probes;
mod python_stacks;
mod shared_memory;
mod spans;
mod stacks;
mod types_from_file;
mod unwound;
mod user_events;
mod user_stacks;
