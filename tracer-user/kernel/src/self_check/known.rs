//! Facts that this process knows of itself, by system calls and from `/proc`.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;

/// Facts to be compared.
pub struct KnownFacts {
    pub pid: u64,
    pub tid: u64,
    pub comm: Vec<u8>,
    /// Fields of `stat`, from the third one on. That one is a letter, and 0 here.
    stat: Vec<u64>,
    /// Content of `status`.
    status: String,
    /// Addresses of code.
    pub code: Vec<Range<u64>>,
    /// Addresses of this thread's stack.
    pub stack: Range<u64>,
    /// Address of the thread's own data; `None` where it cannot be asked for.
    pub thread_pointer: Option<u64>,
    pub pid_namespace: u64,
    /// The lower bits of the flags of its memory.
    pub memory_flags: Option<u64>,
    /// Name of the current folder; `None` where the folder is the root of a mount.
    pub folder: Option<Vec<u8>>,
    /// `/proc/PID/task/TID/comm`.
    pub file: KnownFile,
    pub namespace_file: KnownFile,
    pub datagrams: Option<Datagrams>,
    pub streams: Option<(UnixStream, UnixStream)>,
}

/// Open file.
pub struct KnownFile {
    pub file: File,
    pub inode: u64,
    pub magic: u64,
    /// Last part of the path at which its mount is; `None` for `/`.
    pub mount_point: Option<Vec<u8>>,
    /// Last part of the path of that mount's root within its file system.
    pub mount_root: Option<Vec<u8>>,
    /// Last part of the path of the root of the mount in which that one is mounted.
    pub parent_root: Option<Vec<u8>>,
}

/// Socket that is bound and connected to itself.
pub struct Datagrams {
    pub socket: UdpSocket,
    pub port: u16,
    pub inode: u64,
}

impl KnownFacts {
    /// Looks at this thread.
    pub fn find() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/thread-self/stat")?;
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields = fields.split_whitespace();
        let stat = fields.map(|field| field.parse().unwrap_or(0)).collect();
        let mut comm = fs::read("/proc/thread-self/comm")?;
        comm.pop();
        let on_stack = std::ptr::from_ref(&comm).addr() as u64;
        const NEAR: u64 = 64 << 10;
        Ok(Self {
            pid: std::process::id().into(),
            tid: tid(),
            comm,
            stat,
            // Files are opened before `status` is read: they may enlarge the table of files, whose
            // size `status` has.
            file: KnownFile::open("/proc/thread-self/comm")?,
            namespace_file: KnownFile::open("/proc/thread-self/ns/pid")?,
            datagrams: Datagrams::connect().ok(),
            streams: UnixStream::pair().ok(),
            status: fs::read_to_string("/proc/thread-self/status")?,
            code: code()?,
            stack: on_stack.saturating_sub(NEAR)..on_stack.saturating_add(NEAR),
            thread_pointer: thread_pointer(),
            pid_namespace: fs::metadata("/proc/self/ns/pid")?.ino(),
            memory_flags: memory_flags(),
            folder: folder().ok().flatten(),
        })
    }

    /// Returns a field of `stat`, as `proc(5)` counts them.
    pub fn stat(&self, field: usize) -> Option<u64> {
        self.stat.get(field.checked_sub(3)?).copied()
    }

    /// Returns the words behind a name in `status`.
    pub fn status(&self, name: &str) -> impl Iterator<Item = &str> {
        let mut lines = self.status.lines();
        let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        rest.unwrap_or_default().split_whitespace()
    }
}

impl KnownFile {
    fn open(path: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let mounts = Mounts::read()?;
        let mount = mounts.find(file.as_fd());
        let parent = mount.and_then(|mount| mounts.by_id(mount.parent));
        let own_name = |path: &&str| Some(last_part(path));
        Ok(Self {
            inode: file.metadata()?.ino(),
            magic: magic(file.as_fd())?,
            mount_point: mount
                .map(|mount| mount.point)
                .filter(|point| *point != "/")
                .as_ref()
                .and_then(own_name)
                .flatten(),
            mount_root: mount.and_then(|mount| last_part(mount.root)),
            parent_root: parent.and_then(|parent| last_part(parent.root)),
            file,
        })
    }
}

