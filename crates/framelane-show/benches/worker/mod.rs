//! The producer as a worker process: this program again, told by its environment.

use super::{Frame, Run, present_until};
use framelane::device::Device;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::share::{self, Listener, WorkerOptions};
use framelane::{Error, ErrorKind, Result};
use framelane_show::{Display, Shown, WorkerPane};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Window, width, height, and the pace in microseconds or 0.
const TASK: &str = "FRAMELANE_BENCH_WORKER";
const LIMIT: Duration = Duration::from_secs(60);

/// Whether this process is such a worker; its work is done then.
pub fn is_one(device: &Device) -> Result<bool> {
    let Ok(task) = std::env::var(TASK) else { return Ok(false) };
    let fault = || Error::new(ErrorKind::Argument, format!("{TASK}={task:?} is no task"));
    let [window, numbers @ ..] = &task.split(' ').collect::<Vec<_>>()[..] else { return Err(fault()) };
    let numbers = numbers.iter().map(|n| n.parse()).collect::<std::result::Result<Vec<usize>, _>>();
    let Ok([width, height, pace]) = numbers.as_deref() else { return Err(fault()) };
    let size = ImageSize::new(*width, *height)?;
    let options = WorkerOptions { patience: LIMIT, ..WorkerOptions::for_device(size) };
    let mut pane = WorkerPane::attach(window, "bench", device, options)?;
    let frame = Frame::new(device, size)?;
    let pace = Some(Duration::from_micros(*pace as u64)).filter(|pace| !pace.is_zero());
    let run = frame.produce(device, pace, |stream, n| {
        Ok(match pane.show(stream, &frame.picture()?, &FrameMeta::new("bench", n))? {
            share::Shown::Closed => Shown::Closed,
            _ => Shown::Shown,
        })
    })?;
    println!("{} {} {} {} {}", run.p50, run.p99, run.stream, run.waits, pane.path());
    Ok(true)
}

/// A worker that does not outlive this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As `Frame::latest`, with the producer in another process.
pub fn measure(
    frame: &Frame,
    device: &Device,
    refresh: Option<Duration>,
    pace: Option<Duration>,
) -> Result<Run> {
    let window = format!("bench-{}", std::process::id());
    let mut listener = Listener::bind(&window)?;
    let mut display = Display::offscreen(device)?;
    let ImageSize { width, height } = frame.size;
    let pace = pace.unwrap_or_default().as_micros();
    let program = std::env::current_exe().map_err(failed)?;
    let child = Command::new(program)
        .env(TASK, format!("{window} {width} {height} {pace}"))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut child = Process(child);
    if display.accept(&mut listener, LIMIT)?.is_none() {
        return Err(Error::new(ErrorKind::Timeout, "the worker process does not attach"));
    }
    let mut output = child.0.stdout.take().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
    let ended = AtomicBool::new(false);
    let said = std::thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut said = String::new();
            let read = output.read_to_string(&mut said).map(|_| said);
            ended.store(true, Ordering::Release);
            read
        });
        present_until(&mut display, frame.size, refresh, &ended)?;
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failed)
    })?;
    let presented = display.panes()[0].presented;
    let mut words = said.trim().splitn(5, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<f64>().ok());
    let (Some(p50), Some(p99), Some(stream), Some(waits)) = (number(), number(), number(), number()) else {
        return Err(Error::new(ErrorKind::Device, format!("the worker process failed: {said:?}")));
    };
    let path = words.next().unwrap_or_default().to_owned();
    Ok(Run { p50, p99, stream, presented, waits: waits as u64, path })
}

fn failed(e: std::io::Error) -> Error {
    Error::io("the worker process cannot be run", e)
}
