//! Images of bytes to images of floats and back, on the device.

use super::Kernel;
use super::ends::{Extents, check_places, lines, small};
use crate::error::{CudaError, Result};
use crate::launch::Arg;
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

/// A type of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float {
    /// 4 bytes.
    F32,
    /// IEEE half precision, 2 bytes.
    F16,
    /// The upper half of an f32, 2 bytes.
    BF16,
}

impl Float {
    /// Bytes of one.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }
}

/// A batch of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Images.
    pub images: usize,
    /// Rows of an image.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Numbers of a pixel, 1 to 4.
    pub channels: usize,
}

/// Distances, in elements, from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strides {
    /// Images.
    pub image: usize,
    /// Rows.
    pub row: usize,
    /// Pixels of a row.
    pub pixel: usize,
    /// Channels of a pixel.
    pub channel: usize,
}

impl Strides {
    /// Pixels side by side, channels inside (HWC), no gaps.
    pub const fn hwc(shape: Shape) -> Self {
        let row = shape.width * shape.channels;
        Self { image: row * shape.height, row, pixel: shape.channels, channel: 1 }
    }

    /// One plane a channel (CHW), no gaps.
    pub const fn chw(shape: Shape) -> Self {
        let plane = shape.width * shape.height;
        Self { image: plane * shape.channels, row: shape.width, pixel: 1, channel: plane }
    }

    /// Elements from the first to just after the last one touched; `None` if that overflows.
    pub(super) fn extent(&self, shape: &Shape, channels: usize) -> Option<usize> {
        let last = |count: usize, stride: usize| count.checked_sub(1)?.checked_mul(stride);
        last(shape.images, self.image)?
            .checked_add(last(shape.height, self.row)?)?
            .checked_add(last(shape.width, self.pixel)?)?
            .checked_add(last(channels, self.channel)?)?
            .checked_add(1)
    }
}

/// What becomes of each channel's numbers: `v * scale + bias`, product and sum each rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    /// A factor per channel.
    pub scale: [f32; 4],
    /// What is added, per channel.
    pub bias: [f32; 4],
}

impl Affine {
    /// Nothing changes.
    pub const SAME: Self = Self { scale: [1.0; 4], bias: [0.0; 4] };
    /// 0…255 to 0…1.
    pub const TO_UNIT: Self = Self { scale: [1.0 / 255.0; 4], bias: [0.0; 4] };
    /// 0…1 to 0…255.
    pub const FROM_UNIT: Self = Self { scale: [255.0; 4], bias: [0.0; 4] };

    /// 0…255 to `(v / 255 - mean) / std`, within rounding.
    pub fn normalised(mean: [f32; 4], std: [f32; 4]) -> Self {
        let mut affine = Self::SAME;
        for c in 0..4 {
            affine.scale[c] = (1.0 / (255.0 * f64::from(std[c]))) as f32;
            affine.bias[c] = (-f64::from(mean[c]) / f64::from(std[c])) as f32;
        }
        affine
    }
}

/// From bytes to floats.
///
/// Results are rounded to nearest, ties to even; NaN (from a scale or bias that is not finite) is the one with
/// all bits below the sign set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToFloats {
    /// What is there.
    pub shape: Shape,
    /// Where the bytes are.
    pub from: Strides,
    /// Where the floats go.
    pub to: Strides,
    /// What they become.
    pub float: Float,
    /// What happens on the way.
    pub affine: Affine,
}

/// From floats to bytes.
///
/// After the affine step, numbers are clamped to 0…255 and rounded to nearest, ties to even; NaN becomes 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToBytes {
    /// What is there; `channels` are the floats'.
    pub shape: Shape,
    /// Where the floats are.
    pub from: Strides,
    /// Where the bytes go.
    pub to: Strides,
    /// What they are.
    pub float: Float,
    /// Channels written: as many as there are, or 4 for 3, where the fourth becomes 255 (opaque).
    pub written: usize,
    /// What happens on the way.
    pub affine: Affine,
}

const CALL: &str = "convert";

impl ToFloats {
    /// # Errors
    /// [`crate::Kind::Argument`].
    pub(super) fn extents(&self) -> Result<Extents> {
        let channels = self.shape.channels;
        extents(&self.shape, (&self.from, channels, 1), (&self.to, channels, self.float.size()))
    }
}

