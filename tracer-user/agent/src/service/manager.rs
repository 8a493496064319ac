//! Messages to a service manager, as systemd takes them (`sd_notify(3)`).

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracer_text::say;

/// Reports that what was asked for has begun. Does nothing where no service manager has asked for
/// that.
pub fn say_ready() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, b"READY=1") {
        // It waits until its own limit, and says so.
        say(&format!("the service manager cannot be reached: {error}"));
    }
}

fn send(socket: &OsString, message: &[u8]) -> io::Result<()> {
    let name = socket.as_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_by_name_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("tracer-user-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (listener, socket) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.clone().into_os_string(),
            ),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{abstract_name}").into(),
            ),
        ] {
            send(&socket, b"READY=1").unwrap();
            let mut message = [0; 16];
            let length = listener.recv(&mut message).unwrap();
            assert_eq!(message.get(..length), Some(&b"READY=1"[..]));
        }
        assert!(send(&folder.path().join("nobody").into(), b"READY=1").is_err());
    }
}
