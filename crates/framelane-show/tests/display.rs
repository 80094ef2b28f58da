//! Tensors shown on a display in memory: their numbers arrive, the newest or each of them, and nobody waits.
//!
//! On the host device, or on what `FRAMELANE_TEST_DEVICE` (`cuda:0`) names: there by shared memory, if it can be.
//! `FRAMELANE_SHOW_FRAMES` says how long the long test is.

mod common;
#[path = "common/numbers.rs"]
mod numbers;
#[path = "../../../testing/device.rs"]
#[allow(dead_code, reason = "other tests use its other parts")]
mod test_device;

use common::opened;
use framelane::device::{Access, Device, Memory, Stream};
use framelane::feed::{Feeder, Options, SlotWriter, Source};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::framelane_cuda::{Flag, Place};
use framelane::ring::Policy;
use framelane::tensor::{DType, TensorSpec};
use framelane::{Batch, ErrorKind, Result, TensorView};
use framelane_show::{Colours, Display, Layout, PaneOptions, Picture, Shown, TensorPane};
use numbers::{number, numbers};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use test_device::TestDevice;

/// The device under test, for this test alone on CUDA, and a display for it, if there is an adapter.
fn start() -> Option<(TestDevice, Display)> {
    let device = test_device::open(Device::host_checked, Device::cuda);
    let display = opened(Display::offscreen(&device))?;
    Some((device, display))
}

/// A batch of these tensors, named `0`, `1` and so on.
fn batch(device: &Device, tensors: Vec<(TensorSpec, Vec<u8>)>) -> Batch {
    struct Given(Vec<(TensorSpec, Vec<u8>)>);
    impl Source for Given {
        fn name(&self) -> &str {
            "given"
        }
        fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
            let given = std::mem::take(&mut self.0);
            for (n, (spec, bytes)) in given.iter().enumerate() {
                slot.tensor(&n.to_string(), spec)?.copy_from_slice(bytes);
            }
            Ok(!given.is_empty())
        }
    }
    let feeder = Feeder::new(device, Given(tensors), Options::new("given")).unwrap();
    feeder.next_batch().unwrap().unwrap()
}

/// Pictures of one grey each, as a batch.
fn greys(device: &Device, size: ImageSize, greys: impl IntoIterator<Item = u8>) -> Batch {
    let spec = TensorSpec::new(DType::U8, [size.height, size.width]);
    batch(
        device,
        greys.into_iter().map(|grey| (spec.clone(), vec![grey; size.width * size.height])).collect(),
    )
}

fn meta(index: u64) -> FrameMeta {
    FrameMeta::new("test", index)
}

const SMALL: ImageSize = ImageSize { width: 37, height: 21 };

/// Present until the pane shows frame `index`; what the target looks like then.
#[track_caller]
fn until(display: &mut Display, pane: usize, index: u64, target: ImageSize) -> Vec<u8> {
    let start = Instant::now();
    loop {
        display.present(target).unwrap();
        if display.panes()[pane].picture.as_ref().is_some_and(|meta| meta.index == index) {
            return display.read().unwrap().unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "frame {index} does not come: {display:?}");
    }
}

/// Holds a stream up until it is dropped.
struct Hold {
    gate: Arc<(Mutex<bool>, Condvar)>,
    flag: Option<Flag>,
}

impl Hold {
    fn new(stream: &Stream) -> Self {
        let gate = Arc::<(Mutex<bool>, Condvar)>::default();
        let flag = stream.device().cuda_context().map(|cuda| Flag::new(cuda).unwrap());
        match &flag {
            Some(flag) => stream.launch_on_cuda("hold", &[], |stream, _| stream.wait_for_flag(flag, 1)),
            None => {
                let gate = gate.clone();
                stream.launch("hold", &[], move |_| {
                    let open = gate.0.lock().unwrap();
                    drop(gate.1.wait_while(open, |open| !*open).unwrap());
                    Ok(())
                })
            }
        }
        .unwrap();
        Self { gate, flag }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
        self.flag.iter().for_each(|flag| flag.raise(1));
    }
}

