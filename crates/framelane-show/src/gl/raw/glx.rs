//! GLX: which context is current, and another that shares with it.
//!
//! By GLX's own functions, on the connection to the X server that the current context is of. Two threads use it then,
//! so Xlib must know of threads: it does from version 1.8 on, and before if the program called `XInitThreads` first.

use super::library::functions;
use super::{Like, unsupported};
use framelane::Result;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

type Handle = *mut c_void;
type OnError = Option<unsafe extern "C" fn(Handle, *const XError) -> c_int>;

functions! {
    Glx of &["libGLX.so.0", "libGL.so.1"];
    glXGetCurrentContext() -> Handle;
    glXGetCurrentDisplay() -> Handle;
    glXGetCurrentDrawable() -> c_ulong;
    glXGetCurrentReadDrawable() -> c_ulong;
    glXGetProcAddressARB(*const c_char) -> Option<unsafe extern "C" fn()>;
    glXQueryContext(Handle, Handle, c_int, *mut c_int) -> c_int;
    glXChooseFBConfig(Handle, c_int, *const c_int, *mut c_int) -> *mut Handle;
    glXCreatePbuffer(Handle, Handle, *const c_int) -> c_ulong;
    glXDestroyPbuffer(Handle, c_ulong);
    glXDestroyContext(Handle, Handle);
    glXMakeContextCurrent(Handle, c_ulong, c_ulong, Handle) -> c_int;
}

functions! {
    X of &["libX11.so.6"];
    XFree(Handle) -> c_int;
    XSync(Handle, c_int) -> c_int;
    XSetErrorHandler(OnError) -> OnError;
}

/// `glXCreateContextAttribsARB`.
type Create = unsafe extern "C" fn(Handle, Handle, Handle, c_int, *const c_int) -> Handle;

/// The beginning of Xlib's `XErrorEvent`.
#[repr(C)]
struct XError {
    kind: c_int,
    display: Handle,
    resource: c_ulong,
    serial: c_ulong,
    code: u8,
}

const FBCONFIG_ID: c_int = 0x8013;
const SCREEN: c_int = 0x800C;
const PBUFFER_WIDTH: c_int = 0x8041;
const PBUFFER_HEIGHT: c_int = 0x8040;
/// Major, minor, profile of a context.
const VERSION: [i32; 3] = [0x2091, 0x2092, 0x9126];

/// The handle of the calling thread's context, or 0.
pub(super) fn current() -> usize {
    // SAFETY: asks for a number of this thread.
    Glx::get().map_or(0, |glx| unsafe { (glx.glXGetCurrentContext)() } as usize)
}

pub(super) fn address_of(function: &CStr) -> *const c_void {
    let Some(glx) = Glx::get() else { return std::ptr::null() };
    // SAFETY: a name that ends with a zero.
    let address = unsafe { (glx.glXGetProcAddressARB)(function.as_ptr().cast()) };
    address.map_or(std::ptr::null(), |function| function as *const c_void)
}

/// A context and the pixel buffer, of one pixel, that it is made current with.
pub(in crate::gl) struct Made {
    glx: &'static Glx,
    x: &'static X,
    display: Handle,
    context: Handle,
    buffer: c_ulong,
}

// SAFETY: Xlib locks its connection, and GLX's handles are names; whoever has the context current borrows `Made` there.
unsafe impl Send for Made {}

impl Made {
    pub(super) fn sharing(like: Like) -> Result<Self> {
        let (Some(glx), Some(x)) = (Glx::get(), X::get()) else {
            return Err(unsupported("GLX or Xlib cannot be loaded any more"));
        };
        if like.embedded {
            return Err(unsupported(
                "a context of OpenGL ES by GLX is not shared with: use EGL, or desktop OpenGL",
            ));
        }
        let create = address_of(c"glXCreateContextAttribsARB");
        if create.is_null() {
            return Err(unsupported("this GLX makes no context of a version (GLX_ARB_create_context)"));
        }
        // SAFETY: the function's own type, in the extension's text.
        let create = unsafe { std::mem::transmute::<*const c_void, Create>(create) };
        // SAFETY: asks for a handle of this thread.
        let display = unsafe { (glx.glXGetCurrentDisplay)() };
        // SAFETY: as above.
        let theirs = unsafe { (glx.glXGetCurrentContext)() };
        let config = config_of(glx, x, display, theirs)?;
        let mut attributes = like.attributes(VERSION);
        attributes.push(0);
        let mut made = Self { glx, x, display, context: null_mut(), buffer: 0 };
        caught(x, display, || {
            const DIRECT: c_int = 1;
            // SAFETY: handles that GLX gave just now, and a list with an end.
            made.context = unsafe { create(display, config, theirs, DIRECT, attributes.as_ptr()) };
        })
        .and_then(|()| {
            caught(x, display, || {
                let one = [PBUFFER_WIDTH, 1, PBUFFER_HEIGHT, 1, 0];
                // SAFETY: as above. A config that has no pixel buffers is an X error.
                made.buffer = unsafe { (glx.glXCreatePbuffer)(display, config, one.as_ptr()) };
            })
        })
        .map_err(|why| unsupported(format!("GLX makes no context that shares with this one: {why}")))?;
        if made.context.is_null() || made.buffer == 0 {
            return Err(unsupported("GLX makes no context that shares with this one, and does not say why"));
        }
        Ok(made)
    }

