//! Copies and fills, enqueued on a stream.

use crate::activity::ours;
use crate::context::Context;
use crate::error::{CudaError, Result, check};
use crate::memory::{DeviceBuffer, PinnedBuffer, check_range};
use crate::stream::Stream;
use cudarc::driver::sys::CUdeviceptr;
use std::ops::Range;

/// Memory at one end of a copy.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// Pinned host memory.
    Pinned(&'a PinnedBuffer),
    /// Device memory.
    Device(&'a DeviceBuffer),
}

impl<'a> From<&'a PinnedBuffer> for Place<'a> {
    fn from(buffer: &'a PinnedBuffer) -> Self {
        Self::Pinned(buffer)
    }
}

impl<'a> From<&'a DeviceBuffer> for Place<'a> {
    fn from(buffer: &'a DeviceBuffer) -> Self {
        Self::Device(buffer)
    }
}

impl Place<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Pinned(buffer) => buffer.len(),
            Self::Device(buffer) => buffer.len(),
        }
    }

    /// The address that both the host and the device know it by.
    fn address(&self) -> CUdeviceptr {
        match self {
            Self::Pinned(buffer) => buffer.as_ptr() as CUdeviceptr,
            Self::Device(buffer) => buffer.pointer(),
        }
    }

    fn is_on(&self, context: &Context) -> bool {
        match self {
            Self::Pinned(_) => true,
            Self::Device(buffer) => buffer.context().same(context),
        }
    }
}

