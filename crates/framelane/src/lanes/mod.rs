//! Lanes: one copy of a network's weights, several jobs in flight, each lane a stream with scratch of its own.
//!
//! [`Lanes::submit`] takes a [`Batch`] and gives a [`Ticket`], without waiting for the batch to be there or
//! the job to be done: both are waited for on the lane's stream. Jobs go to the lane with the fewest of them
//! and never move. Tickets come in the order of submission, so whoever keeps them in that order keeps the
//! order of the frames, however many lanes there are.
//!
//! Outputs live in a ring that all lanes share: [`Options::in_flight`] slots bound what is in flight and
//! unread, and a full ring holds the submitter back.
//!
//! Dropping the lanes waits for the jobs that were submitted, at most for a second; then they are left to end by
//! themselves, and the log says so. Tickets and outputs stay valid.

mod model;
mod run;
mod ticket;

pub use model::{Job, JobTimes, Model, Session};
pub use run::Run;
pub use ticket::Ticket;

use crate::batch::{Batch, Contents, Filled};
use crate::device::{Access, Buffer, Device, Event, Kernel, Memory, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::FrameMeta;
use crate::let_go::let_go;
use crate::ring::{self, Occupancy, Policy, Reader, WriteSlot, Writer};
use crate::slots::{Budget, Slot};
use crate::stats::{Group, Recorder, Stage};
use crate::tensor::TensorSpec;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use ticket::Outcome;

/// How lanes behave. Start from [`Options::new`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Lanes. At least 1.
    pub lanes: usize,
    /// Jobs enqueued, running, or done and not yet given up by whoever reads their output.
    /// At least as many as lanes.
    pub in_flight: usize,
    /// Bytes that all output slots together may hold, at any time. Memory that a slot has outgrown while work
    /// on it was still enqueued goes when that is done, and is not counted.
    ///
    /// If there is not enough for all that may be in flight, the first job to notice fails and says so; later
    /// ones are held back until a slot that has its memory is free.
    pub output_budget: usize,
    /// Where times are reported.
    pub recorder: Option<Arc<Recorder>>,
}

impl Options {
    /// `lanes` lanes, each with one job running and one waiting.
    pub fn new(lanes: usize) -> Self {
        Self { lanes, in_flight: lanes * 2, output_budget: usize::MAX, recorder: None }
    }
}

/// A network running in lanes. Any thread may submit.
pub struct Lanes {
    model: Arc<dyn Model>,
    lanes: Vec<Lane>,
    group: Arc<Group>,
    budget: Budget,
    /// That it has no memory for all of [`Options::in_flight`].
    told_budget: AtomicBool,
    writer: Writer<Slot, Event, Filled>,
    reader: Reader<Slot, Event, Filled>,
    /// Held while a job is enqueued, never while one runs: it makes numbers, slots and streams agree.
    submit: Mutex<Submit>,
}

#[derive(Default)]
struct Submit {
    next: u64,
    /// Contents of the outputs for each combination of inputs seen.
    outputs: HashMap<Vec<TensorSpec>, Contents>,
}

type OutputSlot = WriteSlot<Slot, Event, Filled>;

struct Lane {
    stream: Stream,
    /// Taken by the lane's stream for the time of a job: no lock is held while a network runs.
    session: Arc<Mutex<Option<Box<dyn Session>>>>,
    jobs: Arc<AtomicUsize>,
    /// Number of its last job and 1, or 0: of lanes with as many jobs, the one that had none for longest is next. (A
    /// job that has just ended may not be counted out yet: two in a row could else meet in one lane.)
    last: AtomicU64,
}

