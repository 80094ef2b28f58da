//! Feed nested batches to a device while it computes on the last one.
//!
//! A source writes each batch straight into a page-locked slot; the feed's own thread and stream copy it to
//! the device. The loop below never waits for the device: it only enqueues.
//!
//! ```text
//! cargo run --release --example 01-feed
//! ```

#![forbid(unsafe_code)]

use framelane::Result;
use framelane::device::Device;
use framelane::feed::{Feeder, Options, SlotWriter, Source};
use framelane::tensor::{DType, HostArray, TensorSpec, Tree};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// 24 batches of 32 samples and their labels; the last one is smaller, as last batches are.
struct Samples {
    next: usize,
}

const BATCHES: usize = 24;

impl Source for Samples {
    fn name(&self) -> &str {
        "samples"
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.next == BATCHES {
            return Ok(false);
        }
        self.next += 1;
        let rows = if self.next == BATCHES { 5 } else { 32 };
        // Reading and decoding take their time.
        std::thread::sleep(Duration::from_millis(4));
        let pixels = vec![self.next as u8; rows * 64];
        let labels: Vec<u8> = (0..rows).flat_map(|row| (row as i64 % 10).to_le_bytes()).collect();
        // Any nesting of maps, lists, tuples and None. All of it travels in one copy.
        slot.put(&Tree::Map(vec![
            (
                "input".into(),
                Tree::Tuple(vec![
                    Tree::Leaf(HostArray::new(TensorSpec::new(DType::U8, [rows, 8, 8]), &pixels)?),
                    Tree::None,
                ]),
            ),
            ("label".into(), Tree::Leaf(HostArray::new(TensorSpec::new(DType::I64, [rows]), &labels)?)),
        ]))?;
        Ok(true)
    }
}

fn main() -> Result<()> {
    let device = Device::host();
    let compute = device.stream("compute")?;
    let feeder = Feeder::new(&device, Samples { next: 0 }, Options::new("train"))?;
    let sum = Arc::new(AtomicU64::new(0));
    let mut rows = 0;

    for batch in &feeder {
        let batch = batch?;
        // From here on `compute` waits for the copy. This thread does not.
        let view = batch.on(&compute)?;
        let images = view.tensor("input.0")?;
        rows += images.spec().shape()[0];
        if batch.index() == 0 {
            println!("a batch holds {:?}", batch.specs().map(ToString::to_string).collect::<Vec<_>>());
        }
        let sum = sum.clone();
        compute.launch("train step", &[images.access()], move |kernel| {
            std::thread::sleep(Duration::from_millis(8));
            sum.fetch_add(kernel.inputs[0].iter().map(|&b| u64::from(b)).sum(), Ordering::Relaxed);
            Ok(())
        })?;
        // The batch goes here; its slot is written again only after the step above is done.
    }

    // Before the one wait that is ours: what did the loop wait for?
    let waits = device.counters().cpu_waits;
    compute.synchronize("the example's end")?;
    println!("{rows} rows, sum of all pixels {}", sum.load(Ordering::Relaxed));
    println!("{}", feeder.report());
    println!("CPU waits for the device during the loop, by name: {:?}", waits.keys().collect::<Vec<_>>());
    Ok(())
}
