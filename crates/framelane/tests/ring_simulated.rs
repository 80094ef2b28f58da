//! The ring on the simulated device: at least 10 000 seeded interleavings of each policy and depth, and the
//! proof that the test could fail: with a fence left out, the hazard check says so and wrong bytes are read.

#![cfg(not(loom))]

use framelane::device::{Access, Buffer, Device, Memory, Stream};
use framelane::ring::{self, Options, Policy, TryTake};
use framelane::{Error, ErrorKind, Result};

const RUNS: u64 = 10_000;
const SLOT: usize = 16;

/// A fence that is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    /// The writer's stream does not wait for what `wait_for` says.
    WriterIgnoresReaders,
    /// The readers' streams do not wait for `ready`.
    ReaderIgnoresWriter,
    /// The lease ends with no fence of the streams that read.
    LeaseEndsUnfenced,
    /// The lease ends with a fence of one of the streams that read.
    LeaseKeepsOnlyTheLast,
}

#[derive(Clone, Copy, Debug)]
struct Scenario {
    policy: Policy,
    depth: usize,
    fault: Fault,
    checked: bool,
    seed: u64,
}

/// How a run ended; what is wrong with the ring itself is a panic.
#[derive(PartialEq, Debug)]
enum Outcome {
    Right,
    /// Bytes of another frame, or torn, or poison, were read.
    WrongBytes,
    Hazard,
}

type Writer = ring::Writer<Buffer, framelane::device::Event, u64>;
type Reader = ring::Reader<Buffer, framelane::device::Event, u64>;
type WriteSlot = ring::WriteSlot<Buffer, framelane::device::Event, u64>;
type Lease = ring::ReadLease<Buffer, framelane::device::Event, u64>;

/// Says which seed failed.
struct OnPanic(Scenario);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed: {:?}", self.0);
        }
    }
}

/// xorshift64* (Vigna 2016).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn pattern(frame: u64) -> [u8; SLOT] {
    std::array::from_fn(|i| (frame as u8).wrapping_mul(31).wrapping_add(i as u8 + 1))
}

/// A stream that reads, and where its kernels put what they read.
struct ReadingStream {
    stream: Stream,
    results: Buffer,
    expected: Vec<u64>,
}

const MAX_READS: usize = 256;

struct Held {
    lease: Lease,
    /// Which streams read it.
    streams: Vec<bool>,
}

struct Run {
    scenario: Scenario,
    rng: Rng,
    writer: Option<Writer>,
    reader: Reader,
    writing: Vec<Stream>,
    reading: Vec<ReadingStream>,
    slots: Vec<WriteSlot>,
    held: Vec<Held>,
    published: u64,
    taken: Vec<u64>,
    lost: Vec<u64>,
}

impl Run {
    fn new(scenario: Scenario) -> Result<Self> {
        let seed = scenario.seed;
        let device =
            if scenario.checked { Device::simulated(seed) } else { Device::simulated_unchecked(seed) };
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let max_slots = scenario.depth + usize::from(rng.one_in(4));
        let options =
            Options { name: "test".into(), policy: scenario.policy, slots: scenario.depth, max_slots };
        let maker = device.clone();
        let (writer, reader) = ring::ring(options, move |_| maker.alloc(SLOT, Memory::Device))?;
        let writing =
            (0..=rng.below(2)).map(|i| device.stream(format!("writer {i}"))).collect::<Result<_>>()?;
        let reading = (0..=rng.below(3))
            .map(|i| {
                let stream = device.stream(format!("reader {i}"))?;
                let results = device.alloc(SLOT * MAX_READS, Memory::Pinned)?;
                Ok(ReadingStream { stream, results, expected: Vec::new() })
            })
            .collect::<Result<_>>()?;
        let (writer, slots, held) = (Some(writer), Vec::new(), Vec::new());
        let (taken, lost) = (Vec::new(), Vec::new());
        Ok(Self { scenario, rng, writer, reader, writing, reading, slots, held, published: 0, taken, lost })
    }

