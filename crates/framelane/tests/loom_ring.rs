//! The ring under loom: every interleaving of short runs (with few threads; where it says `within(n)`, every
//! interleaving with at most n preemptions).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p framelane --release --test loom_ring --target-dir target/loom`
//!
//! A deadlock, and so a lost wake-up, fails the model. The payload finds out whether two sides ever use a
//! slot at once, and whether what one side wrote is visible to the other (its loads and stores are relaxed:
//! only the ring orders them).

#![cfg(loom)]

use framelane::ring::{Fence, Options, Policy, ReadLease, Reader, TryTake, WriteSlot, Writer, ring};
use framelane::{Error, ErrorKind, Result};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use loom::thread;

#[derive(Default)]
struct Payload {
    in_use: AtomicBool,
    value: AtomicUsize,
}

impl Payload {
    fn exclusively(&self, body: impl FnOnce(&AtomicUsize)) {
        assert!(!self.in_use.swap(true, Relaxed), "two sides use one slot at once");
        body(&self.value);
        assert!(self.in_use.swap(false, Relaxed), "two sides used one slot at once");
    }
}

/// A fence that can be told from others.
#[derive(Clone, Debug, PartialEq)]
struct Mark(usize, bool);

impl Fence for Mark {
    fn is_done(&self) -> bool {
        self.1
    }
}

const fn done(id: usize) -> Mark {
    Mark(id, true)
}

type W = Writer<Payload, Mark, usize>;
type R = Reader<Payload, Mark, usize>;

fn make(policy: Policy, slots: usize, max_slots: usize) -> (W, R) {
    ring(Options { name: "loom".into(), policy, slots, max_slots }, |_| Ok(Payload::default())).unwrap()
}

fn fill(slot: &WriteSlot<Payload, Mark, usize>, value: usize) {
    slot.payload().exclusively(|v| v.store(value, Relaxed));
}

/// What `lease` holds, checked against what travelled with it.
fn read(lease: &ReadLease<Payload, Mark, usize>) -> usize {
    let value = *lease.meta();
    assert_eq!(*lease.ready(), done(value));
    lease.payload().exclusively(|v| assert_eq!(v.load(Relaxed), value, "the slot holds another filling"));
    value
}

/// Publish `values`; stops early if nobody reads. How many were published.
fn write(writer: &W, values: impl IntoIterator<Item = usize>) -> usize {
    let mut published = 0;
    for value in values {
        match writer.acquire() {
            Ok(slot) => {
                fill(&slot, value);
                slot.publish(done(value), value);
                published += 1;
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Closed);
                break;
            }
        }
    }
    published
}

/// Take until the end, which must then stay.
fn drain(reader: &R) -> Vec<usize> {
    let mut values = Vec::new();
    while let Some(lease) = reader.take().unwrap() {
        values.push(read(&lease));
    }
    assert!(reader.take().unwrap().is_none(), "the end is for ever");
    values
}

fn all(body: impl Fn() + Sync + Send + 'static) {
    loom::model(body);
}

fn within(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

fn fifo_keeps_all_in_order(depth: usize, count: usize) {
    let (writer, reader) = make(Policy::Fifo, depth, depth);
    let thread = thread::spawn(move || assert_eq!(write(&writer, 0..count), count));
    assert_eq!(drain(&reader), (0..count).collect::<Vec<_>>());
    thread.join().unwrap();
    let counts = reader.counts();
    assert_eq!((counts.published, counts.taken, counts.dropped), (count as u64, count as u64, 0));
    assert_eq!(reader.occupancy().free, depth);
}

#[test]
fn fifo_depth_1() {
    all(|| fifo_keeps_all_in_order(1, 2));
}

#[test]
fn fifo_depth_1_longer() {
    within(5, || fifo_keeps_all_in_order(1, 4));
}

#[test]
fn fifo_depth_2() {
    within(5, || fifo_keeps_all_in_order(2, 4));
}

#[test]
fn an_error_comes_once_after_the_data() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let thread = thread::spawn(move || {
            write(&writer, [7]);
            writer.finish(Err(Error::new(ErrorKind::Input, "broken")));
            // What one side says after it has finished changes nothing.
            writer.finish(Ok(()));
        });
        assert_eq!(read(&reader.take().unwrap().unwrap()), 7);
        assert_eq!(reader.take().err().unwrap().kind(), ErrorKind::Input);
        assert!(reader.take().unwrap().is_none());
        thread.join().unwrap();
        assert!(reader.take().unwrap().is_none());
    });
}

