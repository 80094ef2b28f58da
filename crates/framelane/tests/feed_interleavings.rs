//! The feed's protocol on the simulated device: random steps of producer and consumer, a seeded order of the
//! streams, and after each the three questions: is every byte right, is every access ordered, is every batch
//! accounted for?
//!
//! Half of the runs have the hazard check on (any missing wait is an error where it is missing); the other
//! half have it off, so that a missing wait really reads or overwrites the wrong bytes and the checksums,
//! taken by kernels on the readers' streams, must tell.

mod common;

use common::*;
use framelane::device::Device;
use framelane::feed::{Options, Pump, Pumped};
use framelane::ring::Policy;
use framelane::stats::Recorder;
use framelane::{Batch, ErrorKind};

/// Interleavings per policy and depth.
const RUNS: u64 = 10_000;

struct Tally {
    taken: u64,
    checks: u64,
    dropped: u64,
}

/// One feed from its first batch to its end, all decisions taken by `seed`.
fn interleave(seed: u64, policy: Policy, depth: usize) -> Tally {
    let mut rng = Rng(seed);
    let checked = seed.is_multiple_of(2);
    let device = if checked { Device::simulated(seed) } else { Device::simulated_unchecked(seed) };
    let count = rng.below(9) as u64 + depth as u64;
    let recorder = Recorder::new();
    let options = Options {
        depth,
        policy,
        max_depth: rng.one_in(4).then_some(depth + 2),
        pinned_slots: rng.one_in(2).then(|| 1 + rng.below(3)),
        recorder: Some(recorder.clone()),
        ..Options::new("sim")
    };
    let readers: Vec<_> =
        (0..1 + rng.below(3)).map(|n| device.stream(format!("reader {n}")).unwrap()).collect();
    let mut pump = Pump::new(&device, Numbers { salt: seed, ..Numbers::new(count) }, options).unwrap();
    let findings = Findings::default();
    let mut held: Vec<Batch> = Vec::new();
    let mut numbers = Vec::new();
    let mut produced_all = false;
    let mut checks = 0;
    let context = format!("seed {seed}, {policy:?}, depth {depth}");
    loop {
        match rng.below(10) {
            0..=2 => {
                let pumped = pump.step().unwrap_or_else(|e| panic!("{context}: {e}"));
                produced_all = pumped == Pumped::Ended;
            }
            3..=5 => match pump.try_next_batch() {
                Ok(Some(batch)) => {
                    let number = batch.meta().unwrap().index;
                    assert_eq!(number, batch.index(), "{context}");
                    numbers.push(number);
                    held.push(batch);
                }
                Ok(None) => {}
                Err(end) => {
                    assert_eq!(end.kind(), ErrorKind::Closed, "{context}: {end}");
                    assert!(produced_all, "{context}: the end came before the source's");
                    break;
                }
            },
            6 | 7 if !held.is_empty() => {
                let batch = &held[rng.below(held.len())];
                let reader = &readers[rng.below(readers.len())];
                checks += 1;
                findings
                    .check_ragged(batch, reader, batch.index() + seed)
                    .unwrap_or_else(|e| panic!("{context}: {e}"));
            }
            8 if !held.is_empty() => drop(held.swap_remove(rng.below(held.len()))),
            9 if rng.one_in(4) => device.run_until_idle(),
            _ => {}
        }
    }
    // Held to the end and read once more: nothing came over them.
    for batch in held.drain(..) {
        checks += 1;
        findings.check_ragged(&batch, &readers[0], batch.index() + seed).unwrap();
    }
    device.run_until_idle();
    assert_eq!(findings.checks(), checks, "{context}: every kernel ran");
    assert!(findings.wrong().is_empty(), "{context}: {:?}", findings.wrong());
    assert!(device.hazards().is_empty(), "{context}: {:?}", device.hazards());
    let frames = recorder.frames();
    assert_eq!(frames.r#in, count, "{context}");
    match policy {
        Policy::Fifo => assert!(numbers.iter().copied().eq(0..count), "{context}: {numbers:?}"),
        Policy::Latest => {
            assert!(numbers.is_sorted_by(|a, b| a < b), "{context}: {numbers:?}");
            assert_eq!(
                numbers.last(),
                count.checked_sub(1).as_ref(),
                "{context}: the newest is never dropped"
            );
        }
    }
    assert_eq!(frames.dropped + numbers.len() as u64, count, "{context}: {frames:?}");
    drop(pump);
    let left = held_bytes(&device);
    assert_eq!(left, 0, "{context}: bytes left behind");
    Tally { taken: numbers.len() as u64, checks, dropped: frames.dropped }
}

fn held_bytes(device: &Device) -> u64 {
    // Work that was enqueued but nothing waits for still holds what it uses.
    device.run_until_idle();
    let (pinned, device, _) = held(device);
    pinned + device
}

fn all(policy: Policy, depth: usize) {
    let mut sum = Tally { taken: 0, checks: 0, dropped: 0 };
    for seed in 0..RUNS {
        let run = interleave(seed * 8 + depth as u64, policy, depth);
        sum.taken += run.taken;
        sum.checks += run.checks;
        sum.dropped += run.dropped;
        if depth == 3 && seed < 500 {
            // Odd and even seeds: the same decisions, with and without the check.
            interleave((seed * 8 + depth as u64) ^ 1, policy, depth);
        }
    }
    assert!(sum.taken > RUNS && sum.checks > RUNS, "the runs did something");
    assert_eq!(sum.dropped > RUNS / 10, policy == Policy::Latest, "{} were dropped", sum.dropped);
}

#[test]
fn f7_fifo_depth_1() {
    all(Policy::Fifo, 1);
}

#[test]
fn f3_fifo_depth_2() {
    all(Policy::Fifo, 2);
}

#[test]
fn f3_fifo_depth_3() {
    all(Policy::Fifo, 3);
}

#[test]
fn f3_fifo_depth_8() {
    all(Policy::Fifo, 8);
}

#[test]
fn f3_latest_depth_1() {
    all(Policy::Latest, 1);
}

#[test]
fn f3_latest_depth_2() {
    all(Policy::Latest, 2);
}

#[test]
fn f3_latest_depth_3() {
    all(Policy::Latest, 3);
}

#[test]
fn f3_latest_depth_8() {
    all(Policy::Latest, 8);
}

/// F1 on the simulated device: the producer runs flat out, each handle is dropped right after its kernel was
/// enqueued; 10 000 steps.
#[test]
fn f1_ten_thousand_steps_flat_out() {
    for depth in [2, 3, 8] {
        for checked in [true, false] {
            let device = if checked { Device::simulated(7) } else { Device::simulated_unchecked(7) };
            let reader = device.stream("reader").unwrap();
            let mut pump = Pump::new(&device, Numbers::new(10_000), options("flat out", depth)).unwrap();
            let findings = Findings::default();
            let mut next = 0;
            loop {
                while pump.step().unwrap() == Pumped::Fed {}
                match pump.try_next_batch() {
                    Ok(Some(batch)) => {
                        assert_eq!(batch.index(), next);
                        findings.check_ragged(&batch, &reader, next).unwrap();
                        next += 1;
                    }
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
            device.run_until_idle();
            assert_eq!((next, findings.checks()), (10_000, 10_000));
            findings.assert_none();
            assert!(device.hazards().is_empty());
            let waits = device.counters().cpu_waits;
            assert!(waits.keys().all(|why| why.starts_with("feed: ")), "{waits:?}");
        }
    }
}

/// F4: the type system makes work on a released batch impossible (the `compile_fail` example of [`Batch`]);
/// what it cannot see, a stream that was never named, the hazard check does.
#[test]
fn f4_an_unnamed_stream_is_caught() {
    // It reads before the copy is done.
    let device = Device::simulated(1);
    let (named, unnamed) = (device.stream("named").unwrap(), device.stream("unnamed").unwrap());
    let mut pump = Pump::new(&device, Numbers::even(3, 64), options("f4", 1)).unwrap();
    assert_eq!(pump.step().unwrap(), Pumped::Fed);
    let batch = pump.try_next_batch().unwrap().unwrap();
    let view = batch.on(&named).unwrap();
    let access = view.tensor("data").unwrap().access();
    let early = unnamed.launch("too early", &[access], |_| Ok(())).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Hazard);
    assert!(early.to_string().contains("too early") && early.to_string().contains("copy"), "{early}");

    // It waits for the copy, but nobody waits for it: the next copy into the slot is refused.
    let device = Device::simulated(2);
    let (named, unnamed) = (device.stream("named").unwrap(), device.stream("unnamed").unwrap());
    let mut pump = Pump::new(&device, Numbers::even(3, 64), options("f4", 1)).unwrap();
    assert_eq!(pump.step().unwrap(), Pumped::Fed);
    let batch = pump.try_next_batch().unwrap().unwrap();
    unnamed.wait(batch.ready()).unwrap();
    let view = batch.on(&named).unwrap();
    unnamed.launch("secret reader", &[view.tensor("data").unwrap().access()], |_| Ok(())).unwrap();
    drop(batch);
    let mut refused = None;
    for _ in 0..4 {
        match (pump.step(), pump.try_next_batch()) {
            (Err(e), _) | (_, Err(e)) if e.kind() == ErrorKind::Hazard => refused = Some(e),
            _ => {}
        }
    }
    let refused = refused.expect("the copy over the secret reader's bytes is refused");
    assert!(refused.to_string().contains("secret reader"), "{refused}");
}

/// As the secret reader above, but the batch is released on its stream: the next copy into the slot waits for it.
/// One of a second stream that was named is waited for all the same.
#[test]
fn f4_released_on_a_stream_that_was_given_work_by_other_means() {
    for seed in 0..300_u64 {
        let checked = seed.is_multiple_of(2);
        let device = if checked { Device::simulated(seed) } else { Device::simulated_unchecked(seed) };
        let streams = ["named", "other"].map(|name| device.stream(name).unwrap());
        let findings = Findings::default();
        let mut pump = Pump::new(&device, Numbers::new(6), options("f4", 1)).unwrap();
        let mut number = 0;
        loop {
            pump.step().unwrap();
            let batch = match pump.try_next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => continue,
                Err(end) => break assert_eq!(end.kind(), ErrorKind::Closed, "seed {seed}: {end}"),
            };
            findings.check_ragged(&batch, &streams[0], number).unwrap();
            streams[1].wait(batch.ready()).unwrap();
            findings.check_unnamed(&batch, &streams, number).unwrap();
            batch.release_on(&streams[1]).unwrap();
            number += 1;
        }
        device.run_until_idle();
        assert_eq!((number, findings.checks()), (6, 12), "seed {seed}");
        assert!(findings.wrong().is_empty(), "seed {seed}: {:?}", findings.wrong());
        assert!(device.hazards().is_empty(), "seed {seed}: {:?}", device.hazards());
    }
    let device = Device::host();
    let mut pump = Pump::new(&device, Numbers::new(1), options("f4", 1)).unwrap();
    assert_eq!(pump.step().unwrap(), Pumped::Fed);
    let elsewhere = Device::host().stream("elsewhere").unwrap();
    let refused = pump.try_next_batch().unwrap().unwrap().release_on(&elsewhere).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Argument);
}

/// F6: a backward pass reads the input again, later; the slot survives until then and no longer.
#[test]
fn f6_backward_reads_again() {
    for seed in 0..200 {
        for checked in [true, false] {
            let device = if checked { Device::simulated(seed) } else { Device::simulated_unchecked(seed) };
            let compute = device.stream("compute").unwrap();
            let mut pump = Pump::new(&device, Numbers::new(20), options("f6", 2)).unwrap();
            let findings = Findings::default();
            let mut forward: Option<Batch> = None;
            loop {
                let _ = pump.step().unwrap();
                match pump.try_next_batch() {
                    Ok(Some(batch)) => {
                        findings.check_ragged(&batch, &compute, batch.index()).unwrap();
                        // Backward of the batch before, while this one's forward is enqueued.
                        if let Some(last) = forward.replace(batch) {
                            findings.check_ragged(&last, &compute, last.index()).unwrap();
                        }
                    }
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
            device.run_until_idle();
            assert_eq!(findings.checks(), 39);
            findings.assert_none();
            assert!(device.hazards().is_empty());
        }
    }
}
