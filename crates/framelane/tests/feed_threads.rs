//! The feed on the host device: real threads, real asynchronous streams, delays that make a missing wait show.

mod common;

use common::*;

use framelane::feed::{Feeder, Options};
use framelane::ring::Policy;
use framelane::stats::Recorder;
use framelane::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The delay is a kernel of its own, and the checksum's comes after it: were they one, the host device's
/// memory locks would hide a missing wait.
#[test]
fn f1_slow_reader_fast_producer() {
    let steps = steps(120);
    for depth in [2, 3, 8] {
        let device = device();
        let compute = device.stream("compute").unwrap();
        let feeder = Feeder::new(&device, Numbers::new(steps), options("f1", depth)).unwrap();
        let findings = Findings::default();
        let mut rng = Rng(depth as u64);
        for step in 0..steps {
            let batch = feeder.next_batch().unwrap().unwrap();
            assert_eq!(batch.index(), step);
            let most = if on_cuda() { 300 } else { 3000 };
            let time = if step == 5 { ms(50) } else { Duration::from_micros(100 + rng.next() % most) };
            batch.on(&compute).unwrap();
            delay(&compute, time).unwrap();
            findings.check_ragged(&batch, &compute, step).unwrap();
        }
        assert!(feeder.next_batch().unwrap().is_none());
        let waits = device.counters().cpu_waits;
        assert!(waits.keys().all(|why| why.starts_with("feed: ")), "{waits:?}");
        compute.synchronize("test").unwrap();
        assert_eq!(findings.checks(), steps);
        findings.assert_none();
    }
}

/// The same with the hazard check, which looks at orders and not at what happened to happen.
#[test]
fn f1_no_hazard_with_threads() {
    for depth in [1, 2, 3, 8] {
        let device = checked_device();
        let compute = device.stream("compute").unwrap();
        let feeder = Feeder::new(&device, Numbers::new(300), options("f1 checked", depth)).unwrap();
        let findings = Findings::default();
        for batch in &feeder {
            let batch = batch.unwrap();
            findings.check_ragged(&batch, &compute, batch.index()).unwrap();
        }
        compute.synchronize("test").unwrap();
        assert_eq!(findings.checks(), 300);
        findings.assert_none();
        assert_eq!(device.hazards(), []);
    }
}

#[test]
fn f2_held_batches_are_never_reused() {
    let device = device();
    let reader = device.stream("reader").unwrap();
    let feeder = Feeder::new(&device, Numbers::new(20), options("f2", 3)).unwrap();
    let mut held: Vec<_> = (0..3).map(|_| feeder.next_batch().unwrap().unwrap()).collect();
    held[0].set_holder("the optimiser");
    held[2].set_holder("the logger");
    let nothing = feeder.next_batch_for(ms(40)).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::Timeout);
    for part in ["f2", "held by the optimiser", "held by the logger", "held by a reader"] {
        assert!(nothing.to_string().contains(part), "{nothing}");
    }
    let occupancy = feeder.occupancy();
    assert_eq!((occupancy.leased.len(), occupancy.free, occupancy.ready), (3, 0, 0), "{occupancy}");
    let findings = Findings::default();
    for batch in &held {
        findings.check_ragged(batch, &reader, batch.index()).unwrap();
    }
    // One is let go: exactly one comes.
    held.remove(1);
    held.push(feeder.next_batch().unwrap().unwrap());
    assert_eq!(held.last().unwrap().index(), 3);
    assert_eq!(feeder.next_batch_for(ms(20)).unwrap_err().kind(), ErrorKind::Timeout);
    held.clear();
    assert_eq!(drain(&feeder).0, (4..20).collect::<Vec<_>>());
    reader.synchronize("test").unwrap();
    findings.assert_none();
}

