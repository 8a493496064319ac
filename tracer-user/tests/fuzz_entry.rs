//! The entry points of the fuzz targets, with the seeds and changes of them that are the same each
//! time. `UNTRUSTED_ROUNDS` makes more of them.

#[path = "../../fuzz/src/seeds.rs"]
mod seeds;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use seeds::Seed;
use tracer_user::fuzz_entry;

/// Longest time an input may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Integers that always come in the same order.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits")
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() % limit.max(1)
    }
}

/// Changes some bytes: single ones, whole words, lengths, order.
fn change(bytes: &mut Vec<u8>, sequence: &mut Sequence) {
    const WORDS: [u32; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    for _ in 0..=sequence.below(4) {
        let at = sequence.below(bytes.len());
        match sequence.below(6) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << sequence.below(8);
                }
            }
            2 => {
                let word = WORDS[sequence.below(WORDS.len())].to_le_bytes();
                for (byte, new) in bytes.iter_mut().skip(at).zip(word) {
                    *byte = new;
                }
            }
            3 => bytes.truncate(at),
            4 => {
                let end = (at + sequence.below(64)).min(bytes.len());
                let copied = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, copied);
            }
            _ => {
                let end = (at + sequence.below(16)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
        }
    }
}

/// Returns the seeds of a fuzz target.
fn seeds_of(name: &str) -> Vec<Seed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fuzz/corpus/{name}.seeds"));
    let seeds = seeds::read(&path).expect("seeds");
    assert!(!seeds.is_empty(), "no seeds in {}", path.display());
    seeds
}

/// Runs `look` with each seed, with each beginning of it, and with many that were changed.
fn run(name: &str, look: impl Fn(&[u8])) {
    let rounds = std::env::var("UNTRUSTED_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    let look = |bytes: &[u8]| {
        let start = Instant::now();
        look(bytes);
        assert!(
            start.elapsed() < LIMIT,
            "{:?} for {bytes:02x?}",
            start.elapsed()
        );
    };
    for (index, seed) in seeds_of(name).into_iter().enumerate() {
        look(&seed.bytes);
        if seed.is_found() {
            continue;
        }
        let seed = seed.bytes;
        (0..seed.len().min(256)).for_each(|length| look(&seed[..length]));
        let mut sequence = Sequence(0x9e37_79b9_7f4a_7c15 + index as u64);
        for _ in 0..rounds.unwrap_or(500) {
            let mut bytes = seed.clone();
            change(&mut bytes, &mut sequence);
            look(&bytes);
        }
    }
}

#[test]
fn any_bytes_as_btf() {
    run("btf", fuzz_entry::btf);
}

#[test]
fn any_bytes_as_notes_of_static_probes() {
    run("usdt_notes", fuzz_entry::usdt_notes);
}

#[test]
fn any_bytes_as_arguments_of_static_probes() {
    run("usdt_arguments", fuzz_entry::usdt_arguments);
}

#[test]
fn any_bytes_as_a_program() {
    run("elf", |bytes| {
        fuzz_entry::elf(bytes);
    });
}

/// Makes sure that a whole program is looked at above, and by the fuzz target.
#[test]
fn a_whole_program_is_looked_at() {
    let mut seeds = seeds_of("elf").into_iter();
    let small = seeds.find(|seed| seed.name == "small").expect("a seed");
    assert!(fuzz_entry::elf(&small.bytes) > 0);
    let own = std::env::current_exe().expect("a program");
    assert!(fuzz_entry::elf(&fs::read(own).expect("its file")) > 1000);
}

#[test]
fn any_bytes_as_the_memory_of_a_lock() {
    run("lock_wait", fuzz_entry::lock_wait);
}

#[test]
fn any_bytes_to_the_agent() {
    run("agent_asked", fuzz_entry::agent_asked);
}

#[test]
fn any_bytes_and_descriptors_to_the_service() {
    let count = || fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let before = count();
    run("service_asked", fuzz_entry::service_asked);
    // Other tests have a few of their own meanwhile; each input brings some.
    assert!(count() < before + 100);
}
