//! How fast this machine encodes and decodes: `cargo run --release -p framelane-media --example speed`.

use framelane::feed::{Contents, SlotWriter};
use framelane_media::{OpenOptions, Sink, SinkSpec, VideoSource, create, open};
use std::time::{Duration, Instant};

fn main() -> framelane::Result<()> {
    let geometry = std::env::args().nth(1).unwrap_or_else(|| "640x360".into());
    let options = OpenOptions { frames: Some(300), ..OpenOptions::default() };
    let folder = std::env::temp_dir().join(format!("framelane-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| framelane::Error::io("no temporary folder", e))?;
    for name in ["none", "speed.y4m", "speed.mp4"] {
        let target =
            if name == "none" { name.into() } else { folder.join(name).to_string_lossy().into_owned() };
        let mut source = open(&format!("testsrc:{geometry}"), &options)?;
        let mut sink = create(&target, &SinkSpec::like(source.info()))?;
        let (made, _, written) = drain(&mut *source, Some(&mut *sink))?;
        let summary = sink.finish()?;
        report("testsrc", made);
        report(&format!("write {name} ({} bytes)", summary.bytes), written);
        if name != "none" {
            let (read, converted, _) = drain(&mut *open(&target, &options)?, None)?;
            report(&format!("read {name}"), read);
            report("    of which conversion to RGB", converted);
        }
    }
    // Only what was made here.
    std::fs::remove_dir_all(&folder).map_err(|e| framelane::Error::io("the temporary folder stays", e))
}

/// Time in the source, of which in conversion, and in the sink; for 300 frames.
fn drain(
    source: &mut dyn VideoSource,
    mut sink: Option<&mut dyn Sink>,
) -> framelane::Result<(Duration, Duration, Duration)> {
    let (mut arena, mut contents) = (Vec::new(), Contents::default());
    let size = source.info().size;
    let mut times = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    loop {
        let start = Instant::now();
        let more = source.next_into(&mut SlotWriter::new(&mut arena, &mut contents))?;
        times.0 += start.elapsed();
        times.1 += contents.convert;
        if !more {
            return Ok(times);
        }
        if let (Some(sink), Some(meta)) = (&mut sink, &contents.meta) {
            let start = Instant::now();
            sink.write(&arena[..size.bytes()], size, meta)?;
            times.2 += start.elapsed();
        }
    }
}

fn report(what: &str, time: Duration) {
    let ms = time.as_secs_f64() * 1000.0 / 300.0;
    println!("{what:45} {ms:8.3} ms a frame, {:8.0} frames a second", 1000.0 / ms);
}
