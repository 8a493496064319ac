//! The code that the kernel maps into each process (`[vdso]`): every process has the same.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;

use crate::probes::UnwindData;

/// Bytes of it at most.
const MOST_BYTES: u64 = 1 << 20;

/// Reads its unwind data, from that of this process.
pub fn unwind_data() -> Option<UnwindData> {
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    let mut lines = maps.lines().map_while(Result::ok);
    let line = lines.find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let [start, end] = [start, end].map(|word| u64::from_str_radix(word, 16).ok());
    let start = start?;
    let bytes = end?
        .checked_sub(start)
        .filter(|bytes| *bytes <= MOST_BYTES)?;
    let mut image = vec![0; usize::try_from(bytes).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut image, start).ok()?;
    UnwindData::read_image(&image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_it_calls() {
        assert!(unwind_data().is_some());
    }
}
