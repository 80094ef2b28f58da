//! Kernels from PTX.

use crate::api::Api;
use crate::context::{Context, Raw};
use crate::error::{CudaError, Kind, Result, check};
use cudarc::driver::sys::{CUfunc_st, CUfunction, CUmod_st, CUmodule};
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;

/// Kernels loaded on one device; clones are the same. They stay loaded until the device's last handle is dropped.
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    raw: Raw<CUmod_st>,
}

/// A kernel, ready to launch.
#[derive(Clone)]
pub struct Function {
    module: Module,
    raw: Raw<CUfunc_st>,
    name: Arc<str>,
}

impl Module {
    /// Compile PTX for the device and load it. Takes milliseconds the first time; the driver caches the result.
    ///
    /// # Errors
    /// [`Kind::Argument`] for PTX that does not compile, with the compiler's log; [`Kind::OldDriver`] for PTX
    /// newer than the driver.
    pub fn from_ptx(context: &Context, ptx: &str) -> Result<Self> {
        let _current = context.enter()?;
        let raw = Raw(load(context.inner.api, ptx)?);
        context.inner.keep_module(raw);
        Ok(Self { inner: Arc::new(Inner { context: context.clone(), raw }) })
    }

    /// The kernel of this name (as `extern "C"` has it), loaded now rather than at its first launch.
    ///
    /// # Errors
    /// [`Kind::Argument`] if there is none.
    pub fn function(&self, name: &str) -> Result<Function> {
        let context = &self.inner.context;
        let _current = context.enter()?;
        let raw = Raw(find(context.inner.api, self.inner.raw.0, name)?);
        Ok(Function { module: self.clone(), raw, name: name.into() })
    }

    /// Its device's context.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its device's context.
    pub fn context(&self) -> &Context {
        self.module.context()
    }

    pub(crate) fn raw(&self) -> CUfunction {
        self.raw.0
    }
}

/// The context is current.
pub(crate) fn load(api: &Api, ptx: &str) -> Result<CUmodule> {
    let text = CString::new(ptx)
        .map_err(|_| CudaError::argument("Module::from_ptx", "the PTX has a zero byte in it: is it text?"))?;
    const ERROR_LOG: u32 = 5;
    const ERROR_LOG_BYTES: u32 = 6;
    let mut log = vec![0u8; 4096];
    let mut options = [ERROR_LOG, ERROR_LOG_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len())];
    let mut module: CUmodule = std::ptr::null_mut();
    // SAFETY: the text ends with a zero, the log is as long as said, and one handle is written.
    let code = unsafe {
        (api.cuModuleLoadDataEx)(
            &mut module,
            text.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    // The driver wrote how much of the log it used over the size; a zero ends it anyway.
    log.truncate(log.iter().position(|b| *b == 0).unwrap_or(log.len()));
    check("cuModuleLoadDataEx", code).map_err(|e| {
        let log = String::from_utf8_lossy(&log);
        let (first, kind) = (log.lines().next().unwrap_or("").trim(), e.kind());
        let sentence = if first.is_empty() { e.to_string() } else { format!("{e}: {first}") };
        match kind {
            Kind::Other if e.code() == 218 => e.with_kind(Kind::Argument).saying(sentence),
            _ => e.saying(sentence),
        }
    })?;
    Ok(module)
}

/// The context is current.
pub(crate) fn find(api: &Api, module: CUmodule, name: &str) -> Result<CUfunction> {
    let missing =
        || CudaError::argument("Module::function", format!("there is no kernel {name:?} in this module"));
    let text = CString::new(name).map_err(|_| missing())?;
    let mut function: CUfunction = std::ptr::null_mut();
    const NOT_FOUND: u32 = 500;
    // SAFETY: the module is loaded, the name ends with a zero, and one handle is written.
    match unsafe { (api.cuModuleGetFunction)(&mut function, module, text.as_ptr()) } {
        NOT_FOUND => return Err(missing()),
        code => check("cuModuleGetFunction", code)?,
    }
    // Loading at the first launch can wait for whatever runs then; asking for an attribute loads it now.
    const REGISTERS: u32 = 4;
    let mut registers = 0;
    // SAFETY: writes one number.
    check("cuFuncGetAttribute", unsafe { (api.cuFuncGetAttribute)(&mut registers, REGISTERS, function) })?;
    Ok(function)
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?})", self.context())
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name)
    }
}
