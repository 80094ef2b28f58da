//! Filling slots and enqueuing copies: what the feed's thread does, without the thread.

use super::feeder::Options;
use super::fill::Fillers;
use super::report::{Copied, Meter};
use super::source::{Position, SlotWriter};
use super::to_floats::ToFloats;
use crate::batch::{Batch, Contents, Filled};
use crate::device::{Buffer, Device, Event, Memory, Stream};
use crate::error::{Error, Result};
use crate::let_go::let_go;
use crate::ring::{self, Policy, ReadLease, Reader, WriteSlot, Writer};
use crate::slots::{Budget, PinnedArena, Slot};
use crate::stats::{Recorder, Stage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A pinned slot to fill; the last copies out of it are done.
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
    device_budget: Arc<Budget>,
    /// What the device does after each copy, on a stream of its own: the next copy need not wait for it.
    to_floats: Option<(ToFloats, Stream)>,
    fillers: Fillers,
    next_index: AtomicU64,
    progress: Mutex<Progress>,
    recorder: Option<Arc<Recorder>>,
    pub meter: Arc<Meter>,
}

/// How far readers are.
struct Progress {
    epoch: u64,
    /// Number of the epoch's first batch.
    first: u64,
    /// Number of the next batch to be taken.
    next: u64,
}

/// A pinned slot with a batch in it, not yet copied.
pub(super) struct Loaded {
    slot: PinnedSlot,
    contents: Contents,
    /// Time in the source, and converting.
    filled: (Duration, Duration),
}

