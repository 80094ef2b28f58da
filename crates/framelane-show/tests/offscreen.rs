//! What the view draws, pixel by pixel, against the same made on the CPU.

mod common;

use framelane::ErrorKind;
use framelane::frame::{FrameMeta, ImageSize};
use framelane_show::{Frame, Offscreen};

const BACKGROUND: [u8; 3] = [22, 24, 29];
/// GPUs interpolate with weights of 8 bits: two steps of a channel.
const TOLERANCE: u8 = 2;

/// The adapter; without one the test is skipped.
fn offscreen() -> Option<Offscreen> {
    match Offscreen::new() {
        Ok(offscreen) => Some(offscreen),
        Err(why) => {
            common::skip(why);
            None
        }
    }
}

fn size(width: usize, height: usize) -> ImageSize {
    ImageSize { width, height }
}

/// Smooth enough to be interpolated, different in every channel and corner.
fn picture(size: ImageSize, seed: usize) -> Vec<u8> {
    let wave = |x: usize, y: usize, c: usize| {
        let phase = (x * (c + 1)) as f64 * 0.11 + (y * (3 - c)) as f64 * 0.07 + seed as f64;
        (127.5 + 127.5 * phase.sin()) as u8
    };
    let pixels = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (x, y)));
    pixels.flat_map(|(x, y)| (0..3).map(move |c| wave(x, y, c))).collect()
}

/// Left, top, width and height of a fitted picture.
fn fit(picture: ImageSize, target: ImageSize) -> [usize; 4] {
    let scale =
        (target.width as f64 / picture.width as f64).min(target.height as f64 / picture.height as f64);
    let side = |n: usize, most: usize| ((n as f64 * scale).round() as usize).clamp(1, most);
    let (w, h) = (side(picture.width, target.width), side(picture.height, target.height));
    [(target.width - w) / 2, (target.height - h) / 2, w, h]
}

/// Linear interpolation, edges repeated. `u` and `v` are in texels.
fn sample(rgb: &[u8], size: ImageSize, u: f64, v: f64) -> [f64; 3] {
    let (u, v) = (u - 0.5, v - 0.5);
    let texel = |x: f64, y: f64, c: usize| {
        let x = x.clamp(0.0, (size.width - 1) as f64) as usize;
        let y = y.clamp(0.0, (size.height - 1) as f64) as usize;
        f64::from(rgb[(y * size.width + x) * 3 + c])
    };
    let (x, y, fx, fy) = (u.floor(), v.floor(), u - u.floor(), v - v.floor());
    std::array::from_fn(|c| {
        let top = texel(x, y, c) * (1.0 - fx) + texel(x + 1.0, y, c) * fx;
        let bottom = texel(x, y + 1.0, c) * (1.0 - fx) + texel(x + 1.0, y + 1.0, c) * fx;
        top * (1.0 - fy) + bottom * fy
    })
}

/// One picture scaled to `w` × `h`: the mean of a grid of samples below each pixel.
fn scaled(rgb: &[u8], from: ImageSize, w: usize, h: usize, x: usize, y: usize) -> [u8; 3] {
    let taps = |n: usize, shown: usize| ((n as f64 / shown as f64 - 0.01).ceil().clamp(1.0, 8.0)) as usize;
    let (tx, ty) = (taps(from.width, w), taps(from.height, h));
    let mut sum = [0.0; 3];
    for j in 0..ty {
        for i in 0..tx {
            let u = (x as f64 + (i as f64 + 0.5) / tx as f64) / w as f64 * from.width as f64;
            let v = (y as f64 + (j as f64 + 0.5) / ty as f64) / h as f64 * from.height as f64;
            sum.iter_mut().zip(sample(rgb, from, u, v)).for_each(|(sum, s)| *sum += s);
        }
    }
    sum.map(|s| (s / (tx * ty) as f64).round() as u8)
}

fn expected(
    after: (&[u8], ImageSize),
    before: Option<(&[u8], ImageSize, f32)>,
    target: ImageSize,
) -> Vec<u8> {
    let [left, top, w, h] = fit(after.1, target);
    let divider = before.map_or(0, |(_, _, split)| left + (split * w as f32).round() as usize);
    let mut out = Vec::with_capacity(target.bytes());
    for y in 0..target.height {
        for x in 0..target.width {
            let inside = (left..left + w).contains(&x) && (top..top + h).contains(&y);
            out.extend(match before {
                _ if !inside => BACKGROUND,
                Some((rgb, size, _)) if x < divider => scaled(rgb, size, w, h, x - left, y - top),
                _ => scaled(after.0, after.1, w, h, x - left, y - top),
            });
        }
    }
    out
}

fn assert_close(what: &str, got: &[u8], want: &[u8], tolerance: u8) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(a, b)| a.abs_diff(*b)).enumerate().max_by_key(|&(_, d)| d);
    let (at, off) = worst.expect("not empty");
    assert!(off <= tolerance, "{what}: channel {at} is {} instead of {}", got[at], want[at]);
}

