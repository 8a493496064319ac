//! Any bytes, to each reader of bytes that others wrote. `FUZZ_TARGET` names the reader.

#![no_main]

mod hostile_area;
mod log;
mod read_fields;

use std::env;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tracer_posix::agent::AgentSource;
use tracer_posix::agent::protocol::Answer;
use tracer_posix::logged;
use tracer_posix::wire::{framed, read_message};
use tracer_user::fuzz_entry;

/// Readers by name. What is any bytes for each is in `README.md`.
const TARGETS: [(&str, fn(&[u8])); 16] = [
    ("agent_answers", |bytes| {
        AgentSource::collect_from_untrusted(bytes)
    }),
    ("agent_asked", |bytes| fuzz_entry::agent_asked(bytes)),
    ("area_emit", hostile_area::area_emit),
    ("area_read", hostile_area::area_read),
    ("btf", |bytes| fuzz_entry::btf(bytes)),
    ("elf", |bytes| {
        fuzz_entry::elf(bytes);
    }),
    ("fields", read_fields::read_fields),
    ("lock_wait", |bytes| fuzz_entry::lock_wait(bytes)),
    ("log_bytes", log::any_bytes),
    ("log_mutated", log::mutated),
    ("recorder_answers", |bytes| logged::hear_recorder(bytes)),
    ("recorder_asked", |bytes| logged::ask_recorder(bytes)),
    ("service_asked", |bytes| fuzz_entry::service_asked(bytes)),
    ("usdt_arguments", |bytes| fuzz_entry::usdt_arguments(bytes)),
    ("usdt_notes", |bytes| fuzz_entry::usdt_notes(bytes)),
    ("wire", messages),
];

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("FUZZ_TARGET names a target of main.rs").1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));

/// Decodes any bytes as messages: what is decoded can be said again.
fn messages(mut bytes: &[u8]) {
    while let Ok(answer) = read_message::<Answer>(&mut bytes) {
        assert!(framed(&answer).is_ok());
    }
}
