//! The files of mappings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Mapping;
use super::spaces::{BuildIds, build_id};
use crate::probes::{Binary, open_ordinary, open_ordinary_below, root_of};

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
