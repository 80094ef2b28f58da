//! The CUDA device: the same calls, handed to the driver.

use super::hazard::Checker;
use super::{Access, Backend, Buffer, Device, Stream};
use crate::error::{Error, ErrorKind, Result};
use framelane_cuda::{Context, CudaError, DeviceInfo, Kind, Place};
use std::ops::Range;
use std::sync::Arc;

/// The CUDA devices of this machine, in the driver's order.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if there is no driver, or an old one; the sentence says what to do.
pub fn cuda_devices() -> Result<Vec<DeviceInfo>> {
    framelane_cuda::devices().map_err(Error::from)
}

/// One access of a kernel enqueued with [`Stream::launch_on_cuda`]: the memory, and which bytes of it.
pub type CudaPlace<'a> = (Place<'a>, Range<usize>);

impl Device {
    /// The CUDA device `ordinal`, as `nvidia-smi -L` or `CUDA_VISIBLE_DEVICES` count them. The driver is loaded at
    /// the first call and must be one for CUDA 12.0 or newer; no other device is touched.
    ///
    /// Its primary context is shared with whatever else uses CUDA in this process, and any thread may call. This
    /// library's kernels are loaded into it now, which makes the driver wait for all work on the device. Open a
    /// device once and clone the handle: two handles of two calls have counters of their own
    /// ([`Device::counters`]). With `FRAMELANE_CHECK=1` in the
    /// environment the hazard check is on, as in [`Device::cuda_checked`].
    ///
    /// The driver maps all streams of a process onto 8 queues of the hardware, or as many as
    /// `CUDA_DEVICE_MAX_CONNECTIONS` in the environment says (32 at most): of streams that share one, work that waits
    /// holds up the others' too. With more than 8 streams at work at once, set it, before anything in the process
    /// has called CUDA.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] without a driver or with an old one, [`ErrorKind::Argument`] if there is no
    /// such device, [`ErrorKind::Device`] if it is busy or full. One sentence each, and the next call works.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        Self::open(ordinal, Checker::if_asked())
    }

    /// As [`Device::cuda`], with the hazard check on: a call that would break an ordering rule fails with
    /// [`ErrorKind::Hazard`], whatever the timing happened to be. Work that other libraries enqueue by
    /// themselves is not seen.
    ///
    /// # Errors
    /// As [`Device::cuda`].
    pub fn cuda_checked(ordinal: u32) -> Result<Self> {
        Self::open(ordinal, Some(Checker::default()))
    }

    fn open(ordinal: u32, checker: Option<Checker>) -> Result<Self> {
        let context = Context::open(ordinal)?;
        // Now, not at the first launch in the middle of a run: loading makes the driver wait for all work on the
        // device, and for ever if some of it waits for the thread that loads.
        context.load_kernels()?;
        Ok(Self::with(Backend::Cuda(context), checker))
    }

    /// The driver's context, if this is a CUDA device.
    pub fn cuda_context(&self) -> Option<&Context> {
        match &self.inner.backend {
            Backend::Cuda(context) => Some(context),
            Backend::Host | Backend::Simulated(_) => None,
        }
    }

    /// Device memory that is there already: a graphics API's ([`framelane_cuda::DeviceBuffer::import`]), or another
    /// library's.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if it is not of this device.
    pub fn buffer_from_cuda(&self, memory: framelane_cuda::DeviceBuffer) -> Result<Buffer> {
        if !self.cuda_context().is_some_and(|context| context.same(memory.context())) {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("memory of {:?} is not memory of {self:?}", memory.context()),
            ));
        }
        Ok(Buffer::over_cuda(self, memory))
    }

    /// A stream over one that is there already: another library's ([`framelane_cuda::Stream::from_raw`]), or
    /// one with a priority.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if it is not of this device.
    pub fn stream_from_cuda(
        &self,
        name: impl Into<Arc<str>>,
        stream: framelane_cuda::Stream,
    ) -> Result<Stream> {
        let name = name.into();
        if !self.cuda_context().is_some_and(|context| context.same(stream.context())) {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("stream {name:?} of {:?} is not a stream of {self:?}", stream.context()),
            ));
        }
        Ok(Stream::over_cuda(self, name, stream))
    }
}

impl Stream {
    /// Enqueue work on a CUDA device. `enqueue` is called now, once, with the driver's stream and the memory
    /// of `accesses` in their order; it enqueues kernels, graphs or calls of other libraries that touch those
    /// bytes and no others.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on other devices: [`Stream::launch`] is theirs. [`ErrorKind::Argument`] for
    /// accesses that make no sense; [`ErrorKind::Hazard`] if the check is on and they are not ordered after
    /// earlier work; then nothing was enqueued. What `enqueue` returns.
    pub fn launch_on_cuda(
        &self,
        name: impl Into<Arc<str>>,
        accesses: &[Access<'_>],
        enqueue: impl FnOnce(&framelane_cuda::Stream, &[CudaPlace<'_>]) -> framelane_cuda::Result<()>,
    ) -> Result<()> {
        let name = name.into();
        let Some(stream) = self.cuda() else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "kernel {name:?} is CUDA's, and stream {:?} is on {:?}: launch a host kernel there",
                    self.name(),
                    self.device()
                ),
            ));
        };
        self.check(&name, accesses)?;
        let places: Vec<CudaPlace<'_>> =
            accesses.iter().filter_map(|a| Some((a.buffer.cuda()?, a.range.clone()))).collect();
        let tell_memory = || {
            places.iter().try_for_each(|(place, _)| match place {
                Place::Device(memory) => memory.used_on(stream),
                Place::Pinned(_) => Ok(()),
            })
        };
        // Before and after: a foreign stream's use ends where it is told, not where it began.
        tell_memory()?;
        enqueue(stream, &places).map_err(|e| Error::from(e).context(format!("kernel {name:?}")))?;
        tell_memory()?;
        self.count_kernel();
        Ok(())
    }
}

impl Buffer {
    /// The device's address of CUDA memory, for other libraries and for graphs; none on other devices.
    ///
    /// What they enqueue must lie between a [`crate::Batch::on`] of their stream and the end of that batch, or
    /// be named with [`Stream::launch_on_cuda`].
    pub fn cuda_address(&self) -> Option<u64> {
        self.cuda().map(|place| match place {
            Place::Device(memory) => memory.pointer(),
            Place::Pinned(memory) => memory.as_ptr() as u64,
        })
    }
}

impl From<CudaError> for Error {
    fn from(error: CudaError) -> Self {
        let kind = match error.kind() {
            Kind::NoDriver | Kind::OldDriver | Kind::Unsupported => ErrorKind::Unsupported,
            Kind::NoDevice | Kind::Argument => ErrorKind::Argument,
            Kind::InUse => ErrorKind::Hazard,
            _ => ErrorKind::Device,
        };
        Error::new(kind, error.to_string())
    }
}
