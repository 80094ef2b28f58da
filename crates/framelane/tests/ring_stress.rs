//! The ring over real device threads: writer, readers and streams race for real, with small random delays.

#![cfg(not(loom))]

use framelane::device::{Access, Buffer, Device, Event, Memory, Stream};
use framelane::ring::{self, Counts, Options, Policy, TryTake};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const BYTES: usize = 4096;
const TIME: Duration = Duration::from_millis(300);

type Lease = ring::ReadLease<Buffer, Event, u64>;

/// SplitMix64's mixing step (Steele, Lea and Flood 2014): a number from a number.
fn mix(n: u64) -> u64 {
    let z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 27)
}

/// Spin, most often not at all, at times for up to 60 µs.
fn delay(n: u64) {
    let spins = if mix(n).is_multiple_of(8) { mix(n ^ 77) % 60 } else { 0 };
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(spins) {
        std::hint::spin_loop();
    }
}

fn fill(bytes: &mut [u8], frame: u64) {
    for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(frame << 16 | i as u64).to_le_bytes());
    }
}

fn is_frame(bytes: &[u8], frame: u64) -> bool {
    bytes.chunks_exact(8).enumerate().all(|(i, chunk)| chunk == mix(frame << 16 | i as u64).to_le_bytes())
}

/// Let `stream` check the bytes of a lease, after a while.
fn check(stream: &Stream, lease: &Lease, wrong: &Arc<AtomicU64>) -> Event {
    let (frame, wrong) = (*lease.meta(), wrong.clone());
    stream.wait(lease.ready()).unwrap();
    stream
        .launch("check", &[Access::read(lease.payload(), 0..BYTES)], move |k| {
            delay(frame);
            if !is_frame(k.inputs[0], frame) {
                wrong.fetch_add(1, SeqCst);
            }
            Ok(())
        })
        .unwrap();
    stream.record().unwrap()
}

/// One writer thread with a stream, `readers` threads with two streams each, for a while. The writer ends
/// the run, or (`cancels`) a reader does.
fn race(device: &Device, policy: Policy, depth: usize, readers: usize, cancels: bool) -> Counts {
    let maker = device.clone();
    let options = Options::fixed("stress", policy, depth);
    let (writer, reader) = ring::ring(options, move |_| maker.alloc(BYTES, Memory::Device)).unwrap();
    let wrong = Arc::new(AtomicU64::new(0));
    let watch = reader.clone();
    let (taken, handed_back) = std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let stream = device.stream("writer").unwrap();
            let start = Instant::now();
            let mut handed_back = 0;
            for frame in 0.. {
                if !cancels && start.elapsed() > TIME {
                    break;
                }
                let Ok(mut slot) = writer.acquire() else { break };
                handed_back += slot.take_replaced().iter().count() as u64;
                for fence in slot.wait_for() {
                    stream.wait(fence).unwrap();
                }
                stream
                    .launch("fill", &[Access::write(slot.payload(), 0..BYTES)], move |k| {
                        delay(frame);
                        fill(k.outputs[0], frame);
                        Ok(())
                    })
                    .unwrap();
                let ready = stream.record().unwrap();
                handed_back += slot.publish(ready, frame).iter().count() as u64;
                // A thread that runs ahead of its stream for ever would fill memory with work.
                if frame % 64 == 0 {
                    stream.synchronize("stress").unwrap();
                }
            }
            handed_back
        });
        let reading: Vec<_> = (0..readers)
            .map(|r| {
                let (reader, wrong) = (&reader, &wrong);
                scope.spawn(move || {
                    let streams = ["near", "far"].map(|name| device.stream(name).unwrap());
                    let start = Instant::now();
                    let (mut taken, mut handed_back) = (Vec::new(), 0);
                    loop {
                        if cancels && start.elapsed() > TIME {
                            handed_back += if r == 0 { reader.cancel().len() as u64 } else { 0 };
                            break;
                        }
                        let asks = policy == Policy::Latest && taken.len() % 2 == 0;
                        let lease = match asks {
                            true => match reader.try_take().unwrap() {
                                TryTake::Lease(lease) => Some(lease),
                                TryTake::End => None,
                                TryTake::Empty => {
                                    std::thread::yield_now();
                                    continue;
                                }
                            },
                            false => reader.take().unwrap(),
                        };
                        let Some(mut lease) = lease else { break };
                        handed_back += lease.take_skipped().len() as u64;
                        taken.push(*lease.meta());
                        for stream in &streams[..1 + taken.len() % 2] {
                            let fence = check(stream, &lease, wrong);
                            lease.add_fence(fence);
                        }
                    }
                    assert!(taken.is_sorted_by(|a, b| a < b), "out of order");
                    (taken, handed_back)
                })
            })
            .collect();
        let mut taken = Vec::new();
        let mut handed_back = 0;
        for thread in reading {
            let (some, back) = thread.join().unwrap();
            taken.extend(some);
            handed_back += back;
        }
        (taken, handed_back + writing.join().unwrap())
    });
    // Every stream has ended, and so has all that it had to check.
    assert_eq!(wrong.load(SeqCst), 0, "{policy:?} of {depth}: wrong bytes");
    let counts = watch.counts();
    assert_eq!((counts.published, counts.taken), (counts.taken + counts.dropped, taken.len() as u64));
    assert_eq!(handed_back, counts.dropped);
    let occupancy = watch.occupancy();
    assert_eq!(occupancy.free, depth, "{occupancy}");
    let mut unique = taken;
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len() as u64, counts.taken, "one filling was read twice");
    eprintln!("{policy:?} of {depth}, {readers} readers: {counts:?}");
    counts
}

