//! What OpenGL has, registered with CUDA.

use super::Calls;
use super::calls::{Buffer, Texture};
use framelane::framelane_cuda::{Context, GlImage, GlMemory, Result};

/// The context that is current is drawn by this GPU of CUDA's.
pub(in crate::gl) struct Drawn<'a> {
    context: &'a Context,
    _calls: Calls<'a>,
}

impl<'a> Drawn<'a> {
    /// None if another GPU draws it, or another driver.
    ///
    /// # Errors
    /// What the driver says.
    pub fn by(context: &'a Context, calls: Calls<'a>) -> Result<Option<Self>> {
        // SAFETY: a context is current, and of NVIDIA's driver.
        let ours = calls.vendor().contains("NVIDIA") && unsafe { context.draws_current_gl() }?;
        Ok(ours.then_some(Self { context, _calls: calls }))
    }

    /// Whoever holds it asks [`Calls::texture_alive`] before each use, and drops it where a context is current.
    ///
    /// # Errors
    /// As [`GlImage::register`].
    pub fn image(&self, texture: Texture) -> Result<GlImage> {
        let size = texture.size();
        // SAFETY: the context that is current is NVIDIA's, and has a 2D texture of this size and of 4 bytes a pixel; its
        // holder asks whether it is still there before it is used, and drops it with a context.
        unsafe { GlImage::register(self.context, texture.name(), size.width, size.height) }
    }

    /// Whoever holds it asks [`Calls::buffer_alive`] before each use, and drops it where a context is current.
    ///
    /// # Errors
    /// As [`GlMemory::register`].
    pub fn memory(&self, buffer: Buffer) -> Result<GlMemory> {
        // SAFETY: as for the texture.
        unsafe { GlMemory::register(self.context, buffer.name()) }
    }
}
