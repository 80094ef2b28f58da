//! From an RGB picture to a network's input.

use crate::elements::ElementsMut;
use crate::overrides::{ChannelOrder, InputRange, Layout};
use crate::plan::Plan;
use framelane::frame::ImageSize;
use framelane::tensor::DType;
use half::f16;

/// Writes pictures in the form that one network takes. What each of the 256 values of a pixel becomes is
/// computed once, so that all ranges and types cost the same per pixel: one table look-up.
pub(crate) struct Packer {
    layout: Layout,
    channels: usize,
    /// Place of red, green and blue among the channels.
    places: [usize; 3],
    tables: Tables,
}

enum Tables {
    F32(Box<[[f32; 256]; 4]>),
    F16(Box<[[f16; 256]; 4]>),
    U8(Box<[[u8; 256]; 4]>),
}

/// Part of a picture, and where it goes in the network's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Size of the whole picture.
    pub picture: ImageSize,
    /// Left and top of the part.
    pub from: (usize, usize),
    /// Its size.
    pub size: ImageSize,
    /// Left and top in the network's frame.
    pub to: (usize, usize),
    /// Size of the network's frame; what the part does not cover is black.
    pub frame: ImageSize,
}

impl Packer {
    pub fn new(plan: &Plan) -> Self {
        // Luma is scaled like green, its greatest part. The fourth table is that of opaque alpha.
        let colour = |channel: usize| if plan.channels == 1 { 1 } else { channel };
        let value = |channel: usize, pixel: usize| match channel {
            3 => match plan.input_range {
                InputRange::Span(_, high) => high,
                InputRange::MeanStd(..) => 1.0,
            },
            _ => plan.input_range.apply(pixel as u8, colour(channel)),
        };
        fn table<T: Copy + Default>(f: impl Fn(usize, usize) -> T) -> Box<[[T; 256]; 4]> {
            let mut tables = Box::new([[T::default(); 256]; 4]);
            for (channel, table) in tables.iter_mut().enumerate() {
                for (pixel, entry) in table.iter_mut().enumerate() {
                    *entry = f(channel, pixel);
                }
            }
            tables
        }
        Self {
            layout: plan.layout,
            channels: plan.channels,
            places: match plan.order {
                ChannelOrder::Rgb => [0, 1, 2],
                ChannelOrder::Bgr => [2, 1, 0],
            },
            tables: match plan.dtype {
                DType::U8 => Tables::U8(table(|c, p| value(c, p).round() as u8)),
                DType::F16 => Tables::F16(table(|c, p| f16::from_f32(value(c, p)))),
                _ => Tables::F32(table(value)),
            },
        }
    }

    /// Shape of the input for a frame of this size.
    pub fn shape(&self, frame: ImageSize) -> [usize; 4] {
        match self.layout {
            Layout::Nchw => [1, self.channels, frame.height, frame.width],
            Layout::Nhwc => [1, frame.height, frame.width, self.channels],
        }
    }

    /// Write the window of `rgb` (height × width × 3 of the whole picture) into `input`, all of which is written.
    pub fn pack(&self, rgb: &[u8], window: &Window, input: ElementsMut<'_>) {
        match (input, &self.tables) {
            (ElementsMut::F32(out), Tables::F32(tables)) => self.pack_typed(rgb, window, tables, out),
            (ElementsMut::F16(out), Tables::F16(tables)) => self.pack_typed(rgb, window, tables, out),
            (ElementsMut::U8(out), Tables::U8(tables)) => self.pack_typed(rgb, window, tables, out),
            _ => unreachable!("the lane's tensor has the plan's type"),
        }
    }

    fn pack_typed<T: Copy>(&self, rgb: &[u8], window: &Window, tables: &[[T; 256]; 4], out: &mut [T]) {
        let Window { picture, from, size, to, frame } = *window;
        if size != frame {
            self.blacken(tables, out, frame);
        }
        let rows = rgb.chunks_exact(picture.width * 3).skip(from.1).take(size.height);
        let rows = rows.map(|row| &row[from.0 * 3..][..size.width * 3]);
        let [red, green, blue] = [&tables[0], &tables[1], &tables[2]];
        match (self.layout, self.channels) {
            // One channel lies alike in both layouts.
            (_, 1) => {
                let out = out.chunks_exact_mut(frame.width).skip(to.1);
                for (row, out) in rows.zip(out) {
                    for (pixel, out) in row.chunks_exact(3).zip(&mut out[to.0..][..size.width]) {
                        *out = red[usize::from(luma(pixel))];
                    }
                }
            }
            (Layout::Nchw, channels) => {
                let area = frame.width * frame.height;
                if channels == 4 {
                    out[3 * area..].fill(tables[3][0]);
                }
                let (first, rest) = out.split_at_mut(area);
                let (second, rest) = rest.split_at_mut(area);
                let third = &mut rest[..area];
                let (r, g, b) =
                    if self.places[0] == 0 { (first, second, third) } else { (third, second, first) };
                let r = r.chunks_exact_mut(frame.width).skip(to.1);
                let g = g.chunks_exact_mut(frame.width).skip(to.1);
                let b = b.chunks_exact_mut(frame.width).skip(to.1);
                for (((row, r), g), b) in rows.zip(r).zip(g).zip(b) {
                    let r = &mut r[to.0..][..size.width];
                    let g = &mut g[to.0..][..size.width];
                    let b = &mut b[to.0..][..size.width];
                    for (((pixel, r), g), b) in row.chunks_exact(3).zip(r).zip(g).zip(b) {
                        *r = red[usize::from(pixel[0])];
                        *g = green[usize::from(pixel[1])];
                        *b = blue[usize::from(pixel[2])];
                    }
                }
            }
            (Layout::Nhwc, channels) => {
                let [r, g, b] = self.places;
                for (row, out) in rows.zip(out.chunks_exact_mut(frame.width * channels).skip(to.1)) {
                    let out = &mut out[to.0 * channels..][..size.width * channels];
                    for (pixel, out) in row.chunks_exact(3).zip(out.chunks_exact_mut(channels)) {
                        out[r] = red[usize::from(pixel[0])];
                        out[g] = green[usize::from(pixel[1])];
                        out[b] = blue[usize::from(pixel[2])];
                        if let Some(alpha) = out.get_mut(3) {
                            *alpha = tables[3][0];
                        }
                    }
                }
            }
        }
    }

