//! Streams: queues of work that runs in order, later than the call that enqueued it.

use super::event::Event;
use super::kernel::{Access, Kernel, Work};
use super::{Buffer, Device, hazard, host, sim};
use crate::error::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A queue of work on a device; clones are the same stream. Any thread may enqueue.
///
/// No call here waits for work. Work that failed (a kernel that returned an error or panicked) does not
/// stop the stream: the first failure is kept and returned, once, by the next call on the stream. Later work and
/// events run as if nothing had happened, over whatever bytes the failed work left; on streams that wait for such an
/// event, too. Who must know whether all is well before the result is used asks [`Stream::synchronize`].
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    name: Arc<str>,
    device: Device,
    queue: Queue,
    failed: Failure,
}

enum Queue {
    Host(host::Queue),
    Simulated(sim::QueueId),
    Cuda(framelane_cuda::Stream),
}

/// Where a stream's first failure waits to be told.
pub(super) type Failure = Arc<Mutex<Option<Error>>>;

/// One entry of a stream's queue.
pub(super) enum Op {
    Work(Work, Failure),
    Record(Event),
    Wait(Event),
    /// Simulated device: spoil bytes that the next work will write.
    Poison(Vec<(Buffer, Range<usize>)>),
}

thread_local! {
    static ON_DEVICE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is running a stream's work: it plays the device now, and must not wait for it.
pub(super) fn on_device() -> bool {
    ON_DEVICE.get()
}

impl Op {
    pub fn run(self) {
        let outer = ON_DEVICE.replace(true);
        self.run_here();
        ON_DEVICE.set(outer);
    }

    /// Whether running it now would block. For the simulated device, which has but one thread.
    pub fn can_run(&self) -> bool {
        match self {
            Op::Work(work, _) => work.is_free(),
            Op::Record(_) => true,
            Op::Wait(event) => event.is_reached(),
            Op::Poison(regions) => regions.iter().all(|(buffer, _)| buffer.is_free(true)),
        }
    }

    fn run_here(self) {
        match self {
            Op::Work(work, failed) => {
                if let Err(error) = work.run() {
                    log::debug!("work on a stream failed: {error}");
                    failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                }
            }
            Op::Record(event) => event.reach(),
            Op::Wait(event) => event.block(),
            Op::Poison(regions) => {
                for (buffer, range) in regions {
                    bytemuck::cast_slice_mut(buffer.host().write().as_mut_slice())[range].fill(sim::POISON);
                }
            }
        }
    }
}

impl Stream {
    pub(super) fn new(device: &Device, name: Arc<str>) -> Result<Self> {
        let queue = match (device.scheduler(), device.cuda_context()) {
            (Some(s), _) => Queue::Simulated(s.add_queue()),
            (_, Some(context)) => Queue::Cuda(framelane_cuda::Stream::new(context, 0)?),
            (None, None) => Queue::Host(host::Queue::start(&name)?),
        };
        Ok(Self::with(device, name, queue))
    }

    pub(super) fn over_cuda(device: &Device, name: Arc<str>, stream: framelane_cuda::Stream) -> Self {
        Self::with(device, name, Queue::Cuda(stream))
    }

    fn with(device: &Device, name: Arc<str>, queue: Queue) -> Self {
        device.inner.tally.stream_made();
        let inner =
            Inner { id: device.fresh_id(), name, device: device.clone(), queue, failed: Failure::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The driver's stream, on CUDA.
    pub fn cuda(&self) -> Option<&framelane_cuda::Stream> {
        match &self.inner.queue {
            Queue::Cuda(stream) => Some(stream),
            Queue::Host(_) | Queue::Simulated(_) => None,
        }
    }

    /// Its name, as given.
    pub fn name(&self) -> &Arc<str> {
        &self.inner.name
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Whether both are handles of one stream.
    pub fn same(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Enqueue work that runs `body` over the bytes in `accesses`, on a host device.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on CUDA, which has [`Stream::launch_on_cuda`]. [`ErrorKind::Argument`] for accesses
    /// that make no sense, [`ErrorKind::Hazard`] if the check is on and they are not ordered after earlier work; or
    /// an earlier failure of this stream. Nothing was enqueued.
    pub fn launch(
        &self,
        name: impl Into<Arc<str>>,
        accesses: &[Access<'_>],
        body: impl FnOnce(&mut Kernel<'_>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.enqueue_work(name.into(), accesses, Box::new(body))?;
        self.count_kernel();
        Ok(())
    }

    pub(super) fn count_kernel(&self) {
        self.inner.device.inner.tally.kernels.fetch_add(1, Relaxed);
    }

    /// Enqueue a copy of `from_range` of `from` to the same number of bytes of `to`, starting at `to_start`.
    /// Counted by direction ([`super::Counters`]).
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn copy(&self, from: &Buffer, from_range: Range<usize>, to: &Buffer, to_start: usize) -> Result<()> {
        let bytes = from_range.len();
        let accesses =
            [Access::read(from, from_range), Access::write(to, to_start..to_start.saturating_add(bytes))];
        match (&self.inner.queue, from.cuda(), to.cuda()) {
            (Queue::Cuda(stream), Some(source), Some(target)) => {
                self.check(&"copy".into(), &accesses)?;
                stream.copy(source, accesses[0].range.clone(), target, to_start)?;
            }
            // Memory of another device is refused within.
            _ => self.enqueue_work(
                "copy".into(),
                &accesses,
                Box::new(|k| {
                    k.outputs[0].copy_from_slice(k.inputs[0]);
                    Ok(())
                }),
            )?,
        }
        self.inner.device.inner.tally.copied(from.memory(), to.memory(), bytes);
        Ok(())
    }

    /// A fresh event, reached when all work enqueued so far is done.
    ///
    /// # Errors
    /// An earlier failure of this stream.
    pub fn record(&self) -> Result<Event> {
        self.begin()?;
        self.record_anyway().recorded()
    }

    /// As [`Stream::record`], for [`Event::since`]: on CUDA a time costs the GPU a little, and only events
    /// recorded so have one. (A CPU thread that waits for it sleeps instead of spinning.)
    ///
    /// # Errors
    /// As [`Stream::record`].
    pub fn record_timed(&self) -> Result<Event> {
        self.begin()?;
        self.record_timed_anyway().recorded()
    }

    /// As [`Stream::record`], leaving an earlier failure for the next call: for destructors and after an error, where
    /// nobody is to be told another. If it cannot be recorded it is never reached.
    pub fn record_anyway(&self) -> Event {
        self.record_with(framelane_cuda::EventOptions::default())
    }

    /// [`Stream::record_timed`] and [`Stream::record_anyway`] in one.
    pub(crate) fn record_timed_anyway(&self) -> Event {
        self.record_with(framelane_cuda::EventOptions { timed: true, sleeping: true })
    }

    fn record_with(&self, options: framelane_cuda::EventOptions) -> Event {
        let (device, name) = (&self.inner.device, &self.inner.name);
        let clock = device.inner.checker.as_ref().map(|c| c.stream_clock(self.inner.id));
        if let Queue::Cuda(stream) = &self.inner.queue {
            let event = stream.record_with(options).map_err(Error::from);
            return Event::over_cuda(device, name, event, clock);
        }
        let event = Event::new(device, name, clock);
        self.push([Op::Record(event.clone())]);
        event
    }

    /// Work enqueued from now on waits until `event` is reached. The calling thread does not.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if the event is another device's; an earlier failure of this stream.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.begin()?;
        if !event.device().same(&self.inner.device) {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("stream {:?} cannot wait for an event of another device", self.inner.name),
            ));
        }
        let signal = event.cuda()?;
        if let (Some(checker), Some(clock)) = (&self.inner.device.inner.checker, event.clock()) {
            checker.stream_waits(self.inner.id, clock);
        }
        match (&self.inner.queue, signal) {
            (Queue::Cuda(stream), Some(event)) => stream.wait(event)?,
            _ => self.push([Op::Wait(event.clone())]),
        }
        Ok(())
    }

    /// Wait on the CPU until all work enqueued so far is done, failed or not; counted under `why`.
    ///
    /// # Errors
    /// The first failure of that work, if it was not told yet.
    pub fn synchronize(&self, why: &'static str) -> Result<()> {
        self.record_anyway().synchronize(why)?;
        self.begin()
    }

    /// Refuse memory of other devices, and what the hazard check finds.
    pub(super) fn check(&self, name: &Arc<str>, accesses: &[Access<'_>]) -> Result<()> {
        self.begin()?;
        let device = &self.inner.device;
        if let Some(foreign) = accesses.iter().find(|a| !a.buffer.device().same(device)) {
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "kernel {name:?} on stream {:?} cannot use {:?} of another device",
                    self.inner.name, foreign.buffer
                ),
            ));
        }
        for access in accesses {
            access.buffer.check_range(&access.range).map_err(|e| e.context(format!("kernel {name:?}")))?;
        }
        if let Some(checker) = &device.inner.checker {
            let label = hazard::Label { stream: self.inner.name.clone(), work: name.clone() };
            checker.stream_access(
                self.inner.id,
                &label,
                accesses.iter().map(|a| (a.mode, a.buffer.id(), &a.range)),
            )?;
        }
        Ok(())
    }

    fn enqueue_work(&self, name: Arc<str>, accesses: &[Access<'_>], body: super::kernel::Body) -> Result<()> {
        if self.cuda().is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "kernel {name:?} runs on the host, and stream {:?} is on {:?}: use `launch_on_cuda`, or a stream of the host device",
                    self.inner.name, self.inner.device
                ),
            ));
        }
        let work = Work::new(&name, accesses, body)?;
        self.check(&name, accesses)?;
        if self.inner.device.scheduler().is_some() {
            let spoiled = accesses
                .iter()
                .filter(|a| a.mode == hazard::Mode::Write)
                .map(|a| (a.buffer.clone(), a.range.clone()))
                .collect();
            self.push([Op::Poison(spoiled), Op::Work(work, self.inner.failed.clone())]);
        } else {
            self.push([Op::Work(work, self.inner.failed.clone())]);
        }
        Ok(())
    }

    fn begin(&self) -> Result<()> {
        self.inner.device.jitter();
        match self.inner.failed.lock().unwrap_or_else(|e| e.into_inner()).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn push<const N: usize>(&self, ops: [Op; N]) {
        match (&self.inner.queue, self.inner.device.scheduler()) {
            (Queue::Host(queue), _) => queue.push(ops),
            (Queue::Simulated(id), Some(scheduler)) => scheduler.push(*id, ops),
            (Queue::Simulated(_), None) => unreachable!("a simulated queue has a scheduler"),
            (Queue::Cuda(_), _) => unreachable!("the driver has the queue"),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Queue::Host(queue) = &mut self.queue {
            let start = Instant::now();
            if queue.finish() {
                self.device.inner.tally.cpu_waited("end of a stream", start.elapsed());
            }
        }
        self.device.inner.tally.stream_gone();
        if let Some(checker) = &self.device.inner.checker {
            checker.stream_gone(self.id);
        }
        if let Some(error) = self.failed.lock().unwrap_or_else(|e| e.into_inner()).take() {
            log::warn!("stream {:?} ends with a failure that nobody asked for: {error}", self.name);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.inner.name)
    }
}
