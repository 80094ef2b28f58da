//! How the consumer's side and the feed's thread tell each other what to do and what is being done.

use crate::error::{Error, ErrorKind, Result};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What the feed's thread is doing: named when it does not stop in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Source,
    Rewind,
    Slot,
    Converters,
    Idle,
}

#[derive(Debug)]
pub(super) enum Command {
    Rewind,
    Stop,
}

#[derive(Debug)]
struct State {
    activity: Activity,
    since: Instant,
    stop: bool,
    rewind: bool,
    rewound: Option<Result<bool>>,
    finished: bool,
}

#[derive(Debug)]
pub(super) struct Control {
    state: Mutex<State>,
    wake: Condvar,
}

impl Control {
    pub fn new() -> Self {
        let state = State {
            activity: Activity::Idle,
            since: Instant::now(),
            stop: false,
            rewind: false,
            rewound: None,
            finished: false,
        };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The feed's thread: from now on I am doing this.
    pub fn doing(&self, activity: Activity) {
        let mut state = self.lock();
        state.activity = activity;
        state.since = Instant::now();
    }

    pub fn stopping(&self) -> bool {
        self.lock().stop
    }

    pub fn stop(&self) {
        self.lock().stop = true;
        self.wake.notify_all();
    }

    /// The feed's thread, at the end of an epoch: what now?
    pub fn next_command(&self) -> Command {
        self.doing(Activity::Idle);
        let mut state = self.lock();
        loop {
            if state.stop {
                return Command::Stop;
            }
            if std::mem::take(&mut state.rewind) {
                return Command::Rewind;
            }
            state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// The feed's thread: the answer to [`Control::rewind`].
    pub fn rewound(&self, result: Result<bool>) {
        self.lock().rewound = Some(result);
        self.wake.notify_all();
    }

    /// The consumer: rewind, and wait for the answer.
    pub fn rewind(&self) -> Result<bool> {
        let mut state = self.lock();
        if !state.stop {
            state.rewind = true;
            state.rewound = None;
            self.wake.notify_all();
        }
        loop {
            if state.finished || state.stop {
                return Err(Error::new(ErrorKind::Cancelled, "the feed was cancelled: it cannot be rewound"));
            }
            if let Some(result) = state.rewound.take() {
                return result;
            }
            state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// The feed's thread: the last thing it does.
    pub fn finished(&self) {
        self.lock().finished = true;
        self.wake.notify_all();
    }

    /// Wait until the thread has finished, at most for `limit`; otherwise say what it is stuck in.
    pub fn await_finished(&self, name: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        let mut state = self.lock();
        while !state.finished {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                let stuck = match state.activity {
                    Activity::Source => "its source has not returned from `next_into`",
                    Activity::Rewind => "its source has not returned from `rewind`",
                    Activity::Converters => "a converter has not returned",
                    Activity::Slot => "it waits for a copy to finish on the device",
                    Activity::Idle => "its thread was not scheduled",
                };
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "feed {name:?} did not stop within {limit:.1?}: {stuck} for {:.1?}",
                        state.since.elapsed()
                    ),
                ));
            }
            state = self.wake.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        Ok(())
    }
}
