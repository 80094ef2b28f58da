//! A video through a network: decoded into slots of device memory, upscaled in two lanes, in order.

use framelane::device::Device;
use framelane::feed::{self, Feeder};
use framelane::lanes::{self, Lanes};
use framelane_media::OpenOptions;
use std::sync::Arc;

fn main() -> framelane::Result<()> {
    let device = Device::host();
    let clip = framelane_media::open("assets/clip.mp4", &OpenOptions { frames: Some(24), realtime: false })?;
    let feeder = Feeder::new(&device, clip, feed::Options::new("clip"))?; // fills slots on its own thread
    let upscaler = Arc::new(framelane_onnx::upscaler(&Default::default())?);
    let lanes = Lanes::new(&device, upscaler, lanes::Options::new(2))?; // two jobs, one copy of the weights
    for output in lanes.run(&feeder) {
        println!("{:?}", output?); // in order; on the device until you copy it
    }
    println!("{}", feeder.report()); // where the time went, and who limited whom
    Ok(())
}
