//! The kernels against their host twins.

use crate::{download, gpu, pattern, stream, upload};
use framelane_cuda::kernels::{Affine, Float, Shape, Strides, ToBytes, ToFloats, twin};
use framelane_cuda::{DeviceBuffer, EventOptions, Kind, Module, Stream};
use std::time::Duration;

const FLOATS: [Float; 3] = [Float::F32, Float::F16, Float::BF16];

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (images, height, width) in
        [(1, 1, 1), (2, 3, 5), (1, 33, 257), (3, 17, 31), (1, 7, 1000), (5, 64, 64), (2, 9, 14)]
    {
        for channels in 1..=4 {
            shapes.push(Shape { images, height, width, channels });
        }
    }
    shapes
}

/// The dense layouts, and ones with gaps after rows and images.
fn layouts(shape: Shape) -> Vec<Strides> {
    let (hwc, chw) = (Strides::hwc(shape), Strides::chw(shape));
    let gap = |s: Strides, rows: usize| {
        // Wider rows move everything that lies beyond a row.
        let wider = |stride: usize| if stride >= s.row { stride / s.row * (s.row + rows) } else { stride };
        Strides { image: wider(s.image) + 3, row: s.row + rows, pixel: s.pixel, channel: wider(s.channel) }
    };
    if shape.height == 1 || shape.width == 1 {
        vec![hwc, chw]
    } else {
        vec![hwc, chw, gap(hwc, 5), gap(chw, 2)]
    }
}

fn extent(s: &Strides, shape: &Shape, channels: usize) -> usize {
    (shape.images - 1) * s.image
        + (shape.height - 1) * s.row
        + (shape.width - 1) * s.pixel
        + (channels - 1) * s.channel
        + 1
}

fn affines() -> [Affine; 4] {
    [
        Affine::SAME,
        Affine::TO_UNIT,
        Affine::normalised([0.485, 0.456, 0.406, 0.0], [0.229, 0.224, 0.225, 1.0]),
        Affine {
            scale: [1e-40, f32::INFINITY, -1e38, 300.7],
            bias: [-0.0, 1.0, f32::NEG_INFINITY, f32::NAN],
        },
    ]
}

fn to_floats_once(stream: &Stream, how: &ToFloats, seed: u64) {
    let from = pattern(extent(&how.from, &how.shape, how.shape.channels), seed);
    let bytes = extent(&how.to, &how.shape, how.shape.channels) * how.float.size();
    let mut wanted = vec![0xab; bytes];
    twin::to_floats(how, &from, &mut wanted).unwrap();
    let (source, target) = (upload(stream, &from), DeviceBuffer::new(stream.context(), bytes).unwrap());
    stream.fill(&target, 0..bytes, 0xab).unwrap();
    stream.to_floats(how, &source, 0, &target, 0).unwrap();
    let got = download(stream, &target);
    assert!(
        got == wanted,
        "{how:?}: first difference at {:?}",
        got.iter().zip(&wanted).position(|(a, b)| a != b)
    );
}

fn to_bytes_once(stream: &Stream, how: &ToBytes, from: &[u8]) {
    let bytes = extent(&how.to, &how.shape, how.written);
    let mut wanted = vec![0xab; bytes];
    twin::to_bytes(how, from, &mut wanted).unwrap();
    let (source, target) = (upload(stream, from), DeviceBuffer::new(stream.context(), bytes).unwrap());
    stream.fill(&target, 0..bytes, 0xab).unwrap();
    stream.to_bytes(how, &source, 0, &target, 0).unwrap();
    let got = download(stream, &target);
    assert!(
        got == wanted,
        "{how:?}: first difference at {:?}",
        got.iter().zip(&wanted).position(|(a, b)| a != b)
    );
}

#[test]
fn bytes_become_the_same_floats_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let mut count = 0;
    for shape in shapes() {
        for from in layouts(shape) {
            for to in layouts(shape) {
                for float in FLOATS {
                    let affine = affines()[count % 4];
                    to_floats_once(&stream, &ToFloats { shape, from, to, float, affine }, count as u64);
                    count += 1;
                }
            }
        }
    }
    println!("{count} conversions, bit for bit");
}

#[test]
fn floats_become_the_same_bytes_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let mut count = 0;
    for shape in shapes() {
        for from in layouts(shape) {
            for float in FLOATS {
                for written in if shape.channels == 3 { 3..=4 } else { shape.channels..=shape.channels } {
                    let dense = Strides::hwc(Shape { channels: written, ..shape });
                    let row = dense.row.next_multiple_of(16);
                    let padded = Strides { image: row * shape.height, row, ..dense };
                    let to = if count % 4 < 2 { dense } else { padded };
                    // Random bits: every kind of number, NaN and infinity included.
                    let bytes = extent(&from, &shape, shape.channels) * float.size();
                    let affine = [Affine::SAME, Affine::FROM_UNIT][count % 2];
                    to_bytes_once(
                        &stream,
                        &ToBytes { shape, from, to, float, written, affine },
                        &pattern(bytes, count as u64),
                    );
                    count += 1;
                }
            }
        }
    }
    println!("{count} conversions, bit for bit");
}

