//! The control page between processes under loom: every interleaving, with at most a few preemptions, of a worker that
//! shows some frames and a window that takes some. Loom's atomics find out whether one side sees what the other wrote
//! before, as the page's orderings promise.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p framelane --release --test loom_share --target-dir target/loom`

#![cfg(all(loom, unix))]

use framelane::frame::ImageSize;
use framelane::share::Fate;
use framelane::share::fates::{self, Entry};
use framelane::share::page::{self, About, Look, PAGE_BYTES, SourceName, Words};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, Ordering::Relaxed};
use std::sync::atomic::AtomicU64 as Plain;

enum Word {
    /// One whose visibility is checked, and a turn that is taken before each access. loom looks for other orders only
    /// of an access and the last one before it, so a thread's load would hide another's from the exchange that follows;
    /// turns, which order no memory, make all of them conflict.
    Loom(AtomicU64, AtomicU64),
    /// One of many that are written beside it: each as loom's would multiply the interleavings.
    Plain(Plain),
}

/// The page, and one word of pixels for each slot.
struct Shared {
    page: Vec<Word>,
    pixels: Vec<AtomicU64>,
    in_use: Vec<AtomicBool>,
}

/// State, index and `done` of a slot, as `page` lays them out; of the log its count, and the entries that a test writes.
fn is_checked(at: usize, slots: usize) -> bool {
    (32..32 + slots * 32).contains(&at) && matches!(at % 32, 0 | 3 | 8) || matches!(at, 1..6 | 30..32)
}

