//! Pictures on their way from the adapter into host memory: for screenshots, tests, and machines without a screen.

use crate::display::pitch;
use crate::gpu::Gpu;
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::sync::mpsc;
use std::time::Duration;

/// A GPU that does not finish a draw in this time never will.
const PATIENCE: Duration = Duration::from_secs(20);

/// A picture on its way from the adapter into host memory.
pub(crate) struct Readback {
    staging: wgpu::Buffer,
    size: ImageSize,
    pitch: usize,
}

impl Readback {
    /// Let `encoder` copy out `texture`, of `size` pixels.
    pub(crate) fn begin(
        gpu: &Gpu,
        encoder: &mut wgpu::CommandEncoder,
        texture: &wgpu::Texture,
        size: ImageSize,
    ) -> Self {
        let pitch = pitch(size.width);
        let staging = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: (pitch * size.height) as u64,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let layout = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(pitch as u32),
            rows_per_image: None,
        };
        encoder.copy_texture_to_buffer(
            texture.as_image_copy(),
            wgpu::TexelCopyBufferInfo { buffer: &staging, layout },
            texture.size(),
        );
        Self { staging, size, pitch }
    }

    /// Wait for what was submitted, and read it: u8, height × width × 3.
    pub(crate) fn finish(self, gpu: &Gpu) -> Result<Vec<u8>> {
        let Self { staging, size, pitch } = self;
        read(gpu, &staging, |bytes| {
            let mut rgb = Vec::with_capacity(size.bytes());
            for row in bytes.chunks_exact(pitch) {
                rgb.extend(row[..4 * size.width].chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]));
            }
            rgb
        })
    }
}

/// Wait for what was submitted, and look into `staging`.
pub(crate) fn read<R>(gpu: &Gpu, staging: &wgpu::Buffer, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
    let failed =
        |what: String| Error::new(ErrorKind::Device, format!("reading a picture back failed: {what}"));
    let (tell, mapped) = mpsc::channel();
    staging.map_async(wgpu::MapMode::Read, .., move |result| {
        let _ = tell.send(result);
    });
    gpu.device
        .poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(PATIENCE) })
        .map_err(|e| failed(e.to_string()))?;
    gpu.check()?;
    match mapped.try_recv() {
        Ok(Ok(())) => {}
        Ok(Err(e)) => return Err(failed(e.to_string())),
        Err(_) => return Err(failed("the adapter did not answer".into())),
    }
    let view = staging.get_mapped_range(..).map_err(|e| failed(e.to_string()))?;
    let seen = look(&view);
    drop(view);
    staging.unmap();
    Ok(seen)
}
