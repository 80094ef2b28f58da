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
//!
//! A worker process's pane is the same with a control page ([`framelane::share`]) for a ring, and a number that the GPU
//! writes there for an event: its slots are made and exported here (`lend`) and mapped there (`worker`).

mod compose;
mod image;
#[cfg(unix)]
mod lend;
mod pane;
pub(crate) mod picture;
mod place;
pub(crate) mod staging;
mod tiles;
mod watch;
#[cfg(unix)]
mod worker;

pub(crate) use compose::Target;
pub(crate) use image::{by_host, pitch};
pub use pane::{PaneOptions, Shown, TensorPane};
pub use picture::{Colours, Layout, Matrix, Picture};
pub(crate) use tiles::grid;
pub use watch::Seen;
#[cfg(unix)]
pub use worker::WorkerPane;

use crate::gpu::{self, AdapterInfo, Gpu};
use crate::link::Link;
use crate::meter::{Ages, Meter, Rate};
use crate::readback::{Readback, read};
use crate::rect::{Placed, Rect, Zoom};
use compose::{Compose, Part};
use framelane::device::Device;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::{self, Policy};
#[cfg(unix)]
use framelane::share::{Attached, Listener};
use framelane::{Error, ErrorKind, Result};
use image::{Slot, Way};
use pane::Counts;
use place::{Lease, Place};
use staging::Staging;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::{EndOnDrop, Watch};

/// Presentations that the adapter may still be at work on when another begins. With fewer it stands still between two
/// while the CPU hears of the end of one and enqueues the next (measured: 205 µs a frame with 2, 130 with 3).
const IN_FLIGHT: usize = 3;

/// An adapter that does not finish a presentation in this time never will.
const PATIENCE: Duration = Duration::from_secs(20);

/// A display in the memory of a graphics adapter. Panes are made on it, shown on from any thread, and drawn side by side
/// at each [`Display::present`].
pub struct Display {
    gpu: Arc<Gpu>,
    compose: Compose,
    places: Vec<Place>,
    /// Tiles that no pane has.
    empty: Vec<Part>,
    target: Option<Target>,
    /// Size of the target and number of panes when it was drawn last; `None`: it must be drawn again.
    drawn: Option<(ImageSize, usize)>,
    split: Option<f32>,
    meter: Meter,
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    readbacks: u64,
    /// Panes of this process that were dismissed.
    dismissed: usize,
    watch: Arc<Watch>,
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
    /// Pictures that a newer one overtook, or the closing, and a worker's that made no sense or that the adapter cannot
    /// draw.
    pub dropped: u64,
    /// Pictures that were taken while the window was minimised or covered.
    pub hidden: u64,
    /// Pictures that went through host memory: those that are there when they are shown, and all on the `host-upload` way.
    pub host_copies: u64,
    /// Who is on it now.
    pub picture: Option<FrameMeta>,
    /// Why nothing follows, once that is known: `ended`, `ended: …` if its producer said why, `killed, or crashed: …` of a
    /// worker process that went without a word.
    pub ended: Option<String>,
}

impl Display {
    /// A display for pictures of `device`: on the graphics adapter that is the same GPU, or on the best one there is.
    /// Needs no screen.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there is no adapter, [`ErrorKind::Device`] if it cannot be opened.
    pub fn offscreen(device: &Device) -> Result<Self> {
        Self::offscreen_on(gpu::uuid_of(device))
    }

    /// As [`Display::offscreen`], on the adapter that is the GPU of this UUID
    /// ([`DeviceInfo`](framelane::framelane_cuda::DeviceInfo)), which need not be opened for it.
    ///
    /// # Errors
    /// As [`Display::offscreen`].
    pub fn offscreen_on(gpu: Option<[u8; 16]>) -> Result<Self> {
        let instance = gpu::instance(None);
        let adapter = gpu::choose_for(&instance, gpu, |_| true)?;
        Self::on(Arc::new(Gpu::open(&adapter)?), None)
    }

