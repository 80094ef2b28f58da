//! What the calls cost: the CPU's time per call, filling pinned memory, copies, conversions.
//!
//! `cargo bench -p framelane-cuda --bench cuda_calls`; needs a GPU, and says so without one.

use framelane_cuda::kernels::{
    Affine, Colours, Element, Float, Matrix, Nv12ToPicture, Order, Shape, Strides, ToBytes, ToFloats,
    ToPicture,
};
use framelane_cuda::sys;
use framelane_cuda::{Context, DeviceBuffer, EventOptions, PinnedBuffer, PinnedKind, Stream};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let context = match Context::open(0) {
        Ok(context) => context,
        Err(error) => {
            println!("skipped: no CUDA device: {error}");
            return Ok(());
        }
    };
    println!("# cuda_calls");
    println!("{}; driver for CUDA {}; {} CPUs", context.info(), framelane_cuda::driver_version()?, cpus());
    context.load_kernels()?;
    calls(&context)?;
    while_busy(&context)?;
    waits(&context)?;
    fills(&context)?;
    copies(&context)?;
    conversions(&context)?;
    pictures(&context)?;
    Ok(())
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// ns per call: the median of 41 batches; between batches the stream drains.
fn per_call<T>(stream: &Stream, calls: usize, mut call: impl FnMut() -> Result<T>) -> Result<f64> {
    for _ in 0..calls {
        call()?;
    }
    let mut batches = Vec::new();
    for _ in 0..41 {
        stream.synchronize()?;
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call()?);
        }
        batches.push(start.elapsed().as_nanos() as f64 / calls as f64);
    }
    stream.synchronize()?;
    Ok(median(batches))
}

fn calls(context: &Context) -> Result<()> {
    println!("\n## CPU time of a call (ns, median of 41 batches of 200)");
    for bound in [false, true] {
        // A thread of its own: nothing current, or our context current for good.
        std::thread::scope(|scope| {
            scope.spawn(|| calls_on(context, bound).map_err(|e| e.to_string())).join().map_err(|_| "a panic")
        })??;
    }
    Ok(())
}

