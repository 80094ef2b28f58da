//! The report names the side that holds the others back, and its times add up.

mod common;

use common::*;
use framelane::device::Device;
use framelane::feed::{FeedReport, Feeder, Limit, Options, Pump, Pumped, SlotWriter, Source};
use framelane::stats::{Recorder, Stage};
use framelane::tensor::{DType, TensorSpec};
use framelane::{ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Batches of one tensor, with a slow source, or a slow conversion on the feed's own thread, or so large
/// that the copy is what takes time (nobody fills them).
struct Slow {
    left: u32,
    source: Duration,
    convert: Duration,
    bytes: usize,
}

impl Source for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        std::thread::sleep(self.source);
        slot.converting(|slot| {
            std::thread::sleep(self.convert);
            // Measured again inside: not to be counted twice.
            slot.converting(|slot| slot.tensor("x", &TensorSpec::new(DType::U8, [self.bytes])).map(|_| true))
        })
    }
}

struct Outcome {
    report: FeedReport,
    bottleneck: Option<Stage>,
}

/// Consume all of it, `work` a batch, and report.
fn consume(make: impl FnOnce(&Device, Options) -> Feeder, work: Duration, by_asking: bool) -> Outcome {
    let device = device();
    let recorder = Recorder::new();
    let sink = recorder.group(Stage::Sink, 1);
    let options = Options { recorder: Some(recorder.clone()), ..options("f20", 2) };
    let start = Instant::now();
    let feeder = make(&device, options);
    let next = || match by_asking {
        false => feeder.next_batch().unwrap(),
        true => loop {
            match feeder.try_next_batch() {
                Ok(Some(batch)) => break Some(batch),
                Ok(None) => std::thread::sleep(Duration::from_micros(50)),
                Err(_) => break None,
            }
        },
    };
    let mut batches = 0;
    while let Some(batch) = next() {
        sink.time(|| std::thread::sleep(work));
        drop(batch);
        batches += 1;
    }
    let report = feeder.report();
    let wall = start.elapsed();
    assert_eq!(report.batches, batches);
    assert!(report.wall <= wall, "{report}");
    for part in [report.copy, report.consumer_wait, report.held_back, report.source] {
        assert!(part <= wall, "{part:?} of {wall:?}: {report}");
    }
    if report.converters == 0 {
        assert!(report.source + report.convert + report.held_back <= wall, "{report}");
    }
    let sum = recorder.report(&device.counters());
    for stage in &sum.stages {
        let available = sum.wall_s * 1e3 * stage.workers.max(1) as f64;
        assert!(stage.busy_ms <= available + 0.1, "{stage:?} in {available} ms");
    }
    Outcome { report, bottleneck: sum.bottleneck }
}

fn assert_limit(outcome: &Outcome, limit: Limit, stage: Stage) {
    assert_eq!(outcome.report.limit(), limit, "{}", outcome.report);
    assert_eq!(outcome.bottleneck, Some(stage), "{}", outcome.report);
    let said = outcome.report.to_string();
    let first = said.lines().next().unwrap();
    assert!(first.ends_with(&format!(", limited by the {limit}")), "{said}");
    assert!(said.lines().count() == 3 && said.lines().all(|line| line.len() <= 160), "{said}");
}

const SLOW: Slow = Slow { left: 25, source: Duration::ZERO, convert: Duration::ZERO, bytes: 1000 };

#[test]
fn f20_source_is_the_slowest() {
    for by_asking in [false, true] {
        let source = Slow { source: ms(5), convert: ms(1), ..SLOW };
        let o = consume(|d, options| Feeder::new(d, source, options).unwrap(), ms(1), by_asking);
        assert_limit(&o, Limit::Source, Stage::Source);
    }
    let items = (0..25).map(|n| {
        std::thread::sleep(ms(5));
        Ok(n)
    });
    let o = consume(|d, o| Feeder::converting(d, items, 2, put_ragged, o).unwrap(), ms(1), false);
    assert_limit(&o, Limit::Source, Stage::Source);
}

#[test]
fn f20_convert_is_the_slowest() {
    let source = Slow { source: ms(1), convert: ms(5), ..SLOW };
    let o = consume(|d, options| Feeder::new(d, source, options).unwrap(), ms(1), false);
    assert_limit(&o, Limit::Convert, Stage::Convert);
    assert!(o.report.convert >= ms(5) * 25 && o.report.convert < o.report.wall, "{}", o.report);
    let convert = |n, slot: &mut SlotWriter<'_>| {
        std::thread::sleep(ms(12));
        put_ragged(n, slot)
    };
    let o = consume(|d, o| Feeder::converting(d, (0..25).map(Ok), 2, convert, o).unwrap(), ms(1), false);
    assert_limit(&o, Limit::Convert, Stage::Convert);
}

