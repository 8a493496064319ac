//! Writing in a thread of its own: a slow reader holds up nothing but its own lines.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc as std_mpsc;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use tracer_output::terminal::output::has_lost_its_reader;

/// Bytes that are handed over at once when there is much to write.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Chunks on their way: 8 of 256 KiB let a reader pause for some milliseconds unnoticed.
const CHUNKS: usize = 8;

/// The near end of the writing thread.
pub struct LineWriter {
    chunks: mpsc::Sender<Vec<u8>>,
    /// Written buffers come back, so that their memory is used again.
    spare: std_mpsc::Receiver<Vec<u8>>,
    result: oneshot::Receiver<io::Result<()>>,
    /// File that is written to, to be asked whether it still has a reader.
    watched: Option<File>,
}

/// Result of offering a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The buffer is on its way, and an empty one is here instead.
    Taken,
    /// No space is left; the buffer is as it was.
    Full,
    /// Nothing can be written any more; [`Writer::finish`] has the reason.
    Closed,
}

impl LineWriter {
    /// Starts the thread. `watched` is the file that is written to, where it matters whether it has
    /// a reader.
    ///
    /// # Errors
    ///
    /// No thread is available.
    pub fn start(target: impl Write + Send + 'static, watched: Option<File>) -> io::Result<Self> {
        let (chunks, to_write) = mpsc::channel(CHUNKS);
        let (give_back, spare) = std_mpsc::channel();
        let (finished, result) = oneshot::channel();
        thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || {
                // The receiver is gone when the trace was ended at once.
                let _ = finished.send(write_all(target, to_write, &give_back));
            })?;
        Ok(Self {
            chunks,
            spare,
            result,
            watched,
        })
    }

    /// Tells whether the output has no reader any more, which a write would show only when there is
    /// something to be written.
    pub fn has_lost_its_reader(&self) -> bool {
        self.watched.as_ref().is_some_and(has_lost_its_reader)
    }

    /// Hands over the buffer, unless it is empty or there is no space.
    pub fn offer(&mut self, buffer: &mut Vec<u8>) -> Offer {
        if buffer.is_empty() {
            return if self.chunks.is_closed() {
                Offer::Closed
            } else {
                Offer::Taken
            };
        }
        match self.chunks.try_reserve() {
            Ok(slot) => {
                let empty = self.spare.try_recv().unwrap_or_default();
                slot.send(std::mem::replace(buffer, empty));
                Offer::Taken
            }
            Err(mpsc::error::TrySendError::Full(())) => Offer::Full,
            Err(mpsc::error::TrySendError::Closed(())) => Offer::Closed,
        }
    }

    /// Waits until a buffer can be handed over, or never again.
    pub async fn ready(&self) {
        // The result is reported by the next offer.
        let _ = self.chunks.reserve().await;
    }

    /// Writes the last bytes and waits until everything is written.
    ///
    /// # Errors
    ///
    /// The error of the first write that failed.
    pub async fn finish(self, last: Vec<u8>) -> io::Result<()> {
        // When the thread has ended before, its result says why.
        let _ = self.chunks.send(last).await;
        drop(self.chunks);
        self.result.await.unwrap_or(Ok(()))
    }
}

fn write_all(
    mut target: impl Write,
    mut to_write: mpsc::Receiver<Vec<u8>>,
    give_back: &std_mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    while let Some(mut chunk) = to_write.blocking_recv() {
        target.write_all(&chunk)?;
        chunk.clear();
        // At the end the receiver is gone, and the chunk is dropped.
        let _ = give_back.send(chunk);
    }
    target.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn everything_is_written_in_order() {
        let written = Shared::default();
        let mut writer = LineWriter::start(written.clone(), None).unwrap();
        for byte in 0..100_u8 {
            let mut buffer = vec![byte];
            while writer.offer(&mut buffer) == Offer::Full {
                writer.ready().await;
            }
            assert!(buffer.is_empty());
        }
        writer.finish(vec![100]).await.unwrap();

        assert_eq!(*written.0.lock().unwrap(), (0..=100).collect::<Vec<u8>>());
    }

    #[tokio::test]
    async fn a_closed_pipe_is_noticed() {
        let mut writer = LineWriter::start(ClosedPipe, None).unwrap();
        while writer.offer(&mut vec![1]) != Offer::Closed {
            writer.ready().await;
        }

        let error = writer.finish(Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