impl ToBytes {
    /// # Errors
    /// [`crate::Kind::Argument`].
    pub(super) fn extents(&self) -> Result<Extents> {
        let (channels, written) = (self.shape.channels, self.written);
        if written != channels && (channels, written) != (3, 4) {
            return Err(CudaError::argument(
                CALL,
                format!("{channels} channels cannot become {written}: as many, or 4 from 3"),
            ));
        }
        extents(&self.shape, (&self.from, channels, self.float.size()), (&self.to, written, 1))
    }
}

impl Shape {
    /// Whether there is nothing to convert.
    pub(super) fn is_empty(&self) -> bool {
        self.images == 0 || self.height == 0 || self.width == 0
    }
}

/// A side: its strides, its channels, bytes of one element.
type Side<'a> = (&'a Strides, usize, usize);

fn extents(shape: &Shape, from: Side<'_>, to: Side<'_>) -> Result<Extents> {
    if !(1..=4).contains(&shape.channels) {
        let channels = shape.channels;
        return Err(CudaError::argument(
            CALL,
            format!("images of 1 to 4 channels can be converted, not {channels}"),
        ));
    }
    if shape.is_empty() {
        return Ok(Extents { from: 0, to: 0 });
    }
    let bytes = |(strides, channels, size): Side<'_>| {
        let extent = strides.extent(shape, channels).and_then(|e| e.checked_mul(size));
        extent.ok_or_else(|| CudaError::argument(CALL, "the strides reach beyond the address space"))
    };
    // Two pixels in one place would make the result depend on which thread is last.
    check_apart(shape, to.0, to.1)?;
    Ok(Extents { from: bytes(from)?, to: bytes(to)? })
}

/// Each stride of the target, from the smallest up, must step over all that the smaller ones reach.
fn check_apart(shape: &Shape, to: &Strides, channels: usize) -> Result<()> {
    let mut steps =
        [(to.image, shape.images), (to.row, shape.height), (to.pixel, shape.width), (to.channel, channels)];
    steps.sort_unstable();
    let mut reach = 0usize;
    for (stride, count) in steps.into_iter().filter(|(_, count)| *count > 1) {
        if stride <= reach {
            return Err(CudaError::argument(CALL, "the target's strides let two elements share a place"));
        }
        reach = stride.saturating_mul(count - 1).saturating_add(reach);
    }
    Ok(())
}

impl Stream {
    /// Enqueue a conversion of the images at byte `from_at` of `from` to byte `to_at` of `to`.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for shapes, strides or places that make no sense or lie outside the memory; a lost
    /// device.
    pub fn to_floats(
        &self,
        how: &ToFloats,
        from: &DeviceBuffer,
        from_at: usize,
        to: &DeviceBuffer,
        to_at: usize,
    ) -> Result<()> {
        let extents = how.extents()?;
        check_places(CALL, (from, from_at, extents.from, 1), (to, to_at, extents.to, how.float.size()))?;
        let ends = [Arg::Device(from, from_at), Arg::Device(to, to_at)];
        let (bytes, planes) =
            (Packed::of(&how.from, from, from_at), Planes::of(&how.to, to, to_at, how.float));
        if how.shape.channels == 3 && bytes.fits(3) && planes.fits() {
            let kernel = match how.float {
                Float::F32 => Kernel::BytesToF32Planes,
                Float::F16 => Kernel::BytesToF16Planes,
                Float::BF16 => Kernel::BytesToBf16Planes,
            };
            let strides = [how.from.image, how.from.row, how.to.image, how.to.row, how.to.channel];
            return self.convert(kernel, &how.shape, Some(4), ends, &[], &strides, &how.affine);
        }
        let kernel = match how.float {
            Float::F32 => Kernel::BytesToF32,
            Float::F16 => Kernel::BytesToF16,
            Float::BF16 => Kernel::BytesToBf16,
        };
        let channels = [how.shape.channels];
        self.convert(kernel, &how.shape, None, ends, &channels, &both(&how.from, &how.to), &how.affine)
    }

