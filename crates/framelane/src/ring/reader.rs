//! The reading side of a ring.

use super::core::{Slot, Taken};
use super::{Counts, Deadline, Fence, Occupancy, Shared, State, Wake, wait_until};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::MutexGuard;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The reading side. Clones share the work: each filling goes to one of them.
pub struct Reader<T, F: Fence, M> {
    shared: Arc<Shared<T, F, M>>,
}

/// What [`Reader::try_take`] found.
pub enum TryTake<T, F: Fence, M> {
    /// A filled slot.
    Lease(ReadLease<T, F, M>),
    /// Nothing now.
    Empty,
    /// Nothing any more.
    End,
}

impl<T, F: Fence, M> Reader<T, F, M> {
    pub(super) fn new(shared: Arc<Shared<T, F, M>>) -> Self {
        Self { shared }
    }

    /// The next filled slot; `None` is the end. Blocks until there is one or the other. The end is that of the
    /// round in which the call began, even if the ring was reopened meanwhile.
    ///
    /// The bytes are there once the lease's fence is done: make a stream wait for it.
    ///
    /// # Errors
    /// The error that the writer finished with, once, after everything published before it.
    pub fn take(&self) -> Result<Option<ReadLease<T, F, M>>> {
        self.take_until(None)
    }

    /// As [`Reader::take`], at most for `limit`.
    ///
    /// # Errors
    /// Also [`ErrorKind::Timeout`].
    pub fn take_for(&self, limit: Duration) -> Result<Option<ReadLease<T, F, M>>> {
        self.take_until(Instant::now().checked_add(limit))
    }

    /// The next filled slot, if there is one now. Never blocks. `Latest`: only one whose fence is done.
    ///
    /// Who only asks may miss the end of a round that another reader was told and that was reopened since.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn try_take(&self) -> Result<TryTake<T, F, M>> {
        let mut state = self.shared.lock();
        match state.core.take(true)? {
            Taken::Slot(slot) => Ok(TryTake::Lease(self.lease(state, slot))),
            Taken::Empty => Ok(TryTake::Empty),
            Taken::End => Ok(TryTake::End),
        }
    }

    fn take_until(&self, deadline: Deadline) -> Result<Option<ReadLease<T, F, M>>> {
        let mut state = self.shared.lock();
        let round = state.core.round();
        loop {
            // It slept through the end: the others went on to the next round before it could lock.
            if state.core.round() != round {
                return Ok(None);
            }
            match state.core.take(false)? {
                Taken::Slot(slot) => return Ok(Some(self.lease(state, slot))),
                Taken::End => return Ok(None),
                Taken::Empty => {}
            }
            state.waiting_readers += 1;
            let (guard, in_time) = wait_until(&self.shared.items, state, deadline);
            state = guard;
            state.waiting_readers -= 1;
            if !in_time {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "nothing came through {:?} in the given time: {}",
                        self.shared.name,
                        state.core.occupancy()
                    ),
                ));
            }
        }
    }

    fn lease(&self, state: MutexGuard<'_, State<T, F, M>>, slot: Slot<F, M>) -> ReadLease<T, F, M> {
        let payload = state.payloads[slot.index].clone().unwrap_or_else(|| unreachable!("it was filled"));
        let writers = match (slot.skipped.is_empty(), state.core.may_grow()) {
            (false, _) => Wake::All,
            // The ring grows for what is held.
            (true, true) => Wake::One,
            (true, false) => Wake::Nobody,
        };
        self.shared.unlock_and_wake(state, Wake::Nobody, writers);
        ReadLease {
            shared: self.shared.clone(),
            index: slot.index,
            payload,
            ready: slot.ready,
            meta: slot.meta,
            skipped: slot.skipped,
            fences: Vec::new(),
        }
    }

    /// Stop the writer: its next `acquire` fails. Unread fillings are handed back, oldest first; leases
    /// stay valid.
    pub fn cancel(&self) -> Vec<M> {
        let mut state = self.shared.lock();
        let unread = state.core.cancel();
        self.shared.unlock_and_wake(state, Wake::All, Wake::All);
        unread
    }

    /// Whether a reader was told the end, or the error, since the ring was last opened.
    pub fn was_told_end(&self) -> bool {
        self.shared.lock().core.was_told_end()
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

impl<T, F: Fence, M> Clone for Reader<T, F, M> {
    fn clone(&self) -> Self {
        self.shared.lock().readers += 1;
        Self { shared: self.shared.clone() }
    }
}

impl<T, F: Fence, M> Drop for Reader<T, F, M> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.readers -= 1;
        if state.readers == 0 {
            let unread = state.core.cancel();
            self.shared.unlock_and_wake(state, Wake::Nobody, Wake::All);
            // Destructors of what travelled with unread fillings run outside the lock.
            drop(unread);
        }
    }
}