/// S1, S3, S12: each type, layout and number of channels arrives number by number; grey stays grey, red stays red.
#[test]
fn every_kind_of_tensor_is_shown_as_it_is() {
    let Some((device, mut display)) = start() else { return };
    let pane = display.pane("all", &device, &PaneOptions::default()).unwrap();
    let stream = device.stream("producer").unwrap();
    let width = SMALL.width;
    let mut index = 0;
    for dtype in [DType::U8, DType::F16, DType::BF16, DType::F32] {
        for channels in [1, 3, 4] {
            for layout in [Layout::Hwc, Layout::Chw] {
                let batch = batch(&device, vec![numbers(SMALL, dtype, layout, channels)]);
                let view = batch.on(&stream).unwrap();
                let picture = Picture::new(view.tensor("0").unwrap()).range(0.0, 255.0);
                assert_eq!(pane.show(&stream, &picture, &meta(index)).unwrap(), Shown::Shown);
                let rgb = until(&mut display, 0, index, SMALL);
                for (i, pixel) in rgb.chunks(3).enumerate() {
                    let at = |c: usize| number(i % width, i / width, if channels == 1 { 0 } else { c });
                    assert_eq!(pixel, [at(0), at(1), at(2)], "{dtype:?} {channels} {layout:?}, pixel {i}");
                }
                index += 1;
            }
        }
    }
    assert_eq!(device.hazards(), []);
}

