//! Between YCbCr planes and RGB, by BT.601 or BT.709, limited or full range.

use framelane::frame::{ColorMatrix, ColorRange, ColorSpec, ImageSize};
use framelane::{Error, ErrorKind, Result};
use yuv::{
    BufferStoreMut, YuvConversionMode, YuvError, YuvGrayImage, YuvPlanarImage, YuvPlanarImageMut, YuvRange,
    YuvStandardMatrix,
};

/// How often colour is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chroma {
    /// No colour at all.
    Mono,
    /// One sample for 2 × 2 pixels.
    C420,
    /// One sample for 2 × 1 pixels.
    C422,
    /// One sample for each pixel.
    C444,
}

impl Chroma {
    /// Width and height of one colour plane of a picture of `size`; 0 × 0 without colour.
    pub(crate) fn plane(self, size: ImageSize) -> (usize, usize) {
        match self {
            Self::Mono => (0, 0),
            Self::C420 => (size.width.div_ceil(2), size.height.div_ceil(2)),
            Self::C422 => (size.width.div_ceil(2), size.height),
            Self::C444 => (size.width, size.height),
        }
    }

    /// Bytes of all planes, packed.
    pub(crate) fn bytes(self, size: ImageSize) -> usize {
        let (width, height) = self.plane(size);
        size.width * size.height + 2 * width * height
    }

    /// As it is usually written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mono => "grey",
            Self::C420 => "4:2:0",
            Self::C422 => "4:2:2",
            Self::C444 => "4:4:4",
        }
    }
}

/// A picture in planes; strides are in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planes<'a> {
    pub size: ImageSize,
    pub chroma: Chroma,
    pub y: &'a [u8],
    pub u: &'a [u8],
    pub v: &'a [u8],
    pub y_stride: usize,
    pub uv_stride: usize,
}

impl<'a> Planes<'a> {
    /// The planes of a packed picture: `bytes` is [`Chroma::bytes`] long.
    pub(crate) fn packed(bytes: &'a [u8], size: ImageSize, chroma: Chroma) -> Self {
        let (width, height) = chroma.plane(size);
        let (y, colour) = bytes.split_at(size.width * size.height);
        let (u, v) = colour.split_at(width * height);
        Self { size, chroma, y, u, v, y_stride: size.width, uv_stride: width }
    }

    /// Convert to RGB; `rgb` is [`ImageSize::bytes`] long.
    pub(crate) fn to_rgb(self, spec: ColorSpec, rgb: &mut [u8]) -> Result<()> {
        let (range, matrix) = (range(spec), matrix(spec));
        let (width, height) = (self.size.width as u32, self.size.height as u32);
        let stride = width * 3;
        if self.chroma == Chroma::Mono {
            let grey = YuvGrayImage { y_plane: self.y, y_stride: self.y_stride as u32, width, height };
            return yuv::yuv400_to_rgb(&grey, rgb, stride, range, matrix).map_err(failed);
        }
        let image = YuvPlanarImage {
            y_plane: self.y,
            y_stride: self.y_stride as u32,
            u_plane: self.u,
            u_stride: self.uv_stride as u32,
            v_plane: self.v,
            v_stride: self.uv_stride as u32,
            width,
            height,
        };
        match self.chroma {
            Chroma::C420 => yuv::yuv420_to_rgb(&image, rgb, stride, range, matrix),
            Chroma::C422 => yuv::yuv422_to_rgb(&image, rgb, stride, range, matrix),
            Chroma::C444 | Chroma::Mono => yuv::yuv444_to_rgb(&image, rgb, stride, range, matrix),
        }
        .map_err(failed)
    }
}

/// Convert `rgb` to packed 4:2:0 planes (chroma averaged over 2 × 2 pixels); `out` is [`Chroma::bytes`] long.
pub(crate) fn rgb_to_420(rgb: &[u8], size: ImageSize, spec: ColorSpec, out: &mut [u8]) -> Result<()> {
    let (width, height) = Chroma::C420.plane(size);
    let (y, colour) = out.split_at_mut(size.width * size.height);
    let (u, v) = colour.split_at_mut(width * height);
    let mut planes = YuvPlanarImageMut {
        y_plane: BufferStoreMut::Borrowed(y),
        y_stride: size.width as u32,
        u_plane: BufferStoreMut::Borrowed(u),
        u_stride: width as u32,
        v_plane: BufferStoreMut::Borrowed(v),
        v_stride: width as u32,
        width: size.width as u32,
        height: size.height as u32,
    };
    let stride = size.width as u32 * 3;
    yuv::rgb_to_yuv420(&mut planes, rgb, stride, range(spec), matrix(spec), YuvConversionMode::Balanced)
        .map_err(failed)
}

/// `"BT.601 limited"`.
pub(crate) fn describe(spec: ColorSpec) -> &'static str {
    match (spec.matrix, spec.range) {
        (ColorMatrix::Bt601, ColorRange::Limited) => "BT.601 limited",
        (ColorMatrix::Bt601, ColorRange::Full) => "BT.601 full range",
        (ColorMatrix::Bt709, ColorRange::Limited) => "BT.709 limited",
        (ColorMatrix::Bt709, ColorRange::Full) => "BT.709 full range",
    }
}

fn range(spec: ColorSpec) -> YuvRange {
    match spec.range {
        ColorRange::Limited => YuvRange::Limited,
        ColorRange::Full => YuvRange::Full,
    }
}

