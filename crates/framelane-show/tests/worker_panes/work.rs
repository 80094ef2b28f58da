//! The roles of worker and window processes.

use crate::pictures::{PICTURES, SMALL, Tensor, meta};
use crate::processes::{LIMIT, role, say, wait_for_word};
use crate::{present_until, test_device};
use framelane::device::{Device, Stream};
use framelane::frame::ImageSize;
use framelane::share::{Listener, Shown, WorkerOptions};
use framelane_show::{Display, Picture, WorkerPane};
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};

/// A worker that shows numbers.
pub struct Work {
    pub pane: WorkerPane,
    pub stream: Stream,
    number: Tensor,
}

impl Work {
    pub fn attach(device: &Device, window: &str, pane: &str) -> Self {
        let options = WorkerOptions { patience: LIMIT, ..WorkerOptions::for_device(SMALL) };
        let pane = WorkerPane::attach(window, pane, device, options).unwrap();
        Self { pane, stream: device.stream("worker").unwrap(), number: Tensor::new(device, SMALL) }
    }

    /// S15: each frame is written over the one before as soon as that was shown.
    pub fn show_number(&mut self, n: u64) -> Shown {
        self.number.paint(&self.stream, n as u32);
        self.pane.show(&self.stream, &Picture::new(self.number.view()), &meta(n)).unwrap()
    }

    /// Not so far ahead of the device that all slots wait for pictures of a distant future.
    pub fn keep_up(&self, n: u64) {
        if n.is_multiple_of(64) {
            self.wait();
        }
    }

    fn wait(&self) {
        self.stream.synchronize("the test's pace").unwrap();
    }
}

#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn worker_shows_each_kind() {
    let (window, pane) = role();
    let device = test_device::open(Device::host_checked, Device::cuda);
    // The slots grow from the size of the first picture.
    let options = WorkerOptions { patience: LIMIT, ..WorkerOptions::for_device(PICTURES[0].size()) };
    let mut pane = WorkerPane::attach(&window, &pane, &device, options).unwrap();
    say("path", pane.path());
    let (stream, other) = (device.stream("one").unwrap(), device.stream("other").unwrap());
    for (n, picture) in PICTURES.iter().enumerate() {
        wait_for_word();
        // Not always from the same stream.
        let stream = if n % 3 == 2 { &other } else { &stream };
        let tensor = Tensor::upload(&device, stream, picture);
        let shown = pane.show(stream, &picture.of(&tensor), &meta(n as u64)).unwrap();
        assert!(matches!(shown, Shown::Shown | Shown::Replaced), "{shown:?}");
    }
    wait_for_word();
    say("host copies", pane.host_copies());
    assert_eq!(device.hazards(), []);
}

#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn worker_shows_numbers() {
    show_numbers();
}

fn show_numbers() {
    let (window, task) = role();
    let frames: u64 = task.strip_prefix("numbers ").unwrap().parse().unwrap();
    let device = test_device::open(Device::host_checked, Device::cuda);
    let mut work = Work::attach(&device, &window, "numbers");
    say("path", work.pane.path());
    for n in 1..=frames {
        assert_ne!(work.show_number(n), Shown::Closed);
        // Free-running, then slower than the presenter, then in bursts; and then it stops.
        match n * 3 / frames {
            1 => work.wait(),
            2 if n % 50 == 0 => work.wait(),
            _ => {}
        }
    }
    wait_for_word();
    assert_eq!(work.pane.counts().shown, frames);
    say("dropped", work.pane.counts().dropped);
    assert_eq!(device.hazards(), []);
}

/// Shows numbers until it is killed, or its window closes.
#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn worker_shows_for_ever() {
    let (window, pane) = role();
    let device = test_device::open(Device::host, Device::cuda);
    let mut work = Work::attach(&device, &window, &pane);
    for n in 1.. {
        if work.show_number(n) == Shown::Closed {
            return;
        }
        work.keep_up(n);
    }
}

#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn worker_without_rights() {
    be_closed();
    show_numbers();
}

fn be_closed() {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap();
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
}

/// A display that knows no CUDA, and one worker on it.
fn window(window: &str) -> (Display, Listener) {
    let display = Display::offscreen(&Device::host()).unwrap();
    let mut listener = Listener::bind(window).unwrap();
    say("listening", window);
    let mut display = display;
    assert_eq!(display.accept(&mut listener, LIMIT).unwrap(), Some(0));
    (display, listener)
}

#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn window_shows_what_comes() {
    let (mut display, _listener) = window(&role().0);
    present_until(&mut display, SMALL, "ten pictures", |display| display.panes()[0].presented >= 10);
    say("showing", "now");
    loop {
        // Until it is killed.
        display.present(SMALL).unwrap();
    }
}

#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn window_without_rights() {
    be_closed();
    let (mut display, _listener) = window(&role().0);
    say("path", &display.panes()[0].path);
    present_until(&mut display, SMALL, "the last number", |display| {
        display.panes()[0].picture.as_ref().is_some_and(|meta| meta.index == 20)
    });
    let rgb = display.read().unwrap().unwrap();
    assert_eq!(rgb, [20, 0, 0].repeat(SMALL.width * SMALL.height));
    assert_eq!(display.panes()[0].picture.as_ref().unwrap().index, 20);
    say("seen", 20);
}

/// Two panes of numbers side by side.
pub const TWO: ImageSize = ImageSize { width: 2 * SMALL.width, height: SMALL.height };