#[test]
fn of_two_readers_one_gets_the_error() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let outcome = |r: Result<Option<_>>| r.map(|lease: Option<ReadLease<_, _, _>>| lease.is_none());
        let second = reader.clone();
        let thread = thread::spawn(move || outcome(second.take()));
        writer.finish(Err(Error::new(ErrorKind::Input, "broken")));
        let both = [outcome(reader.take()), thread.join().unwrap()];
        assert_eq!(both.iter().filter(|r| r.is_err()).count(), 1);
        assert!(both.iter().flatten().all(|&ended| ended));
    });
}

#[test]
fn cancel_wakes_a_blocked_writer() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let thread = thread::spawn(move || write(&writer, 0..3));
        let unread = reader.cancel();
        let published = thread.join().unwrap();
        assert!(unread.len() <= 1 && published <= 2, "{published} published, {unread:?} unread");
        assert!(reader.take().unwrap().is_none());
        let counts = reader.counts();
        assert_eq!((counts.published, counts.dropped), (published as u64, published as u64));
        assert_eq!(reader.occupancy().free, 1);
    });
}

#[test]
fn dropping_the_reader_wakes_a_blocked_writer() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let thread = thread::spawn(move || {
            assert!(write(&writer, 0..3) < 3);
            assert_eq!(writer.occupancy().free, 1);
        });
        drop(reader);
        thread.join().unwrap();
    });
}

#[test]
fn a_lease_outlives_its_reader_and_holds_no_writer() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        write(&writer, [5]);
        let lease = reader.take().unwrap().unwrap();
        let thread = thread::spawn(move || {
            // The lease is still held: without the reader's going this would wait for it.
            assert_eq!(write(&writer, [6]), 0);
        });
        drop(reader);
        thread.join().unwrap();
        assert_eq!(read(&lease), 5);
    });
}

#[test]
fn dropping_the_last_writer_ends_the_reader() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let second = writer.clone();
        let a = thread::spawn(move || drop(second));
        let b = thread::spawn(move || drop(writer));
        assert_eq!(drain(&reader), []);
        a.join().unwrap();
        b.join().unwrap();
    });
}

#[test]
fn publishing_after_the_writer_is_dropped_loses_nothing() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let slot = writer.acquire().unwrap();
        let a = thread::spawn(move || drop(writer));
        let b = thread::spawn(move || {
            fill(&slot, 3);
            slot.publish(done(3), 3);
        });
        assert_eq!(drain(&reader), [3]);
        a.join().unwrap();
        b.join().unwrap();
    });
}

#[test]
fn a_slot_given_back_unpublished_wakes_writers_and_ends_readers() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let slot = writer.acquire().unwrap();
        let thread = thread::spawn(move || write(&writer, [1]));
        drop(slot);
        assert_eq!(drain(&reader), [1]);
        thread.join().unwrap();
    });
}

#[test]
fn nothing_comes_after_the_end() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 2, 2);
        let late = writer.acquire().unwrap();
        let thread = thread::spawn(move || {
            fill(&late, 1);
            late.publish(done(1), 1);
        });
        writer.finish(Ok(()));
        let before = drain(&reader).len() as u64;
        thread.join().unwrap();
        assert!(reader.take().unwrap().is_none());
        let counts = reader.counts();
        assert_eq!((counts.published, counts.taken, counts.dropped), (1, before, 1 - before));
        assert_eq!(reader.occupancy().free, 2);
    });
}

#[test]
fn reopened_rounds_are_told_apart() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let (again, go) = make(Policy::Fifo, 1, 1);
        let thread = thread::spawn(move || {
            write(&writer, [1]);
            writer.finish(Ok(()));
            go.take().unwrap();
            writer.reopen().unwrap();
            write(&writer, [2]);
        });
        assert_eq!(read(&reader.take().unwrap().unwrap()), 1);
        assert!(reader.take().unwrap().is_none());
        write(&again, [0]);
        // Until it is reopened, the ring is still at its end.
        loop {
            match reader.take().unwrap() {
                Some(lease) => break assert_eq!(read(&lease), 2),
                None => thread::yield_now(),
            }
        }
        thread.join().unwrap();
        assert_eq!(drain(&reader), []);
    });
}

