//! What else than a tensor of the device is shown on a display: NV12, and arrays of the host.
//!
//! On the host device, or on what `FRAMELANE_TEST_DEVICE` (`cuda:0`) names.

mod common;
#[path = "../../../testing/device.rs"]
#[allow(dead_code, reason = "other tests use its other parts")]
mod test_device;

use framelane::TensorView;
use framelane::device::{Buffer, Device, Kernel, Memory, Stream};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::framelane_cuda::Flag;
use framelane::framelane_cuda::kernels::{Nv12ToPicture, twin};
use framelane::tensor::{DType, TensorSpec};
use framelane_show::{Display, Layout, Matrix, PaneOptions, Picture, TensorPane};
use std::time::{Duration, Instant};
use test_device::TestDevice;

/// Neither side is a multiple of anything.
const SIZE: ImageSize = ImageSize { width: 37, height: 21 };

struct Shown {
    display: Display,
    pane: TensorPane,
    stream: Stream,
    device: TestDevice,
    next: u64,
}

impl Shown {
    /// The device under test, for this test alone on CUDA, with one pane.
    fn start() -> Option<Self> {
        let device = test_device::open(Device::host_checked, Device::cuda);
        let mut display = common::opened(Display::offscreen(&device))?;
        let pane = display.pane("pane", &device, &PaneOptions::default()).unwrap();
        let stream = device.stream("producer").unwrap();
        Some(Self { display, pane, stream, device, next: 0 })
    }

    fn show(&mut self, picture: &Picture<'_>) {
        let _ = self.pane.show(&self.stream, picture, &FrameMeta::new("test", self.next)).unwrap();
        self.next += 1;
    }

    /// What is seen once the last picture is.
    fn seen(&mut self) -> Vec<u8> {
        let start = Instant::now();
        loop {
            self.display.present(SIZE).unwrap();
            let picture = self.display.panes()[0].picture.clone();
            if picture.is_some_and(|meta| meta.index + 1 == self.next) {
                return self.display.read().unwrap().unwrap();
            }
            assert!(start.elapsed() < Duration::from_secs(20), "it does not come: {:?}", self.display);
        }
    }

    fn host_copies(&self) -> u64 {
        self.display.panes()[0].host_copies
    }

    /// On the device, with these bytes.
    fn buffer(&self, bytes: &[u8]) -> Buffer {
        let own = self.device.alloc(bytes.len(), Memory::Device).unwrap();
        self.stream.copy(&pinned(&self.device, bytes), 0..bytes.len(), &own, 0).unwrap();
        own
    }
}

fn pinned(device: &Device, bytes: &[u8]) -> Buffer {
    let host = device.alloc(bytes.len(), Memory::Pinned).unwrap();
    host.write_host().unwrap().copy_from_slice(bytes);
    host
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    twin::pattern(&mut data, seed);
    data
}

