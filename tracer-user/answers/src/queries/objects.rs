//! Objects of system calls in which threads wait, as far as descriptors were recorded: connections,
//! and terminals.
//!
//! Of a connection it is certain who ends such a wait where a soft interrupt does: a packet of its
//! other end. So none is told of calls that something else may end, such as those that wait for one
//! of several descriptors, for a new connection, or to send by UDP.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use foldhash::HashMap;
use serde_json::{Value, json};
use tracer_analysis::{CallKey, ObjectId, Task};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SyscallEnterData;
use tracer_engine::event::Event;
use tracer_event::fields::until_null;
use tracer_syscalls::descriptors::Named;
use tracer_syscalls::pointer_data::Texts;
use tracer_text::escape::push_for_people;
use zerocopy::FromBytes as _;

use super::words::call_name;

/// Most objects that are told apart; a wait on one beyond those has none.
const MOST_OBJECTS: usize = 8192;

/// Protocols of connections, as descriptors name them.
const PROTOCOLS: [&str; 4] = ["TCP", "TCPv6", "UDP", "UDPv6"];

/// Beginnings of the paths of terminals.
const TERMINALS: [&str; 3] = ["/dev/pts/", "/dev/ptmx", "/dev/tty"];

/// Bytes of the path of a terminal.
const MOST_PATH: usize = 64;

/// Object of a system call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallObject {
    /// A connection.
    Connection {
        /// Its protocol: TCP, TCPv6, UDP or UDPv6.
        protocol: &'static str,
        /// Its own address; of several connections, none.
        local: Option<SocketAddr>,
        /// Address of the other end.
        remote: IpAddr,
        /// Port of the other end; of several connections that come from there, none.
        port: Option<u16>,
    },
    /// A terminal, by its path, as harmless text.
    Terminal(Arc<str>),
}

impl CallObject {
    /// Returns the address of the other end, in words.
    #[must_use]
    pub fn remote(&self) -> Option<String> {
        match self {
            Self::Connection { remote, port, .. } => Some(match port {
                Some(port) => SocketAddr::new(*remote, *port).to_string(),
                None => remote.to_string(),
            }),
            Self::Terminal(_) => None,
        }
    }

    /// Tells whether this thread only passes on what others write to it: one of the kernel that
    /// works off what is queued.
    #[must_use]
    pub fn is_passed_on_by(&self, by: &Task) -> bool {
        let is_worker = until_null(&by.comm).starts_with(b"kworker/");
        matches!(self, Self::Terminal(_)) && is_worker
    }

    /// Returns what it is the same as where many waits are added up. Of the connections that
    /// others have made to a port here, each has a port of its own at their end, which is the
    /// higher one.
    fn by_name(&self) -> Self {
        match self {
            Self::Connection {
                protocol,
                local,
                remote,
                port,
            } => Self::Connection {
                protocol,
                local: None,
                remote: *remote,
                port: port.filter(|port| local.is_none_or(|local| *port <= local.port())),
            },
            Self::Terminal(_) => self.clone(),
        }
    }

    /// Renders it for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Connection {
                protocol, local, ..
            } => json!({
                "kind": "connection",
                "protocol": protocol,
                "local": local.map(|local| local.to_string()),
                "remote": self.remote(),
            }),
            Self::Terminal(path) => json!({ "kind": "terminal", "path": **path }),
        }
    }

    /// Reads it from what was recorded of a descriptor.
    fn read(untrusted: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(untrusted).ok()?;
        if TERMINALS.iter().any(|begin| text.starts_with(begin)) {
            let end = text.floor_char_boundary(MOST_PATH);
            let mut out = Vec::new();
            push_for_people(&mut out, text.get(..end)?.as_bytes());
            let path = String::from_utf8_lossy(&out).into_owned();
            return Some(Self::Terminal(path.into()));
        }
        let (typed, ends) = text.strip_suffix(']')?.split_once(":[")?;
        let protocol = PROTOCOLS.into_iter().find(|name| *name == typed)?;
        let (local, remote) = ends.split_once("->")?;
        let remote: SocketAddr = remote.parse().ok()?;
        Some(Self::Connection {
            protocol,
            local: Some(local.parse().ok()?),
            remote: remote.ip(),
            port: Some(remote.port()),
        })
    }

    fn is_stream(&self) -> bool {
        matches!(self, Self::Connection { protocol, .. } if protocol.starts_with("TCP"))
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }
}

impl fmt::Display for CallObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection {
                protocol, local, ..
            } => {
                f.write_str(protocol)?;
                if let Some(local) = local {
                    write!(f, " {local}")?;
                }
                write!(f, " to {}", self.remote().unwrap_or_default())
            }
            Self::Terminal(path) => f.write_str(path),
        }
    }
}

/// The objects, by number.
#[derive(Debug, Default)]
pub struct CallObjects {
    objects: Vec<CallObject>,
    known: HashMap<CallObject, u32>,
}

