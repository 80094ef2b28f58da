//! Device memory: only work on streams touches it.

use super::{Resource, Use};
use crate::context::{Context, lock};
use crate::error::{CudaError, Kind, Result, check};
use crate::event::{Event, EventOptions};
use crate::graph;
use crate::stream::{self, Stream};
use cudarc::driver::sys::CUdeviceptr;
use std::any::Any;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// A piece of device memory; clones are the same memory. Its address never changes.
///
/// The last drop never waits: the memory goes back when all streams that used it through this crate are past
/// their work. Work that other libraries enqueue must be over, or fenced into a stream used here, by then.
#[derive(Clone)]
pub struct DeviceBuffer {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    pointer: CUdeviceptr,
    bytes: usize,
    /// Taken by the destructor. None for a buffer of 0 bytes.
    resource: Option<Resource>,
    /// Where the memory becomes valid, if it was allocated in a stream's order.
    ready: Option<(Arc<stream::Inner>, Event)>,
    uses: Mutex<Vec<Use>>,
}

impl DeviceBuffer {
    /// `bytes` zeroed bytes, aligned to at least 256, usable on any stream at once. Waits for the driver
    /// (some µs, more for much memory), but not for work on streams; if the memory is full it waits for
    /// memory already dropped, and tries once more.
    ///
    /// # Errors
    /// [`Kind::OutOfMemory`].
    pub fn new(context: &Context, bytes: usize) -> Result<Self> {
        let inner = &context.inner;
        inner.reap();
        let (pointer, resource) =
            with_room(context, bytes, || allocate(context, bytes, inner.alloc_stream.0))?;
        let buffer = Self::wrap(context, pointer, bytes, resource, None);
        if bytes > 0 {
            let _current = context.enter()?;
            // SAFETY: the range was just allocated, in this stream's order.
            check("cuMemsetD8Async", unsafe {
                (inner.api.cuMemsetD8Async)(pointer, 0, bytes, inner.alloc_stream.0)
            })?;
            // SAFETY: the stream is ours and carries allocations alone.
            check("cuStreamSynchronize", unsafe { (inner.api.cuStreamSynchronize)(inner.alloc_stream.0) })?;
        }
        Ok(buffer)
    }

    /// `bytes` bytes of unspecified content, allocated in the order of `stream`: nothing waits on the CPU.
    /// Other streams that use it wait for `stream` to reach this point. For scratch memory.
    ///
    /// # Errors
    /// [`Kind::OutOfMemory`]; [`Kind::Capture`] during a capture.
    pub fn on(stream: &Stream, bytes: usize) -> Result<Self> {
        let context = stream.context();
        context.inner.reap();
        let current = context.enter()?;
        if stream.inner().is_capturing() {
            return Err(CudaError::refused(
                Kind::Capture,
                "DeviceBuffer::on",
                "memory cannot be allocated on a stream that is being captured: allocate it before",
            ));
        }
        let (pointer, resource) = with_room(context, bytes, || allocate(context, bytes, stream.raw()))?;
        drop(current);
        let ready = stream.record()?;
        let buffer = Self::wrap(context, pointer, bytes, resource, Some((stream.inner().clone(), ready)));
        buffer.used(stream)?;
        Ok(buffer)
    }

    /// Memory of another library. `owner` keeps it alive and is dropped, on any thread, when the streams that
    /// used the memory through this crate are past their work.
    ///
    /// # Safety
    /// - `pointer..pointer + bytes` is device memory that `context`'s device can reach, until `owner` is dropped.
    /// - Streams used with it wait for the work of others on it first.
    pub unsafe fn from_raw(
        context: &Context,
        pointer: CUdeviceptr,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self::wrap(context, pointer, bytes, Some(Resource::Keep(owner)), None)
    }

