//! The host device's streams: a queue and the one thread that runs it.

use super::stream::Op;
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
}

impl Shared {
    fn run(&self) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            let op = loop {
                match state.ops.pop_front() {
                    Some(op) => break op,
                    None if state.closed => return,
                    None => state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner()),
                }
            };
            drop(state);
            op.run();
        }
    }
}

impl Drop for Queue {
    /// The work enqueued so far is finished, then the thread ends. Joined here, unless this is that thread
    /// (its own work held the last handle): then it ends by itself.
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(|e| e.into_inner()).closed = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // The thread catches the panics of the work it runs, so joining cannot fail.
            let _ = thread.join();
        }
    }
}
