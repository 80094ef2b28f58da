//! A training loop: pictures become floats on the device, the backward pass reads the input again, and a run that
//! was stopped goes on where it was.
//!
//! Epochs and batches count from 0. What a checkpoint holds of the feed is two numbers, a [`Position`]: save them
//! beside the weights (with serde; here they stay in memory).
//!
//! Runs on the first CUDA device, or without one on the host device: the feed and the loop are the same.
//!
//! ```text
//! cargo run --release --example 06-training
//! ```

#![forbid(unsafe_code)]

use framelane::device::{Access, Device, Stream};
use framelane::feed::{Feeder, Layout, Options, Position, SlotWriter, Source, ToFloats};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Batch, Result};
use std::time::Duration;

/// Ten batches of pictures an epoch.
struct Pictures {
    next: u64,
}

impl Source for Pictures {
    fn name(&self) -> &str {
        "pictures"
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.next == 10 {
            return Ok(false);
        }
        self.next += 1;
        // A decoder would write here: this is the page-locked memory that the copy is made from.
        slot.tensor("image", &TensorSpec::new(DType::U8, [8, 32, 32, 3]))?.fill(self.next as u8);
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        self.next = 0;
        Ok(true)
    }
}

/// Stands for a network's pass over the input: a few hundred µs of work.
fn pass(stream: &Stream, name: &'static str, input: Access<'_>) -> Result<()> {
    const WORK: Duration = Duration::from_micros(300);
    match stream.cuda() {
        Some(_) => stream.launch_on_cuda(name, &[input], |stream, _| stream.spin(WORK)),
        None => stream.launch(name, &[input], |_| {
            std::thread::sleep(WORK);
            Ok(())
        }),
    }
}

/// One step. The batch, and with it the input, is given back at its end: enqueued work keeps it until it is done.
fn step(compute: &Stream, batch: Batch) -> Result<()> {
    let view = batch.on(compute)?;
    let image = view.tensor("image")?;
    pass(compute, "forward", image.access())?;
    pass(compute, "backward", image.access())
}

fn main() -> Result<()> {
    let device = Device::cuda(0).or_else(|why| {
        println!("on the host device: {why}");
        Ok::<_, framelane::Error>(Device::host())
    })?;
    let compute = device.stream("compute")?;
    let floats = ToFloats::unit(DType::F16, Layout::Chw)?.normalised([0.5; 4], [0.25; 4]);
    let options = |resume: Position| Options { to_floats: Some(floats), resume, ..Options::new("train") };

    // The first run is stopped in the middle of its second epoch.
    let feeder = Feeder::new(&device, Pictures { next: 0 }, options(Position::default()))?;
    for n in 0..16 {
        match feeder.next_batch()? {
            Some(batch) => {
                if n == 0 {
                    println!(
                        "a batch holds {:?}",
                        batch.specs().map(ToString::to_string).collect::<Vec<_>>()
                    );
                }
                step(&compute, batch)?;
            }
            None => assert!(feeder.rewind()?, "pictures can be read again"),
        }
    }
    let Position { epoch, batch } = feeder.position();
    println!("stopped before batch {batch} of epoch {epoch}");
    drop(feeder);

    // The second goes on there, to the end of the epoch.
    let feeder = Feeder::new(&device, Pictures { next: 0 }, options(Position { epoch, batch }))?;
    let mut steps = 0;
    for input in &feeder {
        step(&compute, input?)?;
        steps += 1;
    }
    println!("{steps} more steps end the epoch");
    let report = feeder.epoch_report();
    let (waits, waited) = report.consumer_syncs;
    println!("this thread waited for the device {waits} times, for {waited:?}");
    compute.synchronize("the example's end")?;
    println!("{}", feeder.epoch_report());
    Ok(())
}