#[test]
fn f2_grows_to_its_stated_depth_for_a_list_of_all() {
    let device = device();
    let reader = device.stream("reader").unwrap();
    let all = Options { max_depth: Some(20), ..options("f2 list", 2) };
    let feeder = Feeder::new(&device, Numbers::even(20, 1000), all).unwrap();
    let list: Vec<_> = (&feeder).collect::<Result<_>>().unwrap();
    assert_eq!(list.len(), 20);
    assert_eq!(device.counters().device_bytes, 20 * 1024);
    let findings = Findings::default();
    for batch in &list {
        let expected = vec![checksum(&content(batch.index(), 0, 1000))];
        findings.check(batch, &reader, batch.index(), expected).unwrap();
    }
    reader.synchronize("test").unwrap();
    assert_eq!(findings.checks(), 20);
    findings.assert_none();
}

#[test]
fn f3_two_readers_slow_and_fast() {
    for depth in [1, 2] {
        let device = device();
        let (slow, fast) = (device.stream("slow").unwrap(), device.stream("fast").unwrap());
        let (steps, time) = if on_cuda() { (10_000, Duration::from_micros(200)) } else { (60, ms(2)) };
        let feeder = Feeder::new(&device, Numbers::new(steps), options("f3", depth)).unwrap();
        let findings = Findings::default();
        for batch in &feeder {
            let batch = batch.unwrap();
            batch.on(&slow).unwrap();
            delay(&slow, time).unwrap();
            findings.check_ragged(&batch, &slow, batch.index()).unwrap();
            findings.check_ragged(&batch, &fast, batch.index()).unwrap();
        }
        slow.synchronize("test").unwrap();
        fast.synchronize("test").unwrap();
        assert_eq!(findings.checks(), 2 * steps);
        findings.assert_none();
    }
}

/// The label of batch k, read again and again while k is held and while its kernels run, is k's.
#[test]
fn f7_depth_1_labels_stay() {
    let device = device();
    let compute = device.stream("compute").unwrap();
    let feeder = Feeder::new(&device, Numbers::even(80, 8), options("f7", 1)).unwrap();
    let findings = Findings::default();
    for batch in &feeder {
        let batch = batch.unwrap();
        let label = vec![checksum(&content(batch.index(), 0, 8))];
        for _ in 0..3 {
            findings.check(&batch, &compute, batch.index(), label.clone()).unwrap();
            delay(&compute, Duration::from_micros(300)).unwrap();
        }
        findings.check(&batch, &compute, batch.index(), label).unwrap();
    }
    compute.synchronize("test").unwrap();
    assert_eq!(findings.checks(), 320);
    findings.assert_none();
}

#[test]
fn f17_order_with_converters() {
    for threads in [1, 2, 8] {
        let device = device();
        let delays = Arc::new(AtomicU64::new(0));
        let their = delays.clone();
        let convert = move |number: u64, slot: &mut framelane::feed::SlotWriter<'_>| {
            let mut rng = Rng(number);
            std::thread::sleep(Duration::from_micros(rng.next() % 800));
            their.fetch_add(1, Ordering::Relaxed);
            put_ragged(number, slot)
        };
        let items = (0..300).map(Ok);
        let feeder = Feeder::converting(&device, items, threads, convert, options("f17", 3)).unwrap();
        let reader = device.stream("reader").unwrap();
        let findings = Findings::default();
        let mut next = 0;
        for batch in &feeder {
            let batch = batch.unwrap();
            assert_eq!((batch.index(), batch.meta().unwrap().index), (next, next));
            findings.check_ragged(&batch, &reader, next).unwrap();
            next += 1;
        }
        reader.synchronize("test").unwrap();
        assert_eq!((next, findings.checks(), delays.load(Ordering::Relaxed)), (300, 300, 300));
        findings.assert_none();
    }
}

