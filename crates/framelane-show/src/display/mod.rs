//! A display that several producers show their pictures on, drawn into memory of the graphics adapter.
//!
//! # How a picture comes from a tensor to the screen
//! ```text
//!  producer's stream:  [work] [show: tensor → RGBA8 in a free slot] event
//!  presenter, at each refresh:  which slots' events are done? the newest → texture → drawn; then the slot is free
//! ```
//! Each pane is one ring ([`framelane::ring`]) of slots whose memory belongs to the display (`image`). The producer's
//! kernel writes it ([`TensorPane::show`]), and the presenter takes a slot only once it has *seen* that the event after
//! the kernel is done, and gives it back only once it has seen its own submission done: neither side's GPU work waits
//! for the other's, and no CPU thread waits for a GPU.

mod image;
mod pane;
mod picture;
mod tiles;

pub use pane::{PaneOptions, TensorPane};
pub use picture::{Colours, Layout, Picture};

use crate::gpu::{self, AdapterInfo, Gpu};
use crate::offscreen::read_rgb;
use crate::upload::{self, Uploaded};
use crate::view::{self, View};
use framelane::device::{Device, Event};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::{self, ReadLease, Reader, TryTake};
use framelane::{Error, ErrorKind, Result};
use image::{ForPresenter, Slot, Way};
use pane::{Counts, Placed};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

/// Presentations that the adapter may still be at work on when another begins. As with a screen's own queue: more would
/// only be older.
const IN_FLIGHT: usize = 2;

/// An adapter that does not finish a presentation in this time never will.
const PATIENCE: Duration = Duration::from_secs(20);

type Lease = ReadLease<Slot, Event, Placed>;

/// A display in the memory of a graphics adapter. Panes are made on it, shown on from any thread, and drawn side by side
/// at each [`Display::present`].
pub struct Display {
    gpu: Arc<Gpu>,
    places: Vec<Place>,
    target: Option<Target>,
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    readbacks: u64,
}

/// What a pane looks like now.
struct Place {
    name: Arc<str>,
    reader: Reader<Slot, Event, Placed>,
    /// `Fifo`: the next one, until it is complete.
    next: Option<Lease>,
    view: View,
    picture: Option<(Uploaded, FrameMeta)>,
    counts: Arc<Counts>,
    path: Arc<str>,
    presented: u64,
    skipped: u64,
    ended: bool,
}

struct Target {
    texture: wgpu::Texture,
    view: wgpu::TextureView,
    size: ImageSize,
    extent: wgpu::Extent3d,
}

/// What a pane showed so far.
#[derive(Debug, Clone, PartialEq)]
pub struct PaneStatus {
    /// Its name.
    pub name: String,
    /// [`TensorPane::path`].
    pub path: String,
    /// Pictures given to [`TensorPane::show`].
    pub shown: u64,
    /// Pictures that were drawn.
    pub presented: u64,
    /// Pictures that a newer one overtook.
    pub dropped: u64,
    /// Who is on it now.
    pub picture: Option<FrameMeta>,
    /// Whether nothing follows: its producer is gone, or has said so.
    pub ended: bool,
}

impl Display {
    /// A display for pictures of `device`: on the graphics adapter that is the same GPU, or on the best one there is.
    /// Needs no screen.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there is no adapter, [`ErrorKind::Device`] if it cannot be opened.
    pub fn offscreen(device: &Device) -> Result<Self> {
        let instance = gpu::instance(None);
        let uuid = device.cuda_context().map(|cuda| cuda.info().uuid);
        let same = |adapter: &wgpu::Adapter| uuid.is_some() && crate::interop::uuid(adapter) == uuid;
        let adapter = gpu::choose(&instance, same).or_else(|_| gpu::choose(&instance, |_| true))?;
        Ok(Self {
            gpu: Arc::new(Gpu::open(&adapter)?),
            places: Vec::new(),
            target: None,
            in_flight: VecDeque::new(),
            readbacks: 0,
        })
    }

