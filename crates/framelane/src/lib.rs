//! Frames and batches that stay on the device from the moment they are fed until the moment they are seen.
//!
//! A [`feed::Source`] writes batches into page-locked memory on a thread of the [`feed::Feeder`], which copies each
//! into a device slot that nobody uses while your streams work on the last one. You hold a [`Batch`] for as long as
//! you need it; the slot is written again only when the streams that read it are done. [`lanes::Lanes`] run a network
//! over batches, several at once, with one copy of its weights.
//!
//! ```
//! use framelane::device::Device;
//! use framelane::feed::{Feeder, Options, SlotWriter, Source};
//! use framelane::tensor::{DType, TensorSpec};
//!
//! /// Three batches of pictures.
//! struct Pictures(u8);
//!
//! impl Source for Pictures {
//!     fn name(&self) -> &str {
//!         "pictures"
//!     }
//!     fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> framelane::Result<bool> {
//!         if self.0 == 3 {
//!             return Ok(false);
//!         }
//!         self.0 += 1;
//!         slot.tensor("image", &TensorSpec::new(DType::U8, [8, 32, 32, 3]))?.fill(self.0);
//!         Ok(true)
//!     }
//! }
//!
//! # fn main() -> framelane::Result<()> {
//! let device = Device::host(); // or Device::cuda(0)?
//! let compute = device.stream("compute")?;
//! let feeder = Feeder::new(&device, Pictures(0), Options::new("train"))?;
//! for batch in &feeder {
//!     let batch = batch?;
//!     let image = batch.on(&compute)?.tensor("image")?; // `compute` waits for the copy; this thread does not.
//!     compute.launch("step", &[image.access()], |kernel| {
//!         assert_eq!(kernel.inputs[0].len(), 8 * 32 * 32 * 3);
//!         Ok(())
//!     })?;
//! }
//! println!("{}", feeder.report()); // Where the time went, and who waited for whom.
//! compute.synchronize("the end")
//! # }
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`device`] | streams, events and memory: of a GPU ([`device::Device::cuda`]), of the CPU, or simulated for tests |
//! | [`tensor`], [`frame`] | what data looks like: element types, shapes, nesting; pictures, their identity and colours |
//! | [`feed`] | from a source into device memory, in the background; the report of where the time went |
//! | [`lanes`] | a network over batches, many jobs in flight; [`lanes::Model`] is what you implement |
//! | [`ring`] | the slots beneath both: who may write, who may read, when memory is used again |
//! | [`share`] | frames of worker processes in another process's window |
//! | [`stats`] | times and outcomes of a pipeline of several stages |
//!
//! Everything that can fail returns an [`Error`]: a kind to match on, and a sentence to show.

#![forbid(unsafe_code)]

mod batch;
pub mod device;
mod error;
pub mod feed;
pub mod frame;
pub mod lanes;
mod let_go;
pub mod ring;
#[cfg(unix)]
pub mod share;
mod slots;
pub mod stats;
mod sync;
pub mod tensor;

pub use batch::{ALIGNMENT, Batch, Contents, TensorView, View};
pub use error::{Error, ErrorKind, Result};
pub use framelane_cuda;
