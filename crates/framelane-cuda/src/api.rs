//! The driver's functions, looked up once.
//!
//! Bindings that return the driver's result as a Rust enum are undefined behaviour when a newer driver
//! returns a code the enum does not have, and bindings that look a function up at its first call panic when
//! an older driver lacks it. Here results are plain numbers and all look-ups happen before the first call.

use crate::error::{CudaError, Result};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmemoryPool,
    CUmodule, CUstream,
};
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// A result code of the driver; 0 is success.
pub(crate) type Code = u32;

macro_rules! functions {
    ($(#[$about:meta])* $table:ident: $($name:ident($($arg:ty),*);)*) => {
        $(#[$about])*
        #[allow(non_snake_case)]
        pub(crate) struct $table { $(pub $name: unsafe extern "C" fn($($arg),*) -> Code,)* }

        impl $table {
            /// The table, or the name of the first function that is not there.
            pub(crate) fn look_up(library: &libloading::Library) -> std::result::Result<Self, &'static str> {
                Ok(Self { $($name: $crate::api::look_up(library, stringify!($name))?,)* })
            }
        }
    };
}
pub(crate) use functions;

functions! {
    /// Pointers to the driver's functions. The process keeps the library for ever.
    Api:
    cuInit(c_uint);
    cuGetErrorName(Code, *mut *const c_char);
    cuGetErrorString(Code, *mut *const c_char);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetUuid_v2(*mut sys::CUuuid, CUdevice);
    cuDeviceGetAttribute(*mut c_int, Attribute, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuDevicePrimaryCtxGetState(CUdevice, *mut c_uint, *mut c_int);
    cuCtxGetCurrent(*mut CUcontext);
    cuCtxSetCurrent(CUcontext);
    cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
    cuCtxSynchronize();
    cuCtxEnablePeerAccess(CUcontext, c_uint);
    cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int);
    cuStreamDestroy_v2(CUstream);
    cuStreamQuery(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuStreamWaitValue32_v2(CUstream, CUdeviceptr, u32, c_uint);
    cuStreamWriteValue64_v2(CUstream, CUdeviceptr, u64, c_uint);
    cuStreamGetPriority(CUstream, *mut c_int);
    cuStreamIsCapturing(CUstream, *mut c_uint);
    cuStreamBeginCapture_v2(CUstream, c_uint);
    cuStreamEndCapture(CUstream, *mut CUgraph);
    cuThreadExchangeStreamCaptureMode(*mut c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuEventSynchronize(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuPointerGetAttribute(*mut c_void, c_uint, CUdeviceptr);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
    cuMemFreeAsync(CUdeviceptr, CUstream);
    cuMemPoolCreate(*mut CUmemoryPool, *const sys::CUmemPoolProps);
    cuMemPoolDestroy(CUmemoryPool);
    cuMemPoolSetAttribute(CUmemoryPool, c_uint, *mut c_void);
    cuMemPoolTrimTo(CUmemoryPool, usize);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuMemsetD32Async(CUdeviceptr, c_uint, usize, CUstream);
    cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncGetAttribute(*mut c_int, c_uint, CUfunction);
    cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
        *mut *mut c_void, *mut *mut c_void);
    cuImportExternalMemory(*mut sys::CUexternalMemory, *const sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
    cuExternalMemoryGetMappedBuffer(*mut CUdeviceptr, sys::CUexternalMemory,
        *const sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    cuDestroyExternalMemory(sys::CUexternalMemory);
    cuImportExternalSemaphore(*mut sys::CUexternalSemaphore, *const sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC);
    cuSignalExternalSemaphoresAsync(*const sys::CUexternalSemaphore,
        *const sys::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, c_uint, CUstream);
    cuWaitExternalSemaphoresAsync(*const sys::CUexternalSemaphore,
        *const sys::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, c_uint, CUstream);
    cuDestroyExternalSemaphore(sys::CUexternalSemaphore);
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
    cuGraphLaunch(CUgraphExec, CUstream);
    cuGraphDestroy(CUgraph);
    cuGraphExecDestroy(CUgraphExec);
}

/// A device attribute's number, as in the driver's header.
pub(crate) type Attribute = c_uint;

/// The driver's library. It must be known to load.
pub(crate) fn library() -> &'static Library {
    // SAFETY: called only once the library is known to load, so this does not panic, and loading a driver
    // library runs no initialiser that depends on us.
    unsafe { sys::culib() }
}

/// One function.
pub(crate) fn look_up<F: Copy>(
    library: &Library,
    name: &'static str,
) -> std::result::Result<F, &'static str> {
    // SAFETY: `F` is the type that a table gives this name, taken from the library's header.
    unsafe { library.get::<F>(name.as_bytes()) }.map(|symbol| *symbol).map_err(|_| name)
}

/// The table, if a driver is installed and has every function.
///
/// # Errors
/// [`crate::Kind::NoDriver`] or [`crate::Kind::OldDriver`].
pub(crate) fn api() -> Result<&'static Api> {
    static API: OnceLock<Api> = OnceLock::new();
    if let Some(api) = API.get() {
        return Ok(api);
    }
    // SAFETY: opens and closes the driver's library, which has no unusual initialisers.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::no_driver());
    }
    let api = Api::look_up(library()).map_err(CudaError::missing_function)?;
    Ok(API.get_or_init(|| api))
}
