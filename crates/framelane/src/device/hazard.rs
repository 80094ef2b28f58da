//! The hazard check: are any two accesses to the same bytes, one of them a write, left unordered?
//!
//! Vector clocks over streams, plus one entry for the CPU. Work enqueued on a stream comes after everything
//! enqueued on it before, after every event the stream was told to wait for, and after everything the CPU
//! knew to be done when it enqueued the work. The CPU counts as one: what one thread has seen done, all
//! know (handing a fact from thread to thread needs a lock, and the lock orders them), which can hide a
//! mistake but never invents one. What rings and feeds see done in passing does not count: it orders nothing
//! of their users. The check runs when work is enqueued, so that its answer does not depend
//! on timing. (Clocks: Lamport 1978; Mattern 1989.)

use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// How bytes are touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    Update,
}

/// Who touches bytes: a kernel on a stream, or the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Name of the stream, or `"cpu"`.
    pub stream: Arc<str>,
    /// Name of the work.
    pub work: Arc<str>,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}", self.work, self.stream)
    }
}

/// Two accesses to the same bytes that nothing orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hazard {
    /// The access that was made first.
    pub earlier: Label,
    /// Whether it wrote.
    pub earlier_writes: bool,
    /// The access that is not ordered after it.
    pub later: Label,
    /// Whether it writes.
    pub later_writes: bool,
    /// The bytes of the buffer that both touch.
    pub bytes: (usize, usize),
    /// The buffer, by number.
    pub buffer: u64,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |writes| if writes { "writes" } else { "reads" };
        write!(
            f,
            "{} {} bytes {}..{} of buffer #{} without waiting for {}, which {} them: {}",
            self.later,
            verb(self.later_writes),
            self.bytes.0,
            self.bytes.1,
            self.buffer,
            self.earlier,
            verb(self.earlier_writes),
            match (&*self.later.stream, &*self.earlier.stream) {
                (_, CPU_NAME) => "drop what `read_host` or `write_host` returned before enqueueing the work",
                (CPU_NAME, _) => "synchronize with an event recorded after that first",
                _ => "make its stream wait for an event recorded after that",
            }
        )
    }
}

/// Which tick of each stream is known to have happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(HashMap<u64, u64>);

impl Clock {
    fn join(&mut self, other: &Clock) {
        for (&stream, &tick) in &other.0 {
            let mine = self.0.entry(stream).or_default();
            *mine = (*mine).max(tick);
        }
    }

    fn advance(&mut self, stream: u64) -> u64 {
        let tick = self.0.entry(stream).or_default();
        *tick += 1;
        *tick
    }

    fn knows(&self, stream: u64, tick: u64) -> bool {
        self.0.get(&stream).is_some_and(|&t| t >= tick)
    }
}

const CPU_NAME: &str = "cpu";

/// The CPU's entry in the clocks. Streams and buffers are numbered from 1.
const CPU: u64 = 0;

#[derive(Default)]
pub(crate) struct Checker {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cpu: Clock,
    streams: HashMap<u64, Clock>,
    buffers: HashMap<u64, Vec<Past>>,
    /// Buffers that the CPU is touching now: readers and writers.
    held: HashMap<u64, (usize, usize)>,
    found: Vec<Hazard>,
}

/// Bounds of what is kept: reads of ever other bytes of a buffer that is never written would grow without
/// end. What is forgotten may hide a mistake, never invent one.
const MAX_PAST: usize = 1024;
const MAX_FOUND: usize = 1024;

/// An access that a later one may have to be ordered after.
struct Past {
    range: Range<usize>,
    writes: bool,
    stream: u64,
    tick: u64,
    label: Label,
}

impl Checker {
    /// One, if `FRAMELANE_CHECK=1` is in the environment.
    pub fn if_asked() -> Option<Self> {
        std::env::var_os("FRAMELANE_CHECK").is_some_and(|v| v == "1").then(Self::default)
    }

    pub fn found(&self) -> Vec<Hazard> {
        self.lock().found.clone()
    }

    pub fn freed(&self, buffer: u64) {
        self.lock().buffers.remove(&buffer);
    }

    pub fn stream_gone(&self, stream: u64) {
        self.lock().streams.remove(&stream);
    }

    pub fn host_saw(&self, clock: &Clock) {
        self.lock().cpu.join(clock);
    }

    pub fn stream_clock(&self, stream: u64) -> Clock {
        let state = &mut *self.lock();
        let clock = state.streams.entry(stream).or_default();
        clock.join(&state.cpu);
        clock.clone()
    }

    pub fn stream_waits(&self, stream: u64, clock: &Clock) {
        self.lock().streams.entry(stream).or_default().join(clock);
    }

