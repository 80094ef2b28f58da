//! Lanes on the host device: order, identity, equality, failures, and that nothing is held up or left behind.

mod common;

use common::*;
use framelane::device::Device;
use framelane::feed::{Feeder, Limit, Options as FeedOptions};
use framelane::frame::FrameMeta;
use framelane::lanes::{Job, Lanes, Model, Options, Session, Ticket};
use framelane::stats::{Recorder, Stage};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Batch, Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

/// What a toy network does with frame `index`.
type Act = Box<dyn Fn(Option<&FrameMeta>) -> Result<()> + Send + Sync>;

/// Adds 1 to each byte of the first input, and says in a second output which frame it saw.
struct Toy {
    act: Act,
    sessions: AtomicU64,
    alive: Arc<AtomicUsize>,
}

impl Toy {
    fn new(act: impl Fn(Option<&FrameMeta>) -> Result<()> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { act: Box::new(act), sessions: AtomicU64::new(0), alive: Arc::default() })
    }
}

/// A session points back at what its model does.
struct ToySession {
    toy: Arc<Toy>,
    /// Scratch, to be seen in the memory if sessions were left behind.
    _scratch: Vec<u8>,
}

impl Drop for ToySession {
    fn drop(&mut self) {
        self.toy.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// [`Model`] for an `Arc<Toy>`, so that sessions can share it.
struct ToyModel(Arc<Toy>);

fn toy(act: impl Fn(Option<&FrameMeta>) -> Result<()> + Send + Sync + 'static) -> Arc<ToyModel> {
    Arc::new(ToyModel(Toy::new(act)))
}

impl Model for ToyModel {
    fn name(&self) -> &str {
        "toy"
    }
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        match inputs {
            [data] if data.dtype() == DType::U8 => Ok(vec![data.clone(), TensorSpec::new(DType::I64, [])]),
            _ => Err(Error::new(ErrorKind::Model, "toy takes one u8 tensor")),
        }
    }
    fn session(&self) -> Result<Box<dyn Session>> {
        self.0.sessions.fetch_add(1, Ordering::Relaxed);
        self.0.alive.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(ToySession { toy: self.0.clone(), _scratch: vec![0; 1 << 16] }))
    }
}

impl Session for ToySession {
    fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
        (self.toy.act)(job.meta)?;
        let input = job.inputs[0].1;
        for (to, from) in job.outputs[0].1.iter_mut().zip(input) {
            *to = from.wrapping_add(1);
        }
        let index = job.meta.map_or(u64::MAX, |m| m.index);
        job.outputs[1].1.copy_from_slice(&index.to_le_bytes());
        Ok(())
    }
}

fn feeder(device: &Device, count: u64, depth: usize) -> Feeder {
    Feeder::new(device, Numbers::even(count, 500), options("lanes", depth)).unwrap()
}

/// What the toy makes of frame `index`: checksums of its outputs.
fn expected(index: u64) -> Vec<u64> {
    let plus_one: Vec<u8> = content(index, 0, 500).iter().map(|b| b.wrapping_add(1)).collect();
    vec![checksum(&plus_one), checksum(&index.to_le_bytes())]
}

fn index_of(batch: &Batch) -> u64 {
    batch.meta().unwrap().index
}

#[test]
fn r3_ten_thousand_jobs() {
    let device = Device::host();
    let model = toy(|_| Ok(()));
    let lanes = Lanes::new(&device, model.clone(), Options::new(2)).unwrap();
    let feeder = feeder(&device, 10_000, 3);
    let mut before = None;
    let mut next = 0;
    let mut tickets: VecDeque<Ticket> = VecDeque::new();
    let mut finish = |ticket: Ticket| {
        assert_eq!((ticket.number(), index_of(&ticket.wait().unwrap())), (next, next));
        next += 1;
        if next % 1000 == 0 {
            let c = device.counters();
            let now = (c.pinned_bytes, c.device_bytes, c.streams_made, c.allocations);
            assert_eq!(*before.get_or_insert(now), now, "after {next} jobs");
        }
    };
    for batch in &feeder {
        tickets.push_back(lanes.submit(&batch.unwrap()).unwrap());
        if tickets.len() == 4 {
            finish(tickets.pop_front().unwrap());
        }
    }
    tickets.into_iter().for_each(&mut finish);
    assert_eq!(next, 10_000);
    assert_eq!(model.0.sessions.load(Ordering::Relaxed), 2);
}

