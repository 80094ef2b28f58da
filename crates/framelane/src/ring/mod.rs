//! The ring: slots that one side fills and the other side reads, reused without ever waiting on the CPU for
//! the device.
//!
//! The same ring serves the feed (pinned and device slots), the lanes' outputs and the display. A slot's
//! payload `T` is made once; `F` is what the device signals ([`Fence`]); `M` travels with each filling.
//!
//! # Protocol
//! ```text
//!            acquire                     publish(ready)                take
//!   Free ───────────────▶ Writing ─────────────────────▶ Ready ────────────────▶ Leased
//!    ▲ ▲                     │                             │                        │
//!    │ └─────────────────────┘ recycle / drop              │ Latest: a newer one    │ lease ends:
//!    │                                                     ▼ was taken, or          │ one fence per
//!    └─────────────────────────────────────────────────────┴─ the writer needs it ◀─┘ reading stream
//! ```
//! 1. A slot is in exactly one state. Only its writer touches it in *Writing*, only its lease in *Leased*.
//! 2. `publish` hands over the fence after which the bytes are there; a reader makes its *stream* wait for it.
//! 3. A lease ends with one fresh fence per stream that read. They stay with the slot; the next writer gets
//!    them from `acquire` and makes *its* stream wait for all of them before it writes. A slot that nobody
//!    read keeps the fence of its last write instead.
//! 4. `Fifo`: slots are read in the order of publication; a full ring holds the writer back.
//!    `Latest`: a reader gets the newest filling whose fence is done, or if none is, the oldest pending one;
//!    a full ring gives the writer the oldest unread slot if a newer one is complete, else the newest (so
//!    that a writer far ahead of its stream leaves something to complete). What is skipped so is handed
//!    back, to be counted.
//! 5. The writer gets, in this order: a free slot whose fences are all done; under `Latest` an unread slot, as
//!    said in 4; a free slot whose fences are pending, the longest free first; a slot more, as the ring grows
//!    from `slots` to `max_slots`. So under `Latest` a writer's stream waits for readers' only if there is
//!    nothing to replace (a writer far ahead of its stream then needs two slots that no reader keeps, or one
//!    who only asks finds none complete), and growth is for leases that are held, neither for streams that are
//!    about to be done nor to run further ahead: with `slots` of them unread or being written the ring does not
//!    grow. So a reader that takes one may let a writer go on, and wakes it.
//!    At the maximum the writer is held back, and can be told who holds what.
//! 6. `finish(result)` lets the readers drain what is there, then tells the error once, then the end for ever:
//!    what is published after it was told is dropped, and counted. From then on `acquire` fails with `Closed`.
//!    `cancel` (or dropping every reader) ends the writer likewise; leases stay valid.
//! 7. `reopen` begins another round. It is refused until the end, or the error, was told, so that no error is
//!    lost and nothing of the old round is left. A reader that is blocked belongs to the round in which it began
//!    to wait: if that has passed when it can lock, it is told the end. (None is still asleep then and could
//!    take a wake-up from the new round's readers: `finish` woke them all, and at the end nobody goes to sleep.)
//! 8. Who sleeps is counted under the lock, so that nobody is woken by a system call in vain.
//!
//! The state machine is `core`, pure and without locks; here one mutex and two condition variables are put
//! around it. Both are checked: short interleavings exhaustively with loom, random long ones on the
//! simulated device.

mod core;
mod reader;
mod writer;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Instant;

use self::core::Core;
pub use self::core::{Occupancy, Policy};
pub use reader::{ReadLease, Reader, TryTake};
pub use writer::{WriteSlot, Writer};

/// Something that a device signals when earlier work is done.
pub trait Fence: Clone {
    /// Whether it was signalled. Never waits.
    fn is_done(&self) -> bool;
}

impl Fence for crate::device::Event {
    fn is_done(&self) -> bool {
        // Not `Event::is_done`: under the ring's lock no simulated work may run, and what a ring sees in passing
        // orders nothing that its users enqueue.
        self.is_reached()
    }
}

/// For payloads that the CPU fills and reads: done when published.
impl Fence for () {
    fn is_done(&self) -> bool {
        true
    }
}

/// How a ring behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// A name for errors and reports.
    pub name: Arc<str>,
    /// What happens when the two sides differ in speed.
    pub policy: Policy,
    /// Slots made at the start, and at most filled ahead of the readers while it grows. At least 1.
    pub slots: usize,
    /// Slots it may grow to, if readers hold leases for long.
    pub max_slots: usize,
}

