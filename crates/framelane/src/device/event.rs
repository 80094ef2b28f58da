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
    reached: Mutex<Option<Instant>>,
    wake: Condvar,
    clock: Option<hazard::Clock>,
}

impl Event {
    pub(super) fn new(device: &Device, stream: &Arc<str>, clock: Option<hazard::Clock>) -> Self {
        let inner = Inner {
            device: device.clone(),
            stream: stream.clone(),
            reached: Mutex::new(None),
            wake: Condvar::new(),
            clock,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether all work enqueued before the event is done, failed or not. Never waits.
    pub fn is_done(&self) -> bool {
        self.inner.device.jitter();
        self.query()
    }

    /// When the event was reached, if it was.
    pub fn done_at(&self) -> Option<Instant> {
        self.query().then(|| self.reached_at()).flatten()
    }

    /// Time between two events, if both were reached (zero if `earlier` was the later).
    pub fn since(&self, earlier: &Event) -> Option<Duration> {
        Some(self.done_at()?.saturating_duration_since(earlier.done_at()?))
    }

    /// Wait on the CPU until the event is reached, whether the work before it failed or not. The wait is counted under `why`
    /// ([`super::Counters::cpu_waits`]), unless the event had been reached already.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] from within a kernel, which must not wait for its own device.
    /// [`ErrorKind::Device`] on the simulated device, if nothing that is enqueued can ever reach the event.
    pub fn synchronize(&self, why: &'static str) -> Result<()> {
        self.wait(why, None).map(|_| ())
    }

    /// As [`Event::synchronize`], but gives up after `limit` with `Ok(false)`.
    ///
    /// # Errors
    /// As [`Event::synchronize`].
    pub fn synchronize_for(&self, why: &'static str, limit: Duration) -> Result<bool> {
        self.wait(why, Some(limit))
    }

    fn wait(&self, why: &'static str, limit: Option<Duration>) -> Result<bool> {
        if self.is_done() {
            return Ok(true);
        }
        if on_device() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("a kernel cannot wait on the CPU for the event on {:?}", self.inner.stream),
            ));
        }
        let start = Instant::now();
        let done = match self.inner.device.scheduler() {
            Some(scheduler) => {
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
                true
            }
            None => {
                let mut reached = self.inner.reached.lock().unwrap_or_else(|e| e.into_inner());
                loop {
                    if reached.is_some() {
                        break true;
                    }
                    reached = match limit.map(|l| l.checked_sub(start.elapsed())) {
                        None => self.inner.wake.wait(reached).unwrap_or_else(|e| e.into_inner()),
                        Some(None) => break false,
                        Some(Some(left)) => {
                            self.inner.wake.wait_timeout(reached, left).unwrap_or_else(|e| e.into_inner()).0
                        }
                    };
                }
            }
        };
        self.inner.device.inner.tally.cpu_waited(why, start.elapsed());
        if done {
            self.query();
        }
        Ok(done)
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

    /// Ask on behalf of the device: the hazard check is told nothing.
    pub(super) fn is_reached(&self) -> bool {
        self.reached_at().is_some()
    }

    fn reached_at(&self) -> Option<Instant> {
        *self.inner.reached.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn reach(&self) {
        *self.inner.reached.lock().unwrap_or_else(|e| e.into_inner()) = Some(Instant::now());
        self.inner.wake.notify_all();
    }

    /// Block the calling stream thread until reached. Not a CPU wait: this thread is the device.
    pub(super) fn block(&self) {
        let mut reached = self.inner.reached.lock().unwrap_or_else(|e| e.into_inner());
        while reached.is_none() {
            reached = self.inner.wake.wait(reached).unwrap_or_else(|e| e.into_inner());
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