#[test]
fn r4_lanes_agree_bit_for_bit() {
    let run = |count: usize| {
        let device = Device::host();
        let lanes = Lanes::new(&device, toy(|_| Ok(())), Options::new(count)).unwrap();
        let feeder = feeder(&device, 40, 4);
        lanes.run(&feeder).map(|output| read_back(&device, &output.unwrap())).collect::<Vec<_>>()
    };
    let one = run(1);
    assert_eq!(one.len(), 40);
    for count in [2, 4] {
        assert_eq!(run(count), one, "{count} lanes");
    }
    for (index, outputs) in one.iter().enumerate() {
        let found: Vec<_> = outputs.iter().map(|o| checksum(o)).collect();
        assert_eq!(found, expected(index as u64));
    }
}

/// Two jobs are inside the network at the same time: they meet there, or this test never ends.
#[test]
fn r5_two_jobs_at_once() {
    let device = Device::host();
    let meeting = Barrier::new(2);
    let model = toy(move |_| {
        meeting.wait();
        Ok(())
    });
    let lanes = Lanes::new(&device, model, Options::new(2)).unwrap();
    let feeder = feeder(&device, 20, 4);
    within(Duration::from_secs(10), "meeting in the network", move || {
        for _ in 0..10 {
            // Each pair finds both lanes idle: while jobs are ending, one lane may be given two in a row.
            let pair = [(); 2].map(|()| lanes.submit(&feeder.next_batch().unwrap().unwrap()).unwrap());
            pair.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
        }
    });
}

/// While a job runs, and runs, nothing that does not need its result waits for it.
#[test]
fn r5_no_lock_while_a_job_runs() {
    let device = Device::host();
    let gate = Gate::new();
    let wait = gate.clone();
    let model = toy(move |_| {
        wait.pass();
        Ok(())
    });
    let lanes = Lanes::new(&device, model, Options { in_flight: 3, ..Options::new(1) }).unwrap();
    let feeder = feeder(&device, 5, 5);
    let batches: Vec<_> = (&feeder).collect::<Result<_>>().unwrap();
    let start = Instant::now();
    let first = lanes.submit(&batches[0]).unwrap();
    gate.await_comer();
    let second = lanes.submit(&batches[1]).unwrap();
    assert!(!first.is_done() && !second.is_done());
    assert_eq!(lanes.occupancy().leased.len(), 2);
    assert_eq!((second.number(), second.meta().unwrap().index), (1, 1));
    let third = lanes.try_submit(&batches[2]).unwrap().expect("there is a third slot");
    assert!(lanes.try_submit(&batches[3]).unwrap().is_none());
    let third = third.wait_for(ms(20)).unwrap().expect_err("it cannot be done");
    assert!(start.elapsed() < ms(900), "{:?}", start.elapsed());
    // A full ring holds the submitter back until an output is given up, and no longer.
    std::thread::scope(|s| {
        let submitting = s.spawn(|| lanes.submit(&batches[4]).unwrap());
        std::thread::sleep(ms(20));
        assert!(!submitting.is_finished());
        gate.open();
        assert_eq!(index_of(&first.wait().unwrap()), 0);
        assert_eq!(index_of(&submitting.join().unwrap().wait().unwrap()), 4);
    });
    assert_eq!(index_of(&second.wait().unwrap()), 1);
    assert_eq!(index_of(&third.wait().unwrap()), 2);
}