#[test]
fn f20_copy_is_the_slowest() {
    // As many as it takes for the copies to outweigh the allocation of the slots.
    let source = Slow { left: if on_cuda() { 600 } else { 60 }, bytes: 32 << 20, ..SLOW };
    let o = consume(|d, options| Feeder::new(d, source, options).unwrap(), Duration::ZERO, false);
    assert_limit(&o, Limit::Copy, Stage::Copy);
}

#[test]
fn f20_consumer_is_the_slowest() {
    for by_asking in [false, true] {
        let source = Slow { source: ms(1), convert: ms(1), ..SLOW };
        let o = consume(|d, options| Feeder::new(d, source, options).unwrap(), ms(6), by_asking);
        assert_limit(&o, Limit::Consumer, Stage::Sink);
        assert!(o.report.held_back > ms(25), "{}", o.report);
    }
}

/// R10 for the feed alone: cancelled at any moment, under either policy, every frame that came in went out
/// or was dropped, for a reason.
#[test]
fn r10_outcomes_add_up_when_cancelled() {
    for round in 0..200_u64 {
        let mut rng = Rng(round);
        let device = device();
        let recorder = Recorder::new();
        let policy = if rng.one_in(2) { latest("r10", 2) } else { options("r10", 2) };
        let options = Options { recorder: Some(recorder.clone()), ..policy };
        let feeder = Feeder::new(&device, Numbers::new(1_000_000), options).unwrap();
        let wait = Duration::from_micros(rng.next() % 900);
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(wait);
                if wait.as_micros().is_multiple_of(2) {
                    feeder.cancel(Duration::from_secs(1)).unwrap();
                }
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                let Some(batch) = feeder.next_batch().unwrap() else { break };
                recorder.frame_out(batch.meta().unwrap().captured.elapsed());
            }
        });
        let (given, name) = (recorder.clone(), feeder.occupancy());
        drop(feeder);
        let f = given.frames();
        assert_eq!(f.r#in, f.out + f.dropped + f.failed, "round {round}: {f:?} {name}");
    }
}

/// Waits at its gate, then gives one batch of each of these sizes.
struct Gated(Arc<Gate>, Vec<usize>);

impl Source for Gated {
    fn name(&self) -> &str {
        "gated"
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        self.0.pass();
        let Some(bytes) = self.1.pop() else { return Ok(false) };
        slot.tensor("x", &TensorSpec::new(DType::U8, [bytes]))?.fill(1);
        Ok(true)
    }
}

/// Cancelled by what happens to run while the feed's thread enqueues a copy: that frame is published when
/// nobody can read it any more.
#[test]
fn r10_a_frame_published_after_the_cancellation_is_dropped() {
    let mut late = 0;
    for seed in 0..100 {
        let device = Device::simulated(seed);
        let (gate, recorder) = (Gate::new(), Recorder::new());
        let options = Options { recorder: Some(recorder.clone()), ..options("r10", 2) };
        let feeder = Arc::new(Feeder::new(&device, Gated(gate.clone(), vec![64; 9]), options).unwrap());
        let in_at_the_cancellation = Arc::new(Mutex::new(None));
        let (theirs, seen) = (feeder.clone(), in_at_the_cancellation.clone());
        let frames = recorder.clone();
        let meanwhile = device.stream("meanwhile").unwrap();
        let cancel = meanwhile.launch("cancel", &[], move |_| {
            // Does not wait: the feed's thread may be the one that plays the device.
            let _ = theirs.cancel(Duration::ZERO);
            *seen.lock().unwrap() = Some(frames.frames().r#in);
            Ok(())
        });
        cancel.unwrap();
        gate.open();
        // Until it is cancelled, or has filled both slots.
        let cancelled = || in_at_the_cancellation.lock().unwrap().is_some();
        assert!(eventually(Duration::from_secs(5), || cancelled() || recorder.frames().r#in == 2));
        device.run_until_idle();
        feeder.cancel(Duration::from_secs(5)).unwrap();
        let f = recorder.frames();
        assert_eq!(f.r#in, f.out + f.dropped + f.failed, "seed {seed}: {f:?}");
        late += f.r#in - in_at_the_cancellation.lock().unwrap().unwrap();
    }
    assert!(late > 5, "only {late} frames were published after the cancellation");
}

/// Under `Latest` the frame that is replaced is gone, also if the one that was to replace it finds no room.
#[test]
fn r10_a_frame_replaced_by_one_that_fails_is_dropped() {
    let (device, gate, recorder) = (Device::simulated(0), Gate::new(), Recorder::new());
    gate.open();
    let options = Options { recorder: Some(recorder.clone()), device_budget: 1000, ..latest("r10", 1) };
    let mut pump = Pump::new(&device, Gated(gate, vec![5000, 500]), options).unwrap();
    assert_eq!(pump.step().unwrap(), Pumped::Fed);
    assert_eq!(pump.step().unwrap(), Pumped::Ended);
    assert_eq!(pump.try_next_batch().unwrap_err().kind(), ErrorKind::Budget);
    let f = recorder.frames();
    assert_eq!((f.r#in, f.dropped), (1, 1), "{f:?}");
}