fn without_alpha(rgba: &[u8]) -> Vec<u8> {
    rgba.chunks(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
}

#[test]
fn nv12_is_shown_as_its_matrix_says() {
    let Some(mut shown) = Shown::start() else { return };
    let ImageSize { width, height } = SIZE;
    let (across, down) = (width.div_ceil(2), height.div_ceil(2));
    // Gaps between rows and between planes.
    let (at, y_row, chroma_row) = (3, width + 5, 2 * across + 8);
    let chroma_at = height * y_row + 11;
    let bytes = noise(at + chroma_at + down * chroma_row, 5);
    let memory = shown.buffer(&bytes);
    let y = TensorSpec::strided(DType::U8, [height, width], [y_row, 1]).unwrap();
    let uv = TensorSpec::strided(DType::U8, [down, across, 2], [chroma_row, 2, 1]).unwrap();
    for matrix in [Matrix::Bt601, Matrix::Bt709] {
        for full_range in [false, true] {
            let picture = Picture::nv12(
                TensorView::new(&memory, at, &y).unwrap(),
                TensorView::new(&memory, at + chroma_at, &uv).unwrap(),
                matrix,
                full_range,
            );
            shown.show(&picture.unwrap());
            let to_row = 4 * width;
            let how =
                Nv12ToPicture { height, width, y_row, chroma_at, chroma_row, matrix, full_range, to_row };
            let mut expected = vec![0; to_row * height];
            twin::nv12_to_picture(&how, &bytes[at..], &mut expected).unwrap();
            assert!(shown.seen() == without_alpha(&expected), "{matrix:?} {full_range}");
        }
    }
    let through_host = !shown.pane.path().starts_with("vulkan-shared");
    assert_eq!(shown.host_copies(), if through_host { 4 } else { 0 });
    assert_eq!(shown.device.hazards(), []);
}

#[test]
fn planes_that_do_not_belong_together_are_refused() {
    let Some(shown) = Shown::start() else { return };
    let memory = shown.buffer(&[0; 200]);
    let other = shown.buffer(&[0; 200]);
    let spec = |dtype, shape: &[usize]| TensorSpec::new(dtype, shape);
    let (y, uv) = (spec(DType::U8, &[5, 7]), spec(DType::U8, &[3, 4, 2]));
    let wide = TensorSpec::strided(DType::U8, [5, 7], [14, 2]).unwrap();
    let (short, halves) = (spec(DType::U8, &[2, 4, 2]), spec(DType::F16, &[5, 7]));
    let flat = spec(DType::U8, &[3, 8]);
    let view = |buffer, at, spec| TensorView::new(buffer, at, spec).unwrap();
    for (y, uv, says) in [
        (view(&memory, 0, &y), view(&other, 35, &uv), "in the same buffer"),
        (view(&memory, 100, &y), view(&memory, 0, &uv), "behind the first"),
        (view(&memory, 0, &y), view(&memory, 35, &short), "is 3 × 4 × 2"),
        (view(&memory, 0, &halves), view(&memory, 70, &uv), "of u8"),
        (view(&memory, 0, &wide), view(&memory, 100, &uv), "side by side"),
        (view(&memory, 0, &y), view(&memory, 35, &flat), "× 2"),
    ] {
        let error = Picture::nv12(y, uv, Matrix::Bt709, false).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let picture = Picture::nv12(view(&memory, 0, &y), view(&memory, 35, &uv), Matrix::Bt709, false);
    let error =
        shown.pane.show(&shown.stream, &picture.unwrap().bgr(), &FrameMeta::new("test", 0)).unwrap_err();
    assert!(error.to_string().contains("colours of its own"), "{error}");
}

/// S2, S15: an array of the host's goes through the same call, and may be written again when it is back.
#[test]
fn an_array_of_the_host_is_shown_as_it_was_at_the_call() {
    let Some(mut shown) = Shown::start() else { return };
    let ImageSize { width, height } = SIZE;
    let spec = TensorSpec::new(DType::U8, [height, width, 3]);
    for round in 0..20 {
        let (kept, mut given) = (noise(spec.bytes(), round), noise(spec.bytes(), round));
        shown.show(&Picture::of_bytes(&given, &spec).unwrap());
        given.fill(0);
        assert!(shown.seen() == kept, "round {round}");
    }
    assert_eq!(shown.host_copies(), 20, "each is counted");
    let error = Picture::of_bytes(&[0; 10], &spec).unwrap_err();
    assert!(error.to_string().contains("there are 10"), "{error}");
    assert_eq!(shown.device.hazards(), []);
}

/// Floats too, whose bytes may lie anywhere; and a producer that is ahead of its stream by more than there is staging for.
#[test]
fn arrays_of_a_stream_that_is_held_up_wait_for_their_memory() {
    let Some(mut shown) = Shown::start() else { return };
    let ImageSize { width, height } = SIZE;
    let spec = TensorSpec::new(DType::F32, [3, height, width]);
    let numbers = |n: u8| -> Vec<u8> {
        let value = f32::from(n).to_le_bytes();
        // One byte more in front, so that no number is aligned.
        [0].into_iter().chain(value.into_iter().cycle().take(spec.bytes())).collect()
    };
    let show = |shown: &mut Shown, n: u8| {
        let bytes = numbers(n);
        let picture = Picture::of_bytes(&bytes[1..], &spec).unwrap();
        shown.show(&picture.range(0.0, 255.0).layout(Layout::Chw));
    };
    // Slots are made for the first.
    show(&mut shown, 99);
    assert!(shown.seen().iter().all(|&v| v == 99));
    // Work before them takes its time, so that the seventh has to wait for the first.
    const LONG: Duration = Duration::from_secs(1);
    let holder = match shown.device.cuda_context() {
        Some(cuda) => {
            let flag = Flag::new(cuda).unwrap();
            let raised = flag.clone();
            shown.stream.launch_on_cuda("hold", &[], |stream, _| stream.wait_for_flag(&flag, 1)).unwrap();
            Some(std::thread::spawn(move || {
                std::thread::sleep(LONG);
                raised.raise(1);
            }))
        }
        None => {
            let hold = |_: &mut Kernel<'_>| {
                std::thread::sleep(LONG);
                Ok(())
            };
            shown.stream.launch("hold", &[], hold).unwrap();
            None
        }
    };
    for n in 0..12 {
        show(&mut shown, n);
    }
    holder.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(shown.seen().iter().all(|&v| v == 11));
    let waits = shown.device.counters().cpu_waits;
    let wait = waits.get("pictures of the host on their way to the device");
    assert!(wait.is_some(), "the wait is counted: {waits:?}");
    assert_eq!(shown.device.hazards(), []);
}

/// S2: tensors in pinned memory of the device, and in memory of the host device.
#[test]
fn tensors_in_host_memory_are_shown() {
    let Some(mut shown) = Shown::start() else { return };
    let ImageSize { width, height } = SIZE;
    let spec = TensorSpec::new(DType::U8, [height, width, 3]);
    let host = Device::host();
    for device in [Device::clone(&shown.device), host.clone()] {
        let bytes = noise(spec.bytes() + 64, 9);
        let memory = pinned(&device, &bytes);
        shown.show(&Picture::new(TensorView::new(&memory, 64, &spec).unwrap()));
        drop(memory);
        assert!(shown.seen() == bytes[64..], "of {}", device.name());
    }
    // What the CPU cannot reach is refused, and the next is shown.
    let far = host.alloc(spec.bytes(), Memory::Device).unwrap();
    let picture = Picture::new(TensorView::new(&far, 0, &spec).unwrap());
    let error = shown.pane.show(&shown.stream, &picture, &FrameMeta::new("test", 9)).unwrap_err();
    assert!(error.to_string().contains("another device"), "{error}");
    let bytes = noise(spec.bytes(), 10);
    shown.show(&Picture::of_bytes(&bytes, &spec).unwrap());
    assert!(shown.seen() == bytes);
    assert_eq!(shown.device.hazards(), []);
}
