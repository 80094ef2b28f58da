//! Frames through a CUDA device on their way to a network that runs on the host: there by the feed, back by a
//! copy, once more into the host's feed.

use framelane::device::{Buffer, Device, Memory, Stream};
use framelane::feed::{FeedReport, Feeder, Interrupter, Options, SlotWriter, Source};
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

/// A source whose frames have been on the device.
pub struct Relay {
    feeder: Arc<Feeder>,
    name: String,
    stream: Stream,
    back: Option<Buffer>,
}

impl Relay {
    /// # Errors
    /// Of the device.
    pub fn new(device: &Device, source: Box<dyn Source>) -> Result<Self> {
        let name = source.name().to_owned();
        let feeder = Feeder::new(device, source, Options::new(format!("{name} on {}", device.name())))?;
        let stream = device.stream("back to the host")?;
        Ok(Self { feeder: Arc::new(feeder), name, stream, back: None })
    }

    /// For the time after the run: where the feed's time went.
    pub fn reporter(&self) -> impl Fn() -> FeedReport + use<> {
        let feeder = self.feeder.clone();
        move || feeder.report()
    }
}

impl Source for Relay {
    fn name(&self) -> &str {
        &self.name
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let Some(batch) = self.feeder.next_batch()? else { return Ok(false) };
        let view = batch.on(&self.stream)?;
        let picture = view.tensors().next().and_then(|t| Some((t.clone(), ImageSize::of(t.spec())?)));
        let (Some((tensor, size)), Some(meta)) = (picture, batch.meta()) else {
            return Err(Error::new(ErrorKind::Input, "the source gave a batch that is no frame"));
        };
        let back = match &self.back {
            Some(back) if back.len() == size.bytes() => back,
            _ => self.back.insert(self.stream.device().alloc(size.bytes(), Memory::Pinned)?),
        };
        tensor.copy_to(&self.stream, back)?;
        self.stream.synchronize("relay: back to the host")?;
        slot.image(size, meta.clone())?.copy_from_slice(&back.read_host()?);
        Ok(true)
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let feeder = self.feeder.clone();
        Some(Arc::new(move || {
            // Does not wait: the end of the run does.
            let _ = feeder.cancel(Duration::ZERO);
        }))
    }
}
