//! Tests on a GPU. Without one each is skipped; `driver` also tests what is said then.
//!
//! Work is held back by a kernel that spins, never by a sleep on the CPU.
#![allow(missing_docs)]

mod activity;
#[path = "../common/mod.rs"]
mod common;
mod driver;
mod external;
mod graph;
mod kernels;
mod lost;
mod memory;
mod picture;
#[cfg(target_os = "linux")]
mod registered;
mod streams;

use framelane_cuda::{Context, DeviceBuffer, PinnedBuffer, PinnedKind, Stream};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The first GPU, for one test at a time: what one test spins would hold up another's timing.
struct Gpu {
    context: Context,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Gpu {
    type Target = Context;
    fn deref(&self) -> &Context {
        &self.context
    }
}

/// The first GPU; without one the test is skipped.
fn gpu() -> Option<Gpu> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    match Context::open(0) {
        Ok(context) => {
            context.load_kernels().unwrap();
            Some(Gpu { context, _alone: alone })
        }
        Err(error) => {
            common::skip(format_args!("no CUDA device: {error}"));
            None
        }
    }
}

fn stream(context: &Context) -> Stream {
    Stream::new(context, 0).unwrap()
}

const LONG: Duration = Duration::from_millis(300);

/// Pinned memory with these bytes.
fn pinned(context: &Context, bytes: &[u8]) -> PinnedBuffer {
    let buffer = PinnedBuffer::new(context, bytes.len(), PinnedKind::Cached).unwrap();
    buffer.write().unwrap().copy_from_slice(bytes);
    buffer
}

fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    framelane_cuda::kernels::twin::pattern(&mut data, seed);
    data
}

fn upload(stream: &Stream, bytes: &[u8]) -> DeviceBuffer {
    let device = DeviceBuffer::new(stream.context(), bytes.len()).unwrap();
    stream.copy(&pinned(stream.context(), bytes), 0..bytes.len(), &device, 0).unwrap();
    device
}

/// The bytes of a buffer, after all work on `stream`.
fn download(stream: &Stream, buffer: &DeviceBuffer) -> Vec<u8> {
    let host = PinnedBuffer::new(stream.context(), buffer.len(), PinnedKind::Cached).unwrap();
    stream.copy(buffer, 0..buffer.len(), &host, 0).unwrap();
    stream.synchronize().unwrap();
    host.read().unwrap().to_vec()
}
