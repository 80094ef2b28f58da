//! A Python iterable as a source of batches.
//!
//! A thread of its own asks the iterable, one batch ahead: it needs the interpreter for that, and the feed's thread, which
//! copies the batch before into its slot meanwhile, does not. So whoever holds the interpreter does not hold up the copying.
//!
//! ```text
//!  [fetch: next(), transform, take apart] ─▶ one batch ─▶ [feed's thread: arrays → pinned slot → device]
//! ```

use crate::dlpack::Foreign;
use crate::nest::{self, Nest};
use crate::panes::lock;
use framelane::feed::{Interrupter, Position, SlotWriter, Source};
use framelane::tensor::{HostArray, Tree};
use framelane::{Error, ErrorKind, Result};
use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What the iterable's side and the consumer share besides batches.
#[derive(Default)]
pub struct Shared {
    /// What the iterable raised, with its traceback.
    pub raised: Mutex<Option<PyErr>>,
    /// Of the batches on their way, in their order.
    pub nests: Mutex<VecDeque<Nest>>,
    /// Whether the iterable's thread runs.
    fetching: Mutex<bool>,
    fetched: Condvar,
}

impl Shared {
    /// Wait until the iterable's thread has ended, which it does once nobody hears it.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the iterable does not return for so long.
    pub fn wait_for_fetching(&self, limit: Duration) -> Result<()> {
        let fetching = lock(&self.fetching);
        let waited = self.fetched.wait_timeout_while(fetching, limit, |fetching| *fetching);
        if !*waited.unwrap_or_else(PoisonError::into_inner).0 {
            return Ok(());
        }
        let text =
            format!("the iterable of a feed has not returned for {limit:.1?}: its thread ends when it does");
        Err(Error::new(ErrorKind::Timeout, text))
    }
}

/// Says that the iterable's thread has ended, however it did.
struct Fetching(Arc<Shared>);

impl Drop for Fetching {
    fn drop(&mut self) {
        *lock(&self.0.fetching) = false;
        self.0.fetched.notify_all();
    }
}

/// A batch, taken apart.
type Item = (Nest, Vec<Foreign>);

/// What the fetching thread is asked.
#[derive(Clone, Copy)]
enum Ask {
    /// Begin, and give away this many batches unseen.
    Begin(u64),
    /// Begin again, if the iterable can.
    Again,
}

/// What it says.
enum Said {
    Item(Item),
    /// The end of the iterable; or that it was begun again, or cannot be.
    End,
    Begun(bool),
    Failed(Error),
    /// Somebody else: the feed stops.
    Stop,
}

/// The feed's side.
pub struct Items {
    asks: Sender<Ask>,
    said: Receiver<Said>,
    stop: SyncSender<Said>,
    /// Whether the iterable was begun.
    begun: bool,
    shared: Arc<Shared>,
    parts: Option<Fetch>,
}

/// The thread's side.
struct Fetch {
    iterable: Py<PyAny>,
    iterator: Option<Py<PyAny>>,
    transform: Option<Py<PyAny>>,
    shared: Arc<Shared>,
    asked: Receiver<Ask>,
    say: SyncSender<Said>,
}

impl Items {
    pub fn new(iterable: Py<PyAny>, transform: Option<Py<PyAny>>, shared: Arc<Shared>) -> Self {
        let ((asks, asked), (say, said)) = (channel(), sync_channel(1));
        let stop = say.clone();
        let parts = Fetch { iterable, iterator: None, transform, shared: shared.clone(), asked, say };
        Self { asks, said, stop, begun: false, shared, parts: Some(parts) }
    }

    /// Start the thread, with the first thing that it is asked.
    fn ask(&mut self, ask: Ask) -> Result<()> {
        if let Some(fetch) = self.parts.take() {
            *lock(&self.shared.fetching) = true;
            let fetching = Fetching(self.shared.clone());
            // Not joined: it is waited for, at most for so long (`Shared::wait_for_fetching`).
            let thread = std::thread::Builder::new().name("feed python: fetch".into()).spawn(move || {
                fetch.run();
                drop(fetching);
            });
            thread.map_err(|e| Error::io("the system gives no thread for an iterable", e))?;
        }
        self.asks.send(ask).map_err(|_| gone())
    }

