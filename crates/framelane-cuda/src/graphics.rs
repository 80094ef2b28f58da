//! Textures and buffers of OpenGL, written by CUDA.
//!
//! The driver asks OpenGL through the context that is current on the calling thread, so each call here needs one. It
//! orders the two sides by itself: work enqueued on the stream after a mapping waits for what OpenGL was told before
//! it, and what OpenGL is told after an unmapping waits for the stream's work before it. No CPU thread waits for that,
//! except where the driver itself does.

use crate::api::{Code, functions, library};
use crate::context::{Context, Raw};
use crate::error::{CudaError, Kind, Result, check};
use crate::kernels::{Nv12ToPicture, ToPicture};
use crate::memory::{DeviceBuffer, check_range};
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUarray, CUdevice, CUdeviceptr, CUgraphicsResource, CUstream};
use std::ffi::c_uint;
use std::fmt;
use std::sync::OnceLock;

functions! {
    /// What a driver may lack that is otherwise whole: one for machines that draw nothing.
    Graphics:
    cuGLGetDevices_v2(*mut c_uint, *mut CUdevice, c_uint, c_uint);
    cuGraphicsGLRegisterImage(*mut CUgraphicsResource, c_uint, c_uint, c_uint);
    cuGraphicsGLRegisterBuffer(*mut CUgraphicsResource, c_uint, c_uint);
    cuGraphicsUnregisterResource(CUgraphicsResource);
    cuGraphicsMapResources(c_uint, *mut CUgraphicsResource, CUstream);
    cuGraphicsUnmapResources(c_uint, *mut CUgraphicsResource, CUstream);
    cuGraphicsResourceGetMappedPointer_v2(*mut CUdeviceptr, *mut usize, CUgraphicsResource);
    cuGraphicsSubResourceGetMappedArray(*mut CUarray, CUgraphicsResource, c_uint, c_uint);
    cuMemcpy2DAsync_v2(*const sys::CUDA_MEMCPY2D, CUstream);
}

fn graphics() -> Result<&'static Graphics> {
    static GRAPHICS: OnceLock<std::result::Result<Graphics, &'static str>> = OnceLock::new();
    // Whoever asks has a context, so the library loads.
    GRAPHICS.get_or_init(|| Graphics::look_up(library())).as_ref().map_err(|name| {
        CudaError::refused(
            Kind::Unsupported,
            name,
            format!("the NVIDIA driver has no {name}: it shares nothing with OpenGL here"),
        )
    })
}

const TEXTURE_2D: c_uint = 0x0DE1;
/// CUDA writes all of it and reads nothing.
const WRITE_DISCARD: c_uint = 2;

impl Context {
    /// Whether this device draws the OpenGL context that is current on the calling thread.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if the driver has no part in that context: another vendor's, or none.
    ///
    /// # Safety
    /// NVIDIA's driver made the OpenGL context that is current on the calling thread. (What the call does to
    /// another's is not said by anybody.)
    pub unsafe fn draws_current_gl(&self) -> Result<bool> {
        const CALL: &str = "cuGLGetDevices_v2";
        const ALL: c_uint = 1;
        let api = graphics()?;
        let _current = self.enter()?;
        let mut devices: [CUdevice; 64] = [0; 64];
        let mut count = 0;
        // SAFETY: writes at most so many numbers and their count; the caller vouches for OpenGL's context.
        let code = unsafe { (api.cuGLGetDevices_v2)(&mut count, devices.as_mut_ptr(), 64, ALL) };
        // No device of CUDA's draws it.
        if code == 100 {
            return Ok(false);
        }
        check(CALL, code).map_err(no_part)?;
        Ok(devices[..devices.len().min(count as usize)].contains(&self.inner.device))
    }
}

/// What the driver calls an invalid graphics context, or a failure of the operating system's.
fn no_part(error: CudaError) -> CudaError {
    match error.code() {
        219 | 304 | 999 => {
            let sentence =
                format!("the OpenGL context that is current here is none that CUDA can share with: {error}");
            error.with_kind(Kind::Unsupported).saying(sentence)
        }
        _ => error,
    }
}

/// What OpenGL made and CUDA knows.
struct Registered {
    api: &'static Graphics,
    context: Context,
    raw: Raw<sys::CUgraphicsResource_st>,
}

impl Registered {
    /// `register` writes the handle.
    fn new(
        context: &Context,
        call: &'static str,
        register: impl FnOnce(&Graphics, *mut CUgraphicsResource) -> Code,
    ) -> Result<Self> {
        let api = graphics()?;
        let _current = context.enter()?;
        let mut raw: CUgraphicsResource = std::ptr::null_mut();
        check(call, register(api, &mut raw)).map_err(no_part)?;
        Ok(Self { api, context: context.clone(), raw: Raw(raw) })
    }

