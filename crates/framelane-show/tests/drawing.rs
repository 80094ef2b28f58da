//! What a display draws, pixel by pixel, against the same made on the CPU.

mod common;

use framelane::device::{Buffer, Device, Memory, Stream};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::{ErrorKind, Result, TensorView};
use framelane_show::{Display, Layout, PaneOptions, Picture, Seen, TensorPane, Zoom};
use std::sync::mpsc::channel;

const BACKGROUND: [u8; 3] = [22, 24, 29];
/// Adapters round as they like.
const TOLERANCE: u8 = 1;

/// A display with one pane for pictures of the host.
struct Canvas {
    display: Display,
    pane: TensorPane,
    device: Device,
    stream: Stream,
}

/// The canvas; without an adapter the test is skipped.
fn canvas() -> Option<Canvas> {
    let device = Device::host_checked();
    let mut display = common::opened(Display::offscreen(&device))?;
    let pane = display.pane("canvas", &device, &PaneOptions::default()).unwrap();
    let stream = device.stream("painter").unwrap();
    Some(Canvas { display, pane, device, stream })
}

type Rgb<'a> = (&'a [u8], ImageSize);

impl Canvas {
    fn buffer(&self, rgb: &[u8]) -> Buffer {
        let buffer = self.device.alloc(rgb.len(), Memory::Pinned).unwrap();
        buffer.write_host().unwrap().copy_from_slice(rgb);
        buffer
    }

    fn show(&mut self, after: Rgb<'_>, before: Option<Rgb<'_>>) -> Result<()> {
        let (buffer, spec) = (self.buffer(after.0), after.1.spec());
        let mut picture = Picture::new(TensorView::new(&buffer, 0, &spec)?).layout(Layout::Hwc);
        let before = before.map(|(rgb, size)| (self.buffer(rgb), size.spec()));
        if let Some((buffer, spec)) = &before {
            picture = picture.before(Picture::new(TensorView::new(buffer, 0, spec)?).layout(Layout::Hwc));
        }
        let _ = self.pane.show(&self.stream, &picture, &FrameMeta::new("test", 0))?;
        self.stream.synchronize("the test's picture")
    }

    /// What is drawn for `after`, and left of the divider `before`.
    fn render(
        &mut self,
        after: Rgb<'_>,
        before: Option<Rgb<'_>>,
        target: ImageSize,
        split: Option<f32>,
    ) -> Vec<u8> {
        self.show(after, before).unwrap();
        self.display.set_split(split);
        assert_eq!(self.display.present(target).unwrap(), 1);
        self.display.read().unwrap().unwrap()
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
    let Some(mut canvas) = canvas() else { return };
    // All 256 greys, all 256 of each channel.
    let ramp: Vec<u8> = (0..4 * 256)
        .flat_map(|i| {
            let n = (i % 256) as u8;
            [[n; 3], [n, 0, 0], [0, n, 0], [0, 0, n]][i / 256]
        })
        .collect();
    let shape = size(256, 4);
    let got = canvas.render((&ramp, shape), None, shape, None);
    assert_close("ramps", &got, &ramp, 0);
    for (w, h) in [(1, 1), (1, 7), (7, 1), (3, 2), (63, 65), (641, 359)] {
        let rgb = picture(size(w, h), w);
        let got = canvas.render((&rgb, size(w, h)), None, size(w, h), None);
        assert_close(&format!("{w}×{h}"), &got, &rgb, 0);
    }
}

#[test]
fn fitted_and_letterboxed() {
    let Some(mut canvas) = canvas() else { return };
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
        let got = canvas.render((&rgb, size(w, h)), None, size(tw, th), None);
        let want = expected((&rgb, size(w, h)), None, size(tw, th));
        assert_close(&format!("{w}×{h} in {tw}×{th}"), &got, &want, TOLERANCE);
    }
}

#[test]
fn split_at_the_divider() {
    let Some(mut canvas) = canvas() else { return };
    let (after, before) = (picture(size(128, 72), 1), picture(size(64, 36), 5));
    let (after, before) = ((&*after, size(128, 72)), (&*before, size(64, 36)));
    for target in [size(128, 72), size(131, 201), size(60, 60)] {
        for split in [0.0, 0.25, 0.3333, 0.5, 1.0] {
            let got = canvas.render(after, Some(before), target, Some(split));
            let want = expected(after, Some((before.0, before.1, split)), target);
            assert_close(&format!("{split} in {target}"), &got, &want, TOLERANCE);
        }
    }
    // No divider, no picture before; and a divider without one is none.
    let plain = canvas.render(after, Some(before), after.1, None);
    assert_close("no divider", &plain, after.0, 0);
    assert_close("nothing before", &canvas.render(after, None, after.1, Some(0.5)), after.0, 0);
    // The picture alone has the divider, too, whatever the target's size.
    canvas.render(after, Some(before), size(31, 17), Some(0.5));
    let (alone, of) = canvas.display.read_pane(0).unwrap().unwrap();
    let want = expected(after, Some((before.0, before.1, 0.5)), after.1);
    assert_eq!(of, after.1);
    assert_close("alone", &alone, &want, TOLERANCE);
}

