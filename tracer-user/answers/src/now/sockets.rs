//! Other ends of sockets on this machine.

use std::fs;

use super::asking::ask;
use super::unix_peer;

/// A socket, as the tables of its network namespace have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Addresses in words: own, other.
    pub addresses: Option<(String, String)>,
    /// Inode of the other end, where that is here.
    pub peer: Option<u64>,
}

/// Returns the number in `socket:[123]`.
pub fn inode_of(link: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(link).ok()?;
    let number = text.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Looks for a socket of a process: among those of this machine alone, and in the tables of TCP.
pub fn find(pid: i32, inode: u64) -> Option<Socket> {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let is_here = namespace(&pid.to_string()).is_some_and(|one| Some(one) == namespace("self"));
    let local = is_here.then(|| unix_peer::find(inode)).flatten();
    let local = local.map(|peer| Socket {
        addresses: None,
        peer,
    });
    local.or_else(|| in_tables(pid, inode))
}

fn in_tables(pid: i32, inode: u64) -> Option<Socket> {
    ["tcp", "tcp6"].into_iter().find_map(|table| {
        let text = ask(pid, move || {
            fs::read_to_string(format!("/proc/{pid}/net/{table}"))
        });
        find_in(&text.ok()?.ok()?, inode)
    })
}

fn find_in(table: &str, inode: u64) -> Option<Socket> {
    let rows = || table.lines().skip(1).filter_map(row);
    let own = rows().find(|(_, _, of_row)| *of_row == inode)?;
    let (local, remote, _) = own;
    let mut peers = rows().filter(|(one, other, _)| (*one, *other) == (remote, local));
    let peer = peers.next().map(|(_, _, inode)| inode);
    let addresses = (in_words(local)?, in_words(remote)?);
    Some(Socket {
        addresses: Some(addresses),
        peer: peer.filter(|peer| *peer != 0 && peers.next().is_none()),
    })
}

fn row(line: &str) -> Option<(&str, &str, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (_number, local, remote) = (words.next()?, words.next()?, words.next()?);
    Some((local, remote, words.nth(6)?.parse().ok()?))
}

/// Renders an address of a table: `0100007F:1F90` is 127.0.0.1:8080.
fn in_words(address: &str) -> Option<String> {
    let (host, port) = address.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = host.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    let host: std::net::IpAddr = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(bytes) => bytes.into(),
        Err(_) => <[u8; 16]>::try_from(bytes.as_slice()).ok()?.into(),
    };
    Some(std::net::SocketAddr::new(host, port).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn the_other_end_of_a_connection_is_the_row_with_both_addresses_swapped() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n\
            0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000 0 0 100 1\n\
            1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 0 101 1\n\
            2: 0100007F:1F90 0100007F:C351 01 00000000:00000000 00:00000000 00000000 0 0 102 1\n\
            x\n";
        let found = find_in(table, 101).unwrap();
        assert_eq!(found.peer, Some(100));
        let (own, other) = found.addresses.unwrap();
        assert_eq!((&*own, &*other), ("127.0.0.1:50000", "127.0.0.1:8080"));
        assert_eq!(find_in(table, 102).unwrap().peer, None);
        assert_eq!(find_in(table, 103), None);
        assert_eq!(
            in_words("00000000000000000000000001000000:0050").unwrap(),
            "[::1]:80"
        );
    }

    #[test]
    fn the_name_of_a_socket_has_its_number() {
        assert_eq!(inode_of(b"socket:[12]"), Some(12));
        for link in [&b"pipe:[12]"[..], b"socket:[", b"socket:[x]", b"\xff"] {
            assert_eq!(inode_of(link), None);
        }
    }
}