    fn hear(&self) -> Result<Said> {
        self.said.recv().map_err(|_| gone())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the interpreter ends")
}

impl Source for Items {
    fn name(&self) -> &str {
        "python"
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if !std::mem::replace(&mut self.begun, true) {
            self.ask(Ask::Begin(0))?;
        }
        let (nest, arrays) = match self.hear()? {
            Said::Item(item) => item,
            Said::End | Said::Begun(_) => return Ok(false),
            Said::Failed(error) => return Err(error),
            Said::Stop => return Err(Error::new(ErrorKind::Cancelled, "the feed is stopped")),
        };
        let leaves = arrays.iter().map(|array| {
            let bytes = array.bytes().unwrap_or_default();
            HostArray::new(array.spec.clone(), bytes).map(Tree::Leaf)
        });
        slot.put(&Tree::List(leaves.collect::<Result<_>>()?))?;
        // Their owners go when somebody next has the interpreter.
        drop(arrays);
        lock(&self.shared.nests).push_back(nest);
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        if !self.begun {
            return Ok(true);
        }
        self.ask(Ask::Again)?;
        loop {
            match self.hear()? {
                Said::Begun(again) => return Ok(again),
                Said::Failed(error) => return Err(error),
                Said::Stop => return Err(Error::new(ErrorKind::Cancelled, "the feed is stopped")),
                // Of the epoch before, which nobody read to its end.
                Said::Item(_) | Said::End => {}
            }
        }
    }

    /// What was taken before is asked for again, and not looked at. Of which epoch it is, the iterable's owner knows.
    fn seek(&mut self, at: Position) -> Result<bool> {
        self.begun = true;
        self.ask(Ask::Begin(at.batch))?;
        Ok(true)
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let stop = self.stop.clone();
        Some(Arc::new(move || {
            // One that is full wakes the feed's thread as well.
            let _ = stop.try_send(Said::Stop);
        }))
    }
}

impl Fetch {
    fn run(mut self) {
        let mut ask = self.asked.recv().ok();
        while let Some(asked) = ask.take() {
            let begun = match asked {
                Ask::Begin(skip) => self.begin().and_then(|()| self.skip(skip)).map(|()| true),
                Ask::Again => self.again(),
            };
            let (goes_on, said) = match begun {
                Ok(again) => (again, matches!(asked, Ask::Again).then_some(Said::Begun(again))),
                Err(error) => (false, Some(Said::Failed(error))),
            };
            if said.is_some_and(|said| self.say.send(said).is_err()) {
                return;
            }
            ask = if goes_on { self.epoch() } else { None };
            ask = ask.or_else(|| self.asked.recv().ok());
        }
    }

    /// Until the end of the iterable, or what is asked before: then that. Nobody may hear any more; nobody asks then, either.
    fn epoch(&mut self) -> Option<Ask> {
        loop {
            let said = match self.with(Self::fetch) {
                Ok(Some(item)) => Said::Item(item),
                Ok(None) => Said::End,
                Err(error) => Said::Failed(error),
            };
            let is_last = !matches!(said, Said::Item(_));
            if self.say.send(said).is_err() || is_last {
                return None;
            }
            if let Ok(ask) = self.asked.try_recv() {
                return Some(ask);
            }
        }
    }

    /// With the interpreter. What is raised is kept for the consumer; the sentence is for reports.
    fn with<R>(&mut self, of: impl FnOnce(&mut Self, Python<'_>) -> PyResult<R>) -> Result<R> {
        let done = Python::try_attach(|py| {
            of(self, py).map_err(|raised| {
                let text = format!("the iterable of a feed raised {}", raised.value(py));
                lock(&self.shared.raised).get_or_insert(raised);
                Error::new(ErrorKind::Input, text)
            })
        });
        done.ok_or_else(gone)?
    }

    fn begin(&mut self) -> Result<()> {
        self.with(|this, py| {
            this.iterator = Some(this.iterable.bind(py).try_iter()?.into_any().unbind());
            Ok(())
        })
    }

    /// `false`: it is its own iterator, which was used up.
    fn again(&mut self) -> Result<bool> {
        self.with(|this, py| {
            let iterable = this.iterable.bind(py);
            let iterator = iterable.try_iter()?;
            let again = !iterator.is(iterable);
            if again {
                this.iterator = Some(iterator.into_any().unbind());
            }
            Ok(again)
        })
    }

    fn skip(&mut self, batches: u64) -> Result<()> {
        for batch in 0..batches {
            if self.with(Self::next)?.is_none() {
                let text =
                    format!("this iterable ended at batch {batch}, before batch {batches} to go on at");
                return Err(Error::new(ErrorKind::Argument, text));
            }
        }
        Ok(())
    }

    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(iterator) = &self.iterator else { return Ok(None) };
        match iterator.bind(py).call_method0(intern!(py, "__next__")) {
            Ok(item) => Ok(Some(item.unbind())),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn fetch(&mut self, py: Python<'_>) -> PyResult<Option<Item>> {
        let Some(item) = self.next(py)? else { return Ok(None) };
        let item = match &self.transform {
            Some(transform) => transform.bind(py).call1((item,))?,
            None => item.into_bound(py),
        };
        let mut arrays = Vec::new();
        let nest = nest::apart(&item, &mut arrays)?;
        Ok(Some((nest, arrays)))
    }
}
