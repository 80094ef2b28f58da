//! The ring's state machine: which slot may be written, which read, and in what order. No locks, no waiting.

use super::{Counts, Fence};
use crate::error::Result;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a ring does when its two sides differ in speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nothing is lost: a full ring holds the writer back.
    Fifo,
    /// The reader gets the newest complete filling; older unread ones are dropped and counted.
    Latest,
}

enum SlotState<F, M> {
    Free,
    Writing,
    Ready {
        ready: F,
        meta: M,
    },
    Leased {
        holder: Option<Arc<str>>,
        since: Instant,
    },
    /// Its payload could not be made: out of use.
    Unmade,
}

struct Entry<F, M> {
    state: SlotState<F, M>,
    /// What the next writer must wait for.
    wait: Vec<F>,
}

pub(super) struct Core<F, M> {
    pub policy: Policy,
    entries: Vec<Entry<F, M>>,
    /// Slots that there are at first: so many may be filled ahead of the reader.
    slots: usize,
    max_slots: usize,
    /// Free slots, longest free first: if no slot's fences are done, its will be soonest.
    free: VecDeque<usize>,
    /// Ready slots, in the order of publication.
    ready: VecDeque<usize>,
    end: Option<Result<()>>,
    /// A reader was told the end (or the error): nothing may come after it.
    told: bool,
    /// How often the ring was opened again.
    round: u64,
    cancelled: bool,
    counts: Counts,
}

pub(super) enum Acquired<F, M> {
    Slot {
        index: usize,
        wait: Vec<F>,
        replaced: Option<M>,
    },
    /// A slot was added, in state Writing: make its payload, or call [`Core::cannot_grow`].
    Grow {
        index: usize,
    },
    Full,
    /// It was finished, and not reopened.
    Ended,
    Closed,
}

pub(super) enum Taken<F, M> {
    Slot(Slot<F, M>),
    Empty,
    End,
}

pub(super) struct Slot<F, M> {
    pub index: usize,
    pub ready: F,
    pub meta: M,
    pub skipped: Vec<M>,
}

impl<F: Fence, M> Core<F, M> {
    pub fn new(policy: Policy, slots: usize, max_slots: usize) -> Self {
        let entries = (0..slots).map(|_| Entry { state: SlotState::Free, wait: Vec::new() }).collect();
        Self {
            policy,
            entries,
            slots,
            max_slots,
            free: (0..slots).collect(),
            ready: VecDeque::new(),
            end: None,
            told: false,
            round: 0,
            cancelled: false,
            counts: Counts::default(),
        }
    }

    /// In this order: a free slot whose fences are done; `Latest`: an unread one (a stale frame is worth less
    /// than the wait for a reader's stream, in which everything the writer's stream does next would grow old);
    /// the free slot whose fences are likeliest to be done soon; a new slot (growth is for leases held long, neither
    /// for streams that are about to be done nor to run further ahead of the reader).
    pub fn acquire(&mut self) -> Acquired<F, M> {
        if self.cancelled {
            return Acquired::Closed;
        }
        if self.end.is_some() {
            return Acquired::Ended;
        }
        if let Some(position) = self.free.iter().position(|&index| self.is_unused(index)) {
            return self.write_free(position);
        }
        if self.policy == Policy::Latest
            && let Some(index) = self.least_wanted()
        {
            let (ready, meta) = self.unready(index);
            self.counts.dropped += 1;
            self.entries[index].state = SlotState::Writing;
            return Acquired::Slot { index, wait: vec![ready], replaced: Some(meta) };
        }
        if !self.free.is_empty() {
            return self.write_free(0);
        }
        if self.may_grow() {
            self.entries.push(Entry { state: SlotState::Writing, wait: Vec::new() });
            return Acquired::Grow { index: self.entries.len() - 1 };
        }
        Acquired::Full
    }

    /// Whether a writer that finds no free slot gets one more: also after a reader has taken one.
    pub fn may_grow(&self) -> bool {
        self.entries.len() < self.max_slots && self.ahead() < self.slots
    }

    /// Slots that are filled or being filled, for the reader to come.
    fn ahead(&self) -> usize {
        let is_ahead =
            |entry: &&Entry<F, M>| matches!(entry.state, SlotState::Writing | SlotState::Ready { .. });
        self.entries.iter().filter(is_ahead).count()
    }

    /// Write the slot at `position` of the free ones.
    fn write_free(&mut self, position: usize) -> Acquired<F, M> {
        let index = self.free.remove(position).unwrap_or_else(|| unreachable!("a position in the queue"));
        let entry = &mut self.entries[index];
        entry.state = SlotState::Writing;
        Acquired::Slot { index, wait: std::mem::take(&mut entry.wait), replaced: None }
    }

    /// The payload of the slot just added could not be made. The slot stays out of use, and so does its
    /// place: the ring does not try again.
    pub fn cannot_grow(&mut self, index: usize) {
        debug_assert!(matches!(self.entries[index].state, SlotState::Writing));
        self.entries[index].state = SlotState::Unmade;
        self.max_slots = self.entries.len();
    }

    /// After a cancellation, or once a reader was told the end, the filling is dropped, and what travelled
    /// with it handed back.
    pub fn publish(&mut self, index: usize, ready: F, meta: M) -> Option<M> {
        debug_assert!(matches!(self.entries[index].state, SlotState::Writing));
        self.counts.published += 1;
        if self.cancelled || self.told {
            self.counts.dropped += 1;
            self.give_back(index, vec![ready]);
            return Some(meta);
        }
        self.entries[index].state = SlotState::Ready { ready, meta };
        self.ready.push_back(index);
        None
    }

