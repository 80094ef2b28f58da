//! What showing a frame costs its producer, on a CUDA device:
//! `cargo bench -p framelane-show --bench show`, or on another machine `run.sh bench show`.
//!
//! The producer shows one f32 tensor (3 × height × width) again and again on its own stream; a presenter on another
//! thread draws the newest. Then the producer is a worker process: this program again. Baseline in the same run: the
//! conversion kernel alone, into memory of its own. What others pay is measured beside it by other programs.
//!
//! For OpenGL (Linux), the same tensor into a texture and a buffer of a program that draws with it; nothing is drawn.

use framelane::device::{Access, Buffer, Device, Memory, Stream};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::framelane_cuda::Place;
use framelane::framelane_cuda::kernels::{Colours, Element, Order, ToPicture};
use framelane::ring::Policy;
use framelane::tensor::{DType, TensorSpec};
use framelane::{Result, TensorView};
use framelane_show::{Display, PaneOptions, Picture, Shown, TensorPane};
#[path = "latency/mod.rs"]
mod latency;
#[cfg(target_os = "linux")]
#[path = "worker/mod.rs"]
mod worker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
#[path = "../tests/gl/program.rs"]
#[allow(dead_code, reason = "the tests use its other parts")]
mod program;

const SIZES: [(usize, usize); 3] = [(512, 512), (1920, 1080), (3840, 2160)];
const FRAMES: usize = 2000;
const SLOTS: usize = 6;
/// Frames enqueued before the producer lets its stream catch up: the driver's queue has an end.
const AHEAD: usize = 100;
/// Of a fast screen.
const REFRESH: Duration = Duration::from_micros(4167);

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("skipped: no CUDA device: {error}");
            return Ok(());
        }
    };
    #[cfg(target_os = "linux")]
    if worker::is_one(&device)? {
        return Ok(());
    }
    let mut path = String::new();
    let mut rows = Vec::new();
    for (width, height) in SIZES {
        let frame = Frame::new(&device, ImageSize { width, height })?;
        let kernel = frame.kernel_alone(&device)?;
        for (name, presenter, pace) in [
            ("no presenter", None, None),
            ("presenter at 240 Hz", Some(REFRESH), None),
            ("presenter at 240 Hz, woken at 500 fps", Some(REFRESH), Some(Duration::from_millis(2))),
            ("presenter without a pace", Some(Duration::ZERO), None),
        ] {
            let run = frame.latest(&device, presenter, pace)?;
            path.clone_from(&run.path);
            rows.push(format!(
                "{width:>4} x {height:<5} {name:<38} {:>7.1} {:>7.1} {:>9.1} {kernel:>8.1} {:>10} {:>9}",
                run.p50, run.p99, run.stream, run.presented, run.waits
            ));
        }
        #[cfg(target_os = "linux")]
        for (name, presenter, pace) in [
            ("worker process, no presenter", None, None),
            ("worker process, presenter at 240 Hz", Some(REFRESH), None),
            ("worker process, 240 Hz, woken at 500 fps", Some(REFRESH), Some(Duration::from_millis(2))),
        ] {
            let run = worker::measure(&frame, &device, presenter, pace)?;
            rows.push(format!(
                "{width:>4} x {height:<5} {name:<38} {:>7.1} {:>7.1} {:>9.1} {kernel:>8.1} {:>10} {:>9}  {}",
                run.p50, run.p99, run.stream, run.presented, run.waits, run.path
            ));
        }
        let (took, order) = frame.fifo(&device)?;
        rows.push(format!(
            "{width:>4} x {height:<5} fifo, a frame from show to drawn: {took:.0} µs each, in order: {order}"
        ));
        for (name, refresh) in [("240 Hz", REFRESH), ("without a pace", Duration::ZERO)] {
            let told = latency::measure(&frame, &device, refresh)?;
            rows.push(format!("{width:>4} x {height:<5} latency, presenter {name}: {told}"));
        }
        #[cfg(target_os = "linux")]
        rows.extend(frame.opengl(&device, kernel)?);
        let memory = frame.memory(&device)?;
        rows.push(format!(
            "{width:>4} x {height:<5} device memory: {:.1} MB for an empty display, then {:.1} MB for {SLOTS} slots and a target of {:.1} MB each",
            memory.0 / 1e6,
            memory.1 / 1e6,
            (width * height * 4) as f64 / 1e6
        ));
    }
    let name = device.cuda_context().map(|c| c.info().name.clone()).unwrap_or_default();
    println!("show: {name}, {path}\n");
    println!(
        "{:<51} {:>15} {:>9} {:>8} {:>10} {:>9}",
        "f32, channels first, µs a frame", "call p50, p99", "its stream", "kernel", "presented", "CPU waits"
    );
    rows.iter().for_each(|row| println!("{row}"));
    Ok(())
}