/// A batch is held by its own jobs, not by others that its lane is given before it is dropped: the slot is
/// written again although the lane is stuck, and not before the last of its own jobs is done.
#[test]
fn a_batch_is_free_when_its_own_jobs_are_done() {
    let (device, stuck, slow) = (Device::host_checked(), Gate::new(), Gate::new());
    let (wait, wait_slow, slow_runs) = (stuck.clone(), slow.clone(), AtomicU64::new(0));
    let model = toy(move |meta| {
        match meta.map(|m| (&*m.source == "numbers", m.index)) {
            Some((true, 0)) if slow_runs.fetch_add(1, Ordering::Relaxed) == 1 => wait_slow.pass(),
            Some((true, 7)) => wait.pass(),
            _ => {}
        }
        Ok(())
    });
    let lanes = Lanes::new(&device, model, Options { in_flight: 4, ..Options::new(1) }).unwrap();
    let feeder = feeder(&device, 3, 1);
    // Frame 7 comes another way.
    let others = self::feeder(&device, 8, 8);
    let seventh = (&others).map(|b| b.unwrap()).last().unwrap();
    let (open_stuck, open_slow) = (Opener(stuck), Opener(slow));
    let first = feeder.next_batch().unwrap().unwrap();
    let jobs = [(); 2].map(|()| lanes.submit(&first).unwrap());
    let blocked = lanes.submit(&seventh).unwrap();
    drop(first);
    // Its second job still reads it.
    let second = feeder.next_batch().unwrap().unwrap();
    assert!(!second.ready().synchronize_for("test", ms(20)).unwrap());
    drop(open_slow);
    jobs.into_iter().for_each(|job| drop(job.wait().unwrap()));
    assert!(second.ready().synchronize_for("test", ms(5000)).unwrap(), "it waits for another batch's job");
    assert!(!blocked.is_done());
    drop(open_stuck);
    assert_eq!(index_of(&blocked.wait().unwrap()), 7);
    assert_eq!(device.hazards(), []);
}

/// One slow job holds its lane, and no other: the next jobs go where there are fewer.
#[test]
fn a_slow_job_holds_only_its_lane() {
    let (device, gate) = (Device::host(), Gate::new());
    let wait = gate.clone();
    let model = toy(move |meta| {
        if meta.unwrap().index == 0 {
            wait.pass();
        }
        Ok(())
    });
    let lanes = Lanes::new(&device, model, Options { in_flight: 3, ..Options::new(2) }).unwrap();
    // A slot for each frame: the one that the slow job reads cannot be written again.
    let feeder = feeder(&device, 8, 8);
    let opener = Opener(gate);
    let slow = lanes.submit(&feeder.next_batch().unwrap().unwrap()).unwrap();
    for index in 1..8 {
        let ticket = lanes.submit(&feeder.next_batch().unwrap().unwrap()).unwrap();
        let done = ticket.wait_for(ms(5000)).unwrap();
        assert_eq!(index_of(&done.expect("it is not behind the slow job")), index);
    }
    assert!(!slow.is_done());
    drop(opener);
    assert_eq!(index_of(&slow.wait().unwrap()), 0);
}

#[test]
fn r8_order_and_identity() {
    for count in 1..=4 {
        let device = Device::host();
        let model = toy(|meta| {
            let mut rng = Rng(meta.map_or(0, |m| m.index));
            std::thread::sleep(Duration::from_micros(rng.next() % 2000));
            Ok(())
        });
        let lanes = Lanes::new(&device, model, Options::new(count)).unwrap();
        let feeder = feeder(&device, 120, 3);
        let reader = device.stream("reader").unwrap();
        let findings = Findings::default();
        let mut next = 0;
        for output in lanes.run(&feeder) {
            let output = output.unwrap();
            assert_eq!((output.index(), index_of(&output)), (next, next));
            findings.check(&output, &reader, next, expected(next)).unwrap();
            next += 1;
        }
        assert_eq!(next, 120);
        reader.synchronize("test").unwrap();
        assert_eq!(findings.checks(), 120);
        findings.assert_none();
    }
}

