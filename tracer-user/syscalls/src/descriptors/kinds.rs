//! Descriptions of descriptors in words, from their records.

use std::net::{Ipv4Addr, Ipv6Addr};

use tracer_common::kernel::{SocketHead, descriptors};
use zerocopy::FromBytes;

use crate::pointer_data::{Text, push_quoted};

/// A descriptor in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Text that `/proc/PID/fd` shows: a path, or one like `pipe:[1234]`.
    pub plain: Vec<u8>,
    /// Text that says more than that; empty where nothing does.
    pub full: Vec<u8>,
    /// Whether it is a file that is no longer there.
    pub is_deleted: bool,
    /// Protocol of a netlink socket.
    pub netlink: Option<u8>,
}

/// Returns the words of a record of this kind; `None` where our programs write no such one.
pub fn words(kind: u8, untrusted: &[u8]) -> Option<Words> {
    let plain = match kind {
        descriptors::PATH | descriptors::DELETED => path(untrusted)?,
        descriptors::PIPE => format!("pipe:[{}]", word(untrusted)?).into_bytes(),
        descriptors::SOCKET => return socket(untrusted),
        descriptors::ANONYMOUS => [b"anon_inode:", text(untrusted)].concat(),
        descriptors::MEMORY => [b"/", text(untrusted)].concat(),
        descriptors::PROCESS => b"anon_inode:[pidfd]".to_vec(),
        descriptors::NAMESPACE => {
            let inode = format!(":[{}]", word(untrusted)?);
            [text(untrusted.get(8..)?), inode.as_bytes()].concat()
        }
        _ => return None,
    };
    let full = match (kind, word(untrusted)) {
        (descriptors::PROCESS, Some(pid @ 1..)) => format!("pid:{pid}").into_bytes(),
        _ => Vec::new(),
    };
    let is_deleted = [descriptors::DELETED, descriptors::MEMORY].contains(&kind);
    Some(Words {
        plain,
        full,
        is_deleted,
        netlink: None,
    })
}

