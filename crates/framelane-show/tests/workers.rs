//! S16: worker processes show their frames on a display; one that is killed spoils its own pane alone, and may come again.
#![cfg(target_os = "linux")]

mod common;

use common::opened;
use framelane::device::Device;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::share::{Listener, Pixels, Shown, Worker, WorkerOptions};
use framelane_show::{Display, Picture, Seen, WorkerPane};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
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
        assert_eq!(ended.as_deref(), Some("killed, or crashed: it said no goodbye"));
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

/// Worker and display count the same: what was taken and not drawn is not out.
#[test]
fn a_worker_is_told_what_became_of_each_picture() {
    let Some(mut display) = opened(Display::offscreen(&Device::host())) else { return };
    let window = format!("test-display-told-{}", std::process::id());
    let mut listener = Listener::bind(&window).unwrap();
    let device = Device::host();
    let mut pane = std::thread::scope(|s| {
        let attach = || WorkerPane::attach(&window, "told", &device, WorkerOptions::for_device(SIZE));
        let pane = s.spawn(attach);
        display.accept(&mut listener, LIMIT).unwrap().expect("a worker attaches");
        pane.join().unwrap().unwrap()
    });
    let stream = device.stream("worker").unwrap();
    let (rgb, spec) = (vec![7; SIZE.bytes()], SIZE.spec());
    let told = Arc::new(Mutex::new(Vec::new()));
    for index in 0..300 {
        let picture = Picture::of_bytes(&rgb, &spec).unwrap();
        let (meta, heard) = (FrameMeta::new("told", index), told.clone());
        let shown = pane.show_then(&stream, &picture, &meta, move |seen, age| {
            assert!(age < LIMIT);
            heard.lock().unwrap().push((index, seen));
        });
        assert_ne!(shown.unwrap(), Shown::Closed);
        if index % 3 > 0 {
            stream.synchronize("the picture").unwrap();
            display.present(SIZE).unwrap();
        }
    }
    assert_eq!(pane.settle(LIMIT).unwrap(), 0);
    let all = std::mem::take(&mut *told.lock().unwrap());
    let is = |seen: Seen| all.iter().filter(|told| told.1 == seen).count() as u64;
    let status = display.panes().remove(0);
    assert_eq!((all.len(), is(Seen::Presented)), (300, status.presented), "{status:?}");
    assert_eq!(is(Seen::Presented) + is(Seen::Overtaken), 300);
    assert_eq!(status.presented, 200, "{status:?}");
    assert_eq!(pane.counts().drawn, 200);
    // What lies there when the display closes is told, too, and that it closed in order.
    let heard = told.clone();
    let picture = Picture::of_bytes(&rgb, &spec).unwrap();
    let then = move |seen, _| heard.lock().unwrap().push((300, seen));
    let _ = pane.show_then(&stream, &picture, &FrameMeta::new("told", 300), then).unwrap();
    drop(display);
    assert!(!pane.is_open().unwrap() && !pane.is_lost());
    assert_eq!(*told.lock().unwrap(), [(300, Seen::Closed)]);
}

/// Two workers of one name have a pane each, and each comes back to a pane of its name.
#[test]
fn workers_of_one_name() {
    let Some(mut display) = opened(Display::offscreen(&Device::host())) else { return };
    let window = format!("test-display-names-{}", std::process::id());
    let mut listener = Listener::bind(&window).unwrap();
    let mut attach = |display: &mut Display| {
        std::thread::scope(|s| {
            let worker = s.spawn(|| Worker::attach(&window, "camera", WorkerOptions::for_size(SIZE)));
            let at = display.accept(&mut listener, LIMIT).unwrap().expect("a worker attaches");
            (worker.join().unwrap().unwrap(), at)
        })
    };
    let (_first, at) = attach(&mut display);
    assert_eq!(at, 0);
    let (second, at) = attach(&mut display);
    assert_eq!(at, 1);
    second.end("its film is over");
    display.present(SIZE).unwrap();
    let status = display.panes().remove(1);
    assert_eq!(status.name, "camera (2)");
    assert_eq!(status.ended.as_deref(), Some("ended: its film is over"));
    let (again, at) = attach(&mut display);
    assert_eq!((at, &*display.panes()[1].name), (1, "camera (2)"));
    drop(again);
    display.present(SIZE).unwrap();
    assert_eq!((display.dismiss_ended().len(), display.panes().len()), (1, 1));
}
