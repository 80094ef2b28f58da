//! Where a feed's time went: by the CPU's clock for the source, by the device's own events for what it did.

use crate::batch::Reading;
use crate::device::{self, Event};
use crate::stats::{Group, Recorder, Stage};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// What limits a feed's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The source: reading, decoding.
    Source,
    /// Conversion into the batch's form.
    Convert,
    /// The copy to the device.
    Copy,
    /// The consumer: the feed waits for it.
    Consumer,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Source => "source",
            Limit::Convert => "convert",
            Limit::Copy => "copy",
            Limit::Consumer => "consumer",
        })
    }
}

/// Times of a feed since it was made, or since its epoch began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedReport {
    /// Batches copied to the device (enqueued).
    pub batches: u64,
    /// In the source.
    pub source: Duration,
    /// Converting on the CPU, all converters together.
    pub convert: Duration,
    /// Converters.
    pub converters: usize,
    /// Copying, by the device's own events.
    pub copy: Duration,
    /// Converting on the device, by its events.
    pub device_convert: Duration,
    /// The consumer's thread waited in [`super::Feeder::next_batch`].
    pub consumer_wait: Duration,
    /// The consumer's streams stood still until a batch was there, by their events: of several streams that
    /// read one batch, the longest; of [`crate::lanes`], the mean of all lanes.
    pub compute_wait: Duration,
    /// The consumer's streams worked on batches, from their being there to their release, by their events: of
    /// several streams that read one batch, the longest; of [`crate::lanes`], the mean of all lanes.
    pub compute: Duration,
    /// How often a thread that takes batches waited for the device, and how long. The feed makes no such wait.
    pub consumer_syncs: (u64, Duration),
    /// The feed waited for the consumer to free a slot.
    pub held_back: Duration,
    /// Time since the feed was made, or its epoch began.
    pub wall: Duration,
}

/// Times of one batch; `None` while the device has not come so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchReport {
    /// Number of the batch.
    pub index: u64,
    /// In the source (0 with converters, which fetch ahead).
    pub source: Duration,
    /// Converting on the CPU.
    pub convert: Duration,
    /// Copying.
    pub copy: Option<Duration>,
    /// Converting on the device.
    pub device_convert: Option<Duration>,
    /// The consumer's stream stood still until the batch was there.
    pub compute_wait: Option<Duration>,
    /// The consumer's stream worked on it until its release.
    pub compute: Option<Duration>,
}

impl FeedReport {
    /// Which side the others wait for: the one that is busy for the largest part of the time. A consumer is
    /// busy while its thread is not waiting for a batch, and while its streams work on one.
    pub fn limit(&self) -> Limit {
        let per_converter = self.convert / self.converters.max(1) as u32;
        // Without converters one thread does both, and its sum is what counts.
        let feeding = if self.converters == 0 { self.source + self.convert } else { self.source };
        let consuming = self.wall.saturating_sub(self.consumer_wait).max(self.compute);
        let feeding_limit =
            if self.converters == 0 && self.convert > self.source { Limit::Convert } else { Limit::Source };
        let converting = if self.converters > 0 { per_converter } else { Duration::ZERO };
        let candidates = [
            (consuming, Limit::Consumer),
            (self.copy, Limit::Copy),
            (converting.max(self.device_convert), Limit::Convert),
            (feeding, feeding_limit),
        ];
        candidates.into_iter().max_by_key(|c| c.0).map_or(Limit::Source, |c| c.1)
    }

    /// What came after `earlier`, a report of the same feed.
    fn since(&self, earlier: &Self) -> Self {
        let (syncs, synced) = self.consumer_syncs;
        Self {
            batches: self.batches - earlier.batches,
            source: self.source - earlier.source,
            convert: self.convert - earlier.convert,
            converters: self.converters,
            copy: self.copy - earlier.copy,
            device_convert: self.device_convert - earlier.device_convert,
            consumer_wait: self.consumer_wait - earlier.consumer_wait,
            compute_wait: self.compute_wait - earlier.compute_wait,
            compute: self.compute - earlier.compute,
            consumer_syncs: (syncs - earlier.consumer_syncs.0, synced - earlier.consumer_syncs.1),
            held_back: self.held_back - earlier.held_back,
            wall: self.wall - earlier.wall,
        }
    }
}

