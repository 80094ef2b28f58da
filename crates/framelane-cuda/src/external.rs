//! Memory and semaphores that a graphics API made and exported, opened for CUDA.

use crate::context::{Context, Raw};
use crate::error::{CudaError, Kind, Result, check};
use crate::memory::{DeviceBuffer, Resource};
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUexternalMemory, CUexternalSemaphore};
use std::fmt;

/// What the other API exported: on Unix a file descriptor ("opaque fd").
#[cfg(unix)]
pub type Exported = std::os::fd::OwnedFd;
/// What the other API exported: on Windows a handle ("opaque Win32").
#[cfg(windows)]
pub type Exported = std::os::windows::io::OwnedHandle;

#[cfg(unix)]
mod types {
    use cudarc::driver::sys::{CUexternalMemoryHandleType as M, CUexternalSemaphoreHandleType as S};
    pub const MEMORY: M = M::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    pub const TIMELINE: S = S::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
}

#[cfg(windows)]
mod types {
    use cudarc::driver::sys::{CUexternalMemoryHandleType as M, CUexternalSemaphoreHandleType as S};
    pub const MEMORY: M = M::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
    pub const TIMELINE: S = S::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32;
}

impl DeviceBuffer {
    /// Memory that another API exported, seen through CUDA: the first `bytes` of an allocation of `allocated`.
    /// `dedicated`: the allocation was made for one buffer alone.
    ///
    /// The allocation lives until both sides have let it go, in whatever order. What the other side does with it is
    /// not ordered with work on streams here: that takes events that the CPU asks, or a [`Timeline`].
    ///
    /// # Errors
    /// [`Kind::Argument`] for an allocation of this kind that the driver does not know (another GPU's, another
    /// driver's); [`Kind::Unsupported`] where the driver shares nothing. No error is left behind for the next call.
    ///
    /// # Safety
    /// `exported` is an allocation of at least `allocated` bytes of device memory, exported by a graphics API.
    pub unsafe fn import(
        context: &Context,
        exported: Exported,
        allocated: usize,
        bytes: usize,
        dedicated: bool,
    ) -> Result<Self> {
        const DEDICATED: u32 = 1;
        const CALL: &str = "cuImportExternalMemory";
        if bytes == 0 || bytes > allocated {
            return Err(CudaError::argument(
                CALL,
                format!("{bytes} bytes cannot be mapped of an allocation of {allocated}"),
            ));
        }
        let api = context.inner.api;
        let _current = context.enter()?;
        let mut description = sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
            type_: types::MEMORY,
            // SAFETY: plain numbers and pointers, for all of which zero is a value.
            handle: unsafe { std::mem::zeroed() },
            size: allocated as u64,
            flags: if dedicated { DEDICATED } else { 0 },
            reserved: [0; 16],
        };
        let lent = Lent::new(exported);
        #[cfg(unix)]
        (description.handle.fd = lent.number());
        #[cfg(windows)]
        (description.handle.win32.handle = lent.number());
        let mut memory: CUexternalMemory = std::ptr::null_mut();
        // SAFETY: writes one handle; the description is whole, and the caller vouches for what it names.
        check(CALL, unsafe { (api.cuImportExternalMemory)(&mut memory, &description) }).map_err(refused)?;
        // Whatever fails from here on, its destructor lets the import go.
        let memory = Import { api, memory };
        let part = sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
            offset: 0,
            size: bytes as u64,
            flags: 0,
            reserved: [0; 16],
        };
        let mut pointer = 0;
        // SAFETY: writes one address; the memory was just imported, and the part lies inside it.
        check("cuExternalMemoryGetMappedBuffer", unsafe {
            (api.cuExternalMemoryGetMappedBuffer)(&mut pointer, memory.memory, &part)
        })?;
        let resource = Resource::Imported(pointer, Raw(memory.keep()));
        Ok(Self::wrap(context, pointer, bytes, Some(resource), None))
    }
}

/// An import that nobody owns yet.
struct Import {
    api: &'static crate::api::Api,
    memory: CUexternalMemory,
}

impl Import {
    fn keep(self) -> CUexternalMemory {
        std::mem::ManuallyDrop::new(self).memory
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        // SAFETY: imported once, given to nobody, and nothing of it is mapped.
        let code = unsafe { (self.api.cuDestroyExternalMemory)(self.memory) };
        // The error that led here is the one to tell.
        let _ = check("cuDestroyExternalMemory", code);
    }
}

/// A descriptor on its way to the driver.
///
/// A file descriptor is the driver's from the call on: it keeps it if the import succeeds, and when it fails it has been
/// seen to close it, though nothing promises that. To close it twice would close another file's; to leave it open, if
/// the driver did, costs one descriptor for an import that failed. A handle of Windows stays ours to close.
#[cfg(unix)]
struct Lent(std::os::fd::RawFd);

