//! Frames per second, and the ages of what was shown.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far back the rate and the mean age look.
const WINDOW: Duration = Duration::from_secs(1);
/// Frames remembered at most, however fast they come.
const MEMORY: usize = 512;
/// Buckets of the histogram per doubling of the age: a step of 4.4 %.
const PER_OCTAVE: f64 = 16.0;
/// 2^40 µs are twelve days.
const BUCKETS: usize = 40 * PER_OCTAVE as usize;

/// How old frames were when they were shown: from [`FrameMeta::captured`](framelane::frame::FrameMeta)
/// until they were handed to the screen. Exact within 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ages {
    /// Half of the frames were younger.
    pub p50: Duration,
    /// 95 of 100 frames were younger.
    pub p95: Duration,
    /// 99 of 100 frames were younger.
    pub p99: Duration,
}

/// What the overlay and the title say, taken over the last second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Rate {
    pub(crate) fps: f64,
    pub(crate) age: Duration,
}

#[derive(Debug)]
pub(crate) struct Meter {
    recent: VecDeque<(Instant, Duration)>,
    histogram: Vec<u64>,
    count: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { recent: VecDeque::with_capacity(MEMORY), histogram: vec![0; BUCKETS], count: 0 }
    }

    /// Count a frame shown `now` that was captured `age` ago.
    pub(crate) fn shown(&mut self, now: Instant, age: Duration) {
        if self.recent.len() == MEMORY {
            self.recent.pop_front();
        }
        self.recent.push_back((now, age));
        let octaves = (age.as_micros().max(1) as f64).log2();
        self.histogram[((octaves * PER_OCTAVE) as usize).min(BUCKETS - 1)] += 1;
        self.count += 1;
    }

    /// Rate and mean age over the second before `now`.
    pub(crate) fn rate(&mut self, now: Instant) -> Rate {
        // The frame just outside the window stays: the rate of a slow stream needs two frames.
        while self.recent.len() > 2 && now.saturating_duration_since(self.recent[1].0) > WINDOW {
            self.recent.pop_front();
        }
        let (Some(&(first, _)), Some(&(last, _))) = (self.recent.front(), self.recent.back()) else {
            return Rate::default();
        };
        let gaps = self.recent.len() - 1;
        let span = last.saturating_duration_since(first);
        let silent = now.saturating_duration_since(last) > WINDOW.max(2 * span);
        let fps = if silent || span.is_zero() { 0.0 } else { gaps as f64 / span.as_secs_f64() };
        let age = self.recent.iter().map(|&(_, age)| age).sum::<Duration>() / self.recent.len() as u32;
        Rate { fps, age }
    }

    /// `None` until something was shown.
    pub(crate) fn ages(&self) -> Option<Ages> {
        let percentile = |share: f64| {
            let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let bucket = self.histogram.iter().position(|n| {
                seen += n;
                seen >= wanted
            });
            // The middle of the bucket.
            bucket.map(|b| Duration::from_secs_f64(((b as f64 + 0.5) / PER_OCTAVE).exp2() / 1e6))
        };
        Some(Ages { p50: percentile(0.5)?, p95: percentile(0.95)?, p99: percentile(0.99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rate_of_a_steady_stream() {
        let (start, mut meter) = (Instant::now(), Meter::new());
        assert_eq!(meter.rate(start), Rate::default());
        for n in 0..300 {
            meter.shown(start + n * 40 * MS, 12 * MS);
        }
        let rate = meter.rate(start + 300 * 40 * MS);
        assert!((rate.fps - 25.0).abs() < 0.01, "{rate:?}");
        assert_eq!(rate.age, 12 * MS);
        assert_eq!(meter.rate(start + 300 * 40 * MS + 10 * WINDOW).fps, 0.0);
    }

    #[test]
    fn a_slow_stream_has_a_rate_too() {
        let (start, mut meter) = (Instant::now(), Meter::new());
        meter.shown(start, MS);
        meter.shown(start + 4000 * MS, MS);
        assert!((meter.rate(start + 4010 * MS).fps - 0.25).abs() < 1e-9);
    }

    #[test]
    fn ages_within_five_percent() {
        let (start, mut meter) = (Instant::now(), Meter::new());
        assert_eq!(meter.ages(), None);
        for n in 1..=1000 {
            meter.shown(start, n * MS);
        }
        let ages = meter.ages().unwrap();
        for (got, want) in [(ages.p50, 500.0), (ages.p95, 950.0), (ages.p99, 990.0)] {
            let got = got.as_secs_f64() * 1e3;
            assert!((got / want - 1.0).abs() < 0.05, "{got} instead of {want}");
        }
    }
}
