//! Memory of rings: slots that grow inside a stated budget.
//!
//! The budget bounds what the slots hold at any time, also while one grows: its old memory is let go before the
//! new is made. What must be kept of it waits in ordinary memory meanwhile. Memory that a slot has let go while
//! somebody still uses it (work enqueued on the device, or a frame that is just being given up) goes with its last
//! user, and is not counted: a budget cannot be met by waiting, which only the feed may do, and only for its own
//! pinned slot. Pinned slots are never let go so: their copies are waited for before they are filled.

use crate::batch::ALIGNMENT;
use crate::device::{Buffer, Device, Event, HostWrite, Memory};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::Arena;
use std::sync::{Arc, Mutex, MutexGuard};

/// A limit on the bytes of one kind of memory that a ring's slots hold together.
#[derive(Debug)]
pub(crate) struct Budget {
    owner: Arc<str>,
    memory: Memory,
    limit: usize,
    /// What one slot may take ahead of need, so that the others get as much.
    share: usize,
    /// Bytes of every slot from the start, if their addresses are never to change.
    fixed: Option<usize>,
    state: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    /// Size of the largest slot so far: what a fresh slot starts with.
    largest: usize,
}

impl Budget {
    /// A limit for at most `slots` slots together.
    pub fn new(owner: Arc<str>, memory: Memory, limit: usize, slots: usize) -> Self {
        Self { owner, memory, limit, share: limit / slots.max(1), fixed: None, state: Mutex::default() }
    }

    /// Every slot has so many bytes, and keeps its memory.
    pub fn fixed(self, bytes: Option<usize>) -> Self {
        Self { fixed: bytes, ..self }
    }

    /// Count a slot of at least `bytes` in place of one of `old` bytes. How large it is to be.
    ///
    /// # Errors
    /// As [`Budget::check`].
    fn reserve(&self, old: usize, bytes: usize) -> Result<usize> {
        let mut used = self.lock();
        let (bytes, others) = self.fit(&used, old, bytes)?;
        used.bytes = others + bytes;
        Ok(bytes)
    }

    /// Whether a slot of `old` bytes may become one of `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Budget`], with the sum.
    fn check(&self, old: usize, bytes: usize) -> Result<()> {
        self.fit(&self.lock(), old, bytes).map(|_| ())
    }

    /// The size of a slot of at least `bytes` in place of one of `old`, and of all others together.
    fn fit(&self, used: &Used, old: usize, bytes: usize) -> Result<(usize, usize)> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        let others = used.bytes - old;
        if bytes <= self.limit.saturating_sub(others) {
            return Ok((bytes, others));
        }
        let memory = match self.memory {
            Memory::Pinned => "pinned",
            Memory::Device => "device",
        };
        let sum = others.saturating_add(bytes);
        Err(Error::new(
            ErrorKind::Budget,
            format!(
                "the {memory} memory of {:?} would grow to {sum} bytes (a slot of {bytes} and {others} in the others), but its budget is {}: raise the budget or lower the depth",
                self.owner, self.limit
            ),
        ))
    }

    /// What was reserved is there.
    fn made(&self, bytes: usize) {
        let mut used = self.lock();
        used.largest = used.largest.max(bytes);
    }

    /// What was reserved could not be made, and what was there in its place is gone.
    fn lost(&self, bytes: usize) {
        let mut used = self.lock();
        used.bytes -= bytes;
        // It may have been the largest: the next that grows will tell.
        used.largest = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Size of the largest slot.
    pub fn largest(&self) -> usize {
        self.lock().largest
    }
}

/// One slot's memory: nothing until it is first used, then as much as the largest batch needed.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    buffer: Mutex<Option<Buffer>>,
}

impl Slot {
    /// The slot's buffer, replaced by a larger one if it has less than `bytes`. Nothing of it is kept then.
    ///
    /// Replacing is safe while work still uses the old buffer: work holds what it uses.
    pub fn at_least(&self, device: &Device, budget: &Budget, bytes: usize) -> Result<Buffer> {
        let mut slot = self.lock();
        if let Some(buffer) = slot.as_ref().filter(|b| b.len() >= bytes) {
            return Ok(buffer.clone());
        }
        if let Some(fixed) = budget.fixed {
            if bytes <= fixed {
                return Self::replace(&mut slot, device, budget, fixed);
            }
            return Err(Error::new(
                ErrorKind::Budget,
                format!(
                    "a batch of {bytes} bytes does not fit into the slots of {:?}, which keep the {fixed} bytes they were made with: give more as `slot_bytes`",
                    budget.owner
                ),
            ));
        }
        // As large as the largest so far, ahead of need: within the slot's share, and if it fits.
        let wanted = bytes.max(budget.largest().min(budget.share));
        Self::replace(&mut slot, device, budget, wanted)
            .or_else(|_| Self::replace(&mut slot, device, budget, bytes))
    }

