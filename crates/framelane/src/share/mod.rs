//! Frames between processes: workers show theirs in a window that is another process's.
//!
//! A worker that dies takes nothing with it but its own pane; a window that dies is told to its workers by a value, and
//! they go on. Frames travel through shared memory: the worker writes a picture once, the window copies it once to where
//! its display uploads from; or, in a GPU's memory that both have, the window's display draws out of where the worker wrote.
//! Only names, sizes and descriptors go through a socket, and nothing at all for a frame.
//!
//! ```no_run
//! use framelane::frame::{FrameMeta, ImageSize};
//! use framelane::share::{Listener, Pixels, Shown, Worker, WorkerOptions};
//! use std::time::Duration;
//!
//! # fn worker() -> framelane::Result<()> {
//! // In one process …
//! let size = ImageSize::new(640, 480)?;
//! let mut worker = Worker::attach("wall", "camera 0", WorkerOptions::for_size(size))?;
//! for index in 0.. {
//!     let rgb = vec![0; size.bytes()];
//!     if worker.show(Pixels::Rgb(&rgb), size, &FrameMeta::new("camera 0", index))? == Shown::Closed {
//!         break;
//!     }
//! }
//! # Ok(())
//! # }
//! # fn window() -> framelane::Result<()> {
//! // … and in another.
//! let mut listener = Listener::bind("wall")?;
//! let mut pane = listener.accept(Duration::from_secs(10))?.expect("a worker attaches within 10 s");
//! while pane.poll_alive() {
//!     if let Some(frame) = pane.try_take() {
//!         let mut upload = vec![0; frame.pitch() * frame.size().height];
//!         frame.copy_to(&mut upload)?;
//!     }
//! #   break;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Protocol
//! 1. The window listens on a Unix socket (`place`), of which only its own user's processes are heard (`listener`).
//! 2. The worker says hello: its pane's name, slots, bytes of each, and which GPU's memory it can open besides host memory.
//!    The window makes the memory and sends descriptors of a control page and the slots, and how pictures come to
//!    its screen, in words; or it refuses in words (`message`).
//! 3. Frames: the state machine in the control page (`page`), and what became of each, which the window writes there
//!    (`fates`). Nothing is sent.
//! 4. A worker whose frames outgrow the slots asks for larger ones, and gets a new page and slots; its numbers go on. The
//!    window looks into the old ones as long as there is nothing in the new.
//! 5. Either side's end, whatever its cause, hangs up the socket; who ends in order says goodbye before, perhaps why, so that
//!    the other side can tell it from a crash ([`Worker::is_lost`], [`Attached::ended`]). The memory lives while one of the two maps it, so a
//!    frame that was taken stays valid; a slot that a dead worker was writing goes with its page.
//!
//! All memory is made by the window: a worker's descriptors are never accepted, and with a sealed size a mapping
//! cannot be cut off (`framelane_cuda::Mapped`). No right over the other process is needed (ptrace, `pidfd_getfd`): what
//! travels was sent.
//!
//! # Slots in a GPU's memory
//! This module knows no device. What offers slots in one's memory is the window's owner ([`Provider`]): a display makes
//! them by Vulkan, exports them and draws out of them ([`Taken::device`]). Who opens them is the worker's owner
//! ([`Worker::take_device_slots`]), whose stream writes a picture ([`Worker::begin`], [`Worker::hand_over`]) and then the
//! slot's *done* word, in the page that it has made known to the device. So neither process's CPU waits for a GPU, and a
//! picture whose writer died before it was complete is never shown. Slots in host memory are written in the same way by
//! a worker's stream: there is one way of completion.
//!
//! Nothing here starts a thread. Linux only; elsewhere on Unix each call says so.

mod attached;
#[doc(hidden)]
pub mod fates;
mod listener;
mod memory;
#[doc(hidden)]
pub mod message;
mod offer;
#[doc(hidden)]
pub mod page;
mod place;
mod slot;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod system;
mod worker;

use crate::frame::ImageSize;
use std::time::{Duration, Instant};