    pub(super) fn make_current(&self) -> Result<Before> {
        let before = Before::now(self.glx, self.display);
        let mut done = 0;
        caught(self.x, self.display, || {
            // SAFETY: handles of ours, alive.
            done = unsafe {
                (self.glx.glXMakeContextCurrent)(self.display, self.buffer, self.buffer, self.context)
            };
        })
        .map_err(|why| unsupported(format!("the context that shares cannot be made current: {why}")))?;
        if done == 0 {
            return Err(unsupported("the context that shares cannot be made current on this thread"));
        }
        Ok(before)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let gone = caught(self.x, self.display, || {
            if !self.context.is_null() {
                // SAFETY: made once, and current nowhere: whoever has it current borrows `self`.
                unsafe { (self.glx.glXDestroyContext)(self.display, self.context) };
            }
            if self.buffer != 0 {
                // SAFETY: as above.
                unsafe { (self.glx.glXDestroyPbuffer)(self.display, self.buffer) };
            }
        });
        if let Err(why) = gone {
            log::warn!("an OpenGL context could not be given back to GLX: {why}");
        }
    }
}

/// What this thread had current.
pub(in crate::gl) struct Before {
    glx: &'static Glx,
    display: Handle,
    draw: c_ulong,
    read: c_ulong,
    context: Handle,
}

impl Before {
    /// `ours`: on which to release, if nothing is current.
    fn now(glx: &'static Glx, ours: Handle) -> Self {
        // SAFETY: asks for handles of this thread, here and below.
        let context = unsafe { (glx.glXGetCurrentContext)() };
        // SAFETY: as above.
        let display = unsafe { (glx.glXGetCurrentDisplay)() };
        // SAFETY: as above.
        let draw = unsafe { (glx.glXGetCurrentDrawable)() };
        // SAFETY: as above.
        let read = unsafe { (glx.glXGetCurrentReadDrawable)() };
        Self { glx, display: if context.is_null() { ours } else { display }, draw, read, context }
    }

    pub(super) fn put_back(&self) {
        // SAFETY: handles that were current on this thread.
        let done =
            unsafe { (self.glx.glXMakeContextCurrent)(self.display, self.draw, self.read, self.context) };
        if done == 0 {
            log::warn!("the OpenGL context from before cannot be made current again");
        }
    }
}

fn config_of(glx: &Glx, x: &X, display: Handle, context: Handle) -> Result<Handle> {
    let (mut id, mut screen) = (0, 0);
    // SAFETY: writes one number.
    unsafe { (glx.glXQueryContext)(display, context, FBCONFIG_ID, &mut id) };
    // SAFETY: as above.
    unsafe { (glx.glXQueryContext)(display, context, SCREEN, &mut screen) };
    let mut count = 0;
    // SAFETY: a list with an end; writes one number.
    let list = unsafe { (glx.glXChooseFBConfig)(display, screen, [FBCONFIG_ID, id, 0].as_ptr(), &mut count) };
    if list.is_null() || count < 1 {
        return Err(unsupported(format!("GLX does not find config {id} of this context")));
    }
    // SAFETY: the list has at least one handle.
    let config = unsafe { list.read() };
    // SAFETY: the list is its reader's to give back.
    unsafe { (x.XFree)(list.cast()) };
    Ok(config)
}

/// The X error that came while `caught` ran; 0 is none.
static ERROR: AtomicU32 = AtomicU32::new(0);
/// The handler belongs to the whole process.
static ONE: Mutex<()> = Mutex::new(());

unsafe extern "C" fn on_error(_: Handle, error: *const XError) -> c_int {
    // SAFETY: Xlib hands its handler an event of this layout.
    ERROR.store(unsafe { (*error).code }.into(), Ordering::Relaxed);
    0
}

/// Run requests, and hear of the X errors that would else end the process.
fn caught(x: &X, display: Handle, run: impl FnOnce()) -> std::result::Result<(), String> {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    ERROR.store(0, Ordering::Relaxed);
    // What was asked before is answered first, to its own handler.
    // SAFETY: a connection that a current context is of.
    unsafe { (x.XSync)(display, 0) };
    // SAFETY: a function of the type that Xlib calls.
    let before = unsafe { (x.XSetErrorHandler)(Some(on_error)) };
    run();
    // SAFETY: as above.
    unsafe { (x.XSync)(display, 0) };
    // SAFETY: what was there before.
    unsafe { (x.XSetErrorHandler)(before) };
    match ERROR.load(Ordering::Relaxed) {
        0 => Ok(()),
        code => Err(format!("the X server answers error {code}")),
    }
}
