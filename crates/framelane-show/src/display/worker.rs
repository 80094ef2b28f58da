//! The worker process's side: tensors shown on the display of another process.

use super::image::pitch;
use super::pane::check_device;
use super::picture::{How, Picture};
use super::staging::Staging;
use super::watch::Seen;
use crate::interop;
use framelane::device::{Access, Buffer, Device, Stream};
use framelane::frame::FrameMeta;
use framelane::framelane_cuda::{DeviceBuffer, Place};
use framelane::share::{Begun, Fate, SharedMemory, Shown, Worker, WorkerCounts, WorkerOptions, WorkerSlot};
use framelane::{Error, ErrorKind, Result};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A pane of a display in another process ([`Display::accept`](crate::Display::accept)), for the pictures of one producer.
/// Dropping it ends it: the last picture stays.
///
/// On CUDA the display's own memory is mapped here, if both are on one GPU: a picture is one kernel on its producer's
/// stream, which then tells the display by a number that the GPU writes. Where that cannot be, the same kernel writes
/// memory that both processes map, and the display uploads it; [`WorkerPane::path`] says which way it is and why.
///
/// ```no_run
/// use framelane::device::{Device, Memory};
/// use framelane::frame::{FrameMeta, ImageSize};
/// use framelane::share::{Shown, WorkerOptions};
/// use framelane::tensor::{DType, TensorSpec};
/// use framelane::TensorView;
/// use framelane_show::{Picture, WorkerPane};
///
/// # fn main() -> framelane::Result<()> {
/// let device = Device::cuda(0)?;
/// let size = ImageSize::new(1920, 1080)?;
/// let mut pane = WorkerPane::attach("wall", "camera 0", &device, WorkerOptions::for_device(size))?;
/// println!("{}", pane.path());
/// let stream = device.stream("camera 0")?;
/// let spec = TensorSpec::new(DType::F32, [3, size.height, size.width]);
/// let tensor = device.alloc(spec.bytes(), Memory::Device)?;
/// for index in 0.. {
///     // … work on `stream` that writes the tensor …
///     let picture = Picture::new(TensorView::new(&tensor, 0, &spec)?);
///     if pane.show(&stream, &picture, &FrameMeta::new("camera 0", index))? == Shown::Closed {
///         break;
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct WorkerPane {
    worker: Worker,
    name: Arc<str>,
    device: Device,
    /// The way that pictures take, if it is not as the window says: its display's memory could not be opened.
    other_way: Option<String>,
    /// The worker's memory as the device sees it. For CUDA.
    mapped: Option<Mapped>,
    /// What the host device's kernels write before it is copied to where another process may write, too.
    rgba: Arc<Mutex<Vec<u8>>>,
    /// Where the last picture was made: the next one comes after it.
    last: Option<Stream>,
    host_copies: u64,
    staging: Staging,
}

type Then = Box<dyn FnOnce(Seen, Duration) + Send>;

/// A window's memory, reached by a GPU.
struct Mapped {
    memory: Arc<SharedMemory>,
    page: DeviceBuffer,
    slots: Vec<DeviceBuffer>,
}

/// What went wrong, and whether something was enqueued that may still write the slot.
struct Failed {
    error: Error,
    begun: bool,
}

impl WorkerPane {
    /// Fewest slots for a CUDA device: the display keeps the picture that is seen, and one for each presentation that the
    /// adapter is still at work on.
    const LEAST_ON_CUDA: usize = super::IN_FLIGHT + 2;