impl Datagrams {
    fn connect() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = socket.local_addr()?.port();
        socket.connect((Ipv4Addr::LOCALHOST, port))?;
        let inode = File::from(socket.as_fd().try_clone_to_owned()?).metadata()?;
        Ok(Self {
            socket,
            port,
            inode: inode.ino(),
        })
    }
}

/// The mounts that this process sees.
struct Mounts(String);

#[derive(Clone, Copy)]
struct Mount<'a> {
    parent: &'a str,
    root: &'a str,
    point: &'a str,
}

impl Mounts {
    fn read() -> io::Result<Self> {
        fs::read_to_string("/proc/thread-self/mountinfo").map(Self)
    }

    fn by_id(&self, wanted: &str) -> Option<Mount<'_>> {
        self.0.lines().find_map(|line| {
            let mut words = line.split(' ');
            let id = words.next()?;
            let parent = words.next()?;
            let root = words.nth(1)?;
            let point = words.next()?;
            (id == wanted).then_some(Mount {
                parent,
                root,
                point,
            })
        })
    }

    fn find(&self, file: BorrowedFd<'_>) -> Option<Mount<'_>> {
        self.by_id(&mount_of(file).ok()?)
    }
}

/// Returns the identifier of the mount that a file is in.
fn mount_of(file: BorrowedFd<'_>) -> io::Result<String> {
    let path = format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd());
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines();
    let id = lines.find_map(|line| line.strip_prefix("mnt_id:"));
    Ok(id.unwrap_or_default().trim().to_owned())
}

/// Returns the last part of a path; `/` for the root. `None` where the kernel shows the path in
/// another form.
fn last_part(path: &str) -> Option<Vec<u8>> {
    let is_plain = path.starts_with('/') && !path.contains('\\') && !path.ends_with("//deleted");
    let last = path.rsplit('/').next().filter(|last| !last.is_empty());
    is_plain.then(|| last.unwrap_or("/").into())
}

/// Returns the name of the current folder; `None` where the folder is the root of a mount.
fn folder() -> io::Result<Option<Vec<u8>>> {
    let open = |path| {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_PATH).open(path)
    };
    let (here, above) = (open(".")?, open("..")?);
    let path = std::env::current_dir()?;
    let is_inside = mount_of(here.as_fd())? == mount_of(above.as_fd())?;
    Ok(path
        .to_str()
        .filter(|path| is_inside && *path != "/")
        .and_then(last_part))
}

fn tid() -> u64 {
    // SAFETY: takes nothing, and cannot fail.
    let tid = unsafe { libc::gettid() };
    tid.unsigned_abs().into()
}

/// Returns the number of the kind of file system that a file is in.
fn magic(file: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all-zero bytes are valid.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is a `statfs` to write to.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    u64::try_from(found.f_type).map_err(io::Error::other)
}

/// Returns the addresses at which this process has code.
fn code() -> io::Result<Vec<Range<u64>>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let ranges = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |word| u64::from_str_radix(word, 16).ok();
        let is_code = rest.get(2..3) == Some("x");
        is_code.then_some(address(start)?..address(end)?)
    });
    Ok(ranges.collect())
}

fn memory_flags() -> Option<u64> {
    let filter = fs::read_to_string("/proc/self/coredump_filter").ok()?;
    let filter = u64::from_str_radix(filter.trim(), 16).ok()?;
    // SAFETY: takes integers only.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
    Some(u64::try_from(dumpable).ok()? | filter << 2)
}

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> Option<u64> {
    const ARCH_GET_FS: libc::c_int = 0x1003;
    let mut address = 0_u64;
    // SAFETY: the call writes the 8 bytes of `address`.
    let failed = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_FS, &raw mut address) };
    (failed == 0).then_some(address)
}

#[cfg(not(target_arch = "x86_64"))]
fn thread_pointer() -> Option<u64> {
    None
}
