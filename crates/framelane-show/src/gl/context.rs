//! A context that shares with the caller's, for a thread of its own.

use super::raw;
use framelane::Result;
use std::fmt;
use std::marker::PhantomData;

/// An OpenGL context that shares textures and buffers with one of the caller's, and draws nowhere.
///
/// It is of the same system (EGL or GLX on Linux, WGL on Windows), version and profile. Made with that system's own
/// functions: glutin shares with contexts on displays that it made itself alone. It may go to another thread; one thread
/// at a time has it current. Drop it before the program ends the display that its own context is on.
///
/// Over GLX both threads speak on one connection to the X server: with an Xlib before 1.8 the program calls
/// `XInitThreads` before anything else of Xlib.
pub struct GlContext {
    made: raw::Made,
}

impl GlContext {
    /// One that shares with the context that is current on the calling thread, which stays current.
    ///
    /// # Errors
    /// [`framelane::ErrorKind::Argument`] if none is; [`framelane::ErrorKind::Unsupported`] if its system makes none that
    /// shares with it.
    pub fn shared() -> Result<Self> {
        Ok(Self { made: raw::Made::sharing()? })
    }

    /// Make it current on the calling thread until what is returned is dropped; then what was current there before is
    /// again.
    ///
    /// # Errors
    /// [`framelane::ErrorKind::Unsupported`] if the system refuses.
    pub fn make_current(&self) -> Result<GlCurrent<'_>> {
        Ok(GlCurrent { before: self.made.make_current()?, _context: PhantomData })
    }
}

impl fmt::Debug for GlContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlContext({})", self.made.system())
    }
}

/// A [`GlContext`] is current on this thread until this is dropped.
#[must_use = "the context is current only as long as this lives"]
pub struct GlCurrent<'a> {
    before: raw::Before,
    _context: PhantomData<&'a GlContext>,
}

impl Drop for GlCurrent<'_> {
    fn drop(&mut self) {
        self.before.put_back();
    }
}

impl fmt::Debug for GlCurrent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GlCurrent")
    }
}
