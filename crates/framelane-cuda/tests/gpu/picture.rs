//! The kernels that make pictures for a display against their host twins.

use crate::{download, gpu, pattern, stream, upload};
use framelane_cuda::kernels::{Colours, Element, Matrix, Nv12ToPicture, Order, ToPicture, twin};
use framelane_cuda::{DeviceBuffer, Kind, Stream};

const ELEMENTS: [Element; 4] = [Element::U8, Element::F16, Element::BF16, Element::F32];
const COLOURS: [Colours; 3] = [Colours::Grey, Colours::Viridis, Colours::Turbo];
const RANGES: [(f32, f32); 6] =
    [(0.0, 1.0), (0.0, 255.0), (1.0, -1.0), (-3e38, 3e38), (200.0, 50.5), (-1e-30, 1e-30)];
const SIZES: [(usize, usize); 8] =
    [(1, 1), (3, 5), (33, 257), (7, 1000), (64, 64), (2, 14), (5, 4), (1, 1027)];

/// What lies around the target and between its rows.
const GUARD: u8 = 0xab;

/// Dense, 0 to 1.
fn dense((height, width): (usize, usize), channels: usize, element: Element) -> ToPicture {
    ToPicture {
        height,
        width,
        channels,
        element,
        row: width * channels,
        pixel: channels,
        channel: 1,
        low: 0.0,
        high: 1.0,
        colours: Colours::Grey,
        order: Order::Rgb,
        mark: false,
        to_row: width * 4,
    }
}

/// Row, pixel and channel strides: channels inside or in planes, without gaps, with rows on whole words (which
/// the fast kernels want), and with gaps of any size.
fn layouts(size: (usize, usize), channels: usize) -> [[usize; 3]; 7] {
    let (height, width) = size;
    let (row, wide) = (width * channels, width.next_multiple_of(4));
    [
        [row, channels, 1],
        [row.next_multiple_of(4), channels, 1],
        [(channels + 2) * width + 5, channels + 2, 1],
        [width, 1, width * height],
        [wide, 1, wide * height + 8],
        [width + 3, 1, (width + 3) * height + 1],
        // All rows are one; columns lie apart, channels in between.
        [0, 2 * channels, 2],
    ]
}

fn from_bytes(how: &ToPicture) -> usize {
    let last = (how.height - 1) * how.row + (how.width - 1) * how.pixel;
    (last + (how.channels.min(3) - 1) * how.channel + 1) * how.element.size()
}

fn same(got: &[u8], wanted: &[u8], what: &dyn std::fmt::Debug) {
    let first = got.iter().zip(wanted).position(|(a, b)| a != b);
    assert!(got == wanted, "{what:?}: first difference at {first:?}");
}

/// `from` begins with what is not the picture's: `from_at` bytes.
fn once(stream: &Stream, how: &ToPicture, from: &[u8], from_at: usize, to_at: usize) {
    let mut wanted = vec![GUARD; to_at + (how.height - 1) * how.to_row + how.width * 4 + 32];
    twin::to_picture(how, &from[from_at..], &mut wanted[to_at..]).unwrap();
    let (source, target) = (upload(stream, from), DeviceBuffer::new(stream.context(), wanted.len()).unwrap());
    stream.fill(&target, 0..wanted.len(), GUARD).unwrap();
    stream.to_picture(how, &source, from_at, &target, to_at).unwrap();
    same(&download(stream, &target), &wanted, &(how, from_at, to_at));
}

