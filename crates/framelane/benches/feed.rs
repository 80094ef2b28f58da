//! What a training step costs when a feed brings its batches, on a CUDA device:
//! `cargo bench -p framelane --bench feed`, or on another machine `run.sh bench feed`.
//!
//! Batches of 256 × 3 × 224 × 224 u8 and their labels lie in ordinary memory. A step reads the batch, works for
//! `r` times as long as the copy takes, and reads the batch again, as a backward pass does. Efficiency is the
//! longest of source, copy and step alone over the time that a step really took: 1 is perfect overlap.
//! Baselines in the same run: one fill thread; one buffer on one thread.

use framelane::device::{Access, Device, Memory, Stream};
use framelane::feed::{Feeder, Options, SlotWriter, Source};
use framelane::tensor::{DType, HostArray, TensorSpec, Tree};
use framelane::{Batch, Result};
use framelane_cuda::{PinnedBuffer, PinnedKind, Place};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHAPE: [usize; 4] = [256, 3, 224, 224];
const BYTES: usize = SHAPE[0] * SHAPE[1] * SHAPE[2] * SHAPE[3];
/// Steps of one measurement, and those before it that do not count.
const STEPS: u64 = 300;
const WARM: u64 = 50;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("skipped: no CUDA device: {error}");
            return Ok(());
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let name = device.cuda_context().map(|c| c.info().name.clone()).unwrap_or_default();
    println!("feed: {name}, {cores} cores, batches of {:.1} MB\n", BYTES as f64 / 1e6);
    let data = Arc::new(Data::new());
    let alone = Alone::measure(&device)?;
    println!("plain pinned copy      {:>8.3} ms  {:>6.1} GB/s", ms(alone.copy), rate(BYTES, alone.copy));
    let fill = fills(&device, &data)?;
    write_combined(&device, &data)?;
    many_tensors(&device)?;
    println!(
        "\n{:<30} {:>8} {:>8} {:>8} {:>8} {:>11} {:>9} {:>8}",
        "a step, ms", "source", "copy", "compute", "took", "efficiency", "its syncs", "limit"
    );
    let threads = Options::new("default").fill_threads;
    let mut missed = 0;
    for r in [1, 2, 4] {
        let work = alone.copy * r;
        for (name, depth) in [("", 3), (", depth 2", 2)] {
            // The median of three runs: other machines share the host's memory.
            let mut runs = Vec::new();
            for _ in 0..3 {
                runs.push(Step { source: fill(threads), ..fed(&device, &data, work, depth, threads)? });
            }
            runs.sort_by_key(|run| run.took);
            runs[1].print(&format!("r = {r}{name}"));
            missed += u32::from(depth == 3 && runs[1].efficiency() < 0.97);
        }
        let step = Step { source: fill(1), ..fed(&device, &data, work, 3, 1)? };
        step.print(&format!("r = {r}, one fill thread"));
        single_buffer(&device, &data, work)?.print(&format!("r = {r}, one buffer, one thread"));
    }
    let verdict = if missed == 0 { "met".to_owned() } else { format!("MISSED {missed} times") };
    println!("target: efficiency at least 0.97 at depth 3 ({threads} fill threads): {verdict}");
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

/// Batches in ordinary memory.
struct Data {
    images: Vec<Vec<u8>>,
    labels: Vec<u8>,
}

impl Data {
    fn new() -> Self {
        let image = |seed| {
            let mut bytes = vec![0; BYTES];
            framelane_cuda::kernels::twin::pattern(&mut bytes, seed);
            bytes
        };
        Self { images: (0..8).map(image).collect(), labels: vec![1; SHAPE[0] * 8] }
    }
}

/// Hands the batches round and round.
struct Loader {
    data: Arc<Data>,
    next: u64,
    count: u64,
}

impl Source for Loader {
    fn name(&self) -> &str {
        "memory"
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.next == self.count {
            return Ok(false);
        }
        let image = &self.data.images[self.next as usize % self.data.images.len()];
        self.next += 1;
        let image = HostArray::new(TensorSpec::new(DType::U8, SHAPE), image)?;
        let label = HostArray::new(TensorSpec::new(DType::I64, [SHAPE[0]]), &self.data.labels)?;
        slot.put(&Tree::Tuple(vec![Tree::Leaf(image), Tree::Leaf(label)]))?;
        Ok(true)
    }
}

/// Times of each part with nothing beside it.
struct Alone {
    copy: Duration,
}

