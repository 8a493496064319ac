//! Files that another user's program serves (FUSE). A process that asks for one waits until that
//! program answers, and cannot even be killed meanwhile; a probe in one would keep all processes of
//! the machine from forking as long.
//!
//! So it has to be known without asking, not even for the kind of its file system: from what the
//! kernel remembers.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Bytes of a process's `mountinfo` that are read: it may make a hundred thousand mounts for
/// itself.
const MOST_MOUNTINFO_BYTES: u64 = 256 << 10;

/// Reason why an existing file is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// FIFO, device or folder.
    #[error("it is no ordinary file, and is not opened")]
    NoOrdinaryFile,
    /// File in FUSE.
    #[error("a program of another user serves it (FUSE) and may stop to, so it is not opened")]
    Served,
    /// File in a mount of which nothing is known.
    #[error("it is in a mount that neither tracer-user nor the process sees, so it is not opened")]
    Hidden,
}

impl From<Unsafe> for io::Error {
    fn from(why: Unsafe) -> Self {
        Self::new(io::ErrorKind::InvalidInput, why)
    }
}

/// Makes sure that a file, which is held without having been opened, may be opened. `path` is where
/// it was found.
///
/// # Errors
///
/// It may not ([`Unsafe`]), or nothing is known of it.
pub fn ensure_unserved(held: &OwnedFd, path: &Path) -> io::Result<()> {
    if is_on_disk(held)? {
        return Ok(());
    }
    let mount = mount_of(held)?;
    let own = File::open("/proc/self/mountinfo")?;
    let found = find(BufReader::new(own), mount);
    let found = found.or_else(|| {
        let theirs = File::open(mounts_of_process(path)?).ok()?;
        find(BufReader::new(theirs.take(MOST_MOUNTINFO_BYTES)), mount)
    });
    match found {
        None => Err(Unsafe::Hidden.into()),
        Some(server) if is_somebody_else(server) => Err(Unsafe::Served.into()),
        Some(_) => Ok(()),
    }
}

/// Tells whether a process sees other mounts than we do, under its `root`, perhaps made by itself,
/// and one of them is served by another user; also true where that is not known.
pub fn sees_served_mounts(root: &Path) -> bool {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let process = root.parent().unwrap_or(root);
    if root == Path::new("/") || namespace(process) == namespace(Path::new("/proc/self")) {
        return false;
    }
    let Ok(mounts) = File::open(process.join("mountinfo")) else {
        return true;
    };
    let mut mounts = BufReader::new(mounts.take(MOST_MOUNTINFO_BYTES));
    let is_any_served = is_any_served(&mut mounts);
    // Of what was not read nothing is known.
    is_any_served || mounts.get_ref().limit() == 0
}

fn is_any_served(mounts: impl BufRead) -> bool {
    let mut lines = mounts.split(b'\n').map_while(Result::ok);
    lines.any(|line| {
        let line = String::from_utf8_lossy(&line);
        let mount = line.split(' ').next().and_then(|word| word.parse().ok());
        mount.is_none_or(|mount| server_in(&line, mount).is_none_or(is_somebody_else))
    })
}

fn is_somebody_else(server: Server) -> bool {
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    matches!(server, Server::User(other) if other != 0 && other != user)
}

/// Server of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Kernel,
    User(u32),
}

/// Tells whether a file is on a block device, by the kernel's own memory: no server is asked.
fn is_on_disk(held: &OwnedFd) -> io::Result<bool> {
    // SAFETY: all-zero bytes are valid.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path ends with a null, and `found` may be written to.
    let failed = unsafe {
        libc::statx(
            held.as_raw_fd(),
            c"".as_ptr(),
            flags,
            libc::STATX_TYPE,
            &raw mut found,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.stx_dev_major != 0)
}

/// Returns the id of the mount that a file is in.
fn mount_of(held: &OwnedFd) -> io::Result<u64> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", held.as_raw_fd()))?;
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let mount = mount.and_then(|mount| mount.trim().parse().ok());
    mount.ok_or_else(|| Unsafe::Hidden.into())
}

