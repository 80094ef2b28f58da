//! Stopping a run before its input ends.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A signal came; this is the exit code for it.
    Signal(u8),
    /// The window was closed.
    Window,
    /// Something failed; who asks knows what.
    Failure,
}

/// Stops a run. Clones stop the same run; any thread may ask, as often as it likes.
#[derive(Clone, Default)]
pub struct Stop {
    inner: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    why: Option<Why>,
    hooks: Vec<Box<dyn FnOnce() + Send>>,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ask the run to stop. The first reason counts.
    pub fn request(&self, why: Why) {
        let hooks = {
            let mut state = self.lock();
            state.why.get_or_insert(why);
            std::mem::take(&mut state.hooks)
        };
        hooks.into_iter().for_each(|hook| hook());
    }

    /// Why the run was stopped, if it was.
    pub fn why(&self) -> Option<Why> {
        self.lock().why
    }

    /// Call `hook` when the run is stopped, on the thread that asks; at once if it was stopped already.
    pub fn on_request(&self, hook: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.why.is_none() {
            state.hooks.push(Box::new(hook));
        } else {
            drop(state);
            hook();
        }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stop({:?})", self.why())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_first_reason_counts_and_each_hook_runs_once() {
        let (stop, ran) = (Stop::default(), Arc::new(AtomicU32::new(0)));
        let count = |ran: &Arc<AtomicU32>| {
            let ran = ran.clone();
            move || {
                ran.fetch_add(1, Ordering::Relaxed);
            }
        };
        stop.on_request(count(&ran));
        assert_eq!(stop.why(), None);
        stop.request(Why::Signal(130));
        stop.clone().request(Why::Failure);
        stop.on_request(count(&ran));
        assert_eq!((stop.why(), ran.load(Ordering::Relaxed)), (Some(Why::Signal(130)), 2));
    }
}
