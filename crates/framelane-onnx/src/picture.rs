//! From a network's output to an RGB picture, or to a map of one byte per pixel.

use crate::elements::Elements;
use crate::overrides::{ChannelOrder, Layout, OutputKind, OutputRange};
use crate::plan::Plan;
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};

/// What a number that is none (NaN) looks like: it must be seen.
pub(crate) const NAN_COLOUR: [u8; 3] = [255, 0, 255];

/// An output's dimensions, by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dims {
    pub layout: Layout,
    pub channels: usize,
    pub size: ImageSize,
}

impl Dims {
    /// Read a shape as the plan says.
    pub fn new(shape: &[usize], plan: &Plan, name: &str) -> Result<Self> {
        let fits = |channels: usize| match plan.kind {
            OutputKind::Image => matches!(channels, 1 | 3 | 4),
            OutputKind::Mask | OutputKind::Heat => channels == 1,
            OutputKind::Classes => channels > 0,
        };
        let planes = |c, h, w| (Layout::Nchw, c, h, w);
        let pixels = |h, w, c| (Layout::Nhwc, c, h, w);
        let (own, other) = match *shape {
            [h, w] | [1, h, w] => (planes(1, h, w), planes(1, h, w)),
            [a, b, c] | [1, a, b, c] => (planes(a, b, c), pixels(a, b, c)),
            _ => (planes(0, 0, 0), planes(0, 0, 0)),
        };
        let (own, other) = if plan.output_layout == Layout::Nchw { (own, other) } else { (other, own) };
        let (layout, channels, height, width) = if fits(own.1) || !fits(other.1) { own } else { other };
        match ImageSize::new(width, height) {
            Ok(size) if fits(channels) => Ok(Self { layout, channels, size }),
            _ => Err(Error::new(
                ErrorKind::Model,
                format!("{name} gives a tensor of shape {shape:?}, which cannot be shown as {}", plan.kind),
            )),
        }
    }

    fn area(&self) -> usize {
        self.size.width * self.size.height
    }
}

/// Turns numbers into bytes: `number × scale + bias` per colour, rounded and clamped.
#[derive(Debug, Clone, Copy)]
struct Levels {
    scale: [f32; 3],
    bias: [f32; 3],
}

impl Levels {
    fn of(range: OutputRange) -> Self {
        match range {
            OutputRange::Span(low, high) => {
                let scale = 255.0 / (high - low);
                Self { scale: [scale; 3], bias: [-low * scale; 3] }
            }
            OutputRange::MeanStd(mean, std) => {
                Self { scale: std.map(|s| s * 255.0), bias: mean.map(|m| m * 255.0) }
            }
            // Found for each frame, see `Unpacker::map`.
            OutputRange::Frame => Self { scale: [255.0; 3], bias: [0.0; 3] },
        }
    }
}

/// The nearest byte. The sum puts the rounded value into the low bits, which (unlike a saturating cast) compiles
/// to vector instructions. Of NaN it makes an arbitrary byte.
fn byte(value: f32) -> u8 {
    (value.clamp(0.0, 255.0) + 8_388_608.0).to_bits() as u8
}

/// Reads the outputs of one network.
pub(crate) struct Unpacker {
    kind: OutputKind,
    order: ChannelOrder,
    range: OutputRange,
    levels: Levels,
    row: Vec<f32>,
    bytes: [Vec<u8>; 3],
    best: Vec<f32>,
}

/// A map: one byte per pixel, and where it has no number.
#[derive(Default)]
pub(crate) struct Map {
    /// Strength 0–255, or class modulo 256, per pixel.
    pub bytes: Vec<u8>,
    /// 255 where the network gave NaN, else 0; empty if it nowhere did.
    pub nan: Vec<u8>,
}

impl Unpacker {
    pub fn new(plan: &Plan) -> Self {
        Self {
            kind: plan.kind,
            order: plan.order,
            range: plan.output_range,
            levels: Levels::of(plan.output_range),
            row: Vec::new(),
            bytes: Default::default(),
            best: Vec::new(),
        }
    }