fn calls_on(context: &Context, bound: bool) -> Result<()> {
    if bound {
        context.bind()?;
    }
    let way = if bound { "context current" } else { "nothing current" };
    let (stream, other) = (Stream::new(context, 0)?, Stream::new(context, 0)?);
    let row = |what: &str, ns: f64| println!("{way:16} {what:44} {ns:8.0}");
    let n = 200;
    row("query of an idle stream", per_call(&stream, n, || Ok(stream.is_idle()?))?);
    for (timed, sleeping) in [(false, false), (true, false), (false, true), (true, true)] {
        let options = EventOptions { timed, sleeping };
        let what = format!("record and drop, timed {timed}, sleeping {sleeping}");
        row(&what, per_call(&stream, n, || Ok(stream.record_with(options)?))?);
    }
    if bound {
        let raw = || -> Result<()> {
            let mut event = std::ptr::null_mut();
            // SAFETY: writes one handle.
            unsafe { sys::cuEventCreate(&mut event, 2) }.result()?;
            // SAFETY: both are alive.
            unsafe { sys::cuEventRecord(event, stream.raw()) }.result()?;
            // SAFETY: made above.
            unsafe { sys::cuEventDestroy_v2(event) }.result()?;
            Ok(())
        };
        row("raw driver: create, record, destroy", per_call(&stream, n, raw)?);
        let mut event = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { sys::cuEventCreate(&mut event, 2) }.result()?;
        // SAFETY: both are alive.
        let raw = || Ok(unsafe { sys::cuEventRecord(event, stream.raw()) }.result()?);
        row("raw driver: record again", per_call(&stream, n, raw)?);
        // SAFETY: made above.
        unsafe { sys::cuEventDestroy_v2(event) }.result()?;
        row("raw driver: launch of a kernel", raw_launch(&stream, n)?);
        let raw = || {
            let mut current = std::ptr::null_mut();
            // SAFETY: writes one handle.
            Ok(black_box(unsafe { sys::cuCtxGetCurrent(&mut current) }).result()?)
        };
        row("raw driver: what is current", per_call(&stream, n, raw)?);
    }
    let done = stream.record()?;
    row("wait for an event that is done", per_call(&stream, n, || Ok(stream.wait(&done)?))?);
    other.spin(Duration::from_millis(400))?;
    let pending = other.record()?;
    row("query of an event that is pending", per_call(&stream, n, || Ok(pending.is_done()?))?);
    pending.synchronize()?;
    row("query of an event seen done", per_call(&stream, n, || Ok(pending.is_done()?))?);
    row("launch of a kernel", per_call(&stream, n, || Ok(stream.spin(Duration::ZERO)?))?);
    let device = DeviceBuffer::new(context, 4096)?;
    row("launch of a kernel on memory", per_call(&stream, n, || Ok(stream.pattern(&device, 0..4096, 1)?))?);
    row("fill of 4 KB", per_call(&stream, n, || Ok(stream.fill(&device, 0..4096, 1)?))?);
    let host = PinnedBuffer::new(context, 4096, PinnedKind::Cached)?;
    row("upload of 4 KB", per_call(&stream, n, || Ok(stream.copy(&host, 0..4096, &device, 0)?))?);
    row("download of 4 KB", per_call(&stream, n, || Ok(stream.copy(&device, 0..4096, &host, 0)?))?);
    stream.synchronize()?;
    row("the CPU's view of pinned memory", per_call(&stream, n, || Ok(host.write()?))?);
    let exec = stream.capture(|s| (0..10).try_for_each(|_| s.spin(Duration::ZERO)))?.instantiate()?;
    row("launch of a graph of 10 kernels", per_call(&stream, n, || Ok(exec.launch(&stream)?))?);
    row(
        "device memory on a stream and drop, 1 MB",
        per_call(&stream, n, || Ok(DeviceBuffer::on(&stream, 1 << 20)?))?,
    );
    row(
        "device memory zeroed and drop, 1 MB",
        per_call(&stream, 20, || Ok(DeviceBuffer::new(context, 1 << 20)?))?,
    );
    row(
        "pinned memory and drop, 1 MB",
        per_call(&stream, 5, || Ok(PinnedBuffer::new(context, 1 << 20, PinnedKind::Cached)?))?,
    );
    row("stream and drop", per_call(&stream, 20, || Ok(Stream::new(context, 0)?))?);
    Ok(())
}

/// The kernel that spins, launched without this crate.
fn raw_launch(stream: &Stream, calls: usize) -> Result<f64> {
    let ptx = std::ffi::CString::new(include_str!("../kernels/tools.ptx"))?;
    let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the text ends with a zero; writes one handle.
    unsafe { sys::cuModuleLoadData(&mut module, ptx.as_ptr().cast()) }.result()?;
    // SAFETY: the module is loaded; writes one handle.
    unsafe { sys::cuModuleGetFunction(&mut function, module, c"fl_spin".as_ptr()) }.result()?;
    let mut nanoseconds = 0u64;
    let mut arguments = [(&raw mut nanoseconds).cast()];
    let (stream_raw, none) = (stream.raw(), std::ptr::null_mut());
    let time = per_call(stream, calls, || {
        let list = arguments.as_mut_ptr();
        // SAFETY: the kernel takes one number of 8 bytes.
        Ok(unsafe { sys::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream_raw, list, none) }.result()?)
    })?;
    // SAFETY: loaded above, and the stream was waited for.
    unsafe { sys::cuModuleUnload(module) }.result()?;
    Ok(time)
}