pub use attached::{Attached, Taken};
pub use listener::Listener;
pub use memory::{DeviceSlots, Pixels, SharedMemory};
pub use message::pane_name;
pub use offer::{Offer, Owned, Provider, Wanted};
pub use place::check_window_name;
pub use slot::WorkerSlot;
pub use worker::{Begun, Worker};

/// The most bytes of one slot that a window can allow.
pub const MAX_SLOT_BYTES: usize = framelane_cuda::Mapped::MAX_BYTES;

/// What [`Worker::show`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a closed window is told here and nowhere else"]
pub enum Shown {
    /// The frame will be shown next.
    Shown,
    /// The frame will be shown next, in place of one that nobody saw.
    Replaced,
    /// The window holds every slot: this frame is dropped.
    Dropped,
    /// The window is closed: stop, or attach to the next.
    Closed,
}

/// What became of a frame that a worker handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The window drew it.
    Drawn,
    /// A newer one was drawn in its place.
    Overtaken,
    /// The window took it while it was minimised or covered, so nobody saw it.
    Hidden,
    /// It made no sense, or is larger than the window's graphics adapter can draw.
    Refused,
    /// The window closed, or died, before it was drawn.
    Closed,
    /// The worker ended before it knew.
    Left,
}

/// What a worker wants.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Slots: one being read, one being written, one in between. 2 to 8; 3 are enough for a window that copies what it
    /// takes, while one that draws out of them keeps up to 4 ([`Self::for_device`]).
    pub slots: usize,
    /// Bytes of each at first; they grow when a picture needs more. [`Self::for_size`] counts them.
    pub slot_bytes: usize,
    /// The UUID of a GPU whose memory the worker can open ([`Worker::take_device_slots`]). `None`: host memory alone.
    pub device: Option<[u8; 16]>,
    /// How long the window may take to answer when it is asked for something.
    pub patience: Duration,
}

impl WorkerOptions {
    /// For pictures up to this size.
    pub fn for_size(size: ImageSize) -> Self {
        let slot_bytes = page::pitch_of(size) * size.height;
        Self { slots: 3, slot_bytes, device: None, patience: Duration::from_secs(2) }
    }

    /// For pictures up to this size that a device makes: as many slots as a display's pane has by default.
    pub fn for_device(size: ImageSize) -> Self {
        Self { slots: 6, ..Self::for_size(size) }
    }
}

/// What a window allows each worker.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most bytes of one slot; a worker has at most 8, and twice that while they grow.
    pub slot_bytes: usize,
}

impl Default for Limits {
    /// Pictures of 8192×8192.
    fn default() -> Self {
        Self { slot_bytes: 8192 * 8192 * 4 }
    }
}

impl Limits {
    fn allow(&self, slot_bytes: usize) -> Result<(), String> {
        match self.slot_bytes {
            most if slot_bytes <= most => Ok(()),
            most => Err(format!("slots of {slot_bytes} bytes are wanted, and this window allows {most}")),
        }
    }
}

/// What a window counted of one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// Frames taken.
    pub taken: u64,
    /// Frames that were shown by the worker and not taken here, for a newer one.
    pub skipped: u64,
    /// Frames and slots that made no sense.
    pub spoiled: u64,
    /// How often the slots grew.
    pub grown: u64,
}

/// What a worker counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Frames handed over.
    pub shown: u64,
    /// Frames among them that took the place of one which nobody had seen.
    pub replaced: u64,
    /// Frames for which there was no slot.
    pub dropped: u64,
    /// Frames handed over that the window drew. It is known of some that follow only when the next one is shown.
    pub drawn: u64,
    /// Frames handed over that the window took or passed over, and did not draw, as far as is known.
    pub unseen: u64,
    /// How often the slots grew.
    pub grown: u64,
}

/// When `limit` will have passed. What no clock counts to is a day.
fn after(limit: Duration) -> Instant {
    Instant::now() + limit.min(LONGEST)
}

const LONGEST: Duration = Duration::from_secs(24 * 3600);
