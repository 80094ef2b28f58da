//! A Python iterable as a source of batches.
//!
//! A thread of its own asks the iterable: it needs the interpreter for that, and the feed's thread does not. The next batch is
//! asked for as soon as the one before is copied, and not sooner: an iterable may give the same array again and again, with
//! other numbers in it. So the wait for the interpreter lies beside the feed's other work, and an iterable that does not
//! return does not keep the feed from stopping.
//!
//! ```text
//!  [fetch: next(), transform, take apart] ─▶ one batch ─▶ [feed's thread: arrays → pinned slot] ─▶ device
//!                     ▲                                                    │
//!                     └──────────────── the next one, once it is copied ◀──┘
//! ```

use crate::dlpack::Foreign;
use crate::nest::{self, Nest};
use crate::panes::lock;
use framelane::feed::{Interrupter, Position, SlotWriter, Source};
use framelane::tensor::{HostArray, Tree};
use framelane::{Error, ErrorKind, Result};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
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
enum Ask {
    /// The next batch; before the first one of an iterable, so many are given away unseen.
    Next(u64),
    /// Begin again, if the iterable can.
    Again,
}

/// What it says.
enum Said {
    Item(Item),
    /// The end of the iterable.
    End,
    /// Whether it was begun again.
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
    /// Whether a batch is asked for, of which nothing was heard yet.
    asked: bool,
    /// Batches that are given away at the start.
    skip: u64,
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
        Self { asks, said, stop, asked: false, skip: 0, shared, parts: Some(parts) }
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

    /// See that the next batch is asked for.
    fn ask_next(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.asked, true) {
            self.ask(Ask::Next(self.skip))?;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<Said> {
        let said = self.said.recv().map_err(|_| gone())?;
        self.asked = false;
        if let Said::Stop = said {
            return Err(Error::new(ErrorKind::Cancelled, "the feed is stopped"));
        }
        Ok(said)
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
        self.ask_next()?;
        let (nest, arrays) = match self.hear()? {
            Said::Item(item) => item,
            Said::Failed(error) => return Err(error),
            Said::End | Said::Begun(_) | Said::Stop => return Ok(false),
        };
        let leaves = arrays.iter().map(|array| {
            let bytes = array.bytes().unwrap_or_default();
            HostArray::new(array.spec.clone(), bytes).map(Tree::Leaf)
        });
        slot.put(&Tree::List(leaves.collect::<Result<_>>()?))?;
        // Their owners go when somebody next has the interpreter.
        drop(arrays);
        lock(&self.shared.nests).push_back(nest);
        self.ask_next()?;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        if self.asked {
            // Of an epoch that nobody read to its end.
            self.hear()?;
        }
        self.ask(Ask::Again)?;
        match self.hear()? {
            Said::Begun(again) => Ok(again),
            Said::Failed(error) => Err(error),
            Said::Item(_) | Said::End | Said::Stop => Ok(false),
        }
    }

    /// What was taken before is asked for again, and not looked at. Of which epoch it is, the iterable's owner knows.
    fn seek(&mut self, at: Position) -> Result<bool> {
        self.skip = at.batch;
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
        while let Ok(ask) = self.asked.recv() {
            let said = match ask {
                Ask::Next(skip) => {
                    self.begin(skip).and_then(|()| self.with(Self::fetch)).map(|item| match item {
                        Some(item) => Said::Item(item),
                        None => Said::End,
                    })
                }
                Ask::Again => self.again().map(Said::Begun),
            };
            if self.say.send(said.unwrap_or_else(Said::Failed)).is_err() {
                return;
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

    /// Begin the iterable, if it was not, and give its first batches away.
    fn begin(&mut self, skip: u64) -> Result<()> {
        if self.iterator.is_some() {
            return Ok(());
        }
        self.with(|this, py| {
            this.iterator = Some(this.iterable.bind(py).try_iter()?.into_any().unbind());
            Ok(())
        })?;
        for batch in 0..skip {
            if self.with(Self::next)?.is_none() {
                let text = format!("this iterable ended at batch {batch}, before batch {skip} to go on at");
                return Err(Error::new(ErrorKind::Argument, text));
            }
        }
        Ok(())
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
            // Its end would be taken for the feed's, as a generator's would (PEP 479).
            Some(transform) => transform.bind(py).call1((item,)).map_err(|raised| {
                if !raised.is_instance_of::<PyStopIteration>(py) {
                    return raised;
                }
                let other = PyRuntimeError::new_err("transform raised StopIteration");
                other.set_cause(py, Some(raised));
                other
            })?,
            None => item.into_bound(py),
        };
        let mut arrays = Vec::new();
        let nest = nest::apart(&item, &mut arrays)?;
        Ok(Some((nest, arrays)))
    }
}