/// Bits at random: every kind of number, NaN and infinity included. All else is dealt out by the count.
#[test]
fn numbers_become_the_same_pictures_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let mut count = 0;
    for size in SIZES {
        for channels in [1, 3, 4] {
            for element in ELEMENTS {
                for [row, pixel, channel] in layouts(size, channels) {
                    for _ in 0..6 {
                        let dice = pattern(8, count);
                        let pick = |i: usize, n: usize| usize::from(dice[i]) % n;
                        let (low, high) = RANGES[pick(0, RANGES.len())];
                        let to_row = size.1 * 4;
                        let how = ToPicture {
                            row,
                            pixel,
                            channel,
                            low,
                            high,
                            colours: COLOURS[pick(1, 3)],
                            order: [Order::Rgb, Order::Bgr][pick(2, 2)],
                            mark: pick(3, 2) == 1,
                            to_row: [
                                to_row,
                                to_row.next_multiple_of(16),
                                to_row + 4,
                                (to_row + 31) / 16 * 16,
                            ][pick(4, 4)],
                            ..dense(size, channels, element)
                        };
                        // Mostly where the fast kernels are used, if the strides allow it.
                        let from_at = element.size() * [0, 4, 8, 1][pick(5, 4)];
                        let to_at = [0, 16, 64, 4][pick(6, 4)];
                        once(&stream, &how, &pattern(from_at + from_bytes(&how), count), from_at, to_at);
                        count += 1;
                    }
                }
            }
        }
    }
    println!("{count} pictures, bit for bit");
}

/// Numbers of ordinary size, with all that is chosen in each combination, both ways through the kernels.
#[test]
fn every_choice_is_the_same_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let size = (6, 52);
    let values = pattern(6 * 52 * 4, 3).into_iter().map(|b| f32::from(b) / 128.0 - 0.5);
    let values: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    for channels in [1, 3, 4] {
        for [row, pixel, channel] in [[52 * channels, channels, 1], [52, 1, 52 * 6]] {
            for colours in COLOURS {
                for order in [Order::Rgb, Order::Bgr] {
                    for mark in [false, true] {
                        for (low, high) in [(0.0, 1.0), (1.0, 0.0)] {
                            let dense = dense(size, channels, Element::F32);
                            let how =
                                ToPicture { row, pixel, channel, colours, order, mark, low, high, ..dense };
                            once(&stream, &how, &values, 0, 0);
                            once(&stream, &how, &values, 0, 4);
                        }
                    }
                }
            }
        }
    }
}

/// Every byte, every half, and floats around each boundary.
#[test]
fn special_numbers_are_shown_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(|h| h.to_le_bytes()).collect();
    let bytes: Vec<u8> = (0..=255).collect();
    let mut values =
        vec![f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-45, -1e-45, f32::MAX];
    values.extend([f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff), f32::MIN_POSITIVE, f32::MIN]);
    for k in 0..=256 {
        let middle = k as f32 - 0.5;
        values.extend([middle.next_down(), middle, middle.next_up(), k as f32, (k as f32).next_up()]);
    }
    let floats: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    for (low, high) in RANGES {
        for mark in [false, true] {
            for colours in COLOURS {
                for (size, element, from) in [
                    ((1, 256), Element::U8, &bytes),
                    ((256, 256), Element::F16, &halves),
                    ((256, 256), Element::BF16, &halves),
                    ((1, values.len()), Element::F32, &floats),
                ] {
                    let how = ToPicture { low, high, mark, colours, ..dense(size, 1, element) };
                    once(&stream, &how, from, 0, 0);
                    once(&stream, &how, from, 0, 4);
                }
            }
        }
    }
    let how = ToPicture { high: 255.0, mark: true, ..dense((1, 256), 1, Element::U8) };
    let target = DeviceBuffer::new(&context, 1024).unwrap();
    stream.to_picture(&how, &upload(&stream, &bytes), 0, &target, 0).unwrap();
    let grey: Vec<u8> = bytes.iter().flat_map(|b| [*b, *b, *b, 255]).collect();
    same(&download(&stream, &target), &grey, &"bytes stay what they are");
}

#[test]
fn a_large_picture_is_the_same_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let plane = 1080 * 1920;
    let how = ToPicture { row: 1920, pixel: 1, channel: plane, ..dense((1080, 1920), 3, Element::F32) };
    let values = pattern(plane * 3, 5).into_iter().map(|b| f32::from(b) / 250.0);
    let values: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    once(&stream, &how, &values, 0, 0);
}

