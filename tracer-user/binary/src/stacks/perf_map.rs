//! Functions of programs that generate code, as they list them for perf: `/tmp/perf-<pid>.map`.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::probes::{open_ordinary_below, root_of};

/// Bytes of such a file that are read.
const MOST_BYTES: u64 = 256 << 20;

/// Functions that a process has made itself.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// Functions as address, bytes and name, in order of address.
    functions: Vec<(u64, u64, Arc<str>)>,
}

impl PerfMap {
    /// Reads the functions that process `pid` lists. Only a file of root's or of the process's own
    /// user is believed.
    pub fn from_process(pid: i32) -> Self {
        Self::read(pid).unwrap_or_default()
    }

    fn read(pid: i32) -> Option<Self> {
        let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        // By its own pid, which is another one in another pid namespace.
        let own = own_pid(pid).unwrap_or(pid);
        let path = format!("tmp/perf-{own}.map");
        let file = open_ordinary_below(&root_of(pid), Path::new(&path)).ok()?;
        let by = file.metadata().ok()?.uid();
        if by != 0 && by != owner {
            return None;
        }
        Some(Self::parse(BufReader::new(file).take(MOST_BYTES)))
    }

    fn parse(text: impl BufRead) -> Self {
        let mut functions: Vec<(u64, u64, Arc<str>)> = Vec::new();
        for line in text.split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line);
            let mut words = line.splitn(3, ' ');
            let mut hexadecimal = || u64::from_str_radix(words.next()?, 16).ok();
            let (Some(start), Some(bytes)) = (hexadecimal(), hexadecimal()) else {
                continue;
            };
            if let Some(name) = words.next() {
                functions.push((start, bytes, name.into()));
            }
        }
        // Of two functions at one address the later counts: the code of the first is gone.
        functions.reverse();
        functions.sort_by_key(|(start, ..)| *start);
        functions.dedup_by_key(|(start, ..)| *start);
        Self { functions }
    }

    /// Returns the function that contains an address, and the offset in it.
    pub fn find(&self, address: u64) -> Option<(Arc<str>, u64)> {
        let behind = self.functions.partition_point(|(at, ..)| *at <= address);
        let (start, bytes, name) = self.functions.get(behind.checked_sub(1)?)?;
        let offset = address - start;
        (offset < *bytes).then(|| (Arc::clone(name), offset))
    }
}

/// Returns the pid of a process in its own pid namespace.
fn own_pid(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines();
    let pids = lines.find_map(|line| line.strip_prefix("NStgid:"))?;
    pids.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_counts_and_what_is_no_line_does_not() {
        let text: &[u8] = b"1000 10 py::old\nnonsense\n1000 20 py::new:/x y.py\n2000 5 f\n\xff";
        let map = PerfMap::parse(text);
        let found = |address| map.find(address).map(|(name, _)| name.to_string());
        assert_eq!(found(0x101f).as_deref(), Some("py::new:/x y.py"));
        assert_eq!(found(0x1020), None);
        assert_eq!(found(0x2004).as_deref(), Some("f"));
        assert_eq!(found(0xfff), None);
    }
}