/// Three lines.
impl fmt::Display for FeedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batches, wall, source, convert, copy, device_convert, .. } = self;
        let Self { consumer_wait, compute_wait, compute, held_back, .. } = self;
        let (syncs, synced) = self.consumer_syncs;
        writeln!(f, "{batches} batches in {wall:.1?}, limited by the {}", self.limit())?;
        write!(f, "  feed      source {source:.1?}, convert {convert:.1?}, copy {copy:.1?}")?;
        if !device_convert.is_zero() {
            write!(f, ", convert on the device {device_convert:.1?}")?;
        }
        writeln!(f, ", held back by the consumer {held_back:.1?}")?;
        write!(
            f,
            "  consumer  waited for batches {consumer_wait:.1?}; its streams waited {compute_wait:.1?}"
        )?;
        write!(f, ", worked {compute:.1?}; {syncs} waits for the device on its threads")?;
        if syncs > 0 {
            write!(f, " ({synced:.1?})")?;
        }
        Ok(())
    }
}

/// Adds a feed's times up as they come.
pub(crate) struct Meter {
    start: Instant,
    converters: usize,
    feed: Arc<Group>,
    converting: Arc<Group>,
    copy: Arc<Group>,
    consumer_wait_ns: AtomicU64,
    held_back_ns: AtomicU64,
    device: Mutex<OnDevice>,
    consumers: Mutex<Consumers>,
    /// What had been counted when the epoch began.
    epoch: Mutex<Option<FeedReport>>,
}

/// What is told by events, some of which may not have been reached yet.
#[derive(Default)]
struct OnDevice {
    batches: u64,
    copies: VecDeque<Copied>,
    readings: VecDeque<BatchRead>,
    convert: Duration,
    compute_wait: Duration,
    compute: Duration,
    recent: VecDeque<BatchReport>,
}

/// A batch on its way to the device.
pub(super) struct Copied {
    pub index: u64,
    /// By the CPU's clock: in the source, and converting.
    pub filled: (Duration, Duration),
    pub begin: Event,
    pub copied: Event,
    /// The end of the conversion on the device, if there is one.
    pub converted: Option<Event>,
}

/// What read one batch.
struct BatchRead {
    index: u64,
    /// One for each stream.
    readings: Vec<Reading>,
    /// Streams that share the batches, each of which this one's work is a part of.
    lanes: u32,
}

/// Waits for the device on the threads that take batches.
#[derive(Default)]
struct Consumers {
    /// What each had waited when it last took one.
    seen: HashMap<ThreadId, (u64, Duration)>,
    syncs: (u64, Duration),
}

/// Readings that wait to be added up. More of them only if a stream stands still for ever while others go on: its
/// times are given up then.
const MAX_READINGS: usize = 1024;

/// Batches whose own times are kept.
const RECENT: usize = 256;

impl OnDevice {
    /// Add up what the device has reached; hands the time of copies on.
    fn harvest(&mut self, copied: impl Fn(Duration)) {
        while let Some(first) = self.copies.front() {
            let Some(copy) = first.copied.since(&first.begin) else { break };
            let convert = match first.converted.as_ref().map(|end| end.since(&first.copied)) {
                None => Duration::ZERO,
                Some(Some(convert)) => convert,
                Some(None) => break,
            };
            copied(copy);
            self.convert += convert;
            let index = first.index;
            self.copies.pop_front();
            self.note(index, |b| (b.copy, b.device_convert) = (Some(copy), Some(convert)));
        }
        while let Some(BatchRead { index, readings, lanes }) = self.readings.front() {
            let times = readings.iter().map(|r| Some((r.there.since(&r.asked)?, r.end.since(&r.there)?)));
            let Some(times) = times.collect::<Option<Vec<_>>>() else { break };
            let longest = |time: fn(&(Duration, Duration)) -> Duration| {
                times.iter().map(time).max().unwrap_or_default()
            };
            let (index, lanes, wait, work) = (*index, *lanes, longest(|t| t.0), longest(|t| t.1));
            self.readings.pop_front();
            self.compute_wait += wait / lanes;
            self.compute += work / lanes;
            // Several jobs may read one batch.
            let plus = |sum: Option<Duration>, time| Some(sum.unwrap_or_default() + time);
            self.note(index, |b| {
                (b.compute_wait, b.compute) = (plus(b.compute_wait, wait), plus(b.compute, work));
            });
        }
    }

