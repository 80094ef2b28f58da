//! Feed, lanes and readers of the outputs together on the simulated device: random steps, a seeded order of
//! the streams, half of the runs with the hazard check and half without, checksums of every output.

mod common;

use common::*;
use framelane::device::Device;
use framelane::feed::{Options as FeedOptions, Pump};
use framelane::lanes::{Job, Lanes, Model, Options, Session, Ticket};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Batch, Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Inverts every byte of every input; one output more says which frame it was. Frames of a multiple of 5 plus
/// 3 fail, those of a multiple of 11 panic.
struct Invert;

impl Model for Invert {
    fn name(&self) -> &str {
        "invert"
    }
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        let mut outputs = inputs.to_vec();
        outputs.push(TensorSpec::new(DType::I64, []));
        Ok(outputs)
    }
    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(Self))
    }
}

impl Session for Invert {
    fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
        let index = job.meta.unwrap().index;
        match fate(index) {
            Fate::Fails => return Err(Error::new(ErrorKind::Model, "failed as it must")),
            Fate::Panics => std::panic::resume_unwind(Box::new("panicked as it must")),
            Fate::Works => {}
        }
        let (last, outputs) = job.outputs.split_last_mut().unwrap();
        for (to, from) in outputs.iter_mut().zip(job.inputs) {
            for (to, from) in to.1.iter_mut().zip(from.1) {
                *to = !from;
            }
        }
        last.1.copy_from_slice(&index.to_le_bytes());
        Ok(())
    }
}

#[derive(Debug, PartialEq)]
enum Fate {
    Works,
    Fails,
    Panics,
}

fn fate(index: u64) -> Fate {
    match index {
        n if n % 11 == 10 => Fate::Panics,
        n if n % 5 == 3 => Fate::Fails,
        _ => Fate::Works,
    }
}

fn expected(index: u64, salt: u64) -> Vec<u64> {
    let (_, specs) = ragged(index + salt);
    let mut sums: Vec<u64> = (0..)
        .zip(&specs)
        .map(|(t, spec)| {
            let inverted: Vec<u8> = content(index + salt, t, spec.bytes()).iter().map(|b| !b).collect();
            checksum(&inverted)
        })
        .collect();
    sums.push(checksum(&index.to_le_bytes()));
    sums
}

fn interleave(seed: u64) {
    let mut rng = Rng(seed);
    let device =
        if seed.is_multiple_of(2) { Device::simulated(seed) } else { Device::simulated_unchecked(seed) };
    let context = format!("seed {seed}");
    let count = 4 + rng.below(14) as u64;
    let lanes = 1 + rng.below(3);
    let in_flight = lanes + rng.below(3);
    let options = Options { in_flight, ..Options::new(lanes) };
    let lanes = Lanes::new(&device, Arc::new(Invert), options).unwrap();
    let feed = FeedOptions { depth: 1 + rng.below(3), ..FeedOptions::new("sim") };
    let source = Numbers { salt: seed, ..Numbers::new(count) };
    let mut pump = Pump::new(&device, source, feed).unwrap();
    let readers: Vec<_> = (0..2).map(|n| device.stream(format!("reader {n}")).unwrap()).collect();
    let findings = Findings::default();
    let mut inputs: VecDeque<Batch> = VecDeque::new();
    let mut tickets: VecDeque<Ticket> = VecDeque::new();
    let mut outputs: Vec<Batch> = Vec::new();
    let (mut ended, mut submitted, mut finished, mut checks) = (false, 0, 0, 0);
    while !ended || !inputs.is_empty() || !tickets.is_empty() {
        match rng.below(8) {
            0 => drop(pump.step().unwrap_or_else(|e| panic!("{context}: {e}"))),
            1 if inputs.len() < 3 && !ended => match pump.try_next_batch() {
                Ok(batch) => inputs.extend(batch),
                Err(end) => {
                    assert_eq!(end.kind(), ErrorKind::Closed, "{context}: {end}");
                    ended = true;
                }
            },
            2 | 3 if !inputs.is_empty() => {
                let ticket = lanes.try_submit(&inputs[0]).unwrap_or_else(|e| panic!("{context}: {e}"));
                if let Some(ticket) = ticket {
                    assert_eq!((ticket.number(), ticket.meta().unwrap().index), (submitted, submitted));
                    submitted += 1;
                    tickets.push_back(ticket);
                    inputs.pop_front();
                }
            }
            4 if !tickets.is_empty() && (outputs.len() < in_flight || rng.one_in(2)) => {
                let ticket = tickets.pop_front().unwrap();
                let index = ticket.meta().unwrap().index;
                assert_eq!(index, finished, "{context}");
                finished += 1;
                if fate(index) == Fate::Works && rng.one_in(2) {
                    outputs.push(ticket.fenced());
                } else {
                    match ticket.wait() {
                        Ok(output) => {
                            assert_eq!(fate(index), Fate::Works, "{context}: frame {index}");
                            outputs.push(output);
                        }
                        Err(error) => {
                            let named = error.to_string().contains(&format!("frame {index} of numbers"));
                            assert!(named && error.to_string().contains("as it must"), "{context}: {error}");
                            assert_ne!(fate(index), Fate::Works, "{context}: {error}");
                        }
                    }
                }
            }
            5 | 6 if !outputs.is_empty() => {
                let output = &outputs[rng.below(outputs.len())];
                let (reader, index) = (&readers[rng.below(2)], output.meta().unwrap().index);
                checks += 1;
                findings
                    .check(output, reader, index, expected(index, seed))
                    .unwrap_or_else(|e| panic!("{context}: {e}"));
            }
            7 if !outputs.is_empty() => drop(outputs.swap_remove(rng.below(outputs.len()))),
            _ => {}
        }
    }
    for output in outputs.drain(..) {
        let index = output.meta().unwrap().index;
        checks += 1;
        findings.check(&output, &readers[0], index, expected(index, seed)).unwrap();
    }
    drop((lanes, pump));
    device.run_until_idle();
    assert_eq!((submitted, finished), (count, count), "{context}");
    assert_eq!(findings.checks(), checks, "{context}");
    assert!(findings.wrong().is_empty(), "{context}: {:?}", findings.wrong());
    assert!(device.hazards().is_empty(), "{context}: {:?}", device.hazards());
    assert_eq!(device.counters().device_bytes, 0, "{context}");
}

#[test]
fn r8_order_identity_and_fences() {
    (0..6000).for_each(interleave);
}

#[test]
fn r8_more_of_the_same() {
    (6000..12_000).for_each(interleave);
}
