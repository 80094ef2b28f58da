//! Stopping a run before its input ends.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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
    /// What it is a part of.
    whole: Option<Whole>,
}

#[derive(Clone)]
struct Whole {
    inner: Weak<Mutex<State>>,
    /// Parts that have not failed.
    good: Arc<AtomicUsize>,
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

    /// The stops of runs side by side: what stops this one stops each, and so does a window or a signal that stops one of
    /// them. A failure stops its own run alone, and what came before it is still shown.
    pub fn split(&self, count: usize) -> Vec<Self> {
        let good = Arc::new(AtomicUsize::new(count));
        let part = || {
            let whole = Whole { inner: Arc::downgrade(&self.inner), good: good.clone() };
            let part = Self { whole: Some(whole), ..Self::default() };
            let (stopped, whole) = (part.clone(), self.clone());
            self.on_request(move || stopped.set(whole.why().unwrap_or(Why::Failure)));
            part
        };
        (0..count).map(|_| part()).collect()
    }

    /// The run failed. Whether others beside it go on, the first time that this is said.
    pub fn fail(&self) -> bool {
        let first = self.why().is_none();
        self.set(Why::Failure);
        self.whole.as_ref().is_some_and(|whole| first && whole.good.fetch_sub(1, Relaxed) > 1)
    }

    /// Ask all runs to stop. The first reason counts.
    pub fn request(&self, why: Why) {
        match self.whole() {
            Some(whole) => whole.set(why),
            None => self.set(why),
        }
    }

    fn whole(&self) -> Option<Self> {
        let inner = self.whole.as_ref()?.inner.upgrade()?;
        Some(Self { inner, whole: None })
    }

    fn set(&self, why: Why) {
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

    #[test]
    fn a_run_that_fails_does_not_stop_those_beside_it() {
        let whole = Stop::default();
        let parts = whole.split(3);
        let whys = |parts: &[Stop]| parts.iter().map(Stop::why).collect::<Vec<_>>();
        assert!(parts[1].fail() && !parts[1].fail(), "it is told once");
        assert_eq!((whole.why(), whys(&parts)), (None, vec![None, Some(Why::Failure), None]));
        parts[0].request(Why::Window);
        let window = Some(Why::Window);
        assert_eq!((whole.why(), whys(&parts)), (window, vec![window, Some(Why::Failure), window]));
        assert!(!parts[2].fail(), "it was stopped before");
    }

    #[test]
    fn a_run_alone_has_none_beside_it() {
        let (whole, late) = (Stop::default(), Stop::default());
        let alone = &whole.split(1)[0];
        assert!(!alone.fail());
        assert_eq!((alone.why(), whole.why()), (Some(Why::Failure), None));
        late.request(Why::Signal(130));
        assert_eq!(late.split(1)[0].why(), Some(Why::Signal(130)));
    }
}
