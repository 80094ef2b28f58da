//! A program that draws with OpenGL: contexts of glutin's, textures and buffers of glow's. What it has is foreign to the
//! library under test. Used by the benchmark, too.

use glow::{HasContext, NativeBuffer, NativeTexture, PixelPackData, PixelUnpackData};
use glutin::api::{egl, glx};
use glutin::config::{Api, ConfigSurfaceTypes, ConfigTemplate, ConfigTemplateBuilder};
use glutin::context::{
    ContextApi, ContextAttributes, ContextAttributesBuilder, GlProfile, PossiblyCurrentGlContext, Version,
};
use glutin::display::{GetGlDisplay, GlDisplay};
use glutin::prelude::NotCurrentGlContext;
use glutin::surface::{PbufferSurface, SurfaceAttributesBuilder};
use std::ffi::{CString, c_char, c_void};
use std::num::NonZeroU32;
use std::ptr::NonNull;
use winit::raw_window_handle::{RawDisplayHandle, XlibDisplayHandle};

/// Which GPU draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawer {
    /// Whichever comes first.
    Any,
    /// Mesa's software.
    Software,
    /// The one that CUDA counts so.
    Cuda(u32),
}

/// A context that is current on the thread that made it, until dropped.
pub struct Program {
    pub gl: glow::Context,
    context: Context,
}

enum Context {
    Egl(egl::context::PossiblyCurrentContext),
    Glx(glx::context::PossiblyCurrentContext, glx::surface::Surface<PbufferSurface>),
}

impl Program {
    /// On a surface of no window, by EGL. `Err` says why there is none.
    pub fn egl(drawer: Drawer) -> Result<Self, String> {
        let devices = egl::device::Device::query_devices().map_err(|e| format!("EGL has no devices: {e}"))?;
        let mut why = format!("EGL has no device for {drawer:?}");
        for device in devices {
            // SAFETY: no native display is named.
            let display = match unsafe { egl::display::Display::with_device(&device, None) } {
                Ok(display) => display,
                Err(error) => {
                    why = format!("{why}; {error}");
                    continue;
                }
            };
            let suits = match drawer {
                Drawer::Any => true,
                Drawer::Software => device.extensions().contains("EGL_MESA_device_software"),
                Drawer::Cuda(ordinal) => cuda_ordinal(&display, &device) == Some(ordinal),
            };
            if !suits {
                continue;
            }
            match Self::egl_on(&display) {
                Ok(program) => return Ok(program),
                Err(error) => why = format!("{why}; {error}"),
            }
        }
        Err(why)
    }

    fn egl_on(display: &egl::display::Display) -> Result<Self, String> {
        // SAFETY: the template names no native window.
        let configs = unsafe { display.find_configs(template(ConfigSurfaceTypes::empty())) };
        let config = configs.map_err(|e| e.to_string())?.next().ok_or("no config of OpenGL's")?;
        // SAFETY: the attributes name no native window and no other context.
        let context = unsafe { display.create_context(&config, &attributes()) }.map_err(|e| e.to_string())?;
        let context = context.make_current_surfaceless().map_err(|e| e.to_string())?;
        Ok(Self { gl: functions(display), context: Context::Egl(context) })
    }

    /// On a pixel buffer of an X server, by GLX.
    pub fn glx(server: &str) -> Result<Self, String> {
        // SAFETY: Xlib's initialisers are what every program for X runs.
        let xlib = unsafe { libloading::Library::new("libX11.so.6") }.map_err(|e| e.to_string())?;
        // Stays: the connection is never closed.
        let xlib: &'static libloading::Library = Box::leak(Box::new(xlib));
        // SAFETY: of Xlib's header.
        let open =
            unsafe { xlib.get::<unsafe extern "C" fn(*const c_char) -> *mut c_void>(b"XOpenDisplay\0") };
        let open = open.map_err(|e| e.to_string())?;
        let name = CString::new(server).map_err(|e| e.to_string())?;
        // SAFETY: a name that ends with a zero.
        let connection =
            NonNull::new(unsafe { open(name.as_ptr()) }).ok_or("the X server does not answer")?;
        let handle = RawDisplayHandle::Xlib(XlibDisplayHandle::new(Some(connection), 0));
        // SAFETY: a connection that was just opened.
        let display = unsafe { glx::display::Display::new(handle, Box::new(|_| ())) };
        let display = display.map_err(|e| e.to_string())?;
        // SAFETY: the template names no native window.
        let configs = unsafe { display.find_configs(template(ConfigSurfaceTypes::PBUFFER)) };
        let config = configs.map_err(|e| e.to_string())?.next().ok_or("no config of OpenGL's")?;
        // SAFETY: the attributes name no native window and no other context.
        let context = unsafe { display.create_context(&config, &attributes()) }.map_err(|e| e.to_string())?;
        let surface =
            SurfaceAttributesBuilder::<PbufferSurface>::new().build(NonZeroU32::MIN, NonZeroU32::MIN);
        // SAFETY: no native window is named.
        let surface =
            unsafe { display.create_pbuffer_surface(&config, &surface) }.map_err(|e| e.to_string())?;
        let context = context.make_current(&surface).map_err(|e| e.to_string())?;
        Ok(Self { gl: functions(&display), context: Context::Glx(context, surface) })
    }

