//! Memory of a device. On the host both kinds are ordinary memory behind a lock: the lock makes a missing
//! fence a wrong order instead of a data race, so that safe code can show (and tests can catch) the mistake.

use super::{Device, hazard};
use crate::error::{Error, ErrorKind, Result};
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
    data: Arc<RwLock<Vec<u128>>>,
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

impl Buffer {
    pub(super) fn new(device: &Device, bytes: usize, memory: Memory) -> Result<Self> {
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
        device.inner.tally.allocated(memory, bytes);
        let inner = Inner {
            id: device.fresh_id(),
            bytes,
            memory,
            device: device.clone(),
            data: Arc::new(RwLock::new(data)),
        };
        Ok(Self { inner: Arc::new(inner) })
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

    /// Read pinned memory on the CPU, until what is returned is dropped. Waits for work that is writing it at this very moment, but does not
    /// wait for work still enqueued: that is what [`super::Event::synchronize`] is for.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for device memory; [`ErrorKind::Hazard`] if the check is on and enqueued work
    /// that writes these bytes was not waited for. (Launching such work while the CPU still reads fails so, too.)
    pub fn read_host(&self) -> Result<HostRead> {
        let held = self.check_host(hazard::Mode::Read)?;
        Ok(HostRead { guard: self.read_lock(), held })
    }

    /// Write pinned memory on the CPU, until what is returned is dropped.
    ///
    /// # Errors
    /// As [`Buffer::read_host`], for work that reads or writes these bytes.
    pub fn write_host(&self) -> Result<HostWrite> {
        let held = self.check_host(hazard::Mode::Write)?;
        Ok(HostWrite { guard: self.write_lock(), held })
    }

    fn check_host(&self, mode: hazard::Mode) -> Result<Held> {
        if self.inner.memory == Memory::Device {
            return Err(Error::new(
                ErrorKind::Argument,
                "the CPU cannot touch device memory: copy it to pinned memory on a stream first",
            ));
        }
        self.device().jitter();
        if let Some(checker) = &self.device().inner.checker {
            checker.host_access(mode, self.id(), 0..self.len())?;
        }
        Ok(Held { buffer: self.clone(), mode })
    }

    /// Whether it could be locked now.
    pub(super) fn is_free(&self, to_write: bool) -> bool {
        !if to_write { self.inner.data.is_locked() } else { self.inner.data.is_locked_exclusive() }
    }

    pub(super) fn id(&self) -> u64 {
        self.inner.id
    }

    pub(super) fn read_lock(&self) -> ReadGuard {
        self.inner.data.read_arc()
    }

    pub(super) fn write_lock(&self) -> WriteGuard {
        self.inner.data.write_arc()
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
    guard: ReadGuard,
    held: Held,
}

impl Deref for HostRead {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(self.guard.as_slice())[..self.held.buffer.len()]
    }
}

/// Pinned memory, writable by the CPU while this lives.
pub struct HostWrite {
    guard: WriteGuard,
    held: Held,
}

impl Deref for HostWrite {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(self.guard.as_slice())[..self.held.buffer.len()]
    }
}

impl DerefMut for HostWrite {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(self.guard.as_mut_slice())[..self.held.buffer.len()]
    }
}