fn matrix(spec: ColorSpec) -> YuvStandardMatrix {
    match spec.matrix {
        ColorMatrix::Bt601 => YuvStandardMatrix::Bt601,
        ColorMatrix::Bt709 => YuvStandardMatrix::Bt709,
    }
}

fn failed(cause: YuvError) -> Error {
    Error::new(ErrorKind::Input, format!("the picture's colours could not be converted: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: [ColorSpec; 4] = [
        ColorSpec { matrix: ColorMatrix::Bt601, range: ColorRange::Limited },
        ColorSpec { matrix: ColorMatrix::Bt601, range: ColorRange::Full },
        ColorSpec { matrix: ColorMatrix::Bt709, range: ColorRange::Limited },
        ColorSpec { matrix: ColorMatrix::Bt709, range: ColorRange::Full },
    ];

    const COLORS: [[u8; 3]; 9] = [
        [0, 0, 0],
        [255, 255, 255],
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [255, 255, 0],
        [128, 128, 128],
        [200, 60, 30],
        [20, 90, 160],
    ];

    /// RGB to YCbCr straight from the text of the two recommendations.
    fn standard(rgb: [u8; 3], spec: ColorSpec) -> [f64; 3] {
        let [r, g, b] = rgb.map(|c| f64::from(c) / 255.0);
        let (kr, kb) = match spec.matrix {
            ColorMatrix::Bt601 => (0.299, 0.114),
            ColorMatrix::Bt709 => (0.2126, 0.0722),
        };
        let y = kr * r + (1.0 - kr - kb) * g + kb * b;
        let cb = (b - y) / (2.0 * (1.0 - kb));
        let cr = (r - y) / (2.0 * (1.0 - kr));
        match spec.range {
            ColorRange::Limited => [16.0 + 219.0 * y, 128.0 + 224.0 * cb, 128.0 + 224.0 * cr],
            ColorRange::Full => [255.0 * y, 128.0 + 255.0 * cb, 128.0 + 255.0 * cr],
        }
    }

    fn flat(size: ImageSize, chroma: Chroma, ycc: [u8; 3]) -> Vec<u8> {
        let (width, height) = chroma.plane(size);
        let mut bytes = vec![ycc[0]; size.width * size.height];
        bytes.extend(std::iter::repeat_n(ycc[1], width * height));
        bytes.extend(std::iter::repeat_n(ycc[2], width * height));
        bytes
    }

    fn close(got: &[u8], want: [u8; 3], within: u8, what: &str) {
        for pixel in got.chunks_exact(3) {
            for c in 0..3 {
                assert!(pixel[c].abs_diff(want[c]) <= within, "{what}: {pixel:?} instead of {want:?}");
            }
        }
    }

    #[test]
    fn red_by_the_book() {
        let size = ImageSize::new(6, 4).unwrap();
        let mut rgb = vec![0; size.bytes()];
        for (spec, ycc) in [(SPECS[0], [81, 90, 240]), (SPECS[2], [63, 102, 240])] {
            let bytes = flat(size, Chroma::C420, ycc);
            Planes::packed(&bytes, size, Chroma::C420).to_rgb(spec, &mut rgb).unwrap();
            close(&rgb, [255, 0, 0], 2, describe(spec));
        }
    }

    #[test]
    fn known_colours_both_ways() {
        // Odd sides, and wide enough for the vector code as well as its remainder.
        for size in [ImageSize::new(1, 1).unwrap(), ImageSize::new(67, 5).unwrap()] {
            for spec in SPECS {
                for want in COLORS {
                    let ycc = standard(want, spec);
                    let rounded = ycc.map(|c| c.round().clamp(0.0, 255.0) as u8);
                    for chroma in [Chroma::C420, Chroma::C422, Chroma::C444] {
                        let bytes = flat(size, chroma, rounded);
                        let mut rgb = vec![0; size.bytes()];
                        Planes::packed(&bytes, size, chroma).to_rgb(spec, &mut rgb).unwrap();
                        close(&rgb, want, 2, &format!("{} {}", describe(spec), chroma.name()));
                    }
                    let rgb: Vec<u8> = want.iter().copied().cycle().take(size.bytes()).collect();
                    let mut planes = vec![0; Chroma::C420.bytes(size)];
                    rgb_to_420(&rgb, size, spec, &mut planes).unwrap();
                    let planes = Planes::packed(&planes, size, Chroma::C420);
                    for (plane, want) in [(planes.y, ycc[0]), (planes.u, ycc[1]), (planes.v, ycc[2])] {
                        for &got in plane {
                            assert!(
                                (f64::from(got) - want.min(255.0)).abs() <= 1.5,
                                "{} at {size}: {got} instead of {want}",
                                describe(spec)
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn grey_keeps_its_range() {
        let size = ImageSize::new(5, 3).unwrap();
        let mut rgb = vec![0; size.bytes()];
        for (spec, y, want) in
            [(SPECS[0], 16, 0), (SPECS[0], 235, 255), (SPECS[1], 16, 16), (SPECS[1], 200, 200)]
        {
            let bytes = vec![y; 15];
            Planes::packed(&bytes, size, Chroma::Mono).to_rgb(spec, &mut rgb).unwrap();
            close(&rgb, [want; 3], 1, "grey");
        }
    }
}
