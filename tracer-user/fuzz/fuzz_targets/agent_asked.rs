//! Any bytes to the agent.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tracer_user::fuzz_entry::agent_asked(bytes));
