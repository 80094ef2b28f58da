//! A device's primary context: shared with everything else in this process that uses CUDA.

use crate::api::Api;
use crate::device::{self, DeviceInfo};
use crate::driver::driver;
use crate::error::{CudaError, Kind, PEER_ALREADY, Result, check};
use crate::event::Pool;
use crate::kernels::Builtin;
use crate::reclaim::Reclaim;
use crate::{graph, stream};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUevent, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmemPoolProps, CUmemoryPool, CUmod_st, CUstream,
};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

/// A driver's handle.
#[derive(Debug)]
pub(crate) struct Raw<T>(pub *mut T);

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Raw<T> {}

// SAFETY: a handle is a name that only the driver follows, and the driver takes it from any thread.
unsafe impl<T> Send for Raw<T> {}
// SAFETY: as above; what must not happen twice at once (launching one executable graph) has its own lock.
unsafe impl<T> Sync for Raw<T> {}

/// Bytes of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free now, as far as the driver tells.
    pub free: usize,
    /// In all.
    pub total: usize,
}

/// A device in use; clones are the same. Any thread may use it.
///
/// Retains the device's primary context, and releases it with the last handle (streams, events and memory
/// are handles too). PyTorch and the CUDA runtime retain it themselves.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub api: &'static Api,
    pub raw: Raw<cudarc::driver::sys::CUctx_st>,
    pub device: CUdevice,
    info: DeviceInfo,
    priorities: (i32, i32),
    pub pool: Option<Raw<cudarc::driver::sys::CUmemPoolHandle_st>>,
    /// Allocations, and nothing that waits.
    pub alloc_stream: Raw<cudarc::driver::sys::CUstream_st>,
    /// Waits for the last uses of memory, then gives it back.
    pub free_stream: Raw<cudarc::driver::sys::CUstream_st>,
    pub events: Pool,
    pub builtin: OnceLock<Builtin>,
    pub reclaim: Reclaim,
    modules: Mutex<Vec<Raw<CUmod_st>>>,
}

impl Context {
    /// The context of device `ordinal`. Touches no other device. Opening a device twice gives one context.
    ///
    /// The first opening of a device in a process takes the driver some tenths of a second.
    ///
    /// # Errors
    /// [`Kind::NoDriver`], [`Kind::OldDriver`], [`Kind::NoDevice`], [`Kind::Argument`] (no such ordinal),
    /// [`Kind::Busy`], [`Kind::OutOfMemory`].
    pub fn open(ordinal: u32) -> Result<Self> {
        static OPEN: Mutex<Vec<(u32, Weak<Inner>)>> = Mutex::new(Vec::new());
        let mut open = lock(&OPEN);
        if let Some(inner) = open.iter().find(|(o, _)| *o == ordinal).and_then(|(_, w)| w.upgrade()) {
            return Ok(Self { inner });
        }
        let inner = Arc::new(Inner::open(ordinal)?);
        open.retain(|(o, w)| *o != ordinal && w.strong_count() > 0);
        open.push((ordinal, Arc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// What this device is.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Whether both are one device's context.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The driver's handle, for other libraries. Valid as long as this lives.
    pub fn raw(&self) -> CUcontext {
        self.inner.raw.0
    }

    /// Make this context current on the calling thread and leave it so: calls from this thread then cost
    /// a little less. For threads that this program owns; never needed for correctness.
    ///
    /// # Errors
    /// A lost device.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained by `self`; a thread that keeps it current after the last release
        // gets error codes from the driver, not memory errors.
        check("cuCtxSetCurrent", unsafe { (self.inner.api.cuCtxSetCurrent)(self.inner.raw.0) })
    }

    /// Free and total memory.
    ///
    /// # Errors
    /// A lost device.
    pub fn memory(&self) -> Result<MemoryInfo> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        check("cuMemGetInfo_v2", unsafe { (self.inner.api.cuMemGetInfo_v2)(&mut free, &mut total) })?;
        Ok(MemoryInfo { free, total })
    }

    /// The least and the most urgent stream priority: numbers fall as urgency rises.
    pub fn priorities(&self) -> (i32, i32) {
        self.inner.priorities
    }

    /// Whether this device can reach the memory of `other` without going through the host.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn can_reach(&self, other: &Context) -> Result<bool> {
        let mut can = 0;
        let (ours, theirs) = (self.inner.device, other.inner.device);
        // SAFETY: writes one number.
        check("cuDeviceCanAccessPeer", unsafe {
            (self.inner.api.cuDeviceCanAccessPeer)(&mut can, ours, theirs)
        })?;
        Ok(can != 0)
    }