impl Lanes {
    /// Make the lanes; each makes its session on its own thread. Returns when all have.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for options that make no sense; the first error of [`Model::session`].
    pub fn new(device: &Device, model: Arc<dyn Model>, options: Options) -> Result<Self> {
        if options.lanes == 0 || options.in_flight < options.lanes {
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "{} lanes need at least one lane and as many jobs in flight, not {}",
                    options.lanes, options.in_flight
                ),
            ));
        }
        let name: Arc<str> = format!("outputs of {}", model.name()).into();
        let ring_options = ring::Options::fixed(name.clone(), Policy::Fifo, options.in_flight);
        let (writer, reader) = ring::ring(ring_options, |_| Ok(Slot::default()))?;
        let lanes = (0..options.lanes).map(|n| Lane::new(device, &model, n)).collect::<Result<Vec<_>>>()?;
        for lane in &lanes {
            lane.stream.synchronize("lanes: making sessions")?;
        }
        let own = Recorder::default();
        let group = options.recorder.as_deref().unwrap_or(&own).group(Stage::Network, options.lanes);
        Ok(Self {
            model,
            lanes,
            group,
            budget: Budget::new(name, Memory::Device, options.output_budget, options.in_flight),
            told_budget: AtomicBool::new(false),
            writer,
            reader,
            submit: Mutex::default(),
        })
    }

    /// Enqueue the network over all tensors of `batch`, in order. Does not wait for the device; blocks while
    /// [`Options::in_flight`] jobs are. The batch may be dropped right after.
    ///
    /// # Errors
    /// If the network cannot take such inputs ([`Model::outputs`]), or memory or the device refuses. A job
    /// that fails while it runs tells so by its [`Ticket`], not here.
    pub fn submit(&self, batch: &Batch) -> Result<Ticket> {
        let ticket = self.enqueue(batch, || self.writer.acquire().map(Some))?;
        Ok(ticket.unwrap_or_else(|| unreachable!("it waited for a slot")))
    }

    /// As [`Lanes::submit`], blocking at most for `limit`.
    ///
    /// # Errors
    /// Also [`ErrorKind::Timeout`], saying who holds the outputs.
    pub fn submit_for(&self, batch: &Batch, limit: Duration) -> Result<Ticket> {
        let start = Instant::now();
        let left = || limit.saturating_sub(start.elapsed());
        let ticket = self.enqueue(batch, || self.writer.acquire_for(left()).map(Some))?;
        Ok(ticket.unwrap_or_else(|| unreachable!("it waited for a slot")))
    }

    /// As [`Lanes::submit`], if a slot for the output is free now. Never blocks.
    ///
    /// # Errors
    /// As [`Lanes::submit`].
    pub fn try_submit(&self, batch: &Batch) -> Result<Option<Ticket>> {
        self.enqueue(batch, || self.writer.try_acquire())
    }

    /// Run the network over `batches` with as many jobs in flight as there may be: an iterator over the
    /// outputs, in order. A job that failed is an error in its place, and the next ones follow. An output's tensors are
    /// a list, in the model's order: `"0"`, `"1"`, ….
    ///
    /// Its `next` blocks until the next output is there. It enqueues more only while it is called, and
    /// outputs that its caller still holds count as in flight.
    pub fn run<I: Iterator<Item = Result<Batch>>>(&self, batches: I) -> Run<'_, I> {
        Run::new(self, batches)
    }

    /// `None` if `acquire` gave no slot.
    fn enqueue(
        &self,
        batch: &Batch,
        acquire: impl Fn() -> Result<Option<OutputSlot>>,
    ) -> Result<Option<Ticket>> {
        let specs: Vec<TensorSpec> = batch.specs().cloned().collect();
        let contents = Contents { meta: batch.meta().cloned(), ..self.outputs(&specs)? };
        // Before the lock: this is where a submitter is held back.
        let Some((slot, buffer)) = self.output_slot(contents.bytes(), acquire)? else { return Ok(None) };
        let mut submit = self.lock();
        let load = |l: &&Lane| (l.jobs.load(Ordering::Relaxed), l.last.load(Ordering::Relaxed));
        let lane = self.lanes.iter().min_by_key(load).unwrap_or(&self.lanes[0]);
        let stream = &lane.stream;
        for read in slot.wait_for() {
            stream.wait(read)?;
        }
        let (view, waited) = batch.peek(stream)?;
        let mut accesses: Vec<Access<'_>> = view.tensors().map(|t| t.access()).collect();
        accesses.extend(contents.tensors.iter().map(|(_, range)| Access::write(&buffer, range.clone())));
        let outcome = Arc::new(Outcome::default());
        let run = Running {
            model: self.model.clone(),
            session: lane.session.clone(),
            jobs: lane.jobs.clone(),
            group: self.group.clone(),
            inputs: specs,
            outputs: contents.tensors.iter().map(|(spec, _)| spec.clone()).collect(),
            meta: contents.meta.clone(),
            number: submit.next,
            outcome: outcome.clone(),
        };
        lane.jobs.fetch_add(1, Ordering::Relaxed);
        lane.last.store(submit.next + 1, Ordering::Relaxed);
        if let Err(error) = stream.launch(self.model.name(), &accesses, move |kernel| {
            run.run(kernel);
            Ok(())
        }) {
            lane.jobs.fetch_sub(1, Ordering::Relaxed);
            return Err(error);
        }
        // From here on nothing may fail: until this event the job reads the batch and writes the slot. Of the
        // lane's later jobs the batch knows nothing: they do not hold it up.
        let ready = batch.read_until(stream, waited, self.lanes.len());
        let index = submit.next;
        submit.next += 1;
        // Nothing comes back: the ring is neither cancelled nor at its end while the lanes live.
        let _ = slot.publish(ready, Filled { contents, buffer, index });
        // Published under the lock and the only one unread: this takes it back as the reader.
        let lease = self.reader.take()?;
        let lease = lease.unwrap_or_else(|| unreachable!("the ring is open while its writer lives"));
        Ok(Some(Ticket::new(Batch::new(lease, None), outcome)))
    }

    /// Contents of the outputs for such inputs.
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Contents> {
        let mut submit = self.lock();
        if let Some(contents) = submit.outputs.get(inputs) {
            return Ok(contents.clone());
        }
        let contents = Contents::packed(&self.model.outputs(inputs)?)?;
        submit.outputs.insert(inputs.to_vec(), contents.clone());
        Ok(contents)
    }

    /// A slot with room for `bytes`. That the budget has no memory for one is told once; from then on such a slot
    /// is put aside for one that has its memory, so that the budget bounds what is in flight. What is too large
    /// for every slot is refused each time.
    ///
    /// Submitters that put slots aside do not wait for each other: the largest slot suits them all, and so is
    /// never put aside.
    fn output_slot(
        &self,
        bytes: usize,
        acquire: impl Fn() -> Result<Option<OutputSlot>>,
    ) -> Result<Option<(OutputSlot, Buffer)>> {
        let mut too_small = Vec::new();
        while let Some(slot) = acquire()? {
            match slot.payload().at_least(self.lanes[0].stream.device(), &self.budget, bytes) {
                Ok(buffer) => return Ok(Some((slot, buffer))),
                Err(error) => {
                    let others_do = error.kind() == ErrorKind::Budget && self.budget.largest() >= bytes;
                    if !others_do || !self.told_budget.swap(true, Ordering::Relaxed) {
                        return Err(error);
                    }
                    too_small.push(slot);
                }
            }
        }
        Ok(None)
    }

    fn lock(&self) -> MutexGuard<'_, Submit> {
        self.submit.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The network.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// How many lanes there are.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// What the output slots are doing.
    pub fn occupancy(&self) -> Occupancy {
        self.reader.occupancy()
    }
}

