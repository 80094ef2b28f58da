//! A camera that is faster than its consumer: the consumer gets the newest frame, the others are dropped and
//! counted.
//!
//! ```text
//! cargo run --release --example 03-latest
//! ```

#![forbid(unsafe_code)]

use framelane::Result;
use framelane::device::Device;
use framelane::feed::{Feeder, Options, SlotWriter, Source};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::ring::Policy;
use framelane::stats::{Recorder, Stage};
use std::time::Duration;

/// 100 pictures, one every 5 ms.
struct Camera {
    next: u64,
}

impl Source for Camera {
    fn name(&self) -> &str {
        "camera"
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.next == 100 {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
        let picture = slot.image(ImageSize::new(64, 48)?, FrameMeta::new("camera", self.next))?;
        picture.fill(self.next as u8);
        self.next += 1;
        Ok(true)
    }
}

fn main() -> Result<()> {
    let device = Device::host();
    let recorder = Recorder::new();
    let screen = recorder.group(Stage::Sink, 1);
    let options = Options {
        policy: Policy::Latest,
        depth: 3,
        recorder: Some(recorder.clone()),
        ..Options::new("camera")
    };
    let feeder = Feeder::new(&device, Camera { next: 0 }, options)?;

    let mut shown = Vec::new();
    for frame in &feeder {
        let frame = frame?;
        if let Some(meta) = frame.meta() {
            shown.push(meta.index);
            // A slow screen.
            screen.time(|| std::thread::sleep(Duration::from_millis(30)));
            recorder.frame_out(meta.captured.elapsed());
        }
    }

    let report = recorder.report(&device.counters());
    println!("shown: {shown:?}");
    println!(
        "of {} frames {} were shown and {} dropped {:?}",
        report.frames.r#in, report.frames.out, report.frames.dropped, report.frames.dropped_by
    );
    println!(
        "age when shown, p50: {:.0} ms; bottleneck: {}",
        report.age_ms.p50,
        report.bottleneck.map(|stage| stage.to_string()).unwrap_or_default()
    );
    Ok(())
}
