//! The window: opened on the thread that will run it, fed by panes from any other.

use crate::app::App;
use crate::display::{Display, PaneOptions, PaneStatus, TensorPane};
use crate::gpu::Gpu;
use crate::link::{Link, Message, PaneRequest, Wake, WindowStatus};
use crate::meter::Ages;
use crate::server::Server;
use crate::{caught, events, gpu, probe};
use framelane::device::Device;
use framelane::frame::ImageSize;
#[cfg(unix)]
use framelane::share::Listener;
use framelane::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use winit::error::EventLoopError;
use winit::event_loop::EventLoop;
use winit::platform::run_on_demand::EventLoopExtRunOnDemand;

/// Who waits for the window's thread looks so often whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// How a window behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowOptions {
    /// What the title bar says before rate and age.
    pub title: String,
    /// Open at once, at this size. `None`: with the first picture, sized for it.
    pub size: Option<ImageSize>,
    /// What stands in a window that has no pane yet.
    pub notice: Option<String>,
    /// Show whole refreshes only (no tearing). Without it the age can be a little lower.
    pub vsync: bool,
    /// Close when all streams have ended, instead of keeping the last pictures until the user closes.
    pub close_at_end: bool,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self { title: "framelane".into(), size: None, notice: None, vsync: true, close_at_end: false }
    }
}

/// What a window did, told when it is closed.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowReport {
    /// What each pane showed.
    pub panes: Vec<PaneStatus>,
    /// Whether the user closed it; otherwise the streams' end or [`WindowHandle::close`] did.
    pub closed_by_user: bool,
    /// Times that something was read back from the adapter: screenshots, and the numbers of pixels.
    pub readbacks: u64,
    /// The ways that pictures took, each once, in one line: `host-upload (llvmpipe, Vulkan): pictures are made on the cpu`.
    pub path: String,
    /// Ages of the pictures shown; `None` if there were none.
    pub age: Option<Ages>,
}

impl WindowReport {
    /// Pictures handed to the screen.
    pub fn shown(&self) -> u64 {
        self.panes.iter().map(|pane| pane.presented).sum()
    }

    /// Pictures that newer ones overtook, or the closing.
    pub fn dropped(&self) -> u64 {
        self.panes.iter().map(|pane| pane.dropped).sum()
    }

    /// Pictures taken, but not drawn, while the window was minimised or covered.
    pub fn hidden(&self) -> u64 {
        self.panes.iter().map(|pane| pane.hidden).sum()
    }
}

/// A window: a [`Display`] on the screen. It appears with the first picture, sized for it.
///
/// ```no_run
/// use framelane::TensorView;
/// use framelane::device::{Device, Memory};
/// use framelane::frame::{FrameMeta, ImageSize};
/// use framelane_show::{PaneOptions, Picture, Shown, Window, WindowOptions};
///
/// # fn main() -> framelane::Result<()> {
/// let device = Device::host(); // Or `Device::cuda(0)?`: then pictures never leave the GPU.
/// let mut window = Window::open(WindowOptions::default(), &device)?;
/// let pane = window.pane("greys", &device, &PaneOptions::default())?;
/// std::thread::spawn(move || -> framelane::Result<()> {
///     let (stream, size) = (device.stream("greys")?, ImageSize { width: 640, height: 360 });
///     let image = device.alloc(size.bytes(), Memory::Pinned)?;
///     let spec = size.spec();
///     for n in 0.. {
///         image.write_host()?.fill((n % 256) as u8);
///         let picture = Picture::new(TensorView::new(&image, 0, &spec)?);
///         if pane.show(&stream, &picture, &FrameMeta::new("greys", n))? == Shown::Closed {
///             break;
///         }
///         stream.synchronize("the image is written again")?;
///     }
///     Ok(())
/// });
/// let report = window.run()?; // Until the window is closed.
/// println!("{} pictures shown by {}", report.shown(), report.path);
/// # Ok(())
/// # }
/// ```
pub struct Window {
    options: WindowOptions,
    events: EventLoop<Message>,
    parts: Parts,
}

/// What a window is made of, besides the event loop.
pub(crate) struct Parts {
    pub(crate) link: Arc<Link>,
    pub(crate) instance: wgpu::Instance,
    pub(crate) adapter: wgpu::Adapter,
    /// Dropping it tells the producers.
    pub(crate) display: Display,
    #[cfg(unix)]
    pub(crate) listener: Option<Listener>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (options, display) = (&self.options, &self.parts.display);
        f.debug_struct("Window").field("options", options).field("display", display).finish_non_exhaustive()
    }
}

impl Window {
    /// Connect to the display server and the graphics adapter: the one that is the same GPU as `device`, if it can show
    /// windows here, or else the best that can. Nothing is on the screen yet.
    ///
    /// Call it on the main thread (macOS demands that; others take any thread, but the same one for all windows
    /// of a process). Several windows may be opened one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`], with what to do, if there is no display server that answers within five
    /// seconds, a library is missing, or there is no graphics adapter. [`ErrorKind::Argument`] on a second thread.
    pub fn open(options: WindowOptions, device: &Device) -> Result<Self> {
        Self::open_on(options, gpu::uuid_of(device))
    }

