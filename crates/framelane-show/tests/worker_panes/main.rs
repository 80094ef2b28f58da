//! Tensors of worker processes on a display: S9, S14, S16, S17, S20 between processes.
//!
//! On the host device, or on what `FRAMELANE_TEST_DEVICE` (`cuda:0`) names: there by the display's own memory, if it can
//! be shared within one process, and by memory of the host where the display does not offer its own.
//! `FRAMELANE_SHOW_FRAMES` says how long the long test is, `FRAMELANE_SHOW_KILLS` how many workers are killed.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod kill;
mod pictures;
mod processes;
#[path = "../../../../testing/device.rs"]
#[allow(dead_code, reason = "other tests use its other parts")]
mod test_device;
mod work;

use framelane::device::{Buffer, Device, Memory, Stream};
use framelane::frame::ImageSize;
use framelane::share::{Listener, Shown, WorkerOptions};
use framelane::tensor::{DType, TensorSpec};
use framelane::{ErrorKind, TensorView};
use framelane_show::{Display, PaneOptions, Picture, WorkerPane};
use pictures::{PICTURES, SMALL, Tensor};
use processes::{LIMIT, Process, window_name};
use std::time::Instant;
use test_device::TestDevice;

/// The device under test, for this test alone on CUDA, a display for it if there is an adapter, and its door.
fn start(test: &str) -> Option<(TestDevice, Display, Listener, String)> {
    let device = test_device::open(Device::host_checked, Device::cuda);
    let display = common::opened(Display::offscreen(&device))?;
    let window = window_name(test);
    let listener = Listener::bind(&window).unwrap();
    Some((device, display, listener, window))
}

/// How a display lets workers in.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Door {
    /// With the adapter's memory, if the worker has the same GPU.
    Offers,
    /// With memory of the host alone.
    HostOnly,
}

impl Door {
    const BOTH: [Self; 2] = [Self::Offers, Self::HostOnly];

    /// The number of the next worker's pane.
    fn open(self, display: &mut Display, listener: &mut Listener) -> usize {
        match self {
            Self::Offers => display.accept(listener, LIMIT).unwrap().expect("a worker attaches"),
            Self::HostOnly => {
                let attached = listener.accept(LIMIT).unwrap().expect("a worker attaches");
                display.attach(attached)
            }
        }
    }

    /// How the worker's pictures should come, if those of this process come by `ours`.
    fn check(self, ours: &str, theirs: &str) {
        match self {
            // The same words, with the adapter in them.
            Self::Offers if ours.starts_with("vulkan-shared (") => assert_eq!(theirs, ours),
            Self::Offers if test_device::on_cuda() => {
                assert!(theirs.starts_with("shared-memory, then host-upload ("), "{theirs}");
                println!("not shared within a process either: {ours}");
            }
            Self::Offers => {
                let why = "pictures are made by another process";
                assert!(
                    theirs.starts_with("shared-memory, then host-upload (") && theirs.ends_with(why),
                    "{theirs}"
                );
            }
            Self::HostOnly if test_device::on_cuda() => {
                assert_eq!(theirs, "shared-memory: the window offers no GPU's memory");
            }
            Self::HostOnly => assert_eq!(theirs, "shared-memory"),
        }
    }
}

#[track_caller]
fn present_until(display: &mut Display, size: ImageSize, what: &str, mut is: impl FnMut(&Display) -> bool) {
    let start = Instant::now();
    while !is(display) {
        assert!(start.elapsed() < LIMIT, "{what}: {display:?}");
        display.present(size).unwrap();
    }
}

/// How pictures of this process come to its display.
fn own_way(display: &mut Display, device: &Device) -> String {
    let probe = display.pane("probe", device, &PaneOptions::default()).unwrap();
    probe.path().to_owned()
}

