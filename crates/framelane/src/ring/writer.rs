//! The filling side of a ring.

use super::core::Acquired;
use super::{Counts, Deadline, Fence, Occupancy, Policy, Shared, State, Wake, wait_until};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::MutexGuard;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The filling side. Clones fill the same ring; it is finished when the last one is dropped.
pub struct Writer<T, F: Fence, M> {
    shared: Arc<Shared<T, F, M>>,
}

impl<T, F: Fence, M> Writer<T, F, M> {
    pub(super) fn new(shared: Arc<Shared<T, F, M>>) -> Self {
        Self { shared }
    }

    /// A slot to fill. Blocks while none is free (`Fifo`; `Latest` only if readers hold all of them).
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] once nobody reads, or after [`Writer::finish`]; an error or panic of the slot's maker
    /// when the ring grows (it then stays as it is, and the next call waits).
    pub fn acquire(&self) -> Result<WriteSlot<T, F, M>> {
        self.acquire_until(None)
    }

    /// As [`Writer::acquire`], at most for `limit`.
    ///
    /// # Errors
    /// Also [`ErrorKind::Timeout`], saying who holds the slots.
    pub fn acquire_for(&self, limit: Duration) -> Result<WriteSlot<T, F, M>> {
        self.acquire_until(Instant::now().checked_add(limit))
    }

    /// A slot to fill, if one is free now. Never blocks.
    ///
    /// # Errors
    /// As [`Writer::acquire`].
    pub fn try_acquire(&self) -> Result<Option<WriteSlot<T, F, M>>> {
        self.attempt(self.shared.lock()).map(Result::ok)
    }

    fn acquire_until(&self, deadline: Deadline) -> Result<WriteSlot<T, F, M>> {
        let start = Instant::now();
        let mut state = self.shared.lock();
        loop {
            state = match self.attempt(state)? {
                Ok(slot) => return Ok(slot),
                Err(state) => state,
            };
            state.waiting_writers += 1;
            let (guard, in_time) = wait_until(&self.shared.space, state, deadline);
            state = guard;
            state.waiting_writers -= 1;
            if !in_time {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "no slot of {:?} became free in {:.1?}: {}",
                        self.shared.name,
                        start.elapsed(),
                        state.core.occupancy()
                    ),
                ));
            }
        }
    }

    /// Try once; `Ok(Err(guard))`: the ring is full.
    #[expect(clippy::type_complexity, reason = "a guard handed back is the point")]
    fn attempt<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T, F, M>>,
    ) -> Result<Result<WriteSlot<T, F, M>, MutexGuard<'a, State<T, F, M>>>> {
        let (index, payload, wait, replaced) = match state.core.acquire() {
            Acquired::Full => return Ok(Err(state)),
            Acquired::Closed => {
                return Err(Error::new(
                    ErrorKind::Closed,
                    format!("nobody reads from {:?} any more", self.shared.name),
                ));
            }
            Acquired::Ended => {
                return Err(Error::new(
                    ErrorKind::Closed,
                    format!("{:?} was finished: reopen it before it is filled again", self.shared.name),
                ));
            }
            Acquired::Slot { index, wait, replaced } => {
                let payload = state.payloads[index].clone();
                (index, payload.unwrap_or_else(|| unreachable!("free slots are made")), wait, replaced)
            }
            Acquired::Grow { index } => {
                state.payloads.push(None);
                drop(state);
                // Outside the lock: an allocation may take long, and readers must go on.
                let make = || (self.shared.make.lock().unwrap_or_else(|e| e.into_inner()))(index);
                let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
                    let maker = format!("the maker of slot {index} of {:?}", self.shared.name);
                    Err(Error::from_panic(&maker, panic.as_ref()))
                });
                state = self.shared.lock();
                let payload = match made {
                    Ok(payload) => Arc::new(payload),
                    Err(error) => {
                        state.core.cannot_grow(index);
                        return Err(error);
                    }
                };
                state.payloads[index] = Some(payload.clone());
                (index, payload, Vec::new(), None)
            }
        };
        state.writers += 1;
        drop(state);
        Ok(Ok(WriteSlot { shared: self.shared.clone(), index, payload, wait, replaced, done: false }))
    }

    /// End the round, for all writers: no slot is to be had any more, readers drain what is there, then get
    /// the error, if any, once. A slot that was acquired before may still be published.
    pub fn finish(&self, result: Result<()>) {
        let mut state = self.shared.lock();
        state.core.finish(result);
        self.shared.unlock_and_wake(state, Wake::All, Wake::All);
    }

    /// Open a finished ring for another round, once a reader was told the end (or the error): nothing that was
    /// published before is left then. Readers that still sleep in the old round are told its end, too.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] before that: an error that nobody was told would be lost.
    pub fn reopen(&self) -> Result<()> {
        match self.shared.lock().core.reopen() {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Argument,
                format!("{:?} cannot be reopened: no reader was told its end yet", self.shared.name),
            )),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.shared.lock().core.counts()
    }

    /// What each slot is doing.
    pub fn occupancy(&self) -> Occupancy {
        self.shared.lock().core.occupancy()
    }
}

