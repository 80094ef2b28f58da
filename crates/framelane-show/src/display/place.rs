//! What a pane looks like now, and where its next picture comes from.

use super::PaneStatus;
use super::compose::{Compose, Part, Scene, Target};
use super::image::{self, ForPresenter, Slot};
#[cfg(unix)]
use super::lend;
use super::pane::{Counts, Placed};
use super::watch::{Seen, Told};
use crate::gpu::Gpu;
use crate::meter::Meter;
use crate::rect::{self, Rect, Zoom};
use framelane::Result;
use framelane::device::Event;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::{Policy, ReadLease, Reader, TryTake};
#[cfg(unix)]
use framelane::share::{Attached, Fate};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What keeps the slot of a picture that the adapter draws out of: a pane's, or a worker's.
pub(super) type Lease = dyn Any + Send + Sync;

/// Magnified so much or more, pixels keep their edges.
const SHARP: f64 = 2.0;

pub(super) struct Place {
    name: Arc<str>,
    path: Arc<str>,
    from: From,
    part: Part,
    picture: Option<Current>,
    /// Where pictures from the host are uploaded to.
    uploaded: Option<wgpu::Buffer>,
    pub zoom: Zoom,
    pub meter: Meter,
    presented: u64,
    hidden: u64,
    /// Taken, and not drawn before a newer one was, or the display closed.
    overtaken: u64,
    ended: Option<String>,
}

/// Whose pictures they are.
enum From {
    /// A producer's of this process.
    Pane {
        reader: Reader<Arc<Slot>, Event, Placed>,
        policy: Policy,
        /// Taken, but not complete yet.
        next: Option<ReadLease<Arc<Slot>, Event, Placed>>,
        counts: Arc<Counts>,
        skipped: u64,
    },
    /// Another process's.
    #[cfg(unix)]
    Worker {
        worker: Box<Attached>,
        /// On the way from shared memory of the host, which the worker could write meanwhile, to the adapter.
        bytes: Vec<u8>,
        /// Frames that the adapter cannot draw: they spoil this pane alone.
        refused: u64,
        /// Frames that were uploaded from memory of the host.
        uploaded: u64,
    },
}

/// The picture that is shown.
struct Current {
    pixels: wgpu::Buffer,
    size: ImageSize,
    before: Option<(ImageSize, usize)>,
    meta: FrameMeta,
    told: Option<Arc<Told>>,
    /// Whether it was drawn.
    seen: bool,
    /// What its worker knows it by.
    number: Option<u64>,
    /// Keeps the slot that `pixels` are in.
    lease: Option<Arc<Lease>>,
}

impl Place {
    pub fn new(
        gpu: &Gpu,
        name: Arc<str>,
        path: Arc<str>,
        policy: Policy,
        reader: Reader<Arc<Slot>, Event, Placed>,
        counts: Arc<Counts>,
    ) -> Self {
        Self::of(gpu, name, path, From::Pane { reader, policy, next: None, counts, skipped: 0 })
    }

    /// A place for what a worker shows, called `name` here.
    #[cfg(unix)]
    pub fn for_worker(gpu: &Gpu, name: Arc<str>, worker: Attached) -> Self {
        let unasked = || lend::through_host(gpu, "pictures are made by another process");
        let path = worker.way().map_or_else(unasked, str::to_owned).into();
        let from = From::Worker { worker: Box::new(worker), bytes: Vec::new(), refused: 0, uploaded: 0 };
        Self::of(gpu, name, path, from)
    }

    fn of(gpu: &Gpu, name: Arc<str>, path: Arc<str>, from: From) -> Self {
        Self {
            name,
            path,
            from,
            part: Part::new(gpu),
            picture: None,
            uploaded: None,
            zoom: Zoom::Fit,
            meter: Meter::new(),
            presented: 0,
            hidden: 0,
            overtaken: 0,
            ended: None,
        }
    }