/// S1, S12, S14, S20: each kind of picture, of sizes that grow and shrink, looks as the host's twin of the kernel makes it.
#[test]
fn every_kind_of_picture_is_that_of_the_host() {
    let Some((device, mut display, mut listener, window)) = start("kinds") else { return };
    let ours = own_way(&mut Display::offscreen(&device).unwrap(), &device);
    let host = Device::host();
    let reference = host.stream("reference").unwrap();
    for door in Door::BOTH {
        let mut worker = Process::start("work::worker_shows_each_kind", &window, "kinds");
        let at = door.open(&mut display, &mut listener);
        assert_eq!(at, 0, "the second comes to the place of the first");
        let path = worker.said("path");
        door.check(&ours, &path);
        if door == Door::Offers {
            assert_eq!(display.panes()[0].path, path, "both sides say one thing");
        }
        let pane = display.pane("reference", &host, &PaneOptions::default()).unwrap();
        for (n, picture) in PICTURES.iter().enumerate() {
            let tensor = Tensor::upload(&host, &reference, picture);
            let index = n as u64;
            let shown = pane.show(&reference, &picture.of(&tensor), &pictures::meta(index)).unwrap();
            assert_eq!(shown, framelane_show::Shown::Shown);
            worker.go_on();
            let size = picture.size();
            let target = ImageSize { width: 2 * size.width, height: size.height };
            present_until(&mut display, target, "both are shown", |display| {
                let is = |pane: usize| display.panes()[pane].picture.as_ref().map(|meta| meta.index);
                (is(0), is(1)) == (Some(index), Some(index))
            });
            let rgb = display.read().unwrap().unwrap();
            for (y, row) in rgb.chunks_exact(target.width * 3).enumerate() {
                let (theirs, twins) = row.split_at(row.len() / 2);
                assert!(theirs == twins, "{door:?}, row {y} of picture {n}: {picture:?}");
            }
        }
        worker.go_on();
        let host_copies: u64 = worker.said("host copies").parse().unwrap();
        assert_eq!(host_copies == 0, path.starts_with("vulkan-shared ("), "{host_copies} by {path}");
        let ours = display.panes()[0].host_copies;
        assert_eq!(ours == 0, host_copies == 0, "the display counts {ours}, the worker {host_copies}");
        worker.ends_well();
        drop(pane);
        display = match Display::offscreen(&device) {
            Ok(display) => display,
            Err(why) => panic!("there was an adapter before: {why}"),
        };
    }
    assert_eq!(device.hazards(), []);
}

/// S9, S11: a number is drawn into every pixel. What is presented never goes back and is never torn, with a worker that is
/// faster, slower, and stops.
#[test]
fn s9_nothing_is_stale_or_torn() {
    let Some((_device, mut display, mut listener, window)) = start("numbers") else { return };
    let frames: u64 = std::env::var("FRAMELANE_SHOW_FRAMES").map_or(2000, |n| n.parse().unwrap());
    for door in Door::BOTH {
        let mut worker = Process::start("work::worker_shows_numbers", &window, &format!("numbers {frames}"));
        let at = door.open(&mut display, &mut listener);
        let path = worker.said("path");
        let (mut last, mut different) = (0, 0);
        let start = Instant::now();
        while last < frames {
            assert!(start.elapsed() < 10 * LIMIT, "stopped at {last}: {display:?}");
            if display.present(SMALL).unwrap() == 0 {
                continue;
            }
            let rgb = display.read().unwrap().unwrap();
            let first = [rgb[0], rgb[1], rgb[2]];
            assert!(rgb.chunks(3).all(|pixel| pixel == first), "torn at {last}");
            let n = u64::from(first[0]) | u64::from(first[1]) << 8 | u64::from(first[2]) << 16;
            let said = display.panes()[at].picture.as_ref().map_or(0, |meta| meta.index);
            assert_eq!(n, said, "the picture is that of its frame");
            assert!(n > last && n <= frames, "{n} after {last}");
            different += 1;
            last = n;
        }
        assert!(different > 20, "{different}");
        let status = &display.panes()[at];
        assert_eq!((status.shown, status.presented, status.dropped), (frames, different, frames - different));
        // Nothing is dropped by a worker: the newest always gets a slot.
        worker.go_on();
        assert_eq!(worker.said("dropped"), "0");
        worker.ends_well();
        println!("{path}: {different} of {frames} frames presented");
    }
}