    /// Random calls until enough is published (or the reader has cancelled), then the orderly end.
    fn play(&mut self) -> Result<()> {
        let frames = 4 + self.rng.below(10) as u64;
        let cancels = self.rng.one_in(8);
        let mut steps = 0;
        while self.published < frames {
            steps += 1;
            assert!(steps < 10_000, "nothing moves: {}", self.reader.occupancy());
            match self.rng.below(8) {
                0 | 1 if self.slots.len() < 2 => self.acquire(),
                2 | 3 if !self.slots.is_empty() => self.fill()?,
                4 | 5 => self.take()?,
                6 if !self.held.is_empty() => self.read_again()?,
                7 if !self.held.is_empty() => self.release()?,
                _ => {}
            }
            if cancels && self.published == frames / 2 {
                self.lost.extend(self.reader.cancel());
                let closed = self.writer.as_ref().map(|w| w.acquire().err().map(|e| e.kind()));
                assert_eq!(closed, Some(Some(ErrorKind::Closed)));
                break;
            }
        }
        // Of itself, or by an error, which comes once, after all that was published.
        let mut fails = self.rng.one_in(3);
        if fails && let Some(writer) = &self.writer {
            writer.finish(Err(Error::new(ErrorKind::Input, "broken")));
            assert_eq!(writer.try_acquire().err().map(|e| e.kind()), Some(ErrorKind::Closed));
        }
        // Handles and slots go in either order.
        if self.rng.one_in(2) {
            self.writer = None;
            self.slots.clear();
        }
        self.slots.clear();
        self.writer = None;
        loop {
            let took = match self.rng.below(3) {
                0 if !self.held.is_empty() => {
                    self.release()?;
                    continue;
                }
                1 => self.reader.try_take(),
                // At the end this never blocks.
                _ => self.reader.take().map(|lease| lease.map_or(TryTake::End, TryTake::Lease)),
            };
            match took {
                Ok(TryTake::Lease(lease)) => self.leased(lease)?,
                Ok(TryTake::Empty) => self.reading[0].stream.device().run_until_idle(),
                end => {
                    assert_eq!(self.reader.occupancy().ready, 0, "the end came before the data");
                    match end {
                        Err(error) if fails => assert_eq!(error.to_string(), "broken"),
                        Err(error) => panic!("told twice, or never given: {error}"),
                        Ok(_) if fails => panic!("the error was not told"),
                        Ok(_) => break,
                    }
                    fails = false;
                }
            }
        }
        for _ in 0..2 {
            assert!(self.reader.take()?.is_none(), "the end is for ever");
        }
        while !self.held.is_empty() {
            self.release()?;
        }
        Ok(())
    }

    fn acquire(&mut self) {
        let Some(writer) = &self.writer else { return };
        if let Some(mut slot) = writer.try_acquire().expect("nobody cancelled") {
            self.lost.extend(slot.take_replaced());
            if self.rng.one_in(16) {
                return drop(slot);
            }
            self.slots.push(slot);
        }
    }

    fn fill(&mut self) -> Result<()> {
        let at = self.rng.below(self.slots.len());
        let slot = self.slots.swap_remove(at);
        let stream = &self.writing[self.rng.below(self.writing.len())];
        if self.scenario.fault != Fault::WriterIgnoresReaders {
            for fence in slot.wait_for() {
                stream.wait(fence)?;
            }
        }
        let frame = self.published;
        stream.launch("fill", &[Access::write(slot.payload(), 0..SLOT)], move |k| {
            k.outputs[0].copy_from_slice(&pattern(frame));
            Ok(())
        })?;
        let ready = stream.record()?;
        if self.rng.one_in(16) {
            // Something went wrong halfway: the next writer must still come after this one.
            slot.recycle(vec![ready]);
        } else {
            self.published += 1;
            self.lost.extend(slot.publish(ready, frame));
        }
        Ok(())
    }

