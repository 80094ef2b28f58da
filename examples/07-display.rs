//! Two producers show tensors on one display: a picture of bytes, and a map of floats in colours. Each enqueues one
//! kernel on its own stream and goes on; the display draws the newest of both, side by side.
//!
//! Runs on the first CUDA device, where the pictures never leave the GPU, or without one on the host device. The display
//! is one in memory, so that no screen is needed.
//!
//! ```text
//! cargo run --release --example 07-display
//! ```

#![forbid(unsafe_code)]

use framelane::device::Device;
use framelane::feed::{Feeder, Options, SlotWriter, Source};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Error, Result};
use framelane_show::{Colours, Display, PaneOptions, Picture, Shown, TensorPane};

const WIDTH: usize = 320;
const HEIGHT: usize = 240;

/// A hundred pictures that grow brighter, and as many maps that grow hotter from left to right.
struct Waves {
    next: u64,
}

impl Source for Waves {
    fn name(&self) -> &str {
        "waves"
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.next == 100 {
            return Ok(false);
        }
        let bright = (self.next * 2) as u8;
        slot.tensor("picture", &TensorSpec::new(DType::U8, [HEIGHT, WIDTH, 3]))?.fill(bright);
        let map = slot.tensor("map", &TensorSpec::new(DType::F32, [HEIGHT, WIDTH]))?;
        for (i, number) in map.chunks_exact_mut(4).enumerate() {
            let heat = (i % WIDTH) as f32 * self.next as f32 / (WIDTH * 100) as f32;
            number.copy_from_slice(&heat.to_ne_bytes());
        }
        slot.set_meta(FrameMeta::new("waves", self.next));
        self.next += 1;
        Ok(true)
    }
}

/// Feed the device, and show `tensor` of each batch.
fn produce(device: &Device, pane: TensorPane, tensor: &str, colours: Colours) -> Result<()> {
    let stream = device.stream(pane.name())?;
    let feeder = Feeder::new(device, Waves { next: 0 }, Options::new(pane.name()))?;
    for batch in &feeder {
        let batch = batch?;
        let Some(meta) = batch.meta() else { continue };
        let picture = Picture::new(batch.on(&stream)?.tensor(tensor)?).colours(colours);
        // One kernel is enqueued. The batch may be let go, and the display may go away: the return value says so.
        if pane.show(&stream, &picture, meta)? == Shown::Closed {
            break;
        }
    }
    // Dropping the pane here ends it; its last picture stays.
    Ok(())
}

fn main() -> Result<()> {
    let device = Device::cuda(0).or_else(|why| {
        println!("on the host device: {why}");
        Ok::<_, Error>(Device::host())
    })?;
    let mut display = Display::offscreen(&device)?;
    let left = display.pane("picture", &device, &PaneOptions::default())?;
    let right = display.pane("map", &device, &PaneOptions::default())?;
    println!("the way of the pictures: {}", left.path());

    let target = ImageSize { width: 2 * WIDTH, height: HEIGHT };
    std::thread::scope(|threads| {
        let producers = [
            threads.spawn(|| produce(&device, left, "picture", Colours::Grey)),
            threads.spawn(|| produce(&device, right, "map", Colours::Turbo)),
        ];
        // A window would do this at each refresh.
        while display.panes().iter().any(|pane| pane.ended.is_none()) {
            display.present(target)?;
        }
        producers.into_iter().try_for_each(|producer| match producer.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;

    for pane in display.panes() {
        let last = pane.picture.map_or("nothing".to_owned(), |meta| meta.to_string());
        println!(
            "{}: {} shown, {} presented, {} overtaken; now {last}",
            pane.name, pane.shown, pane.presented, pane.dropped
        );
    }
    // For the example's sake; this is the only copy to the host.
    if let Some(rgb) = display.read()? {
        let pixel = |x: usize| &rgb[(HEIGHT / 2 * target.width + x) * 3..][..3];
        println!("left {:?}, right from {:?} to {:?}", pixel(0), pixel(WIDTH), pixel(target.width - 1));
    }
    Ok(())
}