    /// The adapter that draws.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.gpu.adapter
    }

    /// A pane for pictures of `device`, after those there are. The way that they will take is chosen now, and said by
    /// [`TensorPane::path`].
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for no slots.
    pub fn pane(
        &mut self,
        name: impl Into<Arc<str>>,
        device: &Device,
        options: &PaneOptions,
    ) -> Result<TensorPane> {
        let name = name.into();
        let way = Arc::new(image::way(&self.gpu, device));
        let short = self.gpu.adapter.to_string().replacen(" (", ", ", 1);
        let path: Arc<str> = match &*way {
            Way::Shared => format!("vulkan-shared ({short}"),
            Way::Upload(why) => format!("host-upload ({short}: {why}"),
        }
        .into();
        let slots = ring::Options::fixed(name.clone(), options.policy, options.slots);
        let (writer, reader) = ring::ring(slots, |_| Ok(Slot::default()))?;
        let counts = Arc::<Counts>::default();
        self.places.push(Place {
            name: name.clone(),
            reader,
            next: None,
            view: View::new(&self.gpu, FORMAT),
            picture: None,
            counts: counts.clone(),
            path: path.clone(),
            presented: 0,
            skipped: 0,
            ended: false,
        });
        Ok(TensorPane { writer, gpu: self.gpu.clone(), device: device.clone(), name, way, path, counts })
    }

    /// Draw the newest complete picture of each pane (under `Fifo` the next one), side by side, into a target of `size`.
    /// How many of them are new.
    ///
    /// Waits for the adapter only if two presentations before are still being drawn. Nothing of the producers is waited
    /// for: what is not complete yet is for the next time.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for more pixels a side than the adapter takes; [`ErrorKind::Device`] if it fails; an
    /// error of a producer's stream.
    pub fn present(&mut self, size: ImageSize) -> Result<usize> {
        while self.in_flight.len() >= IN_FLIGHT
            && let Some(oldest) = self.in_flight.pop_front()
        {
            self.wait(oldest)?;
        }
        let extent = upload::extent(&self.gpu, size)?;
        if self.target.as_ref().is_none_or(|target| target.size != size) {
            self.target = Some(Target::new(&self.gpu, size, extent));
        }
        let Some(target) = &self.target else { return Ok(0) };
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut read = Vec::new();
        let mut fresh = 0;
        for place in &mut self.places {
            let Some(lease) = place.take()? else { continue };
            fresh += 1;
            // What is read by the submission keeps its slot until that is done.
            read.extend(place.load(&self.gpu, &mut encoder, lease)?);
        }
        let mut pass = view::begin(&mut encoder, &target.view, FORMAT);
        let count = self.places.len();
        for (n, place) in self.places.iter_mut().enumerate() {
            let tile = tiles::tile(n, count, extent.width, extent.height);
            let Some((picture, _)) = &place.picture else { continue };
            if tile.width > 0 && tile.height > 0 {
                pass.set_scissor_rect(tile.x, tile.y, tile.width, tile.height);
                let rect = tile.place(picture.size);
                place.view.draw(&self.gpu, &mut pass, rect, picture, None);
            }
        }
        drop(pass);
        let submission = self.gpu.queue.submit([encoder.finish()]);
        if !read.is_empty() {
            self.gpu.queue.on_submitted_work_done(move || drop(read));
        }
        self.in_flight.push_back(submission);
        self.poll()?;
        Ok(fresh)
    }

    /// Let go what the adapter is done with. [`Display::present`] does so, too.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the adapter fails.
    pub fn poll(&self) -> Result<()> {
        self.polled(wgpu::PollType::Poll)
    }

    fn wait(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        self.polled(wgpu::PollType::Wait { submission_index: Some(submission), timeout: Some(PATIENCE) })
    }

    fn polled(&self, how: wgpu::PollType) -> Result<()> {
        let polled = self.gpu.device.poll(how);
        self.gpu.check()?;
        let adapter = &self.gpu.adapter;
        polled.map(|_| ()).map_err(|e| {
            Error::new(ErrorKind::Device, format!("{adapter} does not finish what it was given: {e}"))
                .because(e)
        })
    }

    /// Read back what was presented last: u8, height × width × 3, sRGB. `None` before the first presentation. Waits for
    /// the adapter; counted ([`Display::readbacks`]).
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the adapter fails.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(target) = &self.target else { return Ok(None) };
        self.readbacks += 1;
        let pitch = image::pitch(target.size.width);
        let staging = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: (pitch * target.size.height) as u64,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let layout = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(pitch as u32),
            rows_per_image: None,
        };
        encoder.copy_texture_to_buffer(
            target.texture.as_image_copy(),
            wgpu::TexelCopyBufferInfo { buffer: &staging, layout },
            target.extent,
        );
        self.gpu.queue.submit([encoder.finish()]);
        read_rgb(&self.gpu, &staging, target.size, pitch).map(Some)
    }

    /// How often pictures were read back into host memory.
    pub fn readbacks(&self) -> u64 {
        self.readbacks
    }

    /// What each pane showed so far, in the order in which they were made.
    pub fn panes(&self) -> Vec<PaneStatus> {
        self.places.iter().map(Place::status).collect()
    }
}