impl Shared {
    fn new(slots: usize) -> Arc<Self> {
        let word = |at| match is_checked(at, slots) {
            true => Word::Loom(AtomicU64::new(0), AtomicU64::new(0)),
            false => Word::Plain(Plain::new(0)),
        };
        Arc::new(Self {
            page: (0..PAGE_BYTES / 8).map(word).collect(),
            pixels: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            in_use: (0..slots).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    fn slots(&self) -> usize {
        self.pixels.len()
    }

    fn exclusively(&self, slot: usize, body: impl FnOnce(&AtomicU64)) {
        assert!(!self.in_use[slot].swap(true, Relaxed), "two sides use one slot at once");
        body(&self.pixels[slot]);
        assert!(self.in_use[slot].swap(false, Relaxed), "two sides used one slot at once");
    }

    fn show(&self, number: u64) -> Option<bool> {
        let acquired = page::acquire(self, self.slots(), number)?;
        self.exclusively(acquired.slot, |pixel| pixel.store(number, Relaxed));
        page::publish(self, acquired.slot, number, &about(number));
        page::raise(self, acquired.slot, number);
        Some(acquired.replaces.is_some())
    }

    fn take(&self, last: u64) -> Option<u64> {
        match page::take(self, self.slots(), 4096, last, 0) {
            Look::Nothing => None,
            Look::Spoiled { number } => panic!("frame {number} makes no sense"),
            Look::Frame { slot, number, about: found } => {
                assert!(number > last, "{number} after {last}");
                assert_eq!(found, about(number));
                self.exclusively(slot, |pixel| assert_eq!(pixel.load(Relaxed), number, "another frame"));
                assert!(page::release(self, slot, number));
                Some(number)
            }
        }
    }
}

impl Word {
    fn on<R>(&self, loom: impl FnOnce(&AtomicU64) -> R, plain: impl FnOnce(&Plain) -> R) -> R {
        match self {
            Self::Loom(word, turn) => {
                turn.fetch_add(1, Relaxed);
                loom(word)
            }
            Self::Plain(word) => plain(word),
        }
    }
}

impl Words for Shared {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.page[at].on(|w| w.load(order), |w| w.load(order))
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.page[at].on(|w| w.store(value, order), |w| w.store(value, order));
    }

    fn exchange(&self, at: usize, from: u64, to: u64, order: Ordering) -> bool {
        self.page[at].on(
            |w| w.compare_exchange(from, to, order, Relaxed).is_ok(),
            |w| w.compare_exchange(from, to, order, Relaxed).is_ok(),
        )
    }
}

fn about(number: u64) -> About {
    let size = ImageSize { width: 8, height: 2 };
    let (pts, source) = (None, SourceName::cut("loom"));
    About { size, pitch: page::pitch_of(size), index: number * 3, pts, captured: 0, source }
}

fn within(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

fn worker_and_window(slots: usize, frames: u64, looks: usize) {
    let shared = Shared::new(slots);
    let worker = shared.clone();
    let worker = loom::thread::spawn(move || {
        for number in 1..=frames {
            assert!(worker.show(number).is_some(), "one slot is always the worker's");
        }
    });
    let mut last = 0;
    for _ in 0..looks {
        last = shared.take(last).unwrap_or(last);
    }
    worker.join().unwrap();
    // The newest is never lost.
    assert_eq!(if last == frames { last } else { shared.take(last).unwrap() }, frames);
    assert_eq!(shared.take(frames), None);
}

#[test]
fn two_slots() {
    within(3, || worker_and_window(2, 3, 2));
}

#[test]
fn three_slots() {
    within(2, || worker_and_window(3, 4, 2));
}

/// As a device does it: the worker hands frames over, and something else raises them later.
#[test]
fn a_frame_is_not_taken_before_its_pixels_are_there() {
    within(3, || {
        let shared = Shared::new(2);
        let acquired = page::acquire(&*shared, 2, 1).unwrap();
        page::publish(&*shared, acquired.slot, 1, &about(1));
        let device = shared.clone();
        let device = loom::thread::spawn(move || {
            device.exclusively(acquired.slot, |pixel| pixel.store(1, Relaxed));
            page::raise(&*device, acquired.slot, 1);
        });
        let last = shared.take(0).unwrap_or(0);
        device.join().unwrap();
        assert_eq!(shared.take(last).unwrap_or(last), 1);
    });
}

/// A device may raise a frame before the CPU gets to hand it over.
#[test]
fn what_a_frame_is_is_known_when_it_is_taken() {
    within(2, || {
        let shared = Shared::new(2);
        let acquired = page::acquire(&*shared, 2, 1).unwrap();
        let (worker, device) = (shared.clone(), shared.clone());
        let device = loom::thread::spawn(move || {
            device.exclusively(acquired.slot, |pixel| pixel.store(1, Relaxed));
            page::raise(&*device, acquired.slot, 1);
        });
        let worker = loom::thread::spawn(move || page::publish(&*worker, acquired.slot, 1, &about(1)));
        let last = shared.take(0).unwrap_or(0);
        device.join().unwrap();
        worker.join().unwrap();
        assert_eq!(shared.take(last).unwrap_or(last), 1);
    });
}

/// A worker far ahead of its device leaves the one complete frame to be shown, and its newest is not lost.
#[test]
fn the_only_complete_frame_is_left_while_others_are_pending() {
    within(2, || {
        let shared = Shared::new(2);
        assert_eq!(shared.show(1), Some(false));
        let pending = page::acquire(&*shared, 2, 2).unwrap();
        page::publish(&*shared, pending.slot, 2, &about(2));
        let newer = page::acquire(&*shared, 2, 3).unwrap();
        assert_eq!((newer.slot, newer.replaces), (pending.slot, Some(2)));
        // In the order of the device.
        page::raise(&*shared, pending.slot, 2);
        page::publish(&*shared, newer.slot, 3, &about(3));
        assert_eq!(shared.take(0), Some(1));
        shared.exclusively(newer.slot, |pixel| pixel.store(3, Relaxed));
        page::raise(&*shared, newer.slot, 3);
        assert_eq!(shared.take(1), Some(3));
    });
}

/// What the window says of frames is read once, whole and in order, as long as no more is said than there is room for.
#[test]
fn fates_are_read_as_they_were_written() {
    within(2, || {
        let shared = Shared::new(2);
        let said = |number| Entry {
            number,
            fate: if number % 2 == 0 { Fate::Drawn } else { Fate::Hidden },
            at: number * 7,
        };
        // The log goes round.
        let before = fates::ENTRIES as u64 - 1;
        let mut read = 0;
        for number in 1..=before {
            assert!(fates::write(&*shared, number - 1, said(number)));
            assert_eq!(fates::read(&*shared, &mut read), Some(said(number)));
        }
        let window = shared.clone();
        let window = loom::thread::spawn(move || {
            for number in before + 1..=before + 3 {
                assert!(fates::write(&*window, number - 1, said(number)));
            }
        });
        for _ in 0..2 {
            let expected = said(read + 1);
            assert!(fates::read(&*shared, &mut read).is_none_or(|entry| entry == expected));
        }
        window.join().unwrap();
        while let Some(entry) = fates::read(&*shared, &mut read) {
            assert_eq!(entry, said(read));
        }
        assert_eq!(read, before + 3);
        assert!(!fates::write(&*shared, read, Entry { fate: Fate::Closed, ..said(1) }));
    });
}

/// What was begun and not written is the worker's again.
#[test]
fn an_abandoned_slot_is_free() {
    within(2, || {
        let shared = Shared::new(2);
        let window = shared.clone();
        let window = loom::thread::spawn(move || assert_eq!(window.take(0), None));
        for number in 1..=5 {
            let begun = page::acquire(&*shared, 2, number).unwrap();
            assert_eq!(begun.replaces, None);
            page::abandon(&*shared, begun.slot, number);
        }
        window.join().unwrap();
    });
}

/// A device writes two frames into one slot, in order, while the worker has gone on to the second: only the second is
/// seen there, and whole.
#[test]
fn a_pending_frame_that_was_written_over_is_never_seen() {
    within(3, || {
        let shared = Shared::new(2);
        let slots: Vec<usize> = (1..=3)
            .map(|number| {
                let acquired = page::acquire(&*shared, 2, number).unwrap();
                page::publish(&*shared, acquired.slot, number, &about(number));
                acquired.slot
            })
            .collect();
        assert!(slots[0] != slots[1] && slots[1] == slots[2]);
        let device = shared.clone();
        let device = loom::thread::spawn(move || {
            for (number, slot) in (1..).zip(slots) {
                device.exclusively(slot, |pixel| pixel.store(number, Relaxed));
                page::raise(&*device, slot, number);
            }
        });
        let mut last = 0;
        for _ in 0..2 {
            last = shared.take(last).unwrap_or(last);
            assert_ne!(last, 2);
        }
        device.join().unwrap();
        assert_eq!(shared.take(last).unwrap_or(last), 3);
    });
}
