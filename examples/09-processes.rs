//! Two worker processes show in one process's display: each computes on its own, and none can take the others with it. In
//! a window of your own it is the same with `window.listen(listener)`, or with `framelane window NAME`.
//!
//! Workers on the GPU that draws write the display's own memory; others write memory that both processes map.
//!
//! ```text
//! cargo run --release --example 09-processes
//! ```
//!
//! Each worker ends after 240 frames; `FRAMES` says otherwise.

#![forbid(unsafe_code)]

#[cfg(unix)]
fn main() -> framelane::Result<()> {
    match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [window, name] => processes::work(window, name),
        _ => processes::show(),
    }
}

#[cfg(not(unix))]
fn main() {
    println!("processes share a display on Linux alone");
}

#[cfg(unix)]
mod processes {
    use framelane::device::{Device, Memory};
    use framelane::frame::{FrameMeta, ImageSize};
    use framelane::share::{Listener, Shown, WorkerOptions};
    use framelane::{Error, Result, TensorView};
    use framelane_show::{Display, Picture, WorkerPane};
    use std::process::Command;
    use std::time::Duration;

    const SIZE: ImageSize = ImageSize { width: 320, height: 180 };
    const REFRESH: Duration = Duration::from_millis(4);

    fn device() -> Device {
        Device::cuda(0).unwrap_or_else(|_| Device::host())
    }

    /// What a worker process does: make pictures, and show them in the display that listens by the name `window`.
    pub fn work(window: &str, name: &str) -> Result<()> {
        let frames = std::env::var("FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(240);
        let device = device();
        let mut pane = WorkerPane::attach(window, name, &device, WorkerOptions::for_device(SIZE))?;
        let stream = device.stream(name)?;
        let (spec, tensor) = (SIZE.spec(), device.alloc(SIZE.bytes(), Memory::Device)?);
        let made = device.alloc(SIZE.bytes(), Memory::Pinned)?;
        for index in 0..frames {
            // Stands for a network.
            made.write_host()?.fill((index % 256) as u8);
            stream.copy(&made, 0..made.len(), &tensor, 0)?;
            let picture = Picture::new(TensorView::new(&tensor, 0, &spec)?);
            if pane.show(&stream, &picture, &FrameMeta::new(name, index))? == Shown::Closed {
                break;
            }
            std::thread::sleep(2 * REFRESH);
            stream.synchronize("the picture is made again")?;
        }
        // The last one, too, is known of then.
        pane.settle(Duration::from_secs(1))?;
        println!("{name}: {} of {frames} pictures were drawn, by {}", pane.counts().drawn, pane.path());
        pane.end("it was the last frame");
        Ok(())
    }

    /// What the display's process does: start two workers, and present what they show until both have ended.
    pub fn show() -> Result<()> {
        let window = format!("processes-{}", std::process::id());
        let mut listener = Listener::bind(&window)?;
        let mut display = Display::offscreen(&device())?;
        let program = std::env::current_exe().map_err(|e| Error::io("this program cannot be found", e))?;
        let worker = |name: &str| Command::new(&program).args([&window, name]).spawn();
        let workers = ["left", "right"].into_iter().map(worker).collect::<std::io::Result<Vec<_>>>();
        let mut workers = workers.map_err(|e| Error::io("a worker cannot be started", e))?;
        let size = ImageSize::new(2 * SIZE.width, SIZE.height)?;
        // Not until both panes have ended: a worker that fails may have none.
        while workers.iter_mut().any(|worker| matches!(worker.try_wait(), Ok(None))) {
            while display.accept(&mut listener, Duration::ZERO)?.is_some() {}
            display.present(size)?;
            std::thread::sleep(REFRESH);
        }
        display.present(size)?;
        for pane in display.panes() {
            println!("pane {}: {} drawn, {}", pane.name, pane.presented, pane.ended.unwrap_or_default());
        }
        Ok(())
    }
}
