//! What a window, its panes and its handles share.

use crate::mailbox::Mailbox;
use crate::pane::Slot;
use framelane::ring::Policy;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use winit::event_loop::EventLoopProxy;

/// What other threads tell the window's event loop.
#[derive(Debug)]
pub(crate) enum Wake {
    /// A frame is ready.
    Frame,
    /// No more frames will come.
    End,
    /// Close the window.
    Close,
    /// A screenshot was written, or a sentence why not.
    Saved(Result<PathBuf, String>),
}

/// A [`Wake`] with the number of the window it is for: one event loop serves a process's windows one
/// after the other, and a pane may outlive its window.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) window: u64,
    pub(crate) wake: Wake,
}

/// What a window looks like from outside, at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowStatus {
    /// Whether it is on the screen: from the first frame until it is closed.
    pub open: bool,
    /// Width and height inside, in pixels of the screen.
    pub size: (u32, u32),
    /// Frames handed to the screen.
    pub shown: u64,
    /// Frames taken while the window was minimised or covered.
    pub hidden: u64,
    /// Frames that a newer one replaced before they were taken.
    pub replaced: u64,
    /// Times the window was drawn: also after a key, a resize, a new number in the overlay.
    pub drawn: u64,
    /// Whether the picture is held.
    pub paused: bool,
    /// Where the before/after divider is, from 0 (left) to 1 (right), if it is on.
    pub split: Option<f32>,
    /// Whether the line of numbers is shown.
    pub info: bool,
    /// Whether the keys are shown.
    pub help: bool,
    /// Whether the window fills the screen.
    pub full_screen: bool,
    /// Whether the stream has ended.
    pub ended: bool,
    /// The last screenshot that was written.
    pub screenshot: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) mailbox: Mailbox<Slot>,
    window: u64,
    // The mutex makes it `Sync` on systems where the proxy is not.
    proxy: Mutex<EventLoopProxy<Message>>,
    /// A wake for a frame is on its way: the loop is not sent another before it has looked.
    woken: AtomicBool,
    ended: AtomicBool,
    replaced: AtomicU64,
    status: Mutex<WindowStatus>,
    path: Mutex<String>,
}

impl Link {
    pub(crate) fn new(
        window: u64,
        policy: Policy,
        proxy: EventLoopProxy<Message>,
        path: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            mailbox: Mailbox::new(policy),
            window,
            proxy: Mutex::new(proxy),
            woken: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            replaced: AtomicU64::new(0),
            status: Mutex::new(WindowStatus { info: true, ..WindowStatus::default() }),
            path: Mutex::new(path),
        })
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Tell the event loop something. A loop that is gone need not be told: its mailbox is closed.
    pub(crate) fn wake(&self, wake: Wake) {
        let _ = lock(&self.proxy).send_event(Message { window: self.window, wake });
    }

    /// `true` if the caller is to send [`Wake::Frame`].
    ///
    /// The writer fills the mailbox before it claims, the presenter disarms before it looks into the
    /// mailbox: a frame that was not announced is therefore always found.
    pub(crate) fn claim_wake(&self) -> bool {
        !self.woken.swap(true, Ordering::SeqCst)
    }

    /// The presenter is about to look into the mailbox.
    pub(crate) fn disarm_wake(&self) {
        self.woken.store(false, Ordering::SeqCst);
    }

    /// No more frames will come. Told once.
    pub(crate) fn end(&self) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            self.wake(Wake::End);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub(crate) fn count_replaced(&self) {
        self.replaced.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, WindowStatus> {
        lock(&self.status)
    }

    pub(crate) fn path(&self) -> String {
        lock(&self.path).clone()
    }

    pub(crate) fn set_path(&self, path: String) {
        *lock(&self.path) = path;
    }
}

// Only plain assignments run under these locks: a poisoned one still holds good values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