/// Copy k+1 is done before compute k ends, by the events' own times; and the consumer's thread never waits
/// for the device. At depth 1 there is nowhere to copy to meanwhile, which shows that the measure can fail.
#[test]
fn f18_copies_overlap_compute() {
    let overlaps = |depth| {
        let device = device();
        let compute = device.stream("compute").unwrap();
        let feeder = Feeder::new(&device, Numbers::even(20, 4096), options("f18", depth)).unwrap();
        let mut steps = Vec::new();
        for batch in &feeder {
            let batch = batch.unwrap();
            batch.on(&compute).unwrap();
            delay(&compute, ms(12)).unwrap();
            steps.push((batch.ready().clone(), compute.record_timed().unwrap()));
        }
        let waits = device.counters().cpu_waits;
        assert!(waits.keys().all(|why| why.starts_with("feed: ")), "{waits:?}");
        compute.synchronize("test").unwrap();
        steps.windows(2).filter(|w| !w[0].1.since(&w[1].0).unwrap().is_zero()).count()
    };
    let (none, most) = (overlaps(1), overlaps(2));
    assert_eq!(none, 0);
    assert!(most >= 12, "{most} of 19 copies overlapped");
}

#[test]
fn latest_gives_the_newest_and_counts_the_rest() {
    let device = device();
    let recorder = Recorder::new();
    let options = Options { recorder: Some(recorder.clone()), ..latest("newest", 3) };
    let feeder = Feeder::new(&device, Numbers::new(400), options).unwrap();
    let reader = device.stream("reader").unwrap();
    let findings = Findings::default();
    let mut numbers = Vec::new();
    for batch in &feeder {
        let batch = batch.unwrap();
        findings.check_ragged(&batch, &reader, batch.index()).unwrap();
        numbers.push(batch.index());
        // A slow consumer: ten more come in before it asks again.
        let enough = 400.min(recorder.frames().r#in + 10);
        assert!(eventually(ms(10_000), || recorder.frames().r#in >= enough));
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert_eq!(numbers.last(), Some(&399));
    let frames = recorder.frames();
    assert_eq!((frames.r#in, frames.dropped + numbers.len() as u64), (400, 400), "{frames:?}");
    assert!(frames.dropped > 300, "the consumer was slower: {frames:?}");
    reader.synchronize("test").unwrap();
    findings.assert_none();
}

/// Under `Latest` too a held slot is not taken away: with all of them held the feed waits.
#[test]
fn latest_with_every_slot_held() {
    let device = device();
    let reader = device.stream("reader").unwrap();
    let feeder = Feeder::new(&device, Numbers::new(u64::MAX), latest("all held", 2)).unwrap();
    let held: Vec<_> = (0..2).map(|_| feeder.next_batch().unwrap().unwrap()).collect();
    assert_eq!(feeder.next_batch_for(ms(30)).unwrap_err().kind(), ErrorKind::Timeout);
    assert!(feeder.try_next_batch().unwrap().is_none());
    let findings = Findings::default();
    for batch in &held {
        findings.check_ragged(batch, &reader, batch.index()).unwrap();
    }
    let last = held[1].index();
    assert!(held[0].index() < last);
    drop(held);
    let next = feeder.next_batch().unwrap().unwrap();
    assert!(next.index() > last);
    findings.check_ragged(&next, &reader, next.index()).unwrap();
    reader.synchronize("test").unwrap();
    assert_eq!(findings.checks(), 3);
    findings.assert_none();
}

/// Two consumers share one feed: each batch goes to one of them.
#[test]
fn two_consumers_share() {
    let device = device();
    let feeder = Feeder::new(&device, Numbers::new(200), options("shared", 4)).unwrap();
    let take = || drain(&feeder).0;
    let (mut all, theirs) = std::thread::scope(|s| {
        let other = s.spawn(take);
        (take(), other.join().unwrap())
    });
    assert!(all.is_sorted() && theirs.is_sorted());
    all.extend(theirs);
    all.sort();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
    assert_eq!(feeder.occupancy().leased.len(), 0);
    // A policy is an option like others: say what this one was.
    assert_eq!(options("shared", 4).policy, Policy::Fifo);
}
