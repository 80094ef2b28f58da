//! OpenGL's own calls, and those of the window systems that say which context is current: the second home of `unsafe`
//! in this crate, beside `interop`.
//!
//! OpenGL's functions act on whatever context the calling thread has current, and do anything without one. So
//! everything here that calls them starts from [`Current`], which was asked of the system a moment ago and stays on its
//! thread.

mod calls;
#[cfg(target_os = "linux")]
mod egl;
#[cfg(target_os = "linux")]
mod glx;
mod library;
mod shared;
#[cfg(windows)]
mod wgl;

pub(super) use calls::{Buffer, Calls, Gl, Texture};
pub(super) use shared::Drawn;

use framelane::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;

/// A context, by its system and its handle there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    system: System,
    handle: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    #[cfg(target_os = "linux")]
    Egl,
    #[cfg(target_os = "linux")]
    Glx,
    #[cfg(windows)]
    Wgl,
}

/// A context that is current on this thread.
#[derive(Clone, Copy)]
pub(super) struct Current {
    name: Name,
    /// Another thread has another one.
    _here: PhantomData<*const ()>,
}

impl Current {
    /// The calling thread's context; none if it has none.
    pub fn get() -> Option<Self> {
        let systems = [
            #[cfg(target_os = "linux")]
            (System::Egl, egl::current as fn() -> usize),
            #[cfg(target_os = "linux")]
            (System::Glx, glx::current),
            #[cfg(windows)]
            (System::Wgl, wgl::current as fn() -> usize),
        ];
        let named = systems.into_iter().map(|(system, current)| Name { system, handle: current() });
        named.into_iter().find(|name| name.handle != 0).map(|name| Self { name, _here: PhantomData })
    }

    /// # Errors
    /// [`ErrorKind::Argument`] if the calling thread has none.
    pub fn require() -> Result<Self> {
        Self::get().ok_or_else(|| {
            Error::new(
                ErrorKind::Argument,
                "no OpenGL context is current on this thread: make the one that the texture or buffer is of current, or one that shares with it",
            )
        })
    }

    pub fn name(self) -> Name {
        self.name
    }

    fn address_of(self, function: &CStr) -> *const c_void {
        match self.name.system {
            #[cfg(target_os = "linux")]
            System::Egl => egl::address_of(function),
            #[cfg(target_os = "linux")]
            System::Glx => glx::address_of(function),
            #[cfg(windows)]
            System::Wgl => wgl::address_of(function),
        }
    }
}

/// What a new context must have in common with one that it shares with.
#[derive(Debug, Clone, Copy)]
struct Like {
    major: i32,
    minor: i32,
    embedded: bool,
    /// Of OpenGL 3.2 and newer: without what was there before 3.0.
    core: bool,
}

impl Like {
    /// Attributes of EGL, GLX or WGL, which have names of their own for them: major, minor, profile. The numbers of the
    /// profiles are the same in all.
    fn attributes(self, [major, minor, profile]: [i32; 3]) -> Vec<i32> {
        const CORE: i32 = 1;
        const COMPATIBLE: i32 = 2;
        let mut attributes = vec![major, self.major, minor, self.minor];
        if !self.embedded && (self.major, self.minor) >= (3, 2) {
            attributes.extend([profile, if self.core { CORE } else { COMPATIBLE }]);
        }
        attributes
    }
}

/// A context made here. Any thread may have it current, one at a time.
pub(super) enum Made {
    #[cfg(target_os = "linux")]
    Egl(egl::Made),
    #[cfg(target_os = "linux")]
    Glx(glx::Made),
    #[cfg(windows)]
    Wgl(wgl::Made),
}

/// What a thread had current before, to be put back.
pub(super) enum Before {
    #[cfg(target_os = "linux")]
    Egl(egl::Before),
    #[cfg(target_os = "linux")]
    Glx(glx::Before),
    #[cfg(windows)]
    Wgl(wgl::Before),
}

impl Made {
    /// One that shares with the calling thread's.
    pub fn sharing() -> Result<Self> {
        let current = Current::require()?;
        let like = Gl::load(current)?.enter()?.like();
        match current.name.system {
            #[cfg(target_os = "linux")]
            System::Egl => egl::Made::sharing(like).map(Self::Egl),
            #[cfg(target_os = "linux")]
            System::Glx => glx::Made::sharing(like).map(Self::Glx),
            #[cfg(windows)]
            System::Wgl => wgl::Made::sharing(like).map(Self::Wgl),
        }
    }

    pub fn make_current(&self) -> Result<Before> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Egl(made) => made.make_current().map(Before::Egl),
            #[cfg(target_os = "linux")]
            Self::Glx(made) => made.make_current().map(Before::Glx),
            #[cfg(windows)]
            Self::Wgl(made) => made.make_current().map(Before::Wgl),
        }
    }

    /// The system that it was made with.
    pub fn system(&self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Self::Egl(_) => "EGL",
            #[cfg(target_os = "linux")]
            Self::Glx(_) => "GLX",
            #[cfg(windows)]
            Self::Wgl(_) => "WGL",
        }
    }
}

impl Before {
    pub fn put_back(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Egl(before) => before.put_back(),
            #[cfg(target_os = "linux")]
            Self::Glx(before) => before.put_back(),
            #[cfg(windows)]
            Self::Wgl(before) => before.put_back(),
        }
    }
}

fn unsupported(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, text.into())
}
