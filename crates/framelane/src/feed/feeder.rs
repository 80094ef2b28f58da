//! The feeder: a loader and the thread that runs it.

use super::control::{Activity, Command, Control};
use super::converting::Converting;
use super::fill;
use super::loader::Loader;
use super::report::{BatchReport, FeedReport};
use super::source::{Interrupter, Position, SlotWriter, Source};
use super::to_floats::ToFloats;
use crate::batch::{Batch, Filled};
use crate::device::{Device, Event};
use crate::error::{Error, ErrorKind, Result};
use crate::ring::{Occupancy, Policy, Reader, TryTake};
use crate::slots::Slot;
use crate::stats::{Recorder, Stage};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a feed behaves. Start from [`Options::new`] and change what you need.
#[derive(Debug, Clone)]
pub struct Options {
    /// A name for errors and reports.
    pub name: Arc<str>,
    /// Device slots: 2 is double buffering. At least 1.
    pub depth: usize,
    /// Device slots it may grow to while the consumer holds batches; `None`: as `depth`.
    pub max_depth: Option<usize>,
    /// Bytes of each device slot, all of them made at the start; `None`: as the largest batch so far. With it the
    /// addresses never change, so that CUDA graphs can be captured over them ([`Batch::slot`] says which it is),
    /// and a batch that does not fit ends the feed. [`crate::Contents::packed`] says how much a batch takes; with
    /// [`Options::to_floats`] the results come on top.
    pub slot_bytes: Option<usize>,
    /// What happens when the consumer is slower than the source.
    pub policy: Policy,
    /// Pinned slots; `None`: one being filled (or one per converter), and one being copied.
    pub pinned_slots: Option<usize>,
    /// Bytes that all pinned slots together may hold, at any time. Slots × the largest batch is always enough; a
    /// batch for which a slot would have to grow beyond the budget ends the feed with [`ErrorKind::Budget`], which
    /// names the sum, before anything is allocated.
    pub pinned_budget: usize,
    /// Bytes that all device slots together may hold, at any time; at its limit as [`Options::pinned_budget`].
    /// Memory that a slot has outgrown while work on it was still enqueued goes when that is done, and is not
    /// counted.
    pub device_budget: usize,
    /// What the device makes of pictures after the copy.
    pub to_floats: Option<ToFloats>,
    /// Threads that copy a source's arrays into a pinned slot together ([`SlotWriter::put`]), started when the
    /// first batch of some megabytes comes. At least 1; [`Options::new`] sets all cores but two, at most 14.
    pub fill_threads: usize,
    /// Where to begin: the [`Feeder::position`] of a feed over the same source that ended early. A source that can
    /// go there at once says so ([`Source::seek`]); any other is rewound and read again up to there, and what it
    /// gives on the way is thrown away.
    pub resume: Position,
    /// Where times and frames are reported besides [`Feeder::report`].
    pub recorder: Option<Arc<Recorder>>,
}

impl Options {
    /// Double buffering, nothing lost, no limit to memory but slots × the largest batch.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            depth: 2,
            max_depth: None,
            slot_bytes: None,
            policy: Policy::Fifo,
            pinned_slots: None,
            pinned_budget: usize::MAX,
            device_budget: usize::MAX,
            to_floats: None,
            fill_threads: fill::default_threads(),
            resume: Position::default(),
            recorder: None,
        }
    }
}

/// What yields the batches of an epoch, on the feed's thread.
pub(super) trait Producer: Send {
    /// Before the first epoch: go there.
    fn seek(&mut self, at: Position, loader: &Loader, control: &Control) -> Result<()>;
    fn epoch(&mut self, loader: &Loader, control: &Control) -> Result<()>;
    fn rewind(&mut self) -> Result<bool>;
}