    fn note(&mut self, index: u64, note: impl FnOnce(&mut BatchReport)) {
        if let Some(batch) = self.recent.iter_mut().rev().find(|b| b.index == index) {
            note(batch);
        }
    }
}

impl Meter {
    pub(super) fn new(recorder: Option<&Recorder>, converters: usize) -> Self {
        let own = Recorder::default();
        let recorder = recorder.unwrap_or(&own);
        let feed = recorder.group(Stage::Source, 1);
        Self {
            start: Instant::now(),
            converters,
            converting: if converters > 0 {
                recorder.group(Stage::Convert, converters)
            } else {
                feed.clone()
            },
            feed,
            copy: recorder.group(Stage::Copy, 1),
            consumer_wait_ns: AtomicU64::new(0),
            held_back_ns: AtomicU64::new(0),
            device: Mutex::default(),
            consumers: Mutex::default(),
            epoch: Mutex::default(),
        }
    }

    pub(super) fn busy(&self, stage: Stage, time: Duration) {
        let group = if stage == Stage::Convert { &self.converting } else { &self.feed };
        group.busy(stage, time);
    }

    /// The calling thread takes batches, and waited so long for one.
    pub(super) fn consumer_waited(&self, time: Duration) {
        self.consumer_wait_ns.fetch_add(time.as_nanos() as u64, Relaxed);
        let now = device::waits_of_this_thread();
        let mut consumers = self.consumers.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(before) = consumers.seen.insert(std::thread::current().id(), now) {
            consumers.syncs.0 += now.0 - before.0;
            consumers.syncs.1 += now.1 - before.1;
        }
    }

    pub(super) fn held_back(&self, time: Duration) {
        self.held_back_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// A batch's copy was enqueued. On the feed's thread: it is the one with time to add up.
    pub(super) fn copying(&self, copied: Copied) {
        let mut device = self.device();
        device.batches += 1;
        if device.recent.len() == RECENT {
            device.recent.pop_front();
        }
        let (source, convert) = copied.filled;
        device.recent.push_back(BatchReport { index: copied.index, source, convert, ..Default::default() });
        device.copies.push_back(copied);
        self.harvest(&mut device);
    }

    /// A batch was read, and by one of `lanes` streams if they share the batches.
    pub fn read(&self, index: u64, readings: Vec<Reading>, lanes: usize) {
        let lanes = u32::try_from(lanes).unwrap_or(u32::MAX).max(1);
        let mut device = self.device();
        if device.readings.len() == MAX_READINGS {
            device.readings.pop_front();
        }
        device.readings.push_back(BatchRead { index, readings, lanes });
    }

    fn harvest(&self, device: &mut OnDevice) {
        device.harvest(|time| self.copy.busy(Stage::Copy, time));
    }

    fn device(&self) -> MutexGuard<'_, OnDevice> {
        self.device.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Another epoch begins.
    pub(super) fn begin_epoch(&self) {
        let so_far = self.report();
        *self.epoch.lock().unwrap_or_else(|e| e.into_inner()) = Some(so_far);
    }

    pub(super) fn epoch(&self) -> FeedReport {
        let all = self.report();
        self.epoch.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map_or(all.clone(), |e| all.since(e))
    }

    pub(super) fn recent(&self) -> Vec<BatchReport> {
        let mut device = self.device();
        self.harvest(&mut device);
        device.recent.iter().copied().collect()
    }

    pub(super) fn report(&self) -> FeedReport {
        let mut device = self.device();
        self.harvest(&mut device);
        FeedReport {
            batches: device.batches,
            source: self.feed.busy_of(Stage::Source),
            convert: self.converting.busy_of(Stage::Convert),
            converters: self.converters,
            copy: self.copy.busy_of(Stage::Copy),
            device_convert: device.convert,
            consumer_wait: Duration::from_nanos(self.consumer_wait_ns.load(Relaxed)),
            compute_wait: device.compute_wait,
            compute: device.compute,
            consumer_syncs: self.consumers.lock().unwrap_or_else(|e| e.into_inner()).syncs,
            held_back: Duration::from_nanos(self.held_back_ns.load(Relaxed)),
            wall: self.start.elapsed(),
        }
    }
}