/// One of two readers goes on to the next round as soon as it is told the end: the other ends, too, and no
/// wake-up is lost between the rounds.
#[test]
fn a_round_ends_for_every_reader() {
    within(3, || {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let second = reader.clone();
        let thread = thread::spawn(move || {
            let mut values = Vec::new();
            while let Some(lease) = second.take().unwrap() {
                values.push(read(&lease));
            }
            values
        });
        write(&writer, [1]);
        writer.finish(Ok(()));
        let mut mine = Vec::new();
        for round in [1, 2] {
            while let Some(lease) = reader.take().unwrap() {
                mine.push(read(&lease));
            }
            if round == 1 {
                writer.reopen().unwrap();
                write(&writer, [2]);
                writer.finish(Ok(()));
            }
        }
        let theirs = thread.join().unwrap();
        assert!(mine.is_sorted() && theirs.is_sorted(), "{mine:?} {theirs:?}");
        let mut all = [mine, theirs].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

#[test]
fn finish_wakes_a_blocked_writer() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        write(&writer, [1]);
        let second = writer.clone();
        let thread = thread::spawn(move || assert_eq!(write(&second, [2]), 0));
        writer.finish(Ok(()));
        thread.join().unwrap();
        assert_eq!(drain(&reader), [1]);
    });
}

/// Blocking reads of `Latest`: growing numbers, the last of all last, and each filling accounted for.
fn latest_is_fresh_and_counted(slots: usize, count: usize) {
    let (writer, reader) = make(Policy::Latest, slots, slots);
    let thread = thread::spawn(move || {
        let mut replaced = Vec::new();
        for value in 0..count {
            let mut slot = writer.acquire().unwrap();
            replaced.extend(slot.take_replaced());
            assert!(slot.wait_for().len() <= 1);
            fill(&slot, value);
            slot.publish(done(value), value);
        }
        replaced
    });
    let mut seen = Vec::new();
    let mut skipped = Vec::new();
    while let Some(mut lease) = reader.take().unwrap() {
        skipped.extend(lease.take_skipped());
        seen.push(read(&lease));
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(seen.last(), Some(&(count - 1)), "the newest was lost");
    let mut all = [seen.clone(), skipped, thread.join().unwrap()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..count).collect::<Vec<_>>(), "each is seen or handed back, once");
    let counts = reader.counts();
    assert_eq!(counts.published, counts.taken + counts.dropped);
    assert_eq!((counts.published, counts.taken), (count as u64, seen.len() as u64));
    assert_eq!(reader.occupancy().free, slots);
}

#[test]
fn latest_of_1() {
    all(|| latest_is_fresh_and_counted(1, 2));
}

#[test]
fn latest_of_2() {
    all(|| latest_is_fresh_and_counted(2, 3));
}

#[test]
fn latest_of_3() {
    within(5, || latest_is_fresh_and_counted(3, 4));
}

#[test]
fn latest_of_2_with_a_held_lease_and_what_stays_unread() {
    all(|| {
        let (writer, reader) = make(Policy::Latest, 2, 2);
        let thread = thread::spawn(move || write(&writer, 0..3));
        let held = reader.take().unwrap().unwrap();
        let value = read(&held);
        thread.join().unwrap();
        assert_eq!(read(&held), value, "a leased slot was written");
        let unread = reader.occupancy().ready as u64;
        let counts = reader.counts();
        assert_eq!(counts.published, counts.taken + counts.dropped + unread);
        // Whatever was read before, the next is the newest.
        assert_eq!(unread == 0, value == 2);
        if unread > 0 {
            assert_eq!(read(&reader.take().unwrap().unwrap()), 2);
        }
    });
}

/// Nobody reads: two writers must still get past each other.
#[test]
fn latest_writers_wait_only_for_slots_in_use() {
    all(|| {
        let (writer, reader) = make(Policy::Latest, 1, 1);
        let second = writer.clone();
        let thread = thread::spawn(move || write(&second, [1]));
        assert_eq!(write(&writer, [2]), 1);
        assert_eq!(thread.join().unwrap(), 1);
        let counts = reader.counts();
        assert_eq!((counts.published, counts.dropped, reader.occupancy().ready), (2, 1, 1));
    });
}

#[test]
fn try_take_leaves_what_is_pending() {
    all(|| {
        let (writer, reader) = make(Policy::Latest, 2, 2);
        let thread = thread::spawn(move || {
            for (value, is_done) in [(0, true), (1, false)] {
                let slot = writer.acquire().unwrap();
                fill(&slot, value);
                slot.publish(Mark(value, is_done), value);
            }
        });
        let mut seen = Vec::new();
        if let TryTake::Lease(lease) = reader.try_take().unwrap() {
            seen.push(read(&lease));
        }
        thread.join().unwrap();
        while let TryTake::Lease(lease) = reader.try_take().unwrap() {
            seen.push(read(&lease));
        }
        assert_eq!(seen, [0]);
        assert_eq!(*reader.take().unwrap().unwrap().meta(), 1);
        assert!(matches!(reader.try_take().unwrap(), TryTake::End));
    });
}

