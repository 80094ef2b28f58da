//! A delay, a checksum and a pattern: what tests and benchmarks of ordering need.

use super::Kernel;
use crate::error::{CudaError, Result};
use crate::launch::{Arg, Grid};
use crate::memory::{DeviceBuffer, check_range};
use crate::stream::Stream;
use std::ops::Range;
use std::time::Duration;

const THREADS: u32 = 256;

fn grid(bytes: usize) -> Grid {
    // A few words a thread, and never so many blocks that starting them costs more than their work.
    let blocks = (bytes / 8).div_ceil(4 * THREADS as usize).clamp(1, 2048);
    Grid::line(blocks as u32, THREADS)
}

impl Stream {
    /// Enqueue a kernel of one thread that runs for this long by the GPU's clock (which ticks in steps of up to
    /// a µs).
    ///
    /// # Errors
    /// A lost device.
    pub fn spin(&self, time: Duration) -> Result<()> {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the argument is the kernel's, and it touches no memory.
        unsafe { self.launch_builtin(Kernel::Spin, Grid::line(1, 1), &[Arg::U64(nanoseconds)]) }
    }

    /// Enqueue a checksum of the bytes `range` of `data` ([`super::twin::checksum`]) into the 8 bytes at `at` of `sum`.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for places outside the memory, or `at` not a multiple of 8; a lost device.
    pub fn checksum(
        &self,
        data: &DeviceBuffer,
        range: Range<usize>,
        sum: &DeviceBuffer,
        at: usize,
    ) -> Result<()> {
        check_range("checksum", &range, data.len())?;
        check_range("checksum", &(at..at.saturating_add(8)), sum.len())?;
        if !at.is_multiple_of(8) {
            return Err(CudaError::argument("checksum", format!("byte {at} is not a multiple of 8")));
        }
        if data.same(sum) && range.start < at + 8 && at < range.end {
            return Err(CudaError::argument("checksum", "the sum lies inside what is summed"));
        }
        self.fill(sum, at..at + 8, 0)?;
        let bytes = Arg::U64(range.len() as u64);
        let args = [Arg::Device(data, range.start), bytes, Arg::Device(sum, at)];
        // SAFETY: the arguments are the kernel's, and both places were checked.
        unsafe { self.launch_builtin(Kernel::Checksum, grid(range.len()), &args) }
    }

    /// Enqueue filling the bytes `range` of `data` with the pattern of `seed` ([`super::twin::pattern`]).
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for a range outside the memory; a lost device.
    pub fn pattern(&self, data: &DeviceBuffer, range: Range<usize>, seed: u64) -> Result<()> {
        check_range("pattern", &range, data.len())?;
        let args = [Arg::Device(data, range.start), Arg::U64(range.len() as u64), Arg::U64(seed)];
        // SAFETY: the arguments are the kernel's, and the range was checked.
        unsafe { self.launch_builtin(Kernel::Pattern, grid(range.len()), &args) }
    }
}