/// A filled slot being read. The slot is not written again before the lease ends and the fences given to
/// [`ReadLease::add_fence`] are done.
pub struct ReadLease<T, F: Fence, M> {
    shared: Arc<Shared<T, F, M>>,
    index: usize,
    payload: Arc<T>,
    ready: F,
    meta: M,
    skipped: Vec<M>,
    fences: Vec<F>,
}

impl<T, F: Fence, M> ReadLease<T, F, M> {
    /// The payload.
    pub fn payload(&self) -> &Arc<T> {
        &self.payload
    }

    /// Number of the slot.
    pub fn index(&self) -> usize {
        self.index
    }

    /// When the bytes are there: readers' streams wait for this.
    pub fn ready(&self) -> &F {
        &self.ready
    }

    /// What travelled with the filling.
    pub fn meta(&self) -> &M {
        &self.meta
    }

    /// Older fillings that were dropped unread for this one (`Latest`), oldest first. Given once.
    pub fn take_skipped(&mut self) -> Vec<M> {
        std::mem::take(&mut self.skipped)
    }

    /// A stream read the payload; its reading is over once `fence` is done.
    pub fn add_fence(&mut self, fence: F) {
        self.fences.push(fence);
    }

    /// Say who holds this lease, for the message that a held-back writer gives.
    pub fn set_holder(&self, name: impl Into<Arc<str>>) {
        self.shared.lock().core.set_holder(self.index, name.into());
    }
}

impl<T, F: Fence, M> Drop for ReadLease<T, F, M> {
    fn drop(&mut self) {
        let fences =
            if self.fences.is_empty() { vec![self.ready.clone()] } else { std::mem::take(&mut self.fences) };
        let mut state = self.shared.lock();
        state.core.give_back(self.index, fences);
        self.shared.unlock_and_wake(state, Wake::Nobody, Wake::One);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::core::{Acquired, Taken};
    use crate::ring::{Options, Policy, ring};

    /// The worst that can happen to a reader that sleeps: before it can lock, another one is told the end, and
    /// the ring is reopened and filled.
    #[test]
    fn a_reader_that_slept_through_the_end_is_told_it() {
        let (_writer, reader) =
            ring::<(), (), u32>(Options::fixed("r", Policy::Fifo, 1), |_| Ok(())).unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| reader.take().unwrap().map(|lease| *lease.meta()));
            let shared = &reader.shared;
            // Counted just before it lets go of the lock and sleeps.
            let mut state = loop {
                let state = shared.lock();
                if state.waiting_readers == 1 {
                    break state;
                }
                drop(state);
                std::thread::yield_now();
            };
            state.core.finish(Ok(()));
            assert!(matches!(state.core.take(false), Ok(Taken::End)));
            assert!(state.core.reopen());
            let Acquired::Slot { index, .. } = state.core.acquire() else { panic!("a slot is free") };
            state.core.publish(index, (), 2);
            shared.unlock_and_wake(state, Wake::All, Wake::Nobody);
            assert_eq!(sleeper.join().unwrap(), None);
        });
        assert_eq!(*reader.take().unwrap().unwrap().meta(), 2, "the new round lost nothing");
    }
}
