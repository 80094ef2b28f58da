//! The simulated device: all streams on the calling threads, interleaved by a seeded scheduler.

use super::stream::Op;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Fresh memory, and memory about to be written, is filled with this byte.
pub(super) const POISON: u8 = 0xA5;

pub(super) type QueueId = usize;

pub(crate) struct Scheduler {
    state: Mutex<State>,
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
        Self { state: Mutex::new(State { rng: seed, queues: Vec::new() }) }
    }

    pub(super) fn add_queue(&self) -> QueueId {
        let mut state = self.lock();
        state.queues.push(Queue::default());
        state.queues.len() - 1
    }

    pub(super) fn push<const N: usize>(&self, queue: QueueId, ops: [Op; N]) {
        self.lock().queues[queue].ops.extend(ops);
    }

    /// Run one operation of a randomly chosen stream. `false`: none can run now.
    pub fn step(&self) -> bool {
        let (queue, op) = {
            let mut state = self.lock();
            let ready: Vec<QueueId> =
                (0..state.queues.len()).filter(|&q| state.queues[q].can_run()).collect();
            if ready.is_empty() {
                return false;
            }
            let queue = ready[(state.next() % ready.len() as u64) as usize];
            let Some(op) = state.queues[queue].ops.pop_front() else { return false };
            state.queues[queue].running = true;
            (queue, op)
        };
        op.run();
        self.lock().queues[queue].running = false;
        true
    }

    /// Run none to three operations.
    pub fn jitter(&self) {
        let steps = self.lock().next() % 4;
        for _ in 0..steps {
            self.step();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Queue {
    fn can_run(&self) -> bool {
        !self.running
            && match self.ops.front() {
                None => false,
                Some(Op::Wait(event)) => event.done_at().is_some(),
                Some(_) => true,
            }
    }
}

impl State {
    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn next(&mut self) -> u64 {
        self.rng = self.rng.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.rng;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
