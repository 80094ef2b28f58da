//! What the records of a stretch of time say: who copied how much, and what a thread's time went to.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A stretch of time: nanoseconds of CUPTI's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub start: u64,
    pub end: u64,
}

impl Span {
    fn clipped(self, to: Self) -> Self {
        let start = self.start.clamp(to.start, to.end);
        Self { start, end: self.end.clamp(start, to.end) }
    }

    fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Times at which something ran.
#[derive(Debug, Default)]
pub(super) struct Times {
    spans: Vec<Span>,
    /// So many at the front are sorted and apart.
    merged: usize,
}

impl Times {
    pub fn push(&mut self, span: Span) {
        self.spans.push(span);
        // Kernels come by the million.
        if self.spans.len() > 2 * self.merged + 65_536 {
            self.merge();
        }
    }

    fn merge(&mut self) {
        self.spans.sort_unstable();
        let mut last = 0;
        for at in 1..self.spans.len() {
            let next = self.spans[at];
            if next.start <= self.spans[last].end {
                self.spans[last].end = self.spans[last].end.max(next.end);
            } else {
                last += 1;
                self.spans[last] = next;
            }
        }
        self.spans.truncate(last + 1);
        self.merged = self.spans.len();
    }

    /// For how long of `within` anything ran. Merged before.
    fn during(&self, within: Span) -> u64 {
        let first = self.spans.partition_point(|span| span.end <= within.start);
        let inside = self.spans[first..].iter().take_while(|span| span.start < within.end);
        inside.map(|span| span.clipped(within).len()).sum()
    }
}

/// A copy between host and device.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyRecord {
    pub span: Span,
    pub to_device: bool,
    pub bytes: u64,
    /// Of the driver's call that enqueued it, and of the runtime's around that, if any.
    pub calls: [u32; 2],
}

/// What a call may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    Copy,
    Synchronize,
}

/// A call that may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub span: Span,
    pub id: u32,
    pub thread: u32,
    pub waits: Waits,
}

/// All that was recorded.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub copies: Vec<CopyRecord>,
    pub kernels: Times,
    pub calls: Vec<Call>,
    /// The calls by which this crate enqueues copies.
    pub ours: HashSet<u32>,
    /// Records that there was no room for, or that were not complete.
    pub lost: u64,
}

/// Bytes that crossed, and in how many copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crossed {
    /// Bytes.
    pub bytes: u64,
    /// Copies.
    pub copies: u64,
}

/// Who moved how much one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct By {
    /// This crate.
    pub ours: Crossed,
    /// All other code of the process.
    pub others: Crossed,
}

/// What crossed between host and device in a stretch of time, and what the time of a thread went to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the host to a device.
    pub to_device: By,
    /// From a device to the host.
    pub from_device: By,
    /// The whole time.
    pub elapsed: Duration,
    /// Of it, in calls that copied: all of a call that copies except for what it waited for kernels before; of a call that
    /// waits for the device, for as long as a copy between host and device ran.
    pub copying: Duration,
    /// Of it, in calls that waited while kernels ran.
    pub waiting: Duration,
    /// For how long of it kernels ran.
    pub kernels: Duration,
    /// Records that CUPTI had no room for: if not 0, the other figures are too low.
    pub lost: u64,
}