    /// Let kernels and copies of this device reach the memory of `other` directly. Again is no error.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] where [`Context::can_reach`] is false.
    pub fn enable_peer(&self, other: &Context) -> Result<()> {
        if !self.can_reach(other)? {
            let (a, b) = (self.info().ordinal, other.info().ordinal);
            return Err(CudaError::refused(
                Kind::Unsupported,
                "enable_peer",
                format!("cuda:{a} cannot reach the memory of cuda:{b} directly: copies go through the host"),
            ));
        }
        let _current = self.enter()?;
        // SAFETY: both contexts are alive; flags must be 0.
        match unsafe { (self.inner.api.cuCtxEnablePeerAccess)(other.inner.raw.0, 0) } {
            PEER_ALREADY => Ok(()),
            code => check("cuCtxEnablePeerAccess", code),
        }
    }

    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        self.inner.enter()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(cuda:{})", self.inner.info.ordinal)
    }
}

/// Our context is current on this thread until dropped; then again what was before.
pub(crate) struct Entered<'a> {
    api: &'static Api,
    /// What to put back; nothing if our context was current already.
    before: Option<CUcontext>,
    /// The capture mode to put back, on a thread that is capturing.
    mode: Option<u32>,
    context: PhantomData<&'a Inner>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(mut mode) = self.mode {
            // SAFETY: swaps a number of this thread.
            unsafe { (self.api.cuThreadExchangeStreamCaptureMode)(&mut mode) };
        }
        if let Some(before) = self.before {
            // SAFETY: `before` was current on this thread a moment ago. Had another thread destroyed it since,
            // the driver would return an error.
            unsafe { (self.api.cuCtxSetCurrent)(before) };
        }
    }
}

const CAPTURE_RELAXED: u32 = 2;

impl Inner {
    fn open(ordinal: u32) -> Result<Self> {
        let api = driver()?;
        let (device, info) = device::find(ordinal)?;
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: writes one handle; released when this is dropped, or just below.
        check("cuDevicePrimaryCtxRetain", unsafe { (api.cuDevicePrimaryCtxRetain)(&mut raw, device) })
            .map_err(|e| {
                let sentence = format!("cuda:{ordinal} ({}) cannot be used: {e}", info.name);
                e.saying(sentence)
            })?;
        // From here on `Drop` cleans up what has been made: the null handles are skipped.
        let mut inner = Self {
            api,
            raw: Raw(raw),
            device,
            info,
            priorities: (0, 0),
            pool: None,
            alloc_stream: Raw(std::ptr::null_mut()),
            free_stream: Raw(std::ptr::null_mut()),
            events: Pool::default(),
            builtin: OnceLock::new(),
            reclaim: Reclaim::default(),
            modules: Mutex::default(),
        };
        inner.prepare()?;
        Ok(inner)
    }

    fn prepare(&mut self) -> Result<()> {
        let (mut least, mut most) = (0, 0);
        let (mut alloc, mut free): (CUstream, CUstream) = (std::ptr::null_mut(), std::ptr::null_mut());
        let pool;
        {
            let _current = self.enter()?;
            // SAFETY: writes two numbers.
            check("cuCtxGetStreamPriorityRange", unsafe {
                (self.api.cuCtxGetStreamPriorityRange)(&mut least, &mut most)
            })?;
            stream::create(self.api, &mut alloc, most)?;
            stream::create(self.api, &mut free, most)?;
            pool = if self.info.memory_pools { self.make_pool()? } else { None };
        }
        self.priorities = (least, most);
        self.alloc_stream = Raw(alloc);
        self.free_stream = Raw(free);
        self.pool = pool.map(Raw);
        Ok(())
    }

