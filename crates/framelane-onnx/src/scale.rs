//! Scaling pictures and maps of bytes.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::fmt;

/// Part of a picture in (fractions of) pixels: left, top, width, height.
pub(crate) type Crop = [f64; 4];

/// A picture or map to be scaled: its bytes, its size, and the part of it that is meant, if not all.
pub(crate) struct Part<'a> {
    pub bytes: &'a [u8],
    pub size: ImageSize,
    pub crop: Option<Crop>,
}

/// How in-between values are made.
#[derive(Clone, Copy)]
pub(crate) enum Filter {
    /// Weighted averages: for brightness.
    Smooth,
    /// The nearest pixel: for class numbers.
    Nearest,
}

/// Scales bytes; keeps its scratch memory.
#[derive(Default)]
pub(crate) struct Scaler {
    resizer: Resizer,
}

impl Scaler {
    /// Scale an RGB picture.
    pub fn rgb(&mut self, from: &Part<'_>, to: &mut [u8], size: ImageSize) -> Result<()> {
        self.scale::<U8x3>(from, to, size, Filter::Smooth)
    }

    /// Scale a map of one byte per pixel.
    pub fn map(&mut self, from: &Part<'_>, to: &mut [u8], size: ImageSize, filter: Filter) -> Result<()> {
        self.scale::<U8>(from, to, size, filter)
    }

    fn scale<P: PixelTrait>(
        &mut self,
        from: &Part<'_>,
        to: &mut [u8],
        size: ImageSize,
        filter: Filter,
    ) -> Result<()> {
        let fail = |e: &dyn fmt::Display| {
            let text = format!("a picture of {} cannot be scaled to {size}: {e}", from.size);
            Error::new(ErrorKind::Model, text)
        };
        let mut options = ResizeOptions::new().resize_alg(match filter {
            Filter::Smooth => ResizeAlg::Convolution(FilterType::Bilinear),
            Filter::Nearest => ResizeAlg::Nearest,
        });
        if let Some([left, top, width, height]) = from.crop {
            options = options.crop(left, top, width, height);
        }
        let (width, height) = (from.size.width as u32, from.size.height as u32);
        let from = TypedImageRef::<P>::from_buffer(width, height, from.bytes).map_err(|e| fail(&e))?;
        let mut to =
            TypedImage::<P>::from_buffer(size.width as u32, size.height as u32, to).map_err(|e| fail(&e))?;
        self.resizer.resize_typed(&from, &mut to, &options).map_err(|e| fail(&e))
    }
}
