//! Three slots between one pane and its presenter.
//!
//! One slot is being written, one is ready, one is on the screen: so neither side waits for the
//! other's memory, and no memory is allocated once the slots have grown to the frame's size.

use framelane::ring::Policy;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Slots a mailbox makes at most.
const SLOTS: usize = 3;

/// What became of a slot that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is ready for the presenter.
    Fresh,
    /// It is ready, and replaced one that the presenter had not taken.
    Replaced,
    /// Nobody will take it.
    Closed,
}

#[derive(Debug)]
struct State<T> {
    free: Vec<T>,
    made: usize,
    ready: Option<T>,
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    policy: Policy,
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T: Default> Mailbox<T> {
    pub(crate) fn new(policy: Policy) -> Self {
        let state = State { free: Vec::new(), made: 0, ready: None, closed: false };
        Self { policy, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A slot to write into; `None` once closed. Waits only for other writers of the same mailbox.
    pub(crate) fn lease(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(slot) = state.free.pop() {
                return Some(slot);
            }
            if state.made < SLOTS {
                state.made += 1;
                return Some(T::default());
            }
            state = self.wait(state);
        }
    }

    /// Make a written slot ready. `Fifo` waits until the one before has been taken.
    pub(crate) fn send(&self, slot: T) -> Sent {
        let mut state = self.lock();
        while self.policy == Policy::Fifo && state.ready.is_some() && !state.closed {
            state = self.wait(state);
        }
        if state.closed {
            return Sent::Closed;
        }
        let old = state.ready.replace(slot);
        let sent = if old.is_some() { Sent::Replaced } else { Sent::Fresh };
        state.free.extend(old);
        drop(state);
        self.changed.notify_all();
        sent
    }

    /// The newest ready slot; the presenter hands it back with [`Mailbox::give_back`].
    pub(crate) fn take(&self) -> Option<T> {
        let slot = self.lock().ready.take();
        if slot.is_some() {
            self.changed.notify_all();
        }
        slot
    }

    /// Whether a slot is ready.
    pub(crate) fn has_ready(&self) -> bool {
        self.lock().ready.is_some()
    }

    pub(crate) fn give_back(&self, slot: T) {
        self.lock().free.push(slot);
        self.changed.notify_all();
    }

    /// From now on nothing is taken; whoever waits is woken.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.ready = None;
        state.free.clear();
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Wait until `due`, or until closed: then `false`.
    pub(crate) fn open_until(&self, due: Instant) -> bool {
        let mut state = self.lock();
        loop {
            if state.closed {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    // No code that can panic runs under the lock, so a poisoned lock still holds good state.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn send(mailbox: &Mailbox<Vec<u8>>, n: u8) -> Sent {
        let mut slot = mailbox.lease().expect("open");
        slot.clear();
        slot.push(n);
        mailbox.send(slot)
    }

    #[test]
    fn latest_replaces_and_reuses_three_slots() {
        let mailbox = Mailbox::new(Policy::Latest);
        assert_eq!(send(&mailbox, 1), Sent::Fresh);
        let shown = mailbox.take().unwrap();
        for n in 2..100 {
            let sent = send(&mailbox, n);
            assert_eq!(sent, if n == 2 { Sent::Fresh } else { Sent::Replaced });
        }
        let newest = mailbox.take().unwrap();
        assert_eq!((shown[0], newest[0]), (1, 99));
        assert!(mailbox.take().is_none());
        assert!(mailbox.lock().made <= SLOTS);
    }

    #[test]
    fn fifo_holds_the_writer_until_the_frame_before_was_taken() {
        let mailbox = Mailbox::new(Policy::Fifo);
        let (sent, got) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..50 {
                    assert_eq!(send(&mailbox, n), Sent::Fresh);
                    sent.send(n).unwrap();
                }
            });
            for n in 0..50 {
                // Frame n is ready before frame n + 1 can have been accepted.
                assert_eq!(got.recv_timeout(Duration::from_secs(10)).unwrap(), n);
                assert!(got.try_recv().is_err());
                let slot = mailbox.take().unwrap();
                assert_eq!(slot[0], n);
                mailbox.give_back(slot);
            }
        });
    }

    #[test]
    fn closing_wakes_every_waiter() {
        let mailbox = Mailbox::new(Policy::Fifo);
        send(&mailbox, 0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| send(&mailbox, 1));
            let sleeper = scope.spawn(|| mailbox.open_until(Instant::now() + Duration::from_secs(60)));
            mailbox.close();
            // The writer may find the mailbox closed at either of its two steps.
            assert!(!matches!(writer.join(), Ok(Sent::Fresh | Sent::Replaced)));
            assert!(!sleeper.join().unwrap());
        });
        assert!(mailbox.lease().is_none() && mailbox.take().is_none() && mailbox.is_closed());
    }

    #[test]
    fn many_writers_share_the_slots() {
        let mailbox = Mailbox::new(Policy::Latest);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let mailbox = &mailbox;
                scope.spawn(move || (0..500).for_each(|_| assert_ne!(send(mailbox, n), Sent::Closed)));
            }
        });
        assert!(mailbox.has_ready());
        assert!(mailbox.lock().made <= SLOTS);
    }
}
