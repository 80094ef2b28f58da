//! The functions of OpenGL that this crate calls, on the context that is current.
//!
//! Whatever of the caller's state they change is put back before they return.

use super::{Current, Like, Name};
use crate::caught::quietly;
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use glow::{HasContext, NativeBuffer, NativeTexture};
use std::num::NonZeroU32;

/// OpenGL's functions, as a context has them.
pub(in crate::gl) struct Gl {
    gl: glow::Context,
    of: Name,
}

impl Gl {
    /// The functions of the calling thread's context.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if it has none; [`ErrorKind::Unsupported`] if it is older than OpenGL 3.0.
    pub fn of_current() -> Result<Self> {
        Self::load(Current::require()?)
    }

    pub(super) fn load(current: Current) -> Result<Self> {
        // SAFETY: the context is current, and its system gives the addresses of its functions.
        let load = || unsafe { glow::Context::from_loader_function_cstr(|name| current.address_of(name)) };
        let gl = quietly("loading OpenGL's functions", load)?;
        let version = gl.version();
        if version.major < 3 {
            let (major, minor) = (version.major, version.minor);
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the current context is of OpenGL {major}.{minor}, and 3.0 or newer is needed: ask for it where the context is made"
                ),
            ));
        }
        Ok(Self { gl, of: current.name() })
    }

    /// Call them, on the context that is current now: the one they were loaded for, or another, whose own are loaded
    /// then.
    ///
    /// # Errors
    /// As [`Gl::of_current`].
    pub fn enter(&mut self) -> Result<Calls<'_>> {
        let current = Current::require()?;
        if current.name() != self.of {
            *self = Self::load(current)?;
        }
        Ok(Calls { gl: &self.gl, _current: current })
    }
}

/// A texture that was seen to be there: 2D, of this size, and of 8 bits in each of red, green, blue and alpha.
#[derive(Clone, Copy)]
pub(in crate::gl) struct Texture {
    raw: NativeTexture,
    size: ImageSize,
}

impl Texture {
    pub fn name(self) -> u32 {
        self.raw.0.get()
    }

    pub fn size(self) -> ImageSize {
        self.size
    }
}

/// A buffer that was seen to be there.
#[derive(Clone, Copy)]
pub(in crate::gl) struct Buffer {
    raw: NativeBuffer,
}

impl Buffer {
    pub fn name(self) -> u32 {
        self.raw.0.get()
    }
}

/// Calls on the context that is current on this thread.
#[derive(Clone, Copy)]
pub(in crate::gl) struct Calls<'a> {
    gl: &'a glow::Context,
    /// Was asked for just now, and keeps this on its thread.
    _current: Current,
}

