//! Events: points in a stream's order that other streams, and at need the CPU, can wait for.

use super::stream::on_device;
use super::{Device, hazard};
use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A point in the order of one stream. Each [`super::Stream::record`] makes a fresh one: an event is never
/// recorded twice, so what it means never changes. Clones are the same event.
///
/// An event says that the work before it has *ended*, not that it succeeded: if a kernel fails, what comes after
/// it on its stream runs all the same, and the event is reached. Whether it failed is told by the stream
/// ([`super::Stream`]), or for a job of [`crate::lanes`] by its ticket.
#[derive(Clone)]
pub struct Event {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    stream: Arc<str>,
    signal: Signal,
    clock: Option<hazard::Clock>,
}

enum Signal {
    Host {
        reached: Mutex<Option<Instant>>,
        wake: Condvar,
    },
    Cuda(framelane_cuda::Event),
    /// It could not be recorded: nobody can say when the work before it is done, so it never counts as done.
    Broken(Error),
}

impl Event {
    pub(super) fn new(device: &Device, stream: &Arc<str>, clock: Option<hazard::Clock>) -> Self {
        Self::with(device, stream, Signal::Host { reached: Mutex::new(None), wake: Condvar::new() }, clock)
    }

    pub(super) fn over_cuda(
        device: &Device,
        stream: &Arc<str>,
        event: Result<framelane_cuda::Event>,
        clock: Option<hazard::Clock>,
    ) -> Self {
        let signal = event.map_or_else(Signal::Broken, Signal::Cuda);
        Self::with(device, stream, signal, clock)
    }

    fn with(device: &Device, stream: &Arc<str>, signal: Signal, clock: Option<hazard::Clock>) -> Self {
        Self { inner: Arc::new(Inner { device: device.clone(), stream: stream.clone(), signal, clock }) }
    }

    /// Whether all work enqueued before the event is done, failed or not. Never waits.
    pub fn is_done(&self) -> bool {
        self.inner.device.jitter();
        self.query()
    }

    /// When the event was reached, if it was. Host devices only: CUDA's events have times relative to each
    /// other ([`Event::since`]).
    pub fn done_at(&self) -> Option<Instant> {
        self.query().then(|| self.reached_at()).flatten()
    }

    /// Time between two events, if both were reached (zero if `earlier` was the later). On CUDA by the GPU's
    /// clock, and only between events of [`super::Stream::record_timed`]. The hazard check learns nothing from it.
    pub fn since(&self, earlier: &Event) -> Option<Duration> {
        match (&self.inner.signal, &earlier.inner.signal) {
            (Signal::Cuda(later), Signal::Cuda(earlier)) => later.since(earlier).ok().flatten(),
            _ => Some(self.reached_at()?.saturating_duration_since(earlier.reached_at()?)),
        }
    }

    /// As [`Event::synchronize`], without telling the hazard check: for a wait whose outcome stays with the
    /// caller ([`super::Buffer::write_host_after`]).
    pub(crate) fn synchronize_privately(&self, why: &'static str) -> Result<()> {
        self.wait(why, None).map(|_| ())
    }

    /// Wait on the CPU until the event is reached, whether the work before it failed or not. The wait is counted
    /// under `why` ([`super::Counters::cpu_waits`]), unless the event had been reached already.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] from within a kernel, which must not wait for its own device.
    /// [`ErrorKind::Device`] on the simulated device, if nothing that is enqueued can ever reach the event.
    pub fn synchronize(&self, why: &'static str) -> Result<()> {
        self.wait(why, None)?;
        self.query();
        Ok(())
    }

    /// As [`Event::synchronize`], but gives up after `limit` with `Ok(false)`.
    ///
    /// # Errors
    /// As [`Event::synchronize`].
    pub fn synchronize_for(&self, why: &'static str, limit: Duration) -> Result<bool> {
        self.wait(why, Some(limit))?;
        Ok(self.query())
    }