#[test]
fn sizes_change_from_frame_to_frame() {
    let Some(mut canvas) = canvas() else { return };
    for n in 1..40 {
        let (w, h) = (1 + n * 7 % 50, 1 + n * 11 % 40);
        let (rgb, before) = (picture(size(w, h), n), picture(size(h, w), n + 1));
        let before = (n % 3 == 0).then_some((before.as_slice(), size(h, w)));
        let got = canvas.render((&rgb, size(w, h)), before, size(w, h), Some(0.0));
        assert_close(&format!("{w}×{h}"), &got, &rgb, 0);
    }
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let Some(mut canvas) = canvas() else { return };
    let wide = size(1 << 20, 1);
    let large = vec![0; wide.bytes()];
    let small = picture(size(4, 4), 0);
    let small: Rgb<'_> = (&small, size(4, 4));
    for (after, before) in [((&*large, wide), None), (small, Some((&*large, wide)))] {
        let error = canvas.show(after, before).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("1048576×1 pixels cannot be shown"), "{error}");
    }
    let nowhere = canvas.display.set_zoom(7, Zoom::Fit).unwrap_err().to_string();
    assert_eq!(nowhere, "there is no pane 7 on a display of 1");
    // The device is as good as before.
    assert_close("after errors", &canvas.render(small, None, size(4, 4), None), small.0, 0);
}

/// Magnified by hand, each pixel is a square with sharp edges; at its own size the picture is exact wherever it lies, and
/// what lies beyond the target is not drawn.
#[test]
fn zoomed_to_the_pixel() {
    let Some(mut canvas) = canvas() else { return };
    let (shape, target) = (size(40, 30), size(33, 21));
    let rgb = picture(shape, 3);
    canvas.render((&rgb, shape), None, target, None);
    for (scale, x, y) in
        [(1.0, 20.0, 15.0), (1.0, 0.0, 30.0), (4.0, 20.0, 15.0), (7.0, 3.5, 29.0), (64.0, 12.5, 8.5)]
    {
        canvas.display.set_zoom(0, Zoom::At { scale, x, y }).unwrap();
        assert_eq!(canvas.display.present(target).unwrap(), 0, "no picture is new");
        let got = canvas.display.read().unwrap().unwrap();
        // The picture's corner, on a whole pixel.
        let left = (target.width as f64 / 2.0 - x * scale).round();
        let top = (target.height as f64 / 2.0 - y * scale).round();
        for (i, pixel) in got.chunks(3).enumerate() {
            let u = ((i % target.width) as f64 + 0.5 - left) / scale;
            let v = ((i / target.width) as f64 + 0.5 - top) / scale;
            let inside = (0.0..40.0).contains(&u) && (0.0..30.0).contains(&v);
            let want = if inside { &rgb[(v as usize * 40 + u as usize) * 3..][..3] } else { &BACKGROUND };
            assert_eq!(pixel, want, "pixel {i} at {scale} around {x}, {y}");
        }
    }
    // In numbers, each readback counted.
    let before = canvas.display.readbacks();
    assert_eq!(canvas.display.read_pixel(0, 39, 29).unwrap().unwrap(), rgb[rgb.len() - 3..]);
    assert_eq!(canvas.display.read_pixel(0, 40, 0).unwrap(), None);
    assert_eq!(canvas.display.readbacks(), before + 1);
}

/// Each picture's producer is told once what became of it.
#[test]
fn what_became_of_a_picture_is_told() {
    let Some(mut canvas) = canvas() else { return };
    let (tell, heard) = channel();
    let buffer = canvas.buffer(&[9; 12]);
    let spec = size(2, 2).spec();
    let show = |canvas: &mut Canvas, n: u64| {
        let tell = tell.clone();
        let picture = Picture::new(TensorView::new(&buffer, 0, &spec).unwrap());
        let then = move |seen| tell.send((n, seen)).unwrap();
        let shown =
            canvas.pane.show_then(&canvas.stream, &picture, &FrameMeta::new("test", n), then).unwrap();
        canvas.stream.synchronize("the test's picture").unwrap();
        shown
    };
    for n in 0..3 {
        let _ = show(&mut canvas, n);
    }
    canvas.display.present(size(2, 2)).unwrap();
    for n in 3..5 {
        let _ = show(&mut canvas, n);
    }
    let status = canvas.display.panes().remove(0);
    assert_eq!((status.shown, status.presented, status.dropped), (5, 1, 2));
    let Canvas { display, pane, device, stream } = canvas;
    drop(display);
    let mut canvas = Canvas { display: Display::offscreen(&device).unwrap(), pane, device, stream };
    assert!(canvas.pane.is_closed());
    let _ = show(&mut canvas, 5);
    drop(tell);
    let fates = [Seen::Overtaken, Seen::Overtaken, Seen::Presented, Seen::Closed, Seen::Closed, Seen::Closed];
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), (0..).zip(fates).collect::<Vec<_>>());
}

/// S11: memory is flat, the driver's as well: one was seen to keep something of every drawing.
#[cfg(target_os = "linux")]
#[test]
fn drawing_keeps_nothing() {
    let Some(mut canvas) = canvas() else { return };
    let rgb = picture(size(32, 24), 1);
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
    };
    let mut draw = |frames| {
        for _ in 0..frames {
            canvas.show((&rgb, size(32, 24)), None).unwrap();
            assert_eq!(canvas.display.present(size(64, 48)).unwrap(), 1);
            canvas.display.synchronize().unwrap();
        }
    };
    draw(100);
    let before = resident();
    draw(400);
    let grown = resident().saturating_sub(before);
    // Other tests of this program take some of it.
    assert!(grown < 64 * 1024, "{grown} KiB more after 400 drawings");
}