/// Returns the mounts of the process in whose folder of `/proc` the path is.
fn mounts_of_process(path: &Path) -> Option<PathBuf> {
    let mut parts = path.strip_prefix("/proc").ok()?.components();
    match parts.next()? {
        Component::Normal(process) => Some(Path::new("/proc").join(process).join("mountinfo")),
        _ => None,
    }
}

fn find(mounts: impl BufRead, mount: u64) -> Option<Server> {
    let mut lines = mounts.split(b'\n').map_while(Result::ok);
    lines.find_map(|line| server_in(&String::from_utf8_lossy(&line), mount))
}

/// Returns the server of a mount, if a line of `mountinfo` describes it: id, parent, device, root,
/// mount point, options, ..., a dash, kind, source, options.
fn server_in(line: &str, mount: u64) -> Option<Server> {
    let (of_mount, of_system) = line.split_once(" - ")?;
    if of_mount.split(' ').next()?.parse() != Ok(mount) {
        return None;
    }
    let mut words = of_system.split(' ');
    let kind = words.next()?;
    if kind != "fuse" && !kind.starts_with("fuse.") {
        return Some(Server::Kernel);
    }
    let options = words.nth(1)?.split(',');
    let mut users = options.filter_map(|option| option.strip_prefix("user_id="));
    // What a server calls itself comes before.
    let user = users.next_back()?.parse().ok()?;
    Some(Server::User(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_is_what_the_kernel_recorded_at_the_mount() {
        let far =
            "105 27 0:49 / /home/u/far rw,nosuid - fuse.sshfs far: rw,user_id=1000,group_id=1000";
        assert_eq!(server_in(far, 105), Some(Server::User(1000)));
        assert_eq!(server_in(far, 27), None);
        // A folder may be called as options are; a blank in a name is written otherwise.
        let named = "9 27 0:49 / /a/user_id=0 rw shared:3 - fuse s rw,user_id=7,group_id=7";
        assert_eq!(server_in(named, 9), Some(Server::User(7)));
        for of_kernel in [
            "9 1 0:22 / / rw - virtiofs root rw",
            "9 1 0:22 / / rw - btrfs /dev/sda1 rw,subvolid=5,subvol=/",
            "9 1 0:22 / / rw - fusectl none rw",
        ] {
            assert_eq!(server_in(of_kernel, 9), Some(Server::Kernel));
        }
    }

    #[test]
    fn what_is_in_no_file_system_of_others_may_be_opened() {
        for path in ["/proc/self/exe", "/proc/self/status", "/dev/shm"] {
            let held = OwnedFd::from(File::open(path).unwrap());
            ensure_unserved(&held, Path::new(path)).unwrap();
        }
        assert!(!sees_served_mounts(Path::new("/proc/self/root")));
        assert!(!sees_served_mounts(Path::new("/")));
    }

    #[test]
    fn one_mount_that_is_served_is_enough() {
        let kernels =
            "9 1 0:22 / / rw - btrfs /dev/sda1 rw\n10 9 0:23 / /tmp rw - tmpfs tmpfs rw\n";
        assert!(!is_any_served(kernels.as_bytes()));
        let served = "11 9 0:24 / /far rw - fuse.x x rw,user_id=4242,group_id=0\n";
        assert!(is_any_served([kernels, served].concat().as_bytes()));
        assert!(is_any_served("nonsense\n".as_bytes()));
    }

    #[test]
    fn a_process_is_known_by_where_its_files_are() {
        let of = |path: &str| mounts_of_process(Path::new(path));
        assert_eq!(
            of("/proc/7/map_files/1-2"),
            Some("/proc/7/mountinfo".into())
        );
        assert_eq!(of("/usr/bin/true"), None);
    }
}
