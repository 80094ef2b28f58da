//! What a window, its panes and its handles share.

use crate::display::{PaneOptions, PaneStatus, TensorPane};
use framelane::Result;
use framelane::device::Device;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use winit::event_loop::EventLoopProxy;

/// What other threads tell the window's event loop.
#[derive(Debug)]
pub(crate) enum Wake {
    /// A pane has a picture.
    Picture,
    /// A pane has no producer any more.
    End,
    /// Close the window.
    Close,
    /// One more pane.
    Pane(PaneRequest),
    /// A screenshot of this pane was written, or a sentence why not.
    Saved(usize, std::result::Result<PathBuf, String>),
}

/// What [`WindowHandle::pane`](crate::WindowHandle::pane) asks for.
#[derive(Debug)]
pub(crate) struct PaneRequest {
    pub(crate) name: String,
    pub(crate) device: Device,
    pub(crate) options: PaneOptions,
    pub(crate) answer: Sender<Result<TensorPane>>,
}

/// Keys that are remembered until somebody asks for them.
const KEYS: usize = 64;

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
    /// Whether it is on the screen: from the first picture, or as [`WindowOptions::size`](crate::WindowOptions::size)
    /// says, until it is closed.
    pub open: bool,
    /// Width and height inside, in pixels of the screen.
    pub size: (u32, u32),
    /// What each pane showed.
    pub panes: Vec<PaneStatus>,
    /// Times the window was drawn: also after a key, a resize, a new number in the overlay.
    pub drawn: u64,
    /// Times that something was read back from the adapter: screenshots, and the numbers of pixels.
    pub readbacks: u64,
    /// Whether the pictures are held.
    pub paused: bool,
    /// Where the before/after divider is, from 0 (left) to 1 (right), if it is on.
    pub split: Option<f32>,
    /// The pixel under the mouse and its numbers, if they are shown: `12, 30: 255 128 0`.
    pub value: Option<String>,
    /// Whether the lines of numbers are shown.
    pub info: bool,
    /// Whether the keys are shown.
    pub help: bool,
    /// Whether the window fills the screen.
    pub full_screen: bool,
    /// Whether all panes have ended.
    pub ended: bool,
    /// The last screenshot that was written.
    pub screenshot: Option<PathBuf>,
}

impl WindowStatus {
    /// Pictures handed to the screen.
    pub fn shown(&self) -> u64 {
        self.panes.iter().map(|pane| pane.presented).sum()
    }

    /// Pictures that newer ones overtook.
    pub fn dropped(&self) -> u64 {
        self.panes.iter().map(|pane| pane.dropped).sum()
    }

    /// Pictures taken while the window was minimised or covered.
    pub fn hidden(&self) -> u64 {
        self.panes.iter().map(|pane| pane.hidden).sum()
    }

    /// The ways that pictures take, each once, in one line.
    pub fn path(&self) -> String {
        let mut paths: Vec<&str> = Vec::new();
        for pane in &self.panes {
            if !paths.contains(&&*pane.path) {
                paths.push(&pane.path);
            }
        }
        paths.join("; ")
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    window: u64,
    // The mutex makes it `Sync` on systems where the proxy is not.
    proxy: Mutex<EventLoopProxy<Message>>,
    /// A wake for a picture is on its way: the loop is not sent another before it has looked.
    woken: AtomicBool,
    /// The loop will not hear of anything any more.
    over: AtomicBool,
    status: Mutex<WindowStatus>,
    keys: Mutex<VecDeque<String>>,
}

impl Link {
    pub(crate) fn new(window: u64, proxy: EventLoopProxy<Message>) -> Arc<Self> {
        Arc::new(Self {
            window,
            proxy: Mutex::new(proxy),
            woken: AtomicBool::new(false),
            over: AtomicBool::new(false),
            keys: Mutex::default(),
            status: Mutex::new(WindowStatus { info: true, ..WindowStatus::default() }),
        })
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Tell the event loop something. A loop that is gone need not be told: its display is closed.
    pub(crate) fn wake(&self, wake: Wake) {
        let _ = lock(&self.proxy).send_event(Message { window: self.window, wake });
    }

    /// `true` if the caller is to send [`Wake::Picture`].
    ///
    /// The producer publishes before it claims, the presenter disarms before it looks into the panes: a picture that was
    /// not announced is therefore always found.
    pub(crate) fn claim_wake(&self) -> bool {
        !self.woken.swap(true, Ordering::SeqCst)
    }

    /// The presenter is about to look into the panes.
    pub(crate) fn disarm_wake(&self) {
        self.woken.store(false, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// A key was pressed; of those that nobody asks for the oldest are forgotten.
    pub(crate) fn pressed(&self, key: String) {
        let mut keys = lock(&self.keys);
        if keys.len() == KEYS {
            keys.pop_front();
        }
        keys.push_back(key);
    }

    pub(crate) fn take_keys(&self) -> Vec<String> {
        lock(&self.keys).drain(..).collect()
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, WindowStatus> {
        lock(&self.status)
    }
}

// Only plain assignments run under these locks: a poisoned one still holds good values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