    /// Have nothing current on this thread.
    pub fn release(&self) {
        match &self.context {
            Context::Egl(context) => context.make_not_current_in_place(),
            Context::Glx(context, _) => context.make_not_current_in_place(),
        }
        .unwrap();
    }

    pub fn make_current(&self) {
        match &self.context {
            Context::Egl(context) => context.make_current_surfaceless(),
            Context::Glx(context, surface) => context.make_current(surface),
        }
        .unwrap();
    }

    pub fn is_current(&self) -> bool {
        match &self.context {
            Context::Egl(context) => context.is_current(),
            Context::Glx(context, _) => context.is_current(),
        }
    }

    /// A 2D texture of RGBA8.
    pub fn texture(&self, width: usize, height: usize) -> u32 {
        self.texture_of(glow::RGBA8, width, height)
    }

    /// A 2D texture of a format, all of it 77. What was bound before is bound after.
    pub fn texture_of(&self, format: u32, width: usize, height: usize) -> u32 {
        let before = self.bound();
        // SAFETY: the context is current, here and in what follows.
        let texture = unsafe { self.gl.create_texture() }.unwrap();
        self.bind(Some(texture));
        let grey = vec![77; 4 * width * height];
        let pixels = PixelUnpackData::Slice(Some(&grey));
        let (format, width, height) = (format as i32, width as i32, height as i32);
        // SAFETY: as many pixels as are read.
        unsafe {
            self.gl.tex_image_2d(
                glow::TEXTURE_2D,
                0,
                format,
                width,
                height,
                0,
                glow::RGBA,
                glow::UNSIGNED_BYTE,
                pixels,
            );
        }
        // Without levels below the first it is whole.
        // SAFETY: sets a number.
        unsafe { self.gl.tex_parameter_i32(glow::TEXTURE_2D, glow::TEXTURE_MAX_LEVEL, 0) };
        self.bind(before);
        assert_eq!(self.error(), 0);
        texture.0.get()
    }

    /// A texture that is not 2D.
    pub fn cube(&self) -> u32 {
        // SAFETY: the context is current.
        let texture = unsafe { self.gl.create_texture() }.unwrap();
        // SAFETY: as above.
        unsafe { self.gl.bind_texture(glow::TEXTURE_CUBE_MAP, Some(texture)) };
        texture.0.get()
    }

    pub fn delete_texture(&self, name: u32) {
        // SAFETY: as above.
        unsafe { self.gl.delete_texture(texture(name)) };
    }

    /// All of a texture of RGBA8, after everything that OpenGL was told.
    pub fn read_texture(&self, name: u32, width: usize, height: usize) -> Vec<u8> {
        let before = self.bound();
        self.bind(Some(texture(name)));
        let mut pixels = vec![0; 4 * width * height];
        let to = PixelPackData::Slice(Some(&mut pixels));
        // SAFETY: as many pixels as are written.
        unsafe { self.gl.get_tex_image(glow::TEXTURE_2D, 0, glow::RGBA, glow::UNSIGNED_BYTE, to) };
        self.bind(before);
        assert_eq!(self.error(), 0);
        pixels
    }

    /// A pixel buffer with these bytes.
    pub fn buffer(&self, bytes: &[u8]) -> u32 {
        // SAFETY: the context is current.
        let buffer = unsafe { self.gl.create_buffer() }.unwrap();
        self.bind_buffer(Some(buffer));
        // SAFETY: as above.
        unsafe { self.gl.buffer_data_u8_slice(glow::PIXEL_UNPACK_BUFFER, bytes, glow::STREAM_DRAW) };
        self.bind_buffer(None);
        buffer.0.get()
    }

    pub fn read_buffer(&self, name: u32, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.bind_buffer(Some(buffer(name)));
        // SAFETY: as many bytes as are written.
        unsafe { self.gl.get_buffer_sub_data(glow::PIXEL_UNPACK_BUFFER, 0, &mut data) };
        self.bind_buffer(None);
        assert_eq!(self.error(), 0);
        data
    }

