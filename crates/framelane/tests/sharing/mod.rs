//! What the tests of sharing share: pictures that say their number in each pixel, and processes that are this test again.
#![allow(dead_code, reason = "each test binary uses its own part")]

use framelane::Result;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::share::{Attached, Listener, Pixels, Shown, Taken, Worker, WorkerOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub const LIMIT: Duration = Duration::from_secs(30);
/// How soon the death of the other side is to be known.
pub const SOON: Duration = Duration::from_millis(100);

/// A name for this test's window alone.
pub fn window_name(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}

pub fn size(width: usize, height: usize) -> ImageSize {
    ImageSize { width, height }
}

/// The number in each pixel.
pub fn numbered(number: u64, size: ImageSize) -> Vec<u8> {
    (number as u32).to_le_bytes().repeat(size.width * size.height)
}

pub fn show_number(worker: &mut Worker, number: u64, size: ImageSize) -> Result<Shown> {
    worker.show(Pixels::Rgba(&numbered(number, size)), size, &FrameMeta::new("numbers", number))
}

/// The number that is in all pixels.
pub fn number_of(frame: &Taken) -> u64 {
    let size = frame.size();
    let mut pixels = vec![0; size.width * size.height * 4];
    frame.copy_tight(&mut pixels).unwrap();
    let first: [u8; 4] = pixels[..4].try_into().unwrap();
    assert!(pixels.chunks_exact(4).all(|p| p == first), "{frame:?} is torn");
    assert_eq!(u64::from(u32::from_le_bytes(first)), frame.meta().index, "{frame:?} has another's pixels");
    frame.meta().index
}

pub fn attach(window: &str, pane: &str, size: ImageSize) -> Worker {
    let until = Instant::now() + LIMIT;
    loop {
        // A window of another process may not be there yet.
        match Worker::attach(window, pane, WorkerOptions::for_size(size)) {
            Err(e) if e.kind() == framelane::ErrorKind::Closed && Instant::now() < until => {
                std::thread::yield_now();
            }
            done => return done.unwrap(),
        }
    }
}

pub fn accept(listener: &mut Listener) -> Attached {
    listener.accept(LIMIT).unwrap().expect("a worker attaches")
}

/// A worker and its pane in one process: the window answers on another thread.
pub fn pair(listener: &mut Listener, window: &str, pane: &str, size: ImageSize) -> (Worker, Attached) {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| attach(window, pane, size));
        let attached = accept(listener);
        (worker.join().unwrap(), attached)
    })
}

/// The next frame, within the limit.
pub fn next(attached: &mut Attached) -> Taken {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(frame) = attached.try_take() {
            return frame;
        }
        assert!(Instant::now() < until, "no frame comes: {:?}", attached.counts());
        attached.poll_alive();
        std::thread::yield_now();
    }
}

/// How long it takes until this is readable, at most the limit.
pub fn time_to_readable(on: impl AsFd) -> Duration {
    let start = Instant::now();
    let limit = Timespec::try_from(LIMIT).unwrap();
    let ready = poll(&mut [PollFd::new(&on, PollFlags::IN)], Some(&limit)).unwrap();
    assert_eq!(ready, 1, "nothing happens");
    start.elapsed()
}

/// This test again, in a process that plays another role there.
pub fn again(test: &str, role: &str, window: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("FRAMELANE_TEST_CHILD", test)
        .env("FRAMELANE_TEST_ROLE", role)
        .env("FRAMELANE_TEST_WINDOW", window)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The role and the window's name, in such a process.
pub fn role(test: &str) -> Option<(String, String)> {
    let var = |name| std::env::var(name).ok();
    (var("FRAMELANE_TEST_CHILD")? == test)
        .then(|| Some((var("FRAMELANE_TEST_ROLE")?, var("FRAMELANE_TEST_WINDOW")?)))?
}

/// Read lines until one says `what`.
pub fn await_line(out: &mut BufReader<ChildStdout>, what: &str) {
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 {
        if line.contains(what) {
            return;
        }
        line.clear();
    }
    panic!("the child ended without saying {what:?}");
}

/// A process that does not outlive its test.
pub struct Killed(pub Child);

impl Killed {
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
