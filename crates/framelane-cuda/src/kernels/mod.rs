//! This crate's own kernels, and their twins on the host.
//!
//! Sources are in `kernels/*.cu`; the PTX beside them is made for compute capability 5.2 by CUDA 12.0, so that
//! every driver this crate accepts compiles it for whatever GPU is there.

mod convert;
mod ends;
mod tools;
pub mod twin;

pub use convert::{Affine, Float, Shape, Strides, ToBytes, ToFloats};

use crate::api::Api;
use crate::context::{Context, Raw};
use crate::error::{Result, check};
use crate::launch::{Arg, Grid, launch};
use crate::module;
use crate::stream::Stream;
use cudarc::driver::sys::{CUfunc_st, CUmod_st};

/// The kernels, loaded at their first use on a device.
pub(crate) struct Builtin {
    modules: [Raw<CUmod_st>; 2],
    functions: [Raw<CUfunc_st>; NAMES.len()],
}

#[derive(Clone, Copy)]
enum Kernel {
    BytesToF32,
    BytesToF16,
    BytesToBf16,
    F32ToBytes,
    F16ToBytes,
    Bf16ToBytes,
    BytesToF32Planes,
    BytesToF16Planes,
    BytesToBf16Planes,
    F32PlanesToBytes,
    F16PlanesToBytes,
    Bf16PlanesToBytes,
    Spin,
    Checksum,
    Pattern,
}

const CONVERT: &str = include_str!("../../kernels/convert.ptx");
const TOOLS: &str = include_str!("../../kernels/tools.ptx");

/// In the order of [`Kernel`].
const NAMES: [&str; 15] = [
    "fl_bytes_to_f32",
    "fl_bytes_to_f16",
    "fl_bytes_to_bf16",
    "fl_f32_to_bytes",
    "fl_f16_to_bytes",
    "fl_bf16_to_bytes",
    "fl_bytes_to_f32_planes",
    "fl_bytes_to_f16_planes",
    "fl_bytes_to_bf16_planes",
    "fl_f32_planes_to_bytes",
    "fl_f16_planes_to_bytes",
    "fl_bf16_planes_to_bytes",
    "fl_spin",
    "fl_checksum",
    "fl_pattern",
];

impl Builtin {
    /// The context is current.
    fn load(api: &'static Api) -> Result<Self> {
        let convert = Raw(module::load(api, CONVERT)?);
        let tools = Raw(module::load(api, TOOLS)?);
        let mut functions = [Raw(std::ptr::null_mut()); NAMES.len()];
        for (i, name) in NAMES.iter().enumerate() {
            let module = if i < Kernel::Spin as usize { convert } else { tools };
            functions[i] = Raw(module::find(api, module.0, name)?);
        }
        Ok(Self { modules: [convert, tools], functions })
    }

    /// The context is current, and nothing runs.
    pub fn unload(&self, api: &Api) {
        for module in self.modules {
            // SAFETY: loaded once, and its functions are used no more.
            let code = unsafe { (api.cuModuleUnload)(module.0) };
            // The context goes next, and takes the module with it.
            let _ = check("cuModuleUnload", code);
        }
    }
}

impl Context {
    /// Load this crate's kernels now: otherwise it happens at their first use, and takes some milliseconds
    /// (more the first time on a machine, when the driver compiles them).
    ///
    /// # Errors
    /// A driver that cannot compile them; a lost device.
    pub fn load_kernels(&self) -> Result<()> {
        self.builtin().map(|_| ())
    }

    fn builtin(&self) -> Result<&Builtin> {
        if let Some(builtin) = self.inner.builtin.get() {
            return Ok(builtin);
        }
        let _current = self.enter()?;
        let loaded = Builtin::load(self.inner.api)?;
        if let Err(second) = self.inner.builtin.set(loaded) {
            // Another thread was first; nothing of this one was used.
            second.unload(self.inner.api);
        }
        // Set just now, by this thread or the other.
        self.inner
            .builtin
            .get()
            .ok_or_else(|| crate::CudaError::argument("load_kernels", "the kernels are gone"))
    }
}

impl Stream {
    /// # Safety
    /// As [`crate::Function::launch`].
    unsafe fn launch_builtin(&self, kernel: Kernel, grid: Grid, args: &[Arg<'_>]) -> Result<()> {
        let function = self.context().builtin()?.functions[kernel as usize];
        // SAFETY: the caller's; the function was loaded in this stream's context.
        unsafe { launch(function.0, self, grid, args) }
    }
}
