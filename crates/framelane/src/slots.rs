//! Memory of rings: slots that grow inside a stated budget.

use crate::batch::ALIGNMENT;
use crate::device::{Buffer, Device, Event, HostWrite, Memory};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::Arena;
use std::sync::{Arc, Mutex};

/// A limit on the bytes of one kind of memory that a ring's slots hold together.
#[derive(Debug)]
pub(crate) struct Budget {
    owner: Arc<str>,
    memory: Memory,
    limit: usize,
    /// What one slot may take ahead of need, so that the others get as much.
    share: usize,
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
        Self { owner, memory, limit, share: limit / slots.max(1), state: Mutex::default() }
    }

    /// A buffer of at least `bytes`, taking the place of one of `old` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Budget`], with the sum, before anything is allocated.
    fn replace(&self, device: &Device, old: usize, bytes: usize) -> Result<Buffer> {
        let mut used = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        let others = used.bytes - old;
        let sum = others.saturating_add(bytes);
        if bytes > self.limit.saturating_sub(others) {
            let memory = match self.memory {
                Memory::Pinned => "pinned",
                Memory::Device => "device",
            };
            return Err(Error::new(
                ErrorKind::Budget,
                format!(
                    "the {memory} memory of {:?} would grow to {sum} bytes (a slot of {bytes} and {others} in the others), but its budget is {}: raise the budget or lower the depth",
                    self.owner, self.limit
                ),
            ));
        }
        let buffer = device.alloc(bytes, self.memory)?;
        used.bytes = sum;
        used.largest = used.largest.max(bytes);
        Ok(buffer)
    }

    fn largest(&self) -> usize {
        self.state.lock().unwrap_or_else(|e| e.into_inner()).largest
    }
}

/// One slot's memory: nothing until it is first used, then as much as the largest batch needed.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    buffer: Mutex<Option<Buffer>>,
}

impl Slot {
    /// The slot's buffer, replaced by a larger one if it has less than `bytes`.
    ///
    /// Replacing is safe while work still uses the old buffer: work holds what it uses.
    pub fn at_least(&self, device: &Device, budget: &Budget, bytes: usize) -> Result<Buffer> {
        let mut slot = self.buffer.lock().unwrap_or_else(|e| e.into_inner());
        let old = slot.as_ref().map_or(0, Buffer::len);
        match &*slot {
            Some(buffer) if old >= bytes => Ok(buffer.clone()),
            _ => {
                // As large as the largest so far, ahead of need: within the slot's share, and if it fits.
                let wanted = bytes.max(budget.largest().min(budget.share));
                let buffer =
                    budget.replace(device, old, wanted).or_else(|_| budget.replace(device, old, bytes))?;
                *slot = Some(buffer.clone());
                Ok(buffer)
            }
        }
    }
}

/// A pinned slot while a source fills it.
pub(crate) struct PinnedArena<'a> {
    device: &'a Device,
    budget: &'a Budget,
    slot: &'a Slot,
    /// The last copies out of it, all done.
    copied: &'a [Event],
    mapped: Option<HostWrite>,
}

impl<'a> PinnedArena<'a> {
    pub fn new(device: &'a Device, budget: &'a Budget, slot: &'a Slot, copied: &'a [Event]) -> Self {
        Self { device, budget, slot, copied, mapped: None }
    }
}

impl Arena for PinnedArena<'_> {
    fn ensure(&mut self, bytes: usize, keep: usize) -> Result<()> {
        let have = self.mapped.as_ref().map_or(0, |m| m.len());
        if self.mapped.is_some() && have >= bytes {
            return Ok(());
        }
        // Doubling, as far as the slot's share of the budget allows: a batch of many tensors asks for a little
        // more each time. Never beyond it: what is taken ahead of need would be missing in another slot.
        let wanted = bytes.max(have.saturating_mul(2).min(self.budget.share));
        // The old memory is kept until there is new: a source that is refused may go on with less.
        let buffer = self.slot.at_least(self.device, self.budget, wanted)?;
        let mut fresh = buffer.write_host_after(self.copied)?;
        if let Some(old) = &self.mapped {
            fresh[..keep].copy_from_slice(&old[..keep]);
        }
        self.mapped = Some(fresh);
        Ok(())
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.mapped.as_deref_mut().unwrap_or(&mut [])
    }
}
