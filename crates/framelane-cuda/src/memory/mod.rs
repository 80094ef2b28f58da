//! Memory that gives itself back when the streams that use it are past it.

mod device;
mod pinned;
#[cfg(unix)]
mod registered;

pub use device::DeviceBuffer;
pub use pinned::{PinnedBuffer, PinnedKind, PinnedRead, PinnedWrite};

use crate::api::Api;
use crate::context::Raw;
use crate::error::{CudaError, Result, check};
use crate::event::{self, Event};
#[cfg(unix)]
use crate::mapped::Mapped;
use crate::reclaim::Spare;
use crate::stream;
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Something to give back to the driver, or to whoever lent it.
pub(crate) enum Resource {
    Pinned(Spare),
    Device(CUdeviceptr),
    /// Device memory from our pool: freed in a stream's order.
    Pooled(CUdeviceptr),
    /// Where memory of a graphics API is mapped, and the import that it is mapped from.
    Imported(CUdeviceptr, Raw<sys::CUextMemory_st>),
    /// A graphics API's semaphore.
    Semaphore(Raw<sys::CUextSemaphore_st>),
    /// Memory that two processes map, registered with the driver; unmapped here once it is not.
    #[cfg(unix)]
    Registered(Arc<Mapped>),
    /// Keeps foreign memory alive; dropped on whichever thread finds that the GPU is done with it.
    Keep(Box<dyn Any + Send + Sync>),
}

impl Resource {
    /// Nothing uses it any more; the context is current.
    pub fn free(self, api: &Api) -> Result<()> {
        match self {
            // SAFETY: allocated by this call's twin, and freed once.
            Self::Pinned(spare) => check("cuMemFreeHost", unsafe { (api.cuMemFreeHost)(spare.pointer.0) }),
            Self::Device(pointer) | Self::Pooled(pointer) => {
                // SAFETY: as above.
                check("cuMemFree_v2", unsafe { (api.cuMemFree_v2)(pointer) })
            }
            Self::Imported(pointer, memory) => {
                // SAFETY: mapped once and unmapped once.
                let unmapped = check("cuMemFree_v2", unsafe { (api.cuMemFree_v2)(pointer) });
                // SAFETY: nothing of it is mapped any more.
                let let_go =
                    check("cuDestroyExternalMemory", unsafe { (api.cuDestroyExternalMemory)(memory.0) });
                unmapped.and(let_go)
            }
            Self::Semaphore(raw) => {
                // SAFETY: no stream uses it any more.
                check("cuDestroyExternalSemaphore", unsafe { (api.cuDestroyExternalSemaphore)(raw.0) })
            }
            #[cfg(unix)]
            Self::Registered(memory) => registered::unregister(api, &memory),
            Self::Keep(owner) => {
                drop(owner);
                Ok(())
            }
        }
    }
}

/// Who used a piece of memory.
pub(crate) enum Use {
    /// A stream of ours: all that is on it when the memory is dropped.
    Stream(Arc<stream::Inner>),
    /// Up to this event. For foreign streams, which may be gone by then.
    Event(Event),
}

impl Use {
    /// A stream that is being captured cannot be asked where it is. (Events cannot have been captured: such
    /// uses are refused.)
    pub fn is_capturing(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.is_capturing())
    }

    /// Whether it is over for sure; asks nobody.
    pub fn is_known_done(&self) -> bool {
        matches!(self, Self::Event(event) if event.known_done())
    }

    /// Make `waiter` wait for the end of this use. The waiter's context is current.
    pub fn before(&self, waiter: CUstream) -> Result<()> {
        match self {
            Self::Stream(stream) => {
                let inner = &stream.context.inner;
                let _current = inner.enter()?;
                let end = inner.events.take(inner.api, event::UNTIMED)?;
                // SAFETY: the event and the stream are alive and of one context.
                check("cuEventRecord", unsafe { (inner.api.cuEventRecord)(end, stream.raw()) })?;
                // SAFETY: both are alive; events of any context can be waited for.
                let waits = unsafe { (inner.api.cuStreamWaitEvent)(waiter, end, 0) };
                inner.events.put(inner.api, end, event::UNTIMED);
                check("cuStreamWaitEvent", waits)
            }
            Self::Event(event) if event.known_done() => Ok(()),
            Self::Event(event) => {
                let api = event.context().inner.api;
                // SAFETY: both are alive.
                check("cuStreamWaitEvent", unsafe { (api.cuStreamWaitEvent)(waiter, event.handle(), 0) })
            }
        }
    }
}

/// # Errors
/// [`crate::Kind::Argument`] if the range is not inside `bytes`.
pub(crate) fn check_range(call: &'static str, range: &Range<usize>, bytes: usize) -> Result<()> {
    if range.start <= range.end && range.end <= bytes {
        return Ok(());
    }
    let (start, end) = (range.start, range.end);
    Err(CudaError::argument(call, format!("bytes {start}..{end} lie outside a buffer of {bytes} bytes")))
}
