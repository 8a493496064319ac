//! eBPF objects that the kernel holds for a process. Tests ask for them by identifier: objects that
//! other processes load meanwhile do not matter.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

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
    /// Kind of the object.
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

/// Every eBPF object that the kernel has because of process `pid`: those that it has descriptors
/// of, the programs of its attachments, and the maps of all these programs.
///
/// # Errors
///
/// The process is gone, or the kernel does not say.
pub fn all_because_of(pid: i32) -> anyhow::Result<BTreeSet<Object>> {
    let mut objects = objects_of(pid)?;
    let links: Vec<_> = filter_kind(&objects, Kind::Link).collect();
    for link in links {
        if let Some(id) = link.program()? {
            let kind = Kind::Program;
            objects.insert(Object { kind, id });
        }
    }
    let programs: Vec<_> = filter_kind(&objects, Kind::Program).collect();
    for program in programs {
        let kind = Kind::Map;
        objects.extend(program.maps()?.into_iter().map(|id| Object { kind, id }));
    }
    Ok(objects)
}

fn filter_kind(objects: &BTreeSet<Object>, kind: Kind) -> impl Iterator<Item = Object> {
    objects
        .iter()
        .copied()
        .filter(move |object| object.kind == kind)
}

/// Counts the entries of the map `name` of process `pid`, whose keys have at most 8 bytes.
///
/// # Errors
///
/// The process has no such map, or the kernel does not say.
pub fn entries(pid: i32, name: &str) -> anyhow::Result<usize> {
    let objects = objects_of(pid)?;
    for map in objects.iter().filter(|object| object.kind == Kind::Map) {
        let Some(map) = map.open()? else { continue };
        if map_name(&map)? == name {
            return count_keys(&map);
        }
    }
    anyhow::bail!("process {pid} has no map {name}")
}

/// `bpf(2)`.
fn bpf(command: libc::c_int, attributes: &mut [u64]) -> io::Result<i64> {
    // SAFETY: the attributes are initialised, live until after the call, and are as long as the
    // size says; where they hold addresses, the callers ensure that these are valid.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            size_of_val(attributes),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Fills in `struct bpf_map_info`, `bpf_prog_info` or `bpf_link_info`, as far as `info` goes.
fn inform(object: &OwnedFd, info: &mut [u64]) -> anyhow::Result<()> {
    const GET_INFO_BY_FD: libc::c_int = 15;
    let fd = u64::try_from(object.as_raw_fd())?;
    // bpf_fd and info_len, both 32 bits, and the address.
    let length = u64::try_from(size_of_val(info))?;
    let mut attributes = [
        fd | length << 32,
        info.as_mut_ptr().expose_provenance() as u64,
    ];
    bpf(GET_INFO_BY_FD, &mut attributes).context("the kernel gives no information on an object")?;
    Ok(())
}

fn map_name(map: &OwnedFd) -> anyhow::Result<String> {
    /// Size of the fields of `struct bpf_map_info` before the name, which has 16 bytes.
    const NAME: usize = 24;
    let mut words = [0_u64; 5];
    inform(map, &mut words)?;
    let info: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = info[NAME..].split(|byte| *byte == 0).next();
    Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

fn count_keys(map: &OwnedFd) -> anyhow::Result<usize> {
    const GET_NEXT_KEY: libc::c_int = 4;
    let (mut key, mut next) = (0_u64, 0_u64);
    let fd = u64::try_from(map.as_raw_fd())?;
    let mut count = 0;
    loop {
        // A null pointer asks for the first key.
        let before = if count == 0 {
            std::ptr::null_mut()
        } else {
            &raw mut key
        };
        let addresses = [before, &raw mut next].map(|at| at.expose_provenance() as u64);
        let mut attributes = [fd, addresses[0], addresses[1]];
        match bpf(GET_NEXT_KEY, &mut attributes) {
            Ok(_) => (count, key) = (count + 1, next),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(count),
            Err(error) => return Err(error).context("the keys of a map"),
        }
    }
}

/// The lower half.
fn low(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl Object {
    /// A descriptor of it, or `None` where the kernel no longer has it.
    fn open(self) -> io::Result<Option<OwnedFd>> {
        // The identifier, and `next_id`; then `open_flags`.
        match bpf(self.kind.get_fd_by_id(), &mut [self.id.into(), 0]) {
            Ok(fd) => {
                let fd = i32::try_from(fd).map_err(io::Error::other)?;
                // SAFETY: the call made this descriptor, and no other value owns it.
                Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The identifier of an attachment's program; `None` where the attachment is gone meanwhile.
    fn program(self) -> anyhow::Result<Option<u32>> {
        let Some(link) = self.open()? else {
            return Ok(None);
        };
        // Kind and identifier of the attachment, then the identifier of its program.
        let mut info = [0; 2];
        inform(&link, &mut info)?;
        Ok(Some(low(info[1])))
    }

    /// The identifiers of a program's maps.
    fn maps(self) -> anyhow::Result<Vec<u32>> {
        /// Index of the word of 8 bytes in `struct bpf_prog_info` that has the count of maps in its
        /// upper half; the next word is the address of their identifiers.
        const COUNT: usize = 6;
        let Some(program) = self.open()? else {
            return Ok(Vec::new());
        };
        let mut info = [0; COUNT + 2];
        inform(&program, &mut info)?;
        let mut maps = vec![0_u32; usize::try_from(info[COUNT] >> 32)?];
        // The other lengths are 0: nothing else is written.
        let count = info[COUNT] & !u64::from(u32::MAX);
        info.fill(0);
        info[COUNT] = count;
        info[COUNT + 1] = maps.as_mut_ptr().expose_provenance() as u64;
        inform(&program, &mut info)?;
        Ok(maps)
    }

    /// Tells whether the kernel still has it.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub fn exists(self) -> io::Result<bool> {
        Ok(self.open()?.is_some())
    }
}

impl Kind {
    /// The command that opens such an object by its identifier: a value of `enum bpf_cmd` of the
    /// kernel's `linux/bpf.h`.
    fn get_fd_by_id(self) -> libc::c_int {
        match self {
            Self::Program => 13,
            Self::Map => 14,
            Self::Link => 30,
        }
    }
}
