//! A network's input and output in a window, side by side in one pane: drag the divider, zoom with the wheel. Without a
//! screen the same is drawn into memory.
//!
//! Runs on the first CUDA device, where the pictures never leave the GPU, or without one on the host device.
//!
//! ```text
//! cargo run --release --example 08-window
//! ```
//!
//! It closes after 240 frames; `FRAMES` says otherwise.

#![forbid(unsafe_code)]

use framelane::device::Device;
use framelane::feed::{Feeder, Options, SlotWriter, Source};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Error, ErrorKind, Result};
use framelane_show::{Colours, Display, PaneOptions, Picture, Shown, TensorPane, Window, WindowOptions};
use std::time::Duration;

const SIZE: ImageSize = ImageSize { width: 480, height: 270 };

/// Rings that widen, and how high each wave is: what a network that estimates depth might take and give.
struct Rings {
    next: u64,
    frames: u64,
}

impl Source for Rings {
    fn name(&self) -> &str {
        "rings"
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.next == self.frames {
            return Ok(false);
        }
        let height = |i: usize| {
            let (x, y) = ((i % SIZE.width) as f32 - 240.0, (i / SIZE.width) as f32 - 135.0);
            0.5 + 0.5 * (x.hypot(y) / 12.0 - self.next as f32 / 6.0).cos()
        };
        let image = slot.tensor("image", &SIZE.spec())?;
        for (i, pixel) in image.chunks_exact_mut(3).enumerate() {
            let light = (255.0 * height(i)) as u8;
            pixel.copy_from_slice(&[light / 2, light, 255 - light / 3]);
        }
        let depth = slot.tensor("depth", &TensorSpec::new(DType::F32, [SIZE.height, SIZE.width]))?;
        for (i, number) in depth.chunks_exact_mut(4).enumerate() {
            number.copy_from_slice(&height(i).to_ne_bytes());
        }
        slot.set_meta(FrameMeta::new("rings", self.next));
        self.next += 1;
        Ok(true)
    }
}

/// Show each batch as soon as it is there, 60 a second.
fn produce(device: &Device, pane: &TensorPane, frames: u64) -> Result<()> {
    let stream = device.stream("rings")?;
    let feeder = Feeder::new(device, Rings { next: 0, frames }, Options::new("rings"))?;
    for batch in &feeder {
        let batch = batch?;
        let Some(meta) = batch.meta() else { continue };
        let view = batch.on(&stream)?;
        let image = Picture::new(view.tensor("image")?);
        let depth = Picture::new(view.tensor("depth")?).colours(Colours::Turbo);
        if pane.show(&stream, &depth.before(image), meta)? == Shown::Closed {
            break;
        }
        std::thread::sleep(Duration::from_millis(16));
    }
    Ok(())
}

fn main() -> Result<()> {
    let frames = std::env::var("FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(240);
    let device = Device::cuda(0).or_else(|why| {
        println!("on the host device: {why}");
        Ok::<_, Error>(Device::host())
    })?;
    let options = WindowOptions { title: "rings".into(), close_at_end: true, ..WindowOptions::default() };
    let mut window = match Window::open(options, &device) {
        Ok(window) => window,
        Err(why) if why.kind() == ErrorKind::Unsupported => {
            println!("no window: {why}");
            return in_memory(&device, frames);
        }
        Err(error) => return Err(error),
    };
    let pane = window.pane("depth", &device, &PaneOptions::default())?;
    println!("by {}; press b to compare with the input", pane.path());
    let producer = std::thread::spawn(move || produce(&device, &pane, frames));
    let report = window.run()?;
    producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    println!("{} shown, {} overtaken, {} unseen", report.shown(), report.dropped(), report.hidden());
    Ok(())
}

/// The same without a screen.
fn in_memory(device: &Device, frames: u64) -> Result<()> {
    let mut display = Display::offscreen(device)?;
    let pane = display.pane("depth", device, &PaneOptions::default())?;
    println!("by {}", pane.path());
    display.set_split(Some(0.5));
    std::thread::scope(|threads| {
        let producer = threads.spawn(move || produce(device, &pane, frames));
        while display.panes().iter().any(|pane| pane.ended.is_none()) {
            display.present(SIZE)?;
            std::thread::sleep(Duration::from_millis(4));
        }
        producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let pane = display.panes().remove(0);
    println!("{} shown, {} overtaken", pane.presented, pane.dropped);
    if let Some(rgb) = display.read()? {
        let pixel = |x: usize| &rgb[(SIZE.height / 2 * SIZE.width + x) * 3..][..3];
        println!("left of the divider {:?}, right of it {:?}", pixel(10), pixel(SIZE.width - 10));
    }
    Ok(())
}
