//! Any tensor of numbers to a picture for a display, on the device.

use super::ends::{Extents, check_places, lines, small};
use super::{Kernel, Shape, Strides};
use crate::error::{CudaError, Result};
use crate::launch::Arg;
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

/// The numbers of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// A byte.
    U8,
    /// IEEE half precision, 2 bytes.
    F16,
    /// The upper half of an f32, 2 bytes.
    BF16,
    /// 4 bytes.
    F32,
}

impl Element {
    /// Bytes of one.
    pub const fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
        }
    }
}

/// How one channel is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Colours {
    /// From black to white.
    Grey,
    /// Dark violet, blue, green, yellow: matplotlib's map, as light as the number is large.
    Viridis,
    /// Blue, green, yellow, red: Google's map, which tells more steps apart.
    Turbo,
}

/// The order of the colours of 3 or 4 channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Red first.
    Rgb,
    /// Blue first.
    Bgr,
}

/// From numbers to a picture of RGBA8, four bytes a pixel, opaque.
///
/// A number becomes `v * scale + bias`, product and sum each rounded to f32, where 255 / (high − low) and
/// −low · 255 / (high − low) are rounded to f32 once; then it is clamped to 0…255 and rounded to nearest, ties to
/// even. So bytes from 0 to 255 stay what they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToPicture {
    /// Rows.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Numbers of a pixel: 1, 3 or 4. The fourth is not looked at.
    pub channels: usize,
    /// What they are.
    pub element: Element,
    /// Elements of the source from row to row.
    pub row: usize,
    /// Elements of the source from pixel to pixel.
    pub pixel: usize,
    /// Elements of the source from channel to channel.
    pub channel: usize,
    /// What is shown as black, or as a map's first colour.
    pub low: f32,
    /// What is shown as white, or as a map's last colour; less than `low` for a negative.
    pub high: f32,
    /// Colours of a single channel.
    pub colours: Colours,
    /// Order of three or four.
    pub order: Order,
    /// Make visible what cannot be shown: NaN is magenta, what is beyond `high` (as seen from `low`) red, what is
    /// beyond `low` blue; of several colours in a pixel, whichever comes first here. Without it numbers are
    /// clamped, and NaN is 0 of 255.
    pub mark: bool,
    /// Bytes of the target from row to row: a multiple of 4. What lies between rows is not touched.
    pub to_row: usize,
}

pub(super) const CALL: &str = "picture";

impl ToPicture {
    /// Channels that are looked at.
    fn seen(&self) -> usize {
        self.channels.min(3)
    }

    /// Whether it makes sense: what would be refused where it is enqueued.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`].
    pub fn check(&self) -> Result<()> {
        self.extents().map(|_| ())
    }

    /// # Errors
    /// [`crate::Kind::Argument`].
    pub(super) fn extents(&self) -> Result<Extents> {
        let channels = self.channels;
        if !matches!(channels, 1 | 3 | 4) {
            return Err(CudaError::argument(
                CALL,
                format!("a picture has 1, 3 or 4 channels, not {channels}"),
            ));
        }
        self.check_range()?;
        if self.height == 0 || self.width == 0 {
            return Ok(Extents { from: 0, to: 0 });
        }
        let shape = Shape { images: 1, height: self.height, width: self.width, channels: self.seen() };
        let strides = Strides { image: 0, row: self.row, pixel: self.pixel, channel: self.channel };
        let from = strides.extent(&shape, self.seen()).and_then(|e| e.checked_mul(self.element.size()));
        let to = target(self.height, self.width, self.to_row)?;
        Ok(Extents { from: from.ok_or_else(too_far)?, to })
    }

    fn check_range(&self) -> Result<()> {
        let (low, high) = (self.low, self.high);
        let sentence = if !low.is_finite() || !high.is_finite() {
            format!("the range from {low} to {high} has no end: both ends must be finite")
        } else if low == high {
            format!("the range from {low} to {high} is empty: its ends must differ")
        } else if !self.affine().0.is_finite() {
            format!("the range from {low} to {high} is too narrow to be spread over 255 steps")
        } else {
            return Ok(());
        };
        Err(CudaError::argument(CALL, sentence))
    }

