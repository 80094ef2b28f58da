//! A pixel buffer of the caller's.

use super::raw::Buffer;
use super::way::{GlWay, Shower};
use crate::Picture;
use crate::display::picture::How;
use framelane::device::{Access, Device, Stream};
use framelane::framelane_cuda::GlMemory;
use framelane::{Error, ErrorKind, Result};
use std::fmt;

/// A buffer of the caller's, in which pictures are shown: RGBA8, width × 4 bytes a row, the top row first, from the first
/// byte on and without gaps. What lies behind the picture stays as it is. See [the module](super) for what is current
/// where.
///
/// From it the program fills textures (`GL_PIXEL_UNPACK_BUFFER`), or reads in shaders. Drop it before the buffer is
/// deleted. That waits for what was shown last, if it is not done, and counts the wait.
pub struct GlBuffer {
    shower: Shower,
    buffer: Buffer,
    /// That may be written, from the first.
    bytes: usize,
    shared: Option<GlMemory>,
}

impl GlBuffer {
    /// The first `bytes` of the buffer `name` in the context that is current on the calling thread, for pictures of
    /// `device`. The way that they will take is chosen now, by trying, and said by [`GlBuffer::path`].
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if no context is current, or it has no such buffer, or one of fewer bytes;
    /// [`ErrorKind::Unsupported`] before OpenGL 3.0.
    pub fn register(name: u32, bytes: usize, device: &Device) -> Result<Self> {
        let mut shower = Shower::new(device)?;
        let buffer = shower.gl.enter()?.buffer(name, bytes)?;
        let shared = shower.choose(|drawn| drawn.memory(buffer), GlMemory::try_mapping)?.ok();
        Ok(Self { shower, buffer, bytes, shared })
    }

    /// As [`GlTexture::path`](super::GlTexture::path).
    pub fn path(&self) -> &str {
        &self.shower.path
    }

    /// Pictures shown so far.
    pub fn shown(&self) -> u64 {
        self.shower.shown
    }

    /// How many of them went through host memory.
    pub fn host_copies(&self) -> u64 {
        self.shower.host_copies
    }

    /// Show a picture in it, as [`GlTexture::show`](super::GlTexture::show) does: on the `gl-shared` way the kernel
    /// writes the buffer itself. Pictures may be of any size that fits.
    ///
    /// # Errors
    /// As [`GlTexture::show`](super::GlTexture::show); [`ErrorKind::Argument`] for a picture of more bytes than were
    /// registered.
    pub fn show(&mut self, stream: &Stream, picture: &Picture<'_>) -> Result<GlWay> {
        self.shower.check(stream)?;
        let (size, how) = picture.plan(|width| 4 * width)?;
        let needs = how.bytes();
        if needs > self.bytes {
            let (has, name) = (self.bytes, self.buffer.name());
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "a picture of {size} takes {needs} bytes, and of OpenGL's buffer {name} {has} were registered"
                ),
            ));
        }
        self.shower.gl.enter()?.buffer_alive(self.buffer)?;
        if let Some(memory) = &mut self.shared {
            self.shower.after_last(stream)?;
            let staging = self.shower.staging.clone();
            let (shown, from_host) = staging.with(stream, picture.source(), |(from, range)| {
                self.shower.share(stream, Access::read(from, range), |stream, from, at| match &how {
                    How::Numbers(how) => memory.to_picture(stream, how, from, at),
                    How::Nv12(how) => memory.nv12_to_picture(stream, how, from, at),
                })
            })?;
            self.shower.host_copies += u64::from(shown.is_ok() && from_host);
            match shown {
                Ok(way) => return Ok(way),
                Err(why) => {
                    self.shower.fall_back(&why);
                    self.unregister();
                }
            }
        }
        let buffer = self.buffer;
        self.shower.upload(stream, picture, &how, |calls, rgba| calls.fill(buffer, rgba))
    }

    fn unregister(&mut self) {
        if let Some(memory) = self.shared.take() {
            match self.shower.may_unregister("a buffer") {
                true => drop(memory),
                false => memory.leave(),
            }
        }
    }
}

impl Drop for GlBuffer {
    fn drop(&mut self) {
        self.unregister();
    }
}

impl fmt::Debug for GlBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlBuffer({}, {} bytes, {})", self.buffer.name(), self.bytes, self.path())
    }
}
