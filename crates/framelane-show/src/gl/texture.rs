//! A texture of the caller's.

use super::raw::Texture;
use super::way::{GlWay, Shower};
use crate::Picture;
use crate::display::picture::{self, How};
use crate::display::pitch;
use framelane::device::{Access, Buffer, Device, Memory, Stream};
use framelane::frame::ImageSize;
use framelane::framelane_cuda::GlImage;
use framelane::{Error, ErrorKind, Result};
use std::fmt;

/// A 2D texture of RGBA8 of the caller's, in which pictures are shown. See [the module](super) for what is current where.
///
/// Drop it before the texture is deleted. That waits for what was shown last, if it is not done, and counts the wait.
pub struct GlTexture {
    shower: Shower,
    texture: Texture,
    shared: Option<Shared>,
}

struct Shared {
    image: GlImage,
    /// What the kernel writes, and the texture gets a copy of: the texture's own memory is tiled.
    scratch: Buffer,
}

impl GlTexture {
    /// The texture `name`, of `size`, in the context that is current on the calling thread, for pictures of `device`. The
    /// way that they will take is chosen now, by trying, and said by [`GlTexture::path`]; what the texture holds is lost.
    /// CUDA shares what OpenGL calls complete: of a texture without smaller levels say so (`glTexStorage2D` of one level,
    /// or `GL_TEXTURE_MAX_LEVEL` 0).
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if no context is current, or it has no such texture (2D, of this size, of 8 bits in each
    /// of red, green, blue and alpha; OpenGL ES before 3.1 does not say the latter two, and then [`GlTexture::show`]
    /// fails); [`ErrorKind::Unsupported`] before OpenGL 3.0; [`ErrorKind::Device`] without memory for a picture.
    pub fn register(name: u32, size: ImageSize, device: &Device) -> Result<Self> {
        let mut shower = Shower::new(device)?;
        let texture = shower.gl.enter()?.texture(name, size)?;
        let shared = match shower.choose(|drawn| drawn.image(texture), GlImage::try_mapping)? {
            Ok(image) => {
                let bytes = pitch(size.width) * size.height;
                Some(Shared { image, scratch: device.alloc(bytes, Memory::Device)? })
            }
            Err(_) => None,
        };
        Ok(Self { shower, texture, shared })
    }

    /// The way that pictures take, in one line, and why it is not a better one: `gl-shared (NVIDIA H200, OpenGL)`,
    /// `host-upload (llvmpipe, OpenGL): pictures are made on the cpu`.
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

    /// Show a picture of the texture's size in it: by one kernel on `stream`, after what was enqueued there before, and a
    /// copy on the device into the texture. The tensor may be written again, or let go, by work that is enqueued on
    /// `stream` from then on. What OpenGL is told from then on sees the picture.
    ///
    /// On the `gl-shared` way nothing here waits for the GPU, and what `stream` is given waits there for what OpenGL was
    /// told before; the driver's own calls (`cuGraphicsMapResources`, `cuGraphicsUnmapResources`) hand the texture over,
    /// which may take them some tenths of a millisecond, and may wait for OpenGL's threads. On the `host-upload` way the
    /// call waits for the picture, and counts the wait. If the driver refuses the shared way, this picture and all later
    /// ones go the other, and [`GlTexture::path`] says why.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for a tensor that is no picture, one of another size or device, a texture that was
    /// deleted, or without a current context; an earlier failure of the stream; [`ErrorKind::Device`] if OpenGL or the
    /// device fails. The next call works.
    pub fn show(&mut self, stream: &Stream, picture: &Picture<'_>) -> Result<GlWay> {
        self.shower.check(stream)?;
        let (size, how) = picture.plan(pitch)?;
        if size != self.texture.size() {
            let (has, name) = (self.texture.size(), self.texture.name());
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "a picture of {size} does not fit OpenGL's texture {name} of {has}: register one of its size"
                ),
            ));
        }
        self.shower.gl.enter()?.texture_alive(self.texture)?;
        if let Some(shared) = &mut self.shared {
            self.shower.after_last(stream)?;
            match shared.show(&mut self.shower, stream, picture, &how)? {
                Ok(way) => return Ok(way),
                Err(why) => {
                    self.shower.fall_back(&why);
                    self.unregister();
                }
            }
        }
        let texture = self.texture;
        self.shower
            .upload(stream, picture, &how, |calls, rgba| calls.upload(texture, pitch(size.width) / 4, rgba))
    }

    fn unregister(&mut self) {
        if let Some(Shared { image, .. }) = self.shared.take() {
            match self.shower.may_unregister("a texture") {
                true => drop(image),
                false => image.leave(),
            }
        }
    }
}

impl Shared {
    fn show(
        &mut self,
        shower: &mut Shower,
        stream: &Stream,
        picture: &Picture<'_>,
        how: &How,
    ) -> Result<std::result::Result<GlWay, String>> {
        let ((), from_host) = shower
            .staging
            .with(stream, picture.source(), |from| picture::enqueue(stream, how, from, (&self.scratch, 0)))?;
        let all = Access::read(&self.scratch, 0..how.bytes());
        let shown = shower
            .share(stream, all, |stream, from, at| self.image.copy_from(stream, from, at, how.row()))?;
        shower.host_copies += u64::from(shown.is_ok() && from_host);
        Ok(shown)
    }
}

impl Drop for GlTexture {
    fn drop(&mut self) {
        self.unregister();
    }
}

impl fmt::Debug for GlTexture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlTexture({}, {}, {})", self.texture.name(), self.texture.size(), self.path())
    }
}
