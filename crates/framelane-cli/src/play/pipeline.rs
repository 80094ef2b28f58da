//! The way of the frames: source → feed → lanes → target, each on its own threads.
//!
//! ```text
//!  Playlist ─▶ Feeder ─▶ [submit] ─▶ Lanes ─▶ [target: a pane takes them from the device]
//!                                      └────▶ [read back] ─▶ pinned ring ─▶ [target: a file]
//!                          the run's order is that of the tickets in the channel
//! ```
//! Inputs that are played side by side have all of this each, but for the lanes: there is one copy of the network.
//! A frame taken out of the feed has a [`Fate`] that travels with it, so that each is counted exactly once,
//! wherever the run is stopped. Whoever ends first for a reason of its own says so by [`Stop`].

use super::readback::{Picture, Staging, read_back};
use super::stamps::Stamps;
use super::stop::{Stop, Why};
use super::tally::{Fate, Tally};
use super::target::{self, Target};
use crate::console;
use framelane::device::{Device, Event};
use framelane::feed::{self, Feeder, Source};
use framelane::frame::FrameMeta;
use framelane::lanes::{self, Lanes, Model, Ticket};
use framelane::ring::{self, Policy, Reader};
use framelane::stats::{Group, Stage};
use framelane::{Batch, Error, ErrorKind, Result};
use framelane_media::{Sink, Summary};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the feed may take to stop before it is named.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pictures in pinned memory: one is written while the next is copied.
const STAGED: usize = 2;

/// What a run is made of.
pub struct Parts {
    pub source: Box<dyn Source>,
    pub stamps: Stamps,
    /// The network's. `None`: pictures pass through.
    pub lanes: Option<Arc<Lanes>>,
    pub target: Target,
    pub options: Options,
}

/// How a run behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub lanes: usize,
    /// Frames that may wait on the device for the network.
    pub depth: usize,
    pub policy: Policy,
}

impl Options {
    /// Frames in the network and read back at once. Under `Latest` one a lane: a frame that waits behind another
    /// only grows old, and its slot could not be filled again before that other one is done.
    fn in_flight(self) -> usize {
        match self.policy {
            Policy::Latest => self.lanes,
            Policy::Fifo => self.lanes * 2,
        }
    }

    /// Slots of the feed on the device: of those that wait, and of those in the network.
    fn slots(self) -> usize {
        match self.policy {
            Policy::Latest => self.depth + self.in_flight(),
            Policy::Fifo => self.depth + self.lanes,
        }
    }
}

/// The lanes for runs with these options, side by side.
///
/// # Errors
/// Of the network.
pub fn lanes(
    device: &Device,
    model: Arc<dyn Model>,
    runs: &[Options],
    tally: &Arc<Tally>,
) -> Result<Arc<Lanes>> {
    let lanes = runs.iter().map(|run| run.lanes).max().unwrap_or(1);
    let in_flight = runs.iter().map(|run| run.in_flight()).sum::<usize>().max(lanes);
    let recorder = Some(tally.recorder.clone());
    Lanes::new(device, model, lanes::Options { in_flight, recorder, ..lanes::Options::new(lanes) })
        .map(Arc::new)
}

/// A run that goes on.
pub struct Running {
    feeder: Arc<Feeder>,
    submit: JoinHandle<Result<()>>,
    read_back: Option<JoinHandle<Result<()>>>,
    target: JoinHandle<Result<Option<Summary>>>,
    stop: Stop,
}

/// How a run ended.
pub struct End {
    /// The first cause, if it failed.
    pub error: Option<Error>,
    /// What was written.
    pub summary: Option<Summary>,
}

/// A frame whose result is on its way.
pub struct Job {
    pub meta: FrameMeta,
    pub fate: Fate,
    work: Work,
    permit: Permit,
}

/// Allows one job to be in flight; given back when it is dropped.
pub struct Permit(Sender<()>);

impl Drop for Permit {
    fn drop(&mut self) {
        // Nobody waits for it once the submitter has ended.
        let _ = self.0.send(());
    }
}

enum Work {
    /// The network's output, and the picture before it if the target shows it.
    Network {
        ticket: Box<Ticket>,
        before: Option<Batch>,
    },
    Passed(Batch),
}

