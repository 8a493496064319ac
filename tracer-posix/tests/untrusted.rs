//! The entry points of the fuzz targets for messages and areas, with the seeds and changes of them
//! that are the same each time. `UNTRUSTED_ROUNDS` makes more of them.

#[path = "../../fuzz/src/hostile_area.rs"]
mod hostile_area;
#[path = "../../fuzz/src/read_fields.rs"]
mod read_fields;
#[path = "../../fuzz/src/seeds.rs"]
mod seeds;

use std::path::Path;
use std::time::{Duration, Instant};

use tracer_posix::agent::{AgentSource, protocol};
use tracer_posix::wire;

/// No input may take longer.
const LIMIT: Duration = Duration::from_secs(5);

/// Rounds of what is made of one seed, for messages, and for areas, which take longer.
const ROUNDS: usize = 2000;
const AREA_ROUNDS: usize = 60;

fn run(name: &str, most: usize, look: impl Fn(&[u8])) {
    let look = |bytes: &[u8]| {
        let start = Instant::now();
        look(bytes);
        let took = start.elapsed();
        assert!(took < LIMIT, "{took:?} for {bytes:02x?}");
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fuzz/corpus/{name}.seeds"));
    let seeds = seeds::read(&path).expect("seeds");
    assert!(!seeds.is_empty(), "no seeds in {}", path.display());
    let rounds = std::env::var("UNTRUSTED_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % limit.max(1)
    };
    for seed in seeds {
        if seed.is_found() {
            look(&seed.bytes);
            continue;
        }
        let seed = seed.bytes;
        let step = seed.len().div_ceil(most).max(1);
        (0..=seed.len())
            .step_by(step)
            .for_each(|length| look(&seed[..length]));
        look(&seed);
        for _ in 0..rounds.unwrap_or(most) {
            let mut bytes = seed.clone();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                let byte = [0, 0x7f, 0x80, 0xff, 1 << next(8)][next(5)];
                if let Some(there) = bytes.get_mut(at) {
                    *there = byte;
                }
            }
            look(&bytes);
        }
    }
}

#[test]
fn any_bytes_from_an_agent() {
    run("agent_answers", ROUNDS, AgentSource::collect_from_untrusted);
}

#[test]
fn any_bytes_as_a_message() {
    run("wire", ROUNDS, |mut bytes| {
        // Length by length, as both sides read.
        while let Ok(answer) = wire::read_message::<protocol::Answer>(&mut bytes) {
            // What was decoded can be said again.
            assert!(wire::framed(&answer).is_ok());
        }
    });
}

#[test]
fn any_bytes_as_fields() {
    run("fields", ROUNDS, read_fields::read_fields);
}

#[test]
fn any_messages_to_a_recorder() {
    run("recorder_asked", ROUNDS, tracer_posix::logged::ask_recorder);
}

#[test]
fn any_messages_from_a_recorder() {
    run(
        "recorder_answers",
        ROUNDS,
        tracer_posix::logged::hear_recorder,
    );
}

#[test]
fn an_area_that_is_read_while_others_write_into_it() {
    run("area_read", AREA_ROUNDS, hostile_area::area_read);
}

#[test]
fn an_area_that_is_emitted_into_while_others_write_into_it() {
    run("area_emit", AREA_ROUNDS, hostile_area::area_emit);
}