    /// Write the picture in `elements` to `rgb` (height × width × 3).
    pub fn image(&mut self, elements: Elements<'_>, dims: &Dims, rgb: &mut [u8]) {
        let (width, channels) = (dims.size.width, dims.channels);
        let bgr = self.order == ChannelOrder::Bgr;
        let direct = self.range == OutputRange::Span(0.0, 255.0);
        if let (Elements::U8(bytes), Layout::Nhwc, 3, true, false) =
            (elements, dims.layout, channels, direct, bgr)
        {
            rgb.copy_from_slice(bytes);
            return;
        }
        let Levels { scale, bias } = self.levels;
        for (y, out) in rgb.chunks_exact_mut(width * 3).enumerate() {
            let room = &mut self.row;
            let at = y * width;
            let nan = if channels == 1 {
                let row = elements.floats(at, width, room);
                let mut nan = false;
                for (&v, out) in row.iter().zip(out.chunks_exact_mut(3)) {
                    nan |= v.is_nan();
                    let grey = byte(v * scale[0] + bias[0]);
                    out.copy_from_slice(&[grey; 3]);
                }
                nan
            } else if dims.layout == Layout::Nchw {
                let area = dims.area();
                let mut nan = false;
                // Plane by plane into rows of bytes, which compiles to vector instructions, and then together.
                for (c, bytes) in self.bytes.iter_mut().enumerate() {
                    let plane = if bgr { 2 - c } else { c };
                    let row = elements.floats(plane * area + at, width, room);
                    bytes.resize(width, 0);
                    for (&v, byte_out) in row.iter().zip(bytes) {
                        nan |= v.is_nan();
                        *byte_out = byte(v * scale[c] + bias[c]);
                    }
                }
                let [r, g, b] = &self.bytes;
                for (((&r, &g), &b), out) in r.iter().zip(g).zip(b).zip(out.chunks_exact_mut(3)) {
                    out[0] = r;
                    out[1] = g;
                    out[2] = b;
                }
                nan
            } else {
                let row = elements.floats(at * channels, width * channels, room);
                let (r, b) = if bgr { (2, 0) } else { (0, 2) };
                let mut nan = false;
                for (pixel, out) in row.chunks_exact(channels).zip(out.chunks_exact_mut(3)) {
                    nan |= pixel[0].is_nan() | pixel[1].is_nan() | pixel[2].is_nan();
                    out[0] = byte(pixel[r] * scale[0] + bias[0]);
                    out[1] = byte(pixel[1] * scale[1] + bias[1]);
                    out[2] = byte(pixel[b] * scale[2] + bias[2]);
                }
                nan
            };
            if nan {
                self.paint_nan(elements, dims, y, out);
            }
        }
    }

    /// Paint the pixels of row `y` in which any number is NaN.
    fn paint_nan(&mut self, elements: Elements<'_>, dims: &Dims, y: usize, out: &mut [u8]) {
        let (width, channels) = (dims.size.width, dims.channels.min(3));
        for c in 0..channels {
            for (x, out) in out.chunks_exact_mut(3).enumerate() {
                let at = match dims.layout {
                    Layout::Nchw => c * dims.area() + y * width + x,
                    Layout::Nhwc => (y * width + x) * dims.channels + c,
                };
                if elements.floats(at, 1, &mut self.best)[0].is_nan() {
                    out.copy_from_slice(&NAN_COLOUR);
                }
            }
        }
    }

    /// Read a map.
    pub fn map(&mut self, elements: Elements<'_>, dims: &Dims, map: &mut Map) {
        map.bytes.resize(dims.area(), 0);
        map.nan.clear();
        match (self.kind, elements) {
            (OutputKind::Classes, _) if dims.channels > 1 => self.greatest(elements, dims, map),
            (OutputKind::Classes, Elements::I64(v)) => {
                map.bytes.iter_mut().zip(v).for_each(|(out, &class)| *out = wrap(class));
            }
            (OutputKind::Classes, Elements::I32(v)) => {
                map.bytes.iter_mut().zip(v).for_each(|(out, &class)| *out = wrap(class.into()));
            }
            (OutputKind::Classes, Elements::U8(v)) => map.bytes.copy_from_slice(v),
            _ => {
                let numbers = elements.floats(0, dims.area(), &mut self.best);
                let classes = self.kind == OutputKind::Classes;
                let (scale, bias) = match self.range {
                    _ if classes => (1.0, 0.0),
                    OutputRange::Frame => stretch(numbers),
                    _ => (self.levels.scale[0], self.levels.bias[0]),
                };
                let mut nan = false;
                for (out, &v) in map.bytes.iter_mut().zip(numbers) {
                    nan |= v.is_nan();
                    *out = byte(v * scale + bias);
                }
                if nan {
                    map.nan.extend(numbers.iter().map(|v| if v.is_nan() { 255 } else { 0 }));
                }
            }
        }
    }

