//! Tensors in the textures and buffers of a program that draws with OpenGL: their numbers arrive, the program's state is
//! as it was, and what cannot be is refused.
//!
//! On the host device and Mesa's software, or on what `FRAMELANE_TEST_DEVICE` (`cuda:0`) names and the contexts that it
//! draws: there CUDA writes them.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod cuda;
mod glx;
#[path = "../common/numbers.rs"]
mod numbers;
mod program;
mod refused;
#[path = "../../../../testing/device.rs"]
#[allow(dead_code, reason = "other tests use its other parts")]
mod test_device;

use common::skip;
use framelane::TensorView;
use framelane::device::{Access, Buffer, Device, Memory, Stream};
use framelane::frame::ImageSize;
use framelane::framelane_cuda::Place;
use framelane::framelane_cuda::kernels::{Nv12ToPicture, twin};
use framelane::tensor::{DType, TensorSpec};
use framelane_show::gl::{GlBuffer, GlContext, GlTexture, GlWay};
use framelane_show::{Layout, Matrix, Picture};
use numbers::number;
use program::{Drawer, Program};
use test_device::TestDevice;

/// Neither side is a multiple of anything.
const SIZE: ImageSize = ImageSize { width: 37, height: 21 };

/// The device under test, for this test alone on CUDA, and a program on the GPU that draws for it.
fn start() -> Option<(TestDevice, Program)> {
    let device = test_device::open(Device::host_checked, Device::cuda);
    let drawer = match device.cuda_context() {
        Some(context) => Drawer::Cuda(context.info().ordinal),
        None => Drawer::Any,
    };
    Some((device, program(drawer)?))
}

fn program(drawer: Drawer) -> Option<Program> {
    Program::egl(drawer).map_err(skip).ok()
}

/// How pictures of the device under test come to a context that it draws.
fn way() -> GlWay {
    if test_device::on_cuda() { GlWay::Shared } else { GlWay::Upload }
}

/// A tensor on the device, with these bytes.
struct Tensor {
    buffer: Buffer,
    spec: TensorSpec,
}

impl Tensor {
    fn new(stream: &Stream, spec: TensorSpec, bytes: &[u8]) -> Self {
        let device = stream.device();
        let host = device.alloc(bytes.len(), Memory::Pinned).unwrap();
        host.write_host().unwrap().copy_from_slice(bytes);
        let buffer = device.alloc(bytes.len(), Memory::Device).unwrap();
        stream.copy(&host, 0..bytes.len(), &buffer, 0).unwrap();
        Self { buffer, spec }
    }

    /// A grey picture.
    fn grey(stream: &Stream, size: ImageSize, grey: u8) -> Self {
        let spec = TensorSpec::new(DType::U8, [size.height, size.width]);
        Self::new(stream, spec, &vec![grey; size.width * size.height])
    }

    fn picture(&self) -> Picture<'_> {
        Picture::new(TensorView::new(&self.buffer, 0, &self.spec).unwrap())
    }
}

/// A tensor of [`SIZE`] with [`number`]s in it, and the picture that it is.
fn numbers(stream: &Stream, dtype: DType, layout: Layout, channels: usize) -> (Tensor, Vec<u8>) {
    let ImageSize { width, height } = SIZE;
    let (spec, bytes) = numbers::numbers(SIZE, dtype, layout, channels);
    let expected = (0..width * height)
        .flat_map(|i| {
            let at = |c: usize| number(i % width, i / width, if channels == 1 { 0 } else { c });
            [at(0), at(1), at(2), 255]
        })
        .collect();
    (Tensor::new(stream, spec, &bytes), expected)
}

fn each_kind(mut check: impl FnMut(DType, Layout, usize)) {
    for dtype in [DType::U8, DType::F16, DType::BF16, DType::F32] {
        for channels in [1, 3, 4] {
            for layout in [Layout::Hwc, Layout::Chw] {
                check(dtype, layout, channels);
            }
        }
    }
}

