//! A number that the CPU raises and streams wait for.

use crate::context::Context;
use crate::error::{Result, check};
use crate::memory::{PinnedBuffer, PinnedKind};
use crate::stream::Stream;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A number in pinned memory, 0 at first; clones are the same number. Work on a stream waits until the CPU has
/// raised it ([`Stream::wait_for_flag`]): the other way round from an event.
#[derive(Clone)]
pub struct Flag {
    memory: PinnedBuffer,
}

impl Flag {
    /// A flag that streams of any device can wait for.
    ///
    /// # Errors
    /// [`crate::Kind::OutOfMemory`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self { memory: PinnedBuffer::new(context, size_of::<u32>(), PinnedKind::Cached)? })
    }

    /// Raise it to `value`; a lower value changes nothing. What this thread wrote before is there for work that
    /// waited for it.
    pub fn raise(&self, value: u32) {
        self.number().fetch_max(value, Ordering::Release);
    }

    /// What it is now.
    pub fn value(&self) -> u32 {
        self.number().load(Ordering::Acquire)
    }

    fn number(&self) -> &AtomicU32 {
        // SAFETY: the memory holds a u32, is aligned to a page, lives as long as `self` and is given to nobody as
        // bytes; the device only reads it.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().cast()) }
    }
}

impl Stream {
    /// Work enqueued from now on waits until `flag` is at least `value`. The calling thread does not. A flag that
    /// is never raised holds the stream for ever.
    ///
    /// # Errors
    /// [`crate::Kind::Capture`] during a capture; a lost device.
    pub fn wait_for_flag(&self, flag: &Flag, value: u32) -> Result<()> {
        const AT_LEAST: u32 = 0;
        let _current = self.context().enter()?;
        let address = flag.memory.as_ptr() as u64;
        // The memory is kept until the stream is past the wait, as for a copy out of it.
        flag.memory.copying(self, false, || {
            // SAFETY: the address is 4 bytes of pinned memory, which every device reaches at the host's address.
            check("cuStreamWaitValue32_v2", unsafe {
                (self.api().cuStreamWaitValue32_v2)(self.raw(), address, value, AT_LEAST)
            })
        })
    }
}

impl fmt::Debug for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flag({})", self.value())
    }
}
