//! Memory that two processes map, as a device's streams reach it: so a GPU tells another process what it has done.

use super::{DeviceBuffer, Resource, check_range};
use crate::api::Api;
use crate::context::Context;
use crate::error::{CudaError, Kind, Result, check};
use crate::graph;
use crate::mapped::Mapped;
use crate::stream::Stream;
use std::ffi::c_void;
use std::sync::Arc;

impl DeviceBuffer {
    /// Memory that two processes map, as kernels of `context`'s device and [`Stream::write_value`] reach it. It is
    /// locked in memory, and stays mapped here until the streams that used it are past their work.
    ///
    /// The CPU goes on to see it as [`Mapped::words`]. Nothing orders the two but a value that the stream writes last.
    ///
    /// # Errors
    /// [`Kind::OutOfMemory`] if the system does not let so much memory be locked; [`Kind::Other`] if it is a device's
    /// already; [`Kind::Unsupported`] where the driver reaches no memory that others made.
    pub fn over_mapped(context: &Context, memory: Arc<Mapped>) -> Result<Self> {
        const FOR_DEVICE: u32 = 2;
        let (api, bytes) = (context.inner.api, memory.bytes());
        context.inner.reap();
        let _current = context.enter()?;
        // SAFETY: the range is mapped, readable and writable, and stays so until it is unregistered: `memory` is let go
        // after that. All in this process reach it as atomics, so that what a device writes is another number in a word.
        check("cuMemHostRegister_v2", unsafe {
            (api.cuMemHostRegister_v2)(start(&memory), bytes, FOR_DEVICE)
        })?;
        let mut pointer = 0;
        // SAFETY: writes one address; the range was just registered for devices.
        let found = check("cuMemHostGetDevicePointer_v2", unsafe {
            (api.cuMemHostGetDevicePointer_v2)(&mut pointer, start(&memory), 0)
        });
        if let Err(error) = found {
            // The error that led here is the one to tell.
            let _ = unregister(api, &memory);
            return Err(error);
        }
        Ok(Self::wrap(context, pointer, bytes, Some(Resource::Registered(memory)), None))
    }
}

fn start(memory: &Mapped) -> *mut c_void {
    memory.words().as_ptr().cast_mut().cast()
}

/// No stream uses it any more; the context is current.
pub(super) fn unregister(api: &Api, memory: &Mapped) -> Result<()> {
    // SAFETY: registered once, and mapped still.
    check("cuMemHostUnregister", unsafe { (api.cuMemHostUnregister)(start(memory)) })
}

impl Stream {
    /// Write `value` into the 8 bytes at byte `at` of `to` once the work enqueued so far is done: who sees the value,
    /// on the CPU, in another process or on another device, sees all that this work wrote. The calling thread does not
    /// wait.
    ///
    /// # Errors
    /// [`Kind::Argument`] for bytes outside the memory or no multiple of 8, or memory of another device;
    /// [`Kind::Capture`] during a capture; a lost device.
    pub fn write_value(&self, to: &DeviceBuffer, at: usize, value: u64) -> Result<()> {
        /// With a memory barrier of the whole system before the value, in the stream's order.
        const AFTER_ALL_ELSE: u32 = 0;
        const CALL: &str = "write_value";
        check_range(CALL, &(at..at.saturating_add(size_of::<u64>())), to.len())?;
        if !at.is_multiple_of(size_of::<u64>()) {
            return Err(CudaError::argument(CALL, format!("byte {at} is where no value of 8 bytes begins")));
        }
        self.check_device(CALL, to)?;
        if graph::is_capturing_here() || self.inner().is_capturing() {
            return Err(CudaError::refused(
                Kind::Capture,
                CALL,
                "a value cannot be written in a capture: a graph would write the same one again and again",
            ));
        }
        to.before(self)?;
        let current = self.context().enter()?;
        // SAFETY: the address is 8 aligned bytes of live memory, which outlives this stream's work on it.
        check("cuStreamWriteValue64_v2", unsafe {
            (self.api().cuStreamWriteValue64_v2)(self.raw(), to.pointer() + at as u64, value, AFTER_ALL_ELSE)
        })?;
        drop(current);
        to.used(self)
    }
}
