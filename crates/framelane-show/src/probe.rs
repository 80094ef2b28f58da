//! Which adapter can show windows here: asked with a window that is never on the screen, because panes are made on the
//! adapter before there is a picture to open the real one for.

use crate::gpu;
use crate::link::Message;
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;
use winit::application::ApplicationHandler;
use winit::event::WindowEvent;
use winit::event_loop::{ActiveEventLoop, EventLoop};
use winit::platform::run_on_demand::EventLoopExtRunOnDemand;
use winit::window::{Window, WindowId};

struct Probe<'a> {
    instance: &'a wgpu::Instance,
    uuid: Option<[u8; 16]>,
    found: Option<Result<wgpu::Adapter>>,
}

/// The best adapter whose surfaces this display server takes; before all others that with this UUID.
pub(crate) fn adapter(
    events: &mut EventLoop<Message>,
    instance: &wgpu::Instance,
    uuid: Option<[u8; 16]>,
) -> Result<wgpu::Adapter> {
    let mut probe = Probe { instance, uuid, found: None };
    events
        .run_app_on_demand(&mut probe)
        .map_err(|e| Error::new(ErrorKind::Device, format!("the display server failed: {e}")).because(e))?;
    probe.found.unwrap_or_else(|| {
        Err(Error::new(ErrorKind::Device, "the display server does not let a program begin"))
    })
}

impl Probe<'_> {
    fn find(&self, events: &ActiveEventLoop) -> Result<wgpu::Adapter> {
        let failed = |e: String| {
            Error::new(
                ErrorKind::Unsupported,
                format!("no window can be opened: {}", crate::server::plain(&e)),
            )
        };
        // Without any there is no surface either, and a worse sentence.
        gpu::choose(self.instance, |_| true)?;
        let hidden = Window::default_attributes().with_visible(false);
        let window = events.create_window(hidden).map_err(|e| failed(e.to_string()).because(e))?;
        let surface =
            self.instance.create_surface(Arc::new(window)).map_err(|e| failed(e.to_string()).because(e))?;
        let shows = |adapter: &wgpu::Adapter| adapter.is_surface_supported(&surface);
        gpu::choose_for(self.instance, self.uuid, shows)
    }
}

impl ApplicationHandler<Message> for Probe<'_> {
    fn resumed(&mut self, events: &ActiveEventLoop) {
        if self.found.is_none() {
            self.found = Some(self.find(events));
        }
        events.exit();
    }

    fn window_event(&mut self, _: &ActiveEventLoop, _: WindowId, _: WindowEvent) {}
}
