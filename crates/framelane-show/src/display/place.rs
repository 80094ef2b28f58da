//! What a pane looks like now, and where its next picture comes from.

use super::PaneStatus;
use super::compose::{Compose, Part, Target};
use super::image::{self, ForPresenter, Slot};
use super::pane::{Counts, Placed};
use crate::gpu::Gpu;
use crate::view::Rect;
use framelane::Result;
use framelane::device::Event;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::{ReadLease, Reader, TryTake};
#[cfg(unix)]
use framelane::share::Attached;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) type Lease = ReadLease<Arc<Slot>, Event, Placed>;

pub(super) struct Place {
    name: Arc<str>,
    path: Arc<str>,
    from: From,
    pub part: Part,
    picture: Option<Current>,
    /// Where pictures from the host are uploaded to.
    uploaded: Option<wgpu::Buffer>,
    presented: u64,
    ended: Option<String>,
}

/// Whose pictures they are.
enum From {
    /// A producer's of this process.
    Pane {
        reader: Reader<Arc<Slot>, Event, Placed>,
        /// Taken, but not complete yet.
        next: Option<Lease>,
        counts: Arc<Counts>,
        skipped: u64,
    },
    /// Another process's.
    #[cfg(unix)]
    Worker {
        worker: Box<Attached>,
        /// On the way from shared memory, which the worker could write meanwhile, to the adapter.
        bytes: Vec<u8>,
        /// Frames that the adapter cannot draw: they spoil this pane alone.
        refused: u64,
    },
}

/// The picture that is shown.
struct Current {
    pixels: wgpu::Buffer,
    size: ImageSize,
    meta: FrameMeta,
    /// Keeps the slot that `pixels` are in.
    lease: Option<Arc<Lease>>,
}

impl Place {
    pub fn new(
        gpu: &Gpu,
        name: Arc<str>,
        path: Arc<str>,
        reader: Reader<Arc<Slot>, Event, Placed>,
        counts: Arc<Counts>,
    ) -> Self {
        Self::of(gpu, name, path, From::Pane { reader, next: None, counts, skipped: 0 })
    }

    /// A place for what a worker shows.
    #[cfg(unix)]
    pub fn for_worker(gpu: &Gpu, worker: Attached) -> Self {
        let upload = crate::upload::path(&gpu.adapter);
        let path = format!("shared-memory, then {upload}: pictures are made by another process");
        let name = worker.name().into();
        Self::of(
            gpu,
            name,
            path.into(),
            From::Worker { worker: Box::new(worker), bytes: Vec::new(), refused: 0 },
        )
    }

    fn of(gpu: &Gpu, name: Arc<str>, path: Arc<str>, from: From) -> Self {
        let part = Part::new(gpu);
        Self { name, path, from, part, picture: None, uploaded: None, presented: 0, ended: None }
    }

    /// Whether a worker of this name was here, and has ended.
    #[cfg(unix)]
    pub fn was(&self, name: &str) -> bool {
        *self.name == *name && self.ended.is_some() && matches!(self.from, From::Worker { .. })
    }

    /// Take the next picture, if there is one that is complete. Whether there was.
    pub fn refresh(&mut self, gpu: &Gpu) -> Result<bool> {
        let current = match &mut self.from {
            From::Pane { reader, next, skipped, .. } => {
                if next.is_none() {
                    match reader.try_take()? {
                        TryTake::Lease(mut lease) => {
                            *skipped += lease.take_skipped().len() as u64;
                            *next = Some(lease);
                        }
                        TryTake::Empty => {}
                        TryTake::End => self.ended = Some("its producer has ended".into()),
                    }
                }
                // Asked here in any case: it is what makes reading right, and the hazard check learns it.
                match next.take_if(|lease| lease.ready().is_done()) {
                    Some(lease) => Some(Current::of(gpu, &mut self.uploaded, lease)?),
                    None => None,
                }
            }
            #[cfg(unix)]
            From::Worker { worker, bytes, refused } => {
                // Frames first: a worker that has ended leaves its last one.
                let taken = worker.try_take();
                if self.ended.is_none() && !worker.poll_alive() {
                    self.ended = worker.ended().map(str::to_owned);
                }
                match taken {
                    Some(frame) if image::check(gpu, frame.size()).is_err() => {
                        *refused += 1;
                        None
                    }
                    Some(frame) => {
                        let size = frame.size();
                        bytes.resize(frame.pitch() * size.height, 0);
                        frame.copy_to(bytes)?;
                        let pixels = upload(gpu, &mut self.uploaded, bytes);
                        Some(Current { pixels, size, meta: frame.meta().clone(), lease: None })
                    }
                    None => None,
                }
            }
        };
        let Some(current) = current else { return Ok(false) };
        self.picture = Some(current);
        self.presented += 1;
        Ok(true)
    }

    /// Draw the picture, if there is one, into `tile`.
    pub fn draw(
        &mut self,
        gpu: &Gpu,
        compose: &Compose,
        pass: &mut wgpu::ComputePass<'_>,
        target: &Target,
        tile: Rect,
    ) {
        let picture = self.picture.as_ref().map(|picture| (&picture.pixels, picture.size));
        compose.draw(gpu, pass, &mut self.part, target, tile, picture);
    }

    /// What keeps the slot of the picture.
    pub fn lease(&self) -> Option<Arc<Lease>> {
        self.picture.as_ref()?.lease.clone()
    }

    /// Nobody looks any more.
    pub fn cancel(&self) {
        if let From::Pane { reader, .. } = &self.from {
            reader.cancel();
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
            From::Worker { worker, refused, .. } => {
                let counts = worker.counts();
                let unseen = counts.skipped + counts.spoiled;
                (counts.taken + unseen, unseen + refused, counts.taken)
            }
        };
        PaneStatus {
            name: self.name.to_string(),
            path: self.path.to_string(),
            shown,
            presented: self.presented,
            dropped,
            host_copies,
            picture: self.picture.as_ref().map(|picture| picture.meta.clone()),
            ended: self.ended.clone(),
        }
    }
}

impl Current {
    fn of(gpu: &Gpu, uploaded: &mut Option<wgpu::Buffer>, lease: Lease) -> Result<Self> {
        let Placed { image, size, meta } = lease.meta();
        let (size, meta) = (*size, meta.clone());
        match &image.for_presenter {
            ForPresenter::Shared(buffer) => {
                Ok(Self { pixels: buffer.clone(), size, meta, lease: Some(Arc::new(lease)) })
            }
            ForPresenter::Host(memory) => {
                let bytes = memory.read_host()?;
                let pixels = upload(gpu, uploaded, &bytes[..image::pitch(size.width) * size.height]);
                Ok(Self { pixels, size, meta, lease: None })
            }
        }
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
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    });
    gpu.queue.write_buffer(buffer, 0, bytes);
    buffer.clone()
}
