//! Where the time went, and what became of each frame.
//!
//! Work is done by *groups* of workers: the feed's thread, its converters, the copying stream, the lanes,
//! the sink's thread. A worker is either busy, on behalf of some [`Stage`], or waiting. The group whose
//! workers were busy for the largest part of the run is what held the others back; the stage it was busiest
//! with is the bottleneck.

use crate::device::Counters;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One stage of the way from source to screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Reading and decoding.
    Source,
    /// Changing form: colour, layout, element type, size.
    Convert,
    /// Copies between host and device.
    Copy,
    /// The network itself.
    Network,
    /// Showing, encoding or writing.
    Sink,
}

impl Stage {
    /// All stages, in the order a frame meets them.
    pub const ALL: [Stage; 5] = [Stage::Source, Stage::Convert, Stage::Copy, Stage::Network, Stage::Sink];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Source => "source",
            Stage::Convert => "convert",
            Stage::Copy => "copy",
            Stage::Network => "network",
            Stage::Sink => "sink",
        })
    }
}

/// Workers that do the same: their busy time, by stage.
#[derive(Debug)]
pub struct Group {
    main: Stage,
    workers: u64,
    busy_ns: [AtomicU64; Stage::ALL.len()],
}

impl Group {
    /// Count `time` of one worker's work for `stage`.
    pub fn busy(&self, stage: Stage, time: Duration) {
        self.busy_ns[stage as usize].fetch_add(nanos(time), Relaxed);
    }

    /// Run `f` and count its time as work for the group's main stage.
    pub fn time<R>(&self, f: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = f();
        self.busy(self.main, start.elapsed());
        result
    }

    pub(crate) fn busy_of(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.busy_ns[stage as usize].load(Relaxed))
    }

    fn busy_total(&self) -> Duration {
        Stage::ALL.iter().map(|&s| self.busy_of(s)).sum()
    }
}

/// Frames from which on the first and the last say how fast a run was; below, all of them over the whole run.
const ENOUGH_FOR_A_RATE: u64 = 24;

/// Gathers the figures of one run. Cheap to share and to call from any thread.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    groups: Mutex<Vec<Arc<Group>>>,
    frames_in: AtomicU64,
    outcomes: Mutex<Outcomes>,
}

#[derive(Debug, Default)]
struct Outcomes {
    out: u64,
    dropped: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    ages: Histogram,
    first_out: Option<Instant>,
    last_out: Option<Instant>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            groups: Mutex::default(),
            frames_in: AtomicU64::new(0),
            outcomes: Mutex::default(),
        }
    }
}

impl Recorder {
    /// A recorder whose run starts now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Add a group of `workers` workers whose waiting counts for stage `main`.
    pub fn group(&self, main: Stage, workers: usize) -> Arc<Group> {
        let group = Arc::new(Group { main, workers: workers as u64, busy_ns: Default::default() });
        self.groups.lock().unwrap_or_else(|e| e.into_inner()).push(group.clone());
        group
    }

    /// A frame came in.
    pub fn frame_in(&self) {
        self.frames_in.fetch_add(1, Relaxed);
    }

    /// A frame went out at this age (time since it was captured).
    pub fn frame_out(&self, age: Duration) {
        let now = Instant::now();
        let mut o = self.outcomes();
        o.out += 1;
        o.ages.add(age);
        o.first_out.get_or_insert(now);
        o.last_out = Some(now);
    }

    /// A frame was dropped, for this reason.
    pub fn frame_dropped(&self, why: &str) {
        *self.outcomes().dropped.entry(why.to_owned()).or_default() += 1;
    }

    /// A frame failed, for this reason.
    pub fn frame_failed(&self, why: &str) {
        *self.outcomes().failed.entry(why.to_owned()).or_default() += 1;
    }

    /// Frames in, out, dropped and failed so far.
    pub fn frames(&self) -> Frames {
        // In first: a frame counted out was counted in before.
        let o = self.outcomes();
        Frames {
            r#in: self.frames_in.load(Relaxed),
            out: o.out,
            dropped: o.dropped.values().sum(),
            failed: o.failed.values().sum(),
            dropped_by: o.dropped.clone(),
            failed_by: o.failed.clone(),
        }
    }

