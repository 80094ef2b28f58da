//! What the ring and the device cost per call, on the host: `cargo bench -p framelane --bench ring`.
//!
//! Uncontended operations are timed in rounds of 500, of which the median is told (the mean of all would be
//! that of whatever else the machine does), and one by one less the clock's own cost, for the p99.
//! Target: at most 200 ns per ring operation.

use framelane::device::{Access, Device, Memory};
use framelane::ring::{self, Options, Policy};
use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TARGET_NS: f64 = 200.0;

fn main() {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, {}, framelane {}", today(), env!("CARGO_PKG_VERSION"));
    let clock = clock_cost();
    println!("the clock itself: {clock:.0} ns a reading\n");

    println!("{:<58} {:>9} {:>9} {:>9}", "uncontended, ns per operation", "in rounds", "median", "p99");
    let mut worst: f64 = 0.0;
    for (policy, depth) in [(Policy::Fifo, 2), (Policy::Fifo, 8), (Policy::Latest, 3)] {
        worst = worst.max(uncontended(policy, depth, clock));
    }
    let verdict = if worst <= TARGET_NS { "met" } else { "MISSED" };
    println!("target: both medians at most {TARGET_NS:.0} ns per operation: {verdict}\n");

    println!("{:<58} {:>9} {:>9}", "contended, two threads", "items/s", "ns/item");
    for depth in [1, 2, 8] {
        contended(Policy::Fifo, depth, 1);
    }
    contended(Policy::Fifo, 8, 2);
    contended(Policy::Latest, 3, 1);

    println!(
        "\n{:<58} {:>9} {:>9} {:>9}",
        "device, ns per call on the calling thread", "in rounds", "median", "p99"
    );
    for (name, device) in [("host", Device::host()), ("host, hazard check on", Device::host_checked())] {
        launches(name, &device, clock);
    }
}

/// The median round's mean of a call, and the median and p99 of single calls.
struct Costs {
    round: f64,
    median: f64,
    p99: f64,
}

impl Costs {
    /// `calls` calls of `body` in rounds, then as many one by one. `clock` is taken off each of these.
    fn of(calls: usize, clock: f64, mut body: impl FnMut()) -> Self {
        for _ in 0..calls / 10 {
            body();
        }
        const ROUND: usize = 500;
        let mut rounds: Vec<f64> = (0..calls / ROUND)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..ROUND {
                    body();
                }
                start.elapsed().as_nanos() as f64 / ROUND as f64
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        let mut each: Vec<f64> = (0..calls)
            .map(|_| {
                let start = Instant::now();
                body();
                (start.elapsed().as_nanos() as f64 - clock).max(0.0)
            })
            .collect();
        each.sort_by(f64::total_cmp);
        Self { round: rounds[rounds.len() / 2], median: each[calls / 2], p99: each[calls * 99 / 100] }
    }

    fn print(&self, name: &str, per: f64) {
        println!("{name:<58} {:>9.0} {:>9.0} {:>9.0}", self.round / per, self.median / per, self.p99 / per);
    }
}

fn clock_cost() -> f64 {
    let start = Instant::now();
    for _ in 0..100_000 {
        black_box(Instant::now());
    }
    start.elapsed().as_nanos() as f64 / 100_000.0
}

/// Acquire, publish, take and release: four operations. The larger of the two medians.
fn uncontended(policy: Policy, depth: usize, clock: f64) -> f64 {
    let (writer, reader) =
        ring::ring(Options::fixed("bench", policy, depth), |i| Ok(i as u64)).expect("a ring of numbers");
    let costs = Costs::of(200_000, clock, || {
        let slot = writer.acquire().expect("somebody reads");
        slot.publish((), 1_u64);
        let lease = reader.take().expect("nothing failed").expect("somebody writes");
        black_box(*lease.meta());
        drop(lease);
    });
    costs.print(&format!("{policy:?} of {depth}: acquire + publish + take + release, each"), 4.0);
    costs.round.max(costs.median) / 4.0
}

/// A writer and `readers` readers, as fast as they can, for a while.
fn contended(policy: Policy, depth: usize, readers: usize) {
    const TIME: Duration = Duration::from_millis(500);
    let (writer, reader) =
        ring::ring(Options::fixed("bench", policy, depth), |i| Ok(i as u64)).expect("a ring of numbers");
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let reader = reader.clone();
            scope.spawn(move || {
                while let Ok(Some(lease)) = reader.take() {
                    black_box(*lease.meta());
                }
            });
        }
        scope.spawn(move || {
            while start.elapsed() < TIME {
                writer.acquire().expect("somebody reads").publish((), 1_u64);
            }
        });
    });
    let counts = reader.counts();
    let (seconds, published) = (start.elapsed().as_secs_f64(), counts.published as f64);
    println!(
        "{:<58} {:>9.0} {:>9.0}",
        format!(
            "{policy:?} of {depth}, {readers} reading ({:.0} % read)",
            100.0 * counts.taken as f64 / published
        ),
        published / seconds,
        seconds * 1e9 / published
    );
}

fn launches(name: &str, device: &Device, clock: f64) {
    const CALLS: usize = 20_000;
    let stream = device.stream("bench").expect("a thread");
    let [a, b] = [(); 2].map(|()| device.alloc(64, Memory::Device).expect("a few bytes"));
    let costs = Costs::of(CALLS, clock, || {
        let accesses = [Access::read(&a, 0..64), Access::write(&b, 0..64)];
        stream.launch("nothing", &accesses, |_| Ok(())).expect("it is in order");
    });
    costs.print(&format!("{name}: launch"), 1.0);
    stream.synchronize("bench").expect("nothing failed");
    let costs = Costs::of(CALLS, clock, || {
        black_box(stream.record().expect("nothing failed"));
    });
    costs.print(&format!("{name}: record"), 1.0);
    stream.synchronize("bench").expect("nothing failed");
    let event = stream.record().expect("nothing failed");
    let costs = Costs::of(CALLS, clock, || stream.wait(&event).expect("nothing failed"));
    costs.print(&format!("{name}: wait"), 1.0);
    stream.synchronize("bench").expect("nothing failed");
    let costs = Costs::of(CALLS / 10, clock, || {
        stream.launch("nothing", &[], |_| Ok(())).expect("it is in order");
        stream.synchronize("bench").expect("nothing failed");
    });
    costs.print(&format!("{name}: launch + synchronize (there and back)"), 1.0);
}

/// The date, UTC (days to civil: Hinnant 2013).
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
}
