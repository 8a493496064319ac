//! Connection to the agent: which process is believed to be one, and how long a call waits for it.

use std::env;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Read, Write};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd as _, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::descriptors::send_with_files;

use super::{ADDRESS_VARIABLE, AgentError, SYSTEM_ADDRESS, is_program_with_special_rights};

/// How long a call waits for the agent. Most answers take a fraction of a millisecond; a service
/// that first loads its programs takes half a second.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the agent of this program: the one that its environment names, or else that of the
/// system. Believes only a process of root or of this process's own user, or one that listens under
/// a name that only root can have given: any other process could invent events of the kernel. If
/// another process has filled the listener's queue, the call waits for `at_most`.
///
/// # Errors
///
/// See [`AgentError`].
pub fn connect(at_most: Duration) -> Result<UnixStream, AgentError> {
    let system = OsStr::new(SYSTEM_ADDRESS);
    // The caller of a program with special rights does not choose the agent.
    let named = env::var_os(ADDRESS_VARIABLE).filter(|_| !is_program_with_special_rights());
    match named.filter(|named| named != system) {
        Some(named) => match connect_believed(&named, at_most) {
            // The trace under which this program was started may be over.
            Err(AgentError::NoAgent) => connect_believed(system, at_most),
            connected => connected,
        },
        None => connect_believed(system, at_most),
    }
}

/// Checks that there is an agent that is believed to be one. Returns where it listens.
///
/// # Errors
///
/// See [`AgentError`].
pub fn reach() -> Result<PathBuf, AgentError> {
    let address = connect(TIMEOUT)?.peer_addr();
    let address = address.map_err(AgentError::Silent)?;
    Ok(address
        .as_pathname()
        .map(Path::to_owned)
        .unwrap_or_default())
}

fn connect_believed(path: &OsStr, at_most: Duration) -> Result<UnixStream, AgentError> {
    let connected = connect_to(path.as_bytes(), at_most);
    let agent = connected.map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN) => AgentError::Silent(error),
        _ => AgentError::NoAgent,
    })?;
    let user = user_of_peer(&agent).map_err(AgentError::Silent)?;
    // SAFETY: the call has no preconditions and cannot fail.
    let own = unsafe { libc::geteuid() };
    if user != 0 && user != own && !is_named_by_root(Path::new(path), user) {
        return Err(AgentError::Untrusted { user });
    }
    Ok(agent)
}

/// Tells whether only root can have made a socket of `user` under this name: no other user may
/// write to the folder, and under the name lies a socket of root or of `user`.
fn is_named_by_root(path: &Path, user: libc::uid_t) -> bool {
    let folder = path.parent().and_then(|path| path.symlink_metadata().ok());
    let is_roots =
        |folder: &Metadata| folder.is_dir() && folder.uid() == 0 && folder.mode() & 0o022 == 0;
    folder.as_ref().is_some_and(is_roots)
        && path.symlink_metadata().is_ok_and(|found| {
            found.file_type().is_socket() && (found.uid() == 0 || found.uid() == user)
        })
}

/// Connects to a path, within a time.
fn connect_to(path: &[u8], at_most: Duration) -> io::Result<UnixStream> {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let unusable = || io::Error::from(io::ErrorKind::InvalidInput);
    // A null at the front would name an abstract socket, and any process may take such a name
    // first.
    if path.first() != Some(&b'/') || path.len() >= address.sun_path.len() {
        return Err(unusable());
    }
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).map_err(|_never| unusable())?;
    for (to, byte) in address.sun_path.iter_mut().zip(path) {
        *to = libc::c_char::from_ne_bytes([*byte]);
    }
    let length = offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
    let length = libc::socklen_t::try_from(length).map_err(|_never| unusable())?;
    // SAFETY: takes integers only.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened just now, and no other value owns it.
    let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(socket) });
    socket.set_write_timeout(Some(at_most))?;
    // SAFETY: the address is valid for the length that the call is given.
    let failed = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Returns the user of the process that called `listen()`, as the kernel noted it then.
