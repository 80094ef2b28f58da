//! Results on their way from the device to pinned memory, on a stream of their own.

use super::pipeline::{Done, Job};
use super::tally::Fate;
use framelane::device::{Buffer, Device, Event, HostRead, Memory, Stream};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::Writer;
use framelane::stats::{Group, Stage};
use framelane::{Batch, Error, ErrorKind, Result};
use std::ops::Deref;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

/// A slot of pinned memory for a result. Made when needed, and again when a larger picture comes.
#[derive(Debug, Default)]
pub struct Staging(Mutex<Option<Buffer>>);

/// What travels with a filled [`Staging`].
pub struct Picture {
    pub meta: FrameMeta,
    pub fate: Fate,
    pub size: ImageSize,
    copying: Arc<Group>,
    began: Event,
}

impl Picture {
    /// The copy is done: count its time.
    pub fn copied(&self, done: &Event) {
        if let Some(time) = done.since(&self.began) {
            self.copying.busy(Stage::Copy, time);
        }
    }
}

/// Bytes of a picture at the start of a larger buffer.
pub struct Pixels {
    bytes: HostRead,
    len: usize,
}

impl Deref for Pixels {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Staging {
    /// The pixels of the result. The copy must be done.
    ///
    /// # Errors
    /// Of the device, if it is not.
    pub fn read(&self, picture: &Picture) -> Result<Pixels> {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let buffer = buffer.ok_or_else(|| Error::new(ErrorKind::Device, "a result was not read back"))?;
        Ok(Pixels { bytes: buffer.read_host()?, len: picture.size.bytes() })
    }
}

fn at_least(device: &Device, slot: &Mutex<Option<Buffer>>, bytes: usize) -> Result<Buffer> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    match &*slot {
        Some(buffer) if buffer.len() >= bytes => Ok(buffer.clone()),
        _ => Ok(slot.insert(device.alloc(bytes, Memory::Pinned)?).clone()),
    }
}

/// Enqueue the copy of a batch's picture, and say how large it is. The batch may be dropped right after.
fn copy(batch: &Batch, stream: &Stream, slot: &Mutex<Option<Buffer>>) -> Result<ImageSize> {
    let view = batch.on(stream)?;
    let Some((tensor, size)) =
        view.tensors().next().and_then(|t| Some((t.clone(), ImageSize::of(t.spec())?)))
    else {
        return Err(Error::new(ErrorKind::Model, "the result is no picture (u8, height × width × 3)"));
    };
    tensor.copy_to(stream, &at_least(stream.device(), slot, size.bytes())?)?;
    Ok(size)
}

/// Wait for each job in turn and enqueue the copy of its result, until there are no more or nobody wants them.
pub fn read_back(
    jobs: &Receiver<Job>,
    results: &Writer<Staging, Event, Picture>,
    stream: &Stream,
    copying: &Arc<Group>,
) -> Result<()> {
    for job in jobs {
        let Some(Done { meta, fate, output, permit, .. }) = job.wait()? else { continue };
        let slot = match results.acquire() {
            Ok(slot) => slot,
            // The target has ended and says why.
            Err(e) if e.kind() == ErrorKind::Closed => return Ok(()),
            Err(e) => return Err(e),
        };
        for fence in slot.wait_for() {
            stream.wait(fence)?;
        }
        // The copy's time begins when there is something to copy.
        output.on(stream)?;
        let began = stream.record_timed()?;
        let size = copy(&output, stream, &slot.payload().0)?;
        let ready = stream.record_timed()?;
        let picture = Picture { meta, fate, size, copying: copying.clone(), began };
        slot.publish(ready, picture);
        drop(output);
        drop(permit);
    }
    Ok(())
}
