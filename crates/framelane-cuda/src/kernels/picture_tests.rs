//! Pictures against values worked out by hand, and a reference in double precision.

use super::*;
use crate::kernels::{Colours, Matrix, twin};

const BLACK: [u8; 4] = [0, 0, 0, 255];
const WHITE: [u8; 4] = [255; 4];

fn grey(byte: u8) -> [u8; 4] {
    [byte, byte, byte, 255]
}

/// One row of one channel of f32.
fn row(width: usize, low: f32, high: f32) -> ToPicture {
    ToPicture {
        height: 1,
        width,
        channels: 1,
        element: Element::F32,
        row: width,
        pixel: 1,
        channel: width,
        low,
        high,
        colours: Colours::Grey,
        order: Order::Rgb,
        mark: false,
        to_row: width * 4,
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn shown(how: &ToPicture, from: &[u8]) -> Vec<[u8; 4]> {
    let mut to = vec![7; (how.height - 1) * how.to_row + how.width * 4];
    to_picture(how, from, &mut to).unwrap();
    to.chunks_exact(4).map(|p| [p[0], p[1], p[2], p[3]]).collect()
}

#[test]
fn a_range_is_spread_over_all_levels() {
    let values = [-1.0, 1.0, 2.0, 3.0, 4.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let from = bytes(&values);
    // 2.0 is 127.5: to the even one.
    assert_eq!(shown(&row(8, 1.0, 3.0), &from), [0, 0, 128, 255, 255, 0, 255, 0].map(grey));
    assert_eq!(shown(&row(8, 3.0, 1.0), &from), [255, 255, 128, 0, 0, 0, 0, 255].map(grey));
    let small = bytes(&[1e-45, -1e-45, -0.0, 0.5, 1.5, 254.5]);
    assert_eq!(shown(&row(6, 0.0, 255.0), &small), [0, 0, 0, 0, 2, 254].map(grey));
    // The widest range there is.
    let wide = bytes(&[f32::MIN, 0.0, f32::MAX]);
    assert_eq!(shown(&row(3, f32::MIN, f32::MAX), &wide), [0, 128, 255].map(grey));
}

#[test]
fn what_cannot_be_shown_is_marked() {
    let (magenta, red, blue) = ([255, 0, 255, 255], [255, 0, 0, 255], [0, 0, 255, 255]);
    let beyond = [0f32.next_down(), 0.0, 1.0, 1f32.next_up(), f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let mut how = ToPicture { mark: true, ..row(7, 0.0, 1.0) };
    assert_eq!(shown(&how, &bytes(&beyond)), [blue, BLACK, WHITE, red, magenta, red, blue]);
    (how.low, how.high) = (1.0, 0.0);
    assert_eq!(shown(&how, &bytes(&beyond)), [red, WHITE, BLACK, blue, magenta, blue, red]);
    // Of several in one pixel: magenta before red before blue; the fourth channel is not looked at.
    let four =
        [[0.0, 1.0, 0.0, f32::NAN], [2.0, -1.0, f32::NAN, 0.0], [-1.0, 0.5, 2.0, 0.0], [0.0, 0.5, -1.0, 9.0]];
    let how = ToPicture { channels: 4, pixel: 4, channel: 1, mark: true, ..row(4, 0.0, 1.0) };
    assert_eq!(shown(&how, &bytes(four.as_flattened())), [[0, 255, 0, 255], magenta, red, blue]);
    let how = ToPicture { mark: false, ..how };
    assert_eq!(
        shown(&how, &bytes(four.as_flattened())),
        [[0, 255, 0, 255], [255, 0, 0, 255], [0, 128, 255, 255], [0, 128, 0, 255]]
    );
}

#[test]
fn layouts_and_orders_are_followed() {
    // Two rows of two pixels with colours 10 r + c.
    let hwc = [11, 12, 13, 21, 22, 23, 31, 32, 33, 41, 42, 43];
    let chw = [11, 21, 31, 41, 12, 22, 32, 42, 13, 23, 33, 43];
    let how = ToPicture {
        height: 2,
        channels: 3,
        element: Element::U8,
        row: 6,
        pixel: 3,
        channel: 1,
        ..row(2, 0.0, 255.0)
    };
    let rgb = [[11, 12, 13, 255], [21, 22, 23, 255], [31, 32, 33, 255], [41, 42, 43, 255]];
    assert_eq!(shown(&how, &hwc), rgb);
    assert_eq!(shown(&ToPicture { row: 2, pixel: 1, channel: 4, ..how }, &chw), rgb);
    let bgr = ToPicture { order: Order::Bgr, ..how };
    assert_eq!(shown(&bgr, &hwc), rgb.map(|[r, g, b, a]| [b, g, r, a]));
    // Padding of the target stays.
    let mut to = [7; 20];
    to_picture(&ToPicture { to_row: 12, ..how }, &hwc, &mut to).unwrap();
    assert_eq!(to, [11, 12, 13, 255, 21, 22, 23, 255, 7, 7, 7, 7, 31, 32, 33, 255, 41, 42, 43, 255]);
}

#[test]
fn bytes_stay_what_they_are() {
    let all: Vec<u8> = (0..=255).collect();
    let how = ToPicture { element: Element::U8, mark: true, ..row(256, 0.0, 255.0) };
    assert_eq!(shown(&how, &all), all.iter().map(|b| grey(*b)).collect::<Vec<_>>());
}

#[test]
fn halves_are_read_as_what_they_are() {
    // 0, 1, 0.5, −2 in each.
    let (half, brain) = ([0u16, 0x3c00, 0x3800, 0xc000], [0u16, 0x3f80, 0x3f00, 0xc000]);
    for (element, bits) in [(Element::F16, half), (Element::BF16, brain)] {
        let from = bits.map(u16::to_le_bytes);
        let how = ToPicture { element, ..row(4, 0.0, 1.0) };
        assert_eq!(shown(&how, from.as_flattened()), [0, 255, 128, 0].map(grey));
    }
}

#[test]
fn maps_colour_one_channel_only() {
    let from = bytes(&[-1.0, 0.0, 128.0, 255.0, f32::NAN]);
    let how = ToPicture { colours: Colours::Viridis, ..row(5, 0.0, 255.0) };
    let [first, last] = [[68, 1, 84, 255], [253, 231, 37, 255]];
    assert_eq!(shown(&how, &from), [first, first, [33, 145, 140, 255], last, first]);
    let how = ToPicture { colours: Colours::Turbo, ..how };
    let [first, last] = [[48, 18, 59, 255], [122, 4, 3, 255]];
    assert_eq!(shown(&how, &from), [first, first, [164, 252, 60, 255], last, first]);
    let three = ToPicture { channels: 3, width: 1, pixel: 3, channel: 1, ..how };
    assert_eq!(shown(&three, &from), [[0, 0, 128, 255]]);
}

/// Double precision gives the same level, or that beside it where the exact value is all but halfway.
#[test]
fn rounding_in_single_precision_moves_only_what_is_halfway() {
    let mut random = vec![0; 4 * 4096];
    for (seed, (low, high)) in [(0.0, 1.0), (-1.0, 1.0), (2.5, -0.1), (-300.0, 1e6)].into_iter().enumerate() {
        twin::pattern(&mut random, seed as u64);
        let numbers = random.as_chunks::<4>().0;
        let unit = numbers.iter().map(|n| u32::from_le_bytes(*n) as f32 / u32::MAX as f32 * 1.2 - 0.1);
        let values: Vec<f32> = unit.map(|u| low + (high - low) * u).collect();
        for (v, pixel) in values.iter().zip(shown(&row(values.len(), low, high), &bytes(&values))) {
            let [v, low, high] = [*v, low, high].map(f64::from);
            let exact = ((v - low) / (high - low) * 255.0).clamp(0.0, 255.0);
            assert!((exact - f64::from(pixel[0])).abs() <= 0.5001, "{v}: {exact}, {pixel:?}");
        }
    }
}

/// The sentence of a refusal.
fn refused(how: &ToPicture) -> String {
    let error = to_picture(how, &[0; 4096], &mut [0; 4096]).unwrap_err();
    assert_eq!((error.kind(), error.call()), (crate::Kind::Argument, CALL));
    error.to_string()
}

#[test]
fn what_makes_no_sense_is_refused() {
    let good = ToPicture { height: 4, channels: 3, ..row(8, 0.0, 1.0) };
    to_picture(&good, &[0; 4096], &mut [0; 4096]).unwrap();
    let said = |how: ToPicture, sentence: &str| assert_eq!(refused(&how), sentence);
    for channels in [0, 2, 5] {
        let sentence = format!("a picture has 1, 3 or 4 channels, not {channels}");
        said(ToPicture { channels, ..good }, &sentence);
    }
    said(ToPicture { low: f32::NAN, ..good }, "the range from NaN to 1 has no end: both ends must be finite");
    said(
        ToPicture { high: f32::INFINITY, ..good },
        "the range from 0 to inf has no end: both ends must be finite",
    );
    said(ToPicture { low: 1.0, ..good }, "the range from 1 to 1 is empty: its ends must differ");
    said(ToPicture { low: -0.0, high: 0.0, ..good }, "the range from -0 to 0 is empty: its ends must differ");
    assert!(
        refused(&ToPicture { high: 1e-40, ..good }).ends_with("is too narrow to be spread over 255 steps")
    );
    for to_row in [0, 28, 33] {
        let sentence =
            format!("rows of 8 pixels cannot be {to_row} bytes apart: a multiple of 4, at least 32");
        said(ToPicture { to_row, ..good }, &sentence);
    }
    let far = "the strides reach beyond the address space";
    said(ToPicture { row: usize::MAX / 2, ..good }, far);
    said(ToPicture { pixel: usize::MAX / 8, ..good }, far);
    said(ToPicture { channel: usize::MAX / 4, ..good }, far);
    said(ToPicture { to_row: usize::MAX / 2 - 3, ..good }, far);
    said(ToPicture { width: usize::MAX, pixel: 0, to_row: 0, ..good }, far);
    said(ToPicture { row: 1000, ..good }, "bytes 0..12096 lie outside a buffer of 4096 bytes");
    said(ToPicture { to_row: 2000, ..good }, "bytes 0..6032 lie outside a buffer of 4096 bytes");
}

#[test]
fn an_empty_picture_is_no_mistake() {
    for (height, width) in [(0, 0), (0, 5), (5, 0)] {
        to_picture(&ToPicture { height, width, to_row: 0, ..row(5, 0.0, 1.0) }, &[], &mut []).unwrap();
        nv12_to_picture(
            &Nv12ToPicture { height, width, to_row: 0, ..nv12(Matrix::Bt601, true) },
            &[],
            &mut [],
        )
        .unwrap();
    }
}

/// One pixel; its differences come after its luma.
fn nv12(matrix: Matrix, full_range: bool) -> Nv12ToPicture {
    Nv12ToPicture {
        height: 1,
        width: 1,
        y_row: 1,
        chroma_at: 1,
        chroma_row: 2,
        matrix,
        full_range,
        to_row: 4,
    }
}

const KINDS: [(Matrix, bool); 4] =
    [(Matrix::Bt601, false), (Matrix::Bt601, true), (Matrix::Bt709, false), (Matrix::Bt709, true)];

fn one(matrix: Matrix, full_range: bool, codes: [u8; 3]) -> [u8; 4] {
    let mut to = [7; 4];
    nv12_to_picture(&nv12(matrix, full_range), &codes, &mut to).unwrap();
    to
}

/// Codes by the formulas of the two recommendations, worked out by hand.
#[test]
fn known_colours_of_video_come_out() {
    for (matrix, full) in KINDS {
        let (black, grey, white) = if full { (0, 128, 255) } else { (16, 126, 235) };
        assert_eq!(one(matrix, full, [black, 128, 128]), BLACK);
        assert_eq!(one(matrix, full, [grey, 128, 128]), [128, 128, 128, 255]);
        assert_eq!(one(matrix, full, [white, 128, 128]), WHITE);
    }
    for (matrix, full, red, green, blue) in [
        (Matrix::Bt601, false, [81, 90, 240], [145, 54, 34], [41, 240, 110]),
        (Matrix::Bt601, true, [76, 85, 255], [150, 44, 21], [29, 255, 107]),
        (Matrix::Bt709, false, [63, 102, 240], [173, 42, 26], [32, 240, 118]),
        (Matrix::Bt709, true, [54, 99, 255], [182, 30, 12], [18, 255, 116]),
    ] {
        for (codes, want) in [(red, [255, 0, 0]), (green, [0, 255, 0]), (blue, [0, 0, 255])] {
            let got = one(matrix, full, codes);
            assert!(
                got[3] == 255 && got.iter().zip(want).all(|(g, w)| g.abs_diff(w) <= 1),
                "{got:?} {want:?}"
            );
        }
    }
}

/// The coefficients as books print them, and all codes against double precision.
#[test]
fn video_is_converted_as_exactly_as_bytes_can_be() {
    for ((matrix, full), book) in KINDS.into_iter().zip([
        [1.164_384, 1.596_027, 0.391_762, 0.812_968, 2.017_232],
        [1.0, 1.402, 0.344_136, 0.714_136, 1.772],
        [1.164_384, 1.792_741, 0.213_249, 0.532_909, 2.112_402],
        [1.0, 1.5748, 0.187_324, 0.468_124, 1.8556],
    ]) {
        let Coefficients { black, luma, red, green, blue } = nv12(matrix, full).coefficients();
        assert_eq!(black, if full { 0 } else { 16 });
        for (fixed, book) in [luma, red, green[0], green[1], blue].into_iter().zip(book) {
            assert!((f64::from(fixed) / 65536.0 - book).abs() < 1e-5, "{fixed} {book}");
        }
        let [y, rv, gu, gv, bu] = book;
        for codes in (0..=255).step_by(3).flat_map(|y| (0..=255).step_by(15).map(move |u| [y, u])) {
            for code in (0..=255u8).step_by(15) {
                let light = y * f64::from(i32::from(codes[0]) - black);
                let [u, v] = [codes[1], code].map(|d| f64::from(d) - 128.0);
                let exact = [light + rv * v, light - gu * u - gv * v, light + bu * u];
                let got = one(matrix, full, [codes[0], codes[1], code]);
                for (exact, got) in exact.into_iter().zip(got) {
                    assert!((exact.clamp(0.0, 255.0) - f64::from(got)).abs() < 0.51, "{exact} {got}");
                }
            }
        }
    }
}

/// 3×3: the last column and row have differences of their own.
#[test]
fn odd_sizes_have_their_last_differences() {
    let how = Nv12ToPicture {
        height: 3,
        width: 3,
        y_row: 4,
        chroma_at: 12,
        chroma_row: 6,
        to_row: 16,
        ..nv12(Matrix::Bt601, true)
    };
    let mut from = [0; 22];
    for (i, v) in [10, 20, 30, 99, 40, 50, 60, 99, 70, 80, 90, 99].into_iter().enumerate() {
        from[i] = v;
    }
    // Blue differences of 0 (none), 50, 100 and 150: 1.772 of each is added to blue.
    from[12..16].copy_from_slice(&[128, 128, 178, 128]);
    from[18..22].copy_from_slice(&[228, 128, 253, 128]);
    let mut to = [7; 44];
    nv12_to_picture(&how, &from, &mut to).unwrap();
    let blue: Vec<u8> = (0..9).map(|i| to[i / 3 * 16 + i % 3 * 4 + 2]).collect();
    assert_eq!(blue, [10, 20, 119, 40, 50, 149, 247, 255, 255]);
    assert_eq!((to[0], to[3], &to[12..16]), (10, 255, &[7; 4][..]));
    // Without the last byte the last differences are missing.
    assert!(nv12_to_picture(&how, &from[..21], &mut to).is_err());
}

#[test]
fn video_that_makes_no_sense_is_refused() {
    let good = Nv12ToPicture {
        height: 4,
        width: 7,
        y_row: 8,
        chroma_at: 32,
        chroma_row: 8,
        to_row: 28,
        ..nv12(Matrix::Bt709, false)
    };
    let (from, mut to) = ([0; 48], [0; 112]);
    nv12_to_picture(&good, &from, &mut to).unwrap();
    let mut said = |how: Nv12ToPicture, sentence: &str| {
        let error = nv12_to_picture(&how, &from, &mut to).unwrap_err();
        assert_eq!((error.kind(), error.call()), (crate::Kind::Argument, CALL));
        assert_eq!(error.to_string(), sentence);
    };
    said(Nv12ToPicture { y_row: 6, ..good }, "rows of 7 bytes of luma cannot be 6 bytes apart");
    said(Nv12ToPicture { chroma_row: 7, ..good }, "rows of 8 bytes of chroma cannot be 7 bytes apart");
    said(
        Nv12ToPicture { to_row: 30, ..good },
        "rows of 7 pixels cannot be 30 bytes apart: a multiple of 4, at least 28",
    );
    let far = "the strides reach beyond the address space";
    said(Nv12ToPicture { y_row: usize::MAX / 2, ..good }, far);
    said(Nv12ToPicture { chroma_at: usize::MAX - 8, ..good }, far);
    said(Nv12ToPicture { chroma_row: usize::MAX, ..good }, far);
    said(Nv12ToPicture { chroma_at: 33, ..good }, "bytes 0..49 lie outside a buffer of 48 bytes");
    said(Nv12ToPicture { y_row: 20, ..good }, "bytes 0..67 lie outside a buffer of 48 bytes");
    said(Nv12ToPicture { to_row: 32, ..good }, "bytes 0..124 lie outside a buffer of 112 bytes");
}