    /// Map it for the work that `enqueue` puts on `stream`, and unmap it after, whatever `enqueue` says.
    fn mapped(&mut self, stream: &Stream, enqueue: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        if !stream.context().same(&self.context) {
            let (ours, theirs) = (stream.context().info().ordinal, self.context.info().ordinal);
            return Err(CudaError::argument(
                "cuGraphicsMapResources",
                format!("a stream of cuda:{ours} was given a picture of OpenGL's that cuda:{theirs} draws"),
            ));
        }
        let _current = self.context.enter()?;
        stream.inner().check_capturer("cuGraphicsMapResources")?;
        if stream.inner().is_capturing() {
            return Err(CudaError::refused(
                Kind::Capture,
                "cuGraphicsMapResources",
                "what OpenGL draws cannot be written on a stream that is being captured into a graph",
            ));
        }
        let mut raw = self.raw.0;
        // SAFETY: one handle, registered and not mapped: `self` is held exclusively, and each call unmaps.
        check("cuGraphicsMapResources", unsafe {
            (self.api.cuGraphicsMapResources)(1, &mut raw, stream.raw())
        })
        .map_err(no_part)?;
        let enqueued = enqueue(self);
        // SAFETY: mapped just above, on this stream.
        let unmapped = check("cuGraphicsUnmapResources", unsafe {
            (self.api.cuGraphicsUnmapResources)(1, &mut raw, stream.raw())
        });
        enqueued.and(unmapped)
    }

    /// The first level of a texture that is mapped; until it is unmapped.
    fn array(&self) -> Result<CUarray> {
        let mut array: CUarray = std::ptr::null_mut();
        // SAFETY: writes one handle. What is not mapped is an error code.
        check("cuGraphicsSubResourceGetMappedArray", unsafe {
            (self.api.cuGraphicsSubResourceGetMappedArray)(&mut array, self.raw.0, 0, 0)
        })?;
        Ok(array)
    }

    /// The memory of a buffer that is mapped; until it is unmapped.
    fn memory(&self) -> Result<DeviceBuffer> {
        let (mut pointer, mut bytes) = (0, 0);
        // SAFETY: writes an address and a number. What is not mapped is an error code.
        check("cuGraphicsResourceGetMappedPointer_v2", unsafe {
            (self.api.cuGraphicsResourceGetMappedPointer_v2)(&mut pointer, &mut bytes, self.raw.0)
        })?;
        Ok(DeviceBuffer::wrap(&self.context, pointer, bytes, None, None))
    }

    fn leave(self) {
        let left = std::mem::ManuallyDrop::new(self);
        // SAFETY: read once, and never used or dropped where it was.
        drop(unsafe { std::ptr::read(&left.context) });
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let result = self.context.enter().and_then(|_current| {
            // SAFETY: registered once, and not mapped.
            check("cuGraphicsUnregisterResource", unsafe {
                (self.api.cuGraphicsUnregisterResource)(self.raw.0)
            })
        });
        if let Err(error) = result {
            self.context.inner.late(error);
        }
    }
}

/// A texture of OpenGL, 2D and of 4 bytes a pixel, that CUDA writes.
///
/// Dropping it makes the driver ask OpenGL: the context that it was registered on, or one that shares with it, must be
/// current on the dropping thread, and the work on streams that writes it must be over. Where none is current,
/// [`GlImage::leave`] it.
pub struct GlImage {
    registered: Registered,
    width: usize,
    height: usize,
}

impl GlImage {
    /// The texture `name`, of `width` × `height` pixels.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if CUDA has no part in the current context; [`Kind::Argument`] for no texture, or one of
    /// a format that the driver does not share. No error is left behind for the next call.
    ///
    /// # Safety
    /// - An OpenGL context of NVIDIA's driver is current on this thread; and it, or one that shares with it, on any
    ///   thread that calls a method or drops this.
    /// - `name` is a 2D texture of this size and of 4 bytes a pixel there, until this is gone.
    pub unsafe fn register(context: &Context, name: u32, width: usize, height: usize) -> Result<Self> {
        let registered = Registered::new(context, "cuGraphicsGLRegisterImage", |api, raw| {
            // SAFETY: writes one handle; the caller vouches for the texture.
            unsafe { (api.cuGraphicsGLRegisterImage)(raw, name, TEXTURE_2D, WRITE_DISCARD) }
        })?;
        Ok(Self { registered, width, height })
    }

    /// Map it once and unmap it, on `stream`: what it holds is lost. Tells whether [`GlImage::copy_from`] will do.
    ///
    /// # Errors
    /// What the driver says.
    pub fn try_mapping(&mut self, stream: &Stream) -> Result<()> {
        self.registered.mapped(stream, |registered| registered.array().map(|_| ()))
    }

