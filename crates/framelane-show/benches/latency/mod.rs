//! From the end of a producer's kernel to the frame that is drawn: the producer makes 500 frames a second, and notes when
//! its stream has reached the end of each; the presenter draws every refresh, or whenever it can.

use super::{Frame, present_until, us};
use framelane::Result;
use framelane::device::Device;
use framelane::frame::FrameMeta;
use framelane_show::{Display, PaneOptions, Seen};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const FRAMES: u64 = 2000;
const PACE: Duration = Duration::from_millis(2);

/// One line: how long frames took until their drawing was handed to the adapter, of those that were drawn, and how long
/// the adapter takes for one.
pub fn measure(frame: &Frame, device: &Device, refresh: Duration) -> Result<String> {
    let mut display = Display::offscreen(device)?;
    let pane = display.pane("latency", device, &PaneOptions::default())?;
    let (tell, told) = channel();
    let stop = AtomicBool::new(false);
    let (ends, drawing) = std::thread::scope(|s| {
        let presenter = s.spawn(|| {
            present_until(&mut display, frame.size, Some(refresh), &stop)?;
            drawing(&mut display, frame)
        });
        let stream = device.stream("producer")?;
        let mut ends = Vec::new();
        let mut next = Instant::now();
        for n in 0..FRAMES {
            let tell = tell.clone();
            let then = move |seen| {
                // Nobody listens any more once the producer has failed.
                let _ = tell.send((n, seen, Instant::now()));
            };
            let _ = pane.show_then(&stream, &frame.picture()?, &FrameMeta::new("bench", n), then)?;
            let end = stream.record()?;
            while !end.is_done() {
                std::hint::spin_loop();
            }
            ends.push(Instant::now());
            next += PACE;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        stop.store(true, Ordering::Release);
        let drawing = presenter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok::<_, framelane::Error>((ends, drawing))
    })?;
    drop((pane, display, tell));
    let mut ages: Vec<Duration> = told
        .iter()
        .filter(|&(n, seen, _)| seen == Seen::Presented && n > FRAMES / 10)
        .map(|(n, _, at)| at.saturating_duration_since(ends[n as usize]))
        .collect();
    ages.sort_unstable();
    let at = |q: f64| us(ages[((ages.len() - 1) as f64 * q) as usize]);
    let (first, median, p95, p99, last) = (at(0.0), at(0.5), at(0.95), at(0.99), at(1.0));
    Ok(format!(
        "kernel's end to drawing handed over, {} of {FRAMES} frames: {first:.0} µs at least, p50 {median:.0}, p95 {p95:.0}, p99 {p99:.0}, {last:.0} at most; then {drawing:.0} µs of drawing",
        ages.len(),
    ))
}

/// One drawing of the last picture, from handing it over to its end, in µs: the best of many.
fn drawing(display: &mut Display, frame: &Frame) -> Result<f64> {
    let mut best = Duration::MAX;
    for n in 0..50 {
        // Something changes, so that it is drawn again.
        display.set_split(Some(n as f32 / 50.0));
        let start = Instant::now();
        display.present(frame.size)?;
        display.synchronize()?;
        best = best.min(start.elapsed());
    }
    Ok(us(best))
}
