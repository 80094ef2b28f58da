//! One error type: which call failed, with which code, and a sentence that says what to do.

use crate::api::{Code, api};
use std::ffi::{CStr, c_char};
use std::fmt;

/// The crate's result.
pub type Result<T, E = CudaError> = std::result::Result<T, E>;

/// What went wrong, coarsely: enough to decide what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// No driver is installed, or it is not visible to this process.
    NoDriver,
    /// The driver is older than [`crate::DriverVersion::OLDEST`], or does not fit its kernel module.
    OldDriver,
    /// There is a driver but no such GPU.
    NoDevice,
    /// The GPU is taken by somebody else for the moment.
    Busy,
    /// No room for that much memory. The next, smaller, request may work.
    OutOfMemory,
    /// The context is dead (a kernel touched a wrong address, the GPU fell off the bus…). Every call on this
    /// device in this process will fail: start the process again.
    Lost,
    /// The memory is in use by work that is still pending, or by the CPU.
    InUse,
    /// An argument makes no sense here.
    Argument,
    /// This driver or GPU cannot do that.
    Unsupported,
    /// Not allowed while a graph is being captured, or the capture is broken.
    Capture,
    /// Anything else.
    Other,
}

/// A failed call. After it the next call works, unless the kind is [`Kind::Lost`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaError {
    kind: Kind,
    call: &'static str,
    code: u32,
    name: String,
    sentence: String,
}

impl CudaError {
    /// What went wrong, coarsely.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The driver's function that failed, or the call of this crate that refused.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The driver's code, or 0 if the driver was not asked.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The driver's name for the code (`CUDA_ERROR_…`), or an empty text if the driver was not asked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A refusal by this crate, before the driver was asked.
    pub(crate) fn refused(kind: Kind, call: &'static str, sentence: impl Into<String>) -> Self {
        Self { kind, call, code: 0, name: String::new(), sentence: sentence.into() }
    }

    pub(crate) fn argument(call: &'static str, sentence: impl Into<String>) -> Self {
        Self::refused(Kind::Argument, call, sentence)
    }

    pub(crate) fn no_driver() -> Self {
        let library = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
        Self::refused(
            Kind::NoDriver,
            "loading the driver",
            format!(
                "CUDA cannot be used: there is no NVIDIA driver ({library} cannot be loaded); \
                 install one, or start the container with GPU access"
            ),
        )
    }

    pub(crate) fn missing_function(name: &'static str) -> Self {
        Self::refused(
            Kind::OldDriver,
            name,
            format!(
                "CUDA cannot be used: the NVIDIA driver has no {name}; a driver for CUDA 12.0 or newer is needed"
            ),
        )
    }

    pub(crate) fn old_driver(found: impl fmt::Display, needed: impl fmt::Display) -> Self {
        Self::refused(
            Kind::OldDriver,
            "cuDriverGetVersion",
            format!(
                "CUDA cannot be used: the NVIDIA driver is for CUDA {found}; one for CUDA {needed} or newer is needed"
            ),
        )
    }

    fn from_driver(call: &'static str, code: Code) -> Self {
        let (name, text) = describe(code);
        let kind = kind_of(code);
        let what = if text.is_empty() { name.clone() } else { format!("{text} ({name})") };
        let sentence = match advice(code) {
            "" => format!("{call} failed: {what}"),
            advice => format!("{call} failed: {what}; {advice}"),
        };
        Self { kind, call, code, name, sentence }
    }

    /// The same error with another kind.
    pub(crate) fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same error with another sentence.
    pub(crate) fn saying(mut self, sentence: impl Into<String>) -> Self {
        self.sentence = sentence.into();
        self
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for CudaError {}

/// Turn a driver's code into a result.
#[inline]
pub(crate) fn check(call: &'static str, code: Code) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(CudaError::from_driver(call, code)) }
}

pub(crate) const NOT_READY: Code = 600;
pub(crate) const PEER_ALREADY: Code = 704;

fn kind_of(code: Code) -> Kind {
    match code {
        1 | 101 | 400 => Kind::Argument,
        2 => Kind::OutOfMemory,
        34 => Kind::NoDriver,
        100 => Kind::NoDevice,
        46 | 802 => Kind::Busy,
        // Old PTX, a library that does not fit its kernel module, forward compatibility that does not hold.
        36 | 222 | 803 | 804 => Kind::OldDriver,
        // Errors after which the driver fails every call on the context.
        214 | 220 | 226 | 700 | 702 | 710 | 714..=719 => Kind::Lost,
        209 | 801 => Kind::Unsupported,
        900..=909 => Kind::Capture,
        _ => Kind::Other,
    }
}

fn advice(code: Code) -> &'static str {
    match code {
        3 => "a process that was forked after CUDA was used cannot use it: start a new process instead",
        34 => "the libcuda found is the toolkit's stub: remove its folder from the library path",
        46 => "another process has the GPU for itself (exclusive mode)",
        100 => "no NVIDIA GPU is visible to this process (is CUDA_VISIBLE_DEVICES set?)",
        101 => "see `nvidia-smi -L` for the devices there are",
        802 => "the system's fabric manager is not ready yet: try again in a moment",
        803 => "the driver's library and kernel module differ: restart the machine after a driver update",
        804 => "remove the CUDA compatibility package, or update the driver",
        999 => "the driver does not say why: try nvidia-smi, or restart the machine",
        _ if kind_of(code) == Kind::Lost => "this GPU is lost to this process: start the process again",
        _ => "",
    }
}

fn describe(code: Code) -> (String, String) {
    let unknown = || (format!("CUDA error {code}"), String::new());
    let Ok(api) = api() else { return unknown() };
    // SAFETY: the driver's texts are constants; asking needs neither initialisation nor a context.
    let name = unsafe { constant(api.cuGetErrorName, code) };
    // SAFETY: as above.
    let text = unsafe { constant(api.cuGetErrorString, code) };
    name.zip(text).unwrap_or_else(unknown)
}

/// A library's text of a code, whose address `ask` writes; `None` if it has none.
///
/// # Safety
/// What `ask` writes, if it gives 0, is null or a text that ends with a zero and lives as long as the library, which stays.
pub(crate) unsafe fn constant(
    ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    code: Code,
) -> Option<String> {
    let mut text = std::ptr::null();
    // SAFETY: writes one pointer.
    if unsafe { ask(code, &mut text) } != 0 || text.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for it.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_context_is_told_from_a_full_one() {
        for code in [700, 702, 710, 716, 719] {
            assert_eq!(kind_of(code), Kind::Lost, "{code}");
        }
        assert_eq!(kind_of(2), Kind::OutOfMemory);
        assert_eq!(kind_of(703), Kind::Other);
    }

    #[test]
    fn codes_nobody_knows_have_a_sentence() {
        let error = CudaError::from_driver("cuInit", 4242);
        assert_eq!(error.kind(), Kind::Other);
        assert!(error.to_string().contains("4242"), "{error}");
    }
}
