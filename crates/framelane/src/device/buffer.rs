//! Memory of a device. On the host both kinds are ordinary memory behind a lock: the lock makes a missing
//! fence a wrong order instead of a data race, so that safe code can show (and tests can catch) the mistake.
//! On CUDA the driver's memory knows its pending copies, and refuses what would race with them.

use super::{Device, Event, hazard};
use crate::error::{Error, ErrorKind, Result};
use framelane_cuda::{DeviceBuffer, PinnedBuffer, PinnedKind, PinnedRead, PinnedWrite, Place};
use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, RawRwLock, RwLock};
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// Kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Page-locked host memory: the CPU and copies may touch it.
    Pinned,
    /// The device's own memory: only work on streams may touch it.
    Device,
}

/// A piece of memory; clones are the same memory.
#[derive(Clone)]
pub struct Buffer {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    bytes: usize,
    memory: Memory,
    device: Device,
    data: Data,
}

enum Data {
    Host(Arc<RwLock<Vec<u128>>>),
    CudaPinned(PinnedBuffer),
    CudaDevice(DeviceBuffer),
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.device.inner.tally.freed(self.memory, self.bytes);
        if let Some(checker) = &self.device.inner.checker {
            checker.freed(self.id);
        }
    }
}

pub(super) type ReadGuard = ArcRwLockReadGuard<RawRwLock, Vec<u128>>;
pub(super) type WriteGuard = ArcRwLockWriteGuard<RawRwLock, Vec<u128>>;

const WORD: usize = size_of::<u128>();

/// Zeroed memory of the process; spoiled on the simulated device.
fn host_words(device: &Device, bytes: usize, memory: Memory) -> Result<Vec<u128>> {
    let words = bytes.div_ceil(WORD);
    let mut data: Vec<u128> = Vec::new();
    data.try_reserve_exact(words).map_err(|e| {
        Error::new(ErrorKind::Device, format!("there is no room for {bytes} bytes of {memory:?} memory"))
            .because(e)
    })?;
    data.resize(words, 0);
    if device.scheduler().is_some() {
        bytemuck::cast_slice_mut(&mut data).fill(super::sim::POISON);
    }
    Ok(data)
}

