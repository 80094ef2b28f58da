//! CUPTI, NVIDIA's tracing library: found at run time, and what it writes.

use crate::api::{Code, functions};
use crate::error::{CudaError, Kind, Result, constant};
use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Asks for a buffer: where, how long, how many records at most (0: as many as fit).
pub(super) type Requested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Gives one back: a context and a stream (unused), the buffer, its length, how many bytes of it were written.
pub(super) type Completed = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

functions! {
    /// Pointers to CUPTI's functions. The process keeps the library for ever.
    Cupti:
    cuptiSubscribe(*mut *mut c_void, *const c_void, *mut c_void);
    cuptiUnsubscribe(*mut c_void);
    cuptiActivityRegisterCallbacks(Requested, Completed);
    cuptiActivityEnable(u32);
    cuptiActivityDisable(u32);
    cuptiActivityFlushAll(u32);
    cuptiActivityGetNextRecord(*mut u8, usize, *mut *mut c_void);
    cuptiActivityGetNumDroppedRecords(*mut c_void, u32, *mut usize);
    cuptiActivityPushExternalCorrelationId(u32, u64);
    cuptiActivityPopExternalCorrelationId(u32, *mut u64);
    cuptiSetThreadIdType(u32);
    cuptiGetTimestamp(*mut u64);
    cuptiGetCallbackName(u32, u32, *mut *const c_char);
    cuptiGetResultString(Code, *mut *const c_char);
}

/// The kinds of records, as in CUPTI's header.
pub(super) mod kind {
    pub const COPY: u32 = 1;
    pub const DRIVER_CALL: u32 = 4;
    pub const RUNTIME_CALL: u32 = 5;
    pub const KERNEL: u32 = 10;
    pub const EXTERNAL: u32 = 39;
    pub const ALL: [u32; 5] = [EXTERNAL, DRIVER_CALL, RUNTIME_CALL, COPY, KERNEL];
}

/// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0`.
pub(super) const OURS: u32 = 3;

// How records begin. Newer versions of CUPTI add fields at their ends. Fields that are not read keep the others' places.

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Copy {
    _kind: u32,
    pub way: u8,
    _between: [u8; 3],
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    _device_context_stream: [u32; 3],
    pub calls: [u32; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    _kind: u32,
    _config: [u32; 3],
    pub start: u64,
    pub end: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ApiCall {
    pub kind: u32,
    pub function: u32,
    pub start: u64,
    pub end: u64,
    _process: u32,
    pub thread: u32,
    pub id: u32,
    _result: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct External {
    _kind: u32,
    pub whose: u32,
    _id: u64,
    pub call: u32,
    _reserved: u32,
}

static CUPTI: OnceLock<Cupti> = OnceLock::new();

impl Cupti {
    /// CUPTI, if it was loaded.
    pub fn loaded() -> Option<&'static Self> {
        CUPTI.get()
    }

    /// CUPTI, loaded at the first call. What the process has loaded comes first, as PyTorch does: two of it would be in each
    /// other's way. Then the files `near`, what the system's loader finds, and the CUDA toolkit's.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if it is nowhere.
    pub fn load(near: &[PathBuf]) -> Result<&'static Self> {
        if let Some(cupti) = CUPTI.get() {
            return Ok(cupti);
        }
        let library = find(near).ok_or_else(|| {
            unsupported(
                "CUPTI (libcupti.so.13 or .12) is not there; \
                 `pip install nvidia-cuda-cupti`, or set CUDA_HOME to the CUDA toolkit",
            )
        })?;
        // For ever: it calls back.
        let library: &'static Library = Box::leak(Box::new(library));
        let cupti = Self::look_up(library).map_err(|name| {
            let text = format!("CUPTI here has no {name}, so it is older than CUDA 12");
            unsupported(text)
        })?;
        Ok(CUPTI.get_or_init(|| cupti))
    }

    /// # Errors
    /// [`Kind::Unsupported`], with what CUPTI says about the code.
    pub fn check(&self, call: &'static str, code: Code) -> Result<()> {
        /// Another profiler of this process is using it.
        const TAKEN: Code = 39;
        if code == 0 {
            return Ok(());
        }
        if code == TAKEN {
            let text = "another profiler of this process has CUPTI (PyTorch's \
                        keeps it once it ran, unless TEARDOWN_CUPTI=1 is set)";
            return Err(CudaError::refused(Kind::Busy, call, text));
        }
        // SAFETY: CUPTI's texts are constants.
        let name = unsafe { constant(self.cuptiGetResultString, code) };
        let name = name.unwrap_or_else(|| format!("code {code}"));
        Err(CudaError::refused(Kind::Unsupported, call, format!("{call} failed: {name}")))
    }

    /// CUPTI's clock now: nanoseconds.
    pub fn now(&self) -> Result<u64> {
        let mut now = 0;
        // SAFETY: writes one number.
        self.check("cuptiGetTimestamp", unsafe { (self.cuptiGetTimestamp)(&mut now) })?;
        Ok(now)
    }

    /// The name of the driver's or the runtime's function with this number.
    pub fn function(&self, kind: u32, number: u32) -> String {
        let domain = if kind == kind::DRIVER_CALL { 1 } else { 2 };
        let mut name = std::ptr::null();
        // SAFETY: writes the address of a text that lives as long as the library.
        let code = unsafe { (self.cuptiGetCallbackName)(domain, number, &mut name) };
        if code != 0 || name.is_null() {
            return String::new();
        }
        // SAFETY: CUPTI's texts end with a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

fn unsupported(text: impl Into<String>) -> CudaError {
    CudaError::refused(Kind::Unsupported, "loading CUPTI", text)
}

#[cfg(target_os = "linux")]
fn find(near: &[PathBuf]) -> Option<Library> {
    use libloading::os::unix::{Library as Unix, RTLD_LOCAL, RTLD_NOW};
    /// Take it if it is loaded; load nothing. The same number on all of Linux's processors that CUDA knows.
    const NOLOAD: i32 = 4;
    const NAMES: [&str; 2] = ["libcupti.so.13", "libcupti.so.12"];
    // SAFETY: loads nothing.
    let loaded = |name: &PathBuf| unsafe { Unix::open(Some(name), NOLOAD | RTLD_NOW | RTLD_LOCAL) }.ok();
    // SAFETY: NVIDIA's library, whose initialisers depend on nothing of ours.
    let load = |name: &PathBuf| unsafe { Library::new(name) }.ok();
    let names = NAMES.map(PathBuf::from);
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let inside = ["extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];
    let installed: Vec<PathBuf> = toolkits
        .chain([PathBuf::from("/usr/local/cuda")])
        .flat_map(|toolkit| inside.map(|folder| toolkit.join(folder).join("libcupti.so")))
        .collect();
    let known = || names.iter().chain(near);
    let there = known().find_map(loaded).map(Library::from);
    there.or_else(|| near.iter().chain(&names).chain(&installed).find_map(load))
}

#[cfg(not(target_os = "linux"))]
fn find(_near: &[PathBuf]) -> Option<Library> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// As CUPTI's header lays them out.
    #[test]
    fn records_begin_as_cupti_writes_them() {
        assert_eq!([offset_of!(Copy, way), offset_of!(Copy, bytes), offset_of!(Copy, calls)], [4, 8, 44]);
        assert_eq!([offset_of!(Kernel, start), offset_of!(Kernel, end)], [16, 24]);
        assert_eq!([offset_of!(ApiCall, thread), offset_of!(ApiCall, id)], [28, 32]);
        assert_eq!([offset_of!(External, whose), offset_of!(External, call)], [4, 16]);
    }
}