    fn take(&mut self) -> Result<()> {
        let must_be_complete = self.scenario.policy == Policy::Latest;
        if self.rng.one_in(2) {
            if let TryTake::Lease(lease) = self.reader.try_take()? {
                assert!(!must_be_complete || lease.ready().done_at().is_some());
                self.leased(lease)?;
            }
        } else if self.reader.occupancy().ready > 0 {
            let lease = self.reader.take()?.expect("it is not at its end");
            self.leased(lease)?;
        }
        Ok(())
    }

    fn leased(&mut self, mut lease: Lease) -> Result<()> {
        self.taken.push(*lease.meta());
        self.lost.extend(lease.take_skipped());
        let mut held = Held { lease, streams: vec![false; self.reading.len()] };
        for stream in 0..self.reading.len() {
            if !self.rng.one_in(3) {
                self.read(&mut held, stream)?;
            }
        }
        self.held.push(held);
        Ok(())
    }

    fn read(&mut self, held: &mut Held, stream: usize) -> Result<()> {
        let r = &mut self.reading[stream];
        let at = r.expected.len() * SLOT;
        if at == SLOT * MAX_READS {
            return Ok(());
        }
        if !held.streams[stream] && self.scenario.fault != Fault::ReaderIgnoresWriter {
            r.stream.wait(held.lease.ready())?;
        }
        held.streams[stream] = true;
        let accesses =
            [Access::read(held.lease.payload(), 0..SLOT), Access::write(&r.results, at..at + SLOT)];
        r.stream.launch("read", &accesses, |k| {
            k.outputs[0].copy_from_slice(k.inputs[0]);
            Ok(())
        })?;
        r.expected.push(*held.lease.meta());
        Ok(())
    }

    /// A backward pass: the input is read again, later, perhaps on another stream.
    fn read_again(&mut self) -> Result<()> {
        let at = self.rng.below(self.held.len());
        let mut held = self.held.swap_remove(at);
        let stream = self.rng.below(self.reading.len());
        self.read(&mut held, stream)?;
        self.held.push(held);
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        let at = self.rng.below(self.held.len());
        let mut held = self.held.swap_remove(at);
        let fences = self.reading.iter().zip(&held.streams).filter(|(_, read)| **read);
        let mut fences = fences.map(|(reading, _)| reading.stream.record()).collect::<Result<Vec<_>>>()?;
        match self.scenario.fault {
            Fault::LeaseEndsUnfenced => fences.clear(),
            Fault::LeaseKeepsOnlyTheLast => drop(fences.drain(..fences.len().saturating_sub(1))),
            _ => {}
        }
        fences.into_iter().for_each(|fence| held.lease.add_fence(fence));
        Ok(())
    }

    /// What must be so after any run.
    fn check(&self) -> Result<Outcome> {
        let device = self.reading[0].stream.device();
        for stream in self.writing.iter().chain(self.reading.iter().map(|r| &r.stream)) {
            stream.synchronize("end of the test")?;
        }
        let counts = self.reader.counts();
        assert_eq!(counts.published, self.published);
        assert_eq!(counts.taken, self.taken.len() as u64);
        assert_eq!(counts.dropped, self.lost.len() as u64);
        assert!(self.taken.is_sorted_by(|a, b| a < b), "out of order: {:?}", self.taken);
        let mut all = [&self.taken[..], &self.lost].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..self.published), "each is taken or dropped, once");
        if self.scenario.policy == Policy::Fifo && counts.dropped > 0 {
            assert!(self.lost.iter().min() > self.taken.iter().max(), "only a cancellation drops");
        }
        let occupancy = self.reader.occupancy();
        assert!(occupancy.writing == 0 && occupancy.ready == 0 && occupancy.leased.is_empty(), "{occupancy}");
        assert!(occupancy.free >= self.scenario.depth, "{occupancy}");
        assert_eq!(device.hazards(), []);
        let mut outcome = Outcome::Right;
        for reading in &self.reading {
            let results = reading.results.read_host()?;
            for (bytes, &frame) in results.chunks(SLOT).zip(&reading.expected) {
                if bytes != pattern(frame) {
                    assert_ne!(self.scenario.fault, Fault::None, "frame {frame} was read as {bytes:?}");
                    outcome = Outcome::WrongBytes;
                }
            }
        }
        Ok(outcome)
    }
}

