//! The feed: batches reach the device while the network runs on the last one.
//!
//! A [`Feeder`] owns a thread, a stream and two sets of slots. The thread lets a [`Source`] write the next
//! batch straight into a page-locked slot, then enqueues one copy of the whole batch into a device slot that
//! nobody uses, on a stream of its own. The consumer gets a [`Batch`]: a lease on that slot. It reads the
//! tensors on any stream it names ([`Batch::on`]), which waits for the copy on the device, not on the CPU.
//! When the batch is dropped, one event per reading stream is left with the slot, and the next copy into
//! it waits for them all.
//!
//! ```text
//!  source ──▶ pinned slot ──(copy on the feed's stream)──▶ device slot ──▶ Batch ──▶ your streams
//!                 ▲  waits, on the CPU, for its own copy        ▲  waits, on the device, for its readers
//! ```
//!
//! # Who waits
//! Only the feed's thread ever waits on the CPU for the device: for the copy out of the pinned slot that it
//! is about to refill. It blocks while all device slots are leased or unread (`Fifo`), and while the source
//! has nothing. The consumer blocks in [`Feeder::next_batch`] until a batch was *enqueued*, not copied.
//!
//! # Stopping
//! End, error, cancel and drop lead to the same stop: batches before the end or error arrive, an error is
//! told once, every thread is joined. A source that blocks for ever and cannot be interrupted is named by
//! [`Feeder::cancel`].

mod control;
mod converting;
mod feeder;
mod fill;
mod loader;
mod pump;
mod report;
mod source;
mod to_floats;

pub use crate::batch::{ALIGNMENT, Batch, Contents};
pub use feeder::{Feeder, Options};
pub use pump::{Pump, Pumped};
pub(crate) use report::Meter;
pub use report::{BatchReport, FeedReport, Limit};
pub use source::{Arena, Interrupter, Position, SlotWriter, Source};
pub use to_floats::{Layout, ToFloats};
