//! Pictures of the host on their way to the device that shows them.

use super::picture::Source;
use framelane::Result;
use framelane::device::{Buffer, Device, Event, Memory, Stream};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Pictures that may be on their way at once: with more, the caller waits for the first.
const MOST: usize = 6;
const WAIT: &str = "pictures of the host on their way to the device";

/// Memory that pictures of the host go through: pinned, and the device's own. As much as was needed at once so far.
pub(crate) struct Staging {
    device: Device,
    idle: Mutex<VecDeque<Stage>>,
}

#[derive(Default)]
struct Stage {
    pinned: Option<Buffer>,
    /// None on the host device, whose kernels read pinned memory.
    own: Option<Buffer>,
    /// The end of the work that uses them.
    until: Option<Event>,
}

impl Staging {
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), idle: Mutex::default() }
    }

    /// Have `enqueue` read the numbers where work on `stream` can: where they are, or in a copy that `stream` makes first.
    /// What it gives, and whether they came from the host.
    ///
    /// What the host has was copied when this is back (pinned memory of the device is copied by the stream). Waits if
    /// [`MOST`] are on their way, and counts it.
    ///
    /// # Errors
    /// Those of `enqueue`, and of copies and memory.
    pub fn with<T>(
        &self,
        stream: &Stream,
        source: &Source<'_>,
        enqueue: impl FnOnce((&Buffer, Range<usize>)) -> Result<T>,
    ) -> Result<(T, bool)> {
        let on_cuda = self.device.cuda_context().is_some();
        match source {
            Source::Bytes(bytes) => self.staged(stream, From::Host(bytes), enqueue),
            Source::Memory(buffer, range) => {
                let (ours, pinned) = (buffer.device().same(&self.device), buffer.memory() == Memory::Pinned);
                match (ours, pinned) {
                    (true, true) if on_cuda => {
                        self.staged(stream, From::Pinned(buffer, range.clone()), enqueue)
                    }
                    (false, true) => {
                        let bytes = buffer.read_host()?;
                        self.staged(stream, From::Host(&bytes[range.clone()]), enqueue)
                    }
                    // Another device's own memory is refused by the stream, which names both.
                    _ => Ok((enqueue((buffer, range.clone()))?, false)),
                }
            }
        }
    }

    fn staged<T>(
        &self,
        stream: &Stream,
        from: From<'_>,
        enqueue: impl FnOnce((&Buffer, Range<usize>)) -> Result<T>,
    ) -> Result<(T, bool)> {
        let mut stage = self.take()?;
        let enqueued = stage.fill(stream, from).and_then(enqueue);
        stage.until = Some(stream.record_anyway());
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push_back(stage);
        Ok((enqueued?, true))
    }

    /// One that nothing uses.
    fn take(&self) -> Result<Stage> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let done = |stage: &Stage| stage.until.as_ref().is_none_or(Event::is_done);
        let stage = match idle.iter().position(done) {
            Some(at) => idle.remove(at),
            None if idle.len() >= MOST => idle.pop_front(),
            None => None,
        }
        .unwrap_or_default();
        drop(idle);
        if let Some(until) = &stage.until {
            until.synchronize(WAIT)?;
        }
        Ok(stage)
    }
}

enum From<'a> {
    Host(&'a [u8]),
    /// Of the stream's device.
    Pinned(&'a Buffer, Range<usize>),
}

impl Stage {
    /// Enqueue its copies. Where the numbers are then.
    fn fill(&mut self, stream: &Stream, from: From<'_>) -> Result<(&Buffer, Range<usize>)> {
        let device = stream.device();
        let bytes = match &from {
            From::Host(bytes) => bytes.len(),
            From::Pinned(_, range) => range.len(),
        };
        let pinned = match from {
            From::Host(numbers) => {
                let pinned = at_least(&mut self.pinned, device, bytes, Memory::Pinned)?;
                pinned.write_host()?[..bytes].copy_from_slice(numbers);
                (pinned, 0..bytes)
            }
            From::Pinned(buffer, range) => (buffer, range),
        };
        if device.cuda_context().is_none() {
            // Borrowed again: what `from` lent may not live as long.
            return Ok((at_least(&mut self.pinned, device, bytes, Memory::Pinned)?, 0..bytes));
        }
        let own = at_least(&mut self.own, device, bytes, Memory::Device)?;
        stream.copy(pinned.0, pinned.1, own, 0)?;
        Ok((own, 0..bytes))
    }
}

fn at_least<'a>(
    kept: &'a mut Option<Buffer>,
    device: &Device,
    bytes: usize,
    memory: Memory,
) -> Result<&'a Buffer> {
    if kept.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
        // Before there is a new one.
        *kept = None;
        *kept = Some(device.alloc(bytes, memory)?);
    }
    Ok(kept.as_ref().expect("made above if there was none"))
}