    /// The class with the greatest score, for each pixel.
    fn greatest(&mut self, elements: Elements<'_>, dims: &Dims, map: &mut Map) {
        let (area, channels) = (dims.area(), dims.channels);
        let mut any_nan = false;
        match dims.layout {
            Layout::Nchw => {
                self.best.clear();
                self.best.resize(area, f32::NEG_INFINITY);
                map.bytes.fill(0);
                for class in 0..channels {
                    let scores = elements.floats(class * area, area, &mut self.row);
                    let class = wrap(class as i64);
                    for ((&score, best), out) in scores.iter().zip(&mut self.best).zip(&mut map.bytes) {
                        any_nan |= score.is_nan();
                        let better = score > *best;
                        *best = if better { score } else { *best };
                        *out = if better { class } else { *out };
                    }
                }
            }
            Layout::Nhwc => {
                let width = dims.size.width;
                for (y, out) in map.bytes.chunks_exact_mut(width).enumerate() {
                    let row = elements.floats(y * width * channels, width * channels, &mut self.row);
                    for (scores, out) in row.chunks_exact(channels).zip(out) {
                        let mut best = (f32::NEG_INFINITY, 0);
                        for (class, &score) in scores.iter().enumerate() {
                            any_nan |= score.is_nan();
                            if score > best.0 {
                                best = (score, class);
                            }
                        }
                        *out = wrap(best.1 as i64);
                    }
                }
            }
        }
        if any_nan {
            map.nan.resize(area, 0);
            for (i, nan) in map.nan.iter_mut().enumerate() {
                let is_nan = |class: usize| {
                    let at =
                        if dims.layout == Layout::Nchw { class * area + i } else { i * channels + class };
                    elements.floats(at, 1, &mut self.row)[0].is_nan()
                };
                *nan = if (0..channels).any(is_nan) { 255 } else { 0 };
            }
        }
    }
}

/// A class as a byte: 0 stays nothing; others that do not fit share the colours from 1 on.
fn wrap(class: i64) -> u8 {
    match u8::try_from(class) {
        Ok(class) => class,
        Err(_) => ((class - 1).rem_euclid(255) + 1) as u8,
    }
}

