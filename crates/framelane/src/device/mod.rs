//! Devices: streams that run work in order, events that order streams, and memory that both can reach.
//!
//! A [`Device`] is asynchronous whatever it is made of. The **host device** is not a mock: its streams are
//! in-order queues on threads of their own, its copies and kernels run later than the call that enqueued
//! them, and so every ordering mistake that a GPU punishes can happen on it. Memory has two kinds, as on a
//! GPU: [`Memory::Pinned`], which the CPU may touch, and [`Memory::Device`], which only work on streams may.
//!
//! The **simulated device** ([`Device::simulated`]) runs the same calls on one thread. A seeded scheduler
//! picks which stream goes next, memory about to be written is poisoned first, and the hazard check
//! ([`hazard`]) is on: the same seed gives the same interleaving.
//!
//! A **CUDA device** ([`Device::cuda`]) hands the same calls to the driver, which is loaded when first asked
//! for. What runs on its streams is enqueued with [`Stream::launch_on_cuda`]; everything above this module
//! (rings, feeds, leases, the hazard check) is the same code.
//!
//! # What a device counts
//! Bytes copied each way, bytes allocated, streams, and each CPU wait by name: [`Device::counters`].
//! Nothing in this module waits on the CPU, except [`Event::synchronize`].

mod buffer;
mod counters;
mod cuda;
mod event;
pub mod hazard;
mod host;
mod kernel;
mod sim;
mod stream;

pub use buffer::{Buffer, HostRead, HostWrite, Memory};
pub use counters::Counters;
pub(crate) use counters::waits_of_this_thread;
pub use cuda::{CudaPlace, cuda_devices};
pub use event::Event;
pub use kernel::{Access, Kernel};
pub use stream::Stream;

use crate::error::Result;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A handle to a device; clones are the same device. Any thread may use it.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    backend: Backend,
    name: Arc<str>,
    pub(crate) tally: counters::Tally,
    pub(crate) checker: Option<hazard::Checker>,
    next_id: AtomicU64,
}

enum Backend {
    Host,
    Simulated(Arc<sim::Scheduler>),
    Cuda(framelane_cuda::Context),
}

impl Device {
    /// The host device: streams are threads, memory is the process's.
    ///
    /// With `FRAMELANE_CHECK=1` in the environment the hazard check is on, as in [`Device::host_checked`].
    pub fn host() -> Self {
        Self::with(Backend::Host, hazard::Checker::if_asked())
    }

    /// The host device with the hazard check on. A call that would break an ordering rule fails with
    /// [`crate::ErrorKind::Hazard`], whatever the timing happened to be.
    pub fn host_checked() -> Self {
        Self::with(Backend::Host, Some(hazard::Checker::default()))
    }

    /// The simulated device, with the hazard check on. Work runs on whichever thread calls the device;
    /// for one calling thread, `seed` decides the whole interleaving.
    pub fn simulated(seed: u64) -> Self {
        Self::with(Backend::Simulated(Arc::new(sim::Scheduler::new(seed))), Some(hazard::Checker::default()))
    }

    /// The simulated device without the hazard check: wrong orders then really read wrong bytes.
    pub fn simulated_unchecked(seed: u64) -> Self {
        Self::with(Backend::Simulated(Arc::new(sim::Scheduler::new(seed))), None)
    }

    fn with(backend: Backend, checker: Option<hazard::Checker>) -> Self {
        let tally = counters::Tally::default();
        let name = match &backend {
            Backend::Host => "cpu".into(),
            Backend::Simulated(_) => "simulated".into(),
            Backend::Cuda(context) => format!("cuda:{}", context.info().ordinal).into(),
        };
        Self { inner: Arc::new(Inner { backend, name, tally, checker, next_id: AtomicU64::new(1) }) }
    }

    /// A name for reports: `"cpu"`, `"cuda:0"`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// A new stream. On the host device it owns a thread, which ends when the last handle is dropped and
    /// the work enqueued so far is done. On CUDA it is a non-blocking stream of normal priority.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Device`] if the thread could not be started.
    pub fn stream(&self, name: impl Into<Arc<str>>) -> Result<Stream> {
        Stream::new(self, name.into())
    }

    /// `bytes` bytes of memory, zeroed, aligned to at least 16 bytes (256 on CUDA). Freed when the last handle is
    /// dropped and work enqueued on it is done.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Device`] if there is not so much memory.
    pub fn alloc(&self, bytes: usize, memory: Memory) -> Result<Buffer> {
        self.jitter();
        Buffer::new(self, bytes, memory)
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.inner.tally.snapshot()
    }

    /// Hazards found so far (empty if the check is off).
    pub fn hazards(&self) -> Vec<hazard::Hazard> {
        self.inner.checker.as_ref().map(hazard::Checker::found).unwrap_or_default()
    }

    /// Simulated device: run work until nothing is left that can run. Nothing elsewhere.
    pub fn run_until_idle(&self) {
        if let Backend::Simulated(s) = &self.inner.backend {
            while s.step_or_wait() {}
        }
    }

    pub(crate) fn scheduler(&self) -> Option<&Arc<sim::Scheduler>> {
        match &self.inner.backend {
            Backend::Simulated(s) => Some(s),
            Backend::Host | Backend::Cuda(_) => None,
        }
    }

    /// Simulated device: let some work happen "meanwhile". Called at the start of each call.
    pub(crate) fn jitter(&self) {
        if let Some(s) = self.scheduler() {
            s.jitter();
        }
    }

    pub(crate) fn fresh_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether memory and events of both can be used together.
    pub fn same(&self, other: &Self) -> bool {
        // Two openings of one GPU are, unless a hazard check keeps a book of one of them alone.
        let cuda = || match (self.cuda_context(), other.cuda_context()) {
            (Some(a), Some(b)) => a.same(b) && self.inner.checker.is_none() && other.inner.checker.is_none(),
            _ => false,
        };
        Arc::ptr_eq(&self.inner, &other.inner) || cuda()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}