    /// As [`Window::open`], on the adapter that is the GPU of this UUID ([`DeviceInfo`](framelane::framelane_cuda::DeviceInfo)),
    /// which need not be opened for it.
    ///
    /// # Errors
    /// As [`Window::open`].
    pub fn open_on(options: WindowOptions, gpu: Option<[u8; 16]>) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let Connected { events, instance, adapter, .. } = connect(gpu)?;
        let link = Link::new(NUMBER.fetch_add(1, Ordering::Relaxed), events.create_proxy());
        let display = Gpu::open(&adapter).and_then(|gpu| Display::on(Arc::new(gpu), Some(link.clone())));
        let display = match display {
            Ok(display) => display,
            Err(error) => {
                events::keep(events);
                return Err(error);
            }
        };
        let parts = Parts {
            link,
            instance,
            adapter,
            display,
            #[cfg(unix)]
            listener: None,
        };
        Ok(Self { options, events, parts })
    }

    /// A pane for pictures of `device`, beside those there are, as [`Display::pane`]. Its producers show on it from any
    /// thread, also before [`Window::run`].
    ///
    /// # Errors
    /// As [`Display::pane`].
    pub fn pane(&mut self, name: &str, device: &Device, options: &PaneOptions) -> Result<TensorPane> {
        let pane = self.parts.display.pane(name, device, options)?;
        self.parts.link.status().panes = self.parts.display.panes();
        Ok(pane)
    }

    /// Give each worker process that attaches there a pane, as [`Display::accept`]. The window stays open until it is
    /// closed.
    #[cfg(unix)]
    pub fn listen(&mut self, listener: Listener) {
        self.parts.listener = Some(listener);
    }

    /// The adapter that draws.
    pub fn adapter(&self) -> &gpu::AdapterInfo {
        self.parts.display.adapter()
    }

    /// A handle to watch and close the window from other threads.
    pub fn handle(&self) -> WindowHandle {
        WindowHandle { link: self.parts.link.clone() }
    }

    /// Show pictures until the window is closed: by the user, by [`WindowHandle::close`], or by the streams'
    /// end. Blocks the calling thread; sleeps while nothing happens.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the display server or the adapter fails for good, and the error of a producer's
    /// stream. Panes are told [`Shown::Closed`](crate::Shown) in every case.
    ///
    /// One failure cannot be an error: when an X server goes away, Xlib says so on standard error and ends
    /// the process with exit code 1.
    pub fn run(self) -> Result<WindowReport> {
        let Self { options, mut events, parts } = self;
        let mut app = App::new(options, parts);
        let ran = catch_unwind(AssertUnwindSafe(|| events.run_app_on_demand(&mut app)));
        match ran {
            Ok(Ok(())) => {
                let report = app.report();
                events::keep(events);
                report
            }
            // This is how winit says that a Wayland server hung up.
            Ok(Err(error @ EventLoopError::ExitFailure(_))) => {
                let text = "the connection to the display server was lost: the window is closed";
                Err(Error::new(ErrorKind::Device, text).because(error))
            }
            Ok(Err(error)) => {
                Err(Error::new(ErrorKind::Device, format!("the display server failed: {error}"))
                    .because(error))
            }
            Err(payload) => Err(Error::from_panic("the window", payload.as_ref())),
        }
    }
}

/// Watches and closes a window from any thread. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WindowHandle {
    link: Arc<Link>,
}

impl WindowHandle {
    /// Close the window; [`Window::run`] returns soon after, at once if it has not begun.
    pub fn close(&self) {
        self.link.wake(Wake::Close);
    }

    /// A pane beside those there are, as [`Window::pane`], also while the window runs. Waits for the window's thread.
    ///
    /// # Errors
    /// As [`Display::pane`]; [`ErrorKind::Closed`] if the window is closed.
    pub fn pane(&self, name: &str, device: &Device, options: &PaneOptions) -> Result<TensorPane> {
        let (answer, answered) = channel();
        let (device, options) = (device.clone(), options.clone());
        self.link.wake(Wake::Pane(PaneRequest { name: name.to_owned(), device, options, answer }));
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(pane) => return pane,
                // One that is asked just before the end may stay unheard.
                Err(RecvTimeoutError::Timeout) if !self.link.is_over() => {}
                Err(_) => {
                    return Err(Error::new(
                        ErrorKind::Closed,
                        format!("pane {name:?}: the window is closed"),
                    ));
                }
            }
        }
    }

    /// The keys that were pressed in the window since this was asked last, the oldest first and 64 at most, also those that
    /// do something there: the text of each, or the name of one without (`ArrowLeft`, `Escape`, `Space`).
    pub fn take_keys(&self) -> Vec<String> {
        self.link.take_keys()
    }

    /// What the window looks like now.
    pub fn status(&self) -> WindowStatus {
        self.link.status().clone()
    }
}

/// Whether a window could be opened here, and where: `X11 :0, llvmpipe (Vulkan)`.
///
/// Call it on the thread that would open the window. Takes some tens of milliseconds, five seconds if a
/// display server does not answer.
///
/// # Errors
/// As [`Window::open`].
pub fn available() -> Result<String> {
    let Connected { events, adapter, server, .. } = connect(None)?;
    events::keep(events);
    Ok(format!("{server}, {}", gpu::AdapterInfo::of(&adapter)))
}

struct Connected {
    events: EventLoop<Message>,
    instance: wgpu::Instance,
    adapter: wgpu::Adapter,
    server: Server,
}

fn connect(uuid: Option<[u8; 16]>) -> Result<Connected> {
    let (mut events, server) = events::take()?;
    let display = events.owned_display_handle();
    let found = caught::quietly("the graphics driver", || {
        let instance = gpu::instance(Some(Box::new(display)));
        probe::adapter(&mut events, &instance, uuid).map(|adapter| (instance, adapter))
    });
    match found.and_then(|found| found) {
        Ok((instance, adapter)) => Ok(Connected { events, instance, adapter, server }),
        Err(error) => {
            events::keep(events);
            Err(error)
        }
    }
}