    /// Time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Sum it all up. `device` gives the bytes that were copied.
    pub fn report(&self, device: &Counters) -> Report {
        let wall = self.start.elapsed();
        let groups = self.groups.lock().unwrap_or_else(|e| e.into_inner());
        let stages = Stage::ALL
            .iter()
            .map(|&stage| {
                let busy: Duration = groups.iter().map(|g| g.busy_of(stage)).sum();
                let mine = groups.iter().filter(|g| g.main == stage);
                let workers: u64 = mine.clone().map(|g| g.workers).sum();
                let available: f64 = wall.as_secs_f64() * workers as f64;
                let worked: Duration = mine.map(|g| g.busy_total()).sum();
                StageReport {
                    name: stage,
                    busy_ms: busy.as_secs_f64() * 1e3,
                    wait_ms: (available - worked.as_secs_f64()).max(0.0) * 1e3,
                    workers,
                }
            })
            .collect();
        let busiest = groups
            .iter()
            .filter(|g| g.workers > 0)
            .map(|g| (g.busy_total().as_secs_f64() / g.workers as f64, g))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(busy, _)| *busy > 0.0);
        let bottleneck = busiest.and_then(|(_, g)| Stage::ALL.into_iter().max_by_key(|&s| g.busy_of(s)));
        let o = self.outcomes();
        // From the first frame out to the last: what a viewer sees, without start-up.
        let fps = match (o.first_out, o.last_out) {
            // Of a few frames the ends decide: lanes that finish together would make it absurd.
            (Some(first), Some(last)) if o.out >= ENOUGH_FOR_A_RATE && last > first => {
                (o.out - 1) as f64 / (last - first).as_secs_f64()
            }
            _ => o.out as f64 / wall.as_secs_f64().max(1e-9),
        };
        let age_ms = AgeReport {
            p50: o.ages.quantile(0.50).as_secs_f64() * 1e3,
            p95: o.ages.quantile(0.95).as_secs_f64() * 1e3,
            p99: o.ages.quantile(0.99).as_secs_f64() * 1e3,
        };
        drop(o);
        Report {
            frames: self.frames(),
            stages,
            bottleneck,
            fps,
            wall_s: wall.as_secs_f64(),
            age_ms,
            bytes: BytesReport { to_device: device.to_device, from_device: device.from_device },
        }
    }

    fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What became of the frames.
    pub frames: Frames,
    /// Time per stage.
    pub stages: Vec<StageReport>,
    /// The stage that held the others back, if any worked at all.
    pub bottleneck: Option<Stage>,
    /// Frames out per second, from the first to the last; of fewer than 24, over the whole run.
    pub fps: f64,
    /// Seconds from start to report.
    pub wall_s: f64,
    /// Ages of the frames when they went out.
    pub age_ms: AgeReport,
    /// Bytes copied between host and device.
    pub bytes: BytesReport,
}

/// What became of the frames. Once a run is over, `in` = `out` + `dropped` + `failed`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Frames {
    /// Came in.
    pub r#in: u64,
    /// Went out.
    pub out: u64,
    /// Dropped.
    pub dropped: u64,
    /// Failed.
    pub failed: u64,
    /// Dropped, by reason.
    pub dropped_by: BTreeMap<String, u64>,
    /// Failed, by reason.
    pub failed_by: BTreeMap<String, u64>,
}

/// Time of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageReport {
    /// Which.
    pub name: Stage,
    /// Time spent on it by all workers together, in milliseconds.
    pub busy_ms: f64,
    /// Time that its own workers spent waiting, in milliseconds.
    pub wait_ms: f64,
    /// Its own workers. 0: others do this stage on the side.
    pub workers: u64,
}

/// Percentiles of ages, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AgeReport {
    /// Half of the frames were younger.
    pub p50: f64,
    /// 95 of 100 were younger.
    pub p95: f64,
    /// 99 of 100 were younger.
    pub p99: f64,
}

/// Bytes copied between host and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BytesReport {
    /// Host to device.
    pub to_device: u64,
    /// Device to host.
    pub from_device: u64,
}

/// Counts of durations in buckets that widen by an eighth of a power of two: constant memory, and
/// quantiles exact to 12 %.
#[derive(Debug)]
struct Histogram {
    buckets: Vec<u64>,
    max: Duration,
}

const SUBS: u32 = 8;

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; 64 * SUBS as usize], max: Duration::ZERO }
    }
}

impl Histogram {
    fn bucket(ns: u64) -> usize {
        if ns < u64::from(SUBS) {
            return ns as usize;
        }
        let exponent = ns.ilog2();
        let mantissa = (ns >> (exponent - SUBS.ilog2())) as u32 & (SUBS - 1);
        ((exponent - SUBS.ilog2() + 1) * SUBS + mantissa) as usize
    }