    fn blacken<T: Copy>(&self, tables: &[[T; 256]; 4], out: &mut [T], frame: ImageSize) {
        let mut black = [tables[0][0]; 4];
        for (colour, &place) in self.places.iter().enumerate() {
            black[place] = tables[colour][0];
        }
        black[3] = tables[3][0];
        match self.layout {
            Layout::Nchw => {
                for (plane, value) in out.chunks_exact_mut(frame.width * frame.height).zip(black) {
                    plane.fill(value);
                }
            }
            Layout::Nhwc => {
                for pixel in out.chunks_exact_mut(self.channels) {
                    pixel.copy_from_slice(&black[..self.channels]);
                }
            }
        }
    }
}

/// BT.601 luma of an RGB pixel, rounded.
fn luma(pixel: &[u8]) -> u8 {
    let [r, g, b] = [u32::from(pixel[0]), u32::from(pixel[1]), u32::from(pixel[2])];
    // The weights add up to 2¹⁶, so white stays 255.
    ((19595 * r + 38470 * g + 7471 * b + (1 << 15)) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: usize, height: usize) -> ImageSize {
        ImageSize { width, height }
    }

    /// The middle pixel of three, in the right half of a frame of two.
    const RGB: [u8; 9] = [1, 2, 3, 255, 51, 0, 7, 8, 9];

    fn window() -> Window {
        Window { picture: size(3, 1), from: (1, 0), size: size(1, 1), to: (1, 0), frame: size(2, 1) }
    }

    fn packed(plan: Plan) -> Vec<f32> {
        let packer = Packer::new(&plan);
        let mut out = vec![f32::NAN; packer.shape(size(2, 1)).iter().product()];
        packer.pack(&RGB, &window(), ElementsMut::F32(&mut out));
        out
    }

    #[test]
    fn all_layouts_and_orders_with_black_around() {
        let plan = Plan::example;
        let (nhwc, bgr) = (Layout::Nhwc, ChannelOrder::Bgr);
        assert_eq!(packed(plan()), [0.0, 1.0, 0.0, 0.2, 0.0, 0.0]);
        assert_eq!(packed(Plan { layout: nhwc, ..plan() }), [0.0, 0.0, 0.0, 1.0, 0.2, 0.0]);
        assert_eq!(packed(Plan { order: bgr, ..plan() }), [0.0, 0.0, 0.0, 0.2, 0.0, 1.0]);
        assert_eq!(packed(Plan { layout: nhwc, order: bgr, ..plan() }), [0.0, 0.0, 0.0, 0.0, 0.2, 1.0]);
        assert_eq!(packed(Plan { channels: 4, ..plan() }), [0.0, 1.0, 0.0, 0.2, 0.0, 0.0, 1.0, 1.0]);
        let rgba = Plan { channels: 4, layout: nhwc, ..plan() };
        assert_eq!(packed(rgba), [0.0, 0.0, 0.0, 1.0, 1.0, 0.2, 0.0, 1.0]);
        let signed = Plan { input_range: InputRange::SIGNED, channels: 4, ..plan() };
        assert_eq!(packed(signed), [-1.0, 1.0, -1.0, -0.6, -1.0, -1.0, 1.0, 1.0]);
        let grey = (0.299 * 255.0_f32 + 0.587 * 51.0).round() / 255.0;
        assert_eq!(packed(Plan { channels: 1, ..plan() }), [0.0, grey]);
    }

    #[test]
    fn luma_is_that_of_bt601() {
        assert_eq!((luma(&[0, 0, 0]), luma(&[255, 255, 255]), luma(&[77, 77, 77])), (0, 255, 77));
        for pixel in [[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 200, 99]] {
            let [r, g, b] = pixel.map(f64::from);
            assert_eq!(luma(&pixel), (0.299 * r + 0.587 * g + 0.114 * b).round() as u8);
        }
    }
}
