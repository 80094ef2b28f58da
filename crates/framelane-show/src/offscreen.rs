//! Pictures drawn as the window draws them, into memory instead of onto a screen.

use crate::gpu::{self, FORMAT, Gpu};
use crate::overlay::{Content, Overlay};
use crate::pane::{Frame, Slot};
use crate::upload::{self, Upload, Uploaded};
use crate::view::{self, Rect, View};
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::sync::mpsc;
use std::time::Duration;

/// A GPU that does not finish a draw in this time never will.
const PATIENCE: Duration = Duration::from_secs(20);

/// Draws frames as a window would, without a window: for tests and for machines without a screen.
#[derive(Debug)]
pub struct Offscreen {
    gpu: Gpu,
    canvas: Canvas,
    slot: Slot,
    after: Upload,
    before: Upload,
}

impl Offscreen {
    /// Open the best adapter of this machine; no display server is needed.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there is no adapter, [`ErrorKind::Device`] if it cannot be opened.
    pub fn new() -> Result<Self> {
        let adapter = gpu::choose(&gpu::instance(None), |_| true)?;
        let gpu = Gpu::open(&adapter)?;
        Ok(Self {
            canvas: Canvas::new(&gpu),
            gpu,
            slot: Slot::default(),
            after: Upload::default(),
            before: Upload::default(),
        })
    }

    /// The path frames take, in one line: `host-upload (llvmpipe, Vulkan)`.
    pub fn path(&self) -> String {
        upload::path(&self.gpu.adapter)
    }

    /// Draw `frame` as a window of `target` pixels shows it, and read the result back: u8, height ×
    /// width × 3, sRGB. With `split` (0 to 1) its picture before lies left of that place; without such a
    /// picture `split` has no effect. Waits for the GPU.
    ///
    /// # Errors
    /// As [`Pane::show`](crate::Pane::show); [`ErrorKind::Unsupported`] for more pixels a side than the adapter
    /// takes; [`ErrorKind::Device`] if it fails.
    pub fn render(&mut self, frame: Frame<'_>, target: ImageSize, split: Option<f32>) -> Result<Vec<u8>> {
        self.draw(frame, target, split, 1.0, |_| Content::default())
    }

    /// The same with an overlay, made from the rectangle that the picture takes.
    pub(crate) fn draw(
        &mut self,
        frame: Frame<'_>,
        target: ImageSize,
        split: Option<f32>,
        scale: f32,
        content: impl FnOnce(Rect) -> Content,
    ) -> Result<Vec<u8>> {
        frame.check()?;
        self.slot.fill(&frame);
        self.before.put(&self.gpu, &self.slot.before)?;
        let before = self.before.get().zip(split);
        let Some(after) = self.after.put(&self.gpu, &self.slot.picture)? else {
            return Err(Error::new(ErrorKind::Input, "the frame has no picture"));
        };
        let extent = upload::extent(&self.gpu, target)?;
        let content = content(Rect::fit(frame.size, extent.width, extent.height));
        let overlay = (content != Content::default()).then_some((&content, scale));
        self.canvas.draw(&self.gpu, after, before, target, overlay)
    }
}

/// A target of any size that is read back: what screenshots and [`Offscreen`] are drawn on.
#[derive(Debug)]
pub(crate) struct Canvas {
    view: View,
    overlay: Option<Overlay>,
}

impl Canvas {
    pub(crate) fn new(gpu: &Gpu) -> Self {
        Self { view: View::new(gpu, FORMAT), overlay: None }
    }

