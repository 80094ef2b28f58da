//! Filling slots and enqueuing copies: what the feed's thread does, without the thread.

use super::feeder::Options;
use super::report::Meter;
use super::source::SlotWriter;
use crate::batch::{Contents, Filled};
use crate::device::{Device, Event, Memory, Stream};
use crate::error::{Error, Result};
use crate::let_go::let_go;
use crate::ring::{self, Policy, Reader, WriteSlot, Writer};
use crate::slots::{Budget, PinnedArena, Slot};
use crate::stats::{Recorder, Stage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub(super) type PinnedSlot = WriteSlot<Slot, Event, ()>;
pub(super) type DeviceSlot = WriteSlot<Slot, Event, Filled>;

/// Shared by the thread that pulls, the converters, and the feeder.
pub(super) struct Loader {
    device: Device,
    stream: Stream,
    pinned: Writer<Slot, Event, ()>,
    /// Kept for its `cancel`, which ends a wait for a pinned slot; pinned slots are never published.
    pinned_reader: Reader<Slot, Event, ()>,
    pinned_budget: Budget,
    out: Writer<Slot, Event, Filled>,
    device_budget: Budget,
    next_index: AtomicU64,
    recorder: Option<Arc<Recorder>>,
    pub meter: Meter,
}

/// A pinned slot with a batch in it, not yet copied.
pub(super) struct Loaded {
    slot: PinnedSlot,
    contents: Contents,
}

impl Loader {
    /// The loader, and the reading side of its device slots.
    pub fn new(
        device: &Device,
        options: &Options,
        converters: usize,
    ) -> Result<(Self, Reader<Slot, Event, Filled>)> {
        let stream = device.stream(format!("feed {}", options.name))?;
        // One slot being filled (or one per converter) beside the one being copied.
        let pinned_slots = options.pinned_slots.unwrap_or(converters.max(1) + 1);
        let pinned_options =
            ring::Options::fixed(format!("{} (pinned)", options.name), Policy::Fifo, pinned_slots);
        let (pinned, pinned_reader) = ring::ring(pinned_options, |_| Ok(Slot::default()))?;
        let device_options = ring::Options {
            name: options.name.clone(),
            policy: options.policy,
            slots: options.depth,
            max_slots: options.max_depth.unwrap_or(options.depth),
        };
        let max_depth = device_options.max_slots;
        let (out, reader) = ring::ring(device_options, |_| Ok(Slot::default()))?;
        let loader = Self {
            device: device.clone(),
            stream,
            pinned,
            pinned_reader,
            pinned_budget: Budget::new(
                options.name.clone(),
                Memory::Pinned,
                options.pinned_budget,
                pinned_slots,
            ),
            out,
            device_budget: Budget::new(
                options.name.clone(),
                Memory::Device,
                options.device_budget,
                max_depth,
            ),
            next_index: AtomicU64::new(0),
            recorder: options.recorder.clone(),
            meter: Meter::new(options.recorder.as_deref(), converters),
        };
        Ok((loader, reader))
    }

    /// A pinned slot to fill. Waits, on the CPU, until its last copy is done.
    pub fn pinned_slot(&self) -> Result<PinnedSlot> {
        let slot = self.pinned.acquire()?;
        self.await_copies(slot)
    }

    /// As [`Loader::pinned_slot`], if a slot is free now.
    pub fn try_pinned_slot(&self) -> Result<Option<PinnedSlot>> {
        self.pinned.try_acquire()?.map(|slot| self.await_copies(slot)).transpose()
    }

    fn await_copies(&self, slot: PinnedSlot) -> Result<PinnedSlot> {
        for copied in slot.wait_for() {
            copied.synchronize("feed: copy out of the pinned slot")?;
        }
        Ok(slot)
    }

    /// Let `write` fill the slot. `None`: it says that there is no more. A panic becomes an error.
    ///
    /// The time counts for `stage`, less what the writer says was conversion.
    pub fn fill(
        &self,
        slot: PinnedSlot,
        stage: Stage,
        place: &str,
        write: impl FnOnce(&mut SlotWriter<'_>) -> Result<bool>,
    ) -> Result<Option<Loaded>> {
        let mut contents = Contents::default();
        let start = Instant::now();
        let more = {
            let mut arena = PinnedArena::new(&self.device, &self.pinned_budget, slot.payload());
            let mut writer = SlotWriter::new(&mut arena, &mut contents);
            let more = catch_unwind(AssertUnwindSafe(|| write(&mut writer)))
                .unwrap_or_else(|payload| Err(Error::from_panic(place, payload.as_ref())));
            match more {
                Ok(true) => arena.finish(contents.bytes()).map(|()| true),
                other => other,
            }
        };
        let busy = start.elapsed();
        self.meter.busy(stage, busy.saturating_sub(contents.convert));
        self.meter.busy(Stage::Convert, contents.convert);
        Ok(more?.then_some(Loaded { slot, contents }))
    }

    /// Copy a batch into a device slot and publish it. Blocks while there is no free slot.
    pub fn submit(&self, loaded: Loaded) -> Result<()> {
        let start = Instant::now();
        let slot = self.out.acquire();
        self.meter.held_back(start.elapsed());
        self.copy(loaded, slot?)
    }

    /// As [`Loader::submit`], if a slot is free now; otherwise the batch comes back.
    pub fn try_submit(&self, loaded: Loaded) -> Result<Option<Loaded>> {
        match self.out.try_acquire()? {
            Some(slot) => self.copy(loaded, slot).map(|()| None),
            None => Ok(Some(loaded)),
        }
    }

    fn copy(&self, loaded: Loaded, mut slot: DeviceSlot) -> Result<()> {
        // First of all: whatever fails below, the frame that was replaced is gone.
        self.count_dropped(slot.take_replaced().iter().len(), "replaced by a newer frame, unread");
        let Loaded { slot: pinned, contents } = loaded;
        let bytes = contents.bytes();
        let from = pinned.payload().at_least(&self.device, &self.pinned_budget, bytes)?;
        let to = slot.payload().at_least(&self.device, &self.device_budget, bytes)?;
        for read in slot.wait_for() {
            self.stream.wait(read)?;
        }
        let begin = self.stream.record()?;
        if bytes > 0 {
            self.stream.copy(&from, 0..bytes, &to, 0)?;
        }
        // From here on nothing may fail: both slots are in use until this event.
        let done = self.stream.record_anyway();
        self.meter.copying(begin, done.clone());
        if let Some(recorder) = &self.recorder {
            recorder.frame_in();
        }
        let index = self.next_index.fetch_add(1, Ordering::Relaxed);
        // Cancelled meanwhile: counted in, so counted out as well.
        let unread = slot.publish(done.clone(), Filled { contents, buffer: to, index });
        self.count_cancelled(unread.iter().len());
        pinned.recycle(vec![done]);
        Ok(())
    }

    /// The end of the epoch: readers get what is there, then the error, if any, once.
    pub fn finish(&self, result: Result<()>) {
        self.out.finish(result);
    }

    /// Another epoch, once a reader was told the end of this one.
    pub fn reopen(&self) -> Result<()> {
        self.out.reopen()
    }

    /// Count frames that a reader skipped for a newer one.
    pub fn count_skipped(&self, frames: usize) {
        self.count_dropped(frames, "skipped for a newer frame");
    }

    /// Count frames that were on the device, unread, when the feed was cancelled.
    pub fn count_cancelled(&self, frames: usize) {
        self.count_dropped(frames, "unread when the run was stopped");
    }

    fn count_dropped(&self, frames: usize, why: &str) {
        for recorder in self.recorder.iter() {
            (0..frames).for_each(|_| recorder.frame_dropped(why));
        }
    }

    /// End every wait for a slot.
    pub fn cancel(&self) {
        self.pinned_reader.cancel();
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let_go(vec![self.stream.clone()], "feed: last copies", "they wait for kernels of its consumer");
    }
}
