//! This crate's own kernels, and their twins on the host.
//!
//! Sources are in `kernels/*.cu`; the PTX beside them is made for compute capability 5.2 by CUDA 12.0, so that
//! every driver this crate accepts compiles it for whatever GPU is there.

mod colours;
mod convert;
mod ends;
mod nv12;
mod picture;
mod picture_twin;
mod tools;
pub mod twin;

pub use convert::{Affine, Float, Shape, Strides, ToBytes, ToFloats};
pub use nv12::{Matrix, Nv12ToPicture};
pub use picture::{Colours, Element, Order, ToPicture};

use crate::activity::ours;
use crate::api::Api;
use crate::context::{Context, Inner, Raw};
use crate::error::{Result, check};
use crate::launch::{Arg, Grid, launch};
use crate::module;
use crate::stream::Stream;
use colours::COLOURS;
use cudarc::driver::sys::{CUdeviceptr, CUfunc_st, CUmod_st};

/// The kernels, loaded at their first use on a device.
pub(crate) struct Builtin {
    modules: [Raw<CUmod_st>; MODULES.len()],
    functions: [Raw<CUfunc_st>; NAMES.len()],
    /// [`COLOURS`] on the device.
    colours: CUdeviceptr,
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
    U8ToPicture,
    F16ToPicture,
    Bf16ToPicture,
    F32ToPicture,
    U8PlanesToPicture,
    F16PlanesToPicture,
    Bf16PlanesToPicture,
    F32PlanesToPicture,
    PackedToPicture,
    Nv12ToPicture,
    Spin,
    Checksum,
    Pattern,
}

/// Each module's PTX and the first of its kernels.
const MODULES: [(&str, Kernel); 3] = [
    (include_str!("../../kernels/convert.ptx"), Kernel::BytesToF32),
    (include_str!("../../kernels/picture.ptx"), Kernel::U8ToPicture),
    (include_str!("../../kernels/tools.ptx"), Kernel::Spin),
];

/// In the order of [`Kernel`].
const NAMES: [&str; 25] = [
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
    "fl_u8_to_picture",
    "fl_f16_to_picture",
    "fl_bf16_to_picture",
    "fl_f32_to_picture",
    "fl_u8_planes_to_picture",
    "fl_f16_planes_to_picture",
    "fl_bf16_planes_to_picture",
    "fl_f32_planes_to_picture",
    "fl_packed_to_picture",
    "fl_nv12_to_picture",
    "fl_spin",
    "fl_checksum",
    "fl_pattern",
];

/// The module of the `i`th kernel.
fn module_of(i: usize) -> usize {
    MODULES.iter().rposition(|(_, first)| *first as usize <= i).unwrap_or(0)
}

impl Builtin {
    /// The context is current.
    fn load(inner: &Inner) -> Result<Self> {
        let mut modules = [Raw(std::ptr::null_mut()); MODULES.len()];
        for (module, (ptx, _)) in modules.iter_mut().zip(MODULES) {
            *module = Raw(module::load(inner.api, ptx)?);
        }
        let mut functions = [Raw(std::ptr::null_mut()); NAMES.len()];
        for (i, name) in NAMES.iter().enumerate() {
            functions[i] = Raw(module::find(inner.api, modules[module_of(i)].0, name)?);
        }
        Ok(Self { modules, functions, colours: upload(inner, &COLOURS)? })
    }

    /// Where a map's words are; 0 for grey, which needs none.
    fn colours(&self, colours: Colours) -> u64 {
        match colours {
            Colours::Grey => 0,
            Colours::Viridis => self.colours,
            Colours::Turbo => self.colours + 256 * 4,
        }
    }

    /// The context is current, and nothing runs.
    pub fn unload(&self, api: &Api) {
        // The context goes next, and takes with it what could not be given back.
        for module in self.modules {
            // SAFETY: loaded once, and its functions are used no more.
            let code = unsafe { (api.cuModuleUnload)(module.0) };
            let _ = check("cuModuleUnload", code);
        }
        // SAFETY: allocated once, and the kernels that read it are over.
        let code = unsafe { (api.cuMemFree_v2)(self.colours) };
        let _ = check("cuMemFree_v2", code);
    }
}

/// These words on the device, there when this returns. (Not as a variable of a module: NVRTC makes those
/// invisible from outside.) The context is current.
fn upload(inner: &Inner, words: &[u32]) -> Result<CUdeviceptr> {
    let (mut at, bytes, stream) = (0, size_of_val(words), inner.alloc_stream.0);
    // SAFETY: writes one address.
    check("cuMemAlloc_v2", unsafe { (inner.api.cuMemAlloc_v2)(&mut at, bytes) })?;
    let copy = || {
        // SAFETY: both are as long as said, and the words live until the copy is over, just below.
        let enqueue =
            || unsafe { (inner.api.cuMemcpyHtoDAsync_v2)(at, words.as_ptr().cast(), bytes, stream) };
        check("cuMemcpyHtoDAsync_v2", ours(enqueue))?;
        // SAFETY: the stream is ours and carries allocations alone.
        check("cuStreamSynchronize", unsafe { (inner.api.cuStreamSynchronize)(stream) })
    };
    copy().map(|()| at)
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
        let loaded = Builtin::load(&self.inner)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_is_in_its_module() {
        for (i, name) in NAMES.iter().enumerate() {
            let (ptx, _) = MODULES[module_of(i)];
            assert!(ptx.contains(&format!(".entry {name}(")), "{name}");
        }
        let entries = MODULES.map(|(ptx, _)| ptx.matches(".entry ").count());
        assert_eq!(entries.iter().sum::<usize>(), NAMES.len(), "{entries:?}");
    }
}
