//! Page-locked host memory: the CPU and copies touch it, never at the same time.

use super::{Resource, Use};
use crate::context::{Context, Raw, lock};
use crate::error::{CudaError, Kind, Result, check};
use crate::event::Event;
use crate::graph;
use crate::reclaim::Spare;
use crate::stream::Stream;
use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// How the CPU reaches pinned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PinnedKind {
    /// Ordinary cached memory.
    #[default]
    Cached,
    /// Memory that goes around the CPU's caches: for the CPU to write once, front to back. Reading it is
    /// tens of times slower. What it gains depends on the machine: measure.
    WriteCombined,
}

/// A piece of page-locked memory; clones are the same memory. Any device's copies can use it.
///
/// The CPU's views ([`PinnedBuffer::read`], [`PinnedBuffer::write`]) are refused while a copy that this crate
/// enqueued is pending, and copies are refused while a view that they would disturb is alive: nothing here
/// waits. Wait for an event recorded after the copy, then ask.
///
/// The last drop does not wait either: memory whose copies are over is kept for the next allocation, until
/// [`Context::trim`] or the end of the context.
#[derive(Clone)]
pub struct PinnedBuffer {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    pointer: Raw<u8>,
    bytes: usize,
    /// What the driver gave; at least `bytes`.
    room: usize,
    kind: PinnedKind,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    readers: usize,
    writing: bool,
    pending: Vec<Pending>,
}

/// A copy that may not be over.
struct Pending {
    end: Event,
    /// The stream's number: of two copies on one stream, the later is over last.
    stream: u64,
    /// The copy writes this memory.
    writes: bool,
}

const PORTABLE: u32 = 1;
const WRITE_COMBINED: u32 = 4;