    /// Draw, wait, and read back `target` as u8, height × width × 3.
    pub(crate) fn draw(
        &mut self,
        gpu: &Gpu,
        after: &Uploaded,
        before: Option<(&Uploaded, f32)>,
        target: ImageSize,
        overlay: Option<(&Content, f32)>,
    ) -> Result<Vec<u8>> {
        let extent = upload::extent(gpu, target)?;
        let usage = wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC;
        let (texture, target_view) = gpu.texture("canvas", extent, usage);

        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut commands = Vec::new();
        let prepared = overlay.map(|(content, scale)| {
            let overlay = self.overlay.get_or_insert_with(|| Overlay::new(gpu, FORMAT));
            let size = [extent.width, extent.height];
            overlay.prepare(gpu, &mut encoder, content, size, scale)
        });
        let mut pass = view::begin(&mut encoder, &target_view, FORMAT);
        let rect = Rect::fit(after.size, extent.width, extent.height);
        self.view.draw(gpu, &mut pass, rect, after, before);
        match (prepared, &mut self.overlay) {
            (Some(prepared), Some(overlay)) => commands = overlay.draw(pass, prepared),
            _ => drop(pass),
        }
        let readback = Readback::begin(gpu, &mut encoder, &texture, target);
        gpu.queue.submit(commands.into_iter().chain([encoder.finish()]));
        readback.finish(gpu)
    }
}

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
        let pitch = upload::pitch(size.width);
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
        let mut rgb = Vec::with_capacity(size.bytes());
        for row in view.chunks_exact(pitch) {
            rgb.extend(row[..4 * size.width].chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]));
        }
        drop(view);
        staging.unmap();
        Ok(rgb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::{Divider, Info};
    use framelane::frame::FrameMeta;

    /// Draw the whole overlay, and compare with the picture that was looked at when it was last changed
    /// (`UPDATE_REFERENCES=1` writes it anew). Drivers round and blend differently: no channel may be off
    /// by more than 48, and not more than 0.5 % of them by more than 3.
    fn look(name: &str, target: ImageSize, scale: f32, content: impl FnOnce(Rect) -> Content) {
        let mut offscreen = match Offscreen::new() {
            Ok(offscreen) => offscreen,
            Err(why) => return crate::common::skip(why),
        };
        let size = ImageSize { width: 480, height: 270 };
        let pixel = |i: usize| {
            let (x, y) = (i % size.width, i / size.width);
            [(x * 255 / size.width) as u8, (y * 255 / size.height) as u8, 140]
        };
        let after: Vec<u8> = (0..size.width * size.height).flat_map(pixel).collect();
        let before: Vec<u8> = after.iter().map(|c| 255 - c).collect();
        let meta = FrameMeta::new("clip.mp4", 0);
        let frame = Frame { rgb: &after, size, meta: &meta, before: Some((&before, size)) };
        let rgb = offscreen.draw(frame, target, Some(0.4), scale, content).unwrap();

        // Where the package is now, as cargo says when it runs tests, or where it was compiled.
        let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
        let path = format!("{package}/tests/reference/{name}.png");
        let (width, height) = (target.width as u32, target.height as u32);
        if std::env::var_os("UPDATE_REFERENCES").is_some() {
            image::save_buffer(&path, &rgb, width, height, image::ColorType::Rgb8).unwrap();
        }
        let reference = image::open(&path).unwrap().into_rgb8();
        assert_eq!(reference.dimensions(), (width, height));
        let off: Vec<u8> = reference.as_raw().iter().zip(&rgb).map(|(a, b)| a.abs_diff(*b)).collect();
        let worst = off.iter().max().copied().unwrap_or(0);
        let share = off.iter().filter(|&&d| d > 3).count() as f64 / off.len() as f64;
        assert!(worst <= 48 && share <= 0.005, "{name}: {share} of the channels differ, by {worst} at most");
    }

    fn info() -> Option<Info> {
        let name = "clip.mp4".to_owned();
        Some(Info { name, fps: 23.976, age_ms: 41.7, dropped: 3, state: Some("paused") })
    }

    fn divider(rect: Rect) -> Option<Divider> {
        let small = ImageSize { width: 480, height: 270 };
        let large = ImageSize { width: 960, height: 540 };
        Some(Divider { x: rect.column(0.4), rect, before: small, after: large })
    }

    #[test]
    fn the_overlay_looks_as_it_did() {
        look("overlay", ImageSize { width: 760, height: 480 }, 1.0, |rect| Content {
            info: info(),
            divider: divider(rect),
            help: None,
            message: Some("Saved clip-000123.png".into()),
        });
    }

    #[test]
    fn the_overlay_is_sharp_at_twice_the_scale() {
        look("overlay-2x", ImageSize { width: 1200, height: 675 }, 2.0, |rect| Content {
            info: info(),
            divider: divider(rect),
            help: None,
            message: Some("Saved clip-000123.png".into()),
        });
    }

    #[test]
    fn the_help_fits_a_small_window() {
        look("help-small", ImageSize { width: 200, height: 112 }, 1.0, |_| Content {
            help: Some("host-upload (llvmpipe, Vulkan)".into()),
            ..Content::default()
        });
    }
}
