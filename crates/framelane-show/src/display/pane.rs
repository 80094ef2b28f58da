//! Panes: where producers show their pictures, each on its own stream.

use super::image::{self, ForPresenter, Image, Slot, Way, pitch};
use super::picture::{self, Picture, Plan};
use super::staging::Staging;
use super::watch::{EndOnDrop, Seen, Told, Watch};
use crate::gpu::Gpu;
use framelane::device::{Device, Event, Stream};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::{Policy, WriteSlot, Writer};
use framelane::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// How a pane behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneOptions {
    /// What happens to pictures that come faster than they are presented. `Latest`: the newest is presented, those
    /// it overtook are dropped and counted, and [`TensorPane::show`] never waits. `Fifo`: each is presented, and
    /// [`TensorPane::show`] waits for a free slot.
    pub policy: Policy,
    /// Slots: the picture that is seen keeps one, and each presentation that the adapter is still at work on may keep
    /// one more. At least 5 under `Latest`, so that a producer never waits; with 6 one that runs far ahead of its
    /// stream leaves something to present. At least 2 under `Fifo`.
    pub slots: usize,
}

impl Default for PaneOptions {
    fn default() -> Self {
        Self { policy: Policy::Latest, slots: 6 }
    }
}

/// What [`TensorPane::show`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a closed window is told here and nowhere else"]
pub enum Shown {
    /// The picture will be shown next.
    Shown,
    /// The picture will be shown next, in place of one that nobody saw.
    Replaced,
    /// The display is closed, or the pane was finished: stop.
    Closed,
}

/// What travels with a picture.
pub(super) struct Placed {
    pub image: Arc<Image>,
    pub size: ImageSize,
    /// The picture before, and the byte of the image where it begins.
    pub before: Option<(ImageSize, usize)>,
    pub meta: FrameMeta,
    pub told: Arc<Told>,
}

/// What became of the pictures.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub shown: AtomicU64,
    pub replaced: AtomicU64,
    pub host_copies: AtomicU64,
    /// Why the producer ended, if it said so.
    pub why: OnceLock<String>,
}

/// A slot with a picture enqueued into it.
struct Filled {
    image: Arc<Image>,
    ready: Event,
    from_host: bool,
}

/// A place of a [`Display`](crate::Display) for the pictures of one producer; clones are the same place. Dropping the
/// last one ends it: the last picture stays.
#[derive(Clone)]
pub struct TensorPane {
    pub(super) writer: Writer<Arc<Slot>, Event, Placed>,
    /// All of the ring's.
    pub(super) slots: Arc<[Arc<Slot>]>,
    pub(super) gpu: Arc<Gpu>,
    pub(super) device: Device,
    pub(super) name: Arc<str>,
    pub(super) way: Arc<Way>,
    pub(super) path: Arc<str>,
    pub(super) counts: Arc<Counts>,
    pub(super) staging: Arc<Staging>,
    pub(super) watch: Arc<Watch>,
    // Last: the window looks for the end of what the writer wrote.
    pub(super) _end: Arc<EndOnDrop>,
}

impl TensorPane {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The way that pictures take, in one line, and why it is not a better one:
    /// `vulkan-shared (NVIDIA H200, Vulkan)`, `host-upload (llvmpipe, Vulkan): pictures are made on the cpu`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Show a picture: one kernel on `stream` writes it into a slot of the display, after what was enqueued there
    /// before. The tensor may be written again, or let go, by work that is enqueued on `stream` from then on.
    ///
    /// The call waits for nothing under [`Policy::Latest`], and under [`Policy::Fifo`] for a slot that was presented. Only
    /// for the first picture, and for larger ones than before, all slots are made anew: then the driver may wait for the
    /// device. (On the `host-upload` way a copy to the host is enqueued as well.) A picture of the host's is copied once in
    /// the call, and by the stream to its device; with six of them on their way the call waits for the first, and counts it.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for a tensor that is no picture, or of another device than the pane's or the stream's;
    /// [`ErrorKind::Unsupported`] for one that the adapter cannot hold; an earlier failure of the stream; a device
    /// without memory. The pane goes on.
    pub fn show(&self, stream: &Stream, picture: &Picture<'_>, meta: &FrameMeta) -> Result<Shown> {
        self.place(stream, picture, meta, None)
    }

    /// As [`TensorPane::show`], and `then` is told what became of the picture: exactly once, unless this call is an
    /// error. It is called by the thread that draws, or the one that shows, or closes, and must not wait.
    ///
    /// # Errors
    /// As [`TensorPane::show`].
    pub fn show_then(
        &self,
        stream: &Stream,
        picture: &Picture<'_>,
        meta: &FrameMeta,
        then: impl FnOnce(Seen) + Send + 'static,
    ) -> Result<Shown> {
        self.place(stream, picture, meta, Some(Box::new(then)))
    }

