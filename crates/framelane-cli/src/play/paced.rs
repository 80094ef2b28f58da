//! A recording that comes as live pictures do: each frame when it is due.

use super::stamps::Stamps;
use framelane::Result;
use framelane::feed::{Interrupter, SlotWriter, Source};
use framelane::frame::{FrameMeta, FrameRate};
use framelane_show::Pace;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Gives each frame when it is due. Under `Latest` a screen that waited for frames would only make them old: so the source
/// is what is paced, and what comes too fast for the network is dropped, as a camera's.
pub struct Paced {
    source: Box<dyn Source>,
    stamps: Stamps,
    pace: Pace,
    stopped: Arc<(Mutex<bool>, Condvar)>,
}

impl Paced {
    /// Frames without a presentation time get one by `rate`; without one of either, frames come as they do.
    pub fn new(source: Box<dyn Source>, rate: Option<FrameRate>) -> Self {
        Self { source, stamps: Stamps::new(rate), pace: Pace::new(), stopped: Arc::default() }
    }

    /// Wait until then, or until the feed stops.
    fn wait_until(&self, due: Instant) {
        let (stopped, changed) = &*self.stopped;
        let mut stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if *stopped || left.is_zero() {
                return;
            }
            stopped = changed.wait_timeout(stopped, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Source for Paced {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if !self.source.next_into(slot)? {
            return Ok(false);
        }
        if let Some(meta) = slot.meta().cloned()
            && let Some(pts) = self.stamps.stamp(&meta).pts
        {
            let due = self.pace.due(pts, Instant::now());
            self.wait_until(due);
            // It was decoded ahead of its time, which does not make it old.
            slot.set_meta(FrameMeta { captured: Instant::now(), ..meta });
        }
        Ok(true)
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let (inner, stopped) = (self.source.interrupter(), self.stopped.clone());
        Some(Arc::new(move || {
            *stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            stopped.1.notify_all();
            inner.iter().for_each(|interrupt| interrupt());
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::playlist::Playlist;
    use framelane::feed::Contents;
    use framelane_media::{OpenOptions, open};
    use std::time::Duration;

    fn paced(input: &str) -> Paced {
        let source = open(input, &OpenOptions { frames: Some(4), ..OpenOptions::default() }).unwrap();
        Paced::new(Box::new(Playlist::new(vec![source], false, None).unwrap()), None)
    }

    fn next(source: &mut Paced) -> Option<FrameMeta> {
        let (mut arena, mut contents) = (Vec::new(), Contents::default());
        source
            .next_into(&mut SlotWriter::new(&mut arena, &mut contents))
            .unwrap()
            .then(|| contents.meta.unwrap())
    }

    #[test]
    fn frames_come_when_they_are_due() {
        let (mut source, start) = (paced("testsrc:16x16@50"), Instant::now());
        let frames: Vec<_> = std::iter::from_fn(|| next(&mut source)).collect();
        assert_eq!(frames.iter().map(|meta| meta.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(start.elapsed() >= Duration::from_millis(60));
        for pair in frames.windows(2) {
            assert!(pair[1].captured - pair[0].captured >= Duration::from_millis(10), "{frames:?}");
        }
    }

    #[test]
    fn stopping_ends_the_wait() {
        // A frame in five minutes.
        let mut source = paced("testsrc:16x16@1/300");
        let interrupt = source.interrupter().unwrap();
        assert!(next(&mut source).is_some());
        std::thread::scope(|s| {
            let waiting = s.spawn(|| next(&mut source));
            interrupt();
            assert!(waiting.join().unwrap().is_some());
        });
        let start = Instant::now();
        assert!(next(&mut source).is_some() && start.elapsed() < Duration::from_secs(60));
    }
}