fn races(policy: Policy, depths: &[usize]) {
    let device = Device::host();
    for &depth in depths {
        for (readers, cancels) in [(1, false), (2, false), (2, true)] {
            let counts = race(&device, policy, depth, readers, cancels);
            assert!(counts.taken > 10, "hardly anything happened: {counts:?}");
            assert!(policy == Policy::Latest || cancels || counts.dropped == 0);
        }
    }
    let c = device.counters();
    assert_eq!((c.streams, c.device_bytes), (0, 0));
}

#[test]
fn fifo() {
    races(Policy::Fifo, &[1, 2, 3, 8]);
}

#[test]
fn latest() {
    races(Policy::Latest, &[2, 3, 8]);
}

/// The hazard check holds its own under real threads: nothing is reported that is in order.
#[test]
fn checked() {
    let device = Device::host_checked();
    for policy in [Policy::Fifo, Policy::Latest] {
        race(&device, policy, 3, 2, false);
    }
    assert_eq!(device.hazards(), []);
}

/// Leave at each moment and drop everything, a thousand times: nothing is left behind.
#[test]
fn leaving_at_any_moment_leaves_nothing() {
    let device = Device::host();
    for round in 0..1000_usize {
        let maker = device.clone();
        let options = Options::fixed("left", Policy::Fifo, 1 + round % 3);
        let (writer, reader) = ring::ring(options, move |_| maker.alloc(BYTES, Memory::Device)).unwrap();
        std::thread::scope(|scope| {
            let device = &device;
            scope.spawn(move || {
                let stream = device.stream("writer").unwrap();
                while let Ok(slot) = writer.acquire() {
                    slot.wait_for().iter().for_each(|fence| stream.wait(fence).unwrap());
                    let all = [Access::write(slot.payload(), 0..BYTES)];
                    stream.launch("fill", &all, |_| Ok(())).unwrap();
                    slot.publish(stream.record().unwrap(), 0_u64);
                }
            });
            let kept: Vec<_> = (0..round % 4)
                .map_while(|_| {
                    // With every slot kept, no more can come.
                    (reader.occupancy().leased.len() < 1 + round % 3).then(|| reader.take().unwrap())
                })
                .collect();
            drop(reader);
            delay(round as u64);
            drop(kept);
        });
    }
    let c = device.counters();
    assert_eq!((c.streams, c.streams_made, c.device_bytes), (0, 1000, 0));
}
