//! A valid log, then changed: every event that is still reported is one that was written, and they
//! are in order.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../shared.rs"]
mod shared;

use shared::{file_of, read_all, valid_log};

/// Changes a log as the bytes say: six bytes a change.
fn change(log: &mut Vec<u8>, changes: &[u8]) {
    for change in changes.chunks_exact(6) {
        let word = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
        // The header's gaps are of no interest.
        let at = match word(1) % 3 {
            0 => word(3) % 1024,
            1 => 4096 + word(3) % 1024,
            _ => 8192 + word(3),
        };
        let at = at.min(log.len());
        let length = usize::from(change[5]).min(log.len() - at);
        match change[0] % 6 {
            0 => {
                if let Some(byte) = log.get_mut(at) {
                    *byte ^= 1 << (change[5] % 8);
                }
            }
            1 => log.truncate(at),
            2 => {
                log.drain(at..at + length);
            }
            3 => {
                let copied = log[at..at + length].to_vec();
                log.splice(at..at, copied);
            }
            4 => log[at..at + length].fill(0),
            _ => {
                let copied = log[at..at + length].to_vec();
                log.extend_from_slice(&copied);
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, changes)) = bytes.split_first() else {
        return;
    };
    let mut log = valid_log(*kind);
    let written = read_all(file_of(&log));
    assert!(!written.is_empty());
    change(&mut log, changes);

    let mut written = written.iter();
    for event in read_all(file_of(&log)) {
        assert!(written.any(|known| *known == event), "never written: {event:?}");
    }
});
