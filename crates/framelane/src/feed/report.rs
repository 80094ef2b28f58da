//! Where a feed's time went.

use crate::device::Event;
use crate::stats::{Group, Recorder, Stage};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
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

/// Times of a feed since it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedReport {
    /// Batches copied to the device (enqueued).
    pub batches: u64,
    /// In the source.
    pub source: Duration,
    /// Converting, all converters together.
    pub convert: Duration,
    /// Converters.
    pub converters: usize,
    /// Copying, by the device's own events.
    pub copy: Duration,
    /// The consumer waited in [`super::Feeder::next_batch`].
    pub consumer_wait: Duration,
    /// The feed waited for the consumer to free a slot.
    pub held_back: Duration,
    /// Time since the feed was made.
    pub wall: Duration,
}

impl FeedReport {
    /// Which side the others wait for: the one that is busy for the largest part of the time. A consumer is
    /// busy whenever it is not waiting for a batch.
    pub fn limit(&self) -> Limit {
        let per_converter = self.convert / self.converters.max(1) as u32;
        // Without converters one thread does both, and its sum is what counts.
        let feeding = if self.converters == 0 { self.source + self.convert } else { self.source };
        let consuming = self.wall.saturating_sub(self.consumer_wait);
        let feeding_limit =
            if self.converters == 0 && self.convert > self.source { Limit::Convert } else { Limit::Source };
        let candidates = [
            (consuming, Limit::Consumer),
            (self.copy, Limit::Copy),
            (if self.converters > 0 { per_converter } else { Duration::ZERO }, Limit::Convert),
            (feeding, feeding_limit),
        ];
        candidates.into_iter().max_by_key(|c| c.0).map_or(Limit::Source, |c| c.1)
    }
}

impl fmt::Display for FeedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} batches in {:.1?}: source {:.1?}, convert {:.1?}, copy {:.1?}, consumer waited {:.1?}, feed held back {:.1?}; limited by the {}",
            self.batches,
            self.wall,
            self.source,
            self.convert,
            self.copy,
            self.consumer_wait,
            self.held_back,
            self.limit()
        )
    }
}

/// Adds a feed's times up as they come.
pub(super) struct Meter {
    start: Instant,
    converters: usize,
    feed: Arc<Group>,
    converting: Arc<Group>,
    copy: Arc<Group>,
    consumer_wait_ns: AtomicU64,
    held_back_ns: AtomicU64,
    batches: AtomicU64,
    /// Copies whose events may not have been reached yet.
    copies: Mutex<VecDeque<(Event, Event)>>,
}

impl Meter {
    pub fn new(recorder: Option<&Recorder>, converters: usize) -> Self {
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
            batches: AtomicU64::new(0),
            copies: Mutex::default(),
        }
    }

    pub fn busy(&self, stage: Stage, time: Duration) {
        let group = if stage == Stage::Convert { &self.converting } else { &self.feed };
        group.busy(stage, time);
    }

    pub fn consumer_waited(&self, time: Duration) {
        self.consumer_wait_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub fn held_back(&self, time: Duration) {
        self.held_back_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub fn copying(&self, begin: Event, done: Event) {
        self.batches.fetch_add(1, Relaxed);
        let mut copies = self.copies.lock().unwrap_or_else(|e| e.into_inner());
        copies.push_back((begin, done));
        self.harvest(&mut copies);
    }

    fn harvest(&self, copies: &mut VecDeque<(Event, Event)>) {
        while let Some(time) = copies.front().and_then(|(begin, done)| done.since(begin)) {
            self.copy.busy(Stage::Copy, time);
            copies.pop_front();
        }
    }

    pub fn report(&self) -> FeedReport {
        self.harvest(&mut self.copies.lock().unwrap_or_else(|e| e.into_inner()));
        FeedReport {
            batches: self.batches.load(Relaxed),
            source: self.feed.busy_of(Stage::Source),
            convert: self.converting.busy_of(Stage::Convert),
            converters: self.converters,
            copy: self.copy.busy_of(Stage::Copy),
            consumer_wait: Duration::from_nanos(self.consumer_wait_ns.load(Relaxed)),
            held_back: Duration::from_nanos(self.held_back_ns.load(Relaxed)),
            wall: self.start.elapsed(),
        }
    }
}
