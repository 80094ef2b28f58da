//! The CUDA driver as framelane needs it: devices, streams, events, memory, copies, kernels, graphs.
//!
//! # Rules this crate keeps
//! - **Loaded at run time.** Nothing of CUDA is needed to build or to start. Without a driver (or with one
//!   that is too old, or no GPU) each call says so in one sentence ([`CudaError`]); nothing panics.
//! - **Any thread may make any call.** Each call makes its context current on the calling thread and puts
//!   back what was current before, so that a program's own contexts (PyTorch on another GPU) are untouched.
//! - **The primary context is shared** with PyTorch, JAX, CuPy and the CUDA runtime in this process.
//! - **Freeing is safe while work is pending.** Memory remembers the streams that use it and goes back when
//!   they are past it; no call waits for that.
//! - **A point in time is one event.** [`Stream::record`] gives a fresh one each time.
//! - Never the legacy default stream (foreign handles of it are honoured), never managed memory, never
//!   global capture mode.
//!
//! # What this crate does not know
//! Frames, tensors, rings and lanes: those are `framelane`'s. No sibling crate is imported.
//!
//! # What has nothing to do with CUDA
//! Memory that two processes map ([`Mapped`]) and who is at a socket's other end ([`peer_user`]): here, since they need
//! `unsafe`, and a device writes into that memory, too ([`DeviceBuffer::over_mapped`]).
//!
//! # Unsafe code
//! Safe calls cannot touch host memory wrongly: copies are checked against bounds, and the CPU's view of
//! pinned memory is refused while a copy is pending ([`PinnedBuffer::read`]). What this crate cannot check is
//! `unsafe` where the choice is made: foreign handles and pointers, and launches of foreign kernels.

pub mod activity;
mod api;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod context;
mod copy;
mod device;
mod driver;
mod error;
mod event;
mod external;
mod flag;
mod graph;
mod graphics;
pub mod kernels;
mod launch;
#[cfg(unix)]
mod mapped;
mod memory;
mod module;
#[cfg(unix)]
mod peer;
mod reclaim;
mod stream;

pub use context::{Context, MemoryInfo};
pub use copy::Place;
pub use cudarc::driver::sys;
pub use device::{DeviceInfo, device_count, device_is_active, device_of, devices};
pub use driver::{DriverVersion, driver_version};
pub use error::{CudaError, Kind, Result};
pub use event::{Event, EventOptions};
pub use external::{Exported, Timeline};
pub use flag::Flag;
pub use graph::{Graph, GraphExec};
pub use graphics::{GlImage, GlMemory};
pub use launch::{Arg, Grid};
#[cfg(unix)]
pub use mapped::Mapped;
pub use memory::{DeviceBuffer, PinnedBuffer, PinnedKind, PinnedRead, PinnedWrite};
pub use module::{Function, Module};
#[cfg(unix)]
pub use peer::peer_user;
pub use stream::Stream;
