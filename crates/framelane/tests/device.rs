//! What the device promises, on host threads and simulated: order, events, failures, hazards, counters.

#![cfg(not(loom))]

use framelane::device::{Access, Buffer, Device, Event, Memory, Stream};
use framelane::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Fail instead of hanging.
fn within<T: Send + 'static>(limit: Duration, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || tell.send(body()));
    match told.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("stuck for {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it sends before it ends"),
        },
    }
}

const LONG: Duration = Duration::from_secs(20);

/// Holds a stream until it is opened, or dropped: a test that fails must not wait for its own stream.
#[derive(Default)]
struct Gate(Arc<AtomicBool>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Gate {
    fn hold(&self, stream: &Stream) {
        let open = self.0.clone();
        stream
            .launch("gate", &[], move |_| {
                while !open.load(SeqCst) {
                    std::thread::yield_now();
                }
                Ok(())
            })
            .unwrap();
    }

    fn open(&self) {
        self.0.store(true, SeqCst);
    }
}

fn devices() -> Vec<Device> {
    let mut all = vec![Device::host(), Device::host_checked()];
    all.extend((0..50).map(Device::simulated));
    all
}

fn pinned(device: &Device, bytes: &[u8]) -> Buffer {
    let buffer = device.alloc(bytes.len(), Memory::Pinned).unwrap();
    buffer.write_host().unwrap().copy_from_slice(bytes);
    buffer
}

fn add(stream: &Stream, buffer: &Buffer, by: u8) -> Result<()> {
    stream.launch("add", &[Access::update(buffer, 0..buffer.len())], move |k| {
        k.outputs[0].iter_mut().for_each(|b| *b = b.wrapping_add(by));
        Ok(())
    })
}

fn fill(stream: &Stream, buffer: &Buffer, with: u8) -> Result<()> {
    stream.launch("fill", &[Access::write(buffer, 0..buffer.len())], move |k| {
        k.outputs[0].fill(with);
        Ok(())
    })
}

#[test]
fn work_runs_in_order_and_later_than_the_call() {
    let device = Device::host();
    let stream = device.stream("s").unwrap();
    let gate = Gate::default();
    gate.hold(&stream);
    let log = Arc::new(Mutex::new(Vec::new()));
    for i in 0..100 {
        let log = log.clone();
        stream
            .launch("log", &[], move |_| {
                log.lock().unwrap().push(i);
                Ok(())
            })
            .unwrap();
    }
    let event = stream.record().unwrap();
    assert!(!event.is_done() && event.done_at().is_none());
    assert!(log.lock().unwrap().is_empty());
    gate.open();
    event.synchronize("test").unwrap();
    assert!(event.is_done());
    assert_eq!(*log.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn bytes_go_up_through_a_kernel_and_down() {
    for device in devices() {
        let stream = device.stream("s").unwrap();
        let up = pinned(&device, &[1, 2, 3, 4, 5, 6, 7]);
        let there = device.alloc(10, Memory::Device).unwrap();
        let also = device.alloc(4, Memory::Device).unwrap();
        let down = device.alloc(7, Memory::Pinned).unwrap();
        fill(&stream, &there, 0).unwrap();
        stream.copy(&up, 0..7, &there, 2).unwrap();
        add(&stream, &there, 10).unwrap();
        stream.copy(&there, 2..6, &also, 0).unwrap();
        stream.copy(&there, 2..9, &down, 0).unwrap();
        stream.synchronize("test").unwrap();
        assert_eq!(*down.read_host().unwrap(), [11, 12, 13, 14, 15, 16, 17]);
        let c = device.counters();
        assert_eq!((c.to_device, c.from_device, c.within, c.copies, c.kernels), (7, 7, 4, 3, 2));
        assert_eq!((c.pinned_bytes, c.device_bytes, c.allocations), (14, 14, 4));
        assert_eq!(device.hazards(), []);
    }
}

#[test]
fn a_stream_waits_for_another_streams_event() {
    let device = Device::host();
    let (a, b) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let gate = Gate::default();
    gate.hold(&a);
    let from_a = a.record().unwrap();
    let before = b.record().unwrap();
    b.wait(&from_a).unwrap();
    let after = b.record().unwrap();
    before.synchronize("test").unwrap();
    assert!(!after.synchronize_for("test", Duration::from_millis(20)).unwrap());
    gate.open();
    after.synchronize("test").unwrap();
    assert!(from_a.is_done());
    assert!(after.since(&from_a).is_some() && before.done_at() <= after.done_at());
}

#[test]
fn cpu_waits_are_counted_by_reason() {
    let device = Device::host();
    let stream = device.stream("s").unwrap();
    let gate = Gate::default();
    gate.hold(&stream);
    let event = stream.record().unwrap();
    assert!(!event.synchronize_for("short", Duration::from_millis(5)).unwrap());
    gate.open();
    event.synchronize("long").unwrap();
    let waits = device.counters().cpu_waits;
    assert!(waits["short"].0 == 1 && waits["short"].1 >= Duration::from_millis(5), "{waits:?}");
    // What is done is not waited for. (Before, it may just have been done.)
    let long = waits.get("long").map_or(0, |w| w.0);
    event.synchronize("long").unwrap();
    assert!(long <= 1);
    assert_eq!(device.counters().cpu_waits.get("long").map_or(0, |w| w.0), long);
}

#[test]
fn a_failure_is_told_once_by_the_next_call_and_the_stream_goes_on() {
    for device in devices() {
        let stream = device.stream("s").unwrap();
        let buffer = pinned(&device, &[1]);
        let refuse = |k: &mut framelane::device::Kernel<'_>| -> Result<()> {
            k.outputs[0][0] = 9;
            Err(Error::new(ErrorKind::Model, "refused"))
        };
        let whole = [Access::update(&buffer, 0..1)];
        stream.launch("refuses", &whole, refuse).unwrap();
        let event = stream.record();
        // Simulated work may have run meanwhile: then this call is the next.
        let told = match event {
            Ok(event) => {
                event.synchronize("test").unwrap();
                add(&stream, &buffer, 100).unwrap_err()
            }
            Err(error) => error,
        };
        assert_eq!((told.kind(), told.to_string().as_str()), (ErrorKind::Model, "refused"));
        // The call that told it enqueued nothing; what follows is fine, even on the same memory.
        add(&stream, &buffer, 1).unwrap();
        stream.synchronize("test").unwrap();
        assert_eq!(buffer.read_host().unwrap()[0], 10);

        stream.launch("bad", &whole, |_| panic!("number {}", 7)).unwrap();
        let told = stream.synchronize("test").unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Panic);
        assert!(told.to_string().contains("bad") && told.to_string().contains("number 7"), "{told}");
        add(&stream, &buffer, 1).unwrap();
        stream.synchronize("test").unwrap();
        assert_eq!(buffer.read_host().unwrap()[0], 11);
    }
}

/// It says that the work has ended, not that it did what it should: who waits for it goes on.
#[test]
fn the_event_after_work_that_failed_is_reached() {
    for device in devices() {
        let [fails, waits] = ["fails", "waits"].map(|name| device.stream(name).unwrap());
        let buffer = pinned(&device, &[1]);
        let whole = [Access::update(&buffer, 0..1)];
        fails.launch("refuses", &whole, |_| Err(Error::new(ErrorKind::Model, "refused"))).unwrap();
        // Simulated work may have run meanwhile: then the first call tells of it.
        let event = fails.record().or_else(|_| fails.record()).unwrap();
        waits.wait(&event).unwrap();
        add(&waits, &buffer, 1).unwrap();
        waits.synchronize("test").unwrap();
        assert!(event.is_done());
        assert_eq!(buffer.read_host().unwrap()[0], 2);
    }
}

#[test]
fn synchronize_waits_though_an_earlier_failure_is_told() {
    let device = Device::host();
    let stream = device.stream("s").unwrap();
    let gate = Gate::default();
    gate.hold(&stream);
    stream.launch("fails", &[], |_| Err(Error::new(ErrorKind::Model, "first"))).unwrap();
    let [begun, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (begin, end) = (begun.clone(), done.clone());
    stream
        .launch("slow", &[], move |_| {
            begin.store(true, SeqCst);
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(30) {
                std::hint::spin_loop();
            }
            end.store(true, SeqCst);
            Ok(())
        })
        .unwrap();
    gate.open();
    while !begun.load(SeqCst) {
        std::thread::yield_now();
    }
    assert_eq!(stream.synchronize("test").unwrap_err().to_string(), "first");
    assert!(done.load(SeqCst), "synchronize returned while work was running");
}

#[test]
fn launches_that_make_no_sense_are_refused_and_enqueue_nothing() {
    for device in [Device::host_checked(), Device::simulated(1)] {
        let other = Device::host();
        let stream = device.stream("s").unwrap();
        let a = device.alloc(16, Memory::Device).unwrap();
        let foreign = other.alloc(16, Memory::Device).unwrap();
        let refused = |accesses: &[Access<'_>], says: &str| {
            let error = stream.launch("k", accesses, |_| panic!("it ran")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        };
        refused(&[Access::read(&a, 0..17)], "outside");
        refused(&[Access::write(&a, usize::MAX - 1..usize::MAX)], "outside");
        #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
        refused(&[Access::read(&a, 5..4)], "outside");
        refused(&[Access::read(&a, 0..4), Access::write(&a, 8..12)], "update");
        refused(&[Access::write(&a, 0..4), Access::update(&a, 3..8)], "overlap");
        refused(&[Access::read(&foreign, 0..4)], "another device");
        assert_eq!(stream.copy(&a, 0..8, &a, 8).unwrap_err().kind(), ErrorKind::Argument);
        let b = device.alloc(8, Memory::Device).unwrap();
        assert_eq!(stream.copy(&a, 0..16, &b, 0).unwrap_err().kind(), ErrorKind::Argument);
        assert_eq!(stream.copy(&a, 0..8, &b, usize::MAX).unwrap_err().kind(), ErrorKind::Argument);
        let event = other.stream("o").unwrap().record().unwrap();
        assert_eq!(stream.wait(&event).unwrap_err().kind(), ErrorKind::Argument);
        for device_memory in [a.read_host().err(), a.write_host().err()] {
            assert_eq!(device_memory.unwrap().kind(), ErrorKind::Argument);
        }
        stream.synchronize("test").unwrap();
        let c = device.counters();
        assert_eq!((c.kernels, c.copies), (0, 0));
        assert_eq!(device.hazards(), []);
    }
}

#[test]
fn parts_come_in_the_order_given_and_may_be_empty() {
    for device in devices() {
        let stream = device.stream("s").unwrap();
        let buffer = pinned(&device, &[0; 12]);
        let input = pinned(&device, &[1, 2, 3]);
        let accesses = [
            Access::write(&buffer, 8..12),
            Access::read(&input, 2..3),
            Access::update(&buffer, 5..5),
            Access::write(&buffer, 0..6),
            Access::read(&input, 0..2),
        ];
        stream
            .launch("parts", &accesses, |k| {
                assert_eq!(k.inputs, [&[3][..], &[1, 2]]);
                let lengths: Vec<_> = k.outputs.iter().map(|o| o.len()).collect();
                assert_eq!(lengths, [4, 0, 6]);
                k.outputs[0].fill(8);
                k.outputs[2].fill(1);
                Ok(())
            })
            .unwrap();
        stream.synchronize("test").unwrap();
        assert_eq!(*buffer.read_host().unwrap(), [1, 1, 1, 1, 1, 1, 0, 0, 8, 8, 8, 8]);
        let empty = device.alloc(0, Memory::Device).unwrap();
        stream.copy(&empty, 0..0, &buffer, 12).unwrap();
        stream.synchronize("test").unwrap();
        assert!(empty.is_empty());
    }
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let error = Device::host().alloc(usize::MAX / 2, Memory::Pinned).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert_eq!(Device::host().counters().pinned_bytes, 0);
}

#[test]
fn dropping_a_stream_finishes_its_work_and_joins_it() {
    let device = Device::host();
    let ran = Arc::new(AtomicU32::new(0));
    for _ in 0..50 {
        let stream = device.stream("s").unwrap();
        for _ in 0..20 {
            let ran = ran.clone();
            stream
                .launch("count", &[], move |_| {
                    ran.fetch_add(1, SeqCst);
                    Ok(())
                })
                .unwrap();
        }
    }
    assert_eq!(ran.load(SeqCst), 1000);
    assert_eq!(device.counters().streams, 0);

    let stream = device.stream("slow").unwrap();
    stream
        .launch("slow", &[], |_| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            Ok(())
        })
        .unwrap();
    drop(stream);
    let waited = device.counters().cpu_waits["end of a stream"];
    assert!(waited.0 >= 1 && waited.1 >= Duration::from_millis(10), "{waited:?}");
}

#[test]
fn a_streams_work_may_hold_the_last_handle_of_any_stream() {
    within(LONG, || {
        let device = Device::host();
        for _ in 0..200 {
            let a = device.stream("a").unwrap();
            let b = device.stream("b").unwrap();
            let gate = Gate::default();
            gate.hold(&a);
            // Its own last handle, and that of a stream which waits for what comes later on this one.
            let (own, other) = (a.clone(), b.clone());
            a.launch("drops handles", &[], move |_| {
                drop(own);
                drop(other);
                Ok(())
            })
            .unwrap();
            let later = a.record().unwrap();
            b.wait(&later).unwrap();
            let last = b.record().unwrap();
            drop((a, b));
            gate.open();
            last.synchronize("test").unwrap();
        }
        let start = Instant::now();
        while device.counters().streams > 0 {
            assert!(start.elapsed() < LONG, "threads were left: {:?}", device.counters());
            std::thread::yield_now();
        }
    });
}

#[test]
fn many_streams_in_a_chain() {
    for device in [Device::host(), Device::host_checked(), Device::simulated(3)] {
        let buffer = pinned(&device, &[0; 8]);
        let streams: Vec<_> = (0..64).map(|i| device.stream(format!("s{i}")).unwrap()).collect();
        let mut last: Option<Event> = None;
        for stream in streams.iter().cycle().take(200) {
            if let Some(event) = &last {
                stream.wait(event).unwrap();
            }
            add(stream, &buffer, 1).unwrap();
            last = Some(stream.record().unwrap());
        }
        last.unwrap().synchronize("test").unwrap();
        assert_eq!(*buffer.read_host().unwrap(), [200; 8]);
    }
}

#[test]
fn counters_come_back_to_the_start() {
    for device in devices() {
        for round in 1..=5 {
            let stream = device.stream("s").unwrap();
            let up = pinned(&device, &[1; 100]);
            let there = device.alloc(100, Memory::Device).unwrap();
            stream.copy(&up, 0..100, &there, 0).unwrap();
            // Held by the work enqueued, until it is done.
            drop((up, there));
            stream.synchronize("test").unwrap();
            drop(stream);
            let c = device.counters();
            assert_eq!((c.pinned_bytes, c.device_bytes, c.streams), (0, 0, 0));
            assert_eq!((c.streams_made, c.allocations), (round, 2 * round));
        }
    }
    let device = Device::host();
    let guard = pinned(&device, &[1; 100]).read_host().unwrap();
    assert_eq!(device.counters().pinned_bytes, 100, "memory that is still read is still held");
    drop(guard);
    assert_eq!(device.counters().pinned_bytes, 0);
}

#[test]
fn kernels_with_opposite_buffers_never_deadlock() {
    within(LONG, || {
        let device = Device::host();
        let buffers: Vec<_> = (0..3).map(|_| device.alloc(64, Memory::Device).unwrap()).collect();
        let streams: Vec<_> = (0..3).map(|i| device.stream(format!("s{i}")).unwrap()).collect();
        for i in 0..9000 {
            let (stream, first) = (&streams[i % 3], i % 3);
            let second = (i + 1 + i / 9 % 2) % 3;
            let accesses = match i % 4 {
                0 => [Access::read(&buffers[first], 0..64), Access::write(&buffers[second], 0..64)],
                1 => [Access::update(&buffers[second], 0..64), Access::read(&buffers[first], 0..64)],
                2 => [Access::read(&buffers[second], 0..64), Access::read(&buffers[first], 0..64)],
                _ => [Access::write(&buffers[first], 0..64), Access::write(&buffers[second], 0..64)],
            };
            stream.launch("both", &accesses, |_| Ok(())).unwrap();
        }
        for stream in &streams {
            stream.synchronize("test").unwrap();
        }
    });
}

#[test]
fn a_kernel_must_not_wait_for_its_device() {
    for device in [Device::host(), Device::simulated(5)] {
        let stream = device.stream("s").unwrap();
        let (own, other) = (stream.clone(), device.clone());
        stream
            .launch("waits", &[], move |_| {
                // Enqueueing is fine, and so is asking.
                other.alloc(8, Memory::Pinned)?.write_host()?.fill(0);
                own.record()?.synchronize("never")
            })
            .unwrap();
        assert_eq!(stream.synchronize("test").unwrap_err().kind(), ErrorKind::Argument);
        assert!(!device.counters().cpu_waits.contains_key("never"));
    }
}

mod hazards {
    use super::*;

    fn both() -> [Device; 2] {
        [Device::host_checked(), Device::simulated(11)]
    }

    fn hazard(result: Result<()>, parts: &[&str]) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Hazard, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{error}: no {part:?}");
        }
    }

    #[test]
    fn unordered_writes_name_both_sides() {
        for device in both() {
            let (a, b) = (device.stream("left").unwrap(), device.stream("right").unwrap());
            let buffer = device.alloc(8, Memory::Device).unwrap();
            fill(&a, &buffer, 1).unwrap();
            // That the work happens to be done already orders nothing.
            device.run_until_idle();
            hazard(add(&b, &buffer, 1), &["\"add\" on \"right\"", "\"fill\" on \"left\"", "0..8"]);
            let [found] = &device.hazards()[..] else { panic!("{:?}", device.hazards()) };
            assert_eq!((&*found.earlier.stream, &*found.earlier.work), ("left", "fill"));
            assert_eq!((&*found.later.stream, &*found.later.work), ("right", "add"));
            assert!(found.earlier_writes && found.later_writes);
            assert_eq!(found.bytes, (0, 8));
        }
    }

    #[test]
    fn what_is_ordered_or_apart_is_no_hazard() {
        for device in both() {
            let [a, b, c] = ["a", "b", "c"].map(|n| device.stream(n).unwrap());
            let buffer = device.alloc(8, Memory::Device).unwrap();
            let part = |stream: &Stream, range: std::ops::Range<usize>| {
                stream.launch("part", &[Access::update(&buffer, range)], |_| Ok(()))
            };
            part(&a, 0..4).unwrap();
            part(&b, 4..8).unwrap();
            // Through a third stream.
            c.wait(&a.record().unwrap()).unwrap();
            c.wait(&b.record().unwrap()).unwrap();
            let all = c.record().unwrap();
            b.wait(&all).unwrap();
            part(&b, 0..8).unwrap();
            // Reads do not disturb reads, but a write must wait for each.
            let read = |stream: &Stream| stream.launch("read", &[Access::read(&buffer, 0..8)], |_| Ok(()));
            let written = b.record().unwrap();
            a.wait(&written).unwrap();
            c.wait(&written).unwrap();
            read(&a).unwrap();
            read(&c).unwrap();
            b.wait(&a.record().unwrap()).unwrap();
            hazard(part(&b, 7..8), &["\"read\" on \"c\"", "7..8"]);
            b.wait(&c.record().unwrap()).unwrap();
            part(&b, 7..8).unwrap();
        }
    }

    #[test]
    fn work_that_was_refused_touches_nothing() {
        for device in both() {
            let [a, b, c] = ["a", "b", "c"].map(|n| device.stream(n).unwrap());
            let buffer = device.alloc(8, Memory::Device).unwrap();
            fill(&a, &buffer, 1).unwrap();
            hazard(add(&b, &buffer, 1), &["fill"]);
            c.wait(&a.record().unwrap()).unwrap();
            add(&c, &buffer, 1).unwrap();
        }
    }

    #[test]
    fn the_cpu_is_one_of_those_to_order() {
        for device in both() {
            let stream = device.stream("s").unwrap();
            let buffer = device.alloc(8, Memory::Pinned).unwrap();
            fill(&stream, &buffer, 1).unwrap();
            hazard(buffer.read_host().map(drop), &["\"cpu\"", "\"fill\" on \"s\"", "synchronize"]);
            let event = stream.record().unwrap();
            event.synchronize("test").unwrap();
            assert_eq!(*buffer.read_host().unwrap(), [1; 8]);
            // Work that reads does not keep the CPU from reading.
            stream.launch("read", &[Access::read(&buffer, 0..8)], |_| Ok(())).unwrap();
            drop(buffer.read_host().unwrap());
            hazard(buffer.write_host().map(drop), &["\"read\" on \"s\""]);
            stream.synchronize("test").unwrap();
            buffer.write_host().unwrap().fill(2);
            // However the CPU learns of it.
            fill(&stream, &buffer, 3).unwrap();
            let event = stream.record().unwrap();
            while event.done_at().is_none() {
                device.run_until_idle();
            }
            assert_eq!(*buffer.read_host().unwrap(), [3; 8]);
        }
    }

    #[test]
    fn memory_that_the_cpu_still_holds_cannot_be_worked_on() {
        for device in both() {
            let stream = device.stream("s").unwrap();
            let buffer = pinned(&device, &[1; 8]);
            let there = device.alloc(8, Memory::Device).unwrap();
            let writing = buffer.write_host().unwrap();
            hazard(stream.copy(&buffer, 0..8, &there, 0), &["\"cpu\"", "drop what"]);
            drop(writing);
            let reading = [buffer.read_host().unwrap(), buffer.read_host().unwrap()];
            stream.copy(&buffer, 0..8, &there, 0).unwrap();
            hazard(fill(&stream, &buffer, 1), &["\"cpu\"", "drop what"]);
            let [one, _two] = reading;
            drop(one);
            hazard(fill(&stream, &buffer, 1), &["\"cpu\""]);
            drop(_two);
            fill(&stream, &buffer, 1).unwrap();
        }
    }

    #[test]
    fn the_simulated_device_says_that_it_is_stuck() {
        let device = Device::simulated_unchecked(1);
        let stream = device.stream("s").unwrap();
        let buffer = pinned(&device, &[1; 8]);
        let held = buffer.read_host().unwrap();
        fill(&stream, &buffer, 2).unwrap();
        let event = stream.record().unwrap();
        let error = event.synchronize("test").unwrap_err();
        assert!(error.to_string().contains("stuck"), "{error}");
        drop(held);
        event.synchronize("test").unwrap();
        assert_eq!(*buffer.read_host().unwrap(), [2; 8]);
    }
}

