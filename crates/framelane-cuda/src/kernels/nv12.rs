//! NV12, what video decoders give, to a picture for a display.

use super::Kernel;
use super::ends::{Extents, check_places, lines, small};
use super::picture::{CALL, target, too_far, too_large};
use crate::error::{CudaError, Result};
use crate::launch::Arg;
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

/// The matrix from RGB to luma and colour difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// ITU-R BT.601: standard definition.
    Bt601,
    /// ITU-R BT.709: high definition.
    Bt709,
}

/// From NV12 to a picture of RGBA8, four bytes a pixel, opaque.
///
/// NV12 is a plane of luma, then one of blue and red difference side by side, at half the width and height
/// (rounded up). Each pixel takes the difference samples of its block of 2×2. The arithmetic is in whole numbers:
/// coefficients are rounded to 2⁻¹⁶, their sum to the nearest whole number, halves up, and clamped to 0…255.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nv12ToPicture {
    /// Rows.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Bytes from row to row of luma.
    pub y_row: usize,
    /// Bytes from the first luma to the first difference.
    pub chroma_at: usize,
    /// Bytes from row to row of differences.
    pub chroma_row: usize,
    /// The matrix.
    pub matrix: Matrix,
    /// Whether black to white is 0 to 255, rather than 16 to 235.
    pub full_range: bool,
    /// Bytes of the target from row to row: a multiple of 4. What lies between rows is not touched.
    pub to_row: usize,
}

/// What takes luma and differences to colours, in units of 2⁻¹⁶.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Coefficients {
    /// Luma of black.
    pub black: i32,
    /// Of luma above black, for each colour.
    pub luma: i32,
    /// Of the red difference, for red.
    pub red: i32,
    /// Of the blue and the red difference, taken from green.
    pub green: [i32; 2],
    /// Of the blue difference, for blue.
    pub blue: i32,
}

impl Nv12ToPicture {
    /// # Errors
    /// [`crate::Kind::Argument`].
    pub(super) fn extents(&self) -> Result<Extents> {
        let (height, width) = (self.height, self.width);
        if height == 0 || width == 0 {
            return Ok(Extents { from: 0, to: 0 });
        }
        let to = target(height, width, self.to_row)?;
        let differences = width.div_ceil(2) * 2;
        for (name, row, bytes) in [("luma", self.y_row, width), ("chroma", self.chroma_row, differences)] {
            if row < bytes {
                return Err(CudaError::argument(
                    CALL,
                    format!("rows of {bytes} bytes of {name} cannot be {row} bytes apart"),
                ));
            }
        }
        let plane = |rows: usize, row: usize, bytes: usize| (rows - 1).checked_mul(row)?.checked_add(bytes);
        let luma = plane(height, self.y_row, width).ok_or_else(too_far)?;
        let chroma = plane(height.div_ceil(2), self.chroma_row, differences);
        let chroma = chroma.and_then(|n| n.checked_add(self.chroma_at)).ok_or_else(too_far)?;
        Ok(Extents { from: luma.max(chroma), to })
    }

    /// From the weights of red and blue in luma, and the codes of black, white and the most difference: ITU-R
    /// BT.601-7, 2.5, and BT.709-6, 3.2 to 3.4. In full range all 256 codes are used, as in ITU-T H.273.
    pub(super) fn coefficients(&self) -> Coefficients {
        let (red, blue) = match self.matrix {
            Matrix::Bt601 => (0.299, 0.114),
            Matrix::Bt709 => (0.2126, 0.0722),
        };
        let green = 1.0 - red - blue;
        let (black, luma, difference) = if self.full_range { (0, 255.0, 255.0) } else { (16, 219.0, 224.0) };
        let fixed = |v: f64| (v * 65536.0).round() as i32;
        let (from_red, from_blue) =
            (255.0 / difference * 2.0 * (1.0 - red), 255.0 / difference * 2.0 * (1.0 - blue));
        Coefficients {
            black,
            luma: fixed(255.0 / luma),
            red: fixed(from_red),
            green: [fixed(from_blue * blue / green), fixed(from_red * red / green)],
            blue: fixed(from_blue),
        }
    }
}

impl Stream {
    /// Enqueue making a picture at byte `to_at` of `to` from NV12 whose luma begins at byte `from_at` of `from`.
    /// One launch; nothing is allocated.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for rows or places that make no sense, are not aligned, overlap or lie outside
    /// the memory; a lost device.
    pub fn nv12_to_picture(
        &self,
        how: &Nv12ToPicture,
        from: &DeviceBuffer,
        from_at: usize,
        to: &DeviceBuffer,
        to_at: usize,
    ) -> Result<()> {
        let extents = how.extents()?;
        check_places(CALL, (from, from_at, extents.from, 1), (to, to_at, extents.to, 4))?;
        if extents.to == 0 {
            return Ok(());
        }
        let (Some(grid), Some(height), Some(width)) =
            (lines(how.height, how.width), small(how.height), small(how.width))
        else {
            return Err(too_large(how.height, how.width));
        };
        let Coefficients { black, luma, red, green, blue } = how.coefficients();
        let mut args = Vec::with_capacity(14);
        args.extend([Arg::Device(from, from_at), Arg::Device(to, to_at), Arg::U32(height), Arg::U32(width)]);
        args.extend([how.y_row, how.chroma_at, how.chroma_row, how.to_row].map(|n| Arg::U64(n as u64)));
        args.extend([black, luma, red, green[0], green[1], blue].map(Arg::I32));
        // SAFETY: the arguments are those of the kernel in picture.cu, and both ends were checked to lie inside
        // their memory.
        unsafe { self.launch_builtin(Kernel::Nv12ToPicture, grid, &args) }
    }
}