/// Feeds a device from a [`Source`], on a thread of its own.
///
/// Iterating yields batches until the end of the epoch. Any thread may take batches, and each batch goes to
/// one taker.
pub struct Feeder {
    name: Arc<str>,
    reader: Reader<Slot, Event, Filled>,
    loader: Arc<Loader>,
    control: Arc<Control>,
    interrupter: Option<Interrupter>,
    /// Held by the one who rewinds.
    rewinding: Mutex<()>,
    /// Since when [`Feeder::try_next_batch`] has found nothing: its caller waits, if by asking again.
    nothing_since: Mutex<Option<Instant>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Feeder {
    /// Start feeding `device` from `source`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for options that make no sense (no slots, no converters),
    /// [`ErrorKind::Device`] if the stream or the thread could not be made.
    pub fn new(device: &Device, source: impl Source + 'static, options: Options) -> Result<Self> {
        let interrupter = source.interrupter();
        Self::start(device, options, 0, interrupter, Box::new(Direct { source }))
    }

    /// Start feeding `device` from `items`, each made into a batch by `convert` on one of `threads`
    /// converter threads. The order is that of `items`, however long each conversion takes.
    ///
    /// # Errors
    /// As [`Feeder::new`].
    pub fn converting<I: Send + 'static>(
        device: &Device,
        items: impl Iterator<Item = Result<I>> + Send + 'static,
        threads: usize,
        convert: impl Fn(I, &mut SlotWriter<'_>) -> Result<()> + Send + Sync + 'static,
        options: Options,
    ) -> Result<Self> {
        if threads == 0 {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("feed {:?} needs at least one converter thread, not 0", options.name),
            ));
        }
        Self::start(device, options, threads, None, Box::new(Converting::new(items, threads, convert)))
    }

    fn start(
        device: &Device,
        options: Options,
        converters: usize,
        interrupter: Option<Interrupter>,
        mut producer: Box<dyn Producer>,
    ) -> Result<Self> {
        let (loader, reader) = Loader::new(device, &options, converters)?;
        let (loader, control) = (Arc::new(loader), Arc::new(Control::new()));
        let (theirs, their_control) = (loader.clone(), control.clone());
        let (name, resume) = (options.name, options.resume);
        let thread = std::thread::Builder::new()
            .name(format!("feed {name}"))
            .spawn(move || {
                run(&mut *producer, resume, &theirs, &their_control);
                // What the source and the loader own is gone before the feed counts as stopped.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop((producer, theirs)))) {
                    log::error!("{}", Error::from_panic("dropping a feed's source", panic.as_ref()));
                }
                their_control.finished();
            })
            .map_err(|e| {
                Error::new(ErrorKind::Device, format!("no thread for feed {name:?}: {e}")).because(e)
            })?;
        Ok(Self {
            name,
            reader,
            loader,
            control,
            interrupter,
            rewinding: Mutex::default(),
            nothing_since: Mutex::default(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The next batch; `None` is the end of the epoch. Blocks until there is one or the other.
    ///
    /// Of several consumers each that waits here is told the end of its epoch, even if another one rewinds at
    /// once. One that comes after the rewind, or only asks ([`Feeder::try_next_batch`]), gets the next epoch's
    /// batches: who must see every end should agree with the others on when to rewind.
    ///
    /// # Errors
    /// The source's error, once, after the batches before it; then the end.
    pub fn next_batch(&self) -> Result<Option<Batch>> {
        self.taking(|reader| reader.take())
    }

    /// As [`Feeder::next_batch`], at most for `limit`.
    ///
    /// # Errors
    /// Also [`ErrorKind::Timeout`].
    pub fn next_batch_for(&self, limit: Duration) -> Result<Option<Batch>> {
        self.taking(|reader| reader.take_for(limit))
    }

    /// The next batch, if there is one now. Never blocks. Under [`Policy::Latest`] only one whose copy is
    /// done.
    ///
    /// # Errors
    /// As [`Feeder::next_batch`]. [`ErrorKind::Closed`] is the end, told each time.
    pub fn try_next_batch(&self) -> Result<Option<Batch>> {
        let taken = self.reader.try_take();
        let mut nothing_since = self.nothing_since.lock().unwrap_or_else(|e| e.into_inner());
        if let Ok(TryTake::Empty) = taken {
            nothing_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = nothing_since.take() {
            self.loader.meter.consumer_waited(since.elapsed());
        }
        drop(nothing_since);
        match taken? {
            TryTake::Lease(lease) => Ok(Some(self.loader.batch(lease))),
            TryTake::Empty => Ok(None),
            TryTake::End => Err(Error::new(ErrorKind::Closed, format!("feed {:?} has ended", self.name))),
        }
    }

    fn taking(
        &self,
        take: impl FnOnce(
            &Reader<Slot, Event, Filled>,
        ) -> Result<Option<crate::ring::ReadLease<Slot, Event, Filled>>>,
    ) -> Result<Option<Batch>> {
        let start = Instant::now();
        let taken = take(&self.reader);
        self.loader.meter.consumer_waited(start.elapsed());
        Ok(taken?.map(|lease| self.loader.batch(lease)))
    }

    /// The next batch to be taken. A feed over the same source with this as [`Options::resume`] goes on there:
    /// what was taken is not given again, and nothing else is left out.
    pub fn position(&self) -> Position {
        self.loader.position()
    }

    /// After the end of an epoch (or an error): start the next one from the first batch. Same slots, same
    /// stream, same thread. `Ok(false)`: this source cannot. Blocks while the source goes back.
    ///
    /// # Errors
    /// The source's error; [`ErrorKind::Argument`] before the end of the epoch was seen;
    /// [`ErrorKind::Cancelled`] after [`Feeder::cancel`].
    pub fn rewind(&self) -> Result<bool> {
        let _one_at_a_time = self.rewinding.lock().unwrap_or_else(|e| e.into_inner());
        if !self.control.stopping() && !self.reader.was_told_end() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("feed {:?} is in the middle of an epoch: rewind after its end", self.name),
            ));
        }
        self.control.rewind()
    }

    /// Stop: no more batches; batches already taken stay valid. Waits at most for `limit` until the feed's
    /// threads have ended.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`], saying which side is stuck. The feed is cancelled all the same, and its thread
    /// ends as soon as that side returns.
    pub fn cancel(&self, limit: Duration) -> Result<()> {
        self.control.stop();
        self.loader.count_cancelled(self.reader.cancel().len());
        self.loader.cancel();
        if let Some(interrupt) = &self.interrupter
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| interrupt()))
        {
            log::error!("{}", Error::from_panic("a source's interrupter", panic.as_ref()));
        }
        self.control.await_finished(&self.name, limit)?;
        if let Some(thread) = self.thread.lock().unwrap_or_else(|e| e.into_inner()).take() {
            // It has nothing left to do, and what could panic in it is caught.
            let _ = thread.join();
        }
        Ok(())
    }

    /// Where the time went so far.
    pub fn report(&self) -> FeedReport {
        self.loader.meter.report()
    }

    /// Where the time went in this epoch.
    pub fn epoch_report(&self) -> FeedReport {
        self.loader.meter.epoch()
    }

    /// Times of the latest batches, at most 256, oldest first.
    pub fn batch_reports(&self) -> Vec<BatchReport> {
        self.loader.meter.recent()
    }

    /// What the device slots are doing, and who holds which.
    pub fn occupancy(&self) -> Occupancy {
        self.reader.occupancy()
    }
}