#[test]
fn each_kind_of_tensor_arrives_in_a_texture() {
    let Some((device, program)) = start() else { return };
    let stream = device.stream("producer").unwrap();
    let name = program.texture(SIZE.width, SIZE.height);
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    let mut shown = 0;
    each_kind(|dtype, layout, channels| {
        let (tensor, expected) = numbers(&stream, dtype, layout, channels);
        let picture = tensor.picture().range(0.0, 255.0);
        assert_eq!(texture.show(&stream, &picture).unwrap(), way(), "{}", texture.path());
        let seen = program.read_texture(name, SIZE.width, SIZE.height);
        assert!(seen == expected, "{dtype:?} {channels} {layout:?}");
        shown += 1;
    });
    let copies = if way() == GlWay::Shared { 0 } else { shown };
    assert_eq!((texture.shown(), texture.host_copies()), (shown, copies));
    assert_eq!(device.hazards(), []);
}

#[test]
fn each_kind_of_tensor_arrives_in_a_buffer() {
    let Some((device, program)) = start() else { return };
    let stream = device.stream("producer").unwrap();
    let bytes = 4 * SIZE.width * SIZE.height;
    // 8 bytes more, which are the program's own.
    let name = program.buffer(&vec![9; bytes + 8]);
    let mut buffer = GlBuffer::register(name, bytes, &device).unwrap();
    let texture = program.texture(SIZE.width, SIZE.height);
    each_kind(|dtype, layout, channels| {
        let (tensor, expected) = numbers(&stream, dtype, layout, channels);
        let picture = tensor.picture().range(0.0, 255.0);
        assert_eq!(buffer.show(&stream, &picture).unwrap(), way(), "{}", buffer.path());
        let seen = program.read_buffer(name, bytes + 8);
        assert!(seen[..bytes] == expected, "{dtype:?} {channels} {layout:?}");
        assert_eq!(seen[bytes..], [9; 8]);
        program.fill_from_buffer(texture, name, SIZE.width, SIZE.height);
        assert!(program.read_texture(texture, SIZE.width, SIZE.height) == expected);
    });
    // A smaller one goes where the first bytes are.
    let small = ImageSize { width: 3, height: 2 };
    let tensor = Tensor::grey(&stream, small, 50);
    assert_eq!(buffer.show(&stream, &tensor.picture()).unwrap(), way());
    assert_eq!(program.read_buffer(name, 24), [50, 50, 50, 255].repeat(6));
    assert_eq!(device.hazards(), []);
}

#[test]
fn the_programs_state_is_as_it_was() {
    let Some((device, program)) = start() else { return };
    let stream = device.stream("producer").unwrap();
    let (name, other) = (program.texture(SIZE.width, SIZE.height), program.texture(5, 5));
    let bytes = 4 * SIZE.width * SIZE.height;
    let (buffer, bound) = (program.buffer(&vec![0; bytes]), program.buffer(&[1; 16]));
    program.set_state(other, bound);
    let before = program.state();
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    let mut pixels = GlBuffer::register(buffer, bytes, &device).unwrap();
    assert_eq!(program.state(), before);
    let (tensor, expected) = numbers(&stream, DType::U8, Layout::Hwc, 3);
    for round in 0..3 {
        assert_eq!(texture.show(&stream, &tensor.picture()).unwrap(), way());
        assert_eq!(pixels.show(&stream, &tensor.picture()).unwrap(), way());
        assert_eq!((program.state(), program.error()), (before.clone(), 0), "round {round}");
    }
    // What was bound meanwhile is untouched.
    assert_eq!(program.read_buffer(bound, 16), [1; 16]);
    assert_eq!(program.read_texture(other, 5, 5), [77; 100]);
    assert!(program.read_texture(name, SIZE.width, SIZE.height) == expected);
    drop((texture, pixels));
    assert_eq!(program.error(), 0);
}