/// A frame with its result.
pub struct Done {
    pub meta: FrameMeta,
    pub fate: Fate,
    pub output: Batch,
    /// The picture that went into the network, if it was kept.
    pub before: Option<Batch>,
    /// Until the result is on its way.
    pub permit: Permit,
}

impl Job {
    /// Wait for the result. `None`: it failed, and was counted.
    ///
    /// # Errors
    /// If the run should be given up.
    pub fn wait(self) -> Result<Option<Done>> {
        let Self { meta, fate, work, permit } = self;
        let (output, before) = match work {
            Work::Passed(batch) => (Ok(batch), None),
            Work::Network { ticket, before } => (ticket.wait(), before),
        };
        match output {
            Ok(output) => {
                fate.succeeded();
                Ok(Some(Done { meta, fate, output, before, permit }))
            }
            Err(error) => {
                fate.failed(error, tell)?;
                Ok(None)
            }
        }
    }
}

fn tell(error: &Error) {
    console::say(&format!("failed      {error}; the run goes on"));
}

impl Running {
    /// Start the threads.
    ///
    /// # Errors
    /// Of the feed, the lanes, or the system that has no threads left.
    pub fn start(device: &Device, parts: Parts, tally: &Arc<Tally>, stop: &Stop) -> Result<Self> {
        let Parts { source, stamps, lanes, target, options } = parts;
        let in_flight = options.in_flight();
        // A target that shows the picture before needs its slot until both are read back.
        let keep_input = target.wants_before();
        let held = if keep_input { in_flight + 1 } else { 0 };
        let feed_options = feed::Options {
            depth: options.slots(),
            max_depth: Some(options.slots() + held),
            policy: options.policy,
            recorder: Some(tally.recorder.clone()),
            ..feed::Options::new(source.name())
        };
        let feeder = Arc::new(Feeder::new(device, source, feed_options)?);
        let cancelled = feeder.clone();
        stop.on_request(move || {
            // Does not wait: the end of the run does.
            let _ = cancelled.cancel(Duration::ZERO);
        });

        let (sender, jobs) = sync_channel(in_flight);
        let (permit, permits) = channel();
        for _ in 0..in_flight {
            // The other end is at hand.
            let _ = permit.send(());
        }
        // Why no more results come, if that is an error, for who shows them.
        let broken = Arc::new(OnceLock::new());
        let submit = Submit {
            feeder: feeder.clone(),
            lanes,
            stamps,
            keep_input,
            permits,
            permit,
            tally: tally.clone(),
            broken: broken.clone(),
            jobs: sender,
        };
        let submit = spawn("submit", stop, move || submit.run())?;
        let stream = |name| device.stream(name);
        let writing = tally.recorder.group(Stage::Sink, 1);
        let stopped = stop.clone();
        let (read_back, target) = match target {
            Target::Nowhere => (None, spawn("target", stop, move || count(&jobs))?),
            Target::Screen(screen) => {
                let stream = stream("show")?;
                let show = move || screen.show(&jobs, &stream, &writing, &stopped, &broken).map(|()| None);
                (None, spawn("target", stop, show)?)
            }
            Target::File(sink) => {
                let stream = stream("read back")?;
                let copying = tally.recorder.group(Stage::Copy, 1);
                let (writer, reader) =
                    ring::ring(ring::Options::fixed("results", Policy::Fifo, STAGED), |_| {
                        Ok(Default::default())
                    })?;
                let thread = spawn("read back", stop, move || read_back(&jobs, &writer, &stream, &copying))?;
                (Some(thread), spawn("target", stop, move || write(&reader, sink, &writing, &stopped))?)
            }
        };
        Ok(Self { feeder, submit, read_back, target, stop: stop.clone() })
    }

    /// Wait until the run has ended, of itself or because it was stopped, and everything is finished.
    pub fn join(self) -> End {
        let submitted = join("submit", self.submit);
        let read_back = self.read_back.map_or(Ok(()), |thread| join("read back", thread));
        let written = join("target", self.target);
        let stopped = self.feeder.cancel(PATIENCE);
        if let Err(stuck) = stopped {
            console::say(&format!("warning     {stuck}"));
        }
        drop(self.feeder);
        // What failed behind is the cause of what failed before it. A source that was stopped by the same
        // Ctrl-C has not failed (ffmpeg gets it too), nor has the reader of a pipe.
        let asked = matches!(self.stop.why(), Some(Why::Signal(_) | Why::Window));
        let (summary, error) = match written {
            Err(error) if !(asked && error.kind() == ErrorKind::Closed) => (None, Some(error)),
            written => (written.ok().flatten(), read_back.err().or(submitted.err()).filter(|_| !asked)),
        };
        End { error, summary }
    }
}