#[test]
fn video_becomes_the_same_picture_as_on_the_host() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let mut count = 0;
    for (height, width) in SIZES.into_iter().chain([(2, 2), (64, 63), (1080, 1920)]) {
        for matrix in [Matrix::Bt601, Matrix::Bt709] {
            for full_range in [false, true] {
                for gap in [0, 1, 12] {
                    let (y_row, chroma_row) = (width + gap, width.div_ceil(2) * 2 + 2 * gap);
                    let chroma_at = y_row * height + gap;
                    let to_row = width * 4 + gap * 4;
                    let how = Nv12ToPicture {
                        height,
                        width,
                        y_row,
                        chroma_at,
                        chroma_row,
                        matrix,
                        full_range,
                        to_row,
                    };
                    let rows = height.div_ceil(2);
                    let bytes = chroma_at + (rows - 1) * chroma_row + width.div_ceil(2) * 2;
                    let from = pattern(gap + bytes, count);
                    let mut wanted = vec![GUARD; 4 * gap + (height - 1) * to_row + width * 4 + 32];
                    twin::nv12_to_picture(&how, &from[gap..], &mut wanted[4 * gap..]).unwrap();
                    let source = upload(&stream, &from);
                    let target = DeviceBuffer::new(&context, wanted.len()).unwrap();
                    stream.fill(&target, 0..wanted.len(), GUARD).unwrap();
                    stream.nv12_to_picture(&how, &source, gap, &target, 4 * gap).unwrap();
                    same(&download(&stream, &target), &wanted, &how);
                    count += 1;
                }
            }
        }
    }
    println!("{count} pictures, bit for bit");
}

#[test]
fn wrong_ends_are_refused() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let how = dense((4, 4), 3, Element::F32);
    let (a, b) = (DeviceBuffer::new(&context, 192).unwrap(), DeviceBuffer::new(&context, 512).unwrap());
    stream.to_picture(&how, &a, 0, &b, 8).unwrap();
    let refused = |r: framelane_cuda::Result<()>, sentence: &str| {
        let error = r.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Argument, sentence));
    };
    refused(stream.to_picture(&how, &a, 4, &b, 0), "bytes 4..196 lie outside a buffer of 192 bytes");
    refused(stream.to_picture(&how, &a, 0, &b, 452), "bytes 452..516 lie outside a buffer of 512 bytes");
    refused(
        stream.to_picture(&how, &a, 0, &b, usize::MAX),
        &format!("bytes {0}..{0} lie outside a buffer of 512 bytes", usize::MAX),
    );
    refused(stream.to_picture(&how, &b, 2, &a, 0), "byte 2 is not aligned for numbers of 4 bytes");
    refused(stream.to_picture(&how, &a, 0, &b, 2), "byte 2 is not aligned for numbers of 4 bytes");
    refused(stream.to_picture(&how, &b, 0, &b, 188), "the images and their target overlap");
    stream.to_picture(&how, &b, 0, &b, 192).unwrap();
    refused(
        stream.to_picture(&ToPicture { channels: 2, ..how }, &a, 0, &b, 0),
        "a picture has 1, 3 or 4 channels, not 2",
    );
    stream.to_picture(&ToPicture { height: 0, ..how }, &a, 192, &b, 0).unwrap();
    let video = Nv12ToPicture {
        height: 4,
        width: 4,
        y_row: 4,
        chroma_at: 16,
        chroma_row: 4,
        matrix: Matrix::Bt709,
        full_range: false,
        to_row: 16,
    };
    stream.nv12_to_picture(&video, &a, 168, &b, 0).unwrap();
    refused(
        stream.nv12_to_picture(&video, &a, 169, &b, 0),
        "bytes 169..193 lie outside a buffer of 192 bytes",
    );
    refused(stream.nv12_to_picture(&video, &a, 0, &b, 1), "byte 1 is not aligned for numbers of 4 bytes");
    refused(stream.nv12_to_picture(&video, &b, 63, &b, 0), "the images and their target overlap");
    stream.nv12_to_picture(&Nv12ToPicture { width: 0, ..video }, &a, 192, &b, 0).unwrap();
    stream.synchronize().unwrap();
}
