//! Reading a pipe on a thread of its own, so that a read that never ends can be given up.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

const CHUNK: usize = 256 * 1024;

/// What the reading thread (or the interrupter) has to say.
enum Message {
    Data(Vec<u8>),
    Failed(io::Error),
    End,
    Stop,
}

/// The receiving end of a thread that reads `inner`.
///
/// No portable call ends a read from a pipe that stays silent, so the thread is left behind when the reader
/// is dropped or interrupted: it ends at the pipe's next byte or its end. It holds two chunks of memory.
pub(crate) struct PipeReader {
    messages: Receiver<Message>,
    used: Sender<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
    done: bool,
    stop: SyncSender<Message>,
}

impl PipeReader {
    /// Start reading what `open` opens; opening a pipe may block, too.
    pub(crate) fn start<R: Read + 'static>(
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> io::Result<Self> {
        // Two chunks on their way, and always room for a stop.
        let (send, messages) = sync_channel(4);
        let (used, unused) = channel::<Vec<u8>>();
        for _ in 0..2 {
            used.send(vec![0; CHUNK]).map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        let stop = send.clone();
        thread::Builder::new().name("pipe reader".into()).spawn(move || {
            let mut inner = match open() {
                Ok(inner) => inner,
                Err(e) => return drop(send.send(Message::Failed(e))),
            };
            while let Ok(mut chunk) = unused.recv() {
                chunk.resize(CHUNK, 0);
                let message = match inner.read(&mut chunk) {
                    Ok(0) => Message::End,
                    Ok(n) => {
                        chunk.truncate(n);
                        Message::Data(chunk)
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                        chunk.truncate(0);
                        Message::Data(chunk)
                    }
                    Err(e) => Message::Failed(e),
                };
                let last = !matches!(message, Message::Data(_));
                if send.send(message).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(Self { messages, used, chunk: Vec::new(), at: 0, done: false, stop })
    }

    /// Makes a blocked read return [`io::ErrorKind::ConnectionAborted`].
    pub(crate) fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync> {
        let stop = self.stop.clone();
        // If there is no room, messages are waiting: the reader is not blocked.
        Arc::new(move || drop(stop.try_send(Message::Stop)))
    }
}

impl Read for PipeReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            if self.done {
                return Ok(0);
            }
            if self.chunk.capacity() > 0 {
                // The thread may be gone already; then nobody needs the chunk.
                let _ = self.used.send(std::mem::take(&mut self.chunk));
            }
            self.at = 0;
            match self.messages.recv() {
                Ok(Message::Data(chunk)) => self.chunk = chunk,
                Ok(Message::Failed(e)) => return Err(e),
                Ok(Message::Stop) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Ok(Message::End) | Err(_) => self.done = true,
            }
        }
        let n = out.len().min(self.chunk.len() - self.at);
        out[..n].copy_from_slice(&self.chunk[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bytes_come_through_in_order() {
        let data: Vec<u8> = (0..2_000_000_u32).map(|i| (i / 7) as u8).collect();
        let expected = data.clone();
        let mut pipe = PipeReader::start(move || Ok(io::Cursor::new(data))).unwrap();
        let mut got = Vec::new();
        pipe.read_to_end(&mut got).unwrap();
        assert!(got == expected);
        assert_eq!(pipe.read(&mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn a_silent_pipe_is_given_up() {
        struct Silent(Receiver<()>);
        impl Read for Silent {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                self.0.recv().ok();
                Ok(0)
            }
        }
        let (end, silent) = channel();
        let mut pipe = PipeReader::start(move || Ok(Silent(silent))).unwrap();
        let stop = pipe.interrupter();
        let waiting = thread::spawn(move || pipe.read(&mut [0; 1]).unwrap_err().kind());
        thread::sleep(Duration::from_millis(20));
        stop();
        assert_eq!(waiting.join().unwrap(), io::ErrorKind::ConnectionAborted);
        drop(end);
    }
}