impl Stream {
    /// Enqueue a copy of the bytes `range` of `from` to `to`, starting at byte `at`: host to device, device to
    /// host, within either, or between two devices (this stream must be of one of them).
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for ranges outside the memory, overlap, or memory of another device than the
    /// stream's; [`crate::Kind::InUse`] if the CPU is using pinned memory at an end; [`crate::Kind::Capture`] for
    /// pinned memory in a capture; a lost device. Nothing was enqueued.
    pub fn copy<'a>(
        &self,
        from: impl Into<Place<'a>>,
        range: Range<usize>,
        to: impl Into<Place<'a>>,
        at: usize,
    ) -> Result<()> {
        let (from, to) = (from.into(), to.into());
        let bytes = range.len();
        check_range("copy", &range, from.len())?;
        check_range("copy", &(at..at.saturating_add(bytes)), to.len())?;
        if bytes == 0 {
            return Ok(());
        }
        let (source, target) = (from.address() + range.start as u64, to.address() + at as u64);
        if source < target + bytes as u64 && target < source + bytes as u64 {
            return Err(CudaError::argument("copy", "the two ends of the copy overlap"));
        }
        self.check_devices(&from, &to)?;
        // Once for all the calls below.
        let _current = self.context().enter()?;
        let ends = Ends { source, target, bytes };
        match (from, to) {
            (Place::Pinned(a), Place::Device(b)) => {
                b.before(self)?;
                a.copying(self, false, || self.enqueue_upload(ends))?;
                b.used(self)
            }
            (Place::Device(a), Place::Pinned(b)) => {
                a.before(self)?;
                b.copying(self, true, || self.enqueue_download(ends))?;
                a.used(self)
            }
            (Place::Pinned(a), Place::Pinned(b)) if a.same(b) => {
                a.copying(self, true, || self.enqueue_any(ends))
            }
            (Place::Pinned(a), Place::Pinned(b)) => {
                // Two copies in opposite directions at once must not wait for each other's locks in a circle.
                if source < target {
                    a.copying(self, false, || b.copying(self, true, || self.enqueue_any(ends)))
                } else {
                    b.copying(self, true, || a.copying(self, false, || self.enqueue_any(ends)))
                }
            }
            (Place::Device(a), Place::Device(b)) => {
                a.before(self)?;
                b.before(self)?;
                if a.context().same(b.context()) {
                    self.enqueue_within(ends)?;
                } else {
                    self.enqueue_peer(ends, b.context(), a.context())?;
                }
                a.used(self)?;
                b.used(self)
            }
        }
    }

    /// Enqueue filling the bytes `range` of `buffer` with `value`.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for a range outside the memory or memory of another device; a lost device.
    pub fn fill(&self, buffer: &DeviceBuffer, range: Range<usize>, value: u8) -> Result<()> {
        self.fill_by("fill", buffer, range, |start, bytes| {
            // SAFETY: the range is inside live memory, which outlives this stream's work on it.
            check("cuMemsetD8Async", unsafe { (self.api().cuMemsetD8Async)(start, value, bytes, self.raw()) })
        })
    }

    /// Enqueue filling the bytes `range` of `buffer`, whole words, with the word `value`.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for a range outside the memory or of no whole words, or memory of another device; a
    /// lost device.
    pub fn fill_words(&self, buffer: &DeviceBuffer, range: Range<usize>, value: u32) -> Result<()> {
        if !range.start.is_multiple_of(4) || !range.len().is_multiple_of(4) {
            let (start, end) = (range.start, range.end);
            return Err(CudaError::argument(
                "fill_words",
                format!("bytes {start}..{end} are no whole words"),
            ));
        }
        self.fill_by("fill_words", buffer, range, |start, bytes| {
            // SAFETY: the range is inside live memory, which outlives this stream's work on it.
            check("cuMemsetD32Async", unsafe {
                (self.api().cuMemsetD32Async)(start, value, bytes / 4, self.raw())
            })
        })
    }

    /// `enqueue` is given the address and how many bytes, with the context current.
    fn fill_by(
        &self,
        call: &'static str,
        buffer: &DeviceBuffer,
        range: Range<usize>,
        enqueue: impl FnOnce(u64, usize) -> Result<()>,
    ) -> Result<()> {
        check_range(call, &range, buffer.len())?;
        if range.is_empty() {
            return Ok(());
        }
        self.check_device(call, buffer)?;
        buffer.before(self)?;
        let current = self.context().enter()?;
        enqueue(buffer.pointer() + range.start as u64, range.len())?;
        drop(current);
        buffer.used(self)
    }

    /// # Errors
    /// [`crate::Kind::Argument`] if the memory is not the stream's device's.
    pub(crate) fn check_device(&self, call: &'static str, buffer: &DeviceBuffer) -> Result<()> {
        if buffer.context().same(self.context()) {
            return Ok(());
        }
        let (ours, theirs) = (self.context().info().ordinal, buffer.context().info().ordinal);
        Err(CudaError::argument(
            call,
            format!("a stream of cuda:{ours} was given memory of cuda:{theirs}: copy it over first"),
        ))
    }

    fn check_devices(&self, from: &Place<'_>, to: &Place<'_>) -> Result<()> {
        match (from, to) {
            (Place::Device(a), Place::Device(_)) if !to.is_on(self.context()) => self.check_device("copy", a),
            (Place::Device(_), Place::Device(_)) => Ok(()),
            (Place::Device(a), _) | (_, Place::Device(a)) => self.check_device("copy", a),
            _ => Ok(()),
        }
    }

    fn enqueue_upload(&self, ends: Ends) -> Result<()> {
        let _current = self.context().enter()?;
        let Ends { source, target, bytes } = ends;
        let source = source as usize as *const std::ffi::c_void;
        // SAFETY: both ends are inside live memory that waits for this stream before it goes, and the CPU does
        // not write the source until the copy is over.
        let enqueue = || unsafe { (self.api().cuMemcpyHtoDAsync_v2)(target, source, bytes, self.raw()) };
        check("cuMemcpyHtoDAsync_v2", ours(enqueue))
    }

    fn enqueue_download(&self, ends: Ends) -> Result<()> {
        let _current = self.context().enter()?;
        let Ends { source, target, bytes } = ends;
        let target = target as usize as *mut std::ffi::c_void;
        // SAFETY: as for the upload; the CPU has no view of the target until the copy is over.
        let enqueue = || unsafe { (self.api().cuMemcpyDtoHAsync_v2)(target, source, bytes, self.raw()) };
        check("cuMemcpyDtoHAsync_v2", ours(enqueue))
    }

    fn enqueue_any(&self, ends: Ends) -> Result<()> {
        let _current = self.context().enter()?;
        let Ends { source, target, bytes } = ends;
        // SAFETY: as for the upload and the download.
        let enqueue = || unsafe { (self.api().cuMemcpyAsync)(target, source, bytes, self.raw()) };
        check("cuMemcpyAsync", ours(enqueue))
    }

    fn enqueue_within(&self, ends: Ends) -> Result<()> {
        let _current = self.context().enter()?;
        let Ends { source, target, bytes } = ends;
        // SAFETY: both ends are inside live device memory that waits for this stream before it goes.
        check("cuMemcpyDtoDAsync_v2", unsafe {
            (self.api().cuMemcpyDtoDAsync_v2)(target, source, bytes, self.raw())
        })
    }

    fn enqueue_peer(&self, ends: Ends, to: &Context, from: &Context) -> Result<()> {
        let _current = self.context().enter()?;
        let Ends { source, target, bytes } = ends;
        let (to, from) = (to.raw(), from.raw());
        // SAFETY: as within one device; both contexts are alive.
        check("cuMemcpyPeerAsync", unsafe {
            (self.api().cuMemcpyPeerAsync)(target, to, source, from, bytes, self.raw())
        })
    }
}

#[derive(Clone, Copy)]
struct Ends {
    source: CUdeviceptr,
    target: CUdeviceptr,
    bytes: usize,
}