/// Outputs are read by a slow stream, fenced, without waiting: their slots are not written before it is
/// done, and the submitter is held back in the end.
#[test]
fn slow_readers_of_outputs_are_honoured() {
    for in_flight in [1, 2, 3] {
        let device = Device::host_checked();
        let options = Options { in_flight, ..Options::new(1) };
        let lanes = Lanes::new(&device, toy(|_| Ok(())), options).unwrap();
        let feeder = feeder(&device, 40, 2);
        let reader = device.stream("slow reader").unwrap();
        let findings = Findings::default();
        for batch in &feeder {
            let output = lanes.submit(&batch.unwrap()).unwrap().fenced();
            let index = index_of(&output);
            output.on(&reader).unwrap();
            delay(&reader, ms(1)).unwrap();
            findings.check(&output, &reader, index, expected(index)).unwrap();
        }
        reader.synchronize("test").unwrap();
        assert_eq!(findings.checks(), 40);
        findings.assert_none();
        assert_eq!(device.hazards(), []);
    }
}

/// R11: a frame that fails, or panics, is named, and the next ones succeed. After a panic the session is
/// made again; after an error it is kept.
#[test]
fn r11_failures_are_of_one_frame() {
    let device = Device::host();
    let model = toy(|meta| match meta.unwrap().index {
        3 => Err(Error::new(ErrorKind::Model, "not this one")),
        6 => panic!("never this one"),
        7 => panic!("nor this one"),
        _ => Ok(()),
    });
    let lanes = Lanes::new(&device, model.clone(), Options::new(1)).unwrap();
    let feeder = feeder(&device, 12, 3);
    // Outputs that are kept would keep the lanes' slots.
    let read = |output: Batch| read_back(&device, &output).iter().map(|o| checksum(o)).collect::<Vec<_>>();
    let results: Vec<_> = lanes.run(&feeder).map(|result| result.map(read)).collect();
    assert_eq!(results.len(), 12);
    for (index, result) in results.iter().enumerate() {
        match (index, result) {
            (3, Err(e)) => {
                assert_eq!(e.kind(), ErrorKind::Model);
                assert_eq!(e.to_string(), "toy on frame 3 of numbers: not this one");
            }
            (6 | 7, Err(e)) => {
                assert_eq!(e.kind(), ErrorKind::Panic);
                assert!(e.to_string().starts_with(&format!("toy on frame {index} of numbers: ")), "{e}");
                assert!(e.to_string().contains("this one"), "{e}");
            }
            (_, Ok(found)) => assert_eq!(found, &expected(index as u64)),
            (_, Err(e)) => panic!("frame {index}: {e}"),
        }
    }
    assert_eq!(model.0.sessions.load(Ordering::Relaxed), 3);
    drop(lanes);
    assert_eq!(model.0.alive.load(Ordering::Relaxed), 0);
}

/// A network whose sessions cannot be made, at first or again after a panic.
struct Fragile {
    made: AtomicU64,
    /// What happens when session number `n` is made.
    make: fn(u64) -> Result<()>,
    outputs: fn(&[TensorSpec]) -> Result<Vec<TensorSpec>>,
}

struct Panics;

impl Session for Panics {
    fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
        match job.meta.unwrap().index {
            0 | 2 => panic!("frame {}", job.meta.unwrap().index),
            _ => {
                job.outputs[0].1.fill(7);
                Ok(())
            }
        }
    }
}

impl Model for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        (self.outputs)(inputs)
    }
    fn session(&self) -> Result<Box<dyn Session>> {
        (self.make)(self.made.fetch_add(1, Ordering::Relaxed))?;
        Ok(Box::new(Panics))
    }
}

fn fragile(make: fn(u64) -> Result<()>) -> Arc<Fragile> {
    Arc::new(Fragile { made: AtomicU64::new(0), make, outputs: |inputs| Ok(inputs.to_vec()) })
}