    /// A display on this adapter, whose panes tell the window behind `link` of their pictures.
    pub(crate) fn on(gpu: Arc<Gpu>, link: Option<Arc<Link>>) -> Result<Self> {
        Ok(Self {
            compose: Compose::new(&gpu)?,
            gpu,
            empty: Vec::new(),
            places: Vec::new(),
            target: None,
            drawn: None,
            split: None,
            meter: Meter::new(),
            in_flight: VecDeque::new(),
            readbacks: 0,
            dismissed: 0,
            watch: Watch::new(link),
        })
    }

    /// The adapter that draws.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.gpu.adapter
    }

    /// A pane for pictures of `device`, after those there are. The way that they will take is chosen now, and said by
    /// [`TensorPane::path`]. With a name that is taken it is called `name (2)`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for too few slots ([`PaneOptions::slots`]).
    pub fn pane(
        &mut self,
        name: impl Into<Arc<str>>,
        device: &Device,
        options: &PaneOptions,
    ) -> Result<TensorPane> {
        let name = self.called(&name.into());
        let least = match options.policy {
            Policy::Latest => IN_FLIGHT + 2,
            Policy::Fifo => 2,
        };
        if options.slots < least {
            let (slots, policy) = (options.slots, options.policy);
            return Err(Error::new(
                ErrorKind::Argument,
                format!("pane {name:?} has {slots} slots, but under {policy:?} it needs at least {least}"),
            ));
        }
        let way = Arc::new(image::way(&self.gpu, device));
        let path: Arc<str> = match &*way {
            Way::Shared => self.gpu.adapter.reached_by("vulkan-shared"),
            Way::Upload(why) => format!("{}: {why}", self.gpu.adapter.uploaded_to()),
        }
        .into();
        let slots: Arc<[Arc<Slot>]> = (0..options.slots).map(|_| Arc::default()).collect();
        let fixed = ring::Options::fixed(name.clone(), options.policy, options.slots);
        let payloads = slots.clone();
        let (writer, reader) = ring::ring(fixed, move |n| Ok(payloads[n].clone()))?;
        let counts = Arc::<Counts>::default();
        let policy = options.policy;
        self.places.push(Place::new(&self.gpu, name.clone(), path.clone(), policy, reader, counts.clone()));
        Ok(TensorPane {
            writer,
            slots,
            gpu: self.gpu.clone(),
            device: device.clone(),
            name,
            way,
            path,
            counts,
            watch: self.watch.clone(),
            _end: Arc::new(EndOnDrop(self.watch.clone())),
            staging: Arc::new(Staging::new(device)),
        })
    }

    /// The name, with a number if there is another pane of that name.
    fn called(&self, name: &Arc<str>) -> Arc<str> {
        let is_free = |name: &Arc<str>| self.places.iter().all(|place| place.name() != name);
        let numbered = (2..).map(|n| Arc::from(format!("{name} ({n})")));
        [name.clone()].into_iter().chain(numbered).find(is_free).unwrap_or_else(|| name.clone())
    }

    /// Let in the next worker process that knocks at `listener`: waits up to `timeout` for one (zero: not at all). A
    /// worker on the GPU of this display's adapter is given slots in the adapter's memory, others slots in the host's
    /// ([`PaneStatus::path`]). Which number its pane has, as [`Display::attach`] says; `None` if none came.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    #[cfg(unix)]
    pub fn accept(&mut self, listener: &mut Listener, timeout: Duration) -> Result<Option<usize>> {
        let provider = lend::provider(self.gpu.clone());
        Ok(listener.accept_with(timeout, &provider)?.map(|worker| self.attach(worker)))
    }

    /// A pane for the frames of a worker process that was accepted, after those there are; or in the place of a worker of
    /// this name that has ended. Its number among [`Display::panes`]. With a name that is taken it is called `name (2)`.
    ///
    /// A worker that dies leaves its last picture, and [`PaneStatus::ended`] says so at the next presentation.
    #[cfg(unix)]
    pub fn attach(&mut self, worker: Attached) -> usize {
        let again = self.places.iter_mut().position(|place| place.was(worker.name()));
        self.drawn = None;
        match again {
            Some(at) => {
                let name = self.places[at].name().clone();
                self.places[at] = Place::for_worker(&self.gpu, name, worker);
                at
            }
            None => {
                let name = self.called(&worker.name().into());
                self.places.push(Place::for_worker(&self.gpu, name, worker));
                self.places.len() - 1
            }
        }
    }

    /// Take the panes away whose producers have ended, as far as presentations have found so: their last pictures are no
    /// longer drawn, and those after them move up. What they had shown, in the order in which they were made.
    pub fn dismiss_ended(&mut self) -> Vec<PaneStatus> {
        let ended: Vec<_> = self.places.extract_if(.., |place| place.has_ended()).collect();
        self.dismissed += ended.iter().filter(|place| place.is_ended_pane()).count();
        if !ended.is_empty() {
            self.drawn = None;
        }
        ended.iter().map(Place::status).collect()
    }

    /// Draw the newest complete picture of each pane (under `Fifo` the next one), side by side, into a target of `size`.
    /// How many of them are new; if none is and the target is as before, nothing is done.
    ///
    /// Waits for the adapter only if three presentations before are still being drawn. Nothing of the producers is waited
    /// for: what is not complete yet is for the next time.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for more pixels a side than the adapter takes; [`ErrorKind::Device`] if it fails; an
    /// error of a producer's stream.
    pub fn present(&mut self, size: ImageSize) -> Result<usize> {
        // First, so that what is taken then is the newest.
        self.make_room()?;
        self.refresh(true)?;
        self.draw(size)
    }

    /// Wait until fewer presentations are being drawn than may be.
    pub(crate) fn make_room(&mut self) -> Result<()> {
        while self.in_flight.len() >= IN_FLIGHT
            && let Some(oldest) = self.in_flight.pop_front()
        {
            self.wait(oldest)?;
        }
        Ok(())
    }

    /// Take the next complete picture of each pane; `visible`: of those whose last one was drawn, if each shall be.
    pub(crate) fn refresh(&mut self, visible: bool) -> Result<()> {
        self.places.iter_mut().try_for_each(|place| place.refresh(&self.gpu, visible))
    }

    /// See which workers are still there, and answer what they ask; nothing is taken.
    pub(crate) fn tend(&mut self) {
        self.places.iter_mut().for_each(Place::tend);
    }

    /// Draw what was taken, if anything is new. How many pictures are.
    pub(crate) fn draw(&mut self, size: ImageSize) -> Result<usize> {
        let layout = (size, self.places.len());
        let fresh = self.places.iter().filter(|place| place.has_unseen()).count();
        if fresh == 0 && self.drawn == Some(layout) {
            self.poll()?;
            return Ok(0);
        }
        if self.target.as_ref().is_none_or(|target| target.size != size) {
            self.target = Some(Target::new(&self.gpu, size)?);
            self.places.iter_mut().for_each(Place::unbind);
            self.empty.iter_mut().for_each(Part::unbind);
        }
        let Some(target) = &self.target else { return Ok(0) };
        let tiles = tiles::all(self.places.len(), target.extent.width, target.extent.height);
        self.empty.resize_with(tiles.len() - self.places.len(), || Part::new(&self.gpu));
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        let mut tiles = tiles.into_iter();
        for (place, tile) in self.places.iter_mut().zip(&mut tiles) {
            place.draw(&self.gpu, &self.compose, &mut pass, target, tile, self.split);
        }
        for (part, tile) in self.empty.iter_mut().zip(tiles) {
            self.compose.draw(&self.gpu, &mut pass, part, target, tile, None);
        }
        drop(pass);
        let submission = self.submit(encoder);
        self.in_flight.push_back(submission);
        self.drawn = Some(layout);
        let now = Instant::now();
        self.places.iter_mut().for_each(|place| place.drawn(now, &mut self.meter));
        self.poll()?;
        Ok(fresh)
    }

    /// What the submission reads keeps its slot until it is done, even if another picture takes its place.
    fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        let submission = self.gpu.queue.submit([encoder.finish()]);
        let read: Vec<Arc<Lease>> = self.places.iter().filter_map(Place::lease).collect();
        if !read.is_empty() {
            self.gpu.queue.on_submitted_work_done(move || drop(read));
        }
        submission
    }

    /// Let go what the adapter is done with. [`Display::present`] does so, too.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the adapter fails.
    pub fn poll(&self) -> Result<()> {
        self.polled(wgpu::PollType::Poll)
    }

    /// Wait until all that was presented is drawn.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the adapter fails, or does not finish within 20 seconds.
    pub fn synchronize(&mut self) -> Result<()> {
        while let Some(oldest) = self.in_flight.pop_front() {
            self.wait(oldest)?;
        }
        Ok(())
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

    /// Where the divider is between pictures and those before them ([`Picture::before`]): at this share of each picture's
    /// width. `None`, as at first: there is none.
    pub fn set_split(&mut self, split: Option<f32>) {
        if self.split != split {
            self.split = split;
            self.drawn = None;
        }
    }

    /// How the picture of pane `pane` (its number among [`Display::panes`]) lies in its tile.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if there is no such pane.
    pub fn set_zoom(&mut self, pane: usize, zoom: Zoom) -> Result<()> {
        let panes = self.places.len();
        let place = self.places.get_mut(pane).ok_or_else(|| no_pane(pane, panes))?;
        if place.zoom != zoom {
            place.zoom = zoom;
            self.drawn = None;
        }
        Ok(())
    }

    /// Read back what was presented last: u8, height × width × 3, sRGB. `None` before the first presentation. Waits for
    /// the adapter; counted ([`Display::readbacks`]).
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the adapter fails.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(target) = &self.target else { return Ok(None) };
        self.readbacks += 1;
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let readback = Readback::begin(&self.gpu, &mut encoder, &target.texture, target.size);
        self.gpu.queue.submit([encoder.finish()]);
        readback.finish(&self.gpu).map(Some)
    }

    /// Read back the picture of pane `pane` alone, at its own size, with the divider if it is on: u8, height × width × 3,
    /// sRGB. `None` if there is none yet. Waits for the adapter; counted.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if there is no such pane; [`ErrorKind::Device`] if the adapter fails.
    pub fn read_pane(&mut self, pane: usize) -> Result<Option<(Vec<u8>, ImageSize)>> {
        let place = self.places.get(pane).ok_or_else(|| no_pane(pane, self.places.len()))?;
        let Some((size, _)) = place.sizes() else { return Ok(None) };
        self.readbacks += 1;
        let target = Target::new(&self.gpu, size)?;
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        place.draw_alone(&self.gpu, &self.compose, &mut pass, &target, self.split);
        drop(pass);
        let readback = Readback::begin(&self.gpu, &mut encoder, &target.texture, size);
        self.submit(encoder);
        readback.finish(&self.gpu).map(|rgb| Some((rgb, size)))
    }

    /// Read back one pixel of pane `pane`'s picture as it is shown: red, green, blue. `None` outside of the picture. Waits
    /// for the adapter; counted.
    ///
    /// # Errors
    /// As [`Display::read_pane`].
    pub fn read_pixel(&mut self, pane: usize, x: usize, y: usize) -> Result<Option<[u8; 3]>> {
        self.read_pixel_of(pane, false, x, y)
    }

    /// As [`Display::read_pixel`], of the picture or of the one `before` it.
    pub(crate) fn read_pixel_of(
        &mut self,
        pane: usize,
        before: bool,
        x: usize,
        y: usize,
    ) -> Result<Option<[u8; 3]>> {
        let place = self.places.get(pane).ok_or_else(|| no_pane(pane, self.places.len()))?;
        let Some((pixels, at)) = place.pixel(before, x, y) else { return Ok(None) };
        self.readbacks += 1;
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let staging = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("pixel"),
            size: 4,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        encoder.copy_buffer_to_buffer(pixels, at as u64, &staging, 0, 4);
        self.submit(encoder);
        read(&self.gpu, &staging, |bytes| Some([*bytes.first()?, *bytes.get(1)?, *bytes.get(2)?]))
    }

    /// How often something was read back into host memory.
    pub fn readbacks(&self) -> u64 {
        self.readbacks
    }

    /// How old pictures were when they were handed to the adapter; `None` before the first.
    pub fn ages(&self) -> Option<Ages> {
        self.meter.ages()
    }

    /// What each pane showed so far, in the order in which they were made.
    pub fn panes(&self) -> Vec<PaneStatus> {
        self.places.iter().map(Place::status).collect()
    }
}