    pub(crate) fn wrap(
        context: &Context,
        pointer: CUdeviceptr,
        bytes: usize,
        resource: Option<Resource>,
        ready: Option<(Arc<stream::Inner>, Event)>,
    ) -> Self {
        let uses = Mutex::default();
        Self { inner: Arc::new(Inner { context: context.clone(), pointer, bytes, resource, ready, uses }) }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.inner.bytes
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device's address, for other libraries. Work that they enqueue is not known here: see the type's page.
    pub fn pointer(&self) -> CUdeviceptr {
        self.inner.pointer
    }

    /// Its device's context.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Whether both are one piece of memory.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Tell that `stream` will use, or has used, this memory in a way this crate does not see: a foreign
    /// kernel, or another library's call. For foreign streams call it after that work was enqueued.
    ///
    /// # Errors
    /// [`Kind::Capture`] if another thread captures the stream; a lost device.
    pub fn used_on(&self, stream: &Stream) -> Result<()> {
        self.before(stream)?;
        self.used(stream)
    }

    /// Before work that uses the memory is enqueued on `stream`.
    pub(crate) fn before(&self, stream: &Stream) -> Result<()> {
        let inner = stream.inner();
        inner.check_capturer("use of device memory")?;
        if graph::keep(self) {
            return Ok(());
        }
        if inner.foreign && inner.is_capturing() {
            return Err(CudaError::refused(
                Kind::Capture,
                "use of device memory",
                "a stream that another library is capturing cannot be used here: the graph would not keep the memory alive",
            ));
        }
        match &self.inner.ready {
            Some((origin, event)) if !Arc::ptr_eq(origin, inner) && !event.known_done() => stream.wait(event),
            _ => Ok(()),
        }
    }

    /// After work that uses the memory was enqueued on `stream`.
    pub(crate) fn used(&self, stream: &Stream) -> Result<()> {
        if graph::is_capturing_here() {
            return Ok(());
        }
        let inner = stream.inner();
        let mut uses = lock(&self.inner.uses);
        if uses.iter().any(|u| matches!(u, Use::Stream(s) if s.same(inner))) {
            return Ok(());
        }
        if uses.len() >= PRUNE_AT {
            prune(&mut uses)?;
        }
        uses.push(match inner.foreign {
            true => Use::Event(inner.record(EventOptions::default())?),
            false => Use::Stream(inner.clone()),
        });
        Ok(())
    }
}

/// A buffer that outlives its streams must not collect them.
const PRUNE_AT: usize = 8;

fn prune(uses: &mut Vec<Use>) -> Result<()> {
    for one in uses.iter_mut() {
        if let Use::Stream(stream) = one
            && stream.abandoned.load(Ordering::Acquire)
        {
            *one = Use::Event(stream.record(EventOptions::default())?);
        }
    }
    let mut failed = Ok(());
    uses.retain(|one| match one {
        Use::Event(event) => !event.is_done().unwrap_or_else(|e| {
            failed = Err(e);
            false
        }),
        Use::Stream(_) => true,
    });
    failed
}

fn allocate(
    context: &Context,
    bytes: usize,
    stream: cudarc::driver::sys::CUstream,
) -> Result<(CUdeviceptr, Option<Resource>)> {
    if bytes == 0 {
        return Ok((0, None));
    }
    let inner = &context.inner;
    let _current = context.enter()?;
    let mut pointer: CUdeviceptr = 0;
    if let Some(pool) = inner.pool {
        // SAFETY: writes one address; pool and stream are of the current context.
        check("cuMemAllocFromPoolAsync", unsafe {
            (inner.api.cuMemAllocFromPoolAsync)(&mut pointer, bytes, pool.0, stream)
        })?;
        return Ok((pointer, Some(Resource::Pooled(pointer))));
    }
    // SAFETY: writes one address.
    check("cuMemAlloc_v2", unsafe { (inner.api.cuMemAlloc_v2)(&mut pointer, bytes) })?;
    Ok((pointer, Some(Resource::Device(pointer))))
}

/// Allocate; if there is no room, wait for memory already dropped and try once more.
fn with_room<T>(context: &Context, bytes: usize, allocate: impl Fn() -> Result<T>) -> Result<T> {
    let full = |e: &CudaError| e.kind() == Kind::OutOfMemory;
    allocate()
        .or_else(|e| {
            if !full(&e) {
                return Err(e);
            }
            context.inner.settle()?;
            allocate()
        })
        .map_err(|e| {
            if !full(&e) {
                return e;
            }
            let ordinal = context.info().ordinal;
            let room =
                context.memory().map_or(String::new(), |m| format!(" ({} of {} free)", m.free, m.total));
            e.saying(format!(
                "cuda:{ordinal} has no room for {bytes} bytes{room}: use less, or end what else runs there"
            ))
        })
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(resource) = self.resource.take() {
            let uses = std::mem::take(self.uses.get_mut().unwrap_or_else(|e| e.into_inner()));
            self.context.inner.retire(resource, uses);
        }
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({:?}, {:#x}, {} bytes)", self.context(), self.pointer(), self.len())
    }
}