impl Buffer {
    pub(super) fn new(device: &Device, bytes: usize, memory: Memory) -> Result<Self> {
        let data = match (device.cuda_context(), memory) {
            (None, _) => Data::Host(Arc::new(RwLock::new(host_words(device, bytes, memory)?))),
            (Some(context), Memory::Pinned) => {
                Data::CudaPinned(PinnedBuffer::new(context, bytes, PinnedKind::Cached)?)
            }
            (Some(context), Memory::Device) => Data::CudaDevice(DeviceBuffer::new(context, bytes)?),
        };
        device.inner.tally.allocated(memory, bytes);
        let inner = Inner { id: device.fresh_id(), bytes, memory, device: device.clone(), data };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Over memory of the driver's that is there already. It is counted as the device's from here on.
    pub(super) fn over_cuda(device: &Device, memory: DeviceBuffer) -> Self {
        let bytes = memory.len();
        device.inner.tally.allocated(Memory::Device, bytes);
        let data = Data::CudaDevice(memory);
        let inner =
            Inner { id: device.fresh_id(), bytes, memory: Memory::Device, device: device.clone(), data };
        Self { inner: Arc::new(inner) }
    }

    /// Whether both are one piece of memory.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.inner.bytes
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Kind of memory.
    pub fn memory(&self) -> Memory {
        self.inner.memory
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Read pinned memory on the CPU, until what is returned is dropped. Does not wait for work still enqueued:
    /// that is what [`super::Event::synchronize`] is for. (On the host device it waits for work that is writing
    /// the memory at this very moment.)
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for device memory. [`ErrorKind::Hazard`] if enqueued work that writes these bytes
    /// was not waited for: always on CUDA while a copy is pending, otherwise if the check is on. (Launching
    /// such work while the CPU still reads fails so, too.)
    pub fn read_host(&self) -> Result<HostRead> {
        let held = self.check_host(hazard::Mode::Read, &[])?;
        let view = match &self.inner.data {
            Data::Host(data) => ReadView::Host(data.read_arc()),
            Data::CudaPinned(memory) => ReadView::Cuda(memory.read()?),
            Data::CudaDevice(_) => unreachable!("refused above"),
        };
        Ok(HostRead { view, held })
    }

    /// Write pinned memory on the CPU, until what is returned is dropped.
    ///
    /// # Errors
    /// As [`Buffer::read_host`], for work that reads or writes these bytes.
    pub fn write_host(&self) -> Result<HostWrite> {
        self.write_host_after(&[])
    }

    /// As [`Buffer::write_host`], for a caller that has seen these events reached and tells nobody.
    pub(crate) fn write_host_after(&self, reached: &[Event]) -> Result<HostWrite> {
        let held = self.check_host(hazard::Mode::Write, reached)?;
        let view = match &self.inner.data {
            Data::Host(data) => WriteView::Host(data.write_arc()),
            Data::CudaPinned(memory) => WriteView::Cuda(memory.write()?),
            Data::CudaDevice(_) => unreachable!("refused above"),
        };
        Ok(HostWrite { view, held })
    }

    fn check_host(&self, mode: hazard::Mode, reached: &[Event]) -> Result<Held> {
        if self.inner.memory == Memory::Device {
            return Err(Error::new(
                ErrorKind::Argument,
                "the CPU cannot touch device memory: copy it to pinned memory on a stream first",
            ));
        }
        self.device().jitter();
        if let Some(checker) = &self.device().inner.checker {
            let known = reached.iter().filter_map(Event::clock);
            checker.host_access(mode, self.id(), 0..self.len(), known)?;
        }
        Ok(Held { buffer: self.clone(), mode })
    }

    /// Whether it could be locked now. Only work of the host's devices asks.
    pub(super) fn is_free(&self, to_write: bool) -> bool {
        match &self.inner.data {
            Data::Host(data) if to_write => !data.is_locked(),
            Data::Host(data) => !data.is_locked_exclusive(),
            Data::CudaPinned(_) | Data::CudaDevice(_) => true,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.inner.id
    }

    /// The host's lock. Work of the host's devices has been checked to use their memory alone.
    pub(super) fn host(&self) -> &Arc<RwLock<Vec<u128>>> {
        match &self.inner.data {
            Data::Host(data) => data,
            Data::CudaPinned(_) | Data::CudaDevice(_) => unreachable!("memory of another device was refused"),
        }
    }

    /// The driver's memory, on CUDA.
    pub(super) fn cuda(&self) -> Option<Place<'_>> {
        match &self.inner.data {
            Data::Host(_) => None,
            Data::CudaPinned(memory) => Some(Place::Pinned(memory)),
            Data::CudaDevice(memory) => Some(Place::Device(memory)),
        }
    }

    pub(super) fn check_range(&self, range: &Range<usize>) -> Result<()> {
        if range.start > range.end || range.end > self.len() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("bytes {}..{} lie outside a buffer of {} bytes", range.start, range.end, self.len()),
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer#{}({} bytes, {:?})", self.id(), self.len(), self.memory())
    }
}

/// The CPU's use of a buffer: the memory counts as held, and the hazard check as touched, until it ends.
struct Held {
    buffer: Buffer,
    mode: hazard::Mode,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(checker) = &self.buffer.device().inner.checker {
            checker.host_done(self.mode, self.buffer.id());
        }
    }
}

/// Pinned memory, readable by the CPU while this lives.
pub struct HostRead {
    // Before `held`: the view ends first.
    view: ReadView,
    held: Held,
}

enum ReadView {
    Host(ReadGuard),
    Cuda(PinnedRead),
}

impl Deref for HostRead {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.view {
            ReadView::Host(words) => &bytemuck::cast_slice(words.as_slice())[..self.held.buffer.len()],
            ReadView::Cuda(bytes) => bytes,
        }
    }
}

/// Pinned memory, writable by the CPU while this lives.
pub struct HostWrite {
    view: WriteView,
    held: Held,
}

enum WriteView {
    Host(WriteGuard),
    Cuda(PinnedWrite),
}

impl Deref for HostWrite {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.view {
            WriteView::Host(words) => &bytemuck::cast_slice(words.as_slice())[..self.held.buffer.len()],
            WriteView::Cuda(bytes) => bytes,
        }
    }
}

impl DerefMut for HostWrite {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.view {
            WriteView::Host(words) => {
                &mut bytemuck::cast_slice_mut(words.as_mut_slice())[..self.held.buffer.len()]
            }
            WriteView::Cuda(bytes) => bytes,
        }
    }
}