/// Scale and bias that stretch the finite numbers over 0 to 255.
fn stretch(numbers: &[f32]) -> (f32, f32) {
    let finite = numbers.iter().filter(|v| v.is_finite());
    let (low, high) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
    // In double precision: the difference of two floats may be too large for one.
    let width = f64::from(high) - f64::from(low);
    if !(width > 0.0 && width.is_finite()) {
        // One number everywhere, or none: the lowest colour.
        return (0.0, 0.0);
    }
    let scale = 255.0 / width;
    (scale as f32, (-f64::from(low) * scale) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacker(kind: OutputKind, range: OutputRange) -> Unpacker {
        Unpacker::new(&Plan { kind, output_range: range, ..Plan::example() })
    }

    fn dims(layout: Layout, channels: usize, width: usize, height: usize) -> Dims {
        Dims { layout, channels, size: ImageSize { width, height } }
    }

    const UNIT: OutputRange = OutputRange::Span(0.0, 1.0);
    const NAN: f32 = f32::NAN;

    #[test]
    fn what_is_no_number_is_seen_in_pictures() {
        // Two pixels: one has a NaN in its last channel, the other is sound.
        let expected = [255, 0, 255, 0, 255, 51];
        let mut rgb = [0; 6];
        let planes = [0.5, 0.0, 0.5, 1.0, NAN, 0.2];
        let mut image = unpacker(OutputKind::Image, UNIT);
        image.image(Elements::F32(&planes), &dims(Layout::Nchw, 3, 2, 1), &mut rgb);
        assert_eq!(rgb, expected);
        let pixels = [0.5, 0.5, NAN, 0.0, 1.0, 0.2];
        rgb = [0; 6];
        image.image(Elements::F32(&pixels), &dims(Layout::Nhwc, 3, 2, 1), &mut rgb);
        assert_eq!(rgb, expected);
        let halves = [half::f16::NAN, half::f16::ONE];
        image.image(Elements::F16(&halves), &dims(Layout::Nchw, 1, 2, 1), &mut rgb);
        assert_eq!(rgb, [255, 0, 255, 255, 255, 255]);
    }

    #[test]
    fn what_is_no_number_is_seen_in_maps() {
        let mut map = Map::default();
        let heat = &mut unpacker(OutputKind::Heat, OutputRange::Frame);
        heat.map(Elements::F32(&[1.0, NAN, 3.0, 2.0]), &dims(Layout::Nchw, 1, 4, 1), &mut map);
        assert_eq!((map.bytes[0], map.bytes[2], &map.nan[..]), (0, 255, &[0, 255, 0, 0][..]));
        heat.map(Elements::F32(&[1.0, 1.0, 3.0, 2.0]), &dims(Layout::Nchw, 1, 4, 1), &mut map);
        assert!(map.nan.is_empty());

        // Two pixels of three scores, in both layouts.
        let classes = &mut unpacker(OutputKind::Classes, UNIT);
        classes.map(Elements::F32(&[0.1, 0.0, 0.3, NAN, 0.2, 9.0]), &dims(Layout::Nchw, 3, 2, 1), &mut map);
        assert_eq!((&map.bytes[..], &map.nan[..]), (&[1, 2][..], &[0, 255][..]));
        classes.map(Elements::F32(&[0.1, 0.3, 0.2, 0.0, NAN, 9.0]), &dims(Layout::Nhwc, 3, 2, 1), &mut map);
        assert_eq!((&map.bytes[..], &map.nan[..]), (&[1, 2][..], &[0, 255][..]));
        classes.map(Elements::I64(&[3, 256]), &dims(Layout::Nchw, 1, 2, 1), &mut map);
        assert_eq!((&map.bytes[..], map.nan.len()), (&[3, 1][..], 0));
    }

    #[test]
    fn shapes_are_read_by_meaning() {
        let image = Plan::example();
        let map = Plan { kind: OutputKind::Heat, ..Plan::example() };
        let read = |shape: &[usize], plan: &Plan| {
            Dims::new(shape, plan, "x").map(|d| (d.layout, d.channels, d.size.width, d.size.height)).ok()
        };
        assert_eq!(read(&[1, 3, 5, 7], &image), Some((Layout::Nchw, 3, 7, 5)));
        assert_eq!(read(&[1, 5, 7, 3], &image), Some((Layout::Nhwc, 3, 7, 5)));
        assert_eq!(read(&[3, 5, 7], &image), Some((Layout::Nchw, 3, 7, 5)));
        assert_eq!(read(&[1, 1, 5, 7], &map), Some((Layout::Nchw, 1, 7, 5)));
        assert_eq!(read(&[1, 5, 7, 1], &map), Some((Layout::Nhwc, 1, 7, 5)));
        assert_eq!(read(&[1, 5, 7], &map), Some((Layout::Nchw, 1, 7, 5)));
        assert_eq!(read(&[5, 7], &map), Some((Layout::Nchw, 1, 7, 5)));
        for shape in [&[][..], &[5], &[2, 3, 5, 7], &[1, 2, 5, 7], &[1, 3, 0, 7], &[1, 1, 3, 5, 7]] {
            assert_eq!(read(shape, &image), None, "{shape:?}");
        }
    }

    #[test]
    fn bytes_are_rounded_and_clamped() {
        let expected: &[(f32, u8)] = &[
            (-1.0, 0),
            (0.0, 0),
            (0.49, 0),
            (0.51, 1),
            (254.51, 255),
            (300.0, 255),
            (f32::INFINITY, 255),
            (f32::NEG_INFINITY, 0),
        ];
        for &(value, level) in expected {
            assert_eq!(byte(value), level, "{value}");
        }
        (0..=255u8).for_each(|n| assert_eq!(byte(f32::from(n)), n));
    }

    #[test]
    fn classes_beyond_the_palette_are_never_nothing() {
        assert_eq!([0, 1, 255, 256, 510, 511, -1].map(wrap), [0, 1, 255, 1, 255, 1, 254]);
    }

    #[test]
    fn stretches_what_is_finite() {
        let (scale, bias) = stretch(&[2.0, f32::NAN, 4.0, f32::INFINITY]);
        assert_eq!((2.0 * scale + bias, 4.0 * scale + bias), (0.0, 255.0));
        assert_eq!(stretch(&[7.0, 7.0]), (0.0, 0.0));
        assert_eq!(stretch(&[f32::NAN]), (0.0, 0.0));
        assert_eq!(stretch(&[]), (0.0, 0.0));
    }
}
