//! Displays that show tensors: on the screen or in memory, from any thread, by the newest or one by one.
//!
//! A [`Window`] or a [`Display`] has panes. A producer shows image tensors ([`Picture`]) on its pane by
//! [`TensorPane::show`]: one kernel on the producer's own stream, and no wait. On CUDA the picture never leaves the GPU;
//! where memory cannot be shared it is uploaded from the host, and [`TensorPane::path`] says why. On Unix producers may be
//! processes of their own (`WorkerPane`, `Display::accept`, `Window::listen`). Where there is no screen, opening a window
//! is an error that says so, and [`Display::offscreen`] draws the same into memory.
//!
//! For programs that draw with OpenGL already there is the module `gl` (Linux and Windows): the same pictures, in a
//! texture or a pixel buffer of theirs.
//!
//! A feed's batches, through a network, to the screen:
//!
//! ```
//! # use framelane::{device::{Device, Stream}, feed::{self, Feeder, Source}, lanes::Lanes};
//! # use framelane_show::{Picture, TensorPane};
//! # fn on_the_screen(
//! #     device: &Device, clip: impl Source + 'static, lanes: &Lanes, stream: &Stream, pane: &TensorPane,
//! # ) -> framelane::Result<()> {
//! let feeder = Feeder::new(device, clip, feed::Options::new("clip"))?; // pinned memory; a thread and a stream of its own
//! for output in lanes.run(&feeder) {                                   // many jobs, one copy of the weights
//!     let output = output?;
//!     let picture = Picture::new(output.on(stream)?.tensor("0")?);     // the stream waits, and no thread
//!     if let Some(meta) = output.meta() {
//!         pane.show(stream, &picture, meta)?;                          // one kernel: no trip through the CPU
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Reading order
//!
//! `display` (how a picture comes to the screen) → `display/picture` → `display/staging` (pictures of the host's) →
//! `display/pane` → `display/image` → `interop`
//! (memory that Vulkan makes and CUDA maps) → `display/lend` and `display/worker` (the same between processes) →
//! `display/place` (what a pane shows now, workers' too) → `display/compose` (drawing).
//!
//! For OpenGL: `gl` → `gl/texture`, `gl/buffer` → `gl/way` (which way, and what both have in common) → `gl/raw` (its own
//! calls).
//!
//! `window` → `app` (what happens at each event) → `hand` (the mouse) → `screen` (the surface) → `blit` → `overlay`
//! (text). Around them: `rect` (fit and zoom), `display/watch` and `link` (what threads tell each other), `server`,
//! `events` and `probe` (the display server), `gpu` (the adapter), `sharing` (whose memory CUDA can write, and why not), `readback`, `keys`, `meter`, `pace`, `screenshot`,
//! `caught`.

#![deny(unsafe_code)]

mod app;
mod blit;
mod caught;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod display;
mod events;
#[cfg(any(target_os = "linux", windows))]
pub mod gl;
mod gpu;
mod hand;
#[cfg_attr(target_vendor = "apple", path = "interop_none.rs")]
#[allow(unsafe_code, reason = "Vulkan's own calls")]
mod interop;
mod keys;
mod link;
mod meter;
mod overlay;
mod pace;
mod probe;
mod readback;
mod rect;
mod screen;
mod screenshot;
mod server;
mod sharing;
mod window;

#[cfg(unix)]
pub use display::WorkerPane;
pub use display::{
    Colours, Display, Layout, Matrix, PaneOptions, PaneStatus, Picture, Seen, Shown, TensorPane,
};
pub use framelane::ring::Policy;
pub use gpu::{AdapterInfo, adapters};
pub use link::WindowStatus;
pub use meter::Ages;
pub use pace::Pace;
pub use rect::Zoom;
pub use sharing::Facts;
pub use window::{Window, WindowHandle, WindowOptions, WindowReport, available};