/// Start a thread that stops the run if it fails.
fn spawn<T: Send + 'static>(
    name: &str,
    stop: &Stop,
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    let stop = stop.clone();
    let body = move || {
        let guard = StopOnPanic(&stop);
        let result = body();
        std::mem::forget(guard);
        if let Err(error) = &result
            && stop.fail()
        {
            console::say(&format!("failed      {error}; the others go on"));
        }
        result
    };
    std::thread::Builder::new().name(name.into()).spawn(body).map_err(|e| {
        Error::new(ErrorKind::Device, format!("the system gives no thread ({name}): {e}")).because(e)
    })
}

struct StopOnPanic<'a>(&'a Stop);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

fn join<T>(name: &str, thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| Err(Error::from_panic(name, panic.as_ref())))
}

/// From the feed into the lanes.
struct Submit {
    feeder: Arc<Feeder>,
    lanes: Option<Arc<Lanes>>,
    stamps: Stamps,
    keep_input: bool,
    /// One for each job that may be begun. Had before a frame is taken: one taken earlier would only grow old.
    permits: Receiver<()>,
    permit: Sender<()>,
    tally: Arc<Tally>,
    broken: Arc<OnceLock<String>>,
    jobs: SyncSender<Job>,
}

impl Submit {
    fn run(mut self) -> Result<()> {
        let submitted = self.submit_all();
        if let Err(error) = &submitted {
            // Before the channel ends. This thread alone sets it.
            let _ = self.broken.set(error.to_string());
        }
        submitted
    }

    fn submit_all(&mut self) -> Result<()> {
        loop {
            // The sender is here, so this cannot fail; jobs give theirs back however they end.
            let _ = self.permits.recv();
            let permit = Permit(self.permit.clone());
            let Some(batch) = self.feeder.next_batch()? else { break };
            let fate = self.tally.frame();
            let Some(meta) = batch.meta().map(|meta| self.stamps.stamp(meta)) else {
                return Err(Error::new(ErrorKind::Input, "the source gave a batch that is no frame"));
            };
            let work = match &self.lanes {
                None => Work::Passed(batch),
                Some(lanes) => match lanes.submit(&batch) {
                    Ok(ticket) => {
                        Work::Network { ticket: Box::new(ticket), before: self.keep_input.then_some(batch) }
                    }
                    Err(error) => {
                        fate.failed(error.context(&meta), tell)?;
                        continue;
                    }
                },
            };
            if self.jobs.send(Job { meta, fate, work, permit }).is_err() {
                // The other side has ended and says why.
                break;
            }
        }
        Ok(())
    }
}

/// The target that needs no pictures: a frame is out when its result is there.
fn count(jobs: &Receiver<Job>) -> Result<Option<Summary>> {
    for job in jobs {
        if let Some(Done { meta, fate, output, .. }) = job.wait()? {
            output.ready().synchronize("target: result")?;
            fate.out(meta.captured.elapsed());
        }
    }
    Ok(None)
}

/// From pinned memory into the file, to its end.
fn write(
    reader: &Reader<Staging, Event, Picture>,
    mut sink: Box<dyn Sink>,
    group: &Group,
    stop: &Stop,
) -> Result<Option<Summary>> {
    let mut put = || -> Result<()> {
        while let Some(lease) = reader.take()? {
            let picture = lease.meta();
            lease.ready().synchronize("target: copy out of the device")?;
            picture.copied(lease.ready());
            target::write(&mut *sink, picture, &lease.payload().read(picture)?, group)?;
        }
        Ok(())
    };
    let result = put();
    // What is still on its way will not be written, whoever holds it.
    reader.cancel();
    if result.is_err() {
        stop.fail();
    }
    let summary = target::finish(sink, group);
    result.and(summary.map(Some))
}
