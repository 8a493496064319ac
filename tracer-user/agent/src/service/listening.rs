//! The socket of the service: its own, or the one that a service manager passes.

use std::env;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The first descriptor that a service manager passes (`sd_listen_fds(3)`).
const PASSED: RawFd = 3;

/// Reason why the service cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The descriptor that was passed is no listening Unix socket.
    #[error(
        "what the service manager has passed as descriptor 3 is no listening Unix socket of streams; \
         the unit tracer-user.socket passes one"
    )]
    NoSocket,
    /// More than one socket was passed.
    #[error("the service manager has passed {count} sockets; the service takes one")]
    TooMany {
        /// How many.
        count: u32,
    },
    /// Another process listens there.
    #[error("another process listens at {}; end it, or choose another path by --socket", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// A file that is no socket is there.
    #[error("{} is there, and is no socket; choose another path by --socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system's error.
    #[error("cannot listen at {}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Socket where the service listens.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    name: Option<SocketName>,
}

/// Name of a socket that the service has made itself. It is removed when this is dropped.
#[derive(Debug)]
pub struct SocketName(PathBuf);

impl Drop for SocketName {
    fn drop(&mut self) {
        // The next service removes what cannot be removed now.
        let _ = fs::remove_file(&self.0);
    }
}

impl Listening {
    /// Tells whether a service manager has passed the socket: it starts the service again when a
    /// program comes.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.name.is_none()
    }

    /// Returns the listener, and the name to hold for as long.
    pub(super) fn into_parts(self) -> (UnixListener, Option<SocketName>) {
        (self.listener, self.name)
    }
}

/// Takes the socket that a service manager passes, or listens at `path`, where every program may
/// connect.
///
/// # Errors
///
/// See [`ListenError`].
pub fn listen(path: &Path) -> Result<Listening, ListenError> {
    match count_of_passed() {
        0 => listen_at(path),
        1 => Ok(Listening {
            listener: passed()?,
            name: None,
        }),
        count => Err(ListenError::TooMany { count }),
    }
}

/// Returns how many sockets a service manager has passed to this process.
fn count_of_passed() -> u32 {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u32>().ok())
    };
    if number("LISTEN_PID") != Some(std::process::id()) {
        return 0;
    }
    number("LISTEN_FDS").unwrap_or(0)
}

fn passed() -> Result<UnixListener, ListenError> {
    if !is_listening_unix_socket(PASSED) {
        return Err(ListenError::NoSocket);
    }
    // SAFETY: it was passed to this process, and no other value owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(PASSED) };
    // SAFETY: takes integers only. What is started from here is not to have it.
    unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    Ok(socket.into())
}

fn is_listening_unix_socket(socket: RawFd) -> bool {
    let option = |name| {
        let mut value: libc::c_int = 0;
        let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or_default();
        // SAFETY: both are valid for a write, and the length is that of the first.
        let failed = unsafe {
            libc::getsockopt(
                socket,
                libc::SOL_SOCKET,
                name,
                (&raw mut value).cast(),
                &raw mut length,
            )
        };
        (failed == 0).then_some(value)
    };
    option(libc::SO_DOMAIN) == Some(libc::AF_UNIX)
        && option(libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && option(libc::SO_ACCEPTCONN) == Some(1)
}

fn listen_at(path: &Path) -> Result<Listening, ListenError> {
    let failed = |source| ListenError::System {
        path: path.to_owned(),
        source,
    };
    if let Ok(found) = path.symlink_metadata() {
        if !found.file_type().is_socket() {
            let path = path.to_owned();
            return Err(ListenError::NotASocket { path });
        }
        // A service that was killed has left its name behind.
        match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(failed)?;
            }
            _ => {
                let path = path.to_owned();
                return Err(ListenError::Taken { path });
            }
        }
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let name = SocketName(path.to_owned());
    fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(Listening {
        listener,
        name: Some(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_a_killed_service_left_is_taken_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        drop(UnixListener::bind(&path).unwrap());
        let listening = listen_at(&path).unwrap();
        assert!(!listening.is_passed());
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o666
        );
        assert!(matches!(listen_at(&path), Err(ListenError::Taken { .. })));
        drop(listening);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        assert!(matches!(
            listen_at(&path),
            Err(ListenError::NotASocket { .. })
        ));
        assert!(path.exists());
        let nowhere = folder.path().join("no/such/agent.sock");
        assert!(matches!(
            listen_at(&nowhere),
            Err(ListenError::System { .. })
        ));
    }

    #[test]
    fn only_a_listening_unix_socket_is_taken_from_a_service_manager() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (one, _other) = UnixStream::pair().unwrap();
        let network = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let file = fs::File::open("/dev/null").unwrap();
        assert!(is_listening_unix_socket(listener.as_raw_fd()));
        for other in [one.as_raw_fd(), network.as_raw_fd(), file.as_raw_fd(), -1] {
            assert!(!is_listening_unix_socket(other));
        }
    }
}
