//! What a display and its panes tell each other besides pictures: that there is one, that nothing follows, that nobody
//! looks any more; and what became of a picture.

use crate::link::{Link, Wake};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What became of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// It was drawn, and handed to the screen if there is one.
    Presented,
    /// A newer one was drawn in its place.
    Overtaken,
    /// It was taken while the window was minimised or covered, so nobody saw it.
    Hidden,
    /// The display was closed before it was drawn.
    Closed,
    /// The display did not take it: it held every slot, or the picture makes no sense to it, or is larger than its adapter
    /// can draw. Of a [`WorkerPane`](crate::WorkerPane) alone.
    Refused,
    /// The pane was dropped before it knew. Of a [`WorkerPane`](crate::WorkerPane) alone.
    Left,
}

type Then = Box<dyn FnOnce(Seen) + Send>;

/// Tells the producer of one picture what became of it: once, at the latest when nobody has the picture any more.
#[derive(Default)]
pub(super) struct Told(Mutex<Option<Then>>);

impl Told {
    pub fn new(then: Option<Then>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(then)))
    }

    /// The first word counts.
    pub fn tell(&self, seen: Seen) {
        let then = lock(&self.0).take();
        if let Some(then) = then {
            then(seen);
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.tell(Seen::Closed);
    }
}

/// Shared by a display and all of its panes.
pub(super) struct Watch {
    closed: Mutex<bool>,
    changed: Condvar,
    /// Panes that have no producer any more.
    ended: AtomicUsize,
    /// Of the window, if the display is one's.
    link: Option<Arc<Link>>,
}

impl Watch {
    pub fn new(link: Option<Arc<Link>>) -> Arc<Self> {
        Arc::new(Self {
            closed: Mutex::new(false),
            changed: Condvar::new(),
            ended: AtomicUsize::new(0),
            link,
        })
    }

    /// There is a picture.
    pub fn picture(&self) {
        if let Some(link) = &self.link
            && link.claim_wake()
        {
            link.wake(Wake::Picture);
        }
    }

    /// Panes that have no producer any more.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// Nobody looks any more.
    pub fn close(&self) {
        *lock(&self.closed) = true;
        self.changed.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        *lock(&self.closed)
    }

    /// Wait until `due`, or until closed: then `false`.
    pub fn open_until(&self, due: Instant) -> bool {
        let mut closed = lock(&self.closed);
        loop {
            if *closed {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            closed = self.changed.wait_timeout(closed, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch(closed: {})", self.is_closed())
    }
}

/// Tells the window that a pane has no producer any more, also when its thread panicked. To be dropped after the pane's
/// writer.
pub(super) struct EndOnDrop(pub Arc<Watch>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
        if let Some(link) = &self.0.link {
            link.wake(Wake::End);
        }
    }
}

// No code that can panic runs under these locks, so a poisoned one still holds good state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_picture_has_one_fate() {
        let (tell, heard) = channel();
        let told = |tell: &std::sync::mpsc::Sender<Seen>| {
            let tell = tell.clone();
            Told::new(Some(Box::new(move |seen| tell.send(seen).unwrap())))
        };
        let picture = told(&tell);
        picture.tell(Seen::Presented);
        picture.tell(Seen::Hidden);
        drop(picture);
        drop(told(&tell));
        drop(tell);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Seen::Presented, Seen::Closed]);
    }

    #[test]
    fn closing_wakes_whoever_waits() {
        let watch = Watch::new(None);
        assert!(watch.open_until(Instant::now()));
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| watch.open_until(Instant::now() + Duration::from_secs(600)));
            watch.close();
            assert!(!waiter.join().unwrap());
        });
        assert!(watch.is_closed());
    }
}
