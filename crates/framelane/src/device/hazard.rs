//! The hazard check: are any two accesses to the same bytes, one of them a write, left unordered?
//!
//! Vector clocks over streams, plus one entry for the CPU. Work enqueued on a stream comes after everything
//! enqueued on it before, after every event the stream was told to wait for, and after everything the CPU
//! knew to be done when it enqueued the work. The CPU counts as one: what one thread has seen done, all
//! know (handing a fact from thread to thread needs a lock, and the lock orders them), which can hide a
//! mistake but never invents one. The check runs when work is enqueued, so that its answer does not depend
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
            "{} {} bytes {}..{} of buffer #{} without waiting for {}, which {} them: make its stream wait for an event recorded after that",
            self.later,
            verb(self.later_writes),
            self.bytes.0,
            self.bytes.1,
            self.buffer,
            self.earlier,
            verb(self.earlier_writes),
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
    found: Vec<Hazard>,
}

/// An access that a later one may have to be ordered after.
struct Past {
    range: Range<usize>,
    writes: bool,
    stream: u64,
    tick: u64,
    label: Label,
}

impl Checker {
    pub fn found(&self) -> Vec<Hazard> {
        self.lock().found.clone()
    }

    pub fn freed(&self, buffer: u64) {
        self.lock().buffers.remove(&buffer);
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
        accesses: impl Iterator<Item = (Mode, u64, &'a Range<usize>)>,
    ) -> Result<()> {
        let state = &mut *self.lock();
        let mut clock = state.streams.remove(&stream).unwrap_or_default();
        clock.join(&state.cpu);
        let tick = clock.advance(stream);
        // Every access is noted, also after one that was refused.
        let mut result = Ok(());
        for (mode, buffer, range) in accesses {
            let checked = state.access(&clock, stream, tick, label, mode, buffer, range.clone());
            result = result.and(checked);
        }
        state.streams.insert(stream, clock);
        result
    }

    pub fn host_access(&self, mode: Mode, buffer: u64, range: Range<usize>) -> Result<()> {
        let state = &mut *self.lock();
        let tick = state.cpu.advance(CPU);
        let clock = state.cpu.clone();
        let label = Label { stream: "cpu".into(), work: "host access".into() };
        state.access(&clock, CPU, tick, &label, mode, buffer, range)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    #[expect(clippy::too_many_arguments, reason = "an access is this many facts")]
    fn access(
        &mut self,
        clock: &Clock,
        stream: u64,
        tick: u64,
        label: &Label,
        mode: Mode,
        buffer: u64,
        range: Range<usize>,
    ) -> Result<()> {
        let writes = mode != Mode::Read;
        let past = self.buffers.entry(buffer).or_default();
        let overlaps = |p: &Past| p.range.start < range.end && range.start < p.range.end;
        let unordered = past
            .iter()
            .find(|p| (p.writes || writes) && overlaps(p) && !clock.knows(p.stream, p.tick))
            .map(|p| Hazard {
                earlier: p.label.clone(),
                earlier_writes: p.writes,
                later: label.clone(),
                later_writes: writes,
                bytes: (p.range.start.max(range.start), p.range.end.min(range.end)),
                buffer,
            });
        // Whoever is ordered after this access is ordered after what it covers and itself comes after.
        past.retain(|p| {
            let covered = range.start <= p.range.start && p.range.end <= range.end;
            !(covered && clock.knows(p.stream, p.tick) && (writes || (p.stream == stream && !p.writes)))
        });
        past.push(Past { range, writes, stream, tick, label: label.clone() });
        match unordered {
            None => Ok(()),
            Some(hazard) => {
                let error = Error::new(ErrorKind::Hazard, hazard.to_string());
                self.found.push(hazard);
                Err(error)
            }
        }
    }
}