impl Iterator for &Feeder {
    type Item = Result<Batch>;
    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        if let Err(stuck) = self.cancel(Duration::from_secs(1)) {
            log::error!("{stuck}; its thread is left to end by itself");
        }
    }
}

impl fmt::Debug for Feeder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feeder({:?}, {})", self.name, self.occupancy())
    }
}

/// The feed's thread.
fn run(producer: &mut dyn Producer, resume: Position, loader: &Loader, control: &Control) {
    loader.attach_thread();
    let mut start = resume;
    loop {
        // What the source is asked to do is caught where it is asked. This is for what it does unasked, when
        // its values are dropped: a feed never just goes silent.
        let start = std::mem::take(&mut start);
        let result = catch_unwind(AssertUnwindSafe(|| {
            if start != Position::default() {
                producer.seek(start, loader, control)?;
            }
            producer.epoch(loader, control)
        }))
        .unwrap_or_else(|p| Err(Error::from_panic("the feed's thread", p.as_ref())));
        // Being cancelled is not an error of the source.
        loader.finish(if control.stopping() { Ok(()) } else { result });
        loop {
            match control.next_command() {
                Command::Stop => return,
                Command::Rewind => {
                    control.doing(Activity::Rewind);
                    let rewound = catch_unwind(AssertUnwindSafe(|| producer.rewind()))
                        .unwrap_or_else(|p| Err(Error::from_panic("the source's rewind", p.as_ref())))
                        .and_then(|again| if again { loader.reopen().map(|()| true) } else { Ok(false) });
                    let again = matches!(rewound, Ok(true));
                    control.rewound(rewound);
                    if again {
                        break;
                    }
                }
            }
        }
    }
}

pub(super) fn cannot_resume(name: &str, at: Position, why: &str) -> Error {
    let Position { epoch, batch } = at;
    Error::new(
        ErrorKind::Argument,
        format!("{name:?} cannot be resumed at batch {batch} of epoch {epoch}: {why}"),
    )
}

/// A source that fills slots itself.
struct Direct<S> {
    source: S,
}

impl<S: Source> Producer for Direct<S> {
    fn seek(&mut self, at: Position, loader: &Loader, control: &Control) -> Result<()> {
        let name = self.source.name().to_owned();
        control.doing(Activity::Source);
        if self.source.seek(at)? {
            return Ok(());
        }
        for epoch in 0..at.epoch {
            if !self.source.rewind()? {
                return Err(cannot_resume(&name, at, &format!("it cannot be rewound after epoch {epoch}")));
            }
        }
        for batch in 0..at.batch {
            let slot = loader.pinned_slot()?;
            if control.stopping() {
                return Ok(());
            }
            let place = format!("source {name:?}");
            if loader.fill(slot, Stage::Source, &place, |slot| self.source.next_into(slot))?.is_none() {
                return Err(cannot_resume(&name, at, &format!("it has only {batch} batches")));
            }
        }
        Ok(())
    }

    fn epoch(&mut self, loader: &Loader, control: &Control) -> Result<()> {
        let place = format!("source {:?}", self.source.name());
        loop {
            control.doing(Activity::Slot);
            let slot = loader.pinned_slot()?;
            if control.stopping() {
                return Ok(());
            }
            control.doing(Activity::Source);
            let loaded = loader.fill(slot, Stage::Source, &place, |slot| self.source.next_into(slot))?;
            control.doing(Activity::Slot);
            match loaded {
                Some(loaded) => loader.submit(loaded)?,
                None => return Ok(()),
            }
        }
    }

    fn rewind(&mut self) -> Result<bool> {
        self.source.rewind()
    }
}