/// Every half there is, and floats around each boundary.
#[test]
fn special_numbers_are_treated_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(|h| h.to_le_bytes()).collect();
    let shape = Shape { images: 1, height: 256, width: 256, channels: 1 };
    let strides = Strides::hwc(shape);
    for affine in [Affine::SAME, Affine::FROM_UNIT, affines()[3]] {
        for float in [Float::F16, Float::BF16] {
            to_bytes_once(
                &stream,
                &ToBytes { shape, from: strides, to: strides, float, written: 1, affine },
                &halves,
            );
        }
    }
    let mut values = vec![
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        f32::MIN_POSITIVE,
        f32::MAX,
    ];
    for k in 0..=256 {
        let middle = k as f32 - 0.5;
        values.extend([middle.next_down(), middle, middle.next_up(), k as f32]);
    }
    let shape = Shape { images: 1, height: 1, width: values.len(), channels: 1 };
    let strides = Strides::hwc(shape);
    let from: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    to_bytes_once(
        &stream,
        &ToBytes { shape, from: strides, to: strides, float: Float::F32, written: 1, affine: Affine::SAME },
        &from,
    );
    // Biases walk the whole range of floats: rounding to f16 and bf16 everywhere.
    let shape = Shape { images: 1, height: 1, width: 16, channels: 4 };
    let strides = Strides::hwc(shape);
    for i in 0..400u32 {
        let bits = |k: u32| f32::from_bits((i * 4 + k).wrapping_mul(2_654_435_761));
        let affine = Affine { scale: [0.0, 1e-7, 1e-3, 1.0], bias: [bits(0), bits(1), bits(2), bits(3)] };
        for float in FLOATS {
            to_floats_once(
                &stream,
                &ToFloats { shape, from: strides, to: strides, float, affine },
                u64::from(i),
            );
        }
    }
}

#[test]
fn wrong_places_are_refused() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let shape = Shape { images: 1, height: 4, width: 4, channels: 3 };
    let (from, to) = (Strides::hwc(shape), Strides::chw(shape));
    let how = ToFloats { shape, from, to, float: Float::F32, affine: Affine::TO_UNIT };
    let (a, b) = (DeviceBuffer::new(&context, 48).unwrap(), DeviceBuffer::new(&context, 48 * 4 + 8).unwrap());
    stream.to_floats(&how, &a, 0, &b, 8).unwrap();
    let refused = |r: framelane_cuda::Result<()>| assert_eq!(r.unwrap_err().kind(), Kind::Argument);
    refused(stream.to_floats(&how, &a, 1, &b, 0));
    refused(stream.to_floats(&how, &a, 0, &b, 12));
    refused(stream.to_floats(&how, &a, 0, &b, 2));
    refused(stream.to_floats(&how, &b, 0, &b, 8));
    refused(stream.to_floats(&ToFloats { shape: Shape { channels: 5, ..shape }, ..how }, &a, 0, &b, 0));
    refused(stream.to_floats(&ToFloats { to: Strides { row: 0, ..to }, ..how }, &a, 0, &b, 0));
    stream.to_floats(&ToFloats { shape: Shape { images: 0, ..shape }, ..how }, &a, 48, &b, 0).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn checksums_and_patterns_equal_the_hosts() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let data = DeviceBuffer::new(&context, 5_000_100).unwrap();
    let sum = DeviceBuffer::new(&context, 16).unwrap();
    for (start, bytes) in [(0, 0), (0, 1), (0, 8), (3, 17), (8, 4096), (1, 5_000_000), (16, 5_000_001)] {
        stream.pattern(&data, start..start + bytes, 42).unwrap();
        stream.checksum(&data, start..start + bytes, &sum, 8).unwrap();
        let got = u64::from_le_bytes(download(&stream, &sum)[8..].try_into().unwrap());
        let wanted = pattern(bytes, 42);
        assert_eq!(got, twin::checksum(&wanted), "{bytes} bytes from {start}");
        assert!(download(&stream, &data)[start..start + bytes] == wanted);
    }
}

#[test]
fn a_delay_takes_its_time() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let timed = EventOptions { timed: true, ..Default::default() };
    for milliseconds in [1, 10, 50] {
        let start = stream.record_with(timed).unwrap();
        stream.spin(Duration::from_millis(milliseconds)).unwrap();
        let end = stream.record_with(timed).unwrap();
        end.synchronize().unwrap();
        let took = end.since(&start).unwrap().unwrap().as_secs_f64() * 1e3;
        assert!(
            took > milliseconds as f64 * 0.95 && took < milliseconds as f64 + 100.0,
            "{milliseconds}: {took}"
        );
    }
}

#[test]
fn ptx_that_does_not_compile_is_explained() {
    let Some(context) = gpu() else { return };
    let bad =
        Module::from_ptx(&context, ".version 8.0\n.target sm_52\n.address_size 64\nnonsense").unwrap_err();
    assert_eq!(bad.kind(), Kind::Argument, "{bad}");
    println!("{bad}");
    let newer = Module::from_ptx(&context, ".version 99.0\n.target sm_52\n.address_size 64\n").unwrap_err();
    assert!(matches!(newer.kind(), Kind::OldDriver | Kind::Argument), "{newer}");
    println!("{newer}");
    let good = Module::from_ptx(&context, crate::lost::STORE).unwrap();
    assert_eq!(good.function("none").unwrap_err().kind(), Kind::Argument);
    assert_eq!(good.function("store").unwrap().name(), "store");
}