    /// Enqueue copying the picture at byte `at` of `from`, rows `row` bytes apart, into all of the texture.
    ///
    /// # Errors
    /// [`Kind::Argument`] for rows that overlap or lie outside the memory, or a stream or memory of another device;
    /// [`Kind::Capture`] on a stream that is being captured; what the driver says of the texture; a lost device.
    pub fn copy_from(&mut self, stream: &Stream, from: &DeviceBuffer, at: usize, row: usize) -> Result<()> {
        const CALL: &str = "cuMemcpy2DAsync_v2";
        let (width, height) = (4 * self.width, self.height);
        let bytes = height.saturating_sub(1).saturating_mul(row).saturating_add(width);
        check_range(CALL, &(at..at.saturating_add(bytes)), from.len())?;
        if row < width {
            return Err(CudaError::argument(CALL, format!("rows of {width} bytes cannot be {row} apart")));
        }
        stream.check_device(CALL, from)?;
        self.registered.mapped(stream, |registered| {
            let array = registered.array()?;
            let copy = sys::CUDA_MEMCPY2D {
                srcXInBytes: 0,
                srcY: 0,
                srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
                srcHost: std::ptr::null(),
                srcDevice: from.pointer() + at as u64,
                srcArray: std::ptr::null_mut(),
                srcPitch: row,
                dstXInBytes: 0,
                dstY: 0,
                dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_ARRAY,
                dstHost: std::ptr::null_mut(),
                dstDevice: 0,
                dstArray: array,
                dstPitch: 0,
                WidthInBytes: width,
                Height: height,
            };
            from.before(stream)?;
            // SAFETY: the source was checked to lie inside its memory, which waits for this stream before it goes; the
            // driver knows the array's size and refuses more.
            check(CALL, unsafe { (registered.api.cuMemcpy2DAsync_v2)(&copy, stream.raw()) })?;
            from.used(stream)
        })
    }

    /// Let it go where no OpenGL context is current: it stays registered until the process ends, or the device's
    /// primary context does.
    pub fn leave(self) {
        self.registered.leave();
    }
}

/// A buffer of OpenGL that CUDA writes. What holds for [`GlImage`] when it is dropped holds here.
pub struct GlMemory {
    registered: Registered,
}

impl GlMemory {
    /// The buffer `name`. What is not written stays as it is.
    ///
    /// # Errors
    /// As [`GlImage::register`].
    ///
    /// # Safety
    /// - The contexts as in [`GlImage::register`].
    /// - `name` is a buffer there, with its memory, until this is gone.
    pub unsafe fn register(context: &Context, name: u32) -> Result<Self> {
        const NONE: c_uint = 0;
        let registered = Registered::new(context, "cuGraphicsGLRegisterBuffer", |api, raw| {
            // SAFETY: writes one handle; the caller vouches for the buffer.
            unsafe { (api.cuGraphicsGLRegisterBuffer)(raw, name, NONE) }
        })?;
        Ok(Self { registered })
    }

    /// Map it once and unmap it, on `stream`. Tells whether [`GlMemory::to_picture`] will do.
    ///
    /// # Errors
    /// What the driver says.
    pub fn try_mapping(&mut self, stream: &Stream) -> Result<()> {
        self.registered.mapped(stream, |registered| registered.memory().map(|_| ()))
    }

    /// Enqueue making a picture at the buffer's first byte from the numbers at byte `from_at` of `from`
    /// ([`Stream::to_picture`]).
    ///
    /// # Errors
    /// As [`Stream::to_picture`] and [`GlImage::copy_from`]; the buffer is not written then.
    pub fn to_picture(
        &mut self,
        stream: &Stream,
        how: &ToPicture,
        from: &DeviceBuffer,
        from_at: usize,
    ) -> Result<()> {
        self.registered.mapped(stream, |registered| {
            // Stays in here: the kernel is enqueued before the unmapping is.
            let memory = registered.memory()?;
            stream.to_picture(how, from, from_at, &memory, 0)
        })
    }

    /// As [`GlMemory::to_picture`], from NV12 ([`Stream::nv12_to_picture`]).
    ///
    /// # Errors
    /// As [`GlMemory::to_picture`].
    pub fn nv12_to_picture(
        &mut self,
        stream: &Stream,
        how: &Nv12ToPicture,
        from: &DeviceBuffer,
        from_at: usize,
    ) -> Result<()> {
        self.registered
            .mapped(stream, |registered| stream.nv12_to_picture(how, from, from_at, &registered.memory()?, 0))
    }

    /// As [`GlImage::leave`].
    pub fn leave(self) {
        self.registered.leave();
    }
}

impl fmt::Debug for GlImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlImage({:?}, {}×{})", self.registered.context, self.width, self.height)
    }
}

impl fmt::Debug for GlMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlMemory({:?})", self.registered.context)
    }
}
