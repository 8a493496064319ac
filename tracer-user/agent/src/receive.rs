//! Receipt of requests, and of the descriptors that come with them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use tokio::io::Interest;
use tokio::net::UnixStream;
use tracer_posix::agent::protocol::{Ask, PROOF_DESCRIPTORS};
use tracer_posix::descriptors::receive_with_files;
use tracer_posix::wire::{checked_length, parsed};

/// Most bytes of a request.
const MOST_ASKED_BYTES: usize = 4096;

/// A request, and what proves the right to it.
#[derive(Debug)]
pub struct AgentQuestion {
    /// Content of it.
    pub ask: Ask,
    /// The descriptors, two at most: closed when this is dropped.
    pub files: Vec<OwnedFd>,
}

/// Receives the next request.
///
/// # Errors
///
/// The other side has hung up, or has said what is no request. Whatever descriptors it has sent are
/// closed.
pub async fn receive(stream: &UnixStream) -> io::Result<AgentQuestion> {
    let mut files = Vec::new();
    let mut length = [0; 4];
    fill(stream, &mut length, &mut files).await?;
    let length = checked_length(length)?;
    if length > MOST_ASKED_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    fill(stream, &mut body, &mut files).await?;
    let ask = parsed(&body)?;
    Ok(AgentQuestion { ask, files })
}

async fn fill(
    stream: &UnixStream,
    mut into: &mut [u8],
    files: &mut Vec<OwnedFd>,
) -> io::Result<()> {
    while !into.is_empty() {
        let received = stream.async_io(Interest::READABLE, || {
            receive_with_files(stream.as_fd(), into)
        });
        let (bytes, new) = received.await?;
        files.extend(new);
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if files.len() > PROOF_DESCRIPTORS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        into = into.get_mut(bytes..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::{AsRawFd as _, RawFd};

    use tracer_posix::descriptors::send_with_files;
    use tracer_posix::wire::framed;

    use super::*;

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
            for _ in messages {
                all.push(receive(&ours).await.map(|request| request.files.len()));
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