impl PinnedBuffer {
    /// `bytes` zeroed bytes, aligned to a page. Slow (about a quarter of a second per GB) unless dropped memory of
    /// about that size is there to be used again: allocate once. If there is no room it waits for the device
    /// and memory already dropped, and tries once more.
    ///
    /// # Errors
    /// [`Kind::OutOfMemory`]: the system has not so much memory that can be locked.
    pub fn new(context: &Context, bytes: usize, kind: PinnedKind) -> Result<Self> {
        context.inner.reap();
        let (pointer, room) = match bytes {
            0 => (std::ptr::dangling_mut(), 0),
            _ => allocate(context, bytes, kind)?,
        };
        // SAFETY: there are at least `bytes` bytes at `pointer`, and nobody else knows them.
        unsafe { pointer.write_bytes(0, bytes) };
        let (context, pointer, state) = (context.clone(), Raw(pointer), Mutex::default());
        Ok(Self { inner: Arc::new(Inner { context, pointer, bytes, room, kind, state }) })
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.inner.bytes
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the CPU reaches it.
    pub fn kind(&self) -> PinnedKind {
        self.inner.kind
    }

    /// The context it was allocated in.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Whether both are one piece of memory.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Where it is, for kernels and other libraries; the address is the same on the device. What touches the
    /// memory through this pointer is not known to the checks here.
    pub fn as_ptr(&self) -> *mut u8 {
        self.inner.pointer.0
    }

    /// The CPU's view, for reading, while what is returned lives.
    ///
    /// # Errors
    /// [`Kind::InUse`] if a copy into this memory is pending, or the CPU is writing it; a lost device.
    pub fn read(&self) -> Result<PinnedRead> {
        let mut state = lock(&self.inner.state);
        state.settle(|p| p.writes)?;
        if state.writing {
            return Err(in_use("PinnedBuffer::read", "the CPU is writing this pinned memory"));
        }
        if state.pending.iter().any(|p| p.writes) {
            return Err(in_use("PinnedBuffer::read", "a copy into this pinned memory is pending"));
        }
        state.readers += 1;
        Ok(PinnedRead { buffer: self.clone() })
    }

    /// The CPU's view, for writing, while what is returned lives.
    ///
    /// # Errors
    /// [`Kind::InUse`] if a copy into or out of this memory is pending, or the CPU is using it; a lost device.
    pub fn write(&self) -> Result<PinnedWrite> {
        let mut state = lock(&self.inner.state);
        state.settle(|_| true)?;
        if state.writing || state.readers > 0 {
            return Err(in_use("PinnedBuffer::write", "the CPU is using this pinned memory"));
        }
        if !state.pending.is_empty() {
            return Err(in_use("PinnedBuffer::write", "a copy of this pinned memory is pending"));
        }
        state.writing = true;
        Ok(PinnedWrite { buffer: self.clone() })
    }

    /// Enqueue a copy on `stream` with `enqueue`, if the CPU is not in its way; its end is remembered.
    pub(crate) fn copying(
        &self,
        stream: &Stream,
        writes: bool,
        enqueue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        stream.inner().check_capturer("copy")?;
        if graph::is_capturing_here() || stream.inner().is_capturing() {
            return Err(CudaError::refused(
                Kind::Capture,
                "copy",
                "copies of pinned memory cannot be captured: a graph would repeat them when nobody expects it",
            ));
        }
        let mut state = lock(&self.inner.state);
        if state.writing || (writes && state.readers > 0) {
            return Err(in_use("copy", "the CPU is using this pinned memory: end its view first"));
        }
        enqueue()?;
        let end = match stream.record() {
            Ok(end) => end,
            // The copy is on its way and its end cannot be told: only the stream's can.
            Err(error) => return stream.synchronize().and(Err(error)),
        };
        let stream = stream.inner().id;
        match state.pending.iter_mut().find(|p| p.stream == stream && p.writes == writes) {
            Some(pending) => pending.end = end,
            None => state.pending.push(Pending { end, stream, writes }),
        }
        if state.pending.len() > 8 {
            state.settle(|_| true)?;
        }
        Ok(())
    }
}

/// Where, and how much.
fn allocate(context: &Context, bytes: usize, kind: PinnedKind) -> Result<(*mut u8, usize)> {
    if let Some(spare) = context.inner.take_spare(bytes, kind) {
        return Ok((spare.pointer.0.cast(), spare.bytes));
    }
    let flags = match kind {
        PinnedKind::Cached => PORTABLE,
        PinnedKind::WriteCombined => PORTABLE | WRITE_COMBINED,
    };
    let ask = || {
        let _current = context.enter()?;
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        check("cuMemHostAlloc", unsafe { (context.inner.api.cuMemHostAlloc)(&mut pointer, bytes, flags) })?;
        Ok((pointer.cast(), bytes))
    };
    let full = |e: &CudaError| e.kind() == Kind::OutOfMemory;
    let first = ask();
    let second = match first {
        Err(e) if full(&e) => context.inner.settle().and_then(|()| ask()),
        first => first,
    };
    second.map_err(|e| match full(&e) {
        true => e.saying(format!(
            "there is no room for {bytes} bytes of pinned memory: use less, or raise the limit of locked memory"
        )),
        false => e,
    })
}

impl State {
    /// Forget the copies chosen that are over.
    fn settle(&mut self, chosen: impl Fn(&Pending) -> bool) -> Result<()> {
        let mut failed = Ok(());
        self.pending.retain(|p| {
            !chosen(p)
                || !p.end.is_done().unwrap_or_else(|e| {
                    failed = Err(e);
                    false
                })
        });
        failed
    }
}

fn in_use(call: &'static str, what: &str) -> CudaError {
    CudaError::refused(Kind::InUse, call, format!("{what}: wait for the event recorded after it"))
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let pending = std::mem::take(&mut self.state.get_mut().unwrap_or_else(|e| e.into_inner()).pending);
        let uses = pending.into_iter().map(|p| Use::Event(p.end)).collect();
        let spare = Spare { pointer: Raw(self.pointer.0.cast()), bytes: self.room, kind: self.kind };
        self.context.inner.retire(Resource::Pinned(spare), uses);
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({} bytes, {:?})", self.len(), self.kind())
    }
}

/// Pinned memory, readable by the CPU while this lives.
pub struct PinnedRead {
    buffer: PinnedBuffer,
}

impl Deref for PinnedRead {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let inner = &self.buffer.inner;
        // SAFETY: the memory was zeroed when made and lives as long as `buffer`. While this is counted among
        // the readers no view for writing is given out and no copy into it is enqueued; when it was counted,
        // none was pending.
        unsafe { std::slice::from_raw_parts(inner.pointer.0, inner.bytes) }
    }
}

impl Drop for PinnedRead {
    fn drop(&mut self) {
        lock(&self.buffer.inner.state).readers -= 1;
    }
}

/// Pinned memory, writable by the CPU while this lives.
pub struct PinnedWrite {
    buffer: PinnedBuffer,
}

impl Deref for PinnedWrite {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let inner = &self.buffer.inner;
        // SAFETY: as for `deref_mut`; `&self` lends it shared.
        unsafe { std::slice::from_raw_parts(inner.pointer.0, inner.bytes) }
    }
}

impl DerefMut for PinnedWrite {
    fn deref_mut(&mut self) -> &mut [u8] {
        let inner = &self.buffer.inner;
        // SAFETY: the memory was zeroed when made and lives as long as `buffer`. `writing` is set: no other view
        // is given out and no copy is enqueued; when it was set, there was none.
        unsafe { std::slice::from_raw_parts_mut(inner.pointer.0, inner.bytes) }
    }
}

impl Drop for PinnedWrite {
    fn drop(&mut self) {
        lock(&self.buffer.inner.state).writing = false;
    }
}
