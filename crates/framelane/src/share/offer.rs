//! What a window's owner can give its workers beyond host memory: slots in the memory of a device, which this module
//! knows nothing of.

use super::memory::DeviceSlots;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What a worker would like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How many slots.
    pub slots: usize,
    /// Bytes of each.
    pub slot_bytes: usize,
    /// The UUID of the GPU whose memory the worker can open, if it has one.
    pub device: Option<[u8; 16]>,
}

/// What it is given.
pub struct Offer {
    /// How its pictures come to the screen, in one line: `vulkan-shared (NVIDIA H200, Vulkan)`; with the reason where
    /// there is a better way that is not taken.
    pub way: String,
    /// Slots in the memory of the GPU that the worker wants, and what the owner knows them by ([`super::Taken::device`]).
    /// `None`: it gets host memory.
    pub device: Option<(DeviceSlots, Owned)>,
}

/// What a window's owner knows its slots by. Kept for as long as a worker, or a frame that was taken, may use them.
pub type Owned = Arc<dyn Any + Send + Sync>;

/// Decides for each worker, and again when its slots grow. Clones are the same.
#[derive(Clone)]
pub struct Provider(Arc<dyn Fn(&Wanted) -> Offer + Send + Sync>);

impl Provider {
    /// Offer what `decide` says. It is called in [`super::Listener::accept_with`], and in
    /// [`super::Attached::poll_alive`].
    pub fn new(decide: impl Fn(&Wanted) -> Offer + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    pub(super) fn offer(&self, wanted: &Wanted) -> Offer {
        (self.0)(wanted)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}