impl Alone {
    fn measure(device: &Device) -> Result<Self> {
        let stream = device.stream("alone")?;
        let (from, to) = (device.alloc(BYTES, Memory::Pinned)?, device.alloc(BYTES, Memory::Device)?);
        from.write_host()?.fill(3);
        let mut times = Vec::new();
        for _ in 0..40 {
            let begin = stream.record_timed()?;
            stream.copy(&from, 0..BYTES, &to, 0)?;
            let end = stream.record_timed()?;
            end.synchronize("bench")?;
            times.extend(end.since(&begin));
        }
        Ok(Self { copy: median(times) })
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How fast a pinned slot is filled while the last one is copied, with nobody working on the batches: a fill's
/// median time by the number of threads.
fn fills(device: &Device, data: &Arc<Data>) -> Result<impl Fn(usize) -> Duration> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut found = Vec::new();
    for threads in [1, 2, 4, 8, 12, 14, 16] {
        if threads > cores {
            println!("pinned fill, {threads:>2} threads  not measured: there are {cores} cores");
            continue;
        }
        let options = Options { fill_threads: threads, depth: 3, ..Options::new("fill") };
        let feeder = Feeder::new(device, Loader { data: data.clone(), next: 0, count: 120 }, options)?;
        for batch in &feeder {
            batch?;
        }
        let times = feeder.batch_reports().iter().skip(20).map(|b| b.source).collect();
        let (fill, copies) = (median(times), feeder.batch_reports());
        let copy = median(copies.iter().skip(20).filter_map(|b| b.copy).collect());
        println!(
            "pinned fill, {threads:>2} threads {:>8.3} ms  {:>6.1} GB/s   beside copies of {:.3} ms, {:.1} GB/s",
            ms(fill),
            rate(BYTES, fill),
            ms(copy),
            rate(BYTES, copy)
        );
        found.push((threads, fill));
    }
    // The fewest that were measured and are no fewer.
    Ok(move |threads| {
        found.iter().find(|(n, _)| *n >= threads).or(found.last()).map_or(Duration::ZERO, |f| f.1)
    })
}

/// Pinned memory that goes around the CPU's caches against the ordinary kind, filled by eight threads, alone.
fn write_combined(device: &Device, data: &Arc<Data>) -> Result<()> {
    let Some(context) = device.cuda_context() else { return Ok(()) };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    for kind in [PinnedKind::Cached, PinnedKind::WriteCombined] {
        let buffer = PinnedBuffer::new(context, BYTES, kind)?;
        let mut times = Vec::new();
        for n in 0..40 {
            let mut to = buffer.write()?;
            let from = &data.images[n % data.images.len()];
            let start = Instant::now();
            std::thread::scope(|scope| {
                let share = BYTES.div_ceil(threads);
                for (to, from) in to.chunks_mut(share).zip(from.chunks(share)) {
                    scope.spawn(|| to.copy_from_slice(from));
                }
            });
            times.push(start.elapsed());
        }
        let time = median(times);
        println!(
            "{kind:?} pinned memory, {threads} threads of its own: {:.3} ms, {:.1} GB/s",
            ms(time),
            rate(BYTES, time)
        );
    }
    Ok(())
}

struct Step {
    source: Duration,
    copy: Duration,
    compute: Duration,
    took: Duration,
    syncs: u64,
    limit: String,
}

impl Step {
    fn efficiency(&self) -> f64 {
        let longest = self.source.max(self.copy).max(self.compute);
        longest.as_secs_f64() / self.took.as_secs_f64()
    }

