//! A slot of a window's that a worker may write.

use super::memory::{SharedMemory, write_rows};
use super::page::{self, About};
use crate::frame::ImageSize;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A slot for one picture, RGBA8 in rows that are [`Self::pitch`] bytes apart. Clones are the same: one may travel to
/// whatever writes it.
#[derive(Debug, Clone)]
pub struct WorkerSlot {
    memory: Arc<SharedMemory>,
    index: usize,
    number: u64,
    replaces: Option<u64>,
    about: About,
}

impl WorkerSlot {
    pub(super) fn new(
        memory: Arc<SharedMemory>,
        index: usize,
        number: u64,
        replaces: Option<u64>,
        about: About,
    ) -> Self {
        Self { memory, index, number, replaces, about }
    }

    /// The memory that it is in.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    /// Which slot.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The picture's number among all of this worker: from 1, growing.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Width and height of the picture.
    pub fn size(&self) -> ImageSize {
        self.about.size
    }

    /// Bytes from row to row.
    pub fn pitch(&self) -> usize {
        self.about.pitch
    }

    /// Write the picture, whose rows are [`Self::pitch`] bytes apart in `rgba`, too; nothing if the slot is a device's.
    pub fn write(&self, rgba: &[u8]) {
        if let Some(words) = self.words() {
            write_rows(words, self.pitch(), rgba, self.size());
        }
    }

    /// Say that the picture is there: what was written before is seen by who sees this.
    pub fn raise(&self) {
        page::raise(self.memory.page.words(), self.index, self.number);
    }

    pub(super) fn words(&self) -> Option<&[AtomicU64]> {
        self.memory.host_slots().map(|slots| slots[self.index].words())
    }

    /// The unseen picture that was in it.
    pub(super) fn replaces(&self) -> Option<u64> {
        self.replaces
    }

    /// When its picture was captured, in the time that both processes see.
    pub(super) fn captured(&self) -> u64 {
        self.about.captured
    }

    pub(super) fn publish(self) {
        page::publish(self.memory.page.words(), self.index, self.number, &self.about);
    }

    pub(super) fn abandon(self) {
        page::abandon(self.memory.page.words(), self.index, self.number);
    }
}
