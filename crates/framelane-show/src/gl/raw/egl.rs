//! EGL: which context is current, and another that shares with it.
//!
//! By EGL's own functions: glutin takes no display that it has not made itself, and contexts of two displays do not
//! share.

use super::library::functions;
use super::{Like, unsupported};
use framelane::Result;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

type Handle = *mut c_void;

functions! {
    Egl of &["libEGL.so.1", "libEGL.so"];
    eglGetCurrentContext() -> Handle;
    eglGetCurrentDisplay() -> Handle;
    eglGetCurrentSurface(i32) -> Handle;
    eglGetProcAddress(*const c_char) -> *const c_void;
    eglGetError() -> i32;
    eglQueryAPI() -> u32;
    eglBindAPI(u32) -> u32;
    eglQueryContext(Handle, Handle, i32, *mut i32) -> u32;
    eglQueryString(Handle, i32) -> *const c_char;
    eglChooseConfig(Handle, *const i32, *mut Handle, i32, *mut i32) -> u32;
    eglCreateContext(Handle, Handle, Handle, *const i32) -> Handle;
    eglDestroyContext(Handle, Handle) -> u32;
    eglCreatePbufferSurface(Handle, Handle, *const i32) -> Handle;
    eglDestroySurface(Handle, Handle) -> u32;
    eglMakeCurrent(Handle, Handle, Handle, Handle) -> u32;
}

const NONE: i32 = 0x3038;
const CONFIG_ID: i32 = 0x3028;
const HEIGHT: i32 = 0x3056;
const WIDTH: i32 = 0x3057;
const EXTENSIONS: i32 = 0x3055;
const DRAW: i32 = 0x3059;
const READ: i32 = 0x305A;
/// Major, minor, profile of a context.
const VERSION: [i32; 3] = [0x3098, 0x30FB, 0x30FD];
const OPENGL_ES_API: u32 = 0x30A0;
const OPENGL_API: u32 = 0x30A2;

/// The handle of the calling thread's context, or 0.
pub(super) fn current() -> usize {
    // SAFETY: asks for a number of this thread.
    Egl::get().map_or(0, |egl| unsafe { (egl.eglGetCurrentContext)() } as usize)
}

pub(super) fn address_of(function: &CStr) -> *const c_void {
    // SAFETY: a name that ends with a zero.
    Egl::get().map_or(std::ptr::null(), |egl| unsafe { (egl.eglGetProcAddress)(function.as_ptr()) })
}

/// A context and the surface that it is made current with, if it needs one.
pub(in crate::gl) struct Made {
    egl: &'static Egl,
    api: u32,
    display: Handle,
    context: Handle,
    surface: Handle,
}

// SAFETY: EGL's handles are names, which any thread may use; whoever has the context current borrows `Made` there.
unsafe impl Send for Made {}

impl Made {
    pub(super) fn sharing(like: Like) -> Result<Self> {
        let egl = Egl::get().ok_or_else(|| unsupported("EGL cannot be loaded any more"))?;
        // SAFETY: asks for a handle of this thread.
        let display = unsafe { (egl.eglGetCurrentDisplay)() };
        // SAFETY: as above.
        let theirs = unsafe { (egl.eglGetCurrentContext)() };
        let config = config_of(egl, display, theirs)?;
        // SAFETY: a number of this thread.
        let before = unsafe { (egl.eglQueryAPI)() };
        let api = if like.embedded { OPENGL_ES_API } else { OPENGL_API };
        let mut attributes = like.attributes(VERSION);
        attributes.push(NONE);
        // SAFETY: sets a number of this thread, put back below.
        unsafe { (egl.eglBindAPI)(api) };
        // SAFETY: handles that EGL gave just now, and a list with an end.
        let context = unsafe { (egl.eglCreateContext)(display, config, theirs, attributes.as_ptr()) };
        let why = failure(egl);
        // SAFETY: as above.
        unsafe { (egl.eglBindAPI)(before) };
        if context.is_null() {
            return Err(unsupported(format!("EGL makes no context that shares with this one: {why}")));
        }
        // From here on its destructor cleans up.
        let mut made = Self { egl, api, display, context, surface: null_mut() };
        if !has(egl, display, "EGL_KHR_surfaceless_context") {
            // SAFETY: handles of EGL's, and a list with an end.
            made.surface = unsafe {
                (egl.eglCreatePbufferSurface)(display, config, [WIDTH, 1, HEIGHT, 1, NONE].as_ptr())
            };
            if made.surface.is_null() {
                let why = failure(egl);
                return Err(unsupported(format!("EGL makes no surface for a context that shares: {why}")));
            }
        }
        Ok(made)
    }

