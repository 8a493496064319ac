//! What the kernel holds of a process's eBPF: asked by identifier, so that what others load
//! meanwhile does not matter.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use anyhow::Context as _;

/// A kind of eBPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A program.
    Program,
    /// A map.
    Map,
    /// An attachment.
    Link,
}

/// An eBPF object of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Unique among its kind while the machine runs, for all practical purposes.
    pub id: u32,
}

/// Every eBPF object that process `pid` has a descriptor of.
///
/// # Errors
///
/// The process is gone.
pub fn objects_of(pid: i32) -> anyhow::Result<BTreeSet<Object>> {
    let mut objects = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).context("the process is gone")? {
        // A descriptor may be closed while we look.
        let Ok(info) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        for line in info.lines() {
            let kinds = [
                ("prog_id:", Kind::Program),
                ("map_id:", Kind::Map),
                ("link_id:", Kind::Link),
            ];
            for (word, kind) in kinds {
                let id = line.strip_prefix(word).map(str::trim);
                if let Some(Ok(id)) = id.map(str::parse) {
                    objects.insert(Object { kind, id });
                }
            }
        }
    }
    Ok(objects)
}

impl Object {
    /// Whether the kernel still has it.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub fn exists(self) -> io::Result<bool> {
        // The first two fields of `union bpf_attr` for the BPF_*_GET_FD_BY_ID commands:
        // the identifier, and `next_id`; 16 bytes hold them and `open_flags`.
        let attributes: [u32; 4] = [self.id, 0, 0, 0];
        // SAFETY: the attributes are initialised, live until after the call, and are as long as
        // the size says; the kernel takes commands with fewer bytes than it knows.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                self.kind.get_fd_by_id(),
                attributes.as_ptr(),
                size_of_val(&attributes),
            )
        };
        if let Ok(fd @ 0..) = i32::try_from(fd) {
            // SAFETY: the call above made this descriptor for us; nobody else has it.
            unsafe { libc::close(fd) };
            return Ok(true);
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            error => Err(error),
        }
    }
}

impl Kind {
    /// `enum bpf_cmd` of the kernel's `linux/bpf.h`.
    fn get_fd_by_id(self) -> libc::c_int {
        match self {
            Self::Program => 13,
            Self::Map => 14,
            Self::Link => 30,
        }
    }
}