    pub fn stream_access<'a>(
        &self,
        stream: u64,
        label: &Label,
        accesses: impl Iterator<Item = (Mode, u64, &'a Range<usize>)> + Clone,
    ) -> Result<()> {
        let state = &mut *self.lock();
        let mut clock = state.streams.remove(&stream).unwrap_or_default();
        clock.join(&state.cpu);
        let tick = clock.advance(stream);
        let hazard = accesses.clone().find_map(|(mode, buffer, range)| {
            state
                .held_by_cpu(label, mode, buffer, range)
                .or_else(|| state.conflict(&clock, label, mode, buffer, range))
        });
        // Work that is refused never touches anything.
        let result = match hazard {
            Some(hazard) => Err(state.report(hazard)),
            None => {
                for (mode, buffer, range) in accesses {
                    state.note(&clock, stream, tick, label, mode, buffer, range.clone());
                }
                Ok(())
            }
        };
        state.streams.insert(stream, clock);
        result
    }

    /// The CPU begins to touch a buffer: until [`Checker::host_done`]. `known`: what the toucher has seen done
    /// besides what the CPU as a whole has.
    pub fn host_access<'a>(
        &self,
        mode: Mode,
        buffer: u64,
        range: Range<usize>,
        known: impl Iterator<Item = &'a Clock>,
    ) -> Result<()> {
        let state = &mut *self.lock();
        let tick = state.cpu.advance(CPU);
        let mut clock = state.cpu.clone();
        known.for_each(|seen| clock.join(seen));
        let label = cpu_label();
        if let Some(hazard) = state.conflict(&clock, &label, mode, buffer, &range) {
            return Err(state.report(hazard));
        }
        state.note(&clock, CPU, tick, &label, mode, buffer, range);
        let (readers, writers) = state.held.entry(buffer).or_default();
        *if mode == Mode::Read { readers } else { writers } += 1;
        Ok(())
    }

    pub fn host_done(&self, mode: Mode, buffer: u64) {
        let state = &mut *self.lock();
        if let Some((readers, writers)) = state.held.get_mut(&buffer) {
            *if mode == Mode::Read { &mut *readers } else { &mut *writers } -= 1;
            if (*readers, *writers) == (0, 0) {
                state.held.remove(&buffer);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn cpu_label() -> Label {
    Label { stream: CPU_NAME.into(), work: "host access".into() }
}

impl State {
    /// An earlier access that the one described is not ordered after, though it must be.
    fn conflict(
        &self,
        clock: &Clock,
        label: &Label,
        mode: Mode,
        buffer: u64,
        range: &Range<usize>,
    ) -> Option<Hazard> {
        let writes = mode != Mode::Read;
        let past = self.buffers.get(&buffer)?.iter().find(|p| {
            let overlaps = p.range.start < range.end && range.start < p.range.end;
            (p.writes || writes) && overlaps && !clock.knows(p.stream, p.tick)
        })?;
        Some(Hazard {
            earlier: past.label.clone(),
            earlier_writes: past.writes,
            later: label.clone(),
            later_writes: writes,
            bytes: (past.range.start.max(range.start), past.range.end.min(range.end)),
            buffer,
        })
    }

    /// Work enqueued on memory that the CPU has not let go of yet.
    fn held_by_cpu(&self, label: &Label, mode: Mode, buffer: u64, range: &Range<usize>) -> Option<Hazard> {
        let writes = mode != Mode::Read;
        let &(readers, writers) = self.held.get(&buffer)?;
        (!range.is_empty() && (writers > 0 || writes && readers > 0)).then(|| Hazard {
            earlier: cpu_label(),
            earlier_writes: writers > 0,
            later: label.clone(),
            later_writes: writes,
            bytes: (range.start, range.end),
            buffer,
        })
    }

    fn report(&mut self, hazard: Hazard) -> Error {
        let error = Error::new(ErrorKind::Hazard, hazard.to_string());
        if self.found.len() < MAX_FOUND {
            self.found.push(hazard);
        }
        error
    }

    #[expect(clippy::too_many_arguments, reason = "an access is this many facts")]
    fn note(
        &mut self,
        clock: &Clock,
        stream: u64,
        tick: u64,
        label: &Label,
        mode: Mode,
        buffer: u64,
        range: Range<usize>,
    ) {
        let writes = mode != Mode::Read;
        let past = self.buffers.entry(buffer).or_default();
        // Whoever is ordered after this access is ordered after what it covers and itself comes after.
        past.retain(|p| {
            let covered = range.start <= p.range.start && p.range.end <= range.end;
            !(covered && clock.knows(p.stream, p.tick) && (writes || (p.stream == stream && !p.writes)))
        });
        if past.len() == MAX_PAST {
            past.remove(0);
        }
        past.push(Past { range, writes, stream, tick, label: label.clone() });
    }
}