#[test]
fn the_next_writer_is_told_every_fence() {
    all(|| {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        write(&writer, [1]);
        let mut lease = reader.take().unwrap().unwrap();
        let thread = thread::spawn(move || {
            read(&lease);
            lease.add_fence(done(10));
            lease.add_fence(done(11));
        });
        let slot = writer.acquire().unwrap();
        assert_eq!(slot.wait_for(), [done(10), done(11)]);
        // Unwritten, it is still to be waited for.
        drop(slot);
        let slot = writer.acquire().unwrap();
        assert_eq!(slot.wait_for(), [done(10), done(11)]);
        fill(&slot, 2);
        slot.publish(done(2), 2);
        thread.join().unwrap();
        // Read by nobody's stream: the next writer comes after the last.
        drop(reader.take().unwrap());
        assert_eq!(writer.acquire().unwrap().wait_for(), [done(2)]);
    });
}

#[test]
fn it_grows_while_a_lease_is_held_and_no_further() {
    within(4, || {
        let (writer, reader) = make(Policy::Fifo, 1, 2);
        let thread = thread::spawn(move || write(&writer, 0..3));
        let first = reader.take().unwrap().unwrap();
        let second = reader.take().unwrap().unwrap();
        assert_ne!(first.index(), second.index());
        assert_eq!((read(&first), read(&second)), (0, 1));
        assert_eq!(reader.occupancy().leased.len(), 2);
        drop(first);
        assert_eq!(drain(&reader), [2]);
        assert_eq!(thread.join().unwrap(), 3);
        assert_eq!(read(&second), 1);
    });
}

#[test]
fn growth_that_fails_is_told_once_and_the_ring_goes_on() {
    all(|| {
        let options = Options { name: "loom".into(), policy: Policy::Fifo, slots: 1, max_slots: 2 };
        let (writer, reader): (W, R) = ring(options, |index| match index {
            0 => Ok(Payload::default()),
            _ => Err(Error::new(ErrorKind::Budget, "no more")),
        })
        .unwrap();
        let thread = thread::spawn(move || {
            let mut refused = 0;
            for value in 0..2 {
                let slot = writer.acquire().or_else(|e| {
                    assert_eq!(e.kind(), ErrorKind::Budget);
                    refused += 1;
                    writer.acquire()
                });
                let slot = slot.unwrap();
                fill(&slot, value);
                slot.publish(done(value), value);
            }
            assert!(refused <= 1);
        });
        assert_eq!(drain(&reader), [0, 1]);
        thread.join().unwrap();
    });
}

#[test]
fn two_writers() {
    within(3, || {
        let (writer, reader) = make(Policy::Fifo, 1, 1);
        let second = writer.clone();
        let a = thread::spawn(move || assert_eq!(write(&writer, [0, 1]), 2));
        let b = thread::spawn(move || assert_eq!(write(&second, [10]), 1));
        let values = drain(&reader);
        assert_eq!(values.len(), 3);
        let firsts: Vec<_> = values.iter().copied().filter(|&v| v < 10).collect();
        assert_eq!(firsts, [0, 1], "each writer's order is kept");
        a.join().unwrap();
        b.join().unwrap();
    });
}

#[test]
fn two_readers() {
    within(2, || {
        let (writer, reader) = make(Policy::Fifo, 2, 2);
        let second = reader.clone();
        let a = thread::spawn(move || drain(&second));
        let b = thread::spawn(move || assert_eq!(write(&writer, 0..3), 3));
        let mine = drain(&reader);
        let theirs = a.join().unwrap();
        b.join().unwrap();
        assert!(mine.is_sorted() && theirs.is_sorted(), "{mine:?} {theirs:?}");
        let mut all = [mine, theirs].concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

#[test]
fn two_latest_readers() {
    within(3, || {
        let (writer, reader) = make(Policy::Latest, 2, 2);
        let second = reader.clone();
        let a = thread::spawn(move || drain(&second));
        let b = thread::spawn(move || assert_eq!(write(&writer, 0..2), 2));
        let mine = drain(&reader);
        let theirs = a.join().unwrap();
        b.join().unwrap();
        assert!([&mine, &theirs].iter().any(|seen| seen.last() == Some(&1)), "the newest was lost");
        let counts = reader.counts();
        assert_eq!(counts.published, counts.taken + counts.dropped);
    });
}
