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

mod compose;
mod image;
mod pane;
pub(crate) mod picture;
mod place;
pub(crate) mod staging;
mod tiles;

pub use pane::{PaneOptions, TensorPane};
pub use picture::{Colours, Layout, Matrix, Picture};

use crate::gpu::{self, AdapterInfo, Gpu};
use crate::offscreen::Readback;
use crate::upload;
use compose::{Compose, Part, Target};
use framelane::device::Device;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::{self, Policy};
#[cfg(unix)]
use framelane::share::Attached;
use framelane::{Error, ErrorKind, Result};
use image::{Slot, Way};
use pane::Counts;
use place::{Lease, Place};
use staging::Staging;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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
    /// Size of the target and number of panes when it was drawn last.
    drawn: Option<(ImageSize, usize)>,
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    readbacks: u64,
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
    /// Pictures that a newer one overtook, and a worker's that made no sense or that the adapter cannot draw.
    pub dropped: u64,
    /// Pictures that went through host memory: those that are there when they are shown, and all on the `host-upload` way
    /// and of worker processes.
    pub host_copies: u64,
    /// Who is on it now.
    pub picture: Option<FrameMeta>,
    /// Why nothing follows, once that is known: its producer has ended, or the worker process has.
    pub ended: Option<String>,
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
        let gpu = Arc::new(Gpu::open(&adapter)?);
        Ok(Self {
            compose: Compose::new(&gpu)?,
            gpu,
            empty: Vec::new(),
            places: Vec::new(),
            target: None,
            drawn: None,
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
    /// [`ErrorKind::Argument`] for too few slots ([`PaneOptions::slots`]).
    pub fn pane(
        &mut self,
        name: impl Into<Arc<str>>,
        device: &Device,
        options: &PaneOptions,
    ) -> Result<TensorPane> {
        let name = name.into();
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
            Way::Upload(why) => format!("{}: {why}", upload::path(&self.gpu.adapter)),
        }
        .into();
        let slots: Arc<[Arc<Slot>]> = (0..options.slots).map(|_| Arc::default()).collect();
        let fixed = ring::Options::fixed(name.clone(), options.policy, options.slots);
        let payloads = slots.clone();
        let (writer, reader) = ring::ring(fixed, move |n| Ok(payloads[n].clone()))?;
        let counts = Arc::<Counts>::default();
        let place = Place::new(&self.gpu, name.clone(), path.clone(), reader, counts.clone());
        self.places.push(place);
        Ok(TensorPane {
            writer,
            slots,
            gpu: self.gpu.clone(),
            device: device.clone(),
            name,
            way,
            path,
            counts,
            staging: Arc::new(Staging::new(device)),
        })
    }

    /// A pane for the frames of a worker process, which a [`framelane::share::Listener`] has accepted, after those there
    /// are; or in the place of a worker of this name that has ended. Its number among [`Display::panes`].
    ///
    /// A worker that dies leaves its last picture, and [`PaneStatus::ended`] says so at the next presentation.
    #[cfg(unix)]
    pub fn attach(&mut self, worker: Attached) -> usize {
        let again = self.places.iter().position(|place| place.was(worker.name()));
        let place = Place::for_worker(&self.gpu, worker);
        match again {
            Some(at) => {
                self.places[at] = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        }
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
        while self.in_flight.len() >= IN_FLIGHT
            && let Some(oldest) = self.in_flight.pop_front()
        {
            self.wait(oldest)?;
        }
        let layout = (size, self.places.len());
        let mut fresh = 0;
        for place in &mut self.places {
            fresh += usize::from(place.refresh(&self.gpu)?);
        }
        if fresh == 0 && self.drawn == Some(layout) {
            self.poll()?;
            return Ok(0);
        }
        if self.target.as_ref().is_none_or(|target| target.size != size) {
            self.target = Some(Target::new(&self.gpu, size)?);
            let places = self.places.iter_mut().map(|place| &mut place.part);
            places.chain(&mut self.empty).for_each(Part::unbind);
        }
        let Some(target) = &self.target else { return Ok(0) };
        let tiles = tiles::all(self.places.len(), target.extent.width, target.extent.height);
        self.empty.resize_with(tiles.len() - self.places.len(), || Part::new(&self.gpu));
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        let mut tiles = tiles.into_iter();
        for (place, tile) in self.places.iter_mut().zip(&mut tiles) {
            place.draw(&self.gpu, &self.compose, &mut pass, target, tile);
        }
        for (part, tile) in self.empty.iter_mut().zip(tiles) {
            self.compose.draw(&self.gpu, &mut pass, part, target, tile, None);
        }
        drop(pass);
        let submission = self.gpu.queue.submit([encoder.finish()]);
        // What the submission reads keeps its slot until it is done, even if another picture takes its place.
        let read: Vec<Arc<Lease>> = self.places.iter().filter_map(Place::lease).collect();
        if !read.is_empty() {
            self.gpu.queue.on_submitted_work_done(move || drop(read));
        }
        self.in_flight.push_back(submission);
        self.drawn = Some(layout);
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
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let readback = Readback::begin(&self.gpu, &mut encoder, &target.texture, target.size);
        self.gpu.queue.submit([encoder.finish()]);
        readback.finish(&self.gpu).map(Some)
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

impl Drop for Display {
    /// Producers are told that nobody looks any more. What the adapter still reads stays until it is done.
    fn drop(&mut self) {
        for place in &self.places {
            place.cancel();
        }
    }
}

impl fmt::Debug for Display {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Display").field("adapter", &self.gpu.adapter).field("panes", &self.panes()).finish()
    }
}