/// The window dies: its worker is told, by what `show` returns, and goes on with its device.
#[test]
fn s16_a_window_that_dies_is_told_to_its_worker() {
    let Some((device, display, listener, window)) = start("window-dies") else { return };
    drop((display, listener));
    for _ in 0..5 {
        let mut child = Process::start("work::window_shows_what_comes", &window, "");
        child.said("listening");
        let mut work = work::Work::attach(&device, &window, "worker");
        let mut n = 0;
        let mut show = |work: &mut work::Work| {
            n += 1;
            work.keep_up(n);
            work.show_number(n)
        };
        // Until it has drawn some.
        let start = Instant::now();
        while !child.has_said("showing") {
            assert!(start.elapsed() < LIMIT && show(&mut work) != Shown::Closed);
        }
        drop(child);
        let start = Instant::now();
        while show(&mut work) != Shown::Closed {
            assert!(start.elapsed() < LIMIT, "nothing is told");
        }
        assert!(!work.pane.is_open().unwrap());
        assert_eq!(show(&mut work), Shown::Closed);
        // All that was enqueued into the memory of the dead is done without an error, and the device goes on.
        work.stream.synchronize("the test's end").unwrap();
        let tensor = Tensor::upload(&device, &work.stream, &PICTURES[0]);
        work.stream.synchronize("the test's end").unwrap();
        drop(tensor);
    }
    assert_eq!(device.hazards(), []);
}

/// S17: neither process may be looked into by others, and the window knows no CUDA.
#[test]
fn s17_processes_without_rights_over_each_other() {
    let Some((device, mut display, listener, window)) = start("no-rights") else { return };
    let ours = own_way(&mut display, &device);
    drop((display, listener));
    let mut child = Process::start("work::window_without_rights", &window, "");
    child.said("listening");
    let mut worker = Process::start("work::worker_without_rights", &window, "numbers 20");
    let path = worker.said("path");
    assert_eq!(child.said("path"), path);
    if device.cuda_context().is_some() && ours.starts_with("vulkan-shared (") {
        // The window takes the best adapter there is, which may be another GPU than the one under test.
        assert!(path.starts_with("vulkan-shared (") || path.contains("on another GPU"), "{path}");
    }
    assert_eq!(child.said("seen"), "20");
    worker.go_on();
    worker.ends_well();
    child.ends_well();
    println!("{path}");
}

/// S3: what is no picture is refused with a sentence, costs no slot, and the next picture is shown.
#[test]
fn what_is_no_picture_is_refused() {
    let Some((device, mut display, mut listener, window)) = start("refused") else { return };
    let mut work = std::thread::scope(|s| {
        let attaching = s.spawn(|| work::Work::attach(&device, &window, "worker"));
        assert_eq!(display.accept(&mut listener, LIMIT).unwrap(), Some(0));
        attaching.join().unwrap()
    });
    let wrong = TensorSpec::new(DType::I32, [5, 6, 3]);
    let memory = device.alloc(wrong.bytes(), Memory::Device).unwrap();
    let right = TensorSpec::new(DType::U8, [5, 6, 3]);
    let elsewhere = Device::host();
    let theirs = elsewhere.stream("elsewhere").unwrap();
    for n in 0..20 {
        let refused =
            |stream: &Stream, memory: &Buffer, spec: &TensorSpec, work: &mut work::Work, says: &str| {
                let picture = Picture::new(TensorView::new(memory, 0, spec).unwrap());
                let error = work.pane.show(stream, &picture, &pictures::meta(n)).unwrap_err();
                assert!(error.kind() == ErrorKind::Argument && error.to_string().contains(says), "{error}");
            };
        let stream = work.stream.clone();
        refused(&stream, &memory, &wrong, &mut work, "u8, f16, bf16 or f32");
        refused(&theirs, &memory, &right, &mut work, "not of stream \"elsewhere\"");
        // The tensor of a foreign device comes as far as the kernel, and its slot is given back.
        let foreign = elsewhere.alloc(right.bytes(), Memory::Device).unwrap();
        refused(&stream, &foreign, &right, &mut work, "of another device");
    }
    assert_ne!(work.show_number(7), Shown::Dropped);
    present_until(&mut display, SMALL, "the right one is shown", |display| {
        display.panes()[0].picture.as_ref().is_some_and(|meta| meta.index == 7)
    });
    assert_eq!(work.pane.counts().dropped, 0);
    let few = WorkerPane::attach(&window, "few", &device, WorkerOptions::for_size(SMALL));
    if device.cuda_context().is_some() {
        assert!(few.unwrap_err().to_string().contains("at least 5"));
    } else {
        assert_eq!(
            few.unwrap_err().kind(),
            ErrorKind::Timeout,
            "on the host few are enough, and nobody answers"
        );
    }
    assert_eq!(device.hazards(), []);
}
