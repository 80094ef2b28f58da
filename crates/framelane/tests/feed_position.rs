//! A feed goes on where another one ended: each batch exactly once.

mod common;

use common::*;
use framelane::device::Device;
use framelane::feed::{Feeder, Interrupter, Options, Position, SlotWriter, Source};
use framelane::tensor::{DType, TensorSpec};
use framelane::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn resumed(at: Position) -> Options {
    Options { resume: at, ..options("resumed", 2) }
}

/// Epochs of seven numbers, each in an order of its own, as a shuffling loader gives them.
struct Shuffled {
    epoch: u64,
    next: u64,
    seeks: bool,
    /// Batches ever written.
    written: Arc<AtomicU64>,
}

impl Shuffled {
    fn new(seeks: bool) -> Self {
        Self { epoch: 0, next: 0, seeks, written: Arc::default() }
    }
}

fn expected(epoch: u64) -> Vec<u64> {
    (0..7).map(|n| 100 * epoch + (n * 3 + epoch) % 7).collect()
}

impl Source for Shuffled {
    fn name(&self) -> &str {
        "shuffled"
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let Some(number) = expected(self.epoch).get(self.next as usize).copied() else { return Ok(false) };
        self.next += 1;
        self.written.fetch_add(1, Ordering::Relaxed);
        let to = slot.tensor("n", &TensorSpec::new(DType::I64, [1]))?;
        to.copy_from_slice(&number.to_le_bytes());
        Ok(true)
    }
    fn rewind(&mut self) -> Result<bool> {
        (self.epoch, self.next) = (self.epoch + 1, 0);
        Ok(true)
    }
    fn seek(&mut self, at: Position) -> Result<bool> {
        if self.seeks {
            (self.epoch, self.next) = (at.epoch, at.batch);
        }
        Ok(self.seeks)
    }
    fn interrupter(&self) -> Option<Interrupter> {
        None
    }
}

/// Numbers of at most `count` batches, over the ends of epochs.
fn take(device: &Device, feeder: &Feeder, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        match feeder.next_batch().unwrap() {
            Some(batch) => {
                let bytes = read_back(device, &batch).remove(0);
                numbers.push(u64::from_le_bytes(bytes.try_into().unwrap()));
            }
            None => assert!(feeder.rewind().unwrap()),
        }
    }
    numbers
}

#[test]
fn each_batch_comes_exactly_once_wherever_it_stops() {
    let all: Vec<u64> = (0..3).flat_map(expected).collect();
    for seeks in [false, true] {
        for stop in 0..=16 {
            let device = device();
            let first = Feeder::new(&device, Shuffled::new(seeks), options("first", 2)).unwrap();
            let before = take(&device, &first, stop);
            let at = first.position();
            assert_eq!(at.epoch * 7 + at.batch, stop as u64, "{at:?}");
            // Whatever the feed had fetched ahead is not counted.
            drop(first);
            let source = Shuffled::new(seeks);
            let written = source.written.clone();
            let second = Feeder::new(&device, source, resumed(at)).unwrap();
            assert_eq!(second.position(), at);
            let after = take(&device, &second, 21 - stop);
            assert_eq!([before, after].concat(), all, "stopped after {stop}, seeks: {seeks}");
            let end = second.position();
            assert_eq!((end.epoch, end.batch), (2, 7));
            let skipped = if seeks { 0 } else { at.batch };
            assert_eq!(written.load(Ordering::Relaxed), 21 - stop as u64 + skipped);
        }
    }
}

#[test]
fn a_feed_of_an_iterator_resumes_in_its_only_epoch() {
    let device = device();
    let converted = Arc::new(AtomicU64::new(0));
    let (items, count) = ((0..20).map(Ok), converted.clone());
    let convert = move |n: u64, slot: &mut SlotWriter<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        put_ragged(n, slot)
    };
    let at = Position { epoch: 0, batch: 13 };
    let feeder = Feeder::converting(&device, items, 2, convert, resumed(at)).unwrap();
    assert_eq!(drain(&feeder).0, (13..20).collect::<Vec<_>>());
    assert_eq!(converted.load(Ordering::Relaxed), 7, "what is skipped is not converted");
}

#[test]
fn places_that_are_not_there_are_refused() {
    let device = device();
    let refused = |feeder: Feeder| {
        let (numbers, error) = drain(&feeder);
        let error = error.expect("there is no such place");
        assert_eq!((numbers, error.kind()), (vec![], ErrorKind::Argument), "{error}");
        assert!(feeder.next_batch().unwrap().is_none(), "told once");
        error.to_string()
    };
    let past = Position { epoch: 0, batch: 8 };
    let said = refused(Feeder::new(&device, Shuffled::new(false), resumed(past)).unwrap());
    assert!(said.contains("batch 8 of epoch 0") && said.contains("only 7 batches"), "{said}");
    let items = (0..20).map(Ok);
    let said = refused(
        Feeder::converting(&device, items, 1, put_ragged, resumed(Position { epoch: 1, batch: 0 })).unwrap(),
    );
    assert!(said.contains("only one epoch"), "{said}");
}
