//! The entry points of the fuzz targets for messages, with the seeds and changes of them that are the same each
//! time. `UNTRUSTED_ROUNDS` makes more of them.

use std::fs;
use std::path::Path;

use tracer_posix::agent::{AgentSource, protocol};
use tracer_posix::wire;

fn run(name: &str, look: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut seeds: Vec<_> = fs::read_dir(&folder)
        .expect("seeds")
        .map(|entry| entry.expect("a seed").path())
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
    let rounds = std::env::var("UNTRUSTED_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |limit: usize| {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        usize::try_from(number >> 33).expect("31 bits") % limit.max(1)
    };
    for seed in seeds {
        let seed = fs::read(seed).expect("a seed");
        (0..=seed.len()).for_each(|length| look(&seed[..length]));
        for _ in 0..rounds.unwrap_or(2000) {
            let mut bytes = seed.clone();
            for _ in 0..=next(3) {
                let place = next(bytes.len());
                let byte = [0, 0x7f, 0x80, 0xff, 1 << next(8)][next(5)];
                if let Some(there) = bytes.get_mut(place) {
                    *there = byte;
                }
            }
            look(&bytes);
        }
    }
}

#[test]
fn any_bytes_from_an_agent() {
    run("agent_answers", AgentSource::collect_from_untrusted);
}

#[test]
fn any_bytes_as_a_message() {
    run("wire", |mut bytes| {
        // Length by length, as both sides read.
        while let Ok(answer) = wire::read_message::<protocol::Answer>(&mut bytes) {
            // What was understood can be said again.
            assert!(wire::framed(&answer).is_ok());
        }
    });
}