    /// Attach to the display that listens by the name `window`, as its pane `name`, for pictures of `device`. The way that
    /// they will take is chosen now.
    ///
    /// Waits for the window's answer, at most [`WorkerOptions::patience`]; on CUDA also for the driver, which maps the
    /// slots. ([`WorkerOptions::device`] is filled in here.) A worker may attach again at any time.
    ///
    /// # Errors
    /// As [`Worker::attach`]; [`ErrorKind::Argument`] for too few slots ([`WorkerOptions::for_device`]); of the driver, if
    /// its streams reach no memory of the host that two processes map.
    pub fn attach(window: &str, name: &str, device: &Device, options: WorkerOptions) -> Result<Self> {
        let cuda = device.cuda_context().map(|cuda| cuda.info().uuid);
        if cuda.is_some() && options.slots < Self::LEAST_ON_CUDA {
            let (slots, least) = (options.slots, Self::LEAST_ON_CUDA);
            let text = format!("pane {name:?} has {slots} slots, but on a GPU it needs at least {least}");
            return Err(Error::new(ErrorKind::Argument, text));
        }
        let attach = |uuid| Worker::attach(window, name, WorkerOptions { device: uuid, ..options.clone() });
        let mut worker = attach(cuda)?;
        let mut mapped = Mapped::if_cuda(device, &mut worker);
        let mut other_way = None;
        if let Err(why) = &mapped
            && worker.memory().host_slots().is_none()
        {
            // Once more, for memory of the host; the window then finds that this one has ended.
            drop(worker);
            worker = attach(None)?;
            other_way = Some(format!("{}, and not its display memory: {why}", worker.way()));
            mapped = Mapped::if_cuda(device, &mut worker);
        }
        let mapped = mapped?;
        let (name, device) = (name.into(), device.clone());
        let staging = Staging::new(&device);
        let rgba = Arc::default();
        Ok(Self { worker, name, device, other_way, mapped, rgba, last: None, host_copies: 0, staging })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The way that pictures take, in one line, and why it is not a better one: `vulkan-shared (NVIDIA H200, Vulkan)`,
    /// `shared-memory, then host-upload (llvmpipe, Vulkan): pictures are made by another process`.
    pub fn path(&self) -> &str {
        self.other_way.as_deref().unwrap_or(self.worker.way())
    }

    /// Pictures that went through memory of the host: on the way `vulkan-shared` those that are there when they are shown.
    pub fn host_copies(&self) -> u64 {
        self.host_copies
    }

    /// What was counted so far.
    pub fn counts(&self) -> WorkerCounts {
        self.worker.counts()
    }

    /// Whether the display's process is still there. Never waits.
    ///
    /// # Errors
    /// As [`Worker::is_open`].
    pub fn is_open(&mut self) -> Result<bool> {
        self.worker.is_open()
    }

    /// Whether the display's process is gone without having said so: it was killed, or crashed.
    pub fn is_lost(&self) -> bool {
        self.worker.is_lost()
    }

    /// Wait until it is known what became of each picture, at most for `limit`: of how many it is not. A window that is paused
    /// takes none.
    ///
    /// # Errors
    /// As [`Worker::settle`].
    pub fn settle(&mut self, limit: Duration) -> Result<usize> {
        self.worker.settle(limit)
    }

    /// End the pane, as dropping it does, and let the display say why.
    pub fn end(self, why: &str) {
        self.worker.end(why);
    }

    /// Show a picture: one kernel on `stream` writes it into a slot of the display, after what was enqueued there
    /// before. The tensor may be written again, or let go, by work that is enqueued on `stream` from then on.
    ///
    /// The call waits for nothing; for pictures larger than before it waits for the window, at most
    /// [`WorkerOptions::patience`], and for the driver. A display that is gone is told by [`Shown::Closed`], now and ever
    /// after. Pictures that overtake each other on the way ([`Shown::Replaced`]) are never seen, but the last always is.
    ///
    /// On another stream than the last picture's, the stream is made to wait for what the last one's holds.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for a tensor that is no picture, or of another device than the pane's or the stream's; an
    /// earlier failure of the stream; as [`Worker::show`] where slots must grow. The pane goes on; only a slot that
    /// something may still be writing when its end could not be enqueued is not used again.
    pub fn show(&mut self, stream: &Stream, picture: &Picture<'_>, meta: &FrameMeta) -> Result<Shown> {
        self.place(stream, picture, meta, None)
    }

    /// As [`WorkerPane::show`], and `then` is told what became of the picture, and how old it was when that happened: exactly
    /// once, unless this call is an error, by this or a later call of the pane's, or when it is dropped. It must not wait.
    ///
    /// # Errors
    /// As [`WorkerPane::show`].
    pub fn show_then(
        &mut self,
        stream: &Stream,
        picture: &Picture<'_>,
        meta: &FrameMeta,
        then: impl FnOnce(Seen, Duration) + Send + 'static,
    ) -> Result<Shown> {
        self.place(stream, picture, meta, Some(Box::new(then)))
    }

    fn place(
        &mut self,
        stream: &Stream,
        picture: &Picture<'_>,
        meta: &FrameMeta,
        then: Option<Then>,
    ) -> Result<Shown> {
        check_device(&self.name, &self.device, stream).map_err(|e| e.context(meta))?;
        let (size, how) = picture.plan(pitch).map_err(|e| e.context(meta))?;
        let slot = match self.worker.begin(size, meta)? {
            Begun::Slot(slot) => slot,
            Begun::Dropped => {
                then.into_iter().for_each(|then| then(Seen::Refused, meta.captured.elapsed()));
                return Ok(Shown::Dropped);
            }
            Begun::Closed => {
                then.into_iter().for_each(|then| then(Seen::Closed, meta.captured.elapsed()));
                return Ok(Shown::Closed);
            }
        };
        match self.fill(stream, picture, &how, &slot) {
            Ok(from_host) => {
                self.host_copies += u64::from(from_host || slot.memory().host_slots().is_some());
                Ok(match then {
                    Some(then) => self.worker.hand_over_then(slot, |fate, age| then(seen(fate), age)),
                    None => self.worker.hand_over(slot),
                })
            }
            Err(Failed { error, begun }) => {
                if !begun {
                    self.worker.abandon(slot);
                }
                Err(error.context(meta))
            }
        }
    }

    /// Enqueue the picture into the slot, and then the news of it. Whether it came from the host.
    fn fill(
        &mut self,
        stream: &Stream,
        picture: &Picture<'_>,
        how: &How,
        slot: &WorkerSlot,
    ) -> std::result::Result<bool, Failed> {
        let nothing = |error| Failed { error, begun: false };
        self.map().map_err(nothing)?;
        self.come_after(stream).map_err(nothing)?;
        let how = *how;
        let Some(Mapped { page, slots, .. }) = &self.mapped else {
            let (rgba, slot) = (self.rgba.clone(), slot.clone());
            let show = |(from, range): (&Buffer, Range<usize>)| {
                stream.launch("show", &[Access::read(from, range)], move |kernel| {
                    let mut rgba = rgba.lock().unwrap_or_else(PoisonError::into_inner);
                    let bytes = how.bytes();
                    if rgba.len() < bytes {
                        rgba.resize(bytes, 0);
                    }
                    how.on_host(kernel.inputs[0], &mut rgba[..bytes])?;
                    slot.write(&rgba[..bytes]);
                    slot.raise();
                    Ok(())
                })
            };
            return self.staging.with(stream, picture.source(), show).map(|((), host)| host).map_err(nothing);
        };
        let (to, done_at, number) =
            (&slots[slot.index()], slot.memory().done_at(slot.index()), slot.number());
        let mut begun = false;
        let show = |(from, range): (&Buffer, Range<usize>)| {
            stream.launch_on_cuda("show", &[Access::read(from, range)], |stream, places| {
                let [(Place::Device(from), at)] = places else {
                    unreachable!("what is not device memory was staged")
                };
                how.on_cuda(stream, from, at.start, to, 0)?;
                begun = true;
                stream.write_value(page, done_at, number)
            })
        };
        let shown = self.staging.with(stream, picture.source(), show);
        shown.map(|((), from_host)| from_host).map_err(|error| Failed { error, begun })
    }

    /// What pictures of this pane on other streams wrote is written before.
    fn come_after(&mut self, stream: &Stream) -> Result<()> {
        if let Some(last) = self.last.as_ref().filter(|last| !last.same(stream)) {
            stream.wait(&last.record_anyway())?;
        }
        if !self.last.as_ref().is_some_and(|last| last.same(stream)) {
            self.last = Some(stream.clone());
        }
        Ok(())
    }

    /// See that the device reaches the memory that the window gave last.
    fn map(&mut self) -> Result<()> {
        let memory = self.worker.memory();
        if self.mapped.as_ref().is_some_and(|mapped| !Arc::ptr_eq(&mapped.memory, memory)) {
            // Before there is a new one. Work that uses the old one goes on, and is not waited for.
            self.mapped = None;
        }
        if self.mapped.is_none() {
            self.mapped = Mapped::if_cuda(&self.device, &mut self.worker)?;
        }
        Ok(())
    }
}

fn seen(fate: Fate) -> Seen {
    match fate {
        Fate::Drawn => Seen::Presented,
        Fate::Overtaken => Seen::Overtaken,
        Fate::Hidden => Seen::Hidden,
        Fate::Refused => Seen::Refused,
        Fate::Closed => Seen::Closed,
        Fate::Left => Seen::Left,
    }
}

impl Mapped {
    /// What the window gave `worker`, if `device` is CUDA.
    fn if_cuda(device: &Device, worker: &mut Worker) -> Result<Option<Self>> {
        let Some(cuda) = device.cuda_context() else { return Ok(None) };
        let memory = worker.memory().clone();
        let slots = match (worker.take_device_slots(), memory.host_slots()) {
            (Some(device), _) => interop::open_slots(cuda, device, memory.slot_bytes())?,
            (None, Some(host)) => host
                .iter()
                .map(|slot| DeviceBuffer::over_mapped(cuda, slot.clone()))
                .collect::<framelane::framelane_cuda::Result<_>>()?,
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::Device,
                    "the window's memory could not be opened for CUDA before: attach again",
                ));
            }
        };
        let page = DeviceBuffer::over_mapped(cuda, memory.page().clone())?;
        // Whether streams of this device can write values there is found out now and not behind the first picture. The
        // page's first word is nobody's.
        framelane::framelane_cuda::Stream::new(cuda, 0)?.write_value(&page, 0, 0)?;
        Ok(Some(Self { memory, page, slots }))
    }
}

impl fmt::Debug for WorkerPane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerPane({:?}, {})", self.name, self.path())
    }
}
