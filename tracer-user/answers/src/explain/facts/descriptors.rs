//! Descriptors of processes: what they are, as far as calls have said so.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use foldhash::HashMap;
use tracer_syscalls::pointer_data::Texts;
use tracer_text::escape::push_for_people;

use super::WaitClass;
use super::names_asked::name_asked;

/// Most descriptors that are remembered. Beyond, all are forgotten.
const MOST_DESCRIPTORS: usize = 65_536;

/// Generations of processes in which the one is looked for that has opened a descriptor.
const MOST_GENERATIONS: usize = 8;

/// Port of name servers.
const DNS_PORT: u16 = 53;

/// File, socket or pipe behind a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Kind of a wait for it.
    pub class: WaitClass,
    /// Its name, as harmless text; empty where it has none.
    pub name: Arc<str>,
}

/// The descriptors of all processes.
#[derive(Debug, Default)]
pub struct KnownDescriptors {
    open: HashMap<(i32, i32), Opened>,
    parents: HashMap<i32, i32>,
}

impl KnownDescriptors {
    /// Notes that a process was made, which has the descriptors of another one.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if parent != child && self.parents.len() < MOST_DESCRIPTORS {
            self.parents.insert(child, parent);
        }
    }

    /// Returns what is behind a descriptor.
    #[must_use]
    pub fn get(&self, pid: i32, fd: i32) -> Option<&Opened> {
        let mut pid = pid;
        for _ in 0..MOST_GENERATIONS {
            if let Some(found) = self.open.get(&(pid, fd)) {
                return Some(found);
            }
            pid = *self.parents.get(&pid)?;
        }
        None
    }

    fn put(&mut self, pid: i32, fd: i32, class: WaitClass, name: &str) {
        if self.open.len() >= MOST_DESCRIPTORS {
            self.open.clear();
        }
        let name = name.into();
        self.open.insert((pid, fd), Opened { class, name });
    }

    /// Learns from a call that begins: what is sent over a socket, and where it is connected to.
    pub fn learn_entry(&mut self, pid: i32, name: &str, args: &[u64; 6], texts: Texts<'_>) {
        let fd = descriptor(args[0]);
        match name {
            "connect" => {
                if let Some(address) = texts.find(1).and_then(|text| address(text.bytes)) {
                    let class = match address.port {
                        Some(DNS_PORT) => WaitClass::Dns,
                        _ => WaitClass::Socket,
                    };
                    self.put(pid, fd, class, &address.text);
                }
            }
            "sendto" | "write" | "sendmsg" => {
                let asked = texts.find(1).and_then(|text| name_asked(text.bytes));
                let server = texts.find(4).and_then(|text| address(text.bytes));
                match (asked, server) {
                    (Some(asked), _) => self.put(pid, fd, WaitClass::Dns, &asked),
                    (None, Some(to)) if to.port == Some(DNS_PORT) => {
                        self.put(pid, fd, WaitClass::Dns, &to.text);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Learns from a call that has returned. `path` is what it was given as a name.
    pub fn learn_exit(
        &mut self,
        pid: i32,
        name: &str,
        (args, path): (&[u64; 6], Option<&str>),
        returned: i64,
    ) {
        let Ok(returned) = i32::try_from(returned) else {
            return;
        };
        if returned < 0 {
            return;
        }
        match name {
            "open" | "openat" | "openat2" | "creat" => {
                self.put(pid, returned, WaitClass::File, path.unwrap_or_default());
            }
            "socket" | "accept" | "accept4" => self.put(pid, returned, WaitClass::Socket, ""),
            "dup" | "dup2" | "dup3" => {
                if let Some(of) = self.get(pid, descriptor(args[0])).cloned() {
                    self.put(pid, returned, of.class, &of.name);
                }
            }
            "epoll_create" | "epoll_create1" | "eventfd2" | "timerfd_create" | "signalfd4" => {
                self.put(pid, returned, WaitClass::Poll, "");
            }
            "close" => {
                self.open.remove(&(pid, descriptor(args[0])));
            }
            _ => {}
        }
    }

    /// Learns that these two are the ends of a pipe, or of a pair of sockets.
    pub fn learn_pair(&mut self, pid: i32, name: &str, texts: Texts<'_>) {
        let (class, argument) = match name {
            "pipe" | "pipe2" => (WaitClass::Pipe, 0),
            "socketpair" => (WaitClass::Socket, 3),
            _ => return,
        };
        let bytes = texts.find(argument).map_or(&[][..], |text| text.bytes);
        for fd in bytes.chunks_exact(4).take(2) {
            if let Ok(fd) = fd.try_into() {
                self.put(pid, i32::from_ne_bytes(fd), class, "");
            }
        }
    }
}

/// Returns the descriptor in a register.
#[must_use]
pub fn descriptor(register: u64) -> i32 {
    let low = u32::try_from(register & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    low.cast_signed()
}

/// Renders a text that a program has given, for people.
#[must_use]
pub fn harmless(untrusted: &[u8]) -> String {
    let text = untrusted
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let mut out = Vec::new();
    push_for_people(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

struct Address {
    text: String,
    port: Option<u16>,
}

/// Reads a `struct sockaddr`.
fn address(untrusted: &[u8]) -> Option<Address> {
    let (family, rest) = untrusted.split_first_chunk::<2>()?;
    let port = || {
        rest.first_chunk::<2>()
            .map(|port| u16::from_be_bytes(*port))
    };
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_UNIX => {
            let name = match rest {
                [0, hidden @ ..] => format!("@{}", harmless(hidden)),
                path => harmless(path),
            };
            Some(Address {
                text: name,
                port: None,
            })
        }
        libc::AF_INET => {
            let ip: [u8; 4] = rest.get(2..6)?.try_into().ok()?;
            let (ip, port) = (Ipv4Addr::from(ip), port()?);
            Some(Address {
                text: format!("{ip}:{port}"),
                port: Some(port),
            })
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = rest.get(6..22)?.try_into().ok()?;
            let (ip, port) = (Ipv6Addr::from(ip), port()?);
            Some(Address {
                text: format!("[{ip}]:{port}"),
                port: Some(port),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_what_its_parents_have_opened() {
        let mut descriptors = KnownDescriptors::default();
        let args = [0; 6];
        descriptors.learn_exit(1, "openat", (&args, Some("/tmp/x")), 3);
        descriptors.fork(1, 2);
        descriptors.fork(2, 3);
        assert_eq!(&*descriptors.get(3, 3).unwrap().name, "/tmp/x");
        descriptors.learn_exit(3, "openat", (&args, Some("/tmp/y")), 3);
        assert_eq!(&*descriptors.get(3, 3).unwrap().name, "/tmp/y");
        assert_eq!(&*descriptors.get(1, 3).unwrap().name, "/tmp/x");
        descriptors.learn_exit(1, "close", (&[3, 0, 0, 0, 0, 0], None), 0);
        assert_eq!(descriptors.get(1, 3), None);
        // A circle of ids that were used again has an end.
        descriptors.fork(3, 1);
        assert_eq!(descriptors.get(2, 9), None);
    }

    #[test]
    fn addresses_are_read_and_bad_ones_are_none() {
        let of = |bytes: &[u8]| address(bytes).map(|address| address.text);
        assert_eq!(of(&[2, 0, 0, 53, 127, 0, 0, 1]).unwrap(), "127.0.0.1:53");
        assert_eq!(of(b"\x01\0/run/\x1bx\0y").unwrap(), "/run/\\u{1b}x");
        assert_eq!(of(&[2, 0, 0, 53, 127]), None);
        assert_eq!(of(&[2]), None);
    }
}