    /// Scale and bias that take `low` to 0 and `high` to 255.
    pub(super) fn affine(&self) -> (f32, f32) {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let scale = 255.0 / (high - low);
        (scale as f32, (-low * scale) as f32)
    }
}

/// Bytes of a picture of RGBA8, from its first to just after its last.
///
/// # Errors
/// [`crate::Kind::Argument`] for rows that overlap or are not on whole words.
pub(super) fn target(height: usize, width: usize, to_row: usize) -> Result<usize> {
    let row = width.checked_mul(4).ok_or_else(too_far)?;
    if !to_row.is_multiple_of(4) || to_row < row {
        return Err(CudaError::argument(
            CALL,
            format!("rows of {width} pixels cannot be {to_row} bytes apart: a multiple of 4, at least {row}"),
        ));
    }
    (height - 1).checked_mul(to_row).and_then(|n| n.checked_add(row)).ok_or_else(too_far)
}

pub(super) fn too_far() -> CudaError {
    CudaError::argument(CALL, "the strides reach beyond the address space")
}

pub(super) fn too_large(height: usize, width: usize) -> CudaError {
    CudaError::argument(CALL, format!("a picture of {width}×{height} is too large for one call"))
}

/// Which kernel does it.
#[derive(Clone, Copy, PartialEq)]
enum Path {
    /// A pixel a thread, any strides.
    Any,
    /// Four pixels a thread, each channel's numbers side by side.
    Planes,
    /// Four pixels a thread, of three bytes side by side.
    Packed,
}

impl Stream {
    /// Enqueue making a picture at byte `to_at` of `to` from the numbers at byte `from_at` of `from`. One launch;
    /// nothing is allocated.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for channels, ranges, strides or places that make no sense, are not aligned,
    /// overlap or lie outside the memory; a lost device.
    pub fn to_picture(
        &self,
        how: &ToPicture,
        from: &DeviceBuffer,
        from_at: usize,
        to: &DeviceBuffer,
        to_at: usize,
    ) -> Result<()> {
        let extents = how.extents()?;
        check_places(CALL, (from, from_at, extents.from, how.element.size()), (to, to_at, extents.to, 4))?;
        if extents.to == 0 {
            return Ok(());
        }
        let path = how.path(from.pointer() + from_at as u64, to.pointer() + to_at as u64);
        let columns = if path == Path::Any { how.width } else { how.width.div_ceil(4) };
        let (Some(grid), Some(height), Some(width)) =
            (lines(how.height, columns), small(how.height), small(how.width))
        else {
            return Err(too_large(how.height, how.width));
        };
        let (scale, bias) = how.affine();
        let mut args = Vec::with_capacity(16);
        args.extend([Arg::Device(from, from_at), Arg::Device(to, to_at), Arg::U32(height), Arg::U32(width)]);
        if path != Path::Packed {
            args.push(Arg::U32(how.channels as u32));
        }
        let strides = match path {
            Path::Any => &[how.row, how.pixel, how.channel, how.to_row][..],
            Path::Planes => &[how.row, how.channel, how.to_row],
            Path::Packed => &[how.row, how.to_row],
        };
        args.extend(strides.iter().map(|s| Arg::U64(*s as u64)));
        args.extend([scale, bias, how.low, how.high].map(Arg::F32));
        if path != Path::Packed {
            args.push(Arg::U64(self.context().builtin()?.colours(how.colours)));
        }
        args.extend([how.order == Order::Bgr, how.mark].map(|yes| Arg::U32(yes.into())));
        // SAFETY: the arguments are those of the kernels in picture.cu; both ends were checked to lie inside their
        // memory, and the colours live as long as the kernels.
        unsafe { self.launch_builtin(how.kernel(path), grid, &args) }
    }
}