    pub(super) fn make_current(&self) -> Result<Before> {
        let before = Before::now(self.egl, self.display);
        // SAFETY: sets a number of this thread.
        unsafe { (self.egl.eglBindAPI)(self.api) };
        if set(self.egl, self.display, self.surface, self.surface, self.context) {
            return Ok(before);
        }
        let why = failure(self.egl);
        before.put_back();
        Err(unsupported(format!("the context that shares cannot be made current on this thread: {why}")))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: made once, and current nowhere: whoever has it current borrows `self`.
        let gone = unsafe { (self.egl.eglDestroyContext)(self.display, self.context) };
        if !self.surface.is_null() {
            // SAFETY: as above.
            unsafe { (self.egl.eglDestroySurface)(self.display, self.surface) };
        }
        if gone == 0 {
            log::warn!("an OpenGL context could not be given back to EGL: {}", failure(self.egl));
        }
    }
}

/// What this thread had current.
pub(in crate::gl) struct Before {
    egl: &'static Egl,
    api: u32,
    display: Handle,
    draw: Handle,
    read: Handle,
    context: Handle,
}

impl Before {
    /// `ours`: what to release, if nothing is current.
    fn now(egl: &'static Egl, ours: Handle) -> Self {
        // SAFETY: asks for handles of this thread, here and below.
        let context = unsafe { (egl.eglGetCurrentContext)() };
        // SAFETY: as above.
        let display = unsafe { (egl.eglGetCurrentDisplay)() };
        // SAFETY: as above.
        let draw = unsafe { (egl.eglGetCurrentSurface)(DRAW) };
        // SAFETY: as above.
        let read = unsafe { (egl.eglGetCurrentSurface)(READ) };
        // SAFETY: as above.
        let api = unsafe { (egl.eglQueryAPI)() };
        let display = if context.is_null() { ours } else { display };
        Self { egl, api, display, draw, read, context }
    }

    pub(super) fn put_back(&self) {
        if !set(self.egl, self.display, self.draw, self.read, self.context) {
            let why = failure(self.egl);
            log::warn!("the OpenGL context from before cannot be made current again: {why}");
            set(self.egl, self.display, null_mut(), null_mut(), null_mut());
        }
        // SAFETY: sets a number of this thread.
        unsafe { (self.egl.eglBindAPI)(self.api) };
    }
}

fn set(egl: &Egl, display: Handle, draw: Handle, read: Handle, context: Handle) -> bool {
    // SAFETY: handles that EGL gave; what has gone since is an error of EGL's.
    unsafe { (egl.eglMakeCurrent)(display, draw, read, context) != 0 }
}

/// The config of a context; null for one that was made without.
fn config_of(egl: &Egl, display: Handle, context: Handle) -> Result<Handle> {
    let mut id = 0;
    // SAFETY: writes one number.
    let asked = unsafe { (egl.eglQueryContext)(display, context, CONFIG_ID, &mut id) };
    if asked == 0 {
        return Err(unsupported(format!("EGL does not say the config of this context: {}", failure(egl))));
    }
    if id == 0 {
        return Ok(null_mut());
    }
    let (mut config, mut count) = (null_mut(), 0);
    // SAFETY: a list with an end; writes one handle at most, and a number.
    let chosen =
        unsafe { (egl.eglChooseConfig)(display, [CONFIG_ID, id, NONE].as_ptr(), &mut config, 1, &mut count) };
    if chosen == 0 || count < 1 {
        return Err(unsupported(format!("EGL does not find config {id} of this context: {}", failure(egl))));
    }
    Ok(config)
}

fn has(egl: &Egl, display: Handle, extension: &str) -> bool {
    // SAFETY: a display of EGL's.
    let text = unsafe { (egl.eglQueryString)(display, EXTENSIONS) };
    if text.is_null() {
        return false;
    }
    // SAFETY: EGL's texts end with a zero and stay.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().split(' ').any(|one| one == extension)
}

fn failure(egl: &Egl) -> String {
    // SAFETY: a number of this thread.
    match unsafe { (egl.eglGetError)() } {
        0x3009 => "EGL_BAD_MATCH (its attributes differ from the other's)".into(),
        0x3001 => "EGL_NOT_INITIALIZED (its display was ended)".into(),
        0x3002 => "EGL_BAD_ACCESS (it is current on another thread)".into(),
        code => format!("EGL error {code:#x}"),
    }
}