/// Calls that might wait for whatever runs: each with 100 ms of work pending on another stream.
fn while_busy(context: &Context) -> Result<()> {
    println!("\n## Calls while another stream has 100 ms to go (µs; 100 000 means that it waited)");
    let (busy, stream) = (Stream::new(context, 0)?, Stream::new(context, 0)?);
    let rival = Rival { busy: &busy, stream: &stream };
    let made = rival.time("stream", || Ok(Stream::new(context, 0)?))?;
    rival.time("stream dropped", || dropped(made))?;
    let pinned =
        rival.time("pinned memory, 1 MB", || Ok(PinnedBuffer::new(context, 1 << 20, PinnedKind::Cached)?))?;
    rival.time("pinned memory dropped, 1 MB", || dropped(pinned))?;
    for (name, bytes) in [("1 MB", 1 << 20), ("256 MB", 256 << 20)] {
        let device = rival
            .time(&format!("device memory, zeroed, {name}"), || Ok(DeviceBuffer::new(context, bytes)?))?;
        rival.time(&format!("device memory dropped, {name}"), || dropped(device))?;
    }
    rival.time("device memory on a stream, 1 MB", || Ok(DeviceBuffer::on(&stream, 1 << 20)?))?;
    rival.time("free and total memory", || Ok(context.memory()?))?;
    rival.time("100 × record and wait, pinned memory dropped", || {
        drop(PinnedBuffer::new(context, 1 << 20, PinnedKind::Cached)?);
        (0..100).try_for_each(|_| Ok(stream.record()?.synchronize()?))
    })?;
    rival.time("giving pinned memory back to the system", || Ok(context.trim()?))?;
    let kernels = |s: &Stream| (0..10).try_for_each(|_| s.spin(Duration::ZERO));
    rival.time("capture and instantiate 10 kernels", || Ok(stream.capture(kernels)?.instantiate()?))?;
    Ok(())
}

struct Rival<'a> {
    busy: &'a Stream,
    stream: &'a Stream,
}

impl Rival<'_> {
    fn time<T>(&self, what: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.busy.synchronize()?;
        self.stream.synchronize()?;
        self.busy.spin(Duration::from_millis(100))?;
        let start = Instant::now();
        let made = call()?;
        let took = start.elapsed().as_secs_f64() * 1e6;
        println!("{what:44} {took:9.0} {}", if self.busy.is_idle()? { "the work was over" } else { "" });
        Ok(made)
    }
}

fn dropped<T>(what: T) -> Result<()> {
    drop(what);
    Ok(())
}

fn waits(context: &Context) -> Result<()> {
    println!("\n## How late a CPU thread wakes: 1 ms of spinning, median of 100 (µs beyond it)");
    let stream = Stream::new(context, 0)?;
    for sleeping in [false, true] {
        let mut late = Vec::new();
        for _ in 0..100 {
            stream.synchronize()?;
            let start = Instant::now();
            stream.spin(Duration::from_millis(1))?;
            stream.record_with(EventOptions { timed: false, sleeping })?.synchronize()?;
            late.push(start.elapsed().as_secs_f64() * 1e6 - 1000.0);
        }
        println!("sleeping {sleeping:5} {:8.1}", median(late));
    }
    Ok(())
}

/// Threads that start and end each round together, without sleeping.
struct Rounds {
    arrived: AtomicUsize,
    threads: usize,
}

impl Rounds {
    fn meet(&self, round: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < (round + 1) * self.threads {
            std::hint::spin_loop();
        }
    }
}

const BATCH: usize = 38_535_168; // 256 images of 224 × 224 × 3 bytes

/// Seconds of one round, the median, with `threads` threads that each do their part of `target`.
fn parallel(target: &mut [u8], source: &[u8], threads: usize, part: impl Fn(&mut [u8], &[u8]) + Sync) -> f64 {
    const ROUNDS: usize = 31;
    let size = target.len().div_ceil(threads).next_multiple_of(4096);
    let parts: Vec<_> = target.chunks_mut(size).zip(source.chunks(size)).collect();
    let rounds = Rounds { arrived: AtomicUsize::new(0), threads: parts.len() + 1 };
    std::thread::scope(|scope| {
        for (to, from) in parts {
            let (rounds, part) = (&rounds, &part);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    rounds.meet(2 * round);
                    part(to, from);
                    rounds.meet(2 * round + 1);
                }
            });
        }
        let times = (0..ROUNDS).map(|round| {
            rounds.meet(2 * round);
            let start = Instant::now();
            rounds.meet(2 * round + 1);
            start.elapsed().as_secs_f64()
        });
        median(times.collect())
    })
}

