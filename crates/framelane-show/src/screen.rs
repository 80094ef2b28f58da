//! One window of the display server and its surface: made, resized, lost and found again.

use crate::blit::{Painter, Painting};
use crate::gpu::Gpu;
use crate::overlay::Content;
use crate::rect::Rect;
use crate::server;
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;
use winit::dpi::{LogicalSize, PhysicalSize};
use winit::event_loop::ActiveEventLoop;
use winit::window::{Theme, Window};

/// A window is at most this share of the screen at first.
const SHARE: f64 = 0.8;
/// A small picture is enlarged, by a whole factor, until the window is this wide, in points.
const READABLE: f64 = 320.0;
/// Surface errors in a row after which the window is given up.
const PATIENCE: u32 = 200;
/// What a surface's format may be, best first: numbers shown unchanged, 8 bits.
const FORMATS: [wgpu::TextureFormat; 5] = [
    wgpu::TextureFormat::Bgra8Unorm,
    wgpu::TextureFormat::Rgba8Unorm,
    wgpu::TextureFormat::Bgra8UnormSrgb,
    wgpu::TextureFormat::Rgba8UnormSrgb,
    wgpu::TextureFormat::Rgb10a2Unorm,
];

pub(crate) struct Screen {
    pub(crate) window: Arc<Window>,
    gpu: Arc<Gpu>,
    instance: wgpu::Instance,
    surface: wgpu::Surface<'static>,
    config: wgpu::SurfaceConfiguration,
    painter: Painter,
    failures: u32,
}

/// What came of asking for the next picture of the surface.
pub(crate) enum Acquired {
    /// Draw into this.
    Ready(wgpu::SurfaceTexture),
    /// Something changed: ask again.
    Again,
    /// Nobody can see the window now.
    Hidden,
}

/// Of a window that is to be opened.
pub(crate) struct Open<'a> {
    pub(crate) title: &'a str,
    /// The picture that it shall fit.
    pub(crate) picture: ImageSize,
    /// Each picture is shown, rather than the newest.
    pub(crate) fifo: bool,
    pub(crate) vsync: bool,
}

impl Screen {
    /// Open a window on the adapter that `gpu` was opened from.
    pub(crate) fn open(
        events: &ActiveEventLoop,
        instance: &wgpu::Instance,
        adapter: &wgpu::Adapter,
        gpu: Arc<Gpu>,
        how: &Open<'_>,
    ) -> Result<Self> {
        let attributes = Window::default_attributes()
            .with_title(how.title)
            .with_inner_size(first_size(events, how.picture))
            .with_min_inner_size(LogicalSize::new(160, 90))
            .with_theme(Some(Theme::Dark));
        #[cfg(all(unix, not(target_os = "macos")))]
        let attributes = {
            // Sets the name that desktops group windows by, on X11 and Wayland alike.
            use winit::platform::wayland::WindowAttributesExtWayland;
            attributes.with_name("framelane", "framelane")
        };
        let failed =
            |what: String| Error::new(ErrorKind::Device, format!("the window cannot be opened: {what}"));
        let window = events
            .create_window(attributes)
            .map_err(|e| failed(server::plain(&e.to_string()).to_owned()).because(e))?;
        let window = Arc::new(window);
        let surface =
            instance.create_surface(window.clone()).map_err(|e| failed(e.to_string()).because(e))?;
        let has = surface.get_capabilities(adapter);
        let format = FORMATS
            .into_iter()
            .find(|format| has.formats.contains(format))
            .ok_or_else(|| failed(format!("{} offers no 8-bit picture format", gpu.adapter)))?;
        let size = window.inner_size();
        let mut screen = Self {
            config: wgpu::SurfaceConfiguration {
                usage: wgpu::TextureUsages::RENDER_ATTACHMENT,
                format,
                color_space: wgpu::SurfaceColorSpace::Auto,
                width: size.width,
                height: size.height,
                present_mode: if how.vsync {
                    wgpu::PresentMode::AutoVsync
                } else {
                    wgpu::PresentMode::AutoNoVsync
                },
                // One picture waiting keeps a live stream young; two keep a file smooth.
                desired_maximum_frame_latency: if how.fifo { 2 } else { 1 },
                alpha_mode: wgpu::CompositeAlphaMode::Auto,
                view_formats: Vec::new(),
            },
            painter: Painter::new(&gpu, format),
            instance: instance.clone(),
            window,
            gpu,
            surface,
            failures: 0,
        };
        screen.resize(size);
        screen.gpu.check()?;
        Ok(screen)
    }

