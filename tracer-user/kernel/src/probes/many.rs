//! Links to all sites of a file at once (`uprobe_multi`).
//!
//! The kernel has to be told, when it loads the program, that the program is for such links. The
//! loader cannot pass that on, so the program is loaded here, with the maps that the loader has
//! made.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use aya::Ebpf;
use aya::maps::{Map, MapData};
use aya_obj::Object;
use aya_obj::generated::{bpf_attach_type, bpf_prog_type};

use super::{Attachment, EVERY_PROCESS, PROGRAM, ProbeAttachments};
use crate::call::{LINK_CREATE, ProgramAttributes, bpf, load_program};
use crate::loading::object;
use crate::requirements;

/// Attaches the program to all sites, in these processes alone or in all; `None` where the kernel
/// offers no such links for them.
pub(super) fn attach(
    ebpf: &Ebpf,
    attachments: &[Attachment<'_>],
    scopes: &[i32],
) -> Option<ProbeAttachments> {
    if scopes != [EVERY_PROCESS] && !requirements::scopes_links_by_process() {
        return None;
    }
    let program = match load(ebpf) {
        Ok(program) => program,
        Err(error) => {
            tracing::debug!(error = &*error, "no program for many sites");
            return None;
        }
    };
    let mut attached = ProbeAttachments::default();
    for (_, group) in groups(attachments) {
        for pid in scopes {
            match link(program.as_fd(), &group, *pid) {
                Ok(link) => attached.links.push(link),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(error, "no link to many sites");
                    return None;
                }
            }
        }
    }
    attached.program = Some(program);
    Some(attached)
}

/// Groups the attachments that can be one link: the sites of a file, entries and returns apart.
fn groups<'a>(
    attachments: &'a [Attachment<'a>],
) -> BTreeMap<(RawFd, bool), Vec<&'a Attachment<'a>>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for attachment in attachments {
        let file = attachment.site.binary.file().as_raw_fd();
        let group = groups.entry((file, attachment.is_return));
        group.or_default().push(attachment);
    }
    groups
}

type LoadError = Box<dyn std::error::Error>;

/// Loads the program for such links.
fn load(ebpf: &Ebpf) -> Result<OwnedFd, LoadError> {
    let mut object = Object::parse(object())?;
    let of_object: Vec<_> = object.maps.drain().collect();
    let maps = of_object.iter().filter_map(|(name, map)| {
        let loaded = descriptor(ebpf.map(name)?)?;
        Some((name.as_str(), loaded.as_raw_fd(), map))
    });
    let sections = object.functions.keys().map(|(section, _)| *section);
    let sections = sections.collect();
    object.relocate_maps(maps, &sections)?;
    object.relocate_calls(&sections)?;
    let program = object.programs.get(PROGRAM).ok_or("no program")?;
    let function = object.functions.get(&program.function_key());
    let instructions = &function.ok_or("no instructions")?.instructions;
    let mut attributes = ProgramAttributes {
        kind: bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32,
        count: u32::try_from(instructions.len())?,
        instructions: instructions.as_ptr().expose_provenance() as u64,
        license: program.license.as_ptr().expose_provenance() as u64,
        expected_attach_type: bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32,
        ..ProgramAttributes::default()
    };
    let name = PROGRAM.bytes().zip(&mut attributes.name);
    name.for_each(|(from, to)| *to = from);
    // SAFETY: `attributes` is as long as the call is given, and what it names lives until after it.
    Ok(unsafe { load_program(&attributes) }?)
}

/// Returns the descriptor of a map of any of the kinds that the programs use.
fn descriptor(map: &Map) -> Option<BorrowedFd<'_>> {
    let data: &MapData = match map {
        Map::Array(data)
        | Map::ArrayOfMaps(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::PerCpuHashMap(data)
        | Map::PerCpuLruHashMap(data)
        | Map::PerfEventArray(data)
        | Map::RingBuf(data) => data,
        _ => return None,
    };
    Some(data.fd().as_fd())
}

/// Links the program to all of a group.
fn link(program: BorrowedFd<'_>, group: &[&Attachment<'_>], pid: i32) -> io::Result<OwnedFd> {
    let Some(first) = group.first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The very file that was looked at, by its descriptor.
    let file = first.site.binary.file().as_raw_fd();
    let path = CString::new(format!("/proc/self/fd/{file}"))?;
    let of = |value: fn(&Attachment<'_>) -> u64| -> Vec<u64> {
        group.iter().map(|attachment| value(attachment)).collect()
    };
    let offsets = of(|attachment| attachment.site.offset);
    let semaphores = of(|attachment| attachment.site.semaphore.unwrap_or(0));
    let cookies = of(|attachment| attachment.cookie);
    let attributes = LinkAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        target: 0,
        kind: bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32,
        flags: 0,
        path: address(&path),
        offsets: offsets.as_ptr().expose_provenance() as u64,
        semaphores: semaphores.as_ptr().expose_provenance() as u64,
        cookies: cookies.as_ptr().expose_provenance() as u64,
        count: u32::try_from(group.len()).map_err(io::Error::other)?,
        // `BPF_F_UPROBE_MULTI_RETURN`.
        which: u32::from(first.is_return),
        pid: u32::try_from(pid).unwrap_or(0),
        reserved: 0,
    };
    // SAFETY: as in `load`.
    unsafe { bpf(LINK_CREATE, &attributes) }
}

fn address(text: &CStr) -> u64 {
    text.as_ptr().expose_provenance() as u64
}

/// `union bpf_attr` of `BPF_LINK_CREATE` for many sites.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    target: u32,
    kind: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    semaphores: u64,
    cookies: u64,
    count: u32,
    which: u32,
    pid: u32,
    reserved: u32,
}