#[test]
fn r11_a_session_that_cannot_be_made_again() {
    for make in [(|n| if n == 1 { panic!("no second one") } else { Ok(()) }) as fn(u64) -> Result<()>, |n| {
        if n == 1 { Err(Error::new(ErrorKind::Model, "no second one")) } else { Ok(()) }
    }] {
        let device = Device::host();
        let lanes = Lanes::new(&device, fragile(make), Options::new(1)).unwrap();
        let feeder = feeder(&device, 5, 2);
        let results: Vec<_> = lanes.run(&feeder).map(|r| r.map(|b| index_of(&b))).collect();
        let text: Vec<_> =
            results.iter().map(|r| r.as_ref().map_or_else(ToString::to_string, |_| "done".into())).collect();
        // 0 panics; 1 finds no session; 2 has one again, and panics; 3 and 4 are well.
        assert!(text[0].contains("frame 0 of numbers") && text[0].contains("frame 0"), "{text:?}");
        assert!(text[1].contains("frame 1 of numbers") && text[1].contains("no second one"), "{text:?}");
        assert!(text[2].contains("frame 2 of numbers"), "{text:?}");
        assert_eq!((text[3].as_str(), text[4].as_str()), ("done", "done"));
    }
}

#[test]
fn a_first_session_that_cannot_be_made_is_told_at_once() {
    for make in [(|n| if n == 2 { panic!("out of scratch") } else { Ok(()) }) as fn(u64) -> Result<()>, |n| {
        if n == 2 { Err(Error::new(ErrorKind::Model, "out of scratch")) } else { Ok(()) }
    }] {
        let device = Device::host();
        let error = Lanes::new(&device, fragile(make), Options::new(4)).unwrap_err();
        assert!(error.to_string().contains("out of scratch"), "{error}");
        assert_eq!(held(&device), (0, 0, 0));
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused_and_cost_nothing() {
    let device = Device::host();
    let model = Arc::new(Fragile {
        made: AtomicU64::new(0),
        make: |_| Ok(()),
        outputs: |inputs| match inputs[0].shape() {
            [500] => Err(Error::new(ErrorKind::Model, "fragile takes 400 bytes, not 500")),
            [1] => Ok(vec![TensorSpec::new(DType::F64, [usize::MAX, usize::MAX])]),
            _ => Ok(inputs.to_vec()),
        },
    });
    let lanes = Lanes::new(&device, model, Options { in_flight: 2, ..Options::new(2) }).unwrap();
    let allocations = device.counters().allocations;
    let wrong = feeder(&device, 9, 1);
    for batch in &wrong {
        let error = lanes.submit(&batch.unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "fragile takes 400 bytes, not 500");
    }
    let huge = Feeder::new(&device, Numbers::even(1, 1), options("huge", 1)).unwrap();
    let error = lanes.submit(&huge.next_batch().unwrap().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    // Slots were not used up by what was refused.
    assert_eq!((lanes.occupancy().free, lanes.occupancy().leased.len()), (2, 0));
    assert!(device.counters().allocations <= allocations + 5, "only the feeders' own");
    // A batch of another device is refused.
    let elsewhere = Device::host();
    let foreign = Feeder::new(&elsewhere, Numbers::even(1, 400), options("foreign", 1)).unwrap();
    let error = lanes.submit(&foreign.next_batch().unwrap().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert_eq!(lanes.occupancy().free, 2);
}

/// An error in the input takes its place among the outputs, and an input that never ends in errors is not
/// swallowed whole before the first output.
#[test]
fn run_puts_errors_in_their_place() {
    let device = Device::host();
    let lanes = Lanes::new(&device, toy(|_| Ok(())), Options::new(2)).unwrap();
    let feeder =
        Feeder::new(&device, Numbers::even(9, 500).twist(Twist::Fail(5)), options("run", 2)).unwrap();
    let results: Vec<_> = lanes.run(&feeder).map(|r| r.map(|b| index_of(&b))).collect();
    assert_eq!(results.len(), 6);
    assert!(
        results[..5].iter().enumerate().all(|(n, r)| matches!(r, Ok(i) if *i == n as u64)),
        "{results:?}"
    );
    assert_eq!(results[5].as_ref().unwrap_err().to_string(), "batch 5 is damaged");
    let endless = std::iter::repeat_with(|| Err(Error::new(ErrorKind::Input, "again")));
    within(Duration::from_secs(5), "an endless input of errors", move || {
        assert_eq!(lanes.run(endless).take(3).filter(Result::is_err).count(), 3);
    });
}

#[test]
fn output_budget_names_the_sum() {
    let device = Device::host();
    let lane_options = Options { in_flight: 3, output_budget: 2000, ..Options::new(1) };
    let lanes = Lanes::new(&device, toy(|_| Ok(())), lane_options).unwrap();
    let feeder = feeder(&device, 9, 3);
    // 500 bytes and 8 are 512 + 8, so 768 in a slot.
    let held: Vec<_> =
        (0..2).map(|_| lanes.submit(&feeder.next_batch().unwrap().unwrap()).unwrap()).collect();
    let third = feeder.next_batch().unwrap().unwrap();
    let error = lanes.submit_for(&third, ms(5000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Budget);
    for part in
        ["device memory", "outputs of toy", "2304 bytes", "a slot of 768", "1536 in the others", "2000"]
    {
        assert!(error.to_string().contains(part), "{error}");
    }
    // Told once: from now on the two slots that have their memory are what may be in flight.
    let batch = third;
    for _ in 0..4 {
        assert!(lanes.try_submit(&batch).unwrap().is_none());
        let held_back = lanes.submit_for(&batch, ms(5)).unwrap_err();
        assert_eq!(held_back.kind(), ErrorKind::Timeout, "{held_back}");
    }
    drop(held);
    for _ in 0..10 {
        lanes.submit(&batch).unwrap().wait().unwrap();
    }
    // What no slot will ever have room for is refused each time.
    let large = Feeder::new(&device, Numbers::even(1, 5000), options("large", 1)).unwrap();
    let large = large.next_batch().unwrap().unwrap();
    for _ in 0..4 {
        assert_eq!(lanes.submit(&large).unwrap_err().kind(), ErrorKind::Budget);
    }
    lanes.submit(&batch).unwrap().wait().unwrap();
    assert_eq!((lanes.occupancy().free, lanes.occupancy().writing), (3, 0));
}

#[test]
fn a_submitter_that_is_held_back_for_too_long_says_by_what() {
    let (device, gate) = (Device::host(), Gate::new());
    let wait = gate.clone();
    let model = toy(move |_| {
        wait.pass();
        Ok(())
    });
    let lanes = Lanes::new(&device, model, Options { in_flight: 1, ..Options::new(1) }).unwrap();
    let feeder = feeder(&device, 2, 2);
    let opener = Opener(gate);
    let batch = feeder.next_batch().unwrap().unwrap();
    let ticket = lanes.submit_for(&batch, Duration::MAX).unwrap();
    let error = lanes.submit_for(&batch, ms(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("outputs of toy") && error.to_string().contains("held by"), "{error}");
    drop(opener);
    drop(ticket.wait().unwrap());
    // A slot that is free is had whatever the limit.
    lanes.submit_for(&batch, Duration::ZERO).unwrap().wait().unwrap();
}

/// A network that does not come back holds nobody up for longer than a second, and its lane ends when it does.
#[test]
fn dropping_the_lanes_while_a_job_runs_on_and_on() {
    let (device, gate) = (Device::host(), Gate::new());
    let wait = gate.clone();
    let model = toy(move |_| {
        wait.pass();
        Ok(())
    });
    let lanes = Lanes::new(&device, model.clone(), Options::new(2)).unwrap();
    let batch = feeder(&device, 1, 1).next_batch().unwrap().unwrap();
    let tickets = [(); 3].map(|()| lanes.submit(&batch).unwrap());
    let opener = Opener(gate.clone());
    within(Duration::from_secs(4), "dropping the lanes", move || drop(lanes));
    assert!(!tickets[2].is_done());
    drop(opener);
    // Who has a ticket gets its result.
    tickets.into_iter().for_each(|ticket| assert_eq!(index_of(&ticket.wait().unwrap()), 0));
    drop(batch);
    let none_left = || held(&device) == (0, 0, 0) && model.0.alive.load(Ordering::Relaxed) == 0;
    assert!(eventually(Duration::from_secs(1), none_left), "{:?}", device.counters());
}

#[test]
fn senseless_options_are_refused() {
    let device = Device::host();
    for options in [Options::new(0), Options { in_flight: 1, ..Options::new(2) }] {
        assert_eq!(Lanes::new(&device, toy(|_| Ok(())), options).unwrap_err().kind(), ErrorKind::Argument);
    }
    assert_eq!(held(&device), (0, 0, 0));
}

/// From the source to the consumer, with drops (`Latest`), failures and a cancellation at any moment: the
/// sum of the outcomes is the number of frames that came in.
#[test]
fn r10_every_frame_has_an_outcome() {
    for round in 0..60_u64 {
        let mut rng = Rng(round);
        let device = Device::host();
        let recorder = Recorder::new();
        let policy = if rng.one_in(2) { latest("r10", 2) } else { options("r10", 2) };
        let feed = FeedOptions { recorder: Some(recorder.clone()), ..policy };
        let model = toy(|meta| match meta.unwrap().index % 7 {
            3 => Err(Error::new(ErrorKind::Model, "a three")),
            5 => panic!("a five"),
            _ => Ok(()),
        });
        let options = Options { recorder: Some(recorder.clone()), ..Options::new(2) };
        let lanes = Lanes::new(&device, model, options).unwrap();
        let endless = rng.one_in(2);
        let count = if endless { u64::MAX } else { 50 };
        let feeder = Feeder::new(&device, Numbers::even(count, 500), feed).unwrap();
        let wait = Duration::from_micros(rng.next() % 3000);
        let outputs = std::thread::scope(|s| {
            if endless {
                s.spawn(|| {
                    std::thread::sleep(wait);
                    feeder.cancel(Duration::from_secs(1)).unwrap();
                });
            }
            let mut outputs = 0;
            for output in lanes.run(&feeder) {
                outputs += 1;
                match output {
                    Ok(frame) => recorder.frame_out(frame.meta().unwrap().captured.elapsed()),
                    Err(error) => recorder.frame_failed(match error.kind() {
                        ErrorKind::Panic => "panicked",
                        _ => "failed",
                    }),
                }
            }
            outputs
        });
        drop(feeder);
        let f = recorder.frames();
        assert_eq!(f.r#in, f.out + f.dropped + f.failed, "round {round}: {f:?}");
        assert_eq!(f.out + f.failed, outputs, "round {round}: {f:?}");
        if !endless && f.dropped == 0 {
            assert_eq!((f.r#in, f.failed_by["failed"], f.failed_by["panicked"]), (50, 7, 7), "{f:?}");
        }
    }
}

/// The network is named as the bottleneck when it is, with the load shared by the lanes; times that it
/// measures inside others are not counted twice.
#[test]
fn the_network_is_the_bottleneck() {
    struct Timed;
    impl Model for Timed {
        fn name(&self) -> &str {
            "timed"
        }
        fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
            Ok(inputs.to_vec())
        }
        fn session(&self) -> Result<Box<dyn Session>> {
            Ok(Box::new(Self))
        }
    }
    impl Session for Timed {
        fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
            job.timed(Stage::Convert, |job| {
                std::thread::sleep(ms(1));
                job.timed(Stage::Copy, |_| std::thread::sleep(ms(1)));
            });
            std::thread::sleep(ms(4));
            Ok(())
        }
    }
    let device = Device::host();
    let recorder = Recorder::new();
    let options = Options { recorder: Some(recorder.clone()), ..Options::new(2) };
    let lanes = Lanes::new(&device, Arc::new(Timed), options).unwrap();
    let feed = FeedOptions { recorder: Some(recorder.clone()), ..self::options("timed", 2) };
    let feeder = Feeder::new(&device, Numbers::even(30, 500), feed).unwrap();
    assert_eq!(lanes.run(&feeder).filter(Result::is_ok).count(), 30);
    let report = recorder.report(&device.counters());
    assert_eq!(report.bottleneck, Some(Stage::Network), "{report:?}");
    let busy = |stage| report.stages.iter().find(|s| s.name == stage).unwrap().busy_ms;
    assert!(busy(Stage::Network) >= 120.0, "{report:?}");
    let sum = busy(Stage::Network) + busy(Stage::Convert) + busy(Stage::Copy);
    assert!(sum <= report.wall_s * 1e3 * 4.0, "two lanes, the feed and the copies: {report:?}");
    let lanes_sum = busy(Stage::Network) + busy(Stage::Convert);
    assert!(lanes_sum <= report.wall_s * 1e3 * 2.0 + 10.0, "{report:?}");
    // The feed knows what became of its batches: 30 of 6 ms each, over two lanes.
    let feed = feeder.report();
    assert!((ms(90)..=feed.wall).contains(&feed.compute), "{feed}");
    assert_eq!(feed.limit(), Limit::Consumer, "{feed}");
    assert!(feeder.batch_reports().iter().all(|batch| batch.compute >= Some(ms(6))), "{feed}");
}

/// Lanes before tickets, feeder before batches, device last: whatever goes first, nothing hangs and nothing
/// is lost.
#[test]
fn any_order_of_dropping() {
    let device = Device::host();
    for order in 0..8 {
        let model = toy(|_| {
            std::thread::sleep(ms(2));
            Ok(())
        });
        let lanes = Lanes::new(&device, model, Options::new(2)).unwrap();
        let feeder = feeder(&device, 20, 3);
        let batches: Vec<_> = (&feeder).take(3).collect::<Result<_>>().unwrap();
        let tickets: Vec<_> = batches.iter().map(|b| lanes.submit(b).unwrap()).collect();
        let device = device.clone();
        within(Duration::from_secs(3), "dropping", move || match order {
            0 => drop((lanes, tickets, batches, feeder, device)),
            1 => drop((feeder, batches, lanes, tickets, device)),
            2 => drop((batches, feeder, tickets, lanes, device)),
            3 => drop((device, tickets, feeder, lanes, batches)),
            4 => {
                // Results of lanes that are gone.
                drop((lanes, feeder, batches));
                for (index, ticket) in (0..).zip(tickets) {
                    assert_eq!(index_of(&ticket.wait().unwrap()), index);
                }
            }
            5 => {
                // The input goes before its job has begun.
                drop(batches);
                for (index, ticket) in (0..).zip(tickets) {
                    let output = ticket.wait().unwrap();
                    let found: Vec<_> = read_back(&device, &output).iter().map(|o| checksum(o)).collect();
                    assert_eq!(found, expected(index));
                }
            }
            6 => {
                let outputs: Vec<_> = tickets.into_iter().map(Ticket::fenced).collect();
                drop((feeder, lanes, outputs, batches));
            }
            _ => drop((tickets, device, batches, lanes, feeder)),
        });
    }
    assert!(eventually(Duration::from_secs(1), || held(&device) == (0, 0, 0)), "{:?}", device.counters());
}

/// Several threads submit: numbers, tickets and identities agree.
#[test]
fn many_submitters() {
    let device = Device::host();
    let lanes = Lanes::new(&device, toy(|_| Ok(())), Options::new(3)).unwrap();
    let feeder = feeder(&device, 300, 6);
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for batch in &feeder {
                    let batch = batch.unwrap();
                    let ticket = lanes.submit(&batch).unwrap();
                    let (number, index) = (ticket.number(), index_of(&batch));
                    let output = ticket.wait().unwrap();
                    assert_eq!((output.index(), index_of(&output)), (number, index));
                    seen.lock().unwrap().push((number, index));
                }
            });
        }
    });
    let (mut numbers, mut indices): (Vec<_>, Vec<_>) = seen.into_inner().unwrap().into_iter().unzip();
    numbers.sort();
    indices.sort();
    assert!(numbers.iter().copied().eq(0..300) && indices.iter().copied().eq(0..300));
}
