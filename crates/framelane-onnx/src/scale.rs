//! Scaling pictures and maps of bytes.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};

/// Part of a picture in (fractions of) pixels: left, top, width, height.
pub(crate) type Crop = [f64; 4];

/// Scales bytes; keeps its scratch memory.
#[derive(Default)]
pub(crate) struct Scaler {
    resizer: Resizer,
}

/// How in-between values are made.
#[derive(Clone, Copy)]
pub(crate) enum Filter {
    /// Weighted averages: for brightness.
    Smooth,
    /// The nearest pixel: for class numbers.
    Nearest,
}

impl Scaler {
    /// Scale an RGB picture, or the part `crop` of it.
    pub fn rgb(
        &mut self,
        from: &[u8],
        from_size: ImageSize,
        crop: Option<Crop>,
        to: &mut [u8],
        to_size: ImageSize,
    ) -> Result<()> {
        self.scale(PixelType::U8x3, Filter::Smooth, from, from_size, crop, to, to_size)
    }

    /// Scale a map of one byte per pixel, or the part `crop` of it.
    pub fn map(
        &mut self,
        filter: Filter,
        from: &[u8],
        from_size: ImageSize,
        crop: Option<Crop>,
        to: &mut [u8],
        to_size: ImageSize,
    ) -> Result<()> {
        self.scale(PixelType::U8, filter, from, from_size, crop, to, to_size)
    }

    #[expect(clippy::too_many_arguments, reason = "two pictures with their sizes")]
    fn scale(
        &mut self,
        pixel: PixelType,
        filter: Filter,
        from: &[u8],
        from_size: ImageSize,
        crop: Option<Crop>,
        to: &mut [u8],
        to_size: ImageSize,
    ) -> Result<()> {
        let fail = |e: &dyn std::fmt::Display| {
            Error::new(
                ErrorKind::Model,
                format!("a picture of {from_size} cannot be scaled to {to_size}: {e}"),
            )
        };
        let mut options = ResizeOptions::new().resize_alg(match filter {
            Filter::Smooth => ResizeAlg::Convolution(FilterType::Bilinear),
            Filter::Nearest => ResizeAlg::Nearest,
        });
        if let Some([left, top, width, height]) = crop {
            options = options.crop(left, top, width, height);
        }
        let from = ImageRef::new(from_size.width as u32, from_size.height as u32, from, pixel)
            .map_err(|e| fail(&e))?;
        let mut to = Image::from_slice_u8(to_size.width as u32, to_size.height as u32, to, pixel)
            .map_err(|e| fail(&e))?;
        self.resizer.resize(&from, &mut to, &options).map_err(|e| fail(&e))
    }
}
