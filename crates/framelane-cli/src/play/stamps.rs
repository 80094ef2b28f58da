//! One clock and one count over inputs that each begin anew.

use framelane::frame::{FrameMeta, FrameRate};
use std::sync::Arc;
use std::time::Duration;

/// Renumbers frames: each input, and each time it is played again, goes on where the one before ended.
#[derive(Debug)]
pub struct Stamps {
    /// Gives times to frames that have none.
    rate: Option<FrameRate>,
    last: Option<Last>,
    index_offset: u64,
    /// Added to presentation times.
    time_offset: Duration,
}

#[derive(Debug)]
struct Last {
    source: Arc<str>,
    /// As the source gave it.
    index: u64,
    stamped: u64,
    pts: Option<Duration>,
    step: Duration,
}

impl Stamps {
    /// Frames without a presentation time get one by `rate`, if it is given.
    pub fn new(rate: Option<FrameRate>) -> Self {
        Self { rate, last: None, index_offset: 0, time_offset: Duration::ZERO }
    }

    /// The frame's identity in the whole run.
    pub fn stamp(&mut self, meta: &FrameMeta) -> FrameMeta {
        let own = meta.pts.or_else(|| {
            let rate = self.rate?;
            Some(Duration::from_secs_f64(meta.index as f64 * rate.period().as_secs_f64()))
        });
        if let Some(last) = &self.last
            && (meta.index <= last.index || meta.source != last.source)
        {
            self.index_offset = last.stamped + 1 - meta.index.min(last.stamped + 1);
            let next = last.pts.map_or(Duration::ZERO, |pts| pts + last.step);
            self.time_offset = next.saturating_sub(own.unwrap_or_default());
        }
        let pts = own.map(|own| own + self.time_offset);
        let stamped = meta.index + self.index_offset;
        let step = match (&self.last, pts) {
            (Some(Last { pts: Some(before), step, .. }), Some(pts)) => {
                pts.checked_sub(*before).filter(|s| !s.is_zero()).unwrap_or(*step)
            }
            _ => self.rate.map_or(Duration::from_millis(40), FrameRate::period),
        };
        self.last = Some(Last { source: meta.source.clone(), index: meta.index, stamped, pts, step });
        FrameMeta { index: stamped, pts, ..meta.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stamps: &mut Stamps, source: &str, frames: &[(u64, Option<u64>)]) -> Vec<(u64, Option<u128>)> {
        let stamp = |&(index, ms): &(u64, Option<u64>)| {
            let mut meta = FrameMeta::new(source, index);
            meta.pts = ms.map(Duration::from_millis);
            let stamped = stamps.stamp(&meta);
            (stamped.index, stamped.pts.map(|p| p.as_millis()))
        };
        frames.iter().map(stamp).collect()
    }

    #[test]
    fn goes_on_when_the_input_begins_again() {
        let mut stamps = Stamps::new(None);
        let pass = [(0, Some(0)), (1, Some(40)), (2, Some(100))];
        assert_eq!(run(&mut stamps, "a", &pass), [(0, Some(0)), (1, Some(40)), (2, Some(100))]);
        assert_eq!(run(&mut stamps, "a", &pass), [(3, Some(160)), (4, Some(200)), (5, Some(260))]);
        // Another input that begins late, its first frames dropped.
        assert_eq!(
            run(&mut stamps, "b", &[(7, Some(900)), (8, Some(950))]),
            [(7, Some(900)), (8, Some(950))]
        );
    }

    #[test]
    fn one_picture_for_ever() {
        let mut stamps = Stamps::new(Some(FrameRate { num: 10, den: 1 }));
        let got = run(&mut stamps, "a.png", &[(0, None), (0, None), (0, None)]);
        assert_eq!(got, [(0, Some(0)), (1, Some(100)), (2, Some(200))]);
    }

    #[test]
    fn no_clock_stays_no_clock() {
        let mut stamps = Stamps::new(None);
        assert_eq!(run(&mut stamps, "camera", &[(0, None), (5, None)]), [(0, None), (5, None)]);
    }
}
