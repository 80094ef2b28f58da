//! The simulated device: all streams on the calling threads, interleaved by a seeded scheduler.

use super::stream::{Op, on_device};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

/// Fresh memory, and memory about to be written, is filled with this byte.
pub(super) const POISON: u8 = 0xA5;

pub(super) type QueueId = usize;

pub(crate) struct Scheduler {
    state: Mutex<State>,
    /// An operation has run.
    ran: Condvar,
}

struct State {
    rng: u64,
    queues: Vec<Queue>,
}

#[derive(Default)]
struct Queue {
    ops: VecDeque<Op>,
    /// Another thread is running an operation of this queue: the next must wait for its turn.
    running: bool,
}

impl Scheduler {
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new(State { rng: seed, queues: Vec::new() }), ran: Condvar::new() }
    }

    pub(super) fn add_queue(&self) -> QueueId {
        let mut state = self.lock();
        state.queues.push(Queue::default());
        state.queues.len() - 1
    }

    pub(super) fn push<const N: usize>(&self, queue: QueueId, ops: [Op; N]) {
        self.lock().queues[queue].ops.extend(ops);
    }

    /// Run one operation of a randomly chosen stream, or wait while another thread runs one and none else
    /// can. `false`: none can run, nor will.
    pub fn step_or_wait(&self) -> bool {
        let mut state = self.lock();
        loop {
            if let Some((queue, op)) = state.pick() {
                drop(state);
                self.run(queue, op);
                return true;
            }
            // Work that calls the device would wait for itself.
            if on_device() || !state.queues.iter().any(|q| q.running) {
                return false;
            }
            state = self.ran.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Run none to three operations. None if this is called by one: it may hold memory that others need.
    pub fn jitter(&self) {
        if on_device() {
            return;
        }
        let steps = self.lock().next() % 4;
        for _ in 0..steps {
            let Some((queue, op)) = self.lock().pick() else { return };
            self.run(queue, op);
        }
    }

    fn run(&self, queue: QueueId, op: Op) {
        op.run();
        self.lock().queues[queue].running = false;
        self.ran.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Queue {
    fn can_run(&self) -> bool {
        !self.running && self.ops.front().is_some_and(Op::can_run)
    }
}

impl State {
    /// The next operation of a randomly chosen stream, which is marked as running.
    fn pick(&mut self) -> Option<(QueueId, Op)> {
        let ready: Vec<QueueId> = (0..self.queues.len()).filter(|&q| self.queues[q].can_run()).collect();
        if ready.is_empty() {
            return None;
        }
        let queue = ready[(self.next() % ready.len() as u64) as usize];
        let op = self.queues[queue].ops.pop_front()?;
        self.queues[queue].running = true;
        Some((queue, op))
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn next(&mut self) -> u64 {
        self.rng = self.rng.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.rng;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
