//! One network in two lanes: its weights once, two jobs at a time, results in the order of the frames.
//!
//! A real network comes from `framelane-onnx`; this toy shows what a network must offer.
//!
//! ```text
//! cargo run --release --example 02-lanes
//! ```

#![forbid(unsafe_code)]

use framelane::device::{Device, Memory};
use framelane::feed::{Feeder, Options as FeedOptions};
use framelane::frame::FrameMeta;
use framelane::lanes::{Job, Lanes, Model, Options, Session};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Multiplies each byte by a weight. Shared by all lanes.
struct Scale {
    weight: u8,
}

impl Model for Scale {
    fn name(&self) -> &str {
        "scale"
    }

    /// What comes out for what goes in: asked once per shape, before anything is allocated.
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        match inputs {
            [one] if one.dtype() == DType::U8 => Ok(vec![one.clone()]),
            _ => Err(Error::new(ErrorKind::Model, "scale takes one tensor of u8")),
        }
    }

    /// Scratch memory of one lane. This toy needs none.
    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(Scale { weight: self.weight }))
    }
}

impl Session for Scale {
    fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
        let index = job.meta.map_or(0, |meta| meta.index);
        if index == 5 {
            // Fails this frame, and no other.
            return Err(Error::new(ErrorKind::Model, "cannot make anything of it"));
        }
        // Some frames take longer: the order stays.
        std::thread::sleep(Duration::from_millis(10 + index % 3 * 15));
        for (to, from) in job.outputs[0].1.iter_mut().zip(job.inputs[0].1) {
            *to = from.wrapping_mul(self.weight);
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let device = Device::host();
    // Items made into batches by two converter threads: another way to feed.
    let feeder = Feeder::converting(
        &device,
        (0..12_u8).map(Ok),
        2,
        |number, slot| {
            slot.set_meta(FrameMeta::new("numbers", u64::from(number)));
            slot.tensor("x", &TensorSpec::new(DType::U8, [4]))?.fill(number);
            Ok(())
        },
        FeedOptions::new("numbers"),
    )?;
    let lanes = Lanes::new(&device, Arc::new(Scale { weight: 3 }), Options::new(2))?;

    let read = device.stream("read")?;
    let back = device.alloc(4, Memory::Pinned)?;
    let start = Instant::now();
    for output in lanes.run(&feeder) {
        match output {
            Ok(output) => {
                // Device memory is read through a stream, like everything.
                output.on(&read)?.tensor("0")?.copy_to(&read, &back)?;
                read.synchronize("reading a result")?;
                let frame = output.meta().map(ToString::to_string).unwrap_or_default();
                println!("{frame}: {:?}", &back.read_host()?[..]);
            }
            Err(error) => println!("{error}"),
        }
    }
    println!("12 jobs, 275 ms of work, in two lanes: {:.0?}", start.elapsed());
    Ok(())
}
