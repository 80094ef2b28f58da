//! S16: worker processes show their frames on a display; one that is killed spoils its own pane alone, and may come again.
#![cfg(target_os = "linux")]

mod common;

use common::opened;
use framelane::device::Device;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::share::{Listener, Pixels, Shown, Worker, WorkerOptions};
use framelane_show::Display;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const SIZE: ImageSize = ImageSize { width: 48, height: 32 };
const LIMIT: Duration = Duration::from_secs(20);

/// This test again, as a worker process that shows one grey for ever. It does not outlive this.
struct Process(Child);

impl Process {
    fn start(window: &str, pane: &str, grey: u8) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker", "--ignored", "--nocapture"])
            .env("FRAMELANE_TEST_WORKER", format!("{window} {pane} {grey}"))
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn worker() {
    let said = std::env::var("FRAMELANE_TEST_WORKER").unwrap();
    let [window, pane, grey] = said.split(' ').collect::<Vec<_>>()[..] else { panic!("{said}") };
    let mut worker = Worker::attach(window, pane, WorkerOptions::for_size(SIZE)).unwrap();
    let rgb = vec![grey.parse().unwrap(); SIZE.bytes()];
    for index in 0.. {
        if worker.show(Pixels::Rgb(&rgb), SIZE, &FrameMeta::new(pane, index)).unwrap() == Shown::Closed {
            return;
        }
    }
}

/// A worker whose frames no adapter draws spoils nothing.
#[test]
fn a_picture_that_cannot_be_drawn_is_dropped_alone() {
    let Some(mut display) = opened(Display::offscreen(&Device::host())) else { return };
    let window = format!("test-display-large-{}", std::process::id());
    let mut listener = Listener::bind(&window).unwrap();
    let size = ImageSize { width: 100_000, height: 1 };
    std::thread::scope(|s| {
        let worker = s.spawn(|| {
            let mut worker = Worker::attach(&window, "long", WorkerOptions::for_size(size)).unwrap();
            let rgb = vec![1; size.bytes()];
            assert_eq!(
                worker.show(Pixels::Rgb(&rgb), size, &FrameMeta::new("long", 0)).unwrap(),
                Shown::Shown
            );
            assert_eq!(
                worker.show(Pixels::Rgb(&rgb[..SIZE.bytes()]), SIZE, &FrameMeta::new("long", 1)).unwrap(),
                Shown::Shown
            );
            worker
        });
        let attached = listener.accept(LIMIT).unwrap().expect("a worker attaches");
        display.attach(attached);
        present_until(&mut display, "the good frame is shown", |d| {
            d.panes()[0].picture.as_ref().is_some_and(|meta| meta.index == 1)
        });
        let status = &display.panes()[0];
        // Taken and refused, or overtaken.
        assert_eq!((status.shown, status.presented, status.dropped), (2, 1, 1), "{status:?}");
        drop(worker.join().unwrap());
    });
}

fn present_until(display: &mut Display, what: &str, mut is: impl FnMut(&Display) -> bool) {
    let start = Instant::now();
    while !is(display) {
        assert!(start.elapsed() < LIMIT, "{what}: {display:?}");
        display.present(ImageSize { width: 2 * SIZE.width, height: SIZE.height }).unwrap();
    }
}

#[test]
fn s16_a_killed_worker_spoils_its_own_pane_and_may_come_again() {
    let Some(mut display) = opened(Display::offscreen(&Device::host())) else { return };
    let window = format!("test-display-{}", std::process::id());
    let mut listener = Listener::bind(&window).unwrap();
    let mut attach = |display: &mut Display, name: &str, grey| {
        let process = Process::start(&window, name, grey);
        let worker = listener.accept(LIMIT).unwrap().expect("a worker attaches");
        (process, display.attach(worker))
    };
    let (mut left, at) = attach(&mut display, "left", 100);
    assert_eq!(at, 0);
    let (_right, at) = attach(&mut display, "right", 200);
    assert_eq!(at, 1);
    let all = |display: &Display| display.panes().iter().all(|pane| pane.picture.is_some());
    let columns = |display: &mut Display| {
        let rgb = display.read().unwrap().unwrap();
        [rgb[0], rgb[2 * SIZE.bytes() / SIZE.height - 1]]
    };
    present_until(&mut display, "both show", all);
    assert_eq!(columns(&mut display), [100, 200]);
    assert!(display.panes()[0].path.starts_with("shared-memory, then host-upload ("), "{display:?}");
    for grey in [30, 40, 50] {
        // SIGKILL, in the middle of whatever it does.
        drop(left);
        // The system closes a process's sockets before it is reaped: the next presentation knows.
        display.present(ImageSize { width: 2 * SIZE.width, height: SIZE.height }).unwrap();
        let ended = display.panes()[0].ended.clone();
        assert_eq!(ended.as_deref(), Some("the worker has ended"));
        // Its last picture stays, and the other goes on.
        let went_on = display.panes()[1].presented + 3;
        present_until(&mut display, "the other goes on", |d| d.panes()[1].presented > went_on);
        assert_eq!(columns(&mut display)[1], 200);
        let (again, at) = attach(&mut display, "left", grey);
        assert_eq!((at, display.panes().len()), (0, 2), "it comes back to its own place");
        left = again;
        present_until(&mut display, "it shows again", all);
        assert_eq!(columns(&mut display), [grey, 200]);
        assert_eq!(display.panes()[0].ended, None);
    }
}