impl Drop for Lanes {
    /// Jobs that were enqueued are run. Waits for them, but not for ever.
    fn drop(&mut self) {
        let streams = self.lanes.iter().map(|lane| lane.stream.clone());
        let_go(streams.collect(), "lanes: last jobs", "the network is still running");
    }
}

impl Lane {
    fn new(device: &Device, model: &Arc<dyn Model>, number: usize) -> Result<Self> {
        let stream = device.stream(format!("lane {number} of {}", model.name()))?;
        let session = Arc::new(Mutex::new(None));
        let (theirs, model) = (session.clone(), model.clone());
        stream.launch("make a session", &[], move |_| {
            *theirs.lock().unwrap_or_else(|e| e.into_inner()) = Some(model.session()?);
            Ok(())
        })?;
        Ok(Self { stream, session, jobs: Arc::default(), last: AtomicU64::new(0) })
    }
}

/// A job on its way through a lane.
struct Running {
    model: Arc<dyn Model>,
    session: Arc<Mutex<Option<Box<dyn Session>>>>,
    jobs: Arc<AtomicUsize>,
    group: Arc<Group>,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    meta: Option<FrameMeta>,
    number: u64,
    outcome: Arc<Outcome>,
}

impl Running {
    /// On the lane's thread.
    fn run(self, kernel: &mut Kernel<'_>) {
        let start = Instant::now();
        let mut times = JobTimes::default();
        let result = catch_unwind(AssertUnwindSafe(|| self.attempt(kernel, &mut times)))
            .unwrap_or_else(|payload| Err(Error::from_panic("the network", payload.as_ref())));
        let other = times.convert + times.copy;
        self.group.busy(Stage::Convert, times.convert);
        self.group.busy(Stage::Copy, times.copy);
        self.group.busy(Stage::Network, start.elapsed().saturating_sub(other));
        self.jobs.fetch_sub(1, Ordering::Relaxed);
        self.outcome.set(result.map_err(|e| match &self.meta {
            Some(meta) => e.context(format!("{} on {meta}", self.model.name())),
            None => e.context(format!("{} on job {}", self.model.name(), self.number)),
        }));
    }

    fn attempt(&self, kernel: &mut Kernel<'_>, times: &mut JobTimes) -> Result<()> {
        let slot = || self.session.lock().unwrap_or_else(|e| e.into_inner());
        let taken = slot().take();
        let mut session = match taken {
            Some(session) => session,
            // The last job panicked: its session may be in any state, and was dropped.
            None => self.model.session()?,
        };
        let inputs: Vec<_> = self.inputs.iter().zip(kernel.inputs.iter().copied()).collect();
        let mut outputs: Vec<_> =
            self.outputs.iter().zip(kernel.outputs.iter_mut().map(|o| &mut **o)).collect();
        let mut job = Job::new(&inputs, &mut outputs, self.meta.as_ref(), times);
        // Caught here, so that the session is not dropped while unwinding, which a second panic would not survive.
        let result = catch_unwind(AssertUnwindSafe(|| session.run(&mut job)))
            .map_err(|payload| Error::from_panic("the network", payload.as_ref()))?;
        *slot() = Some(session);
        result
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lanes({} × {})", self.lanes.len(), self.model.name())
    }
}
