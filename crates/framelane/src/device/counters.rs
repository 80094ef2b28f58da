//! What a device counts: copies, memory, streams, CPU waits.

use super::Memory;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A snapshot of what a device counted. Bytes unless said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Copied from pinned to device memory.
    pub to_device: u64,
    /// Copied from device to pinned memory.
    pub from_device: u64,
    /// Copied within one kind of memory.
    pub within: u64,
    /// Copies enqueued.
    pub copies: u64,
    /// Kernels enqueued.
    pub kernels: u64,
    /// Pinned memory held now.
    pub pinned_bytes: u64,
    /// Device memory held now.
    pub device_bytes: u64,
    /// Allocations ever made.
    pub allocations: u64,
    /// Streams alive now.
    pub streams: u64,
    /// Streams ever made.
    pub streams_made: u64,
    /// Waits of a CPU thread for the device, by the reason given: how many, and how long in all.
    pub cpu_waits: BTreeMap<&'static str, (u64, Duration)>,
}

thread_local! {
    static WAITS: Cell<(u64, Duration)> = const { Cell::new((0, Duration::ZERO)) };
}

/// Waits of the calling thread for any device so far: how many, and how long in all.
pub(crate) fn waits_of_this_thread() -> (u64, Duration) {
    WAITS.get()
}

#[derive(Default)]
pub(crate) struct Tally {
    pub to_device: AtomicU64,
    pub from_device: AtomicU64,
    pub within: AtomicU64,
    pub copies: AtomicU64,
    pub kernels: AtomicU64,
    pinned: AtomicU64,
    device: AtomicU64,
    allocations: AtomicU64,
    streams: AtomicU64,
    streams_made: AtomicU64,
    cpu_waits: Mutex<BTreeMap<&'static str, (u64, Duration)>>,
}

impl Tally {
    pub fn copied(&self, from: Memory, to: Memory, bytes: usize) {
        let counter = match (from, to) {
            (Memory::Pinned, Memory::Device) => &self.to_device,
            (Memory::Device, Memory::Pinned) => &self.from_device,
            _ => &self.within,
        };
        counter.fetch_add(bytes as u64, Relaxed);
        self.copies.fetch_add(1, Relaxed);
    }

    pub fn allocated(&self, memory: Memory, bytes: usize) {
        self.of(memory).fetch_add(bytes as u64, Relaxed);
        self.allocations.fetch_add(1, Relaxed);
    }

    pub fn freed(&self, memory: Memory, bytes: usize) {
        self.of(memory).fetch_sub(bytes as u64, Relaxed);
    }

    fn of(&self, memory: Memory) -> &AtomicU64 {
        match memory {
            Memory::Pinned => &self.pinned,
            Memory::Device => &self.device,
        }
    }

    pub fn stream_made(&self) {
        self.streams.fetch_add(1, Relaxed);
        self.streams_made.fetch_add(1, Relaxed);
    }

    pub fn stream_gone(&self) {
        self.streams.fetch_sub(1, Relaxed);
    }

    pub fn cpu_waited(&self, why: &'static str, time: Duration) {
        let (count, sum) = WAITS.get();
        WAITS.set((count + 1, sum + time));
        let mut waits = self.cpu_waits.lock().unwrap_or_else(|e| e.into_inner());
        let entry = waits.entry(why).or_default();
        entry.0 += 1;
        entry.1 += time;
    }

    pub fn snapshot(&self) -> Counters {
        Counters {
            to_device: self.to_device.load(Relaxed),
            from_device: self.from_device.load(Relaxed),
            within: self.within.load(Relaxed),
            copies: self.copies.load(Relaxed),
            kernels: self.kernels.load(Relaxed),
            pinned_bytes: self.pinned.load(Relaxed),
            device_bytes: self.device.load(Relaxed),
            allocations: self.allocations.load(Relaxed),
            streams: self.streams.load(Relaxed),
            streams_made: self.streams_made.load(Relaxed),
            cpu_waits: self.cpu_waits.lock().unwrap_or_else(|e| e.into_inner()).clone(),
        }
    }
}