/// What a window asks.
impl Display {
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// What was drawn last.
    pub(crate) fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// Whether pictures may be there, or come, of which nobody tells.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        // An end is seen only by whoever asks after the last picture.
        let seen = self.places.iter().filter(|place| place.is_ended_pane()).count();
        self.watch.ended() > seen + self.dismissed || self.places.iter().any(Place::is_to_be_asked)
    }

    /// Whether there are pictures that were not drawn yet.
    pub(crate) fn has_unseen(&self) -> bool {
        self.places.iter().any(Place::has_unseen)
    }

    /// Whether all of the producers that there were have ended.
    pub(crate) fn has_ended(&self) -> bool {
        !self.places.is_empty() && self.places.iter().all(Place::has_ended)
    }

    /// How many of the producers have ended, as far as was seen.
    pub(crate) fn ended(&self) -> usize {
        self.places.iter().filter(|place| place.has_ended()).count()
    }

    pub(crate) fn is_fifo(&self) -> bool {
        !self.places.is_empty() && self.places.iter().all(Place::is_fifo)
    }

    /// The tiles of the panes in a target of so many pixels.
    pub(crate) fn tiles(&self, width: u32, height: u32) -> impl Iterator<Item = (usize, Rect)> + use<> {
        let panes = self.places.len();
        tiles::all(panes, width, height).into_iter().take(panes).enumerate()
    }

    pub(crate) fn zoom(&self, pane: usize) -> Zoom {
        self.places.get(pane).map_or(Zoom::Fit, |place| place.zoom)
    }

    pub(crate) fn placed(&self, pane: usize, tile: Rect) -> Option<Placed> {
        self.places.get(pane)?.placed(tile)
    }

    /// Of the picture, and of the one before it.
    pub(crate) fn sizes(&self, pane: usize) -> Option<(ImageSize, Option<ImageSize>)> {
        self.places.get(pane)?.sizes()
    }

    pub(crate) fn meta(&self, pane: usize) -> Option<&FrameMeta> {
        self.places.get(pane)?.meta()
    }

    /// How many of its pictures were drawn.
    pub(crate) fn presented(&self, pane: usize) -> u64 {
        self.places.get(pane).map_or(0, Place::presented)
    }

    pub(crate) fn rate(&mut self, pane: usize, now: Instant) -> Rate {
        self.places.get_mut(pane).map_or_else(Rate::default, |place| place.meter.rate(now))
    }

    /// Producers are told that nobody looks any more. What the adapter still reads stays until it is done.
    /// `visible`: what was taken last would have been seen.
    pub(crate) fn close(&mut self, visible: bool) {
        self.watch.close();
        self.places.iter_mut().for_each(|place| place.cancel(visible));
    }
}

fn no_pane(pane: usize, panes: usize) -> Error {
    Error::new(ErrorKind::Argument, format!("there is no pane {pane} on a display of {panes}"))
}

impl Drop for Display {
    fn drop(&mut self) {
        self.close(true);
    }
}

impl fmt::Debug for Display {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Display").field("adapter", &self.gpu.adapter).field("panes", &self.panes()).finish()
    }
}