    /// The least duration above bucket `index`.
    fn upper(index: usize) -> u64 {
        let (exponent, mantissa) = (index as u32 / SUBS, u64::from(index as u32 % SUBS));
        match exponent {
            0 => mantissa + 1,
            _ => (u64::from(SUBS) + mantissa + 1).checked_shl(exponent - 1).unwrap_or(u64::MAX),
        }
    }

    fn add(&mut self, value: Duration) {
        self.buckets[Self::bucket(nanos(value))] += 1;
        self.max = self.max.max(value);
    }

    /// The smallest bucket bound that `q` of the values do not exceed; zero if there are none.
    fn quantile(&self, q: f64) -> Duration {
        let total: u64 = self.buckets.iter().sum();
        let rank = (q * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Duration::from_nanos(Self::upper(index)).min(self.max);
            }
        }
        Duration::ZERO
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn quantiles_are_near() {
        let mut h = Histogram::default();
        (1..=1000).for_each(|n| h.add(Duration::from_micros(n)));
        for (q, exact) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (1.0, 1000.0)] {
            let got = h.quantile(q).as_secs_f64() * 1e6;
            assert!((exact..=exact * 1.125).contains(&got), "{q}: {got} for {exact}");
        }
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn buckets_are_ordered_and_hold_their_values() {
        let mut last = 0;
        for ns in (0..5000).chain([u64::MAX / 2, u64::MAX]) {
            let b = Histogram::bucket(ns);
            assert!(b >= last && ns < Histogram::upper(b) || ns == u64::MAX, "{ns} in {b}");
            last = b;
        }
    }

    #[test]
    fn names_the_stage_that_its_workers_are_busiest_with() {
        for slow in Stage::ALL {
            let r = Recorder::new();
            let feed = r.group(Stage::Source, 1);
            let copy = r.group(Stage::Copy, 1);
            let lanes = r.group(Stage::Network, 2);
            let sink = r.group(Stage::Sink, 1);
            let time = |s| if s == slow { ms(900) } else { ms(90) };
            feed.busy(Stage::Source, time(Stage::Source));
            feed.busy(Stage::Convert, time(Stage::Convert));
            copy.busy(Stage::Copy, time(Stage::Copy));
            // Two lanes: twice the time is the same load.
            lanes.busy(Stage::Network, time(Stage::Network) * 2);
            sink.busy(Stage::Sink, time(Stage::Sink));
            assert_eq!(r.report(&Counters::default()).bottleneck, Some(slow));
        }
    }

    /// Lanes share their load: twice the time in two of them is not more than once in one.
    #[test]
    fn workers_of_a_group_share_its_load() {
        let r = Recorder::new();
        r.group(Stage::Network, 2).busy(Stage::Network, ms(1200));
        r.group(Stage::Sink, 1).busy(Stage::Sink, ms(900));
        assert_eq!(r.report(&Counters::default()).bottleneck, Some(Stage::Sink));
    }

    #[test]
    fn nothing_done_has_no_bottleneck() {
        let r = Recorder::new();
        r.group(Stage::Source, 1);
        let report = r.report(&Counters::default());
        assert_eq!((report.bottleneck, report.frames.out, report.age_ms.p99), (None, 0, 0.0));
        assert!(report.stages[0].wait_ms > 0.0);
    }

    #[test]
    fn the_rate_of_a_few_frames_is_over_the_whole_run() {
        let recorder = Recorder::new();
        std::thread::sleep(ms(20));
        (0..3).for_each(|_| recorder.frame_out(ms(1)));
        let report = recorder.report(&Counters::default());
        assert!(report.fps <= 3.0 / 0.020, "{}", report.fps);
        // Of many, start-up does not count.
        (0..40).for_each(|_| recorder.frame_out(ms(1)));
        assert!(recorder.report(&Counters::default()).fps > 43.0 / 0.020);
    }

    #[test]
    fn outcomes_add_up_by_reason() {
        let r = Recorder::new();
        (0..4).for_each(|_| r.frame_in());
        r.frame_out(ms(5));
        r.frame_dropped("late");
        r.frame_dropped("late");
        r.frame_failed("model");
        let f = r.frames();
        assert_eq!((f.r#in, f.out + f.dropped + f.failed, f.dropped_by["late"]), (4, 4, 2));
    }
}
