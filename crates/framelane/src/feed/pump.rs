//! Feeding by hand: a feed without a thread, stepped by its owner. For programs with a loop of their own,
//! and for exploring interleavings one step at a time on the simulated device.

use super::feeder::Options;
use super::loader::{Loaded, Loader};
use super::report::FeedReport;
use super::source::Source;
use crate::batch::{Batch, Filled};
use crate::device::{Device, Event};
use crate::error::{Error, ErrorKind, Result};
use crate::ring::{Reader, TryTake};
use crate::slots::Slot;
use crate::stats::Stage;

/// What [`Pump::step`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// A batch is on its way to the device.
    Fed,
    /// Nothing: every slot is in use. Take or drop a batch first.
    Full,
    /// Nothing: the source has ended.
    Ended,
}

/// A feed without a thread.
pub struct Pump<S> {
    source: S,
    loader: Loader,
    reader: Reader<Slot, Event, Filled>,
    waiting: Option<Loaded>,
    ended: bool,
}

impl<S: Source> Pump<S> {
    /// A pump that feeds `device` from `source`.
    ///
    /// # Errors
    /// As [`super::Feeder::new`].
    pub fn new(device: &Device, source: S, options: Options) -> Result<Self> {
        let (loader, reader) = Loader::new(device, &options, 0)?;
        Ok(Self { source, loader, reader, waiting: None, ended: false })
    }

    /// Read one batch and enqueue its copy. Blocks for as long as the source does, and until the pinned slot
    /// it refills has been copied.
    ///
    /// # Errors
    /// Only failures of waiting for the device. Those of the source, of the copy and of budgets end the feed:
    /// they arrive in order, from [`Pump::try_next_batch`].
    pub fn step(&mut self) -> Result<Pumped> {
        if self.ended {
            return Ok(Pumped::Ended);
        }
        let loaded = match self.waiting.take() {
            Some(loaded) => loaded,
            None => {
                let Some(slot) = self.loader.try_pinned_slot()? else { return Ok(Pumped::Full) };
                let place = format!("source {:?}", self.source.name());
                let source = &mut self.source;
                match self.loader.fill(slot, Stage::Source, &place, |slot| source.next_into(slot)) {
                    Ok(Some(loaded)) => loaded,
                    end => return Ok(self.end(end.map(|_| ()))),
                }
            }
        };
        match self.loader.try_submit(loaded) {
            Ok(None) => Ok(Pumped::Fed),
            Ok(waiting) => {
                self.waiting = waiting;
                Ok(Pumped::Full)
            }
            Err(error) => Ok(self.end(Err(error))),
        }
    }

    fn end(&mut self, result: Result<()>) -> Pumped {
        self.ended = true;
        self.loader.finish(result);
        Pumped::Ended
    }

    /// The next batch, if there is one now. Never blocks.
    ///
    /// # Errors
    /// The source's error, once; [`ErrorKind::Closed`] is the end, told each time.
    pub fn try_next_batch(&mut self) -> Result<Option<Batch>> {
        match self.reader.try_take()? {
            TryTake::Lease(lease) => Ok(Some(self.loader.batch(lease))),
            TryTake::Empty => Ok(None),
            TryTake::End => Err(Error::new(ErrorKind::Closed, "the feed has ended")),
        }
    }

    /// After the end: start again from the first batch. `Ok(false)`: this source cannot.
    ///
    /// # Errors
    /// The source's error; [`ErrorKind::Argument`] before the end of the epoch was told.
    pub fn rewind(&mut self) -> Result<bool> {
        if !self.reader.was_told_end() {
            return Err(Error::new(
                ErrorKind::Argument,
                "the feed is in the middle of an epoch: rewind after its end",
            ));
        }
        let again = self.source.rewind()?;
        if again {
            self.loader.reopen()?;
            self.ended = false;
        }
        Ok(again)
    }

    /// Where the time went so far.
    pub fn report(&self) -> FeedReport {
        self.loader.meter.report()
    }
}

impl<S> Drop for Pump<S> {
    fn drop(&mut self) {
        self.loader.count_cancelled(self.reader.cancel().len());
    }
}
