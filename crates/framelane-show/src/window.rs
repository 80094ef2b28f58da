//! The window: opened on the thread that will run it, fed by panes from any other.

use crate::app::App;
use crate::link::{Link, Message, Wake, WindowStatus};
use crate::meter::Ages;
use crate::pane::Pane;
use crate::server::Server;
use crate::{caught, events, gpu, upload};
use framelane::ring::Policy;
use framelane::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use winit::error::EventLoopError;
use winit::event_loop::EventLoop;
use winit::platform::run_on_demand::EventLoopExtRunOnDemand;

/// How a window behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowOptions {
    /// What the title bar says before rate and age.
    pub title: String,
    /// What happens to frames that come faster than they are shown. `Latest`, for live streams: the newest is
    /// shown, those it overtook are dropped and counted. `Fifo`, for files: every frame is shown, and
    /// [`Pane::show`] waits until the one before was taken.
    pub policy: Policy,
    /// Show whole refreshes only (no tearing). Without it the age can be a little lower.
    pub vsync: bool,
    /// Close when the stream has ended, instead of keeping the last picture until the user closes.
    pub close_at_end: bool,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self { title: "framelane".into(), policy: Policy::Latest, vsync: true, close_at_end: false }
    }
}

/// What a window did, told when it is closed.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowReport {
    /// Frames handed to the screen.
    pub shown: u64,
    /// Frames that a newer one replaced before they were taken.
    pub replaced: u64,
    /// Frames taken, but not drawn, while the window was minimised or covered.
    pub hidden: u64,
    /// Whether the user closed it; otherwise the stream's end or [`WindowHandle::close`] did.
    pub closed_by_user: bool,
    /// The path frames took, in one line: `host-upload (llvmpipe, Vulkan)`.
    pub path: String,
    /// Ages of the frames shown; `None` if there were none.
    pub age: Option<Ages>,
}

/// A window that shows what its [`Pane`] is given. It appears with the first frame, sized for it.
///
/// ```no_run
/// use framelane::frame::{FrameMeta, ImageSize};
/// use framelane_show::{Frame, Shown, Window, WindowOptions};
///
/// # fn main() -> framelane::Result<()> {
/// let (window, pane) = Window::open(WindowOptions::default())?;
/// std::thread::spawn(move || {
///     let size = ImageSize { width: 640, height: 360 };
///     for n in 0.. {
///         let rgb = vec![(n % 256) as u8; size.bytes()];
///         let meta = FrameMeta::new("greys", n);
///         match pane.show(Frame { rgb: &rgb, size, meta: &meta, before: None }) {
///             Ok(Shown::Closed) | Err(_) => break,
///             Ok(_) => {}
///         }
///     }
/// });
/// let report = window.run()?; // Until the window is closed.
/// println!("{} frames shown by {}", report.shown, report.path);
/// # Ok(())
/// # }
/// ```
pub struct Window {
    options: WindowOptions,
    events: EventLoop<Message>,
    instance: wgpu::Instance,
    adapter: wgpu::Adapter,
    // Last, so that panes are told of the end after all else is gone.
    closing: CloseOnDrop,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Window {
    /// Connect to the display server and the graphics adapter. Nothing is on the screen yet.
    ///
    /// Call it on the main thread (macOS and Windows demand that; Linux takes any thread, but the same one
    /// for all windows of a process). Several windows may be opened one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`], with what to do, if there is no display server that answers within five
    /// seconds, a library is missing, or there is no graphics adapter. [`ErrorKind::Argument`] on a second thread.
    pub fn open(options: WindowOptions) -> Result<(Self, Pane)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (events, instance, adapter, _) = connect()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = upload::path(&gpu::AdapterInfo::of(&adapter));
        let link = Link::new(number, options.policy, events.create_proxy(), path);
        let pane = Pane::new(link.clone());
        Ok((Self { options, events, instance, adapter, closing: CloseOnDrop(link) }, pane))
    }

    /// A handle to watch and close the window from other threads.
    pub fn handle(&self) -> WindowHandle {
        WindowHandle { link: self.closing.0.clone() }
    }

    /// The path frames take, in one line: `host-upload (llvmpipe, Vulkan)`.
    pub fn path(&self) -> String {
        self.closing.0.path()
    }

    /// Show frames until the window is closed: by the user, by [`WindowHandle::close`], or by the stream's
    /// end. Blocks the calling thread; sleeps while nothing happens.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the display server or the adapter fails for good, and
    /// [`ErrorKind::Unsupported`] for a picture larger than the adapter takes. Panes are told
    /// [`Shown::Closed`](crate::Shown) in every case.
    ///
    /// One failure cannot be an error: when an X server goes away, Xlib says so on standard error and ends
    /// the process with exit code 1.
    pub fn run(self) -> Result<WindowReport> {
        let Self { options, mut events, instance, adapter, closing } = self;
        let link = closing.0.clone();
        let mut app = App::new(options, link.clone(), instance, adapter);
        let ran = catch_unwind(AssertUnwindSafe(|| events.run_app_on_demand(&mut app)));
        link.mailbox.close();
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

    /// What the window looks like now.
    pub fn status(&self) -> WindowStatus {
        let replaced = self.link.replaced();
        let ended = self.link.has_ended();
        WindowStatus { replaced, ended, ..self.link.status().clone() }
    }

    /// The path frames take, in one line: `host-upload (llvmpipe, Vulkan)`.
    pub fn path(&self) -> String {
        self.link.path()
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
    let (events, _instance, adapter, server) = connect()?;
    events::keep(events);
    Ok(format!("{server}, {}", gpu::AdapterInfo::of(&adapter)))
}

fn connect() -> Result<(EventLoop<Message>, wgpu::Instance, wgpu::Adapter, Server)> {
    let (events, server) = events::take()?;
    let display = events.owned_display_handle();
    let found = caught::quietly("the graphics driver", || {
        let instance = gpu::instance(Some(Box::new(display)));
        gpu::choose(&instance, |_| true).map(|adapter| (instance, adapter))
    });
    match found.and_then(|found| found) {
        Ok((instance, adapter)) => Ok((events, instance, adapter, server)),
        Err(error) => {
            events::keep(events);
            Err(error)
        }
    }
}

/// Whatever becomes of a window, its panes must not wait for it.
struct CloseOnDrop(Arc<Link>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.mailbox.close();
    }
}