impl Target {
    fn new(gpu: &Gpu, size: ImageSize, extent: wgpu::Extent3d) -> Self {
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            label: Some("display"),
            size: extent,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: FORMAT,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC,
            view_formats: &[],
        });
        let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
        Self { texture, view, size, extent }
    }
}

impl Place {
    /// The picture that is to be drawn, if there is one that is complete and was not drawn yet.
    fn take(&mut self) -> Result<Option<Lease>> {
        if self.next.is_none() {
            match self.reader.try_take()? {
                TryTake::Lease(mut lease) => {
                    self.skipped += lease.take_skipped().len() as u64;
                    self.next = Some(lease);
                }
                TryTake::Empty => {}
                TryTake::End => self.ended = true,
            }
        }
        // Asked here in any case: it is what makes reading right, and the hazard check learns it.
        Ok(self.next.take_if(|lease| lease.ready().is_done()))
    }

    /// Bring the picture into the pane's texture. What the encoder's commands will read is handed back.
    fn load(&mut self, gpu: &Gpu, encoder: &mut wgpu::CommandEncoder, lease: Lease) -> Result<Option<Lease>> {
        let Placed { image, size, meta } = lease.meta();
        let extent = upload::extent(gpu, *size)?;
        let texture = match self.picture.take() {
            Some((uploaded, _)) if uploaded.size == *size => uploaded,
            _ => Uploaded::new(gpu, *size, extent),
        };
        let meta = meta.clone();
        let pitch = image::pitch(size.width);
        let layout = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(pitch as u32),
            rows_per_image: None,
        };
        let read = match &image.for_presenter {
            ForPresenter::Shared(buffer) => {
                let from = wgpu::TexelCopyBufferInfo { buffer, layout };
                encoder.copy_buffer_to_texture(from, texture.texture.as_image_copy(), extent);
                true
            }
            ForPresenter::Host(memory) => {
                let bytes = memory.read_host()?;
                let bytes = &bytes[..pitch * size.height];
                gpu.queue.write_texture(texture.texture.as_image_copy(), bytes, layout, extent);
                false
            }
        };
        self.picture = Some((texture, meta));
        self.presented += 1;
        Ok(read.then_some(lease))
    }

    fn status(&self) -> PaneStatus {
        PaneStatus {
            name: self.name.to_string(),
            path: self.path.to_string(),
            shown: self.counts.shown.load(Ordering::Relaxed),
            presented: self.presented,
            dropped: self.skipped + self.counts.replaced.load(Ordering::Relaxed),
            picture: self.picture.as_ref().map(|(_, meta)| meta.clone()),
            ended: self.ended,
        }
    }
}

impl Drop for Display {
    /// Producers are told that nobody looks any more. What the adapter still reads stays until it is done.
    fn drop(&mut self) {
        for place in &self.places {
            place.reader.cancel();
        }
    }
}

impl fmt::Debug for Display {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Display").field("adapter", &self.gpu.adapter).field("panes", &self.panes()).finish()
    }
}
