//! Addresses and options of sockets.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::bytes::{Bytes, int, quoted, quoted_start};
use super::netlink;
use super::packet;
use super::pointed::Data;
use crate::arguments::Call;
use crate::descriptors::Named;
use crate::flags::{
    IP_OPTIONS, IPV6_OPTIONS, LEVEL, NETLINK_OPTIONS, NETLINK_PROTOCOLS, PROTOCOLS, SOCKET_CALLS,
    SOCKET_OPTIONS, TCP_OPTIONS, named,
};
use crate::names::error_name;

/// Appends the address of a socket.
pub fn push_sockaddr(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    push_address(out, data.bytes)
}

pub fn push_address(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    let family = i32::from(bytes.u16(0)?);
    let shown = match family {
        libc::AF_UNIX => {
            let path = bytes.from(2)?;
            match path.slice() {
                [] => "{sa_family=AF_UNIX}".to_owned(),
                // A name of its own, which may have nulls.
                [0, name @ ..] => format!("{{sa_family=AF_UNIX, sun_path=@{}}}", quoted(name)),
                _ => format!("{{sa_family=AF_UNIX, sun_path={}}}", path.quoted()),
            }
        }
        libc::AF_INET => {
            let address: [u8; 4] = *bytes.from(4)?.slice().first_chunk()?;
            format!(
                "{{sa_family=AF_INET, sin_port=htons({}), sin_addr=inet_addr(\"{}\")}}",
                bytes.u16_be(2)?,
                Ipv4Addr::from(address)
            )
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = *bytes.from(8)?.slice().first_chunk()?;
            format!(
                "{{sa_family=AF_INET6, sin6_port=htons({}), sin6_flowinfo=htonl({}), \
                 inet_pton(AF_INET6, \"{}\", &sin6_addr), sin6_scope_id={}}}",
                bytes.u16_be(2)?,
                u32::from_be(bytes.u32(4)?),
                Ipv6Addr::from(address),
                bytes.u32(24)?
            )
        }
        libc::AF_NETLINK => {
            let padding = match bytes.u16(2)? {
                0 => String::new(),
                padding => format!("nl_pad={padding:#x}, "),
            };
            let groups = match bytes.u32(8)? {
                0 => "00000000".to_owned(),
                groups => format!("{groups:#08x}"),
            };
            let port = bytes.i32(4)?;
            format!("{{sa_family=AF_NETLINK, {padding}nl_pid={port}, nl_groups={groups}}}")
        }
        libc::AF_PACKET => packet::address(bytes)?,
        libc::AF_UNSPEC => format!(
            "{{sa_family=AF_UNSPEC, sa_data={}}}",
            quoted(bytes.from(2)?.slice())
        ),
        _ => return None,
    };
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

/// Appends the data that is sent or received where it is messages of netlink; `None` where it is
/// not known to be. The argument that it is, and the value that the call has returned, determine
/// its length.
pub fn push_datagram(
    out: &mut Vec<u8>,
    call: &Call,
    (index, untrusted): (usize, &[u8]),
    returned: Option<i64>,
    named: Named<'_>,
) -> Option<()> {
    call.info()?
        .argument(index)
        .filter(|argument| argument.is_datagram)?;
    let protocol = named.netlink(call)?;
    let space = *call.registers.get(2)?;
    let length = returned.map_or(space, |bytes| u64::try_from(bytes).unwrap_or(0).min(space));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let shown = netlink::messages(protocol, netlink::Part::new(untrusted, length))?;
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

pub fn push_address_length(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    out.extend_from_slice(format!("[{}]", bytes.u32(0)?).as_bytes());
    Some(())
}

pub fn push_socket_option(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let (call, bytes, has_more) = (data.call, data.bytes, data.has_more);
    let level = i32::try_from(call.registers[1]).ok()?;
    let option = i32::try_from(call.registers[2]).ok()?;
    if (level, option) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        let (on, seconds) = (bytes.i32(0)?, bytes.i32(4)?);
        let shown = format!("{{l_onoff={on}, l_linger={seconds}}}");
        out.extend_from_slice(shown.as_bytes());
        return Some(());
    }
    if (level, option) == (libc::SOL_SOCKET, libc::SO_PEERCRED) {
        return push_credentials(out, bytes);
    }
    if (level, option) == (libc::SOL_SOCKET, libc::SO_ERROR) && bytes.slice().len() == 4 {
        let error = bytes.i32(0)?;
        let name = error_name(error).map_or_else(|| error.to_string(), str::to_owned);
        out.extend_from_slice(format!("[{name}]").as_bytes());
        return Some(());
    }
    if bytes.slice().len() == 4 {
        out.extend_from_slice(format!("[{}]", bytes.i32(0)?).as_bytes());
        return Some(());
    }
    let (shown, has_more) = match bytes.slice().split_at_checked(MOST_SHOWN) {
        Some((shown, rest)) => (shown, has_more || !rest.is_empty()),
        None => (bytes.slice(), has_more),
    };
    out.extend_from_slice(quoted_start(shown, has_more).as_bytes());
    Some(())
}

/// Bytes of an option that are shown.
const MOST_SHOWN: usize = 64;

/// Appends a `struct ucred`, as far as it was asked for.
fn push_credentials(out: &mut Vec<u8>, bytes: Bytes<'_>) -> Option<()> {
    out.extend_from_slice(format!("{{pid={}", bytes.i32(0)?).as_bytes());
    if let Some(uid) = bytes.u32(4) {
        out.extend_from_slice(format!(", uid={uid}").as_bytes());
    }
    if let Some(gid) = bytes.u32(8) {
        out.extend_from_slice(format!(", gid={gid}").as_bytes());
    }
    out.push(b'}');
    Some(())
}

/// Names the option of a socket, which depends on its level.
pub fn name_socket_option(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let names = match int(call, 1)? {
        libc::SOL_SOCKET => SOCKET_OPTIONS,
        libc::SOL_TCP => TCP_OPTIONS,
        libc::SOL_IP => IP_OPTIONS,
        libc::SOL_IPV6 => IPV6_OPTIONS,
        libc::SOL_NETLINK => NETLINK_OPTIONS,
        _ => return None,
    };
    named(names, int(call, index)?)
}

/// Names the protocol of a socket, which depends on its family.
pub fn name_protocol(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    match int(call, 0)? {
        libc::AF_INET | libc::AF_INET6 => named(PROTOCOLS, int(call, index)?),
        libc::AF_NETLINK => named(NETLINK_PROTOCOLS, int(call, index)?),
        libc::AF_PACKET => {
            let protocol = u16::try_from(int(call, index)?).ok()?;
            Some(packet::protocol(u16::from_be(protocol)).into())
        }
        _ => None,
    }
}

/// Names the call that `socketcall` is asked for.
pub fn name_socket_call(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    named(SOCKET_CALLS, int(call, index)?)
}

/// Returns the name of the level of a socket's option.
#[must_use]
pub fn level_name(level: i32) -> Cow<'static, str> {
    LEVEL
        .value_name(level.cast_unsigned())
        .map_or_else(|| format!("{level:#x}").into(), Cow::Borrowed)
}
