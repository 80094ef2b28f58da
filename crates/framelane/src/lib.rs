//! Frames and batches that stay on the device from the moment they are fed until the moment they are seen.

#![forbid(unsafe_code)]

mod batch;
pub mod device;
mod error;
pub mod feed;
pub mod frame;
pub mod lanes;
mod let_go;
pub mod ring;
mod slots;
pub mod stats;
mod sync;
pub mod tensor;

pub use batch::{ALIGNMENT, Batch, Contents, TensorView, View};
pub use error::{Error, ErrorKind, Result};
pub use framelane_cuda;