    fn wait(&self, why: &'static str, limit: Option<Duration>) -> Result<bool> {
        self.inner.device.jitter();
        if self.is_reached() {
            return Ok(true);
        }
        if on_device() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("a kernel cannot wait on the CPU for the event on {:?}", self.inner.stream),
            ));
        }
        let start = Instant::now();
        let done = match (&self.inner.signal, limit) {
            (Signal::Host { .. }, _) => self.wait_for_host(start, limit)?,
            (Signal::Cuda(event), None) => event.synchronize().map(|()| true)?,
            (Signal::Cuda(event), Some(limit)) => event.synchronize_for(limit)?,
            (Signal::Broken(error), _) => return Err(error.clone()),
        };
        self.inner.device.inner.tally.cpu_waited(why, start.elapsed());
        Ok(done)
    }

    fn wait_for_host(&self, start: Instant, limit: Option<Duration>) -> Result<bool> {
        let Signal::Host { reached, wake } = &self.inner.signal else { return Ok(false) };
        if let Some(scheduler) = self.inner.device.scheduler() {
            while !self.is_reached() {
                // Another thread may just have reached it.
                if !scheduler.step_or_wait() && !self.is_reached() {
                    return Err(Error::new(
                        ErrorKind::Device,
                        format!(
                            "the simulated device is stuck: nothing can reach the event on {:?} (is memory that its work needs still held by the CPU?)",
                            self.inner.stream
                        ),
                    ));
                }
            }
            return Ok(true);
        }
        let mut reached = reached.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            if reached.is_some() {
                return Ok(true);
            }
            reached = match limit.map(|l| l.checked_sub(start.elapsed())) {
                None => wake.wait(reached).unwrap_or_else(|e| e.into_inner()),
                Some(None) => return Ok(false),
                Some(Some(left)) => wake.wait_timeout(reached, left).unwrap_or_else(|e| e.into_inner()).0,
            };
        }
    }

    /// Ask, and let the hazard check know that the CPU has seen the answer.
    pub(crate) fn query(&self) -> bool {
        let done = self.is_reached();
        if let (true, Some(checker), Some(clock)) =
            (done, &self.inner.device.inner.checker, &self.inner.clock)
        {
            checker.host_saw(clock);
        }
        done
    }

    /// Ask without telling the hazard check, which would take all that any thread enqueues from now on to come
    /// after the event.
    pub(crate) fn is_reached(&self) -> bool {
        match &self.inner.signal {
            Signal::Host { .. } => self.reached_at().is_some(),
            // On a lost device nothing runs any more; the next call there tells the loss.
            Signal::Cuda(event) => event.is_done().unwrap_or(true),
            Signal::Broken(_) => false,
        }
    }

    fn reached_at(&self) -> Option<Instant> {
        match &self.inner.signal {
            Signal::Host { reached, .. } => *reached.lock().unwrap_or_else(|e| e.into_inner()),
            Signal::Cuda(_) | Signal::Broken(_) => None,
        }
    }

    pub(super) fn reach(&self) {
        if let Signal::Host { reached, wake } = &self.inner.signal {
            *reached.lock().unwrap_or_else(|e| e.into_inner()) = Some(Instant::now());
            wake.notify_all();
        }
    }

    /// Block the calling stream thread until reached. Not a CPU wait: this thread is the device.
    pub(super) fn block(&self) {
        if let Signal::Host { reached, wake } = &self.inner.signal {
            let mut reached = reached.lock().unwrap_or_else(|e| e.into_inner());
            while reached.is_none() {
                reached = wake.wait(reached).unwrap_or_else(|e| e.into_inner());
            }
        }
    }

    /// The event, if it could be recorded.
    ///
    /// # Errors
    /// Why it could not.
    pub(super) fn recorded(self) -> Result<Self> {
        match &self.inner.signal {
            Signal::Broken(error) => Err(error.clone()),
            Signal::Host { .. } | Signal::Cuda(_) => Ok(self),
        }
    }

    /// The driver's event, for a stream of CUDA to wait for.
    ///
    /// # Errors
    /// Why it could not be recorded.
    pub(super) fn cuda(&self) -> Result<Option<&framelane_cuda::Event>> {
        match &self.inner.signal {
            Signal::Host { .. } => Ok(None),
            Signal::Cuda(event) => Ok(Some(event)),
            Signal::Broken(error) => Err(error.clone()),
        }
    }

    pub(super) fn clock(&self) -> Option<&hazard::Clock> {
        self.inner.clock.as_ref()
    }

    pub(super) fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_reached() { "reached" } else { "pending" };
        write!(f, "Event({}, {state})", self.inner.stream)
    }
}