    /// A pool of our own: the device's default pool is shared with other libraries, whose settings would
    /// change ours. `None` where the driver has no pools after all (some virtual GPUs).
    fn make_pool(&self) -> Result<Option<CUmemoryPool>> {
        let properties = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: self.device,
            },
            win32SecurityAttributes: std::ptr::null_mut(),
            reserved: [0; 64],
        };
        let mut pool: CUmemoryPool = std::ptr::null_mut();
        // SAFETY: reads the properties and writes one handle.
        match unsafe { (self.api.cuMemPoolCreate)(&mut pool, &properties) } {
            801 => return Ok(None),
            code => check("cuMemPoolCreate", code)?,
        }
        // An allocation must not wait for work that is about to free memory: it would make the caller wait.
        const REUSE_ALLOW_INTERNAL_DEPENDENCIES: u32 = 3;
        let mut no: i32 = 0;
        let value = (&raw mut no).cast();
        // SAFETY: this attribute is an int.
        check("cuMemPoolSetAttribute", unsafe {
            (self.api.cuMemPoolSetAttribute)(pool, REUSE_ALLOW_INTERNAL_DEPENDENCIES, value)
        })?;
        Ok(Some(pool))
    }

    /// Make our context current on this thread. Asks the driver what is current instead of remembering it:
    /// the program may change it at any time.
    pub fn enter(&self) -> Result<Entered<'_>> {
        let api = self.api;
        let mut before: CUcontext = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check("cuCtxGetCurrent", unsafe { (api.cuCtxGetCurrent)(&mut before) })?;
        let ours = before == self.raw.0;
        if !ours {
            // SAFETY: our context is retained by `self`.
            check("cuCtxSetCurrent", unsafe { (api.cuCtxSetCurrent)(self.raw.0) })?;
        }
        let before = (!ours).then_some(before);
        let mut entered = Entered { api, before, mode: None, context: PhantomData };
        if graph::is_capturing_here() {
            // Our own calls are known to leave a capture alone; the thread's mode would forbid some of them.
            let mut mode = CAPTURE_RELAXED;
            // SAFETY: swaps a number of this thread.
            check("cuThreadExchangeStreamCaptureMode", unsafe {
                (api.cuThreadExchangeStreamCaptureMode)(&mut mode)
            })?;
            entered.mode = Some(mode);
        }
        Ok(entered)
    }

    /// Keep a module loaded until the context goes: unloading would have to wait for its kernels, and the
    /// driver's way to wait for a context breaks the captures of other threads.
    pub fn keep_module(&self, module: Raw<CUmod_st>) {
        lock(&self.modules).push(module);
    }

    pub fn clamp_priority(&self, priority: i32) -> i32 {
        let (least, most) = self.priorities;
        priority.clamp(most.min(least), least.max(most))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Errors are nobody's any more: a lost device, or a driver that is shutting down with the process.
        if let Ok(current) = self.enter() {
            let _ = self.settle_at_end();
            self.events.destroy(self.api);
            if let Some(builtin) = self.builtin.get() {
                builtin.unload(self.api);
            }
            for module in lock(&self.modules).drain(..) {
                // SAFETY: loaded once; its functions are gone with their handles, and their kernels were waited for.
                unsafe { (self.api.cuModuleUnload)(module.0) };
            }
            for stream in [self.alloc_stream.0, self.free_stream.0] {
                if !stream.is_null() {
                    // SAFETY: ours, and used by nobody any more.
                    unsafe { (self.api.cuStreamDestroy_v2)(stream) };
                }
            }
            if let Some(pool) = self.pool {
                // SAFETY: ours; the driver waits with it until the memory is back.
                unsafe { (self.api.cuMemPoolDestroy)(pool.0) };
            }
            drop(current);
        }
        // SAFETY: retained once, when this was made.
        unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

pub(crate) type RawEvent = CUevent;