impl Records {
    /// The figures of `block`, as `thread` lived through it.
    pub fn traffic(mut self, block: Span, thread: u32) -> Traffic {
        let mut traffic = Traffic { lost: self.lost, ..Traffic::default() };
        let mut copying = Times::default();
        let mut begins: HashMap<u32, u64> = HashMap::new();
        for copy in &self.copies {
            let way = if copy.to_device { &mut traffic.to_device } else { &mut traffic.from_device };
            let ours = copy.calls.iter().any(|call| self.ours.contains(call));
            let who = if ours { &mut way.ours } else { &mut way.others };
            who.bytes += copy.bytes;
            who.copies += 1;
            copying.push(copy.span);
            for call in copy.calls {
                let first = begins.entry(call).or_insert(copy.span.start);
                *first = copy.span.start.min(*first);
            }
        }
        copying.merge();
        self.kernels.merge();
        let mut either = Times { spans: [&copying.spans[..], &self.kernels.spans].concat(), merged: 0 };
        either.merge();
        // A call of the runtime comes before the driver's within it, which says nothing more.
        self.calls.sort_unstable_by_key(|call| (call.span.start, u64::MAX - call.span.end));
        let (mut copied, mut waited, mut seen) = (0, 0, block.start);
        for call in self.calls.iter().filter(|call| call.thread == thread) {
            let span = call.span.clipped(Span { start: seen, end: block.end });
            seen = seen.max(span.end);
            match (call.waits, begins.get(&call.id)) {
                (Waits::Copy, Some(&begin)) => {
                    let before = self.kernels.during(Span { start: span.start, end: begin }.clipped(span));
                    waited += before;
                    copied += span.len() - before;
                }
                // It waits for what others enqueued, or copies nothing between host and device.
                _ => {
                    let copies = copying.during(span);
                    copied += copies;
                    waited += either.during(span) - copies;
                }
            }
        }
        traffic.elapsed = Duration::from_nanos(block.len());
        traffic.copying = Duration::from_nanos(copied);
        traffic.waiting = Duration::from_nanos(waited);
        traffic.kernels = Duration::from_nanos(self.kernels.during(block));
        traffic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Span = Span { start: 1000, end: 2000 };

    fn span(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    fn call(start: u64, end: u64, id: u32, waits: Waits) -> Call {
        Call { span: span(start, end), id, thread: 7, waits }
    }

    fn copy(start: u64, end: u64, id: u32, bytes: u64) -> CopyRecord {
        CopyRecord { span: span(start, end), to_device: false, bytes, calls: [id, 0] }
    }

    fn kernels(spans: &[(u64, u64)]) -> Times {
        let mut times = Times::default();
        for &(start, end) in spans {
            times.push(span(start, end));
        }
        times
    }

    fn nanos(traffic: &Traffic) -> [u128; 4] {
        [traffic.elapsed, traffic.copying, traffic.waiting, traffic.kernels].map(|time| time.as_nanos())
    }

    /// `.cpu()` behind a network: the call waits for the kernels, then copies.
    #[test]
    fn a_copy_waits_for_kernels_and_then_copies() {
        let records = Records {
            copies: vec![copy(1600, 1700, 3, 64)],
            kernels: kernels(&[(1100, 1300), (1250, 1590)]),
            calls: vec![
                call(1200, 1720, 3, Waits::Copy),
                // The driver's call within the runtime's.
                call(1210, 1710, 3, Waits::Copy),
                call(1725, 1730, 4, Waits::Synchronize),
            ],
            ..Records::default()
        };
        let traffic = records.traffic(BLOCK, 7);
        assert_eq!(nanos(&traffic), [1000, 520 - 390, 390, 490]);
        assert_eq!(traffic.from_device.others, Crossed { bytes: 64, copies: 1 });
        assert_eq!(traffic.to_device, By::default());
    }

    /// A copy that does not hold its call up, and then a wait for all.
    #[test]
    fn a_wait_is_for_copies_while_one_runs_and_else_for_kernels() {
        let records = Records {
            copies: vec![copy(1300, 1500, 3, 64)],
            kernels: kernels(&[(1000, 1400), (1600, 1700)]),
            calls: vec![call(1100, 1105, 3, Waits::Copy), call(1200, 1800, 4, Waits::Synchronize)],
            ..Records::default()
        };
        // The first call: five while the kernel ran. The second: 200 to 300 the kernel, 300 to 500 the copy, nothing, then
        // the other kernel.
        assert_eq!(nanos(&records.traffic(BLOCK, 7)), [1000, 200, 5 + 100 + 100, 500]);
    }

    #[test]
    fn only_the_asked_threads_calls_and_only_the_blocks_time_count() {
        let mut other = call(1200, 1800, 4, Waits::Synchronize);
        other.thread = 8;
        let records = Records {
            kernels: kernels(&[(500, 1100), (1900, 2500)]),
            calls: vec![
                call(900, 1050, 1, Waits::Synchronize),
                call(1950, 2400, 2, Waits::Synchronize),
                other,
            ],
            ..Records::default()
        };
        assert_eq!(nanos(&records.traffic(BLOCK, 7)), [1000, 0, 50 + 50, 200]);
    }

    #[test]
    fn our_copies_are_known_by_the_call_of_either_kind() {
        let ours_too = CopyRecord { calls: [9, 5], to_device: true, ..copy(1200, 1300, 0, 10) };
        let records = Records {
            copies: vec![copy(1100, 1200, 4, 1), copy(1100, 1200, 6, 100), ours_too],
            ours: HashSet::from([4, 5]),
            ..Records::default()
        };
        let traffic = records.traffic(BLOCK, 7);
        assert_eq!(traffic.from_device.ours.bytes, 1);
        assert_eq!(traffic.from_device.others, Crossed { bytes: 100, copies: 1 });
        assert_eq!(traffic.to_device.ours, Crossed { bytes: 10, copies: 1 });
    }

    #[test]
    fn a_million_kernels_are_kept_as_the_times_when_any_ran() {
        let mut times = Times::default();
        for n in 0..1_000_000 {
            // Each begins before the one before it ends, except for each thousandth.
            times.push(span(n * 10, n * 10 + if n % 1000 == 999 { 5 } else { 15 }));
        }
        assert!(times.spans.len() < 200_000, "{}", times.spans.len());
        times.merge();
        assert_eq!(times.spans.len(), 1000);
        assert_eq!(times.during(span(0, u64::MAX)), 1000 * 9995);
    }
}