    /// Whether a worker of this name was here, and has ended.
    #[cfg(unix)]
    pub fn was(&mut self, name: &str) -> bool {
        if !matches!(&self.from, From::Worker { worker, .. } if worker.name() == name) {
            return false;
        }
        self.tend();
        self.has_ended()
    }

    /// What it is called: the name that its producer gave it, and a number if there is another of that name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether pictures may come of which nobody tells.
    pub fn is_to_be_asked(&self) -> bool {
        match &self.from {
            From::Pane { reader, next, .. } => {
                let counts = reader.counts();
                next.is_some() || counts.published > counts.taken + counts.dropped
            }
            #[cfg(unix)]
            From::Worker { .. } => self.ended.is_none(),
        }
    }

    /// Whether the producers wait for each picture to be drawn.
    pub fn is_fifo(&self) -> bool {
        matches!(self.from, From::Pane { policy: Policy::Fifo, .. })
    }

    /// Whether it was a producer's of this process, and that one's end was seen.
    pub fn is_ended_pane(&self) -> bool {
        matches!(self.from, From::Pane { .. }) && self.has_ended()
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether there is a picture that was not drawn yet.
    pub fn has_unseen(&self) -> bool {
        self.picture.as_ref().is_some_and(|picture| !picture.seen)
    }

    /// See whether a worker is still there, and answer what it asks, without taking a picture.
    pub fn tend(&mut self) {
        #[cfg(unix)]
        if let From::Worker { worker, .. } = &mut self.from
            && self.ended.is_none()
            && !worker.poll_alive()
        {
            self.ended = worker.ended().map(str::to_owned);
        }
    }

    /// Take the next picture, if there is one that is complete; `visible`: and may be drawn.
    pub fn refresh(&mut self, gpu: &Gpu, visible: bool) -> Result<()> {
        if visible && self.is_fifo() && self.has_unseen() {
            return Ok(());
        }
        let current = match &mut self.from {
            From::Pane { reader, next, skipped, counts, .. } => {
                if next.is_none() {
                    match reader.try_take()? {
                        TryTake::Lease(mut lease) => {
                            for older in lease.take_skipped() {
                                *skipped += 1;
                                older.told.tell(Seen::Overtaken);
                            }
                            *next = Some(lease);
                        }
                        TryTake::Empty => {}
                        TryTake::End => {
                            let why = counts.why.get().map(|why| format!(": {why}")).unwrap_or_default();
                            self.ended = Some(format!("ended{why}"));
                        }
                    }
                }
                // Asked here in any case: it is what makes reading right, and the hazard check learns it.
                match next.take_if(|lease| lease.ready().is_done()) {
                    Some(lease) => Some(Current::of(gpu, &mut self.uploaded, lease)?),
                    None => None,
                }
            }
            #[cfg(unix)]
            From::Worker { worker, bytes, refused, uploaded } => match worker.try_take() {
                Some(frame)
                    if image::check_size(gpu, frame.size(), frame.pitch() * frame.size().height).is_err() =>
                {
                    *refused += 1;
                    worker.settle(frame.number(), Fate::Refused);
                    None
                }
                Some(frame) => {
                    let (size, meta, number) = (frame.size(), frame.meta().clone(), Some(frame.number()));
                    let (pixels, lease): (_, Option<Arc<Lease>>) = match lend::pixels(&frame) {
                        Some(pixels) => (pixels, Some(Arc::new(frame))),
                        None => {
                            bytes.resize(frame.pitch() * size.height, 0);
                            frame.copy_to(bytes)?;
                            *uploaded += 1;
                            (upload(gpu, &mut self.uploaded, bytes), None)
                        }
                    };
                    Some(Current { pixels, size, before: None, meta, told: None, seen: false, number, lease })
                }
                None => None,
            },
        };
        // Frames first: a worker that has ended leaves its last one.
        self.tend();
        if let Some(current) = current {
            self.pass_over(if visible { Seen::Overtaken } else { Seen::Hidden });
            self.picture = Some(current);
        }
        Ok(())
    }

    /// The picture that was taken, if it was not drawn, will not be.
    fn pass_over(&mut self, fate: Seen) {
        if let Some(picture) = self.picture.as_mut().filter(|picture| !picture.seen) {
            picture.seen = true;
            *(if fate == Seen::Hidden { &mut self.hidden } else { &mut self.overtaken }) += 1;
            self.tell(fate);
        }
    }

    /// Tell the producer what became of the picture.
    fn tell(&mut self, seen: Seen) {
        let Some(picture) = &self.picture else { return };
        if let Some(told) = &picture.told {
            told.tell(seen);
        }
        #[cfg(unix)]
        if let (From::Worker { worker, .. }, Some(number)) = (&mut self.from, picture.number) {
            match seen {
                Seen::Presented => worker.settle(number, Fate::Drawn),
                Seen::Overtaken => worker.settle(number, Fate::Overtaken),
                Seen::Hidden => worker.settle(number, Fate::Hidden),
                Seen::Refused => worker.settle(number, Fate::Refused),
                // The goodbye says so, of all that is open.
                Seen::Closed | Seen::Left => {}
            }
        }
    }

    /// Draw the picture, if there is one, into `tile`.
    pub fn draw(
        &mut self,
        gpu: &Gpu,
        compose: &Compose,
        pass: &mut wgpu::ComputePass<'_>,
        target: &Target,
        tile: Rect,
        split: Option<f32>,
    ) {
        let placed = self.placed(tile);
        let scene = self.picture.as_ref().zip(placed).map(|(picture, placed)| {
            let sharp = matches!(self.zoom, Zoom::At { scale, .. } if scale >= SHARP);
            Scene {
                pixels: &picture.pixels,
                size: picture.size,
                before: picture.before,
                placed,
                sharp,
                split,
            }
        });
        compose.draw(gpu, pass, &mut self.part, target, tile, scene.as_ref());
    }

    /// Draw the picture alone, as large as it is, into `target`.
    pub fn draw_alone(
        &self,
        gpu: &Gpu,
        compose: &Compose,
        pass: &mut wgpu::ComputePass<'_>,
        target: &Target,
        split: Option<f32>,
    ) {
        let Some(picture) = &self.picture else { return };
        let tile = Rect { x: 0, y: 0, width: target.extent.width, height: target.extent.height };
        let placed = rect::Placed::of(picture.size, tile, Zoom::Fit);
        let (pixels, size, before) = (&picture.pixels, picture.size, picture.before);
        let scene = Scene { pixels, size, before, placed, sharp: false, split };
        compose.draw(gpu, pass, &mut Part::new(gpu), target, tile, Some(&scene));
    }

    /// There is another target.
    pub fn unbind(&mut self) {
        self.part.unbind();
    }

    /// The picture was handed to the adapter. What is new is counted, and its age.
    pub fn drawn(&mut self, now: Instant, all: &mut Meter) {
        if let Some(picture) = self.picture.as_mut().filter(|picture| !picture.seen) {
            picture.seen = true;
            self.presented += 1;
            let age = now.saturating_duration_since(picture.meta.captured);
            self.meter.shown(now, age);
            all.shown(now, age);
            self.tell(Seen::Presented);
        }
    }

    /// Where the picture lies in its tile.
    pub fn placed(&self, tile: Rect) -> Option<rect::Placed> {
        Some(rect::Placed::of(self.picture.as_ref()?.size, tile, self.zoom))
    }

    /// The size of the picture, and of the one before it.
    pub fn sizes(&self) -> Option<(ImageSize, Option<ImageSize>)> {
        self.picture.as_ref().map(|picture| (picture.size, picture.before.map(|(size, _)| size)))
    }

    /// Where the pixel at (`x`, `y`) of the picture, or of the one `before` it, is: in this buffer, at this byte.
    pub fn pixel(&self, before: bool, x: usize, y: usize) -> Option<(&wgpu::Buffer, usize)> {
        let picture = self.picture.as_ref()?;
        let (size, start) = if before { picture.before? } else { (picture.size, 0) };
        let inside = x < size.width && y < size.height;
        inside.then(|| (&picture.pixels, start + y * image::pitch(size.width) + 4 * x))
    }

    pub fn presented(&self) -> u64 {
        self.presented
    }

    pub fn meta(&self) -> Option<&FrameMeta> {
        self.picture.as_ref().map(|picture| &picture.meta)
    }

    /// What keeps the slot of the picture.
    pub fn lease(&self) -> Option<Arc<Lease>> {
        self.picture.as_ref()?.lease.clone()
    }

    /// Nobody looks any more. What was taken and not drawn, nobody saw: `visible`: because of that alone.
    pub fn cancel(&mut self, visible: bool) {
        self.pass_over(if visible { Seen::Closed } else { Seen::Hidden });
        match &mut self.from {
            From::Pane { reader, next, skipped, .. } => {
                *skipped += (reader.cancel().len() + usize::from(next.take().is_some())) as u64;
            }
            #[cfg(unix)]
            From::Worker { worker, .. } => {
                worker.close("the window was closed");
                self.ended.get_or_insert_with(|| "the window was closed".into());
            }
        }
    }

    pub fn status(&self) -> PaneStatus {
        let (shown, dropped, host_copies) = match &self.from {
            From::Pane { counts, skipped, .. } => {
                let replaced = counts.replaced.load(Ordering::Relaxed);
                let host_copies = counts.host_copies.load(Ordering::Relaxed);
                (counts.shown.load(Ordering::Relaxed), skipped + replaced, host_copies)
            }
            #[cfg(unix)]
            From::Worker { worker, refused, uploaded, .. } => {
                let counts = worker.counts();
                let unseen = counts.skipped + counts.spoiled;
                (counts.taken + unseen, unseen + refused, *uploaded)
            }
        };
        PaneStatus {
            name: self.name.to_string(),
            path: self.path.to_string(),
            shown,
            presented: self.presented,
            dropped: dropped + self.overtaken,
            hidden: self.hidden,
            host_copies,
            picture: self.picture.as_ref().map(|picture| picture.meta.clone()),
            ended: self.ended.clone(),
        }
    }
}

impl Current {
    fn of(
        gpu: &Gpu,
        uploaded: &mut Option<wgpu::Buffer>,
        lease: ReadLease<Arc<Slot>, Event, Placed>,
    ) -> Result<Self> {
        let Placed { image, size, before, meta, told } = lease.meta();
        let (size, before, meta, told) = (*size, *before, meta.clone(), Some(told.clone()));
        let (pixels, lease): (_, Option<Arc<Lease>>) = match &image.for_presenter {
            ForPresenter::Shared(buffer) => (buffer.clone(), Some(Arc::new(lease))),
            ForPresenter::Host(memory) => {
                let bytes = memory.read_host()?;
                let both = [(size, 0)].into_iter().chain(before);
                let end =
                    both.map(|(size, at)| at + image::pitch(size.width) * size.height).max().unwrap_or(0);
                (upload(gpu, uploaded, &bytes[..end]), None)
            }
        };
        Ok(Self { pixels, size, before, meta, told, seen: false, number: None, lease })
    }
}

/// Copied before the call is back; the adapter writes it in order with what it is given.
fn upload(gpu: &Gpu, uploaded: &mut Option<wgpu::Buffer>, bytes: &[u8]) -> wgpu::Buffer {
    let size = bytes.len() as u64;
    if uploaded.as_ref().is_none_or(|buffer| buffer.size() < size) {
        *uploaded = None;
    }
    let buffer = uploaded.get_or_insert_with(|| {
        gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("uploaded"),
            size,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        })
    });
    gpu.queue.write_buffer(buffer, 0, bytes);
    buffer.clone()
}
