//! Frames per second of the built-in upscaler, and what the conversions around it cost, per runtime and number of
//! lanes. `cargo bench -p framelane-onnx`, or with `-- WIDTHxHEIGHT SECONDS`.

use framelane::frame::ImageSize;
use framelane::lanes::{Job, JobTimes, Model};
use framelane_onnx::{Options, Runtime, onnxruntime, parse_size, upscaler};
use std::sync::Barrier;
use std::time::{Duration, Instant};

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let size = args.next().map_or(Ok(ImageSize { width: 320, height: 180 }), |a| parse_size(&a)).unwrap();
    let seconds = args.next().and_then(|a| a.parse().ok()).unwrap_or(5.0);
    let mut runtimes = vec![Runtime::Tract];
    match onnxruntime() {
        Ok(_) => runtimes.push(Runtime::OnnxRuntime),
        Err(why) => println!("skipped: ONNX Runtime: {why}"),
    }
    println!("the built-in upscaler, {size} → twice that, {seconds} s each");
    for runtime in runtimes {
        for lanes in [1, 2] {
            measure(runtime, lanes, size, Duration::from_secs_f64(seconds));
        }
    }
}

fn measure(runtime: Runtime, lanes: usize, size: ImageSize, time: Duration) {
    let options = Options { runtime, lanes, threads_per_lane: Some(1), ..Options::default() };
    let model = upscaler(&options).unwrap();
    let input = size.spec();
    let output = model.outputs(std::slice::from_ref(&input)).unwrap().remove(0);
    let rgb: Vec<u8> = (0..size.bytes()).map(|i| (i * 31 % 251) as u8).collect();
    let together = Barrier::new(lanes);
    let per_lane: Vec<(u32, Duration, Duration, Duration)> = std::thread::scope(|scope| {
        let run = || {
            let mut session = model.session().unwrap();
            let mut out = vec![0; output.bytes()];
            let mut frame = || {
                let mut times = JobTimes::default();
                let start = Instant::now();
                session
                    .run(&mut Job::new(&[(&input, &rgb)], &mut [(&output, &mut out)], None, &mut times))
                    .unwrap();
                (start.elapsed(), times.convert)
            };
            frame();
            together.wait();
            let start = Instant::now();
            let (mut frames, mut busy, mut convert) = (0, Duration::ZERO, Duration::ZERO);
            let mut least = Duration::MAX;
            while start.elapsed() < time {
                let (all, conversion) = frame();
                frames += 1;
                busy += all;
                convert += conversion;
                least = least.min(conversion);
            }
            (frames, busy, convert, least)
        };
        let threads: Vec<_> = (0..lanes).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let frames: u32 = per_lane.iter().map(|l| l.0).sum();
    let busy: Duration = per_lane.iter().map(|l| l.1).sum();
    let convert: Duration = per_lane.iter().map(|l| l.2).sum();
    let least = per_lane.iter().map(|l| l.3).min().unwrap_or_default();
    println!(
        "{runtime}, {lanes} lanes: {:.1} frames/s, {:.2} ms a frame and lane, of which {:.3} ms conversion ({:.1} %, \
         at best {:.3} ms)",
        f64::from(frames) / time.as_secs_f64(),
        busy.as_secs_f64() * 1e3 / f64::from(frames),
        convert.as_secs_f64() * 1e3 / f64::from(frames),
        100.0 * convert.as_secs_f64() / busy.as_secs_f64(),
        least.as_secs_f64() * 1e3,
    );
}