/// S15: what work enqueued later does to the tensor is not seen.
#[test]
fn a_tensor_may_be_written_again_right_after() {
    let Some((device, program)) = start() else { return };
    let stream = device.stream("producer").unwrap();
    let name = program.texture(SIZE.width, SIZE.height);
    let bytes = 4 * SIZE.width * SIZE.height;
    let pixels = program.buffer(&vec![0; bytes]);
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    let mut buffer = GlBuffer::register(pixels, bytes, &device).unwrap();
    let tensor = Tensor::grey(&stream, SIZE, 0);
    for grey in 1..=40_u8 {
        fill(&stream, &tensor.buffer, grey);
        assert_eq!(texture.show(&stream, &tensor.picture()).unwrap(), way());
        fill(&stream, &tensor.buffer, grey + 100);
        assert_eq!(buffer.show(&stream, &tensor.picture()).unwrap(), way());
        fill(&stream, &tensor.buffer, 255);
        let all = |grey: u8| [grey, grey, grey, 255].repeat(SIZE.width * SIZE.height);
        assert!(program.read_texture(name, SIZE.width, SIZE.height) == all(grey), "{grey}");
        assert!(program.read_buffer(pixels, bytes) == all(grey + 100), "{grey}");
    }
    assert_eq!(device.hazards(), []);
}

fn fill(stream: &Stream, buffer: &Buffer, value: u8) {
    let all = [Access::write(buffer, 0..buffer.len())];
    match stream.device().cuda_context() {
        Some(_) => stream.launch_on_cuda("fill", &all, |stream, places| {
            let [(Place::Device(memory), range)] = places else { unreachable!() };
            stream.fill(memory, range.clone(), value)
        }),
        None => stream.launch("fill", &all, move |kernel| {
            kernel.outputs[0].fill(value);
            Ok(())
        }),
    }
    .unwrap();
}