mod simulated {
    use super::*;

    /// Three streams note when their work runs.
    fn order(seed: u64) -> Vec<usize> {
        let device = Device::simulated(seed);
        let log = Arc::new(Mutex::new(Vec::new()));
        let streams = [0, 1, 2].map(|i| device.stream(format!("s{i}")).unwrap());
        for i in 0..30 {
            let log = log.clone();
            streams[i % 3]
                .launch("log", &[], move |_| {
                    log.lock().unwrap().push(i);
                    Ok(())
                })
                .unwrap();
        }
        device.run_until_idle();
        let order = log.lock().unwrap().clone();
        for stream in 0..3 {
            assert!(order.iter().filter(|&&i| i % 3 == stream).is_sorted());
        }
        order
    }

    #[test]
    fn a_seed_is_an_interleaving() {
        assert_eq!(order(7), order(7));
        let different: std::collections::HashSet<_> = (0..100).map(order).collect();
        assert!(different.len() > 90, "only {} of 100 seeds differ", different.len());
    }

    #[test]
    fn what_was_not_written_is_poison() {
        let device = Device::simulated(2);
        let stream = device.stream("s").unwrap();
        let buffer = device.alloc(4, Memory::Pinned).unwrap();
        assert_eq!(*buffer.read_host().unwrap(), [0xA5; 4]);
        buffer.write_host().unwrap().fill(1);
        stream
            .launch("forgets half", &[Access::write(&buffer, 1..4)], |k| {
                k.outputs[0][0] = 2;
                Ok(())
            })
            .unwrap();
        stream.synchronize("test").unwrap();
        assert_eq!(*buffer.read_host().unwrap(), [1, 2, 0xA5, 0xA5]);
    }

    #[test]
    fn several_threads_may_drive_it() {
        within(LONG, || {
            let device = Device::simulated(9);
            std::thread::scope(|scope| {
                for t in 0..3 {
                    let device = &device;
                    scope.spawn(move || {
                        let stream = device.stream(format!("s{t}")).unwrap();
                        let buffer = pinned(device, &[0; 64]);
                        for i in 1..=300 {
                            add(&stream, &buffer, 1).unwrap();
                            stream.synchronize("test").unwrap();
                            assert_eq!(*buffer.read_host().unwrap(), [i as u8; 64]);
                        }
                    });
                }
            });
        });
    }
}