    /// As [`Stream::to_floats`], the other way.
    ///
    /// # Errors
    /// As [`Stream::to_floats`].
    pub fn to_bytes(
        &self,
        how: &ToBytes,
        from: &DeviceBuffer,
        from_at: usize,
        to: &DeviceBuffer,
        to_at: usize,
    ) -> Result<()> {
        let extents = how.extents()?;
        check_places(CALL, (from, from_at, extents.from, how.float.size()), (to, to_at, extents.to, 1))?;
        let ends = [Arg::Device(from, from_at), Arg::Device(to, to_at)];
        let (planes, bytes) =
            (Planes::of(&how.from, from, from_at, how.float), Packed::of(&how.to, to, to_at));
        if how.shape.channels == 3 && bytes.fits(how.written) && planes.fits() {
            let kernel = match how.float {
                Float::F32 => Kernel::F32PlanesToBytes,
                Float::F16 => Kernel::F16PlanesToBytes,
                Float::BF16 => Kernel::Bf16PlanesToBytes,
            };
            let strides = [how.from.image, how.from.row, how.from.channel, how.to.image, how.to.row];
            return self.convert(kernel, &how.shape, Some(4), ends, &[how.written], &strides, &how.affine);
        }
        let kernel = match how.float {
            Float::F32 => Kernel::F32ToBytes,
            Float::F16 => Kernel::F16ToBytes,
            Float::BF16 => Kernel::Bf16ToBytes,
        };
        let counts = [how.shape.channels, how.written];
        self.convert(kernel, &how.shape, None, ends, &counts, &both(&how.from, &how.to), &how.affine)
    }

    /// `quad`: each thread does four pixels of three channels.
    #[allow(clippy::too_many_arguments)]
    fn convert(
        &self,
        kernel: Kernel,
        shape: &Shape,
        quad: Option<usize>,
        ends: [Arg<'_>; 2],
        counts: &[usize],
        strides: &[usize],
        affine: &Affine,
    ) -> Result<()> {
        if shape.is_empty() {
            return Ok(());
        }
        let columns = shape.width.div_ceil(quad.unwrap_or(1));
        let grid = shape.images.checked_mul(shape.height).and_then(|n| lines(n, columns));
        let (Some(grid), Some(height), Some(width)) = (grid, small(shape.height), small(shape.width)) else {
            return Err(CudaError::argument(CALL, format!("a batch of {shape:?} is too large for one call")));
        };
        let mut args = Vec::with_capacity(24);
        args.extend(ends);
        args.extend([height, width].map(Arg::U32));
        args.extend(counts.iter().map(|c| Arg::U32(*c as u32)));
        args.extend(strides.iter().map(|s| Arg::U64(*s as u64)));
        let channels = if quad.is_some() { 3 } else { 4 };
        args.extend(affine.scale[..channels].iter().chain(&affine.bias[..channels]).map(|v| Arg::F32(*v)));
        // SAFETY: the arguments are those of the kernels in convert.cu, and both ends were checked to lie inside
        // their memory.
        unsafe { self.launch_builtin(kernel, grid, &args) }
    }
}

fn both(from: &Strides, to: &Strides) -> [usize; 8] {
    [from.image, from.row, from.pixel, from.channel, to.image, to.row, to.pixel, to.channel]
}

/// Bytes as the kernels for four pixels a thread want them: pixels side by side, rows on whole words.
struct Packed<'a> {
    strides: &'a Strides,
    start: u64,
}

impl<'a> Packed<'a> {
    fn of(strides: &'a Strides, buffer: &DeviceBuffer, at: usize) -> Self {
        Self { strides, start: buffer.pointer() + at as u64 }
    }

    /// `channels` is 3, or 4 (then four pixels are stored at once).
    fn fits(&self, channels: usize) -> bool {
        let word = if channels == 4 { 16 } else { 4 };
        let Strides { image, row, pixel, channel } = *self.strides;
        let whole =
            self.start.is_multiple_of(word as u64) && image.is_multiple_of(word) && row.is_multiple_of(word);
        whole && pixel == channels && channel == 1
    }
}

/// Planes as those kernels want them: four pixels of a row are aligned together.
struct Planes<'a> {
    strides: &'a Strides,
    aligned: bool,
}

impl<'a> Planes<'a> {
    fn of(strides: &'a Strides, buffer: &DeviceBuffer, at: usize, float: Float) -> Self {
        let aligned = (buffer.pointer() + at as u64).is_multiple_of(4 * float.size() as u64);
        Self { strides, aligned }
    }

    fn fits(&self) -> bool {
        let Strides { image, row, pixel, channel } = *self.strides;
        self.aligned && pixel == 1 && [image, row, channel].iter().all(|s| s.is_multiple_of(4))
    }
}