fn fills(context: &Context) -> Result<()> {
    println!("\n## Filling a pinned batch of {BATCH} bytes on the CPU (GB/s of the batch)");
    println!("threads   cached: copy  write   write-combined: copy  write   ordinary: copy");
    let source: Vec<u8> = (0..BATCH).map(|i| (i * 7) as u8).collect();
    let mut ordinary = vec![1u8; BATCH];
    let cached = PinnedBuffer::new(context, BATCH, PinnedKind::Cached)?;
    let combined = PinnedBuffer::new(context, BATCH, PinnedKind::WriteCombined)?;
    let gbs = |seconds: f64| BATCH as f64 / seconds / 1e9;
    for threads in [1, 2, 4, 6, 8, 12, 15] {
        if threads >= cpus() && threads > 1 {
            break;
        }
        let copy = |to: &mut [u8], from: &[u8]| to.copy_from_slice(from);
        let write = |to: &mut [u8], from: &[u8]| to.fill(from[0]);
        let mut times = Vec::new();
        for buffer in [&cached, &combined] {
            let mut view = buffer.write()?;
            times.push(gbs(parallel(&mut view, &source, threads, copy)));
            times.push(gbs(parallel(&mut view, &source, threads, write)));
        }
        times.push(gbs(parallel(&mut ordinary, &source, threads, copy)));
        let [a, b, c, d, e] = times[..] else { return Err("five columns".into()) };
        println!("{threads:7} {a:14.1} {b:6.1} {c:22.1} {d:6.1} {e:16.1}");
    }
    for (name, buffer) in [("cached", &cached), ("write-combined", &combined)] {
        let view = buffer.read()?;
        let part = &view[..4 << 20];
        let start = Instant::now();
        black_box(part.iter().fold(0u64, |sum, b| sum.wrapping_add(u64::from(*b))));
        println!("reading {name}: {:.2} GB/s", part.len() as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    Ok(())
}

/// GPU seconds of what `work` enqueues, the median of 21.
fn gpu_time(stream: &Stream, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let timed = EventOptions { timed: true, sleeping: false };
    for _ in 0..3 {
        work()?;
    }
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = stream.record_with(timed)?;
        work()?;
        let end = stream.record_with(timed)?;
        end.synchronize()?;
        times.push(end.since(&start)?.ok_or("not done")?.as_secs_f64());
    }
    Ok(median(times))
}

fn copies(context: &Context) -> Result<()> {
    println!("\n## Copies (GB/s, median of 21, on the GPU's clock)");
    let stream = Stream::new(context, 0)?;
    for bytes in [64 << 10, 1 << 20, BATCH, 256 << 20] {
        let device = DeviceBuffer::new(context, bytes)?;
        let second = DeviceBuffer::new(context, bytes)?;
        let gbs = |seconds: f64| bytes as f64 / seconds / 1e9;
        print!("{bytes:10} bytes");
        for (name, kind) in [("cached", PinnedKind::Cached), ("write-combined", PinnedKind::WriteCombined)] {
            let host = PinnedBuffer::new(context, bytes, kind)?;
            let up = gpu_time(&stream, || Ok(stream.copy(&host, 0..bytes, &device, 0)?))?;
            let down = gpu_time(&stream, || Ok(stream.copy(&device, 0..bytes, &host, 0)?))?;
            print!("   {name} up {:.1} down {:.1}", gbs(up), gbs(down));
        }
        let within = gpu_time(&stream, || Ok(stream.copy(&device, 0..bytes, &second, 0)?))?;
        println!("   within {:.0} (read or written)", gbs(within));
    }
    let other = Stream::new(context, 0)?;
    let (up, down) = (
        PinnedBuffer::new(context, BATCH, PinnedKind::Cached)?,
        PinnedBuffer::new(context, BATCH, PinnedKind::Cached)?,
    );
    let (a, b) = (DeviceBuffer::new(context, BATCH)?, DeviceBuffer::new(context, BATCH)?);
    let both = |rounds: usize| -> Result<f64> {
        stream.synchronize()?;
        other.synchronize()?;
        let start = Instant::now();
        for _ in 0..rounds {
            stream.copy(&up, 0..BATCH, &a, 0)?;
            other.copy(&b, 0..BATCH, &down, 0)?;
        }
        stream.synchronize()?;
        other.synchronize()?;
        Ok((rounds * BATCH) as f64 / start.elapsed().as_secs_f64() / 1e9)
    };
    both(5)?;
    println!("both ways at once: {:.1} each way", both(50)?);
    Ok(())
}

fn conversions(context: &Context) -> Result<()> {
    println!("\n## Conversions (µs on the GPU's clock, median of 21; GB/s read and written)");
    let stream = Stream::new(context, 0)?;
    let affine = Affine::normalised([0.485, 0.456, 0.406, 0.0], [0.229, 0.224, 0.225, 1.0]);
    let batch = Shape { images: 256, height: 224, width: 224, channels: 3 };
    let frame = Shape { images: 1, height: 1080, width: 1920, channels: 3 };
    for (name, shape) in [("256 x 224 x 224 x 3", batch), ("1 x 1080 x 1920 x 3", frame)] {
        let n = shape.images * shape.height * shape.width * 3;
        let (bytes, floats) = (DeviceBuffer::new(context, n / 3 * 4)?, DeviceBuffer::new(context, n * 4)?);
        stream.pattern(&bytes, 0..n, 1)?;
        for float in [Float::F32, Float::F16, Float::BF16] {
            let moved = (n * (1 + float.size())) as f64;
            let (from, to) = (Strides::hwc(shape), Strides::chw(shape));
            let how = ToFloats { shape, from, to, float, affine };
            let there = gpu_time(&stream, || Ok(stream.to_floats(&how, &bytes, 0, &floats, 0)?))?;
            let how = ToBytes { shape, from: to, to: from, float, written: 3, affine: Affine::FROM_UNIT };
            let back = gpu_time(&stream, || Ok(stream.to_bytes(&how, &floats, 0, &bytes, 0)?))?;
            let row = |way: &str, time: f64| {
                println!("{name} {way} {float:?}: {:.1} µs, {:.0} GB/s", time * 1e6, moved / time / 1e9);
            };
            let how = ToBytes { to: Strides::hwc(Shape { channels: 4, ..shape }), written: 4, ..how };
            let opaque = gpu_time(&stream, || Ok(stream.to_bytes(&how, &floats, 0, &bytes, 0)?))?;
            row("bytes HWC ->", there);
            row("bytes HWC <-", back);
            row("bytes RGBA <-", opaque);
        }
    }
    Ok(())
}

fn pictures(context: &Context) -> Result<()> {
    println!("\n## Pictures of 1920 x 1080 (µs on the GPU's clock, median of 21; GB/s read and written)");
    let stream = Stream::new(context, 0)?;
    let (height, width) = (1080, 1920);
    let n = height * width;
    let (from, to) = (DeviceBuffer::new(context, n * 12)?, DeviceBuffer::new(context, n * 4)?);
    stream.pattern(&from, 0..n * 12, 1)?;
    let print = |name: &str, bytes: usize, time: f64| {
        println!("{name}: {:.1} µs, {:.0} GB/s", time * 1e6, (bytes + n * 4) as f64 / time / 1e9);
    };
    let (colours, order, mark, to_row) = (Colours::Turbo, Order::Rgb, true, width * 4);
    for element in [Element::U8, Element::F16, Element::F32] {
        for (name, channels, strides) in [
            ("HWC", 3, [width * 3, 3, 1]),
            ("CHW", 3, [width, 1, n]),
            ("one channel in colours", 1, [width, 1, n]),
        ] {
            let [row, pixel, channel] = strides;
            let (low, high) = (0.0, 255.0);
            let how = ToPicture {
                height,
                width,
                channels,
                element,
                row,
                pixel,
                channel,
                low,
                high,
                colours,
                order,
                mark,
                to_row,
            };
            let time = gpu_time(&stream, || Ok(stream.to_picture(&how, &from, 0, &to, 0)?))?;
            print(&format!("{name} of {element:?}"), n * channels * element.size(), time);
        }
    }
    let (y_row, chroma_at, chroma_row) = (width, n, width);
    let (matrix, full_range) = (Matrix::Bt709, false);
    let how = Nv12ToPicture { height, width, y_row, chroma_at, chroma_row, matrix, full_range, to_row };
    let time = gpu_time(&stream, || Ok(stream.nv12_to_picture(&how, &from, 0, &to, 0)?))?;
    print("NV12", n * 3 / 2, time);
    Ok(())
}