/// Builds the path from names of which the innermost comes first.
fn path(untrusted: &[u8]) -> Option<Vec<u8>> {
    if untrusted.is_empty() {
        return Some(b"/".to_vec());
    }
    let names = untrusted.strip_suffix(&[0])?;
    let mut path = Vec::with_capacity(untrusted.len());
    for name in names.rsplit(|byte| *byte == 0) {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    Some(path)
}

fn socket(untrusted: &[u8]) -> Option<Words> {
    let (head, rest) = SocketHead::read_from_prefix(untrusted).ok()?;
    let protocol = text(rest);
    let address = rest.get(protocol.len() + 1..)?;
    let address = address.get(..usize::from(head.address_bytes))?;
    let known = PROTOCOLS.iter().find(|name| name.as_bytes() == protocol);
    let full = known.map(|protocol| {
        let details = details(&head, address);
        let details = details.unwrap_or_else(|| head.inode.to_string());
        format!("{protocol}:[{details}]").into_bytes()
    });
    Some(Words {
        plain: format!("socket:[{}]", head.inode).into_bytes(),
        full: full.unwrap_or_default(),
        is_deleted: false,
        netlink: (i32::from(head.family) == libc::AF_NETLINK)
            .then(|| u8::try_from(head.protocol).ok())
            .flatten(),
    })
}

/// Protocols that strace knows.
const PROTOCOLS: &[&str] = &[
    "DCCP",
    "DCCPv6",
    "L2TP/IP",
    "L2TP/IPv6",
    "NETLINK",
    "PING",
    "PINGv6",
    "RAW",
    "RAWv6",
    "SCTP",
    "SCTPv6",
    "TCP",
    "TCPv6",
    "UDP",
    "UDPLITE",
    "UDPLITEv6",
    "UDPv6",
    "UNIX",
    "UNIX-STREAM",
];

/// Returns the known facts about the ends of a socket.
fn details(head: &SocketHead, address: &[u8]) -> Option<String> {
    match i32::from(head.family) {
        libc::AF_INET => {
            let ip = |bytes: &[u8; 16]| {
                let four = bytes.first_chunk::<4>().copied().unwrap_or_default();
                Ipv4Addr::from(four).to_string()
            };
            ends(head, ip)
        }
        libc::AF_INET6 => ends(head, |bytes| format!("[{}]", Ipv6Addr::from(*bytes))),
        libc::AF_UNIX => Some(unix(head, address)),
        libc::AF_NETLINK if head.port_id != 0 => {
            let protocol = usize::from(head.protocol);
            let name = NETLINK.get(protocol).filter(|name| !name.is_empty());
            Some(match name {
                Some(name) => format!("{name}:{}", head.port_id),
                None => format!("{protocol}:{}", head.port_id),
            })
        }
        _ => None,
    }
}

/// Protocols of netlink, by their codes.
const NETLINK: &[&str] = &[
    "ROUTE",
    "UNUSED",
    "USERSOCK",
    "FIREWALL",
    "SOCK_DIAG",
    "NFLOG",
    "XFRM",
    "SELINUX",
    "ISCSI",
    "AUDIT",
    "FIB_LOOKUP",
    "CONNECTOR",
    "NETFILTER",
    "IP6_FW",
    "DNRTMSG",
    "KOBJECT_UEVENT",
    "GENERIC",
    "",
    "SCSITRANSPORT",
    "ECRYPTFS",
    "RDMA",
    "CRYPTO",
    "SMC",
];

/// Renders the ends of a socket: `127.0.0.1:80->127.0.0.1:51234`, or the first of them; `None`
/// where it is not bound.
fn ends(head: &SocketHead, address: impl Fn(&[u8; 16]) -> String) -> Option<String> {
    if head.local_port == 0 {
        return None;
    }
    let local = format!("{}:{}", address(&head.local), head.local_port);
    let remote_port = u16::from_be(head.remote_port);
    if remote_port == 0 && head.remote == [0; 16] {
        return Some(local);
    }
    Some(format!("{local}->{}:{remote_port}", address(&head.remote)))
}

/// Renders a Unix socket: `1234->5678,"/run/socket"`.
fn unix(head: &SocketHead, address: &[u8]) -> String {
    let mut words = head.inode.to_string();
    if head.has_peer != 0 {
        words.push_str(&format!("->{}", head.peer));
    }
    // The address family comes before the name.
    let name = address.get(2..).unwrap_or_default();
    let (before, name) = match name.split_first() {
        None => return words,
        Some((0, name)) => (",@", name),
        Some(_) => (",", text(name)),
    };
    let mut quoted = Vec::new();
    let text = Text {
        argument: 0,
        bytes: name,
        has_more: false,
        is_bytes: false,
    };
    push_quoted(&mut quoted, &text);
    words.push_str(before);
    words.push_str(&String::from_utf8_lossy(&quoted));
    words
}

fn word(untrusted: &[u8]) -> Option<u64> {
    untrusted
        .first_chunk()
        .map(|word| u64::from_ne_bytes(*word))
}

/// Returns the bytes before the first null.
fn text(untrusted: &[u8]) -> &[u8] {
    untrusted
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    fn plain(kind: u8, untrusted: &[u8]) -> Option<String> {
        words(kind, untrusted).map(|words| String::from_utf8(words.plain).unwrap())
    }

    fn full(head: SocketHead, protocol: &[u8], address: &[u8]) -> String {
        let record = [head.as_bytes(), protocol, &[0], address].concat();
        String::from_utf8(socket(&record).unwrap().full).unwrap()
    }

    #[test]
    fn names_become_paths() {
        assert_eq!(plain(descriptors::PATH, b"").unwrap(), "/");
        assert_eq!(
            plain(descriptors::PATH, b"x\0log\0var\0").unwrap(),
            "/var/log/x"
        );
        assert_eq!(plain(descriptors::PATH, b"x"), None);
        assert!(words(descriptors::DELETED, b"x\0").unwrap().is_deleted);
        let pipe = 7_u64.to_ne_bytes();
        assert_eq!(plain(descriptors::PIPE, &pipe).unwrap(), "pipe:[7]");
        assert_eq!(plain(descriptors::PIPE, b"7"), None);
        let net = [&4_u64.to_ne_bytes()[..], b"net\0"].concat();
        assert_eq!(plain(descriptors::NAMESPACE, &net).unwrap(), "net:[4]");
        assert_eq!(plain(99, b""), None);
    }

    #[test]
    fn a_socket_of_netlink_has_its_protocol() {
        let protocol = |family: i32, protocol| {
            let head = SocketHead {
                family: u16::try_from(family).unwrap(),
                protocol,
                ..SocketHead::default()
            };
            socket(&[head.as_bytes(), b"NETLINK\0"].concat())
                .unwrap()
                .netlink
        };
        assert_eq!(protocol(libc::AF_NETLINK, 0), Some(0));
        assert_eq!(protocol(libc::AF_NETLINK, 16), Some(16));
        assert_eq!(protocol(libc::AF_NETLINK, 256), None);
        assert_eq!(protocol(libc::AF_INET, 6), None);
    }

    #[test]
    fn sockets_have_their_ends() {
        let mut head = SocketHead {
            inode: 9,
            family: u16::try_from(libc::AF_INET).unwrap(),
            ..SocketHead::default()
        };
        assert_eq!(full(head, b"TCP", b""), "TCP:[9]");
        head.local_port = 80;
        head.local[0] = 127;
        assert_eq!(full(head, b"TCP", b""), "TCP:[127.0.0.0:80]");
        head.remote[0] = 10;
        head.remote_port = 99_u16.to_be();
        assert_eq!(full(head, b"UDP", b""), "UDP:[127.0.0.0:80->10.0.0.0:99]");
        assert_eq!(full(head, b"SOMETHING", b""), "");
        let unix = |bytes: u16| SocketHead {
            inode: 9,
            family: u16::try_from(libc::AF_UNIX).unwrap(),
            has_peer: 1,
            peer: 8,
            address_bytes: bytes,
            ..SocketHead::default()
        };
        assert_eq!(full(unix(0), b"UNIX", b""), "UNIX:[9->8]");
        let named = b"\x01\0/run/\"s\0";
        assert_eq!(full(unix(10), b"UNIX", named), r#"UNIX:[9->8,"/run/\"s"]"#);
        let abstracted = b"\x01\0\0a\x01";
        assert_eq!(full(unix(5), b"UNIX", abstracted), r#"UNIX:[9->8,@"a\1"]"#);
        let record = [unix(99).as_bytes(), b"UNIX\0", &[0; 9]].concat();
        assert_eq!(socket(&record), None);
    }
}