#[test]
fn at_its_own_size_every_number_is_unchanged() {
    let Some(mut offscreen) = offscreen() else { return };
    let meta = FrameMeta::new("test", 0);
    // All 256 greys, all 256 of each channel.
    let ramp: Vec<u8> = (0..4 * 256)
        .flat_map(|i| {
            let n = (i % 256) as u8;
            [[n; 3], [n, 0, 0], [0, n, 0], [0, 0, n]][i / 256]
        })
        .collect();
    let shape = size(256, 4);
    let got =
        offscreen.render(Frame { rgb: &ramp, size: shape, meta: &meta, before: None }, shape, None).unwrap();
    assert_close("ramps", &got, &ramp, 0);
    for (w, h) in [(1, 1), (1, 7), (7, 1), (3, 2), (63, 65), (641, 359)] {
        let rgb = picture(size(w, h), w);
        let frame = Frame { rgb: &rgb, size: size(w, h), meta: &meta, before: None };
        let got = offscreen.render(frame, size(w, h), None).unwrap();
        assert_close(&format!("{w}×{h}"), &got, &rgb, 0);
    }
}

#[test]
fn fitted_and_letterboxed() {
    let Some(mut offscreen) = offscreen() else { return };
    let meta = FrameMeta::new("test", 0);
    // Magnified, made smaller (up to ten times, beyond the eight samples), wide, tall, odd.
    let cases = [
        ((64, 36), (200, 200)),
        ((64, 36), (128, 72)),
        ((37, 53), (301, 111)),
        ((200, 100), (50, 99)),
        ((333, 222), (100, 100)),
        ((640, 64), (64, 33)),
        ((5, 90), (90, 45)),
        ((2, 2), (97, 31)),
    ];
    for ((w, h), (tw, th)) in cases {
        let rgb = picture(size(w, h), h);
        let frame = Frame { rgb: &rgb, size: size(w, h), meta: &meta, before: None };
        let got = offscreen.render(frame, size(tw, th), None).unwrap();
        let want = expected((&rgb, size(w, h)), None, size(tw, th));
        assert_close(&format!("{w}×{h} in {tw}×{th}"), &got, &want, TOLERANCE);
    }
}

#[test]
fn split_at_the_divider() {
    let Some(mut offscreen) = offscreen() else { return };
    let meta = FrameMeta::new("test", 0);
    let (after, before) = (picture(size(128, 72), 1), picture(size(64, 36), 5));
    let frame =
        Frame { rgb: &after, size: size(128, 72), meta: &meta, before: Some((&before, size(64, 36))) };
    for target in [size(128, 72), size(131, 201), size(60, 60)] {
        for split in [0.0, 0.25, 0.3333, 0.5, 1.0] {
            let got = offscreen.render(frame, target, Some(split)).unwrap();
            let want = expected((&after, size(128, 72)), Some((&before, size(64, 36), split)), target);
            assert_close(&format!("{split} in {target}"), &got, &want, TOLERANCE);
        }
    }
    // No divider, no picture before; and a divider without one is none.
    let plain = offscreen.render(frame, size(128, 72), None).unwrap();
    assert_close("no divider", &plain, &after, 0);
    let alone = Frame { before: None, ..frame };
    assert_close("nothing before", &offscreen.render(alone, size(128, 72), Some(0.5)).unwrap(), &after, 0);
}

#[test]
fn sizes_change_from_frame_to_frame() {
    let Some(mut offscreen) = offscreen() else { return };
    let meta = FrameMeta::new("test", 0);
    for n in 1..40 {
        let (w, h) = (1 + n * 7 % 50, 1 + n * 11 % 40);
        let (rgb, before) = (picture(size(w, h), n), picture(size(h, w), n + 1));
        let before = (n % 3 == 0).then_some((before.as_slice(), size(h, w)));
        let frame = Frame { rgb: &rgb, size: size(w, h), meta: &meta, before };
        assert_close(&format!("{w}×{h}"), &offscreen.render(frame, size(w, h), Some(0.0)).unwrap(), &rgb, 0);
    }
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let Some(mut offscreen) = offscreen() else { return };
    let meta = FrameMeta::new("test", 3);
    let short = Frame { rgb: &[0; 5], size: size(2, 1), meta: &meta, before: None };
    let error = offscreen.render(short, size(2, 1), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    let wide = size(1 << 20, 1);
    let rgb = vec![0; wide.bytes()];
    let frame = Frame { rgb: &rgb, size: wide, meta: &meta, before: None };
    let error = offscreen.render(frame, size(4, 4), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("1048576×1 pixels cannot be shown"), "{error}");
    // The device is as good as before.
    let rgb = picture(size(4, 4), 0);
    let frame = Frame { rgb: &rgb, size: size(4, 4), meta: &meta, before: None };
    assert_close("after errors", &offscreen.render(frame, size(4, 4), None).unwrap(), &rgb, 0);
}