impl Calls<'_> {
    /// Who draws: `GL_RENDERER`.
    pub fn renderer(&self) -> String {
        // SAFETY: a context is current, here and below.
        unsafe { self.gl.get_parameter_string(glow::RENDERER) }
    }

    /// Whose driver it is: `GL_VENDOR`.
    pub fn vendor(&self) -> String {
        // SAFETY: as above.
        unsafe { self.gl.get_parameter_string(glow::VENDOR) }
    }

    pub(super) fn like(&self) -> Like {
        let version = self.gl.version();
        let (major, minor, embedded) = (version.major as i32, version.minor as i32, version.is_embedded);
        let profiled = !embedded && (major, minor) >= (3, 2);
        let core = profiled && self.number(glow::CONTEXT_PROFILE_MASK) & 1 != 0;
        Like { major, minor, embedded, core }
    }

    /// The texture `name`, of `size` and of 8 bits in each of red, green, blue and alpha.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if there is no such texture.
    pub fn texture(&self, name: u32, size: ImageSize) -> Result<Texture> {
        let raw = self.named_texture(name)?;
        let texture = Texture { raw, size };
        self.blame_others();
        let restore = Restore::texture(self);
        self.bind_texture(Some(raw));
        let bound = self.failed();
        let asked = self.can_ask_levels().then(|| self.level());
        drop(restore);
        let refuse =
            |why: String| Err(Error::new(ErrorKind::Argument, format!("OpenGL's texture {name} {why}")));
        if bound.is_some() {
            return refuse("is not 2D: pictures are written into 2D textures".into());
        }
        let Some((width, height, rgba)) = asked else { return Ok(texture) };
        if (width, height) != (size.width as i64, size.height as i64) {
            return refuse(format!("is {width}×{height}, not {size}: pictures are written into all of it"));
        }
        if !rgba {
            return refuse(
                "is not of 8 bits in each of red, green, blue and alpha: make it with GL_RGBA8".into(),
            );
        }
        Ok(texture)
    }

    /// # Errors
    /// [`ErrorKind::Argument`] if it is no longer there.
    pub fn texture_alive(&self, texture: Texture) -> Result<()> {
        self.named_texture(texture.name()).map(|_| ())
    }

    fn named_texture(&self, name: u32) -> Result<NativeTexture> {
        let texture = NonZeroU32::new(name).map(NativeTexture);
        // SAFETY: asks of a name.
        texture.filter(|texture| unsafe { self.gl.is_texture(*texture) }).ok_or_else(|| {
            Error::new(
                ErrorKind::Argument,
                format!(
                    "OpenGL has no texture {name} in the context that is current (it was deleted, never bound, or is another context's)"
                ),
            )
        })
    }

    /// The buffer `name`, of at least `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if there is no such buffer.
    pub fn buffer(&self, name: u32, bytes: usize) -> Result<Buffer> {
        let raw = self.named_buffer(name)?;
        let restore = Restore::buffer(self);
        self.bind_buffer(Some(raw));
        // SAFETY: asks of the buffer that is bound.
        let has = unsafe { self.gl.get_buffer_parameter_i32(glow::PIXEL_UNPACK_BUFFER, glow::BUFFER_SIZE) };
        drop(restore);
        if i32::try_from(bytes).is_ok_and(|bytes| bytes <= has) {
            return Ok(Buffer { raw });
        }
        Err(Error::new(
            ErrorKind::Argument,
            format!("OpenGL's buffer {name} has {has} bytes, and {bytes} are to be written (2 GiB at most)"),
        ))
    }

    /// # Errors
    /// [`ErrorKind::Argument`] if it is no longer there.
    pub fn buffer_alive(&self, buffer: Buffer) -> Result<()> {
        self.named_buffer(buffer.name()).map(|_| ())
    }

    fn named_buffer(&self, name: u32) -> Result<NativeBuffer> {
        let buffer = NonZeroU32::new(name).map(NativeBuffer);
        // SAFETY: asks of a name.
        buffer.filter(|buffer| unsafe { self.gl.is_buffer(*buffer) }).ok_or_else(|| {
            Error::new(
                ErrorKind::Argument,
                format!(
                    "OpenGL has no buffer {name} in the context that is current (it was deleted, never bound, or is another context's)"
                ),
            )
        })
    }

    /// Put a picture of RGBA8, rows `row` pixels apart, into all of a texture, by a pixel buffer made for it: the driver takes
    /// the bytes and returns, and gives their memory back once the texture has them.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] with OpenGL's error.
    pub fn upload(&self, texture: Texture, row: usize, rgba: &[u8]) -> Result<()> {
        self.blame_others();
        // SAFETY: makes a name.
        let buffer = unsafe { self.gl.create_buffer() }.map_err(|why| Error::new(ErrorKind::Device, why))?;
        let restore = Restore::all(self);
        self.bind_buffer(Some(buffer));
        // SAFETY: a slice and its length.
        unsafe { self.gl.buffer_data_u8_slice(glow::PIXEL_UNPACK_BUFFER, rgba, glow::STREAM_DRAW) };
        self.bind_texture(Some(texture.raw));
        for (what, value) in [
            (glow::UNPACK_ALIGNMENT, 4),
            (glow::UNPACK_ROW_LENGTH, row as i32),
            (glow::UNPACK_SKIP_ROWS, 0),
            (glow::UNPACK_SKIP_PIXELS, 0),
        ] {
            self.store(what, value);
        }
        let (width, height) = (texture.size.width as i32, texture.size.height as i32);
        let from_start = glow::PixelUnpackData::BufferOffset(0);
        // SAFETY: reads the pixel buffer that is bound, inside which OpenGL stays.
        unsafe {
            self.gl.tex_sub_image_2d(
                glow::TEXTURE_2D,
                0,
                0,
                0,
                width,
                height,
                glow::RGBA,
                glow::UNSIGNED_BYTE,
                from_start,
            );
        }
        let failed = self.failed();
        drop(restore);
        // SAFETY: made above; OpenGL keeps its memory until it has been read.
        unsafe { self.gl.delete_buffer(buffer) };
        self.told(failed, "writing a texture")
    }

    /// Put bytes at the start of a buffer.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] with OpenGL's error.
    pub fn fill(&self, buffer: Buffer, bytes: &[u8]) -> Result<()> {
        self.blame_others();
        let restore = Restore::buffer(self);
        self.bind_buffer(Some(buffer.raw));
        // SAFETY: a slice and its length; OpenGL stays inside the buffer.
        unsafe { self.gl.buffer_sub_data_u8_slice(glow::PIXEL_UNPACK_BUFFER, 0, bytes) };
        let failed = self.failed();
        drop(restore);
        self.told(failed, "writing a buffer")
    }

    /// What OpenGL says of the bound texture's first level: width, height, whether it is RGBA of 8 bits each.
    fn level(&self) -> (i64, i64, bool) {
        // SAFETY: asks of the texture that is bound.
        let ask = |what| unsafe { self.gl.get_tex_level_parameter_i32(glow::TEXTURE_2D, 0, what) };
        let sizes = [
            glow::TEXTURE_RED_SIZE,
            glow::TEXTURE_GREEN_SIZE,
            glow::TEXTURE_BLUE_SIZE,
            glow::TEXTURE_ALPHA_SIZE,
        ];
        let rgba = sizes.into_iter().all(|what| ask(what) == 8)
            && ask(glow::TEXTURE_RED_TYPE) as u32 == glow::UNSIGNED_NORMALIZED;
        (ask(glow::TEXTURE_WIDTH).into(), ask(glow::TEXTURE_HEIGHT).into(), rgba)
    }

    /// OpenGL ES before 3.1 does not say what a texture is.
    fn can_ask_levels(&self) -> bool {
        let version = self.gl.version();
        !version.is_embedded || (version.major, version.minor) >= (3, 1)
    }

    fn number(&self, what: u32) -> i32 {
        // SAFETY: writes one number.
        unsafe { self.gl.get_parameter_i32(what) }
    }

    fn store(&self, what: u32, value: i32) {
        // SAFETY: sets a number of the context.
        unsafe { self.gl.pixel_store_i32(what, value) };
    }

    fn bound_texture(&self) -> Option<NativeTexture> {
        // SAFETY: asks what is bound.
        unsafe { self.gl.get_parameter_texture(glow::TEXTURE_BINDING_2D) }
    }

    fn bound_buffer(&self) -> Option<NativeBuffer> {
        // SAFETY: asks what is bound.
        unsafe { self.gl.get_parameter_buffer(glow::PIXEL_UNPACK_BUFFER_BINDING) }
    }

    fn bind_texture(&self, texture: Option<NativeTexture>) {
        // SAFETY: a name; a wrong one is an error of OpenGL's.
        unsafe { self.gl.bind_texture(glow::TEXTURE_2D, texture) };
    }

    fn bind_buffer(&self, buffer: Option<NativeBuffer>) {
        // SAFETY: a name; a wrong one is an error of OpenGL's.
        unsafe { self.gl.bind_buffer(glow::PIXEL_UNPACK_BUFFER, buffer) };
    }

    /// OpenGL's error since it was asked last, the first of several.
    fn failed(&self) -> Option<u32> {
        // A lost context has one for ever.
        const MOST: usize = 8;
        // SAFETY: takes a number of the context.
        let one = || Some(unsafe { self.gl.get_error() }).filter(|code| *code != glow::NO_ERROR);
        let first = one();
        (1..MOST).map_while(|_| one()).for_each(drop);
        first
    }

    /// Take the errors of the caller's own calls, which would else look like ours, and say so.
    fn blame_others(&self) {
        if let Some(code) = self.failed() {
            log::warn!("OpenGL had error {code:#06x} pending, from a call before this library's");
        }
    }

    fn told(&self, failed: Option<u32>, what: &str) -> Result<()> {
        let Some(code) = failed else { return Ok(()) };
        let renderer = self.renderer();
        let text = format!("{what} of OpenGL's on {renderer} failed: error {code:#06x}");
        Err(Error::new(ErrorKind::Device, text))
    }
}

