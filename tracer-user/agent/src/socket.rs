//! Socket where programs can ask, in a folder that others cannot write to.
//!
//! No other user can take a name in the agent's folder, neither while the agent lives nor later; an
//! abstract name they could take. The next tracer removes what a killed one has left there.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The folder, where root listens.
const FOLDER: &str = "/run/tracer-user";

/// Listening socket. Its name is removed when this is dropped.
#[derive(Debug)]
pub struct AgentSocket {
    path: PathBuf,
    /// The folder too, where it was made for this socket alone.
    folder: Option<PathBuf>,
}

impl AgentSocket {
    /// Makes the socket. Every program may connect; whether it is answered is decided elsewhere.
    ///
    /// # Errors
    ///
    /// There is no folder for it.
    pub fn listen() -> io::Result<(UnixListener, Self)> {
        let (parent, folder) = match shared_folder() {
            Ok(shared) => (shared, None),
            // Not root, or a machine without that folder.
            Err(_) => {
                let own = own_folder()?;
                (own.clone(), Some(own))
            }
        };
        let name = format!("agent-{}-{:016x}.sock", std::process::id(), random()?);
        let socket = Self {
            path: parent.join(name),
            folder,
        };
        let listener = UnixListener::bind(&socket.path)?;
        fs::set_permissions(&socket.path, Permissions::from_mode(0o666))?;
        Ok((listener, socket))
    }

    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        // What cannot be removed the next tracer removes.
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Returns the folder that all tracers of root share.
fn shared_folder() -> io::Result<PathBuf> {
    let folder = Path::new(FOLDER);
    match DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder)?;
    // SAFETY: the call has no preconditions and cannot fail.
    let own = unsafe { libc::geteuid() };
    let is_ours = metadata.is_dir() && metadata.uid() == own && metadata.mode() & 0o022 == 0;
    if !is_ours {
        return Err(ErrorKind::PermissionDenied.into());
    }
    remove_left_behind(folder);
    Ok(folder.to_owned())
}

/// Removes sockets without a listener: those whose process, by the name, is gone, and that refuse a
/// connection. (Between making a socket and listening it would refuse one too.)
fn remove_left_behind(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let pid = name
            .strip_prefix("agent-")
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        let is_gone = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        let refuses = || {
            UnixStream::connect(entry.path())
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        if is_gone && refuses() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes a new folder for one socket: others may go through it, and only we may write.
fn own_folder() -> io::Result<PathBuf> {
    let mut name = *b"/tmp/tracer-user-XXXXXX\0";
    // SAFETY: a string that ends with a null, and whose end the call may change.
    if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    let name = name.strip_suffix(b"\0").unwrap_or(&name);
    let folder = PathBuf::from(String::from_utf8_lossy(name).into_owned());
    fs::set_permissions(&folder, Permissions::from_mode(0o711))?;
    Ok(folder)
}

fn random() -> io::Result<u64> {
    let mut random = [0; 8];
    // SAFETY: the buffer has so many bytes.
    if unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_ne_bytes(random))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn all_users_may_connect_and_no_other_may_take_the_name() {
        let (_listener, socket) = AgentSocket::listen().unwrap();
        assert!(UnixStream::connect(socket.path()).is_ok());
        let folder = fs::metadata(socket.path().parent().unwrap()).unwrap();
        assert_eq!(folder.mode() & 0o022, 0);
        let path = socket.path().to_owned();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_tracer_left_behind_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // No process has so high a pid.
        let left = folder.path().join("agent-4194999-0.sock");
        drop(UnixListener::bind(&left).unwrap());
        let own = format!("agent-{}-0.sock", std::process::id());
        let own = folder.path().join(own);
        drop(UnixListener::bind(&own).unwrap());
        let other = folder.path().join("notes");
        fs::write(&other, "").unwrap();
        // A child of another test has what is closed here until its exec.
        let end = Instant::now() + Duration::from_secs(10);
        while left.exists() && Instant::now() < end {
            remove_left_behind(folder.path());
        }
        assert!(!left.exists() && own.exists() && other.exists());
    }
}
