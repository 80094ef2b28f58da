//! Converters: several threads that fill slots, one order.

use super::control::{Activity, Control};
use super::feeder::{Producer, cannot_resume};
use super::loader::{Loaded, Loader, PinnedSlot};
use super::source::{Position, SlotWriter};
use crate::error::{Error, Result};
use crate::stats::Stage;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Instant;

pub(super) struct Converting<It, C> {
    items: It,
    threads: usize,
    convert: C,
}

impl<It, C> Converting<It, C> {
    pub fn new(items: It, threads: usize, convert: C) -> Self {
        Self { items, threads, convert }
    }
}

impl<I, It, C> Producer for Converting<It, C>
where
    I: Send,
    It: Iterator<Item = Result<I>> + Send,
    C: Fn(I, &mut SlotWriter<'_>) -> Result<()> + Send + Sync,
{
    fn seek(&mut self, at: Position, _: &Loader, control: &Control) -> Result<()> {
        if at.epoch > 0 {
            return Err(cannot_resume("an iterator", at, "it has only one epoch"));
        }
        control.doing(Activity::Source);
        for batch in 0..at.batch {
            if control.stopping() {
                return Ok(());
            }
            match self.items.next() {
                Some(item) => drop(item?),
                None => return Err(cannot_resume("an iterator", at, &format!("it has only {batch} items"))),
            }
        }
        Ok(())
    }

    fn epoch(&mut self, loader: &Loader, control: &Control) -> Result<()> {
        let Self { items, threads, convert } = self;
        let order = Order::default();
        let (send, receive) = mpsc::sync_channel::<(u64, I, PinnedSlot)>(*threads);
        let receive = Mutex::new(receive);
        std::thread::scope(|scope| {
            for _ in 0..*threads {
                scope.spawn(|| {
                    loop {
                        let next = receive.lock().unwrap_or_else(|e| e.into_inner()).recv();
                        let Ok((number, item, slot)) = next else { return };
                        // Nobody will see it: the one before it failed, or the feed is to stop.
                        if control.stopping() || order.failed() {
                            continue;
                        }
                        let filled = loader.fill(slot, Stage::Convert, "the converter", |slot| {
                            convert(item, slot).map(|()| true)
                        });
                        // `None` only stands for "no more", which a converter does not say.
                        if let Some(result) = filled.transpose() {
                            order.submit(loader, number, result);
                        }
                    }
                });
            }
            let mut number = 0;
            loop {
                control.doing(Activity::Slot);
                // A slot first: this is what holds the puller back, and so bounds what is in flight.
                let Ok(slot) = loader.pinned_slot() else { break };
                control.doing(Activity::Converters);
                if control.stopping() || order.failed() {
                    break;
                }
                control.doing(Activity::Source);
                let start = Instant::now();
                let item = catch_unwind(AssertUnwindSafe(|| items.next()))
                    .unwrap_or_else(|p| Some(Err(Error::from_panic("the source's iterator", p.as_ref()))));
                loader.meter.busy(Stage::Source, start.elapsed());
                // From here on the converters may hold it up, not the source.
                control.doing(Activity::Converters);
                match item {
                    None => break,
                    Some(Err(error)) => {
                        drop(slot);
                        order.submit(loader, number, Err(error));
                        break;
                    }
                    // A channel that nobody receives from: the converters have panicked, and the scope will too.
                    Some(Ok(item)) => match send.send((number, item, slot)) {
                        Ok(()) => number += 1,
                        Err(_) => break,
                    },
                }
            }
            control.doing(Activity::Converters);
            drop(send);
        });
        order.result()
    }

    fn rewind(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// Puts what the converters finish back in order. After the first error, in that order, nothing follows.
#[derive(Default)]
struct Order {
    state: Mutex<OrderState>,
    /// Beside the lock, which is held while a submission waits for the consumer.
    failed: AtomicBool,
}

#[derive(Default)]
struct OrderState {
    next: u64,
    early: BTreeMap<u64, Result<Loaded>>,
    error: Option<Error>,
}

impl Order {
    /// Copies whatever is now next in order. Blocks while the device's slots are all in use.
    fn submit(&self, loader: &Loader, number: u64, result: Result<Loaded>) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.early.insert(number, result);
        while state.error.is_none() {
            let next = state.next;
            let Some(result) = state.early.remove(&next) else { return };
            state.next += 1;
            state.error = result.and_then(|loaded| loader.submit(loaded)).err();
        }
        self.failed.store(true, Ordering::Relaxed);
        // Slots of batches that will not be shown go back at once: the puller may be waiting for one.
        state.early.clear();
    }

    fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn result(&self) -> Result<()> {
        self.state.lock().unwrap_or_else(|e| e.into_inner()).error.take().map_or(Ok(()), Err)
    }
}
