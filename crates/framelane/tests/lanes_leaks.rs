//! Lanes leave nothing behind: a file of its own, because it counts threads by name.

mod common;

use common::*;
use framelane::Result;
use framelane::device::Device;
use framelane::feed::Feeder;
use framelane::lanes::{Job, Lanes, Model, Options, Session};
use framelane::tensor::TensorSpec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Sessions alive.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Copy;
struct CopySession(Vec<u8>);

impl Model for Copy {
    fn name(&self) -> &str {
        "copy"
    }
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        Ok(inputs.to_vec())
    }
    fn session(&self) -> Result<Box<dyn Session>> {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(CopySession(vec![0; 1 << 16])))
    }
}

impl Session for CopySession {
    fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
        let input = job.inputs[0].1;
        self.0[..input.len()].copy_from_slice(input);
        job.outputs[0].1.copy_from_slice(&self.0[..input.len()]);
        Ok(())
    }
}

impl Drop for CopySession {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn r3_hundred_starts_and_stops() {
    let device = Device::host();
    let model = Arc::new(Copy);
    for cycle in 0..100 {
        let lanes = Lanes::new(&device, model.clone(), Options::new(1 + cycle % 4)).unwrap();
        let feeder = Feeder::new(&device, Numbers::even(20, 500), options("cycles", 2)).unwrap();
        match cycle % 3 {
            // To the end; left in the middle; with jobs on their way.
            0 => assert_eq!(lanes.run(&feeder).filter(Result::is_ok).count(), 20),
            1 => assert_eq!(lanes.run(&feeder).take(3).filter(Result::is_ok).count(), 3),
            _ => drop(lanes.submit(&feeder.next_batch().unwrap().unwrap()).unwrap()),
        }
        drop(feeder);
        drop(lanes);
        assert_eq!(held(&device), (0, 0, 0), "cycle {cycle}");
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0, "sessions alive after cycle {cycle}");
    }
    // A joined thread leaves the list of tasks a moment later.
    let none = || threads_named("stream lane").unwrap_or(0) + threads_named("feed cycles").unwrap_or(0) == 0;
    assert!(eventually(Duration::from_secs(1), none));
    assert_eq!(Arc::strong_count(&model), 1);
}