    /// The window has another size. Nothing is done for a minimised one, whose size may be 0.
    pub(crate) fn resize(&mut self, size: PhysicalSize<u32>) {
        if size.width == 0 || size.height == 0 {
            return;
        }
        // No device draws more than its texture limit; the server stretches what is left.
        self.config.width = size.width.min(self.gpu.max_side);
        self.config.height = size.height.min(self.gpu.max_side);
        self.surface.configure(&self.gpu.device, &self.config);
    }

    /// Width and height that are drawn, in pixels.
    pub(crate) fn size(&self) -> (u32, u32) {
        (self.config.width, self.config.height)
    }

    /// Ask for the surface's next picture: waits for the screen's refresh, at most for a second.
    pub(crate) fn acquire(&mut self) -> Result<Acquired> {
        use wgpu::CurrentSurfaceTexture as Current;
        let acquired = match self.surface.get_current_texture() {
            // A surface that fits badly for a moment is still shown; the resize that explains it follows.
            Current::Success(texture) | Current::Suboptimal(texture) => Acquired::Ready(texture),
            Current::Timeout | Current::Occluded => Acquired::Hidden,
            Current::Outdated | Current::Validation => {
                self.resize(self.window.inner_size());
                Acquired::Again
            }
            Current::Lost => {
                self.surface = self.instance.create_surface(self.window.clone()).map_err(|e| {
                    Error::new(ErrorKind::Device, format!("the window's surface was lost: {e}")).because(e)
                })?;
                self.resize(self.window.inner_size());
                Acquired::Again
            }
        };
        self.gpu.check()?;
        self.failures = if matches!(acquired, Acquired::Again) { self.failures + 1 } else { 0 };
        if self.failures > PATIENCE {
            let adapter = &self.gpu.adapter;
            return Err(Error::new(
                ErrorKind::Device,
                format!("the window's surface on {adapter} stays unusable"),
            ));
        }
        Ok(acquired)
    }

    /// Paint what was composed, of the surface's size, and hand it to the screen.
    pub(crate) fn present(
        &mut self,
        target: wgpu::SurfaceTexture,
        composed: &wgpu::TextureView,
        content: &Content,
    ) -> Result<()> {
        let size = [self.config.width, self.config.height];
        let scale = self.window.scale_factor() as f32;
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let surface = target.texture.create_view(&wgpu::TextureViewDescriptor::default());
        let painting = Painting { composed, content, size, scale };
        let commands = self.painter.paint(&self.gpu, &mut encoder, &surface, &painting);
        self.gpu.queue.submit(commands.into_iter().chain([encoder.finish()]));
        self.window.pre_present_notify();
        self.gpu.queue.present(target);
        self.gpu.check()
    }
}

/// The picture's own size, unless it is larger than most of the screen or too small to look at.
fn first_size(events: &ActiveEventLoop, picture: ImageSize) -> PhysicalSize<u32> {
    let monitor = events.primary_monitor().or_else(|| events.available_monitors().next());
    let (screen, scale) = monitor
        .map(|monitor| (monitor.size(), monitor.scale_factor()))
        // A server that tells no size (0×0 happens) gets what fits nearly every screen.
        .filter(|(size, _)| size.width > 0 && size.height > 0)
        .unwrap_or((PhysicalSize::new(1600, 900), 1.0));
    let most = |n: u32| ((f64::from(n) * SHARE) as u32).max(1);
    window_size(picture, most(screen.width), most(screen.height), scale)
}

fn window_size(picture: ImageSize, most_width: u32, most_height: u32, scale: f64) -> PhysicalSize<u32> {
    let factor = (READABLE * scale / picture.width as f64).ceil().clamp(1.0, 64.0);
    let (width, height) = (picture.width as f64 * factor, picture.height as f64 * factor);
    if width <= f64::from(most_width) && height <= f64::from(most_height) {
        return PhysicalSize::new(width as u32, height as u32);
    }
    let rect = Rect::fit(picture, most_width, most_height);
    PhysicalSize::new(rect.width, rect.height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_open_at_a_sensible_size() {
        let size = |w, h, scale| {
            let size = window_size(ImageSize { width: w, height: h }, 1536, 864, scale);
            (size.width, size.height)
        };
        assert_eq!(size(640, 360, 1.0), (640, 360));
        assert_eq!(size(3840, 2160, 1.0), (1536, 864));
        assert_eq!(size(1080, 1920, 1.0), (486, 864));
        assert_eq!(size(64, 64, 1.0), (320, 320));
        assert_eq!(size(320, 180, 2.0), (640, 360));
        assert_eq!(size(1, 1, 1.0), (64, 64));
        assert_eq!(size(100_000, 1, 1.0), (1536, 1));
    }
}
