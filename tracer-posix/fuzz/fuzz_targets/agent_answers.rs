//! Any bytes as what an agent answers.

#![no_main]

use tracer_posix::agent::AgentSource;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| AgentSource::collect_from_untrusted(bytes));