    /// Fill a texture from a pixel buffer, as programs do.
    pub fn fill_from_buffer(&self, name: u32, from: u32, width: usize, height: usize) {
        self.bind(Some(texture(name)));
        self.bind_buffer(Some(buffer(from)));
        let (width, height, start) = (width as i32, height as i32, PixelUnpackData::BufferOffset(0));
        // SAFETY: OpenGL stays inside the buffer.
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
                start,
            );
        }
        self.bind_buffer(None);
        self.bind(None);
        assert_eq!(self.error(), 0);
    }

    /// Set all that an upload may touch to what it is not by itself: a texture, a buffer, how pixels are read.
    pub fn set_state(&self, bound: u32, from: u32) {
        self.bind(Some(texture(bound)));
        self.bind_buffer(Some(buffer(from)));
        for (n, what) in STATE.into_iter().enumerate() {
            let value = if what == glow::UNPACK_ALIGNMENT { 2 } else { 5 + n as i32 };
            // SAFETY: sets a number.
            unsafe { self.gl.pixel_store_i32(what, value) };
        }
        assert_eq!(self.error(), 0);
    }

    pub fn state(&self) -> Vec<i32> {
        let bound = [glow::TEXTURE_BINDING_2D, glow::PIXEL_UNPACK_BUFFER_BINDING, glow::ACTIVE_TEXTURE];
        // SAFETY: asks for a number.
        bound.into_iter().chain(STATE).map(|what| unsafe { self.gl.get_parameter_i32(what) }).collect()
    }

    /// Make an error pending.
    pub fn go_wrong(&self) {
        // SAFETY: no such target: an error of OpenGL's.
        unsafe { self.gl.bind_texture(1, None) };
    }

    pub fn error(&self) -> u32 {
        // SAFETY: asks for a number.
        unsafe { self.gl.get_error() }
    }

    /// Wait until OpenGL has done all it was told.
    pub fn finish(&self) {
        // SAFETY: waits.
        unsafe { self.gl.finish() };
    }

    /// `glFinish`, for another thread's context of the same system.
    pub fn finish_function(&self) -> Finish {
        let address = match &self.context {
            Context::Egl(context) => context.display().get_proc_address(c"glFinish"),
            Context::Glx(context, _) => context.display().get_proc_address(c"glFinish"),
        };
        assert!(!address.is_null());
        // SAFETY: of OpenGL's header.
        Finish(unsafe { std::mem::transmute::<*const c_void, extern "system" fn()>(address) })
    }

    pub fn renderer(&self) -> String {
        // SAFETY: asks for a text.
        unsafe { self.gl.get_parameter_string(glow::RENDERER) }
    }

    fn bound(&self) -> Option<NativeTexture> {
        // SAFETY: asks what is bound.
        unsafe { self.gl.get_parameter_texture(glow::TEXTURE_BINDING_2D) }
    }

    fn bind(&self, texture: Option<NativeTexture>) {
        // SAFETY: a name.
        unsafe { self.gl.bind_texture(glow::TEXTURE_2D, texture) };
    }

    fn bind_buffer(&self, buffer: Option<NativeBuffer>) {
        // SAFETY: a name.
        unsafe { self.gl.bind_buffer(glow::PIXEL_UNPACK_BUFFER, buffer) };
    }
}

pub struct Finish(extern "system" fn());

impl Finish {
    /// Wait until OpenGL has done all that this thread's context was told.
    pub fn call(&self) {
        (self.0)();
    }
}

const STATE: [u32; 4] =
    [glow::UNPACK_ALIGNMENT, glow::UNPACK_ROW_LENGTH, glow::UNPACK_SKIP_ROWS, glow::UNPACK_SKIP_PIXELS];

fn texture(name: u32) -> NativeTexture {
    NativeTexture(NonZeroU32::new(name).unwrap())
}

fn buffer(name: u32) -> NativeBuffer {
    NativeBuffer(NonZeroU32::new(name).unwrap())
}

fn template(surfaces: ConfigSurfaceTypes) -> ConfigTemplate {
    ConfigTemplateBuilder::new().with_api(Api::OPENGL).with_surface_type(surfaces).build()
}

fn attributes() -> ContextAttributes {
    ContextAttributesBuilder::new()
        .with_profile(GlProfile::Core)
        .with_context_api(ContextApi::OpenGl(Some(Version::new(3, 3))))
        .build(None)
}

fn functions(display: &impl GlDisplay) -> glow::Context {
    // SAFETY: a context of this display is current.
    unsafe { glow::Context::from_loader_function_cstr(|name| display.get_proc_address(name)) }
}

/// What CUDA counts the device as (`EGL_NV_device_cuda`).
fn cuda_ordinal(display: &egl::display::Display, device: &egl::device::Device) -> Option<u32> {
    const CUDA_DEVICE: i32 = 0x323A;
    if !device.extensions().contains("EGL_NV_device_cuda") {
        return None;
    }
    let mut ordinal = 0;
    // SAFETY: a device of this EGL's, which has the attribute; writes one number.
    let asked = unsafe { display.egl().QueryDeviceAttribEXT(device.raw_device(), CUDA_DEVICE, &mut ordinal) };
    (asked != 0).then_some(ordinal as u32)
}

/// What the driver says of a texture that does not exist. The context that is current is NVIDIA's.
pub fn register_nothing(
    context: &framelane::framelane_cuda::Context,
) -> framelane::framelane_cuda::Result<()> {
    // SAFETY: there is no such texture, and the driver must say so: that is the test.
    let image = unsafe { framelane::framelane_cuda::GlImage::register(context, 987_654, 8, 8) };
    image.map(|_| ())
}