    /// A written or leased slot is free again, once `wait` is done.
    pub fn give_back(&mut self, index: usize, wait: Vec<F>) {
        debug_assert!(matches!(self.entries[index].state, SlotState::Writing | SlotState::Leased { .. }));
        self.entries[index] = Entry { state: SlotState::Free, wait };
        self.free.push_back(index);
    }

    /// `complete_only`: under `Latest`, leave fillings whose fence is not done.
    pub fn take(&mut self, complete_only: bool) -> Result<Taken<F, M>> {
        let position = match self.policy {
            Policy::Fifo => (!self.ready.is_empty()).then_some(0),
            Policy::Latest => {
                let newest = (0..self.ready.len()).rev().find(|&p| self.is_complete(self.ready[p]));
                // None complete: the oldest will be the first to be.
                newest.or_else(|| (!complete_only && !self.ready.is_empty()).then_some(0))
            }
        };
        let Some(position) = position else {
            if !self.ready.is_empty() {
                return Ok(Taken::Empty);
            }
            return match &mut self.end {
                None if self.cancelled => Ok(Taken::End),
                None => Ok(Taken::Empty),
                // The error is told once.
                Some(end) => {
                    self.told = true;
                    std::mem::replace(end, Ok(())).map(|()| Taken::End)
                }
            };
        };
        let mut skipped = Vec::new();
        for _ in 0..position {
            skipped.extend(self.drop_oldest());
        }
        let Some(index) = self.ready.pop_front() else { return Ok(Taken::Empty) };
        let (ready, meta) = self.unready(index);
        self.counts.taken += 1;
        self.entries[index].state = SlotState::Leased { holder: None, since: Instant::now() };
        Ok(Taken::Slot(Slot { index, ready, meta, skipped }))
    }

    pub fn finish(&mut self, result: Result<()>) {
        self.end.get_or_insert(result);
    }

    /// Begin another round. `false`: this one's end, or error, was not told yet.
    pub fn reopen(&mut self) -> bool {
        let told = std::mem::take(&mut self.told);
        if told {
            self.end = None;
            self.round += 1;
        }
        told
    }

    pub fn cancel(&mut self) -> Vec<M> {
        self.cancelled = true;
        std::iter::from_fn(|| self.drop_oldest()).collect()
    }

    pub fn set_holder(&mut self, index: usize, name: Arc<str>) {
        if let SlotState::Leased { holder, .. } = &mut self.entries[index].state {
            *holder = Some(name);
        }
    }

    pub fn was_told_end(&self) -> bool {
        self.told
    }

    pub fn round(&self) -> u64 {
        self.round
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn occupancy(&self) -> Occupancy {
        let mut o = Occupancy::default();
        for (index, entry) in self.entries.iter().enumerate() {
            match &entry.state {
                SlotState::Free => o.free += 1,
                SlotState::Writing => o.writing += 1,
                SlotState::Ready { .. } => o.ready += 1,
                SlotState::Leased { holder, since } => {
                    let name = holder.clone().unwrap_or_else(|| "a reader".into());
                    o.leased.push((index, name, since.elapsed()));
                }
                SlotState::Unmade => {}
            }
        }
        o
    }

    /// Take from the unread fillings the one that a `Latest` reader would miss least.
    ///
    /// The oldest, if a newer one is complete: no reader would take it any more. Otherwise the newest: a
    /// writer far ahead of its stream would else overwrite each filling before it could complete, and
    /// readers would never find one.
    fn least_wanted(&mut self) -> Option<usize> {
        let stale = self.ready.iter().skip(1).any(|&index| self.is_complete(index));
        if stale { self.ready.pop_front() } else { self.ready.pop_back() }
    }

    /// Whether nothing need be waited for before it is written.
    fn is_unused(&self, index: usize) -> bool {
        self.entries[index].wait.iter().all(F::is_done)
    }

    fn is_complete(&self, index: usize) -> bool {
        matches!(&self.entries[index].state, SlotState::Ready { ready, .. } if ready.is_done())
    }

    /// Free the oldest ready slot, unread.
    fn drop_oldest(&mut self) -> Option<M> {
        let index = self.ready.pop_front()?;
        let (ready, meta) = self.unready(index);
        self.counts.dropped += 1;
        self.entries[index] = Entry { state: SlotState::Free, wait: vec![ready] };
        self.free.push_back(index);
        Some(meta)
    }

    /// Take the filling out of a slot that was in `ready`.
    fn unready(&mut self, index: usize) -> (F, M) {
        match std::mem::replace(&mut self.entries[index].state, SlotState::Free) {
            SlotState::Ready { ready, meta } => (ready, meta),
            _ => unreachable!("only ready slots are queued"),
        }
    }
}

/// What the slots of a ring are doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Slots that may be written (perhaps after fences).
    pub free: usize,
    /// Slots being filled.
    pub writing: usize,
    /// Slots filled and not yet taken.
    pub ready: usize,
    /// Slots leased: number, holder, and for how long.
    pub leased: Vec<(usize, Arc<str>, Duration)>,
}

impl fmt::Display for Occupancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.free + self.writing + self.ready + self.leased.len();
        write!(
            f,
            "of {total} slots {} free, {} being filled, {} unread",
            self.free, self.writing, self.ready
        )?;
        for (index, holder, time) in &self.leased {
            write!(f, ", slot {index} held by {holder} for {time:.1?}")?;
        }
        Ok(())
    }
}