/// S2: an array of the host's, which may be written again right after, and NV12.
#[test]
fn arrays_of_the_host_and_nv12_arrive() {
    let Some((device, program)) = start() else { return };
    let stream = device.stream("producer").unwrap();
    let size = ImageSize { width: 6, height: 4 };
    let (name, bytes) = (program.texture(6, 4), 4 * 6 * 4);
    let pixels = program.buffer(&vec![0; bytes]);
    let mut texture = GlTexture::register(name, size, &device).unwrap();
    let mut buffer = GlBuffer::register(pixels, bytes, &device).unwrap();
    let spec = TensorSpec::new(DType::U8, [4, 6, 3]);
    for round in 0..10 {
        let mut array: Vec<u8> = (0..spec.bytes() as u8).map(|i| i.wrapping_mul(3) + round).collect();
        let expected: Vec<u8> = array.chunks(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect();
        let picture = Picture::of_bytes(&array, &spec).unwrap().layout(Layout::Hwc);
        assert_eq!(texture.show(&stream, &picture).unwrap(), way());
        assert_eq!(buffer.show(&stream, &picture).unwrap(), way());
        array.fill(0);
        assert_eq!(program.read_texture(name, 6, 4), expected);
        assert_eq!(program.read_buffer(pixels, bytes), expected);
    }
    assert_eq!((texture.host_copies(), buffer.host_copies()), (10, 10), "each is counted");

    let planes: Vec<u8> = (0..36).map(|i| 60 + 4 * i).collect();
    let memory = Tensor::new(&stream, TensorSpec::new(DType::U8, [36]), &planes);
    let (y, uv) = (TensorSpec::new(DType::U8, [4, 6]), TensorSpec::new(DType::U8, [2, 3, 2]));
    let view = |at, spec| TensorView::new(&memory.buffer, at, spec).unwrap();
    let picture = Picture::nv12(view(0, &y), view(24, &uv), Matrix::Bt709, false).unwrap();
    let how = Nv12ToPicture {
        height: 4,
        width: 6,
        y_row: 6,
        chroma_at: 24,
        chroma_row: 6,
        matrix: Matrix::Bt709,
        full_range: false,
        to_row: 24,
    };
    let mut expected = vec![0; bytes];
    twin::nv12_to_picture(&how, &planes, &mut expected).unwrap();
    assert_eq!(texture.show(&stream, &picture).unwrap(), way());
    assert_eq!(buffer.show(&stream, &picture).unwrap(), way());
    assert_eq!(program.read_texture(name, 6, 4), expected);
    assert_eq!(program.read_buffer(pixels, bytes), expected);
    let copies = if way() == GlWay::Shared { 10 } else { 11 };
    assert_eq!((texture.host_copies(), buffer.host_copies()), (copies, copies));
    assert_eq!(device.hazards(), []);
}

/// In whatever order the device works: with memory spoiled before it is written, and the hazard check on.
#[test]
fn any_order_of_work_shows_the_picture() {
    let Some(program) = program(Drawer::Any) else { return };
    let name = program.texture(SIZE.width, SIZE.height);
    let spec = TensorSpec::new(DType::U8, [SIZE.height, SIZE.width]);
    for seed in 0..40 {
        let device = Device::simulated(seed);
        let streams = ["one", "other"].map(|name| device.stream(name).unwrap());
        let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
        for round in 0..4_u8 {
            let stream = &streams[usize::from(round % 2)];
            let tensor = Tensor::grey(stream, SIZE, round);
            let _ = texture.show(stream, &tensor.picture()).unwrap();
            fill(stream, &tensor.buffer, 255);
            let all = |grey: u8| [grey, grey, grey, 255].repeat(SIZE.width * SIZE.height);
            assert!(program.read_texture(name, SIZE.width, SIZE.height) == all(round), "seed {seed}");
            let mut array = vec![round + 100; spec.bytes()];
            let _ = texture.show(stream, &Picture::of_bytes(&array, &spec).unwrap()).unwrap();
            array.fill(0);
            assert!(program.read_texture(name, SIZE.width, SIZE.height) == all(round + 100), "seed {seed}");
        }
        assert_eq!(device.hazards(), [], "seed {seed}");
    }
}

/// Two streams in turn: the later picture is the one that is seen.
#[test]
fn pictures_of_two_streams_come_in_the_order_of_the_calls() {
    let Some((device, program)) = start() else { return };
    let streams = ["one", "other"].map(|name| device.stream(name).unwrap());
    let name = program.texture(SIZE.width, SIZE.height);
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    for round in 0..20 {
        for (n, stream) in streams.iter().enumerate() {
            let grey = 10 * n as u8 + round;
            let tensor = Tensor::grey(stream, SIZE, grey);
            assert_eq!(texture.show(stream, &tensor.picture()).unwrap(), way());
        }
        let last = 10 + round;
        let seen = program.read_texture(name, SIZE.width, SIZE.height);
        assert!(seen == [last, last, last, 255].repeat(SIZE.width * SIZE.height), "round {round}");
    }
    assert_eq!(device.hazards(), []);
}

/// A thread of its own shows, in a context that shares with the program's.
#[test]
fn another_thread_shows_in_a_context_that_shares() {
    let Some((device, program)) = start() else { return };
    share(&device, &program);
}

fn share(device: &Device, program: &Program) {
    let name = program.texture(SIZE.width, SIZE.height);
    // Other threads see it once OpenGL has made it.
    program.finish();
    let finish = program.finish_function();
    let context = GlContext::shared().unwrap();
    assert!(program.is_current(), "making one changes nothing here");
    let (context, path) = std::thread::scope(|s| {
        let shown = s.spawn(|| {
            let context = context;
            let stream = device.stream("producer").unwrap();
            let (tensor, _) = numbers(&stream, DType::F32, Layout::Chw, 3);
            let refused = GlTexture::register(name, SIZE, device).unwrap_err();
            assert!(refused.to_string().contains("no OpenGL context is current"), "{refused}");
            let path = {
                let _current = context.make_current().unwrap();
                let mut texture = GlTexture::register(name, SIZE, device).unwrap();
                texture.show(&stream, &tensor.picture().range(0.0, 255.0)).unwrap();
                stream.synchronize("test").unwrap();
                finish.call();
                texture.path().to_owned()
            };
            assert!(GlTexture::register(name, SIZE, device).is_err(), "and now it is current no more");
            (context, path)
        });
        shown.join().unwrap()
    });
    println!("{path}");
    let expected = numbers(&device.stream("expected").unwrap(), DType::F32, Layout::Chw, 3).1;
    assert!(program.read_texture(name, SIZE.width, SIZE.height) == expected);
    // On the program's own thread it takes the place of the program's context, and gives it back.
    {
        let _current = context.make_current().unwrap();
        assert!(!program.is_current());
    }
    assert!(program.is_current());
    drop(context);
    assert!(program.read_texture(name, SIZE.width, SIZE.height) == expected);
}
