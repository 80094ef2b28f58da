//! What all kernels of pictures need before a launch: both ends checked, threads counted.

use crate::error::{CudaError, Result};
use crate::launch::Grid;
use crate::memory::{DeviceBuffer, check_range};
use std::ops::Range;

/// Bytes that a kernel touches, at either end.
pub(super) struct Extents {
    pub from: usize,
    pub to: usize,
}

/// An end: memory, start, bytes, bytes of one element.
pub(super) type End<'a> = (&'a DeviceBuffer, usize, usize, usize);

/// # Errors
/// [`crate::Kind::Argument`] if an end lies outside its memory, is not aligned for its elements, or both overlap.
pub(super) fn check_places(call: &'static str, from: End<'_>, to: End<'_>) -> Result<()> {
    let range = |(buffer, at, bytes, size): End<'_>| -> Result<Range<usize>> {
        let range = at..at.saturating_add(bytes);
        check_range(call, &range, buffer.len())?;
        if !(buffer.pointer() + at as u64).is_multiple_of(size as u64) {
            return Err(CudaError::argument(
                call,
                format!("byte {at} is not aligned for numbers of {size} bytes"),
            ));
        }
        Ok(range)
    };
    let (a, b) = (range(from)?, range(to)?);
    if from.0.same(to.0) && a.start < b.end && b.start < a.end {
        return Err(CudaError::argument(call, "the images and their target overlap"));
    }
    Ok(())
}

/// A number of rows or pixels as kernels take it; `None` if it is too large.
pub(super) fn small(n: usize) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| *n <= i32::MAX as u32)
}

/// Blocks for so many lines of so many threads each; `None` if they are too many for one launch.
pub(super) fn lines(lines: usize, columns: usize) -> Option<Grid> {
    // As many threads as a short row needs, in whole warps.
    let threads = columns.checked_next_multiple_of(32)?.min(256);
    let blocks = lines.checked_mul(columns.div_ceil(threads))?;
    Some(Grid::line(small(blocks)?, threads as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_whole_warps() {
        assert_eq!(lines(3, 1), Some(Grid::line(3, 32)));
        assert_eq!(lines(3, 33), Some(Grid::line(3, 64)));
        assert_eq!(lines(1080, 1920), Some(Grid::line(8640, 256)));
    }

    #[test]
    fn what_no_launch_can_hold_is_told() {
        let most = i32::MAX as usize;
        assert_eq!(small(most), Some(most as u32));
        assert_eq!(small(most + 1), None);
        assert_eq!(lines(most, 256), Some(Grid::line(most as u32, 256)));
        assert_eq!(lines(most, 257), None);
        assert_eq!(lines(usize::MAX, 257), None);
        assert_eq!(lines(1, usize::MAX), None);
    }
}