/// Floats from 0 to 1, blue first, a colour map, and what is out of range.
#[test]
fn looks_are_as_said() {
    let Some((device, mut display)) = start() else { return };
    let pane = display.pane("looks", &device, &PaneOptions::default()).unwrap();
    let stream = device.stream("producer").unwrap();
    let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let row = |n: usize| TensorSpec::new(DType::F32, [1, n]);
    let target = |n: usize| ImageSize { width: n, height: 1 };
    let data = batch(
        &device,
        vec![
            (row(5), floats(&[0.0, 0.5, 1.0, 7.0, f32::NAN])),
            (TensorSpec::new(DType::F32, [1, 1, 3]), floats(&[0.0, 0.2, 1.0])),
        ],
    );
    let view = data.on(&stream).unwrap();
    let (line, pixel) = (view.tensor("0").unwrap(), view.tensor("1").unwrap());
    let grey = |v: u8| [v; 3];
    let (red, magenta) = ([255, 0, 0], [255, 0, 255]);
    let cases: [(Picture<'_>, ImageSize, Vec<[u8; 3]>); 5] = [
        (Picture::new(line.clone()), target(5), vec![grey(0), grey(128), grey(255), grey(255), grey(0)]),
        (Picture::new(line.clone()).mark(), target(5), vec![grey(0), grey(128), grey(255), red, magenta]),
        (
            Picture::new(line.clone()).range(1.0, 0.0),
            target(5),
            vec![grey(255), grey(128), grey(0), grey(0), grey(0)],
        ),
        (
            Picture::new(line).colours(Colours::Viridis),
            target(5),
            vec![[68, 1, 84], [33, 145, 140], [253, 231, 37], [253, 231, 37], [68, 1, 84]],
        ),
        (Picture::new(pixel).bgr().layout(Layout::Hwc), target(1), vec![[255, 51, 0]]),
    ];
    for (index, (picture, size, expected)) in cases.into_iter().enumerate() {
        let _ = pane.show(&stream, &picture, &meta(index as u64)).unwrap();
        let rgb = until(&mut display, 0, index as u64, size);
        assert_eq!(rgb, expected.concat(), "case {index}");
    }
}

/// S3: what is no picture is refused with a sentence, and the next picture is shown.
#[test]
fn what_is_no_picture_is_refused() {
    let Some((device, mut display)) = start() else { return };
    let pane = display.pane("refusing", &device, &PaneOptions::default()).unwrap();
    let stream = device.stream("producer").unwrap();
    let spec = |dtype, shape: &[usize]| TensorSpec::new(dtype, shape);
    let wrong = [
        (spec(DType::I32, &[4, 4, 3]), "u8, f16, bf16 or f32"),
        (spec(DType::U8, &[5, 4, 2]), "1, 3 or 4 channels"),
        (spec(DType::U8, &[2, 3, 4, 4]), "show one of them"),
        (spec(DType::U8, &[3, 4, 3]), "say which by `layout`"),
        (spec(DType::U8, &[40_000, 1, 1]), "pixels a side"),
    ];
    let tensors = wrong.iter().map(|(spec, _)| (spec.clone(), vec![0; spec.bytes()]));
    let good = (spec(DType::U8, &[2, 2]), vec![9; 4]);
    let data = batch(&device, tensors.chain([good]).collect());
    let view = data.on(&stream).unwrap();
    for (n, (_, says)) in wrong.iter().enumerate() {
        let picture = Picture::new(view.tensor(&n.to_string()).unwrap());
        let error = pane.show(&stream, &picture, &meta(0)).unwrap_err();
        assert!(
            error.to_string().contains(says) && error.to_string().starts_with("frame 0 of test: "),
            "{error}"
        );
    }
    // More bytes than some adapters draw out of: refused by those, and no harm done.
    let spec = TensorSpec::new(DType::U8, [4097, 8192]);
    let large = device.alloc(spec.bytes(), Memory::Device).unwrap();
    match pane.show(&stream, &Picture::new(TensorView::new(&large, 0, &spec).unwrap()), &meta(0)) {
        Ok(shown) => assert_eq!(shown, Shown::Shown),
        Err(refused) => assert!(refused.to_string().contains("draws out of"), "{refused}"),
    }
    display.present(SMALL).unwrap();
    let elsewhere = Device::host();
    let theirs = elsewhere.stream("elsewhere").unwrap();
    let picture = Picture::new(view.tensor("5").unwrap());
    assert_eq!(pane.show(&theirs, &picture, &meta(0)).unwrap_err().kind(), ErrorKind::Argument);
    let _ = pane.show(&stream, &picture, &meta(1)).unwrap();
    assert_eq!(until(&mut display, 0, 1, ImageSize { width: 2, height: 2 }), [9; 12]);
    for (policy, slots) in [(Policy::Latest, 4), (Policy::Fifo, 1)] {
        let few = display.pane("few", &device, &PaneOptions { policy, slots }).unwrap_err();
        assert!(few.to_string().contains("at least"), "{few}");
    }
}

/// `Latest`: what is not complete is not presented; of what is, the newest.
#[test]
fn the_newest_complete_picture_is_presented() {
    let Some((device, mut display)) = start() else { return };
    let options = PaneOptions { policy: Policy::Latest, slots: 5 };
    let pane = display.pane("latest", &device, &options).unwrap();
    let stream = device.stream("producer").unwrap();
    let data = greys(&device, SMALL, [10, 20, 30, 40, 50, 60, 70]);
    let view = data.on(&stream).unwrap();
    let show = |n: u64| {
        let picture = Picture::new(view.tensor(&n.to_string()).unwrap());
        pane.show(&stream, &picture, &meta(n)).unwrap()
    };
    assert_eq!(show(0), Shown::Shown);
    until(&mut display, 0, 0, SMALL);
    let hold = Hold::new(&stream);
    assert_eq!((show(1), show(2)), (Shown::Shown, Shown::Shown));
    for _ in 0..3 {
        assert_eq!(display.present(SMALL).unwrap(), 0, "nothing is complete");
        assert_eq!(display.read().unwrap().unwrap()[0], 10);
    }
    // More than there are slots for: the producer does not wait, an unseen one makes room.
    assert!([show(3), show(4), show(5), show(6)].contains(&Shown::Replaced));
    drop(hold);
    let rgb = until(&mut display, 0, 6, SMALL);
    assert!(rgb.iter().all(|&v| v == 70));
    let status = &display.panes()[0];
    assert_eq!((status.shown, status.presented + status.dropped), (7, 7), "{status:?}");
    assert_eq!(device.hazards(), []);
}

/// `Fifo`: each is presented, in order, and a producer that is far ahead waits.
#[test]
fn each_picture_is_presented_in_order() {
    let Some((device, mut display)) = start() else { return };
    let options = PaneOptions { policy: Policy::Fifo, slots: 2 };
    let pane = display.pane("fifo", &device, &options).unwrap();
    let frames = 40;
    let producer = {
        let device: Device = Device::clone(&device);
        std::thread::spawn(move || {
            let stream = device.stream("producer").unwrap();
            let data = greys(&device, SMALL, 0..frames);
            let view = data.on(&stream).unwrap();
            for n in 0..frames {
                let picture = Picture::new(view.tensor(&n.to_string()).unwrap());
                assert_eq!(pane.show(&stream, &picture, &meta(n.into())).unwrap(), Shown::Shown);
            }
        })
    };
    let mut seen = Vec::new();
    while display.panes()[0].ended.is_none() {
        if display.present(SMALL).unwrap() == 1 {
            let index = display.panes()[0].picture.as_ref().unwrap().index;
            let rgb = display.read().unwrap().unwrap();
            assert!(rgb.iter().all(|&v| u64::from(v) == index), "frame {index}");
            seen.push(index);
        }
    }
    producer.join().unwrap();
    assert_eq!(seen, (0..u64::from(frames)).collect::<Vec<_>>());
    assert_eq!(device.hazards(), []);
}

/// S9, S11: a number is drawn into every pixel. What is presented never goes back and is never torn, with a producer
/// that is faster, slower, and stops; and nothing is allocated on the way.
#[test]
fn s9_nothing_is_stale_torn_or_kept() {
    let Some((device, mut display)) = start() else { return };
    let frames: u64 = std::env::var("FRAMELANE_SHOW_FRAMES").map_or(2000, |n| n.parse().unwrap());
    let size = ImageSize { width: 160, height: 90 };
    let pane = display.pane("numbers", &device, &PaneOptions::default()).unwrap();
    let stream = device.stream("producer").unwrap();
    let number = device.alloc(size.width * size.height * 4, Memory::Device).unwrap();
    // Slots and all else are made with the first frames.
    let shown = Arc::new(AtomicU64::new(0));
    let stopped = Arc::new(AtomicBool::new(false));
    let producer = {
        let (device, shown, stopped) = (Device::clone(&device), shown.clone(), stopped.clone());
        std::thread::spawn(move || {
            for n in 1..=frames {
                // S15: each frame is written over the one before as soon as that was shown.
                paint(&stream, &number, size, n as u32);
                show_number(&pane, &stream, &number, size, n);
                shown.store(n, Ordering::Release);
                // Free-running, then slower than the presenter, then in bursts.
                match n * 3 / frames {
                    1 => stream.synchronize("the test's pace").unwrap(),
                    2 if n % 50 == 0 => stream.synchronize("the test's pace").unwrap(),
                    _ => {}
                }
            }
            stream.synchronize("the test's end").unwrap();
            stopped.store(true, Ordering::Release);
            let counters = device.counters();
            (pane, counters)
        })
    };
    let (mut last, mut different) = (0, 0);
    let mut after_start = None;
    loop {
        let ended = stopped.load(Ordering::Acquire);
        let fresh = display.present(size).unwrap();
        if fresh == 1 || ended {
            let rgb = display.read().unwrap().unwrap();
            let first = [rgb[0], rgb[1], rgb[2]];
            assert!(rgb.chunks(3).all(|pixel| pixel == first), "torn at {last}");
            let n = u64::from(first[0]) | u64::from(first[1]) << 8 | u64::from(first[2]) << 16;
            let said = display.panes()[0].picture.as_ref().map_or(0, |meta| meta.index);
            assert_eq!(n, said, "the picture is that of its frame");
            assert!(n >= last && n <= frames, "{n} after {last}");
            different += u64::from(n > last);
            last = n;
        }
        if after_start.is_none() && shown.load(Ordering::Acquire) > 20 {
            after_start = Some(device.counters().allocations);
        }
        if ended && fresh == 0 {
            break;
        }
    }
    let (pane, counters) = producer.join().unwrap();
    assert_eq!(last, frames, "the newest is shown once the producer stops");
    assert!(different > 20, "{different}");
    if let Some(before) = after_start {
        assert_eq!(counters.allocations, before, "nothing is allocated while frames are shown");
    }
    assert_eq!(device.hazards(), []);
    println!("{}: {different} of {frames} frames presented", pane.path());
}

/// Four bytes a pixel: the number, low byte first.
fn paint(stream: &Stream, to: &framelane::device::Buffer, size: ImageSize, n: u32) {
    let bytes = size.width * size.height * 4;
    let access = [Access::write(to, 0..bytes)];
    match stream.cuda() {
        Some(_) => stream.launch_on_cuda("paint", &access, |stream, places| {
            let [(Place::Device(to), _)] = places else { unreachable!() };
            stream.fill_words(to, 0..bytes, n)
        }),
        None => stream.launch("paint", &access, move |kernel| {
            kernel.outputs[0].chunks_exact_mut(4).for_each(|pixel| pixel.copy_from_slice(&n.to_le_bytes()));
            Ok(())
        }),
    }
    .unwrap();
}

fn show_number(
    pane: &TensorPane,
    stream: &Stream,
    from: &framelane::device::Buffer,
    size: ImageSize,
    n: u64,
) {
    let spec = TensorSpec::new(DType::U8, [size.height, size.width, 4]);
    let picture = Picture::new(TensorView::new(from, 0, &spec).unwrap());
    assert_ne!(pane.show(stream, &picture, &meta(n)).unwrap(), Shown::Closed);
}

/// S13, S14: sizes change from frame to frame; the display goes, and the producer is told by what `show` returns.
#[test]
fn sizes_change_and_displays_go() {
    let Some((device, mut display)) = start() else { return };
    let pane = display.pane("sizes", &device, &PaneOptions::default()).unwrap();
    let stream = device.stream("producer").unwrap();
    for n in 0..30u64 {
        let size = ImageSize { width: 1 + (n as usize * 37) % 200, height: 1 + (n as usize * 11) % 90 };
        let data = greys(&device, size, [n as u8 + 1]);
        let view = data.on(&stream).unwrap();
        let _ = pane.show(&stream, &Picture::new(view.tensor("0").unwrap()), &meta(n)).unwrap();
        let rgb = until(&mut display, 0, n, size);
        assert!(rgb.iter().all(|&v| u64::from(v) == n + 1), "frame {n}");
    }
    let data = greys(&device, SMALL, [1]);
    let view = data.on(&stream).unwrap();
    let picture = Picture::new(view.tensor("0").unwrap());
    drop(display);
    assert_eq!(pane.show(&stream, &picture, &meta(30)).unwrap(), Shown::Closed);
    stream.synchronize("the test's end").unwrap();
}

/// Two producers side by side, each with its own device; S20: the way is said in one line.
#[test]
fn panes_lie_side_by_side_and_say_their_way() {
    let Some((device, mut display)) = start() else { return };
    let host = Device::host();
    let left = display.pane("left", &device, &PaneOptions::default()).unwrap();
    let right = display.pane("right", &host, &PaneOptions::default()).unwrap();
    for (pane, device, grey) in [(&left, &*device, 100), (&right, &host, 200)] {
        let stream = device.stream("producer").unwrap();
        let data = greys(device, SMALL, [grey]);
        let view = data.on(&stream).unwrap();
        let _ = pane.show(&stream, &Picture::new(view.tensor("0").unwrap()), &meta(0)).unwrap();
    }
    let target = ImageSize { width: 2 * SMALL.width, height: SMALL.height };
    until(&mut display, 0, 0, target);
    let rgb = until(&mut display, 1, 0, target);
    for (i, pixel) in rgb.chunks(3).enumerate() {
        let expected = if i % target.width < SMALL.width { 100 } else { 200 };
        assert_eq!(pixel, [expected; 3], "pixel {i}");
    }
    assert!(
        right.path().starts_with("host-upload (") && right.path().ends_with("pictures are made on the cpu")
    );
    println!("{}\n{}", left.path(), right.path());
    let (left, right) = (left.path().to_owned(), right.path().to_owned());
    assert_eq!(display.panes().iter().map(|p| p.path.clone()).collect::<Vec<_>>(), [left, right]);
}

/// Panes of one name are told apart; one that has ended says why, and can be taken away.
#[test]
fn panes_have_names_and_ends() {
    let Some((device, mut display)) = start() else { return };
    let pane = |display: &mut Display| display.pane("camera", &device, &PaneOptions::default()).unwrap();
    let panes: [TensorPane; 3] = std::array::from_fn(|_| pane(&mut display));
    let names = |display: &Display| display.panes().into_iter().map(|pane| pane.name).collect::<Vec<_>>();
    assert_eq!(names(&display), ["camera", "camera (2)", "camera (3)"]);
    let stream = device.stream("producer").unwrap();
    let data = greys(&device, SMALL, [10, 20, 30]);
    let view = data.on(&stream).unwrap();
    let target = ImageSize { width: 2 * SMALL.width, height: 2 * SMALL.height };
    for (n, pane) in panes.iter().enumerate() {
        let picture = Picture::new(view.tensor(&n.to_string()).unwrap());
        assert_eq!(pane.show(&stream, &picture, &meta(0)).unwrap(), Shown::Shown);
        until(&mut display, n, 0, target);
    }
    assert!(display.dismiss_ended().is_empty());
    let [first, second, third] = panes;
    drop(first);
    second.clone().end("the lens is dirty");
    second.end("a later reason does not count");
    display.present(target).unwrap();
    let ended: Vec<_> = display.panes().into_iter().map(|pane| pane.ended).collect();
    let said = |why: &str| Some(format!("ended{why}"));
    assert_eq!(ended, [said(""), said(": the lens is dirty"), None]);

    let dismissed: Vec<_> =
        display.dismiss_ended().into_iter().map(|pane| (pane.name, pane.presented)).collect();
    assert_eq!(dismissed, [("camera".to_owned(), 1), ("camera (2)".to_owned(), 1)]);
    assert_eq!(names(&display), ["camera (3)"]);
    // All of the target is the last one's now, and its pictures go on.
    let picture = Picture::new(view.tensor("1").unwrap());
    assert_eq!(third.show(&stream, &picture, &meta(1)).unwrap(), Shown::Shown);
    let rgb = until(&mut display, 0, 1, SMALL);
    assert_eq!(rgb, vec![20; SMALL.bytes()]);
    let _again = pane(&mut display);
    assert_eq!(names(&display), ["camera (3)", "camera"]);
    drop(third);
    display.present(target).unwrap();
    assert_eq!(display.dismiss_ended().len(), 1);
    stream.synchronize("the test's end").unwrap();
}
