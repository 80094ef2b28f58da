//! Giving memory back once the work that uses it is over, with nobody waiting for that.
//!
//! Memory that is dropped becomes the business of the context's free stream, which waits (on the GPU) for the
//! last uses on all other streams. Device memory from the pool is freed right there, in the stream's order.
//! Everything else leaves an event on the free stream, and goes once the event is found done: at the next
//! allocation, drop or [`Context::reap`].

use crate::context::{Context, Inner, Raw, lock};
use crate::error::{CudaError, NOT_READY, Result, check};
use crate::event;
use crate::memory::{PinnedKind, Resource, Use};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Mutex;

/// What was dropped and is not yet back with the driver.
#[derive(Default)]
pub(crate) struct Reclaim {
    retired: Mutex<VecDeque<Retired>>,
    /// Memory dropped while a stream that used it was being captured.
    deferred: Mutex<Vec<(Resource, Vec<Use>)>>,
    /// Pinned memory that nothing uses any more.
    spare: Mutex<Vec<Spare>>,
    late: Mutex<Option<CudaError>>,
}

/// Pinned memory kept for the next allocation. The driver's call that frees it waits for all work on the
/// device, whoever enqueued it, and holds up the calls of all other threads meanwhile (on whichever thread it
/// is made): so that is left to [`Context::trim`] and to the end.
pub(crate) struct Spare {
    pub pointer: Raw<c_void>,
    pub bytes: usize,
    pub kind: PinnedKind,
}

/// Memory whose last uses are before `after` on the free stream.
struct Retired {
    resource: Resource,
    after: Raw<cudarc::driver::sys::CUevent_st>,
}

impl Context {
    /// Give back memory that was dropped while in use and is free by now. Never waits. Allocations and drops
    /// do this by themselves.
    pub fn reap(&self) {
        self.inner.reap();
    }

    /// Bytes of pinned memory that were dropped and are kept for the next allocation: giving them back to the
    /// system makes the driver wait for the whole device.
    pub fn spare_pinned(&self) -> usize {
        lock(&self.inner.reclaim.spare).iter().map(|s| s.bytes).sum()
    }

    /// Give spare pinned memory, and what the device's pool holds beyond its use, back to the system. Waits for
    /// all work on the device, and other threads' calls wait meanwhile: for when the device is idle.
    ///
    /// # Errors
    /// A lost device.
    pub fn trim(&self) -> Result<()> {
        self.inner.settle()
    }

    /// How many pieces of memory were dropped and still wait for work that uses them.
    pub fn waiting_to_be_freed(&self) -> usize {
        lock(&self.inner.reclaim.retired).len() + lock(&self.inner.reclaim.deferred).len()
    }

    /// The first failure met where nobody could be told (in a destructor), once.
    pub fn take_late_error(&self) -> Option<CudaError> {
        lock(&self.inner.reclaim.late).take()
    }
}

impl Inner {
    /// Give memory back once `uses` are over. Does not wait and does not fail: what goes wrong is kept for
    /// [`Context::take_late_error`].
    pub fn retire(&self, resource: Resource, uses: Vec<Use>) {
        if uses.iter().any(Use::is_capturing) {
            lock(&self.reclaim.deferred).push((resource, uses));
            return;
        }
        if let Err(error) = self.try_retire(resource, &uses) {
            self.late(error);
        }
        self.reap();
    }

    fn try_retire(&self, resource: Resource, uses: &[Use]) -> Result<()> {
        let _current = self.enter()?;
        for one in uses {
            one.before(self.free_stream.0)?;
        }
        if let Resource::Pooled(pointer) = resource {
            // SAFETY: the pointer came from our pool, is freed once, and all its uses were waited for.
            return check("cuMemFreeAsync", unsafe {
                (self.api.cuMemFreeAsync)(pointer, self.free_stream.0)
            });
        }
        if uses.iter().all(Use::is_known_done) {
            self.give_back(resource);
            return Ok(());
        }
        let after = self.events.take(self.api, event::UNTIMED)?;
        // SAFETY: both handles are ours and alive.
        check("cuEventRecord", unsafe { (self.api.cuEventRecord)(after, self.free_stream.0) })?;
        lock(&self.reclaim.retired).push_back(Retired { resource, after: Raw(after) });
        Ok(())
    }

    pub fn reap(&self) {
        let deferred = std::mem::take(&mut *lock(&self.reclaim.deferred));
        for (resource, uses) in deferred {
            if uses.iter().any(Use::is_capturing) {
                lock(&self.reclaim.deferred).push((resource, uses));
            } else if let Err(error) = self.try_retire(resource, &uses) {
                self.late(error);
            }
        }
        if lock(&self.reclaim.retired).is_empty() {
            return;
        }
        let Ok(_current) = self.enter() else { return };
        loop {
            let mut retired = lock(&self.reclaim.retired);
            let Some(first) = retired.front() else { return };
            // SAFETY: the event is ours and alive.
            let code = unsafe { (self.api.cuEventQuery)(first.after.0) };
            if code == NOT_READY {
                return;
            }
            let Some(first) = retired.pop_front() else { return };
            // What is kept may be foreign (Python's): drop it with no lock held.
            drop(retired);
            self.events.put(self.api, first.after.0, event::UNTIMED);
            match check("cuEventQuery", code) {
                Ok(()) => self.give_back(first.resource),
                Err(error) => self.late(error),
            }
        }
    }

    /// Nothing uses it any more; the context is current.
    fn give_back(&self, resource: Resource) {
        if let Resource::Pinned(spare) = resource {
            lock(&self.reclaim.spare).push(spare);
        } else if let Err(error) = resource.free(self.api) {
            self.late(error);
        }
    }

    /// Spare pinned memory that fits `bytes` without wasting much.
    pub fn take_spare(&self, bytes: usize, kind: PinnedKind) -> Option<Spare> {
        let mut spare = lock(&self.reclaim.spare);
        let most = bytes.saturating_add(bytes / 4).saturating_add(64 << 10);
        let fits = |s: &Spare| s.kind == kind && (bytes..=most).contains(&s.bytes);
        let (best, _) = spare.iter().enumerate().filter(|(_, s)| fits(s)).min_by_key(|(_, s)| s.bytes)?;
        Some(spare.swap_remove(best))
    }

    /// The context is current.
    fn free_spare(&self) -> Result<()> {
        let spare = std::mem::take(&mut *lock(&self.reclaim.spare));
        spare.into_iter().try_for_each(|s| Resource::Pinned(s).free(self.api))
    }

    /// Wait until what was dropped has been given back. For allocations that would fail otherwise.
    pub fn settle(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the stream is ours.
        check("cuStreamSynchronize", unsafe { (self.api.cuStreamSynchronize)(self.free_stream.0) })?;
        self.reap();
        self.free_spare()?;
        if let Some(pool) = self.pool {
            // SAFETY: the pool is ours.
            check("cuMemPoolTrimTo", unsafe { (self.api.cuMemPoolTrimTo)(pool.0, 0) })?;
        }
        Ok(())
    }

    pub fn settle_at_end(&self) -> Result<()> {
        // Null: opening failed before it was made.
        if !self.free_stream.0.is_null() {
            // SAFETY: the stream is ours.
            check("cuStreamSynchronize", unsafe { (self.api.cuStreamSynchronize)(self.free_stream.0) })?;
        }
        self.reap();
        self.free_spare()
    }

    pub fn late(&self, error: CudaError) {
        lock(&self.reclaim.late).get_or_insert(error);
    }
}
