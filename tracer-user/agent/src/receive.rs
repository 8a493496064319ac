//! Receipt of requests, and of the descriptors that come with them.

use std::io;
use std::os::fd::AsFd as _;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tracer_posix::agent::protocol::{Ask, PROOF_DESCRIPTORS};
use tracer_posix::descriptors::receive_with_files;
use tracer_posix::wire::{checked_length, parsed};

use super::closing::{SentFiles, in_thread, peek};
use super::server::Slot;

/// Most bytes of a request.
const MOST_ASKED_BYTES: usize = 4096;

/// A request, and what proves the right to it.
#[derive(Debug)]
pub struct AgentQuestion {
    /// Content of it.
    pub ask: Ask,
    /// The descriptors, two at most.
    pub files: SentFiles,
}

/// Receives the next request of the client that has this place.
///
/// # Errors
///
/// The other side has hung up, or has said what is no request. Whatever descriptors it has sent are
/// closed.
pub async fn receive(stream: &UnixStream, slot: &Slot) -> io::Result<AgentQuestion> {
    let mut files = SentFiles::new(Vec::new(), slot);
    let mut length = [0; 4];
    fill(stream, &mut length, &mut files, slot).await?;
    let length = checked_length(length)?;
    if length > MOST_ASKED_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    fill(stream, &mut body, &mut files, slot).await?;
    let ask = parsed(&body)?;
    Ok(AgentQuestion { ask, files })
}

async fn fill(
    stream: &UnixStream,
    mut into: &mut [u8],
    files: &mut SentFiles,
    slot: &Slot,
) -> io::Result<()> {
    while !into.is_empty() {
        let (there, has_files) = stream
            .async_io(Interest::READABLE, || peek(stream.as_fd(), into))
            .await?;
        let bytes = if has_files {
            let (part, new) = receive_files(stream, into.len(), slot).await?;
            files.append(new);
            let start = into.get_mut(..part.len()).unwrap_or_default();
            start.copy_from_slice(&part);
            part.len()
        } else {
            // No more than is known to have come without any.
            match stream.try_read(into.get_mut(..there).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                read => read?,
            }
        };
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if files.as_slice().len() > PROOF_DESCRIPTORS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        into = into.get_mut(bytes..).unwrap_or_default();
    }
    Ok(())
}

/// Receives bytes that have come, and files with them: those that are too many are closed at once.
async fn receive_files(
    stream: &UnixStream,
    most: usize,
    slot: &Slot,
) -> io::Result<(Vec<u8>, SentFiles)> {
    let socket = stream.as_fd().try_clone_to_owned()?;
    let place = slot.clone();
    let received = in_thread(slot.clone(), move || {
        let mut bytes = vec![0; most];
        let (count, files) = receive_with_files(socket.as_fd(), &mut bytes)?;
        bytes.truncate(count);
        Ok((bytes, SentFiles::new(files, &place)))
    })?;
    received.await.map_err(|_ended| io::ErrorKind::Other)?
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::{AsRawFd as _, RawFd};

    use tracer_posix::descriptors::send_with_files;
    use tracer_posix::wire::framed;

    use super::*;
    use crate::share::{Most, Pool};

    /// The place of a client.
    fn slot() -> Slot {
        let most = Most {
            a_user: 1,
            all_but_root: 1,
            all: 1,
        };
        Slot::take(0, &Pool::new(most)).unwrap()
    }

    /// Has these messages received, each with so many descriptors; the sender hangs up then.
    /// Returns what came of each.
    fn received(messages: &[(&[u8], usize)]) -> Vec<io::Result<usize>> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let file = File::open("/dev/null").unwrap();
            for (bytes, files) in messages {
                let files: Vec<RawFd> = vec![file.as_raw_fd(); *files];
                assert_eq!(
                    send_with_files(theirs.as_fd(), bytes, &files).unwrap(),
                    bytes.len()
                );
            }
            drop(theirs);
            let mut all = Vec::new();
            let slot = slot();
            for _ in messages {
                let request = receive(&ours, &slot).await;
                all.push(match request {
                    Ok(request) => {
                        let count = request.files.as_slice().len();
                        request.files.close().await;
                        Ok(count)
                    }
                    Err(error) => Err(error),
                });
            }
            all
        })
    }

    fn count_open() -> usize {
        fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn only_the_descriptors_of_a_proof_are_taken_and_all_are_closed() {
        let message = framed(&Ask::Collect).unwrap();
        let (head, tail) = message.split_at(2);
        for count in 0..=2 {
            let taken = received(&[(&message, count), (&message, 0)]);
            assert_eq!(taken[0].as_ref().unwrap(), &count);
        }
        for refused in [
            &[(&*message, 3)][..],
            &[(&*message, 6)],
            &[(head, 2), (tail, 2)],
            &[(head, 1), (&[0xff, 0xff], 1)],
            &[(head, 2)],
        ] {
            assert!(received(refused)[0].is_err(), "{refused:?}");
        }
        // In a process of its own, other tests open and close descriptors as well: so many times
        // that what is left open shows.
        let before = count_open();
        for _ in 0..200 {
            let _ = received(&[(&message, 3)]);
            let _ = received(&[(head, 2), (tail, 2)]);
        }
        assert!(count_open() < before + 200);
    }
}