impl<T, F: Fence, M> Shared<T, F, M> {
    /// One writer, or slot being written, less. Wakes those readers and writers, or if it was the last, all
    /// readers.
    fn writer_gone(&self, mut state: MutexGuard<'_, State<T, F, M>>, readers: Wake, writers: Wake) {
        state.writers -= 1;
        if state.writers == 0 {
            state.core.finish(Ok(()));
            self.unlock_and_wake(state, Wake::All, writers);
        } else {
            self.unlock_and_wake(state, readers, writers);
        }
    }
}

impl<T, F: Fence, M> Clone for Writer<T, F, M> {
    fn clone(&self) -> Self {
        self.shared.lock().writers += 1;
        Self { shared: self.shared.clone() }
    }
}

impl<T, F: Fence, M> Drop for Writer<T, F, M> {
    fn drop(&mut self) {
        self.shared.writer_gone(self.shared.lock(), Wake::Nobody, Wake::Nobody);
    }
}

/// A slot being filled. Dropping it gives it back unfilled: right while no stream has begun to write it,
/// afterwards [`WriteSlot::recycle`] it.
pub struct WriteSlot<T, F: Fence, M> {
    shared: Arc<Shared<T, F, M>>,
    index: usize,
    payload: Arc<T>,
    wait: Vec<F>,
    replaced: Option<M>,
    done: bool,
}

impl<T, F: Fence, M> WriteSlot<T, F, M> {
    /// The payload.
    pub fn payload(&self) -> &Arc<T> {
        &self.payload
    }

    /// Number of the slot.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What must be done before the payload may be written: the writer's stream waits for these.
    pub fn wait_for(&self) -> &[F] {
        &self.wait
    }

    /// The filling that was dropped, unread, to make room (`Latest`). Given once.
    pub fn take_replaced(&mut self) -> Option<M> {
        self.replaced.take()
    }

    /// Hand the slot over: filled once `ready` is done. What travelled with it comes back if nobody will
    /// read it any more: after a cancellation, or after a reader was told the end.
    pub fn publish(mut self, ready: F, meta: M) -> Option<M> {
        self.done = true;
        let mut state = self.shared.lock();
        let unread = state.core.publish(self.index, ready, meta);
        // An unread filling of `Latest` may be written again, and so may one that was dropped.
        let writable = unread.is_some() || state.core.policy == Policy::Latest;
        let writers = if writable { Wake::One } else { Wake::Nobody };
        self.shared.writer_gone(state, Wake::One, writers);
        unread
    }

    /// Give the slot back unpublished; it may be written again after `fences`, one of each stream that
    /// began to write it, and after what this writer had to wait for.
    pub fn recycle(mut self, fences: Vec<F>) {
        self.wait.retain(|f| !f.is_done());
        self.wait.extend(fences);
    }
}

impl<T, F: Fence, M> Drop for WriteSlot<T, F, M> {
    fn drop(&mut self) {
        if !self.done {
            let wait = std::mem::take(&mut self.wait);
            let mut state = self.shared.lock();
            state.core.give_back(self.index, wait);
            self.shared.writer_gone(state, Wake::Nobody, Wake::One);
        }
    }
}