    fn print(&self, name: &str) {
        println!(
            "{name:<30} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>11.3} {:>9} {:>8}",
            ms(self.source),
            ms(self.copy),
            ms(self.compute),
            ms(self.took),
            self.efficiency(),
            self.syncs,
            self.limit
        );
    }
}

/// One step: read, work, read again.
fn step(stream: &Stream, images: Access<'_>, sums: Access<'_>, work: Duration) -> Result<()> {
    stream.launch_on_cuda("step", &[images, sums], |stream, places| {
        let [(Place::Device(data), range), (Place::Device(sums), at)] = places else { return Ok(()) };
        stream.checksum(data, range.clone(), sums, at.start)?;
        stream.spin(work)?;
        stream.checksum(data, range.clone(), sums, at.start + 8)
    })
}

fn fed(device: &Device, data: &Arc<Data>, work: Duration, depth: usize, threads: usize) -> Result<Step> {
    let compute = device.stream("compute")?;
    let sums = device.alloc(16, Memory::Device)?;
    let options = Options { depth, fill_threads: threads, pinned_slots: Some(3), ..Options::new("bench") };
    let source = Loader { data: data.clone(), next: 0, count: WARM + STEPS };
    let feeder = Feeder::new(device, source, options)?;
    let mut start = Instant::now();
    let mut one = |batch: Batch| -> Result<()> {
        if batch.index() == WARM {
            // From the time that the step before it is done.
            compute.synchronize("bench: begin")?;
            start = Instant::now();
        }
        let view = batch.on(&compute)?;
        step(&compute, view.tensor("0")?.access(), Access::update(&sums, 0..16), work)
    };
    for batch in &feeder {
        one(batch?)?;
    }
    compute.synchronize("bench: end")?;
    let took = start.elapsed() / STEPS as u32;
    let report = feeder.report();
    let batches: Vec<_> = feeder.batch_reports().into_iter().filter(|b| b.index > WARM).collect();
    Ok(Step {
        source: median(batches.iter().map(|b| b.source).collect()),
        copy: median(batches.iter().filter_map(|b| b.copy).collect()),
        compute: median(batches.iter().filter_map(|b| b.compute).collect()),
        took,
        // The one at the beginning is the benchmark's.
        syncs: report.consumer_syncs.0.saturating_sub(1),
        limit: report.limit().to_string(),
    })
}

/// What is written first: fill, copy, work, wait, all on one thread and in one buffer.
fn single_buffer(device: &Device, data: &Arc<Data>, work: Duration) -> Result<Step> {
    let compute = device.stream("compute")?;
    let sums = device.alloc(16, Memory::Device)?;
    let (from, to) = (device.alloc(BYTES, Memory::Pinned)?, device.alloc(BYTES, Memory::Device)?);
    let (mut fills, mut copies, mut works) = (Vec::new(), Vec::new(), Vec::new());
    let mut start = Instant::now();
    let steps = STEPS / 3;
    for n in 0..WARM + steps {
        if n == WARM {
            start = Instant::now();
        }
        let filling = Instant::now();
        from.write_host()?.copy_from_slice(&data.images[n as usize % data.images.len()]);
        fills.push(filling.elapsed());
        let begin = compute.record_timed()?;
        compute.copy(&from, 0..BYTES, &to, 0)?;
        let copied = compute.record_timed()?;
        step(&compute, Access::read(&to, 0..BYTES), Access::update(&sums, 0..16), work)?;
        let end = compute.record_timed()?;
        end.synchronize("bench: single buffer")?;
        copies.extend(copied.since(&begin));
        works.extend(end.since(&copied));
    }
    Ok(Step {
        source: median(fills),
        copy: median(copies),
        compute: median(works),
        took: start.elapsed() / steps as u32,
        syncs: WARM + steps,
        limit: "-".into(),
    })
}

/// 500 tensors of 64 KB: what the consumer's thread does for a batch.
fn many_tensors(device: &Device) -> Result<()> {
    const TENSORS: usize = 500;
    const EACH: usize = 64 << 10;
    const BATCHES: u32 = 300;
    struct Many {
        left: u32,
        bytes: Vec<u8>,
    }
    impl Source for Many {
        fn name(&self) -> &str {
            "many tensors"
        }
        fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
            if self.left == 0 {
                return Ok(false);
            }
            self.left -= 1;
            let one = HostArray::new(TensorSpec::new(DType::U8, [EACH]), &self.bytes)?;
            slot.put(&Tree::List(vec![Tree::Leaf(one); TENSORS]))?;
            Ok(true)
        }
    }
    let compute = device.stream("compute")?;
    let feeder = Feeder::new(device, Many { left: BATCHES, bytes: vec![7; EACH] }, Options::new("many"))?;
    let (before, mut times, mut seen) = (device.counters(), Vec::new(), 0);
    loop {
        // Until there is one, or none will come: a step that works for longer than the feed finds it so.
        while feeder.occupancy().ready == 0 && times.len() < BATCHES as usize {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        let Some(batch) = feeder.next_batch()? else { break };
        let view = batch.on(&compute)?;
        seen += view.tensors().filter(|t| t.cuda_address().is_some()).count();
        drop(batch);
        times.push(start.elapsed());
    }
    let batches = times.len() as u64;
    assert_eq!(seen, TENSORS * batches as usize);
    let copies = device.counters().copies - before.copies;
    println!(
        "{TENSORS} tensors of {} KB    {:>6.1} µs of the consumer's thread a batch (median), {:.1} copies a batch",
        EACH >> 10,
        median(times).as_secs_f64() * 1e6,
        copies as f64 / batches as f64
    );
    Ok(())
}
