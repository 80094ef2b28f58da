//! When the frames of a file are due.

use std::time::{Duration, Instant};

/// Later than this, playback goes on from now instead of rushing to catch up.
const SLACK: Duration = Duration::from_millis(100);

/// Says when each frame of a recorded stream is due, so that a file plays at its own speed.
///
/// Pacing lives with whoever feeds a pane, not in the window: only the feeder knows whether its
/// stream is recorded (paced) or live (shown as it comes). Ask [`Pace::due`] for each frame, wait with
/// [`TensorPane::wait_until`](crate::TensorPane::wait_until), then show.
///
/// A frame that comes more than 100 ms late (a slow network, a paused window) moves the clock:
/// what follows keeps its distance to that frame. A time that runs backwards (a file that starts
/// again) goes on one frame's distance after the frame before.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    pts: Duration,
    due: Instant,
    step: Duration,
}

impl Pace {
    /// A clock that starts with the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// When the frame with presentation time `pts` is due, asked at `now`: never much before `now`
    /// for a late frame, so that lateness is not made up by rushing.
    pub fn due(&mut self, pts: Duration, now: Instant) -> Instant {
        let (due, step) = match self.last {
            None => (now, Duration::ZERO),
            Some(last) => {
                let step = pts.checked_sub(last.pts).unwrap_or(last.step);
                let due = last.due + step;
                (if now > due + SLACK { now } else { due }, step)
            }
        };
        self.last = Some(Last { pts, due, step });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn frames_keep_their_distance() {
        let (start, mut pace) = (Instant::now(), Pace::new());
        // Each frame is asked for a little after the one before was due: no drift comes of it.
        for n in 0..1000 {
            let due = pace.due(40 * n * MS, start + (40 * n).saturating_sub(17) * MS);
            assert_eq!(due, start + 40 * n * MS);
        }
    }

    #[test]
    fn a_little_late_catches_up_and_very_late_does_not() {
        let (start, mut pace) = (Instant::now(), Pace::new());
        pace.due(Duration::ZERO, start);
        assert_eq!(pace.due(40 * MS, start + 90 * MS), start + 40 * MS);
        assert_eq!(pace.due(80 * MS, start + 500 * MS), start + 500 * MS);
        assert_eq!(pace.due(120 * MS, start + 501 * MS), start + 540 * MS);
    }

    #[test]
    fn a_file_that_starts_again_goes_on() {
        let (start, mut pace) = (Instant::now(), Pace::new());
        pace.due(Duration::ZERO, start);
        pace.due(40 * MS, start);
        assert_eq!(pace.due(Duration::ZERO, start + 41 * MS), start + 80 * MS);
        assert_eq!(pace.due(40 * MS, start + 81 * MS), start + 120 * MS);
    }
}
