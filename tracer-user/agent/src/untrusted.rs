//! Conversations in which the other side says any bytes: for the fuzz targets.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use tracer_area::monotonic_now;
use tracer_posix::descriptors::send_with_files;

use super::Hub;
use super::server::{Guest, Host, RoundRequest, talk};
use super::service::{Order, RoomHold, RoomName, ServiceHandle};
use super::share::Pool;

/// Holds a conversation with the agent of a trace in which the other side says `untrusted` and
/// hangs up.
pub fn converse(untrusted: &[u8]) {
    // The hub gets no more events.
    let host = Host::Trace(RoundRequest::new(|| false));
    let hub = Hub::default();
    hub.add_process(std::process::id().cast_signed());
    hold(host, &hub, async |mut theirs| {
        // The write fails once the agent has hung up.
        let _ = theirs.write_all(untrusted).await;
        finish(theirs).await
    });
}

/// Holds a conversation with the service in which the other side says `untrusted` and hangs up.
///
/// The bytes are parts: the descriptors of each, its length and so many bytes. A byte names four
/// descriptors, with two bits each: none, a pidfd of a child of this process, its memory, another
/// file.
pub fn converse_with_service(untrusted: &[u8]) {
    answers_of_service(untrusted);
}

fn answers_of_service(untrusted: &[u8]) -> Vec<u8> {
    let (service, mut orders) = ServiceHandle::without_kernel();
    let hub = Hub::default();
    let served = hub.clone();
    hold(Host::Service(service), &hub, async move |theirs| {
        tokio::spawn(async move {
            while let Some(order) = orders.recv().await {
                match order {
                    Order::Newest => served.complete_up_to(monotonic_now()),
                    Order::Trace { reply, .. } | Order::Note { reply, .. } => {
                        drop(reply.send(Ok(())));
                    }
                    Order::Adjust { reply, .. } => drop(reply.send(())),
                    Order::Open {
                        detail,
                        user,
                        reply,
                    } => {
                        let name = RoomName::new(detail, user);
                        drop(reply.send(Ok((name, served.clone(), RoomHold::default()))));
                    }
                    Order::Release { .. } => {}
                }
            }
        });
        say_in_parts(&theirs, untrusted);
        finish(theirs).await
    })
}

/// Holds a conversation, whose other side is `say`. Returns what that was answered.
fn hold(host: Host, hub: &Hub, say: impl AsyncFnOnce(UnixStream) -> Vec<u8>) -> Vec<u8> {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    runtime.block_on(async {
        let Ok((ours, theirs)) = UnixStream::pair() else {
            return Vec::new();
        };
        let connections = Pool::new(host.most_connections());
        let Some(guest) = Guest::admit(ours, &connections) else {
            return Vec::new();
        };
        let ((), answers) = tokio::join!(talk(guest, hub.clone(), host), say(theirs));
        answers
    })
}

/// Hangs up, and hears what is still said.
async fn finish(mut theirs: UnixStream) -> Vec<u8> {
    let _ = theirs.shutdown().await;
    let mut answers = Vec::new();
    let _ = theirs.read_to_end(&mut answers).await;
    answers
}

fn say_in_parts(theirs: &UnixStream, untrusted: &[u8]) {
    /// Bytes that a socket takes without a reader.
    const MOST: usize = 32 << 10;
    let mut rest = untrusted.get(..MOST).unwrap_or(untrusted);
    static FILES: LazyLock<[Option<OwnedFd>; 3]> = LazyLock::new(files);
    while let Some(([kinds, length], after)) = rest.split_first_chunk() {
        let (part, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let chosen = (0..4).filter_map(|slot| {
            let kind = usize::from(kinds >> (2 * slot) & 3).checked_sub(1)?;
            FILES.get(kind)?.as_ref().map(OwnedFd::as_raw_fd)
        });
        let chosen: Vec<RawFd> = chosen.collect();
        if !part.is_empty() && send_with_files(theirs.as_fd(), part, &chosen).is_err() {
            return;
        }
    }
}

/// Opens the descriptors that a part may bring. The process ends with this one.
fn files() -> [Option<OwnedFd>; 3] {
    let mut child = Command::new("cat");
    let child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let Ok(child) = child.map(ManuallyDrop::new) else {
        return [const { None }; 3];
    };
    let pid = child.id();
    // SAFETY: takes integers only.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let process = RawFd::try_from(process).ok().filter(|file| *file >= 0);
    // SAFETY: just opened, and no other value owns it.
    let process = process.map(|file| unsafe { OwnedFd::from_raw_fd(file) });
    let open = |path: &str| File::open(path).ok().map(OwnedFd::from);
    [
        process,
        open(&format!("/proc/{pid}/mem")),
        open("/dev/null"),
    ]
}

#[cfg(test)]
mod tests {
    use tracer_engine::EventSet;
    use tracer_posix::agent::protocol::{Answer, Ask, Detail, VERSION};
    use tracer_posix::wire::{framed, read_message};

    use super::*;

    #[test]
    fn a_whole_conversation_is_answered_to_its_end() {
        let hello = Ask::Hello {
            version: VERSION,
            pid: 0,
            inherit: true,
            capacity: 65_536,
            keeps_oldest: false,
        };
        let detail = Box::new(Detail {
            string_bytes: 65,
            user_frames: 8,
            contexts: true,
            python_frames: 8,
            ..Detail::default()
        });
        let control = Ask::Control {
            running: true,
            filter: *EventSet::EMPTY.words(),
        };
        // The pidfd and the memory go with the hello and the last three.
        let asked = [
            (0, Ask::Record { detail }),
            (9, hello),
            (0, control),
            (0, Ask::Collect),
            (9, Ask::Add { pid: 0 }),
            (
                9,
                Ask::Contexts {
                    pid: 0,
                    place: Some([0, 8, 0]),
                },
            ),
            (
                9,
                Ask::Contexts {
                    pid: 0,
                    place: None,
                },
            ),
            (
                9,
                Ask::Interpreter {
                    pid: 0,
                    process: None,
                },
            ),
        ];
        let parts = asked.iter().flat_map(|(kinds, ask)| {
            let bytes = framed(ask).unwrap();
            let head = [*kinds, u8::try_from(bytes.len()).unwrap()];
            head.into_iter().chain(bytes)
        });
        let answers = answers_of_service(&parts.collect::<Vec<u8>>());
        let mut rest = &*answers;
        for index in 0..asked.len() {
            let answer: Answer = read_message(&mut rest).unwrap();
            let is_as_expected = match index {
                3 => matches!(answer, Answer::Events { .. }),
                _ => matches!(answer, Answer::Done),
            };
            assert!(is_as_expected, "{index}: {answer:?}");
        }
        assert!(rest.is_empty());
    }
}
