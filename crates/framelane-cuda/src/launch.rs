//! Launching kernels.

use crate::error::{CudaError, Result, check};
use crate::memory::DeviceBuffer;
use crate::module::Function;
use crate::stream::Stream;
use cudarc::driver::sys::CUfunction;
use std::ffi::c_void;

/// How many threads run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x, y, z.
    pub blocks: [u32; 3],
    /// Threads of a block along x, y, z; at most 1024 in all.
    pub threads: [u32; 3],
    /// Bytes of shared memory of a block, besides what the kernel declares.
    pub shared: u32,
}

impl Grid {
    /// `blocks` blocks of `threads` threads along x.
    pub const fn line(blocks: u32, threads: u32) -> Self {
        Self { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// `int`.
    I32(i32),
    /// `unsigned`.
    U32(u32),
    /// `long long`.
    I64(i64),
    /// `unsigned long long`, or any address.
    U64(u64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
    /// A pointer to this byte of a buffer. The buffer lives until the kernel is over.
    Device(&'a DeviceBuffer, usize),
}

impl Arg<'_> {
    /// Its bytes, in the low end of a word.
    fn word(self) -> u64 {
        match self {
            Self::I32(v) => u64::from(v as u32),
            Self::U32(v) => u64::from(v),
            Self::I64(v) => v as u64,
            Self::U64(v) => v,
            Self::F32(v) => u64::from(v.to_bits()),
            Self::F64(v) => v.to_bits(),
            Self::Device(buffer, offset) => buffer.pointer() + offset as u64,
        }
    }
}

/// The most arguments a kernel launched here can have.
const ARGUMENTS: usize = 32;

impl Function {
    /// Enqueue the kernel on `stream`.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] for a bad grid, too many arguments, an offset outside its buffer or another device's
    /// memory or stream; a lost device. Nothing was enqueued.
    ///
    /// # Safety
    /// - `args` are as many as the kernel declares, of the same types.
    /// - The kernel touches only memory it is given, inside its bounds, which lives until it is over
    ///   ([`Arg::Device`] sees to that) and which the CPU does not view meanwhile.
    pub unsafe fn launch(&self, stream: &Stream, grid: Grid, args: &[Arg<'_>]) -> Result<()> {
        if !self.context().same(stream.context()) {
            return Err(CudaError::argument(
                "launch",
                "the kernel was loaded on another device than the stream's",
            ));
        }
        // SAFETY: the caller's.
        unsafe { launch(self.raw(), stream, grid, args) }
    }
}

/// # Safety
/// As [`Function::launch`]; the function is loaded in the stream's context.
pub(crate) unsafe fn launch(
    function: CUfunction,
    stream: &Stream,
    grid: Grid,
    args: &[Arg<'_>],
) -> Result<()> {
    if args.len() > ARGUMENTS {
        return Err(CudaError::argument(
            "launch",
            format!("a kernel takes at most {ARGUMENTS} arguments here"),
        ));
    }
    // Once for all the calls below.
    let _current = stream.context().enter()?;
    for arg in args {
        if let Arg::Device(buffer, offset) = arg {
            stream.check_device("launch", buffer)?;
            if *offset > buffer.len() {
                let bytes = buffer.len();
                return Err(CudaError::argument(
                    "launch",
                    format!("byte {offset} lies outside a buffer of {bytes} bytes"),
                ));
            }
            buffer.before(stream)?;
        }
    }
    let mut words = [0u64; ARGUMENTS];
    for (word, arg) in words.iter_mut().zip(args) {
        *word = arg.word().to_le();
    }
    let mut pointers = [std::ptr::null_mut::<c_void>(); ARGUMENTS];
    for (pointer, word) in pointers.iter_mut().zip(words.iter_mut()) {
        *pointer = (word as *mut u64).cast();
    }
    let ([x, y, z], [tx, ty, tz]) = (grid.blocks, grid.threads);
    stream.inner().check_capturer("launch")?;
    // SAFETY: each pointer leads to a word that begins with the argument; the driver copies the arguments
    // before it returns; the rest is the caller's.
    check("cuLaunchKernel", unsafe {
        (stream.api().cuLaunchKernel)(
            function,
            x,
            y,
            z,
            tx,
            ty,
            tz,
            grid.shared,
            stream.raw(),
            pointers.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    })?;
    for arg in args {
        if let Arg::Device(buffer, _) = arg {
            buffer.used(stream)?;
        }
    }
    Ok(())
}
