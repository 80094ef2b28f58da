//! What becomes of each frame: exactly one thing.

use framelane::stats::Recorder;
use framelane::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Frames that may fail, one after the other from the first on, before a run is given up.
const PATIENCE: u64 = 10;

/// Counts outcomes. Shared by all threads of a run.
#[derive(Debug)]
pub struct Tally {
    pub recorder: Arc<Recorder>,
    /// Age of the frame that went out last.
    last_age_us: AtomicU64,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    first: Option<Error>,
    /// Failed before any succeeded.
    from_the_start: u64,
    succeeded: bool,
}

impl Tally {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            recorder: Recorder::new(),
            last_age_us: AtomicU64::new(0),
            failures: Mutex::default(),
        })
    }

    /// Take responsibility for a frame that the feed has counted in.
    pub fn frame(self: &Arc<Self>) -> Fate {
        Fate { inner: Arc::new(FateInner { tally: self.clone(), settled: AtomicBool::new(false) }) }
    }

    /// Age of the frame that went out last.
    pub fn last_age(&self) -> Duration {
        Duration::from_micros(self.last_age_us.load(Relaxed))
    }

    /// Why the first frame that failed did so.
    pub fn first_failure(&self) -> Option<Error> {
        self.failures().first.clone()
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fate of one frame. Clones are of the same frame; the first word about it counts, and if nothing was
/// said when the last clone is dropped, the frame was dropped.
#[derive(Debug, Clone)]
pub struct Fate {
    inner: Arc<FateInner>,
}

#[derive(Debug)]
struct FateInner {
    tally: Arc<Tally>,
    settled: AtomicBool,
}

impl Fate {
    /// The network did its work.
    pub fn succeeded(&self) {
        self.inner.tally.failures().succeeded = true;
    }

    /// It went out, at this age.
    pub fn out(&self, age: Duration) {
        if self.inner.settle() {
            let us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
            self.inner.tally.last_age_us.store(us, Relaxed);
            self.inner.tally.recorder.frame_out(age);
        }
    }

    /// It was dropped.
    pub fn dropped(&self, why: &str) {
        if self.inner.settle() {
            self.inner.tally.recorder.frame_dropped(why);
        }
    }

    /// The network failed on it. The first failure of a run is told to `tell`.
    ///
    /// # Errors
    /// The failure itself, if it was the last of so many from the first frame on that no frame will succeed.
    pub fn failed(&self, error: Error, tell: impl FnOnce(&Error)) -> Result<()> {
        if self.inner.settle() {
            // The sentence names its frame, so it cannot serve as the reason that frames are counted by.
            self.inner.tally.recorder.frame_failed(match error.kind() {
                ErrorKind::Panic => "the network panicked",
                ErrorKind::Model | ErrorKind::Argument => "the network failed",
                ErrorKind::Budget => "there was not enough memory",
                _ => "the device failed",
            });
        }
        let mut failures = self.inner.tally.failures();
        let is_first = failures.first.is_none();
        failures.first.get_or_insert_with(|| error.clone());
        failures.from_the_start += 1;
        let hopeless = !failures.succeeded && failures.from_the_start >= PATIENCE;
        drop(failures);
        if hopeless {
            let first = self.inner.tally.first_failure().unwrap_or(error);
            return Err(first.context(format!("the first {PATIENCE} frames failed")));
        }
        if is_first {
            tell(&error);
        }
        Ok(())
    }
}

impl FateInner {
    /// Whether this was the first word.
    fn settle(&self) -> bool {
        !self.settled.swap(true, Relaxed)
    }
}

impl Drop for FateInner {
    fn drop(&mut self) {
        if self.settle() {
            self.tally.recorder.frame_dropped("unfinished when the run was stopped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Error {
        Error::new(ErrorKind::Model, "no")
    }

    #[test]
    fn each_frame_has_one_fate() {
        let tally = Tally::new();
        let frame = tally.frame();
        frame.out(Duration::from_millis(3));
        frame.dropped("late");
        drop(frame.clone());
        drop(tally.frame());
        tally.frame().dropped("late");
        tally.frame().failed(failure(), |_| {}).unwrap();
        let frames = tally.recorder.frames();
        assert_eq!((frames.out, frames.dropped, frames.failed), (1, 2, 1));
        assert_eq!(tally.last_age(), Duration::from_millis(3));
    }

    #[test]
    fn a_run_in_which_nothing_succeeds_is_given_up() {
        let tally = Tally::new();
        let mut told = 0;
        for n in 1..=PATIENCE {
            assert_eq!(tally.frame().failed(failure(), |_| told += 1).is_err(), n == PATIENCE);
        }
        assert_eq!(told, 1);
    }

    #[test]
    fn failures_after_a_success_are_borne() {
        let tally = Tally::new();
        tally.frame().succeeded();
        (0..100).for_each(|_| tally.frame().failed(failure(), |_| {}).unwrap());
        assert!(tally.first_failure().is_some());
    }
}