fn run(scenario: Scenario) -> Outcome {
    let _seed = OnPanic(scenario);
    let mut run = Run::new(scenario).expect("the ring is made");
    let expect_hazard = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Hazard, "{error}");
        assert_ne!(scenario.fault, Fault::None, "{error}");
        Outcome::Hazard
    };
    match run.play().and_then(|()| run.check()) {
        Ok(outcome) => outcome,
        Err(error) => {
            let device = run.reading[0].stream.device();
            assert_eq!(device.hazards().len(), 1);
            device.run_until_idle();
            expect_hazard(error)
        }
    }
}

fn no_seed_fails(policy: Policy, depth: usize) {
    for seed in 0..RUNS {
        let scenario = Scenario { policy, depth, fault: Fault::None, checked: true, seed };
        assert_eq!(run(scenario), Outcome::Right);
    }
}

macro_rules! depths {
    ($($name:ident: $policy:ident $depth:literal;)*) => {
        $(#[test]
        fn $name() {
            no_seed_fails(Policy::$policy, $depth);
        })*
    };
}

depths! {
    fifo_1: Fifo 1;
    fifo_2: Fifo 2;
    fifo_3: Fifo 3;
    fifo_8: Fifo 8;
    latest_1: Latest 1;
    latest_2: Latest 2;
    latest_3: Latest 3;
    latest_8: Latest 8;
}

/// The same seeds with a fence left out: unchecked, some read wrong bytes; checked, all those (and more,
/// where luck put things right) are reported.
fn a_fault_is_found(fault: Fault) {
    for policy in [Policy::Fifo, Policy::Latest] {
        let (mut wrong, mut reported) = (0, 0);
        for seed in 0..1000 {
            let scenario = Scenario { policy, depth: 2, fault, checked: false, seed };
            let unchecked = run(scenario);
            let checked = run(Scenario { checked: true, ..scenario });
            assert_ne!(unchecked, Outcome::Hazard);
            assert_ne!(checked, Outcome::WrongBytes, "{fault:?} went unnoticed, seed {seed}");
            wrong += u32::from(unchecked == Outcome::WrongBytes);
            reported += u32::from(checked == Outcome::Hazard);
            assert!(
                unchecked == Outcome::Right || checked == Outcome::Hazard,
                "{fault:?} gave wrong bytes and no report, seed {seed}"
            );
        }
        eprintln!("{fault:?}, {policy:?}: {wrong} of 1000 runs read wrong bytes, {reported} were reported");
        // With one stream that reads, one fence is all there is to keep.
        let (few, many) = if fault == Fault::LeaseKeepsOnlyTheLast { (10, 400) } else { (20, 500) };
        assert!(wrong > few, "{fault:?}: only {wrong} of 1000 runs read wrong bytes ({policy:?})");
        assert!(reported > many, "{fault:?}: only {reported} of 1000 runs were reported ({policy:?})");
    }
}

#[test]
fn a_writer_that_ignores_readers_is_found() {
    a_fault_is_found(Fault::WriterIgnoresReaders);
}

#[test]
fn a_reader_that_ignores_the_writer_is_found() {
    a_fault_is_found(Fault::ReaderIgnoresWriter);
}

#[test]
fn a_lease_that_ends_unfenced_is_found() {
    a_fault_is_found(Fault::LeaseEndsUnfenced);
}

#[test]
fn a_lease_that_keeps_only_the_last_fence_is_found() {
    a_fault_is_found(Fault::LeaseKeepsOnlyTheLast);
}
