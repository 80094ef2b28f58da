//! The host device's streams: a queue and the one thread that runs it.

use super::stream::{Op, on_device};
use crate::error::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

pub(super) struct Queue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    ops: VecDeque<Op>,
    /// An operation is running.
    busy: bool,
    closed: bool,
}

impl Queue {
    pub fn start(name: &str) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread =
            std::thread::Builder::new().name(format!("stream {name}")).spawn(move || theirs.run()).map_err(
                |e| Error::new(ErrorKind::Device, format!("no thread for stream {name:?}: {e}")).because(e),
            )?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub fn push<const N: usize>(&self, ops: [Op; N]) {
        let mut state = self.shared.state.lock().unwrap_or_else(|e| e.into_inner());
        let was_empty = state.ops.is_empty();
        state.ops.extend(ops);
        drop(state);
        if was_empty {
            self.shared.wake.notify_one();
        }
    }

    /// The work enqueued so far is finished, then the thread ends. Joined here, unless the calling thread
    /// is a stream's (its work held the last handle): what this queue waits for may come later on that very
    /// stream, so there the thread is left to end by itself. Whether there was work to wait for.
    pub fn finish(&mut self) -> bool {
        let mut state = self.shared.state.lock().unwrap_or_else(|e| e.into_inner());
        state.closed = true;
        let working = state.busy || !state.ops.is_empty();
        drop(state);
        self.shared.wake.notify_one();
        match self.thread.take() {
            Some(thread) if !on_device() => {
                // The thread catches the panics of the work it runs, so joining cannot fail.
                let _ = thread.join();
                working
            }
            _ => false,
        }
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            state.busy = false;
            let op = loop {
                match state.ops.pop_front() {
                    Some(op) => break op,
                    None if state.closed => return,
                    None => state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner()),
                }
            };
            state.busy = true;
            drop(state);
            op.run();
        }
    }
}