fn user_of_peer(socket: &UnixStream) -> io::Result<libc::uid_t> {
    let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or_default();
    // SAFETY: both are valid for a write, and the length is that of the first.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            credentials.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero bytes are valid, and the kernel has filled them in.
    Ok(unsafe { credentials.assume_init() }.uid)
}

/// A connection with a deadline for the whole conversation, however slowly the other side sends.
pub struct Until<'a> {
    socket: &'a UnixStream,
    end: Instant,
}

impl<'a> Until<'a> {
    /// Makes a connection over `socket` with the deadline `end`.
    pub fn new(socket: &'a UnixStream, end: Instant) -> Self {
        Self { socket, end }
    }

    /// Sends bytes, and descriptors with the first of them.
    pub fn send_with(&mut self, bytes: &[u8], files: &[RawFd]) -> io::Result<()> {
        self.socket.set_write_timeout(self.left()?)?;
        let sent = send_with_files(self.socket.as_fd(), bytes, files).map_err(in_words)?;
        self.write_all(bytes.get(sent..).unwrap_or_default())
    }

    /// Returns the time that is left; an error if there is none.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_late());
        }
        Ok(Some(left))
    }
}

/// Returns an error of a socket with a timeout: where that is over, the kernel says only that there
/// is nothing yet.
fn in_words(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        too_late()
    } else {
        error
    }
}

/// Returns the error of a conversation that was to be over by now.
fn too_late() -> io::Error {
    let why = "not in time; try again: it loads its programs, or the machine is very busy";
    io::Error::new(io::ErrorKind::TimedOut, why)
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        let mut socket = self.socket;
        socket.read(into).map_err(in_words)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        let mut socket = self.socket;
        socket.write(from).map_err(in_words)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn who_does_not_answer_in_time_is_told_in_words() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let soon = Duration::from_millis(20);
        let read = |at| Until::new(&socket, at).read(&mut [0]).unwrap_err();
        for error in [read(Instant::now() + soon), read(Instant::now())] {
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(error.to_string().contains("; try again"), "{error}");
        }
    }

    #[test]
    fn the_other_side_is_known_by_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let socket = connect_to(path.as_os_str().as_bytes(), TIMEOUT).unwrap();
        // SAFETY: the call has no preconditions and cannot fail.
        assert_eq!(user_of_peer(&socket).unwrap(), unsafe { libc::geteuid() });
    }

    #[test]
    fn a_name_that_any_process_may_take_is_no_address() {
        for name in [
            &b"@abstract"[..],
            b"",
            b"\0abstract",
            b"relative",
            &[b'/'; 200],
        ] {
            // Refused before a connection is tried: another process may listen there.
            let refused = connect_to(name, TIMEOUT)
                .map(drop)
                .map_err(|error| error.kind());
            assert_eq!(refused, Err(io::ErrorKind::InvalidInput));
        }
    }

    #[test]
    fn a_name_that_other_users_can_give_is_not_roots() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        // SAFETY: the call has no preconditions and cannot fail.
        let own = unsafe { libc::geteuid() };
        assert_eq!(is_named_by_root(&path, own), own == 0);
        // A socket of root's in a folder to which all may write can be another one a moment later.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(!is_named_by_root(&path, own));
        assert!(!is_named_by_root(Path::new("/etc/passwd"), 0));
        assert!(!is_named_by_root(Path::new("/"), 0));
    }

    #[test]
    fn an_agent_that_drips_is_not_waited_for_longer_than_the_whole_may_take() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let end = Instant::now() + Duration::from_millis(200);
        let dripping = std::thread::spawn(move || {
            let mut theirs = theirs;
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut all = [0; 1000];
        assert!(Until::new(&ours, end).read_exact(&mut all).is_err());
        assert!(end.elapsed() < Duration::from_secs(2));
        drop(ours);
        dripping.join().unwrap();
    }
}
