//! What is seen while a run goes on: a bar for recordings, a line for streams.

use crate::console;
use crate::play::Tally;
use framelane::{Error, ErrorKind, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks at the counters.
const TICK: Duration = Duration::from_millis(100);
/// Between two lines where no line can be redrawn (a log file).
const LINE: Duration = Duration::from_secs(5);
/// The rate is that of this last while.
const WINDOW: Duration = Duration::from_secs(2);

/// Shows the progress of a run, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begin. `frames`: how many there will be, if that is known.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if there is no thread for it.
    pub fn start(tally: Arc<Tally>, frames: Option<u64>) -> Result<Self> {
        let (end, ended) = channel();
        let bar = console::is_live().then(|| bar(frames));
        console::set_bar(bar.clone());
        let every = if bar.is_some() { TICK } else { LINE };
        let show = move || {
            let mut rate = Rate::default();
            rate.at(Instant::now(), 0);
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let counts = tally.recorder.frames();
                let done = counts.out + counts.dropped + counts.failed;
                let fps = rate.at(Instant::now(), counts.out);
                let mut line = format!("{fps:.1} fps, {} old", age(tally.last_age()));
                for (n, what) in [(counts.dropped, "dropped"), (counts.failed, "failed")] {
                    if n > 0 {
                        line += &format!(", {n} {what}");
                    }
                }
                match (&bar, frames) {
                    (Some(bar), _) => {
                        bar.set_position(done);
                        bar.set_message(line);
                    }
                    (None, Some(all)) => console::say(&format!("{done} of {all} frames, {line}")),
                    (None, None) => console::say(&format!("{done} frames, {line}")),
                }
            }
        };
        let thread = std::thread::Builder::new().name("progress".into()).spawn(show).map_err(|e| {
            Error::new(ErrorKind::Device, format!("the system gives no thread (progress): {e}")).because(e)
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It holds nothing that could fail.
            let _ = thread.join();
        }
        console::set_bar(None);
    }
}

fn bar(frames: Option<u64>) -> ProgressBar {
    let (bar, template) = match frames {
        Some(frames) => (ProgressBar::new(frames), "{bar:24} {pos}/{len}  {msg}, {eta} left"),
        None => (ProgressBar::no_length(), "{elapsed}  {pos} frames  {msg}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.set_style(
        ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("##."),
    );
    bar
}

/// An age with about two figures.
fn age(age: Duration) -> String {
    match age.as_secs_f64() * 1e3 {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

/// Frames per second over the last while.
#[derive(Debug, Default)]
struct Rate {
    seen: VecDeque<(Instant, u64)>,
}

impl Rate {
    fn at(&mut self, now: Instant, count: u64) -> f64 {
        while self.seen.len() > 1 && now.saturating_duration_since(self.seen[0].0) > WINDOW {
            self.seen.pop_front();
        }
        self.seen.push_back((now, count));
        let (then, before) = self.seen[0];
        let time = now.saturating_duration_since(then).as_secs_f64();
        if time > 0.0 { count.saturating_sub(before) as f64 / time } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_forgets() {
        let (start, mut rate) = (Instant::now(), Rate::default());
        let mut last = 0.0;
        for tick in 0..100 {
            // 10 a second for five seconds, then 100.
            let count = if tick <= 50 { u64::from(tick) } else { 50 + 10 * (u64::from(tick) - 50) };
            last = rate.at(start + TICK * tick, count);
            if tick == 50 {
                assert!((last - 10.0).abs() < 0.1, "{last}");
            }
        }
        assert!((last - 100.0).abs() < 1.0, "{last}");
    }

    #[test]
    fn ages_are_short() {
        let text = |us| age(Duration::from_micros(us));
        assert_eq!(
            (text(1_234), text(56_700), text(2_340_000)),
            ("1.2 ms".into(), "57 ms".into(), "2.3 s".into())
        );
    }
}
