//! Nothing grows and nothing stays: threads, streams, pinned and device bytes.

mod common;

use common::*;

use framelane::feed::{Feeder, Options};
use std::time::Duration;

/// Leave the loop at each step, 1 000 times in all, with work still enqueued.
#[test]
fn f11_leaving_at_each_step() {
    const DEPTH: u64 = 2;
    let device = device();
    let compute = device.stream("compute").unwrap();
    let mut left = 0;
    for round in 0..200 {
        for step in 0..=DEPTH + 2 {
            let options = options("f11 leaver", DEPTH as usize);
            let feeder = match round % 2 {
                0 => Feeder::new(&device, Numbers::new(100), options),
                _ => Feeder::converting(&device, (0..100).map(Ok), 2, put_ragged, options),
            };
            let feeder = feeder.unwrap();
            for (number, batch) in (0..step).zip(&feeder) {
                let batch = batch.unwrap();
                assert_eq!(batch.index(), number);
                batch.on(&compute).unwrap();
                if round % 10 == 0 {
                    delay(&compute, Duration::from_micros(100)).unwrap();
                }
            }
            drop(feeder);
            left += 1;
        }
        if round % 50 == 49 {
            compute.synchronize("test").unwrap();
            assert_eq!(held(&device), (0, 0, 1), "pinned bytes, device bytes, streams");
            // A joined thread leaves the list of tasks a moment later.
            let none = || {
                threads_named("feed f11").unwrap_or(0) + threads_named("stream feed f11").unwrap_or(0) == 0
            };
            assert!(eventually(Duration::from_secs(1), none));
        }
    }
    assert_eq!(left, 1000);
    assert_eq!(device.counters().streams_made, 1001);
}

/// 100 epochs: after the first, nothing is made that was not there.
#[test]
fn f14_hundred_epochs() {
    let device = device();
    let compute = device.stream("compute").unwrap();
    let feeder = Feeder::new(&device, Numbers::new(7), options("f14 epochs", 2)).unwrap();
    let findings = Findings::default();
    let count = || threads_named("feed f14").zip(threads_named("stream feed f14"));
    let mut after_first = None;
    for epoch in 0..100 {
        let mut numbers = Vec::new();
        for batch in &feeder {
            let batch = batch.unwrap();
            assert_eq!(batch.index(), epoch * 7 + numbers.len() as u64);
            let number = batch.meta().unwrap().index;
            findings.check_ragged(&batch, &compute, number).unwrap();
            numbers.push(number);
        }
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6], "epoch {epoch}");
        let c = device.counters();
        let now = (held(&device), c.allocations, c.streams_made, count());
        // Slots take their final size as they are used: by the third epoch all have been.
        if epoch == 2 {
            after_first = Some(now);
        } else if epoch > 2 {
            assert_eq!(Some(now), after_first, "epoch {epoch}");
        }
        assert!(feeder.rewind().unwrap());
    }
    if let Some((feeds, streams)) = count() {
        assert_eq!((feeds, streams), (1, if on_cuda() { 0 } else { 1 }));
    }
    compute.synchronize("test").unwrap();
    assert_eq!(findings.checks(), 700);
    findings.assert_none();
}

/// Memory is slots × the largest batch and not a byte more, whatever the order of sizes.
#[test]
fn memory_is_what_was_asked_for() {
    let device = device();
    let options = Options { pinned_slots: Some(2), ..options("memory", 3) };
    let feeder = Feeder::new(&device, Numbers::even(5000, 10_000), options).unwrap();
    for batch in &feeder {
        batch.unwrap();
    }
    assert_eq!(held(&device), (2 * 10_240, 3 * 10_240, 1));
    assert_eq!(device.counters().allocations, 5);
    drop(feeder);
    assert_eq!(held(&device), (0, 0, 0));
}