/// The caller's state, put back when dropped.
struct Restore<'a> {
    calls: Calls<'a>,
    /// What is bound, if that was changed.
    texture: Option<Option<NativeTexture>>,
    buffer: Option<Option<NativeBuffer>>,
    stored: Vec<(u32, i32)>,
}

impl<'a> Restore<'a> {
    fn texture(calls: &Calls<'a>) -> Self {
        Self { calls: *calls, texture: Some(calls.bound_texture()), buffer: None, stored: Vec::new() }
    }

    fn buffer(calls: &Calls<'a>) -> Self {
        Self { calls: *calls, texture: None, buffer: Some(calls.bound_buffer()), stored: Vec::new() }
    }

    fn all(calls: &Calls<'a>) -> Self {
        let what = [
            glow::UNPACK_ALIGNMENT,
            glow::UNPACK_ROW_LENGTH,
            glow::UNPACK_SKIP_ROWS,
            glow::UNPACK_SKIP_PIXELS,
        ];
        let stored = what.map(|what| (what, calls.number(what))).into();
        let (texture, buffer) = (Some(calls.bound_texture()), Some(calls.bound_buffer()));
        Self { calls: *calls, texture, buffer, stored }
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        for &(what, value) in &self.stored {
            self.calls.store(what, value);
        }
        if let Some(texture) = self.texture {
            self.calls.bind_texture(texture);
        }
        if let Some(buffer) = self.buffer {
            self.calls.bind_buffer(buffer);
        }
    }
}