impl ToPicture {
    /// `from` and `to` are addresses.
    fn path(&self, from: u64, to: u64) -> Path {
        let planes = if self.seen() == 1 { [self.row, 0] } else { [self.row, self.channel] };
        let four = 4 * self.element.size() as u64;
        let whole = from.is_multiple_of(four) && planes.iter().all(|s| s.is_multiple_of(4));
        if !to.is_multiple_of(16) || !self.to_row.is_multiple_of(16) {
            Path::Any
        } else if self.pixel == 1 && whole {
            Path::Planes
        } else if (self.channels, self.element, self.pixel, self.channel) == (3, Element::U8, 3, 1)
            && from.is_multiple_of(4)
            && self.row.is_multiple_of(4)
        {
            Path::Packed
        } else {
            Path::Any
        }
    }

    fn kernel(&self, path: Path) -> Kernel {
        match (path, self.element) {
            (Path::Packed, _) => Kernel::PackedToPicture,
            (Path::Any, Element::U8) => Kernel::U8ToPicture,
            (Path::Any, Element::F16) => Kernel::F16ToPicture,
            (Path::Any, Element::BF16) => Kernel::Bf16ToPicture,
            (Path::Any, Element::F32) => Kernel::F32ToPicture,
            (Path::Planes, Element::U8) => Kernel::U8PlanesToPicture,
            (Path::Planes, Element::F16) => Kernel::F16PlanesToPicture,
            (Path::Planes, Element::BF16) => Kernel::Bf16PlanesToPicture,
            (Path::Planes, Element::F32) => Kernel::F32PlanesToPicture,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOW: ToPicture = ToPicture {
        height: 4,
        width: 8,
        channels: 3,
        element: Element::F32,
        row: 8,
        pixel: 1,
        channel: 32,
        low: 0.0,
        high: 1.0,
        colours: Colours::Grey,
        order: Order::Rgb,
        mark: false,
        to_row: 32,
    };

    #[test]
    fn dense_cases_take_the_fast_path() {
        let path = |how: ToPicture, from, to| how.path(from, to);
        assert!(path(HOW, 256, 512) == Path::Planes);
        assert!(path(HOW, 256 + 4, 512) == Path::Any);
        assert!(path(HOW, 256, 512 + 4) == Path::Any);
        assert!(path(ToPicture { to_row: 36, ..HOW }, 256, 512) == Path::Any);
        assert!(path(ToPicture { row: 9, ..HOW }, 256, 512) == Path::Any);
        assert!(path(ToPicture { channel: 33, ..HOW }, 256, 512) == Path::Any);
        assert!(path(ToPicture { channel: 33, channels: 1, ..HOW }, 256, 512) == Path::Planes);
        let half = ToPicture { element: Element::F16, ..HOW };
        assert!(path(half, 8, 512) == Path::Planes);
        let packed = ToPicture { element: Element::U8, row: 24, pixel: 3, channel: 1, ..HOW };
        assert!(path(packed, 4, 16) == Path::Packed);
        assert!(path(packed, 2, 16) == Path::Any);
        assert!(path(ToPicture { row: 26, ..packed }, 4, 16) == Path::Any);
        assert!(path(ToPicture { channels: 4, pixel: 4, ..packed }, 4, 16) == Path::Any);
        assert!(path(ToPicture { element: Element::F32, ..packed }, 16, 16) == Path::Any);
    }

    #[test]
    fn extents_reach_to_the_last_number_seen() {
        let extents = HOW.extents().unwrap();
        assert_eq!((extents.from, extents.to), (4 * 96, 128));
        let four = ToPicture { channels: 4, row: 32, pixel: 4, channel: 1, to_row: 40, ..HOW };
        let extents = four.extents().unwrap();
        assert_eq!((extents.from, extents.to), (4 * 127, 3 * 40 + 32));
    }
}