struct Frame {
    size: ImageSize,
    spec: TensorSpec,
    tensor: Buffer,
}

#[derive(Default)]
struct Run {
    /// Of the calls, in µs.
    p50: f64,
    p99: f64,
    /// Time of the producer's stream, in µs a frame.
    stream: f64,
    presented: u64,
    /// Of the producer's thread for the device, inside the calls.
    waits: u64,
    path: String,
}

impl Frame {
    fn new(device: &Device, size: ImageSize) -> Result<Self> {
        let spec = TensorSpec::new(DType::F32, [3, size.height, size.width]);
        let tensor = device.alloc(spec.bytes(), Memory::Device)?;
        Ok(Self { size, spec, tensor })
    }

    fn picture(&self) -> Result<Picture<'_>> {
        Ok(Picture::new(TensorView::new(&self.tensor, 0, &self.spec)?))
    }

    fn show(&self, pane: &TensorPane, stream: &Stream, n: u64) -> Result<Shown> {
        pane.show(stream, &self.picture()?, &FrameMeta::new("bench", n))
    }

    /// The conversion alone, in µs.
    fn kernel_alone(&self, device: &Device) -> Result<f64> {
        let stream = device.stream("kernel alone")?;
        let ImageSize { width, height } = self.size;
        let to_row = 4 * width;
        let to = device.alloc(to_row * height, Memory::Device)?;
        let how = ToPicture {
            height,
            width,
            channels: 3,
            element: Element::F32,
            row: width,
            pixel: 1,
            channel: width * height,
            low: 0.0,
            high: 1.0,
            colours: Colours::Grey,
            order: Order::Rgb,
            mark: false,
            to_row,
        };
        let once = || {
            let accesses =
                [Access::read(&self.tensor, 0..self.spec.bytes()), Access::write(&to, 0..to.len())];
            stream.launch_on_cuda("kernel alone", &accesses, |stream, places| {
                let [(Place::Device(from), _), (Place::Device(to), _)] = places else { unreachable!() };
                stream.to_picture(&how, from, 0, to, 0)
            })
        };
        let mut total = Duration::ZERO;
        for round in 0..=FRAMES / AHEAD {
            let begin = stream.record_timed()?;
            (0..AHEAD).try_for_each(|_| once())?;
            let end = stream.record_timed()?;
            stream.synchronize("bench")?;
            // The first round warms up.
            if round > 0 {
                total += end.since(&begin).unwrap_or_default();
            }
        }
        Ok(us(total) / FRAMES as f64)
    }

    /// The producer runs freely, or at `pace`, with a presenter that draws every `refresh`.
    fn latest(&self, device: &Device, refresh: Option<Duration>, pace: Option<Duration>) -> Result<Run> {
        let mut display = Display::offscreen(device)?;
        let pane = display.pane("bench", device, &PaneOptions::default())?;
        let path = pane.path().to_owned();
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            let presenter = s.spawn(|| {
                present_until(&mut display, self.size, refresh, &stop)?;
                Ok::<_, framelane::Error>(display.panes()[0].presented)
            });
            let produced = self.produce(device, pace, |stream, n| self.show(&pane, stream, n));
            stop.store(true, Ordering::Release);
            let presented = presenter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(Run { presented, path, ..produced? })
        })
    }

    /// What the calls took, and the stream.
    fn produce(
        &self,
        device: &Device,
        pace: Option<Duration>,
        mut show: impl FnMut(&Stream, u64) -> Result<Shown>,
    ) -> Result<Run> {
        let stream = device.stream("producer")?;
        let frames = if pace.is_some() { FRAMES / 4 } else { FRAMES };
        let (mut calls, mut total, mut waits) = (Vec::with_capacity(frames), Duration::ZERO, 0);
        let count = || device.counters().cpu_waits.values().map(|wait| wait.0).sum::<u64>();
        for round in 0..=frames / AHEAD {
            let before = count();
            let begin = stream.record_timed()?;
            for n in 0..AHEAD {
                if let Some(pace) = pace {
                    std::thread::sleep(pace);
                }
                let start = Instant::now();
                let shown = show(&stream, (round * AHEAD + n) as u64)?;
                let took = start.elapsed();
                assert_ne!(shown, Shown::Closed);
                if round > 0 {
                    calls.push(took);
                }
            }
            let end = stream.record_timed()?;
            waits += count() - before;
            stream.synchronize("bench")?;
            if round > 0 {
                total += end.since(&begin).unwrap_or_default();
            }
        }
        calls.sort_unstable();
        let at = |q: f64| us(calls[(calls.len() as f64 * q) as usize]);
        // With a pace the stream's time is the pace.
        let stream = us(total) / frames as f64;
        Ok(Run { p50: at(0.5), p99: at(0.99), stream, waits, ..Run::default() })
    }

    /// Every frame is drawn: µs a frame, and whether they came in order.
    fn fifo(&self, device: &Device) -> Result<(f64, bool)> {
        let mut display = Display::offscreen(device)?;
        let pane = display.pane("fifo", device, &PaneOptions { policy: Policy::Fifo, slots: SLOTS })?;
        std::thread::scope(|s| {
            let producer = s.spawn(move || {
                let stream = device.stream("producer")?;
                for n in 0..FRAMES as u64 / 2 {
                    assert_eq!(self.show(&pane, &stream, n)?, Shown::Shown);
                }
                stream.synchronize("bench")
            });
            let start = Instant::now();
            let (mut frames, mut in_order) = (0, true);
            while display.panes()[0].ended.is_none() {
                if display.present(self.size)? == 1 {
                    in_order &= display.panes()[0].picture.as_ref().map(|meta| meta.index) == Some(frames);
                    frames += 1;
                }
            }
            let took = start.elapsed();
            producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((us(took) / frames.max(1) as f64, in_order && frames == FRAMES as u64 / 2))
        })
    }

    /// Into a texture, and into a buffer, of a program that draws with OpenGL.
    #[cfg(target_os = "linux")]
    fn opengl(&self, device: &Device, kernel: f64) -> Result<Vec<String>> {
        use framelane_show::gl::{GlBuffer, GlTexture};
        let ImageSize { width, height } = self.size;
        let program = match program::Program::egl(program::Drawer::Cuda(0)) {
            Ok(program) => program,
            Err(why) => return Ok(vec![format!("{width:>4} x {height:<5} OpenGL skipped: {why}")]),
        };
        let stream = device.stream("producer")?;
        let (name, bytes) = (program.texture(width, height), 4 * width * height);
        let mut texture = GlTexture::register(name, self.size, device)?;
        let mut buffer = GlBuffer::register(program.buffer(&vec![0; bytes]), bytes, device)?;
        let paths = [texture.path().to_owned(), buffer.path().to_owned()];
        let picture = Picture::new(TensorView::new(&self.tensor, 0, &self.spec)?);
        let textures = || texture.show(&stream, &picture).map(|_| ());
        let buffers = || buffer.show(&stream, &picture).map(|_| ());
        let shows: [Box<dyn FnMut() -> Result<()> + '_>; 2] = [Box::new(textures), Box::new(buffers)];
        let mut rows = Vec::new();
        for ((what, path), mut show) in ["texture", "buffer"].into_iter().zip(paths).zip(shows) {
            let (mut calls, mut total) = (Vec::with_capacity(FRAMES), Duration::ZERO);
            for round in 0..=FRAMES / AHEAD {
                let begin = stream.record_timed()?;
                for _ in 0..AHEAD {
                    let start = Instant::now();
                    show()?;
                    let took = start.elapsed();
                    if round > 0 {
                        calls.push(took);
                    }
                }
                let end = stream.record_timed()?;
                stream.synchronize("bench")?;
                program.finish();
                if round > 0 {
                    total += end.since(&begin).unwrap_or_default();
                }
            }
            calls.sort_unstable();
            let at = |q: f64| us(calls[(calls.len() as f64 * q) as usize]);
            let (p50, p99, each) = (at(0.5), at(0.99), us(total) / FRAMES as f64);
            rows.push(format!(
                "{width:>4} x {height:<5} {:<38} {p50:>7.1} {p99:>7.1} {each:>9.1} {kernel:>8.1}   {path}",
                format!("OpenGL {what}")
            ));
        }
        Ok(rows)
    }

    /// Bytes of the device that a display takes, and its pane and target beside it once all slots are there.
    fn memory(&self, device: &Device) -> Result<(f64, f64)> {
        let Some(cuda) = device.cuda_context() else { return Ok((0.0, 0.0)) };
        let stream = device.stream("producer")?;
        stream.synchronize("bench")?;
        let before = cuda.memory()?.free;
        let mut display = Display::offscreen(device)?;
        let empty = cuda.memory()?.free;
        let pane = display.pane("memory", device, &PaneOptions { policy: Policy::Latest, slots: SLOTS })?;
        for n in 0..12 {
            let _ = self.show(&pane, &stream, n)?;
            stream.synchronize("bench")?;
            display.present(self.size)?;
        }
        let now = cuda.memory()?.free;
        Ok((before.saturating_sub(empty) as f64, empty.saturating_sub(now) as f64))
    }
}

/// Draw at each refresh, if there is one, until `stop`.
fn present_until(
    display: &mut Display,
    size: ImageSize,
    refresh: Option<Duration>,
    stop: &AtomicBool,
) -> Result<()> {
    let mut next = Instant::now();
    while let (Some(refresh), false) = (refresh, stop.load(Ordering::Acquire)) {
        display.present(size)?;
        next += refresh;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next = next.max(Instant::now());
    }
    Ok(())
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