impl CallObjects {
    /// Returns the object of a system call that begins, where it is told and certain.
    pub fn of_call(&mut self, event: &Event<'_>) -> Option<(CallKey, ObjectId)> {
        if event.header.event_type != EventTypeId::SYSCALL_ENTER {
            return None;
        }
        let (data, behind) = SyscallEnterData::read_from_prefix(event.data).ok()?;
        if behind.is_empty() {
            return None;
        }
        let key = CallKey::new(data.compat != 0, data.number);
        let object = waited_on(&call_name(key), &data.args, Texts::behind(0, behind))?;
        Some((key, self.number(&object)))
    }

    fn number(&mut self, object: &CallObject) -> ObjectId {
        ObjectId {
            exact: self.number_of(object),
            by_name: self.number_of(&object.by_name()),
        }
    }

    fn number_of(&mut self, object: &CallObject) -> u32 {
        if let Some(known) = self.known.get(object) {
            return *known;
        }
        if self.objects.len() >= MOST_OBJECTS {
            return 0;
        }
        self.objects.push(object.clone());
        let number = u32::try_from(self.objects.len()).unwrap_or(0);
        self.known.insert(object.clone(), number);
        number
    }

    /// Returns an object; `None` where none is known.
    #[must_use]
    pub fn get(&self, object: ObjectId) -> Option<&CallObject> {
        let index = usize::try_from(object.exact).ok()?.checked_sub(1)?;
        self.objects.get(index)
    }
}

/// Returns the object that a call waits on, where that is one alone.
fn waited_on(call: &str, args: &[u64; 6], texts: Texts<'_>) -> Option<CallObject> {
    let named = Named::from_texts(texts);
    let first = || {
        let [descriptor, ..] = args;
        // It is an `int`.
        let low = u32::try_from(descriptor & u64::from(u32::MAX)).ok()?;
        let description = named.argument(0, low.cast_signed().into())?;
        CallObject::read(&description.words())
    };
    match call {
        "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg" => first(),
        "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" => {
            first().filter(|object| object.is_stream() || object.is_terminal())
        }
        "poll" | "ppoll" => {
            let [_, count, ..] = args;
            let polled = texts.find(0).filter(|_| *count == 1)?;
            let ([descriptor @ .., low, high], _) = polled.bytes.split_first_chunk::<6>()?;
            let events = i16::from_ne_bytes([*low, *high]);
            let description = named.listed(0, i32::from_ne_bytes(*descriptor))?;
            let object = CallObject::read(&description.words())?;
            // A connection that is being made may fail by another one's packet.
            let is_made = events & libc::POLLOUT == 0;
            (is_made && (object.is_stream() || object.is_terminal())).then_some(object)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_terminals_are_read_and_nothing_else_is() {
        let words = |text: &str| CallObject::read(text.as_bytes()).map(|object| object.to_string());
        let told = words("TCP:[10.0.0.2:40000->10.0.0.7:443]");
        assert_eq!(told.as_deref(), Some("TCP 10.0.0.2:40000 to 10.0.0.7:443"));
        let told = words("UDPv6:[[::1]:40000->[fe80::7]:53]");
        assert_eq!(told.as_deref(), Some("UDPv6 [::1]:40000 to [fe80::7]:53"));
        assert_eq!(
            words("/dev/pts/3\x1b").as_deref(),
            Some("/dev/pts/3\\u{1b}")
        );
        for other in [
            "UDP:[10.0.0.2:40000]",
            "TCP:[12345]",
            "UNIX-STREAM:[1->2]",
            "TCP:[10.0.0.2:40000->x]",
            "socket:[3]",
            "pipe:[1]",
            "/tmp/TCP:[10.0.0.2:1->10.0.0.7:443]",
            "",
        ] {
            assert_eq!(words(other), None, "{other}");
        }
        assert_eq!(CallObject::read(b"\xff"), None);
    }

    #[test]
    fn many_waits_are_added_up_by_the_other_end_and_a_servers_by_its_address() {
        let mut objects = CallObjects::default();
        let mut shown = |text: &[u8]| {
            let number = objects.number(&CallObject::read(text).unwrap());
            [number, number.with_name()].map(|one| objects.get(one).unwrap().clone())
        };
        let [exact, by_name] = shown(b"TCP:[10.0.0.2:40000->10.0.0.7:443]");
        assert_eq!(exact.remote().as_deref(), Some("10.0.0.7:443"));
        assert_eq!(by_name.to_string(), "TCP to 10.0.0.7:443");
        let [exact, by_name] = shown(b"TCP:[10.0.0.7:443->10.0.0.2:40000]");
        assert_eq!(exact.remote().as_deref(), Some("10.0.0.2:40000"));
        assert_eq!(by_name.to_string(), "TCP to 10.0.0.2");
        assert_eq!(objects.get(ObjectId::NONE), None);
    }
}