    /// # Errors
    /// [`ErrorKind::Budget`], before anything is changed; of the device, and then the slot has nothing.
    fn replace(slot: &mut Option<Buffer>, device: &Device, budget: &Budget, bytes: usize) -> Result<Buffer> {
        let bytes = budget.reserve(slot.as_ref().map_or(0, Buffer::len), bytes)?;
        // Before there is a new one: the two together are not reserved.
        *slot = None;
        let buffer = device.alloc(bytes, budget.memory).inspect_err(|_| budget.lost(bytes))?;
        budget.made(bytes);
        Ok(slot.insert(buffer).clone())
    }

    fn bytes(&self) -> usize {
        self.lock().as_ref().map_or(0, Buffer::len)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Buffer>> {
        self.buffer.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A pinned slot while a source fills it.
///
/// The source writes straight into pinned memory, unless the batch turns out to be larger than the slot when some
/// of it is written already. Then the rest goes to ordinary memory, and the slot is made as large as the whole
/// batch is in the end: not step by step, with what was kept copied from one pinned buffer to the next.
pub(crate) struct PinnedArena<'a> {
    device: &'a Device,
    budget: &'a Budget,
    slot: &'a Slot,
    /// The last copies out of it, all done.
    copied: &'a [Event],
    mapped: Option<HostWrite>,
    /// The batch so far, if it has outgrown the slot.
    outgrown: Option<Vec<u8>>,
}

impl<'a> PinnedArena<'a> {
    pub fn new(device: &'a Device, budget: &'a Budget, slot: &'a Slot, copied: &'a [Event]) -> Self {
        Self { device, budget, slot, copied, mapped: None, outgrown: None }
    }

    /// The batch is written: see that its `bytes` bytes are in the slot.
    ///
    /// # Errors
    /// Of the budget or the device, if the batch has outgrown the slot.
    pub fn finish(self, bytes: usize) -> Result<()> {
        let Self { device, budget, slot, copied, mapped, outgrown } = self;
        let Some(batch) = outgrown else { return Ok(()) };
        drop(mapped);
        let buffer = slot.at_least(device, budget, bytes)?;
        buffer.write_host_after(copied)?[..bytes].copy_from_slice(&batch[..bytes]);
        Ok(())
    }
}

impl Arena for PinnedArena<'_> {
    fn ensure(&mut self, bytes: usize, keep: usize) -> Result<()> {
        if self.bytes_mut().len() >= bytes {
            return Ok(());
        }
        if keep == 0 && self.outgrown.is_none() {
            // What maps the old memory would hold it.
            self.mapped = None;
            let buffer = self.slot.at_least(self.device, self.budget, bytes)?;
            self.mapped = Some(buffer.write_host_after(self.copied)?);
            return Ok(());
        }
        // Refused here, a source may go on with less.
        self.budget.check(self.slot.bytes(), bytes)?;
        let mut fresh = Vec::new();
        let batch = self.outgrown.as_mut().unwrap_or(&mut fresh);
        batch.try_reserve(bytes - batch.len()).map_err(|e| {
            Error::new(ErrorKind::Device, format!("there is no room for a batch of {bytes} bytes")).because(e)
        })?;
        if batch.is_empty() {
            batch.extend_from_slice(&self.mapped.as_deref().unwrap_or(&[])[..keep]);
        }
        batch.resize(bytes, 0);
        self.outgrown.get_or_insert(fresh);
        Ok(())
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.outgrown {
            Some(batch) => batch,
            None => self.mapped.as_deref_mut().unwrap_or(&mut []),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LIMIT: usize = 2048;

    fn budget(memory: Memory) -> Budget {
        Budget::new("test".into(), memory, LIMIT, 1)
    }

    fn held(device: &Device) -> usize {
        let counters = device.counters();
        (counters.pinned_bytes + counters.device_bytes) as usize
    }

    /// What `device` held whenever it ran something while `body` did what it does: an allocation lets it run a
    /// little, before the memory is made.
    fn held_during(device: &Device, body: impl FnOnce()) -> Vec<usize> {
        let stream = device.stream("watch").unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..50 {
            let (theirs, seen) = (device.clone(), seen.clone());
            let look = move |_: &mut crate::device::Kernel<'_>| {
                seen.lock().unwrap().push(held(&theirs));
                Ok(())
            };
            stream.launch("look", &[], look).unwrap();
        }
        seen.lock().unwrap().clear();
        body();
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        device.run_until_idle();
        seen
    }

    /// As large as the budget while there was less before: nothing else can be held when it is made.
    fn grows_alone(grow: impl Fn(&Device) -> Vec<usize>) {
        let seen: Vec<_> = (0..30).flat_map(|seed| grow(&Device::simulated(seed))).collect();
        assert!(seen.len() > 10, "it was looked at {} times", seen.len());
        assert!(seen.iter().all(|&held| held == 0 || held == LIMIT), "old and new at once: {seen:?}");
    }

    #[test]
    fn a_slot_that_grows_lets_its_old_memory_go_first() {
        grows_alone(|device| {
            let (slot, budget) = (Slot::default(), budget(Memory::Device));
            slot.at_least(device, &budget, LIMIT / 2).unwrap();
            let seen = held_during(device, || assert!(slot.at_least(device, &budget, LIMIT).is_ok()));
            assert_eq!(held(device), LIMIT);
            seen
        });
    }

    /// So does a pinned one that is mapped, while nothing in it must be kept.
    #[test]
    fn a_mapped_slot_that_grows_lets_its_old_memory_go_first() {
        grows_alone(|device| {
            let (slot, budget) = (Slot::default(), budget(Memory::Pinned));
            let mut arena = PinnedArena::new(device, &budget, &slot, &[]);
            arena.ensure(LIMIT / 2, 0).unwrap();
            let seen = held_during(device, || arena.ensure(LIMIT, 0).unwrap());
            assert_eq!((held(device), arena.bytes_mut().len()), (LIMIT, LIMIT));
            seen
        });
    }

    /// The batch is kept, in ordinary memory; the slot is large enough and no larger.
    #[test]
    fn a_batch_that_outgrows_its_slot_is_kept() {
        grows_alone(|device| {
            let (slot, budget) = (Slot::default(), budget(Memory::Pinned));
            let mut arena = PinnedArena::new(device, &budget, &slot, &[]);
            let mut have = 0;
            for bytes in [300, 900, 1500, LIMIT] {
                arena.ensure(bytes, have).unwrap();
                arena.bytes_mut()[have..bytes].fill(bytes as u8);
                have = bytes;
                assert!(held(device) < LIMIT);
            }
            assert_eq!(arena.ensure(LIMIT + 1, have).unwrap_err().kind(), ErrorKind::Budget);
            let seen = held_during(device, || arena.finish(LIMIT).unwrap());
            assert_eq!(held(device), LIMIT);
            let buffer = slot.at_least(device, &budget, LIMIT).unwrap();
            let bytes = buffer.read_host().unwrap();
            for (range, byte) in [(0..300, 300), (300..900, 900), (900..1500, 1500), (1500..LIMIT, LIMIT)] {
                assert!(bytes[range].iter().all(|&b| b == byte as u8));
            }
            seen
        });
    }

    /// What the device refuses does not count, and what went to make room for it does not either.
    #[test]
    fn what_could_not_be_made_is_not_counted() {
        let device = Device::host();
        let (slots, budget) =
            ([Slot::default(), Slot::default()], Budget::new("test".into(), Memory::Device, usize::MAX, 2));
        slots[0].at_least(&device, &budget, 1000).unwrap();
        slots[1].at_least(&device, &budget, 500).unwrap();
        let refused = slots[0].at_least(&device, &budget, usize::MAX / 4).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Device);
        assert_eq!((budget.lock().bytes, held(&device)), (1024, 1024));
        slots[0].at_least(&device, &budget, 100).unwrap();
        assert_eq!((budget.lock().bytes, held(&device)), (1024 + 256, 1024 + 256));
    }
}
