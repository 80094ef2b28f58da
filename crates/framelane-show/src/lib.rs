//! Windows that show frames: from any thread, by the newest or one by one, with before and after.
//!
//! [`Window::open`] on the main thread gives a window and its [`Pane`]; other threads push frames with
//! [`Pane::show`] while the main thread is in [`Window::run`]. Where there is no screen, opening is an
//! error that says so, and [`Offscreen`] draws the same pictures into memory.
//!
//! [`Display`] is the other way: tensors of a device ([`Picture`]), shown by their producers' own streams
//! ([`TensorPane::show`]) and drawn side by side into memory; on CUDA without a copy to the host.
//!
//! For programs that draw with OpenGL already there is the module `gl` (Linux and Windows): the same pictures, in a
//! texture or a pixel buffer of theirs.
//!
//! # Reading order
//!
//! For tensors: `display` (how a picture comes to the screen) → `display/picture` → `display/staging` (pictures of the host's) → `display/pane` → `display/image`
//! → `interop` (memory that Vulkan makes and CUDA maps) → `display/place` (what a pane shows now, workers' too) →
//! `display/compose` (drawing).
//!
//! For OpenGL: `gl` → `gl/texture`, `gl/buffer` → `gl/way` (which way, and what both have in common) → `gl/raw` (its own
//! calls).
//!
//! For windows: `pane` (what users hold) → `mailbox` (three slots, two policies) → `link` (what the threads share) →
//! `window` → `app` (what happens at each event) → `screen` (the surface) → `upload` (host memory to texture)
//! → `view` (fit, letterbox, split) → `overlay` (text) → `offscreen`. Around them: `server` and `events`
//! (the display server), `gpu` (the adapter), `keys`, `meter`, `pace`, `screenshot`, `caught`.
//!
//! The view knows nothing of how a picture came onto the device: both ways leave it a texture.

#![deny(unsafe_code)]

mod app;
mod caught;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod display;
mod events;
#[cfg(any(target_os = "linux", windows))]
pub mod gl;
mod gpu;
#[cfg_attr(target_vendor = "apple", path = "interop_none.rs")]
#[allow(unsafe_code, reason = "Vulkan's own calls")]
mod interop;
mod keys;
mod link;
mod mailbox;
mod meter;
mod offscreen;
mod overlay;
mod pace;
mod pane;
mod screen;
mod screenshot;
mod server;
mod upload;
mod view;
mod window;

pub use display::{Colours, Display, Layout, Matrix, PaneOptions, PaneStatus, Picture, TensorPane};
pub use framelane::ring::Policy;
pub use gpu::{AdapterInfo, adapters};
pub use link::WindowStatus;
pub use meter::Ages;
pub use offscreen::Offscreen;
pub use pace::Pace;
pub use pane::{Frame, Pane, Shown};
pub use window::{Window, WindowHandle, WindowOptions, WindowReport, available};
