//! The host-upload path: pictures in host memory become textures.
//!
//! `Queue::write_texture` copies into a staging buffer of wgpu's own pool and returns; the transfer
//! to the device runs in order with the draw that follows it, and nothing waits for either. The
//! slot can be reused as soon as the call is back.
//!
//! The paths that share memory with the producer's device will stand beside this one: each leaves an
//! [`Uploaded`] texture for [`crate::view`] to draw.

use crate::gpu::{AdapterInfo, Gpu};
use crate::pane::Picture;
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// How this path is named in reports.
pub(crate) fn path(adapter: &AdapterInfo) -> String {
    adapter.reached_by("host-upload")
}

/// A picture on the device: Rgba8Unorm, so that the shader reads the very numbers that were sent.
#[derive(Debug)]
pub(crate) struct Uploaded {
    texture: wgpu::Texture,
    pub(crate) view: wgpu::TextureView,
    pub(crate) size: ImageSize,
    /// Differs between all textures: says whether what was made for the last one still fits.
    pub(crate) serial: u64,
}

/// The texture of one picture of a pane, made again only when the size changes.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    current: Option<Uploaded>,
}

impl Upload {
    /// Put `picture` on the device. `Ok(None)` if it has no size: there is no picture.
    pub(crate) fn put(&mut self, gpu: &Gpu, picture: &Picture) -> Result<Option<&Uploaded>> {
        let Some(size) = picture.size else {
            self.current = None;
            return Ok(None);
        };
        let extent = extent(gpu, size)?;
        if self.current.as_ref().is_none_or(|c| c.size != size) {
            self.current = Some(Uploaded::new(gpu, size, extent));
        }
        let uploaded = self.current.as_ref().expect("made above if there was none");
        gpu.queue.write_texture(
            uploaded.texture.as_image_copy(),
            &picture.rgba,
            wgpu::TexelCopyBufferLayout {
                offset: 0,
                bytes_per_row: Some(4 * extent.width),
                rows_per_image: None,
            },
            extent,
        );
        Ok(Some(uploaded))
    }

    /// What was put last.
    pub(crate) fn get(&self) -> Option<&Uploaded> {
        self.current.as_ref()
    }
}

impl Uploaded {
    fn new(gpu: &Gpu, size: ImageSize, extent: wgpu::Extent3d) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let usage = wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST;
        let (texture, view) = gpu.texture("picture", extent, usage);
        Self { texture, view, size, serial: SERIAL.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Bytes from row to row of RGBA8 in a buffer: adapters copy between buffers and textures by rows of whole steps.
pub(crate) fn pitch(width: usize) -> usize {
    (4 * width).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT as usize)
}

/// The size as the device counts it, if the device can hold it.
pub(crate) fn extent(gpu: &Gpu, size: ImageSize) -> Result<wgpu::Extent3d> {
    let side = |n: usize| u32::try_from(n).ok().filter(|&n| n <= gpu.max_side);
    match (side(size.width), side(size.height)) {
        (Some(width), Some(height)) => Ok(wgpu::Extent3d { width, height, depth_or_array_layers: 1 }),
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "a picture of {size} pixels cannot be shown: {} takes {} pixels a side (make it smaller first)",
                gpu.adapter, gpu.max_side
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_one_line() {
        let adapter = AdapterInfo {
            name: "llvmpipe (LLVM 15.0.6, 256 bits)".into(),
            backend: "Vulkan",
            kind: "software",
            driver: String::new(),
        };
        assert_eq!(path(&adapter), "host-upload (llvmpipe, Vulkan)");
    }
}