impl Options {
    /// A ring of `slots` slots that does not grow.
    pub fn fixed(name: impl Into<Arc<str>>, policy: Policy, slots: usize) -> Self {
        Self { name: name.into(), policy, slots, max_slots: slots }
    }
}

/// What a ring counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Fillings published.
    pub published: u64,
    /// Leases given out.
    pub taken: u64,
    /// Fillings dropped unread, for a newer one or at the end.
    pub dropped: u64,
}

type Make<T> = Box<dyn FnMut(usize) -> Result<T> + Send>;

struct Shared<T, F, M> {
    name: Arc<str>,
    state: Mutex<State<T, F, M>>,
    /// A slot became free, or the ring closed.
    space: Condvar,
    /// A slot became ready, or the ring ended.
    items: Condvar,
    make: Mutex<Make<T>>,
}

struct State<T, F, M> {
    core: Core<F, M>,
    /// `None` only while the payload of a slot just added is being made.
    payloads: Vec<Option<Arc<T>>>,
    /// Writers and slots being written. At 0 the ring is finished.
    writers: usize,
    /// At 0 the ring is cancelled: a lease that lives on cannot take another.
    readers: usize,
    /// Asleep on `space`.
    waiting_writers: usize,
    /// Asleep on `items`.
    waiting_readers: usize,
}

/// The two sides of one ring.
pub type Sides<T, F, M> = (Writer<T, F, M>, Reader<T, F, M>);

/// Make a ring; `make(index)` makes each slot's payload.
///
/// # Errors
/// [`ErrorKind::Argument`] if the options ask for no slots or for fewer at most than at first; or the first
/// error of `make`.
pub fn ring<T, F: Fence, M>(
    options: Options,
    mut make: impl FnMut(usize) -> Result<T> + Send + 'static,
) -> Result<Sides<T, F, M>> {
    if options.slots == 0 || options.max_slots < options.slots {
        return Err(Error::new(
            ErrorKind::Argument,
            format!(
                "ring {:?} needs at least 1 slot and no lower maximum than that, not {} to {}",
                options.name, options.slots, options.max_slots
            ),
        ));
    }
    let payloads =
        (0..options.slots).map(|i| make(i).map(|p| Some(Arc::new(p)))).collect::<Result<Vec<_>>>()?;
    let core = Core::new(options.policy, options.slots, options.max_slots);
    let shared = Arc::new(Shared {
        name: options.name,
        state: Mutex::new(State {
            core,
            payloads,
            writers: 1,
            readers: 1,
            waiting_writers: 0,
            waiting_readers: 0,
        }),
        space: Condvar::new(),
        items: Condvar::new(),
        make: Mutex::new(Box::new(make)),
    });
    Ok((Writer::new(shared.clone()), Reader::new(shared)))
}

impl<T, F: Fence, M> Shared<T, F, M> {
    fn lock(&self) -> MutexGuard<'_, State<T, F, M>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Unlock, then wake those of the named who sleep.
    fn unlock_and_wake(&self, state: MutexGuard<'_, State<T, F, M>>, readers: Wake, writers: Wake) {
        let asleep = [state.waiting_readers, state.waiting_writers];
        drop(state);
        for ((wake, asleep), condvar) in
            [readers, writers].into_iter().zip(asleep).zip([&self.items, &self.space])
        {
            match wake {
                Wake::One if asleep > 0 => condvar.notify_one(),
                Wake::All if asleep > 0 => condvar.notify_all(),
                _ => {}
            }
        }
    }
}

enum Wake {
    Nobody,
    One,
    All,
}

/// `None`: wait for ever. Otherwise until this instant.
type Deadline = Option<Instant>;

/// Wait for `condvar`, at most until `deadline`. `false`: it has passed.
fn wait_until<'a, S>(
    condvar: &Condvar,
    guard: MutexGuard<'a, S>,
    deadline: Deadline,
) -> (MutexGuard<'a, S>, bool) {
    match deadline {
        None => (condvar.wait(guard).unwrap_or_else(|e| e.into_inner()), true),
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (guard, false);
            }
            (condvar.wait_timeout(guard, left).unwrap_or_else(|e| e.into_inner()).0, true)
        }
    }
}