#[cfg(unix)]
impl Lent {
    fn new(exported: Exported) -> Self {
        Self(std::os::fd::IntoRawFd::into_raw_fd(exported))
    }

    fn number(&self) -> std::os::fd::RawFd {
        self.0
    }
}

#[cfg(windows)]
struct Lent(Exported);

#[cfg(windows)]
impl Lent {
    fn new(exported: Exported) -> Self {
        Self(exported)
    }

    fn number(&self) -> *mut std::ffi::c_void {
        std::os::windows::io::AsRawHandle::as_raw_handle(&self.0)
    }
}

fn refused(error: CudaError) -> CudaError {
    match error.kind() {
        // What the driver calls its own failure is a descriptor that it cannot use.
        Kind::Other | Kind::Argument => {
            let sentence = format!("memory of the graphics device cannot be opened for CUDA: {error}");
            error.with_kind(Kind::Argument).saying(sentence)
        }
        _ => error,
    }
}

/// A number that only grows, raised and waited for by CUDA's streams and a graphics API's queues alike (a timeline
/// semaphore); clones are the same.
#[derive(Clone)]
pub struct Timeline {
    raw: Raw<sys::CUextSemaphore_st>,
    /// No memory: what lets the semaphore go once the streams that use it are past it.
    keeper: DeviceBuffer,
}

impl Timeline {
    /// A timeline semaphore that a graphics API exported.
    ///
    /// # Errors
    /// [`Kind::Argument`] for one that the driver cannot open; [`Kind::Unsupported`] where it opens none.
    ///
    /// # Safety
    /// `exported` is a timeline semaphore.
    pub unsafe fn import(context: &Context, exported: Exported) -> Result<Self> {
        let api = context.inner.api;
        let _current = context.enter()?;
        let mut description = sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {
            type_: types::TIMELINE,
            // SAFETY: plain numbers and pointers, for all of which zero is a value.
            handle: unsafe { std::mem::zeroed() },
            flags: 0,
            reserved: [0; 16],
        };
        let lent = Lent::new(exported);
        #[cfg(unix)]
        (description.handle.fd = lent.number());
        #[cfg(windows)]
        (description.handle.win32.handle = lent.number());
        let mut raw: CUexternalSemaphore = std::ptr::null_mut();
        // SAFETY: writes one handle; the description is whole, and the caller vouches for what it names.
        check("cuImportExternalSemaphore", unsafe {
            (api.cuImportExternalSemaphore)(&mut raw, &description)
        })
        .map_err(refused)?;
        let keeper = DeviceBuffer::wrap(context, 0, 0, Some(Resource::Semaphore(Raw(raw))), None);
        Ok(Self { raw: Raw(raw), keeper })
    }
}

impl Stream {
    /// Raise `timeline` to `value` once the work enqueued so far is done. Values must grow.
    ///
    /// # Errors
    /// [`Kind::Argument`] for another device's; a lost device.
    pub fn signal_timeline(&self, timeline: &Timeline, value: u64) -> Result<()> {
        self.check_device("signal_timeline", &timeline.keeper)?;
        timeline.keeper.used_on(self)?;
        let _current = self.context().enter()?;
        // SAFETY: plain numbers and pointers, for all of which zero is a value.
        let mut how: sys::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = unsafe { std::mem::zeroed() };
        how.params.fence.value = value;
        // SAFETY: one semaphore, which `keeper` keeps until the stream is past this, and one description.
        check("cuSignalExternalSemaphoresAsync", unsafe {
            (self.api().cuSignalExternalSemaphoresAsync)(&timeline.raw.0, &how, 1, self.raw())
        })
    }

    /// Work enqueued from now on waits until `timeline` is at least `value`. The calling thread does not. A value that
    /// is never reached holds the stream for ever.
    ///
    /// # Errors
    /// As [`Stream::signal_timeline`].
    pub fn wait_for_timeline(&self, timeline: &Timeline, value: u64) -> Result<()> {
        self.check_device("wait_for_timeline", &timeline.keeper)?;
        timeline.keeper.used_on(self)?;
        let _current = self.context().enter()?;
        // SAFETY: plain numbers and pointers, for all of which zero is a value.
        let mut how: sys::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = unsafe { std::mem::zeroed() };
        how.params.fence.value = value;
        // SAFETY: as in `signal_timeline`.
        check("cuWaitExternalSemaphoresAsync", unsafe {
            (self.api().cuWaitExternalSemaphoresAsync)(&timeline.raw.0, &how, 1, self.raw())
        })
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeline({:?}, {:p})", self.keeper.context(), self.raw.0)
    }
}