impl Loader {
    /// The loader, and the reading side of its device slots.
    pub fn new(
        device: &Device,
        options: &Options,
        converters: usize,
    ) -> Result<(Self, Reader<Slot, Event, Filled>)> {
        let stream = device.stream(format!("feed {}", options.name))?;
        let to_floats = match options.to_floats {
            Some(how) => Some((how, device.stream(format!("convert {}", options.name))?)),
            None => None,
        };
        let Position { epoch, batch } = options.resume;
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
        let budget = Budget::new(
            options.name.clone(),
            Memory::Device,
            options.device_budget,
            device_options.max_slots,
        );
        let device_budget = Arc::new(budget.fixed(options.slot_bytes));
        let (memory, budget, fixed) = (device.clone(), device_budget.clone(), options.slot_bytes);
        let (out, reader) = ring::ring(device_options, move |_| {
            let slot = Slot::default();
            fixed.map(|bytes| slot.at_least(&memory, &budget, bytes)).transpose()?;
            Ok(slot)
        })?;
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
            device_budget,
            to_floats,
            fillers: Fillers::new(options.name.clone(), options.fill_threads)?,
            next_index: AtomicU64::new(batch),
            progress: Mutex::new(Progress { epoch, first: 0, next: batch }),
            recorder: options.recorder.clone(),
            meter: Arc::new(Meter::new(options.recorder.as_deref(), converters)),
        };
        Ok((loader, reader))
    }

    /// This thread will make many calls: let each cost a little less.
    pub fn attach_thread(&self) {
        if let Some(context) = self.device.cuda_context() {
            // Only for speed: should it fail, the first call says why.
            let _ = context.bind();
        }
    }

    /// A pinned slot to fill. Waits, on the CPU, until its last copy is done.
    pub fn pinned_slot(&self) -> Result<PinnedSlot> {
        self.await_copies(self.pinned.acquire()?)
    }

    /// As [`Loader::pinned_slot`], if a slot is free now.
    pub fn try_pinned_slot(&self) -> Result<Option<PinnedSlot>> {
        self.pinned.try_acquire()?.map(|slot| self.await_copies(slot)).transpose()
    }

    fn await_copies(&self, slot: PinnedSlot) -> Result<PinnedSlot> {
        for copied in slot.wait_for() {
            copied.synchronize_privately("feed: copy out of the pinned slot")?;
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
            let mut arena =
                PinnedArena::new(&self.device, &self.pinned_budget, slot.payload(), slot.wait_for());
            let mut writer = SlotWriter::with_fillers(&mut arena, &mut contents, &self.fillers);
            let more = catch_unwind(AssertUnwindSafe(|| write(&mut writer)))
                .unwrap_or_else(|payload| Err(Error::from_panic(place, payload.as_ref())));
            match more {
                Ok(true) => arena.finish(contents.bytes()).map(|()| true),
                other => other,
            }
        };
        let own = start.elapsed().saturating_sub(contents.convert);
        self.meter.busy(stage, own);
        self.meter.busy(Stage::Convert, contents.convert);
        let filled = match stage {
            Stage::Source => (own, contents.convert),
            _ => (Duration::ZERO, own + contents.convert),
        };
        Ok(more?.then_some(Loaded { slot, contents, filled }))
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
        let Loaded { slot: pinned, contents, filled } = loaded;
        // Counted first: what replaces it may find no room.
        self.count_dropped(slot.take_replaced().iter().len(), "replaced by a newer frame, unread");
        let bytes = contents.bytes();
        let (contents, steps) = match &self.to_floats {
            Some((how, _)) => how.plan(&contents)?,
            None => (contents, Vec::new()),
        };
        let from = pinned.payload().at_least(&self.device, &self.pinned_budget, bytes)?;
        let to = slot.payload().at_least(&self.device, &self.device_budget, contents.bytes())?;
        for read in slot.wait_for() {
            self.stream.wait(read)?;
        }
        let begin = self.stream.record_timed()?;
        if bytes > 0 {
            self.stream.copy(&from, 0..bytes, &to, 0)?;
        }
        // From here on both slots are in use until this event, whatever fails.
        let copied = self.stream.record_timed_anyway();
        pinned.recycle(vec![copied.clone()]);
        let converted = match self.convert(&copied, &to, &steps) {
            Ok(converted) => converted,
            Err((error, until)) => {
                slot.recycle([copied].into_iter().chain(until).collect());
                return Err(error);
            }
        };
        let ready = converted.clone().unwrap_or_else(|| copied.clone());
        let index = self.next_index.fetch_add(1, Ordering::Relaxed);
        self.meter.copying(Copied { index, filled, begin, copied, converted });
        if let Some(recorder) = &self.recorder {
            recorder.frame_in();
        }
        // Cancelled meanwhile: counted in, so counted out as well.
        let unread = slot.publish(ready, Filled { contents, buffer: to, index });
        self.count_cancelled(unread.iter().len());
        Ok(())
    }

    /// Enqueue what the device does after the copy; the event of its end. An error comes with the event of what
    /// had been enqueued before it.
    fn convert(
        &self,
        copied: &Event,
        slot: &Buffer,
        steps: &[super::to_floats::Step],
    ) -> Result<Option<Event>, (Error, Option<Event>)> {
        let Some((_, stream)) = self.to_floats.as_ref().filter(|_| !steps.is_empty()) else {
            return Ok(None);
        };
        stream.wait(copied).map_err(|e| (e, None))?;
        let enqueued = steps.iter().try_for_each(|step| step.enqueue(stream, slot));
        let end = stream.record_timed_anyway();
        match enqueued {
            Ok(()) => Ok(Some(end)),
            Err(error) => Err((error, Some(end))),
        }
    }

    /// The batch in a slot that was taken.
    pub fn batch(&self, mut lease: ReadLease<Slot, Event, Filled>) -> Batch {
        self.count_dropped(lease.take_skipped().len(), "skipped for a newer frame");
        let mut progress = self.progress();
        progress.next = progress.next.max(lease.meta().index + 1);
        drop(progress);
        Batch::new(lease, Some(self.meter.clone()))
    }

    /// The next batch to be taken.
    pub fn position(&self) -> Position {
        let progress = self.progress();
        Position { epoch: progress.epoch, batch: progress.next - progress.first }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The end of the epoch: readers get what is there, then the error, if any, once.
    pub fn finish(&self, result: Result<()>) {
        self.out.finish(result);
    }

    /// Another epoch, once a reader was told the end of this one.
    pub fn reopen(&self) -> Result<()> {
        self.out.reopen()?;
        // The last epoch was read to its end, and the next one's first batch is this thread's to publish.
        let mut progress = self.progress();
        progress.epoch += 1;
        progress.first = self.next_index.load(Ordering::Relaxed);
        progress.next = progress.first;
        drop(progress);
        self.meter.begin_epoch();
        Ok(())
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
        let converting = self.to_floats.iter().map(|(_, stream)| stream);
        let streams = [&self.stream].into_iter().chain(converting).cloned().collect();
        let_go(streams, "feed: last copies", "they wait for kernels of its consumer");
    }
}
