//! The code that processes have mapped, and the files of mappings.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use object::Object;
use object::read::ReadCache;

use super::Mapping;
use crate::bounded_proc;
use crate::probes::{Binary, Bounded, ReadBudget, open_ordinary, open_ordinary_below, root_of};

/// Bytes of `maps` that are read.
const MOST_MAPS_BYTES: u64 = 32 << 20;

/// Processes whose mappings are known at a time. Beyond that, all are forgotten.
const MOST_PROCESSES: usize = 65_536;

/// Mappings of a process that are known.
const MOST_MAPPINGS: usize = 65_536;

/// The code that each process has mapped.
#[derive(Debug, Default)]
pub struct Spaces(HashMap<i32, BTreeMap<u64, Arc<Mapping>>>);

impl Spaces {
    /// Notes a mapping, which replaces what was there.
    pub fn map(&mut self, pid: i32, mapping: Mapping) {
        if self.0.len() >= MOST_PROCESSES {
            self.0.clear();
        }
        let space = self.0.entry(pid).or_default();
        let before = space.range(..mapping.end).rev();
        let over: Vec<u64> = before
            .take_while(|(_, one)| one.end > mapping.start)
            .map(|(start, _)| *start)
            .collect();
        for start in over {
            space.remove(&start);
        }
        if space.len() < MOST_MAPPINGS {
            space.insert(mapping.start, Arc::new(mapping));
        }
    }

    /// Returns the mapping that has an address.
    pub fn find(&self, pid: i32, address: u64) -> Option<&Arc<Mapping>> {
        let (_, mapping) = self.0.get(&pid)?.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }
}

/// Build identifiers, by device and inode.
pub type BuildIds = HashMap<(u64, u64), Vec<u8>>;

/// Returns the code that process `pid` has mapped now, with build identifiers, those that are known
/// in `ids`; nothing where it may not be looked at or has ended.
pub fn read_mappings(pid: i32, ids: &mut BuildIds) -> Vec<Mapping> {
    let text = bounded_proc::ask_process(pid, move || {
        let maps = File::open(format!("/proc/{pid}/maps"))?;
        let mut text = Vec::new();
        BufReader::new(maps)
            .take(MOST_MAPS_BYTES)
            .read_to_end(&mut text)?;
        std::io::Result::Ok(text)
    });
    let Ok(Ok(text)) = text else {
        return Vec::new();
    };
    let mut mappings = mappings_of(text.as_slice());
    for (mapping, range) in &mut mappings {
        if mapping.path.starts_with(b"/") {
            let file = open_ordinary(Path::new(&format!("/proc/{pid}/map_files/{range}")));
            mapping.build_id = file.ok().map_or_else(Vec::new, |file| build_id(&file, ids));
        }
    }
    mappings.into_iter().map(|(mapping, _)| mapping).collect()
}

/// Returns the lines of code in `maps`, each with its name in `map_files`.
pub fn mappings_of(maps: impl BufRead) -> Vec<(Mapping, String)> {
    let lines = maps.split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| mapping_of(&line)).collect()
}

fn mapping_of(line: &[u8]) -> Option<(Mapping, String)> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    let (start, end) = std::str::from_utf8(fields.next()?).ok()?.split_once('-')?;
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    if !fields.next()?.contains(&b'x') {
        return None;
    }
    let file_offset = hexadecimal(std::str::from_utf8(fields.next()?).ok()?)?;
    // Device, inode.
    let path = fields.nth(2).unwrap_or_default().trim_ascii_start();
    let mapping = Mapping {
        start,
        end,
        file_offset,
        build_id: Vec::new(),
        path: path.into(),
    };
    Some((mapping, format!("{start:x}-{end:x}")))
}

/// Returns the build identifier of a file; empty where it has none.
pub fn build_id(file: &File, ids: &mut BuildIds) -> Vec<u8> {
    let Ok(metadata) = file.metadata() else {
        return Vec::new();
    };
    let key = (metadata.dev(), metadata.ino());
    if let Some(known) = ids.get(&key) {
        return known.clone();
    }
    let cache = ReadCache::new(file);
    let budget = ReadBudget::default();
    let parsed = object::File::parse(Bounded::new(&cache, &budget)).ok();
    let id = parsed.and_then(|parsed| Some(parsed.build_id().ok()??.to_vec()));
    let id = id.unwrap_or_default();
    ids.insert(key, id.clone());
    id
}

/// Returns the file of a mapping of process `pid`, if it is the same one still. Where the process
/// `is_live` it is asked first.
pub fn binary(
    pid: i32,
    mapping: &Mapping,
    is_live: bool,
    build_ids: &mut BuildIds,
) -> Option<Binary> {
    // Without an identifier, another file may have the name by now.
    if mapping.build_id.is_empty() && !is_live {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(&mapping.path));
    let root = root_of(pid);
    let range = format!("{:x}-{:x}", mapping.start, mapping.end);
    let mapped = is_live.then(|| {
        let location = format!("/proc/{pid}/map_files/{range}");
        (open_ordinary(Path::new(&location)), root.as_path())
    });
    let below = is_live.then(|| (open_ordinary_below(&root, path), root.as_path()));
    let here = (open_ordinary(path), Path::new("/"));
    let opened = mapped.into_iter().chain(below).chain([here]);
    for (file, root) in opened {
        let Ok(file) = file else { continue };
        let is_unknown = mapping.build_id.is_empty();
        if !is_unknown && build_id(&file, build_ids) != mapping.build_id {
            continue;
        }
        return Binary::from_opened(Ok(file), path, root).ok();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64) -> Mapping {
        Mapping {
            start,
            end,
            file_offset: 0,
            build_id: Vec::new(),
            path: b"/x".as_slice().into(),
        }
    }

    #[test]
    fn a_mapping_replaces_what_was_there() {
        let mut spaces = Spaces::default();
        spaces.map(1, mapping(0x1000, 0x2000));
        spaces.map(1, mapping(0x3000, 0x4000));
        spaces.map(1, mapping(0x1800, 0x3001));
        let found = |address| spaces.find(1, address).map(|one| one.start);
        assert_eq!(found(0x1900), Some(0x1800));
        assert_eq!(found(0x1000), None);
        assert_eq!(found(0x3800), None);
        assert_eq!(spaces.find(2, 0x1900), None);
    }

    #[test]
    fn code_of_files_and_without_files_counts() {
        let lines: &[u8] = b"55d0-55d1 r-xp 00001000 08:01 42                   /usr/bin/a b\n\
            55d1-55d2 r--p 00001000 08:01 42                   /usr/bin/a b\n\
            7ff0-7ff1 r-xp 00000000 00:00 0    [vdso]\n7ff2-7ff3 rwxp 00000000 00:00 0 \nx\n";
        let found = mappings_of(lines);
        let found: Vec<_> = found
            .iter()
            .map(|(one, name)| (one.file_offset, &*one.path, name.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (0x1000, b"/usr/bin/a b".as_slice(), "55d0-55d1"),
                (0, b"[vdso]", "7ff0-7ff1"),
                (0, b"", "7ff2-7ff3"),
            ]
        );
    }
}