    fn place(
        &self,
        stream: &Stream,
        picture: &Picture<'_>,
        meta: &FrameMeta,
        then: Option<Box<dyn FnOnce(Seen) + Send>>,
    ) -> Result<Shown> {
        check_device(&self.name, &self.device, stream).map_err(|e| e.context(meta))?;
        let plan = picture.plan_both(pitch).map_err(|e| e.context(meta))?;
        image::check(&self.gpu, &plan).map_err(|e| e.context(meta))?;
        let mut slot = match self.writer.acquire() {
            Ok(slot) => slot,
            Err(e) if e.kind() == ErrorKind::Closed => {
                Told::new(then).tell(Seen::Closed);
                return Ok(Shown::Closed);
            }
            Err(e) => return Err(e),
        };
        let replaced = slot.take_replaced();
        let is_replaced = replaced.is_some();
        if let Some(replaced) = replaced {
            self.counts.replaced.fetch_add(1, Ordering::Relaxed);
            replaced.told.tell(Seen::Overtaken);
        }
        let Filled { image, ready, from_host } = match self.fill(stream, picture, &plan, &slot) {
            Ok(filled) => filled,
            Err((error, begun)) => {
                // What was enqueued may still write the slot.
                slot.recycle(begun.into_iter().collect());
                return Err(error.context(meta));
            }
        };
        self.counts.shown.fetch_add(1, Ordering::Relaxed);
        if from_host || matches!(*self.way, Way::Upload(_)) {
            self.counts.host_copies.fetch_add(1, Ordering::Relaxed);
        }
        let Plan { size, before, .. } = plan;
        let before = before.map(|(size, _, at)| (size, at));
        let placed = Placed { image, size, before, meta: meta.clone(), told: Told::new(then) };
        if slot.publish(ready, placed).is_some() {
            return Ok(Shown::Closed);
        }
        self.watch.picture();
        Ok(if is_replaced { Shown::Replaced } else { Shown::Shown })
    }

    /// Wait until `due` (see [`Pace`](crate::Pace)). `false`, at once, if the display is closed.
    pub fn wait_until(&self, due: Instant) -> bool {
        self.watch.open_until(due)
    }

    /// End the pane, as dropping its last clone does, and let the display say why ([`PaneStatus`](crate::PaneStatus)).
    /// What clones of it show is still shown; the first reason counts.
    pub fn end(self, why: &str) {
        // One that was there before stays.
        let _ = self.counts.why.set(why.to_owned());
    }

    /// Whether the display is closed: no picture will be taken any more.
    pub fn is_closed(&self) -> bool {
        self.watch.is_closed()
    }

    /// Make all slots as large: one that is made later, while the producer's stream waits for something, might wait
    /// for the device.
    fn grow(&self, bytes: usize) -> Result<()> {
        self.slots.iter().try_for_each(|slot| self.made(slot, bytes).map(|_| ()))
    }

    fn made(&self, slot: &Slot, bytes: usize) -> Result<Arc<Image>> {
        slot.at_least(&self.gpu, &self.device, &self.way, bytes)
    }

    /// Enqueue the picture into the slot. An error comes with the end of what was enqueued, if anything was.
    fn fill(
        &self,
        stream: &Stream,
        picture: &Picture<'_>,
        plan: &Plan,
        slot: &WriteSlot<Arc<Slot>, Event, Placed>,
    ) -> std::result::Result<Filled, (Error, Option<Event>)> {
        let nothing = |error| (error, None);
        let begun = |error| (error, Some(stream.record_anyway()));
        let bytes = plan.bytes;
        let image = match slot.payload().of(bytes) {
            Some(image) => image,
            None => self.grow(bytes).and_then(|()| self.made(slot.payload(), bytes)).map_err(nothing)?,
        };
        slot.wait_for().iter().try_for_each(|read| stream.wait(read)).map_err(nothing)?;
        let target = &image.target;
        let one = |picture: &Picture<'_>, how, at| {
            let to = (target, at);
            self.staging.with(stream, picture.source(), |from| picture::enqueue(stream, how, from, to))
        };
        let ((), mut from_host) = one(picture, &plan.how, 0).map_err(nothing)?;
        if let Some(((_, how, at), before)) = plan.before.as_ref().zip(picture.picture_before()) {
            let ((), from_host_too) = one(before, how, *at).map_err(begun)?;
            from_host |= from_host_too;
        }
        match &image.for_presenter {
            ForPresenter::Host(host) if self.device.cuda_context().is_some() => {
                stream.copy(&image.target, 0..bytes, host, 0).map_err(begun)?;
            }
            _ => {}
        }
        let ready = stream.record().map_err(begun)?;
        Ok(Filled { image, ready, from_host })
    }
}

/// # Errors
/// [`ErrorKind::Argument`] for a stream of another device than the pane's.
pub(super) fn check_device(pane: &str, device: &Device, stream: &Stream) -> Result<()> {
    if stream.device().same(device) {
        return Ok(());
    }
    let (ours, theirs, name) = (device.name(), stream.device().name(), stream.name());
    let text = format!("pane {pane:?} takes pictures of {ours}, not of stream {name:?} on {theirs}");
    Err(Error::new(ErrorKind::Argument, text))
}

impl fmt::Debug for TensorPane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorPane({:?}, {})", self.name, self.path)
    }
}
