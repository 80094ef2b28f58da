//! WGL: which context is current, and another that shares with it. By WGL's own functions, on the window that the
//! current context draws to.

use super::library::{self, functions};
use super::{Like, unsupported};
use framelane::Result;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

type Handle = *mut c_void;

const LIBRARY: &[&str] = &["opengl32.dll"];

functions! {
    Wgl of LIBRARY;
    wglGetCurrentContext() -> Handle;
    wglGetCurrentDC() -> Handle;
    wglGetProcAddress(*const c_char) -> *const c_void;
    wglDeleteContext(Handle) -> i32;
    wglMakeCurrent(Handle, Handle) -> i32;
}

/// `wglCreateContextAttribsARB`.
type Create = unsafe extern "system" fn(Handle, Handle, *const i32) -> Handle;

/// Major, minor, profile of a context.
const VERSION: [i32; 3] = [0x2091, 0x2092, 0x9126];

/// The handle of the calling thread's context, or 0.
pub(super) fn current() -> usize {
    // SAFETY: asks for a number of this thread.
    Wgl::get().map_or(0, |wgl| unsafe { (wgl.wglGetCurrentContext)() } as usize)
}

pub(super) fn address_of(function: &CStr) -> *const c_void {
    let Some(wgl) = Wgl::get() else { return null() };
    // SAFETY: a name that ends with a zero.
    let address = unsafe { (wgl.wglGetProcAddress)(function.as_ptr()) };
    // Small numbers, and -1, are failures, too.
    if !matches!(address as isize, -1..=3) {
        return address;
    }
    // What OpenGL 1.1 has is in the library itself.
    static GL: std::sync::OnceLock<Option<&'static libloading::Library>> = std::sync::OnceLock::new();
    let Some(gl) = GL.get_or_init(|| library::open(LIBRARY)) else { return null() };
    // SAFETY: an address, of whatever type its caller says.
    unsafe { library::look_up::<*const c_void>(gl, function) }.unwrap_or(null())
}

/// A context, and the device context of the window that it is made current with.
pub(in crate::gl) struct Made {
    wgl: &'static Wgl,
    window: Handle,
    context: Handle,
}

// SAFETY: WGL takes its handles from any thread; whoever has the context current borrows `Made` there.
unsafe impl Send for Made {}

impl Made {
    pub(super) fn sharing(like: Like) -> Result<Self> {
        let wgl = Wgl::get().ok_or_else(|| unsupported("WGL cannot be loaded any more"))?;
        let create = address_of(c"wglCreateContextAttribsARB");
        if create.is_null() || like.embedded {
            return Err(unsupported("this WGL makes no context of such a version (WGL_ARB_create_context)"));
        }
        // SAFETY: the function's own type, in the extension's text.
        let create = unsafe { std::mem::transmute::<*const c_void, Create>(create) };
        // SAFETY: asks for a handle of this thread.
        let window = unsafe { (wgl.wglGetCurrentDC)() };
        // SAFETY: as above.
        let theirs = unsafe { (wgl.wglGetCurrentContext)() };
        let mut attributes = like.attributes(VERSION);
        attributes.push(0);
        // SAFETY: handles that are current on this thread, and a list with an end.
        let context = unsafe { create(window, theirs, attributes.as_ptr()) };
        if context.is_null() {
            let why = std::io::Error::last_os_error();
            return Err(unsupported(format!("WGL makes no context that shares with this one: {why}")));
        }
        Ok(Self { wgl, window, context })
    }

    pub(super) fn make_current(&self) -> Result<Before> {
        let before = Before::now(self.wgl);
        // SAFETY: a context of ours, and a window of the same pixel format.
        if unsafe { (self.wgl.wglMakeCurrent)(self.window, self.context) } == 0 {
            let why = std::io::Error::last_os_error();
            return Err(unsupported(format!("the context that shares cannot be made current: {why}")));
        }
        Ok(before)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: made once, and current nowhere: whoever has it current borrows `self`.
        if unsafe { (self.wgl.wglDeleteContext)(self.context) } == 0 {
            let why = std::io::Error::last_os_error();
            log::warn!("an OpenGL context could not be given back to WGL: {why}");
        }
    }
}

/// What this thread had current.
pub(in crate::gl) struct Before {
    wgl: &'static Wgl,
    window: Handle,
    context: Handle,
}

impl Before {
    fn now(wgl: &'static Wgl) -> Self {
        // SAFETY: asks for a handle of this thread.
        let window = unsafe { (wgl.wglGetCurrentDC)() };
        // SAFETY: as above.
        let context = unsafe { (wgl.wglGetCurrentContext)() };
        Self { wgl, window, context }
    }

    pub(super) fn put_back(&self) {
        // SAFETY: handles that were current on this thread; nulls release.
        if unsafe { (self.wgl.wglMakeCurrent)(self.window, self.context) } == 0 {
            let why = std::io::Error::last_os_error();
            log::warn!("the OpenGL context from before cannot be made current again: {why}");
        }
    }
}
