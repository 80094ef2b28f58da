//! End, error, panic, cancel, drop: one orderly stop, whatever the moment.

mod common;

use common::*;
use framelane::device::Device;
use framelane::feed::{Feeder, Options, Pump, Pumped, SlotWriter, Source};
use framelane::{Batch, Error, ErrorKind, Result};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// The batches before `at`, then the error, once, then the end for ever; and no thread that stays.
fn assert_fails_at(feeder: Feeder, at: u64, panics: bool, context: &str) {
    let (numbers, error) = drain(&feeder);
    assert!(numbers.iter().copied().eq(0..at), "{context}: {numbers:?}");
    let error = error.unwrap_or_else(|| panic!("{context}: no error came"));
    let (kind, text) = match panics {
        true => (ErrorKind::Panic, format!("batch {at} is cursed")),
        false => (ErrorKind::Input, format!("batch {at} is damaged")),
    };
    assert_eq!(error.kind(), kind, "{context}: {error}");
    assert!(error.to_string().contains(&text), "{context}: {error}");
    // F10: never an old batch again.
    for _ in 0..3 {
        assert!(feeder.next_batch().unwrap().is_none(), "{context}");
        assert_eq!(feeder.try_next_batch().unwrap_err().kind(), ErrorKind::Closed, "{context}");
        assert!(feeder.next_batch_for(ms(1)).unwrap().is_none(), "{context}");
    }
    let start = Instant::now();
    feeder.cancel(SECOND).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert!(start.elapsed() < SECOND, "{context}");
}

#[test]
fn f9_source_fails_or_panics() {
    const COUNT: u64 = 12;
    for depth in [1, 2, 3] {
        for at in [0, 1, depth, depth + 1, COUNT - 1] {
            for panics in [false, true] {
                let context = format!("depth {depth}, batch {at}, panics {panics}");
                let twist = || if panics { Twist::Panic(at) } else { Twist::Fail(at) };
                let options = || options("f9", depth as usize);
                let device = device();
                let source = Numbers::new(COUNT).twist(twist());
                let feeder = Feeder::new(&device, source, options()).unwrap();
                assert_fails_at(feeder, at, panics, &context);

                for threads in [1, 2, 8] {
                    let context = format!("{context}, {threads} converters");
                    let fail = move |number: u64| match (number == at, panics) {
                        (true, true) => panic!("batch {at} is cursed"),
                        (true, false) => Err(Error::new(ErrorKind::Input, format!("batch {at} is damaged"))),
                        _ => Ok(number),
                    };
                    // In the items, and in their conversion.
                    let items = (0..COUNT).map(fail);
                    let feeder = Feeder::converting(&device, items, threads, put_ragged, options()).unwrap();
                    assert_fails_at(feeder, at, panics, &format!("{context}, items"));
                    let convert = move |number, slot: &mut SlotWriter<'_>| put_ragged(fail(number)?, slot);
                    let items = (0..COUNT).map(Ok);
                    let feeder = Feeder::converting(&device, items, threads, convert, options()).unwrap();
                    assert_fails_at(feeder, at, panics, &format!("{context}, convert"));
                }

                let device = Device::simulated(at);
                let source = Numbers::new(COUNT).twist(twist());
                let mut pump = Pump::new(&device, source, options()).unwrap();
                let mut numbers = Vec::new();
                let error = loop {
                    pump.step().unwrap();
                    match pump.try_next_batch() {
                        Ok(batch) => numbers.extend(batch.map(|b| b.index())),
                        Err(error) => break error,
                    }
                };
                assert!(numbers.iter().copied().eq(0..at), "{context}: {numbers:?}");
                assert_eq!(
                    error.kind(),
                    if panics { ErrorKind::Panic } else { ErrorKind::Input },
                    "{context}"
                );
                for _ in 0..3 {
                    assert_eq!(pump.step().unwrap(), Pumped::Ended);
                    assert_eq!(pump.try_next_batch().unwrap_err().kind(), ErrorKind::Closed);
                }
            }
        }
    }
}

/// After the error another epoch may be tried; it begins with batch 0 and not with what was left over.
#[test]
fn f10_a_new_epoch_after_an_error_is_new() {
    let device = device();
    let source = Numbers::new(9).twist(Twist::Fail(5));
    let feeder = Feeder::new(&device, source, options("f10", 3)).unwrap();
    for _ in 0..3 {
        let (numbers, error) = drain(&feeder);
        assert_eq!((numbers, error.unwrap().kind()), (vec![0, 1, 2, 3, 4], ErrorKind::Input));
        assert!(feeder.rewind().unwrap());
    }
}

#[test]
fn f12_consumer_panics() {
    // In the process: dropping the feeder while unwinding is an orderly stop.
    let device = device();
    for interruptible in [false, true] {
        let gate = Gate::new();
        let source = Numbers { interruptible, ..Numbers::new(9).twist(Twist::Block(3, gate.clone())) };
        let their = device.clone();
        let start = Instant::now();
        let consumer = std::thread::spawn(move || {
            let stream = their.stream("consumer").unwrap();
            let feeder = Feeder::new(&their, source, options("f12", 2)).unwrap();
            let batch = feeder.next_batch().unwrap().unwrap();
            batch.on(&stream).unwrap();
            delay(&stream, ms(5)).unwrap();
            panic!("the consumer is done for with {batch:?} in its hands");
        });
        assert!(consumer.join().is_err());
        let took = start.elapsed();
        // Uninterruptible: the second that is given to it, and no more.
        assert!(took < if interruptible { ms(900) } else { ms(1900) }, "{took:?}");
        gate.open();
    }
    assert!(eventually(SECOND, || held(&device) == (0, 0, 0)), "{:?}", device.counters());
}

/// This test again, in a process of its own, as the one to be killed or to panic.
fn child(test: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("FRAMELANE_TEST_CHILD", test)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn is_child(test: &str) -> bool {
    std::env::var("FRAMELANE_TEST_CHILD").is_ok_and(|t| t == test)
}

/// Read lines until one says `what`.
fn await_line(out: &mut impl BufRead, what: &str) {
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 {
        if line.contains(what) {
            return;
        }
        line.clear();
    }
    panic!("the child ended without saying {what:?}");
}

#[test]
fn f12_a_process_whose_consumer_panics_ends() {
    const NAME: &str = "f12_a_process_whose_consumer_panics_ends";
    if is_child(NAME) {
        let device = device();
        let feeder = Feeder::new(&device, Numbers::new(u64::MAX), options("f12", 2)).unwrap();
        for batch in &feeder {
            if batch.unwrap().index() == 20 {
                println!("panicking");
                panic!("as planned");
            }
        }
    }
    let mut process = child(NAME);
    let mut out = BufReader::new(process.stdout.take().unwrap());
    await_line(&mut out, "panicking");
    let start = Instant::now();
    let status = process.wait().unwrap();
    assert!(!status.success());
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}

#[test]
fn f22_killed_and_started_again() {
    const NAME: &str = "f22_killed_and_started_again";
    if is_child(NAME) {
        let device = device();
        let feeder = Feeder::new(&device, Numbers::new(u64::MAX), options("f22", 2)).unwrap();
        for batch in &feeder {
            let index = batch.unwrap().index();
            if index == 50 {
                println!("feeding");
            }
        }
    }
    for _ in 0..3 {
        let mut process = child(NAME);
        let mut out = BufReader::new(process.stdout.take().unwrap());
        await_line(&mut out, "feeding");
        // SIGKILL on Unix, TerminateProcess on Windows.
        process.kill().unwrap();
        assert!(!process.wait().unwrap().success());
    }
}

#[test]
fn f13_a_source_that_blocks_is_named() {
    let device = device();
    let gate = Gate::new();
    let source = Numbers::new(9).twist(Twist::Block(2, gate.clone()));
    let feeder = Feeder::new(&device, source, options("f13", 4)).unwrap();
    assert_eq!(feeder.next_batch().unwrap().unwrap().index(), 0);
    assert_eq!(feeder.next_batch().unwrap().unwrap().index(), 1);
    gate.await_comer();
    let start = Instant::now();
    let stuck = feeder.cancel(ms(60)).unwrap_err();
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    assert_eq!(stuck.kind(), ErrorKind::Timeout);
    assert!(stuck.to_string().contains("f13") && stuck.to_string().contains("source"), "{stuck}");
    // The consumer is not held up by it, and it stops as soon as it can.
    assert!(feeder.next_batch().unwrap().is_none());
    gate.open();
    feeder.cancel(SECOND).unwrap();
}

#[test]
fn f13_an_interrupted_source_stops() {
    let device = device();
    let gate = Gate::new();
    let source = Numbers { interruptible: true, ..Numbers::new(9).twist(Twist::Block(2, gate.clone())) };
    let feeder = Feeder::new(&device, source, options("f13", 4)).unwrap();
    feeder.next_batch().unwrap();
    gate.await_comer();
    feeder.cancel(SECOND).unwrap();
    assert!(feeder.next_batch().unwrap().is_none());
    // Also for ever and ever.
    feeder.cancel(Duration::MAX).unwrap();
}

#[test]
fn f13_a_blocked_iterator_or_converter_is_named() {
    let device = device();
    for pinned_slots in [None, Some(1), Some(20)] {
        let (gate, other_gate) = (Gate::new(), Gate::new());
        let options = Options { pinned_slots, ..options("f13", 2) };
        let wait = gate.clone();
        let items = (0..9).map(move |n| {
            if n == 3 {
                wait.pass();
            }
            Ok(n)
        });
        let feeder = Feeder::converting(&device, items, 2, put_ragged, options.clone()).unwrap();
        for _ in 0..3 {
            feeder.next_batch().unwrap();
        }
        gate.await_comer();
        let stuck = feeder.cancel(ms(50)).unwrap_err().to_string();
        assert!(stuck.contains("source"), "{stuck}");
        let iterating = feeder;

        let wait = other_gate.clone();
        let convert = move |number, slot: &mut SlotWriter<'_>| {
            wait.pass();
            put_ragged(number, slot)
        };
        let feeder = Feeder::converting(&device, (0..50).map(Ok), 2, convert, options).unwrap();
        other_gate.await_comer();
        assert_eq!(feeder.next_batch_for(ms(30)).unwrap_err().kind(), ErrorKind::Timeout);
        let stuck = feeder.cancel(ms(50)).unwrap_err().to_string();
        assert!(stuck.contains("converter"), "{pinned_slots:?}: {stuck}");
        gate.open();
        other_gate.open();
        feeder.cancel(SECOND).unwrap();
        iterating.cancel(SECOND).unwrap();
    }
}

/// What waits to be converted when the feed is cancelled is not begun any more.
#[test]
fn cancel_begins_no_more_conversions() {
    let (device, gate) = (device(), Gate::new());
    let (wait, begun) = (gate.clone(), Arc::new(AtomicU64::new(0)));
    let count = begun.clone();
    let convert = move |number, slot: &mut SlotWriter<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        wait.pass();
        put_ragged(number, slot)
    };
    // Room for more than two converters can have in their hands.
    let options = Options { pinned_slots: Some(20), ..options("begun", 2) };
    let feeder = Feeder::converting(&device, (0..50).map(Ok), 2, convert, options).unwrap();
    let both = eventually(Duration::from_secs(10), || begun.load(Ordering::Relaxed) == 2);
    let stuck = feeder.cancel(ms(50));
    gate.open();
    assert!(both && stuck.is_err());
    feeder.cancel(SECOND * 5).unwrap();
    assert_eq!(begun.load(Ordering::Relaxed), 2);
}

/// The consumer's own stream is stuck, so that a copy is, so that the feed is.
#[test]
fn f13_a_stuck_copy_is_named() {
    let device = device();
    let named = (0..20).any(|_| {
        let (compute, gate) = (device.stream("compute").unwrap(), Gate::new());
        let opener = Opener(gate.clone());
        let options = Options { pinned_slots: Some(1), ..options("f13", 1) };
        let feeder = Feeder::new(&device, Numbers::new(9), options).unwrap();
        let batch = feeder.next_batch().unwrap().unwrap();
        batch.on(&compute).unwrap();
        hold(&compute, &gate).unwrap();
        drop(batch);
        assert_eq!(feeder.next_batch().unwrap().unwrap().index(), 1);
        // Time for the feed to come to the pinned slot of that copy; if it has not, once more.
        std::thread::sleep(ms(10));
        let stuck = feeder.cancel(ms(50));
        drop(opener);
        feeder.cancel(SECOND).unwrap();
        stuck.is_err_and(|stuck| {
            assert!(stuck.to_string().contains("copy"), "{stuck}");
            true
        })
    });
    assert!(named);
}

#[test]
fn rewind_waits_for_the_end_and_for_nobody_twice() {
    let device = device();
    let feeder = Feeder::new(&device, Numbers::new(4), options("rewind", 2)).unwrap();
    assert_eq!(feeder.rewind().unwrap_err().kind(), ErrorKind::Argument);
    drain(&feeder);
    // Two at once: one of them rewinds, the other is told that there is nothing to rewind.
    let answers: Vec<_> = std::thread::scope(|s| {
        let both: Vec<_> = (0..2).map(|_| s.spawn(|| feeder.rewind())).collect();
        both.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|a| matches!(a, Ok(true))).count(), 1, "{answers:?}");
    assert_eq!(drain(&feeder).0, [0, 1, 2, 3]);
    // Nobody asked for a third epoch.
    assert!(feeder.next_batch_for(ms(20)).unwrap().is_none());
    // The end is the end however it was told.
    assert!(feeder.rewind().unwrap());
    while let Ok(_batch) = feeder.try_next_batch() {}
    assert!(feeder.rewind().unwrap());
    feeder.cancel(SECOND).unwrap();
    assert_eq!(feeder.rewind().unwrap_err().kind(), ErrorKind::Cancelled);
}

/// The source's own error may be a time-out; it is an end all the same.
#[test]
fn rewind_after_a_timeout_of_the_source() {
    struct Camera(u32);
    impl Source for Camera {
        fn name(&self) -> &str {
            "camera"
        }
        fn next_into(&mut self, _: &mut SlotWriter<'_>) -> Result<bool> {
            Err(Error::new(ErrorKind::Timeout, "no picture came"))
        }
        fn rewind(&mut self) -> Result<bool> {
            self.0 += 1;
            Ok(self.0 < 4)
        }
    }
    let device = device();
    let feeder = Feeder::new(&device, Camera(0), options("camera", 2)).unwrap();
    let told = |error: Error| assert_eq!(error.to_string(), "no picture came");
    told(feeder.next_batch().unwrap_err());
    assert!(feeder.rewind().unwrap());
    told(feeder.next_batch_for(SECOND).unwrap_err());
    assert!(feeder.rewind().unwrap());
    let mut last = None;
    assert!(eventually(SECOND, || {
        last = feeder.try_next_batch().err();
        last.is_some()
    }));
    told(last.unwrap());
    assert!(feeder.rewind().unwrap());
    told(feeder.next_batch().unwrap_err());
    assert!(!feeder.rewind().unwrap());
    assert!(feeder.next_batch().unwrap().is_none());
}

#[test]
fn cancel_ends_a_rewind() {
    struct Slow(Arc<Gate>);
    impl Source for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn next_into(&mut self, _: &mut SlotWriter<'_>) -> Result<bool> {
            Ok(false)
        }
        fn rewind(&mut self) -> Result<bool> {
            self.0.pass();
            Ok(true)
        }
    }
    let (device, gate) = (device(), Gate::new());
    let feeder = Feeder::new(&device, Slow(gate.clone()), options("slow", 2)).unwrap();
    assert!(feeder.next_batch().unwrap().is_none());
    std::thread::scope(|s| {
        let rewinding = s.spawn(|| feeder.rewind());
        gate.await_comer();
        let stuck = feeder.cancel(ms(50)).unwrap_err().to_string();
        assert!(stuck.contains("rewind"), "{stuck}");
        assert_eq!(rewinding.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    });
    gate.open();
    feeder.cancel(SECOND).unwrap();
}

#[test]
fn dropping_the_feeder_while_it_is_held_back() {
    // By a held batch: the feed's thread, or a converter, waits for a slot.
    let device = device();
    for threads in [0, 1, 4] {
        let feeder = match threads {
            0 => Feeder::new(&device, Numbers::new(90), options("held back", 1)).unwrap(),
            n => {
                Feeder::converting(&device, (0..90).map(Ok), n, put_ragged, options("held back", 1)).unwrap()
            }
        };
        let batch: Batch = feeder.next_batch().unwrap().unwrap();
        std::thread::sleep(ms(10));
        let start = Instant::now();
        drop(feeder);
        assert!(start.elapsed() < SECOND, "{threads} converters: {:?}", start.elapsed());
        // The batch outlives its feeder.
        let reader = device.stream("reader").unwrap();
        let findings = Findings::default();
        findings.check_ragged(&batch, &reader, 0).unwrap();
        reader.synchronize("test").unwrap();
        findings.assert_none();
    }
}

/// The consumer's kernels are still running when the feeder is dropped: copies that wait for them must not
/// hold the consumer up for ever.
#[test]
fn dropping_the_feeder_while_the_consumers_stream_is_stuck() {
    let device = device();
    let (compute, gate) = (device.stream("compute").unwrap(), Gate::new());
    let feeder = Feeder::new(&device, Numbers::new(9), options("stuck", 1)).unwrap();
    let batch = feeder.next_batch().unwrap().unwrap();
    batch.on(&compute).unwrap();
    hold(&compute, &gate).unwrap();
    drop(batch);
    drop(feeder.next_batch().unwrap());
    // Whatever comes of it, this test ends.
    let opener = std::thread::spawn({
        let gate = gate.clone();
        move || {
            if !gate.pass_for(Duration::from_secs(4)) {
                gate.open();
            }
        }
    });
    let start = Instant::now();
    drop(feeder);
    let took = start.elapsed();
    assert!(took < Duration::from_millis(2500), "{took:?}");
    gate.open();
    opener.join().unwrap();
    drop(compute);
    assert!(eventually(SECOND, || held(&device) == (0, 0, 0)), "{:?}", device.counters());
}

#[test]
fn any_order_of_dropping() {
    let device = device();
    let stream = device.stream("consumer").unwrap();
    for order in 0..6 {
        let feeder = Feeder::new(&device, Numbers::new(9), options("orders", 2)).unwrap();
        let batch = feeder.next_batch().unwrap().unwrap();
        let reader = device.stream("reader").unwrap();
        batch.on(&reader).unwrap();
        batch.on(&stream).unwrap();
        delay(&reader, ms(1)).unwrap();
        within(SECOND * 2, "dropping", move || match order {
            0 => drop((feeder, batch, reader)),
            1 => drop((feeder, reader, batch)),
            2 => drop((batch, feeder, reader)),
            3 => drop((batch, reader, feeder)),
            4 => drop((reader, feeder, batch)),
            _ => drop((reader, batch, feeder)),
        });
    }
    drop(stream);
    assert!(eventually(SECOND, || held(&device) == (0, 0, 0)), "{:?}", device.counters());
}

/// A source that owns its feeder, and drops it inside `next_into`: on the feed's own thread, which cannot
/// wait for itself for ever.
#[test]
fn dropping_the_feeder_on_its_own_thread() {
    struct Suicidal(Arc<Mutex<Option<Feeder>>>, Arc<AtomicBool>);
    impl Source for Suicidal {
        fn name(&self) -> &str {
            "suicidal"
        }
        fn next_into(&mut self, _: &mut SlotWriter<'_>) -> Result<bool> {
            let feeder = self.0.lock().unwrap().take();
            if feeder.is_some() {
                drop(feeder);
                self.1.store(true, Ordering::Relaxed);
            }
            Ok(true)
        }
    }
    let device = device();
    let (place, dropped) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let source = Suicidal(place.clone(), dropped.clone());
    let feeder = Feeder::new(&device, source, options("own thread", 1)).unwrap();
    *place.lock().unwrap() = Some(feeder);
    // Nobody takes its batches here, so it must be let through once by hand.
    if let Some(feeder) = place.lock().unwrap().as_ref() {
        drop(feeder.try_next_batch());
    }
    let took = eventually(Duration::from_secs(5), || {
        if let Ok(guard) = place.try_lock()
            && let Some(feeder) = guard.as_ref()
        {
            drop(feeder.try_next_batch());
        }
        dropped.load(Ordering::Relaxed)
    });
    assert!(took);
    assert!(eventually(SECOND, || held(&device) == (0, 0, 0)), "{:?}", device.counters());
}

/// Code of the user's that panics where nobody looks: told, or logged, and never a consumer that waits for
/// ever.
#[test]
fn panics_in_odd_places() {
    struct Odd {
        name: bool,
        gone: bool,
        interrupt: bool,
    }
    impl Source for Odd {
        fn name(&self) -> &str {
            assert!(!self.name, "no name");
            "odd"
        }
        fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
            put_ragged(0, slot).map(|()| true)
        }
        fn interrupter(&self) -> Option<framelane::feed::Interrupter> {
            fn panics() {
                panic!("no interruption")
            }
            self.interrupt.then(|| Arc::new(panics) as framelane::feed::Interrupter)
        }
    }
    impl Drop for Odd {
        fn drop(&mut self) {
            assert!(!self.gone, "no end");
        }
    }
    let device = device();
    let odd = Odd { name: false, gone: false, interrupt: false };
    let feeder = Feeder::new(&device, Odd { name: true, ..odd }, options("odd", 2)).unwrap();
    assert_eq!(feeder.next_batch_for(SECOND).unwrap_err().kind(), ErrorKind::Panic);
    feeder.cancel(SECOND).unwrap();

    let odd = Odd { name: false, gone: true, interrupt: true };
    let feeder = Feeder::new(&device, odd, options("odd", 2)).unwrap();
    feeder.next_batch_for(SECOND).unwrap();
    feeder.cancel(SECOND).unwrap();

    // Dropped while unwinding: a second panic would end the process.
    let odd = Odd { name: false, gone: true, interrupt: true };
    let feeder = Feeder::new(&device, odd, options("odd", 2)).unwrap();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _feeder = feeder;
        panic!("the consumer's");
    }));
    assert!(unwound.is_err());
}

/// Options that make no sense are refused, not bent.
#[test]
fn senseless_options_are_refused() {
    let device = device();
    let none = Numbers::new(0);
    let zero_depth = Feeder::new(&device, none, options("no", 0));
    assert_eq!(zero_depth.unwrap_err().kind(), ErrorKind::Argument);
    let less = Options { max_depth: Some(1), ..options("no", 2) };
    assert_eq!(Feeder::new(&device, Numbers::new(0), less).unwrap_err().kind(), ErrorKind::Argument);
    let no_pinned = Options { pinned_slots: Some(0), ..options("no", 2) };
    assert_eq!(Feeder::new(&device, Numbers::new(0), no_pinned).unwrap_err().kind(), ErrorKind::Argument);
    let no_threads = Feeder::converting(&device, (0..3).map(Ok), 0, put_ragged, options("no", 2));
    assert_eq!(no_threads.unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(held(&device), (0, 0, 0));
}

/// Cancelled at any moment, by another thread, with converters or without: it stops in time, and what was
/// being converted is not begun again.
#[test]
fn cancel_races_with_everything() {
    let device = device();
    for round in 0..150_u64 {
        let mut rng = Rng(round);
        let threads = [0, 1, 3][rng.below(3)];
        let count = 5 + rng.next() % 40;
        let options = options("races", 1 + rng.below(3));
        let converted = Arc::new(AtomicU64::new(0));
        let feeder = match threads {
            0 => Feeder::new(&device, Numbers::new(count), options).unwrap(),
            n => {
                let converted = converted.clone();
                let convert = move |number, slot: &mut SlotWriter<'_>| {
                    converted.fetch_add(1, Ordering::Relaxed);
                    put_ragged(number, slot)
                };
                Feeder::converting(&device, (0..count).map(Ok), n, convert, options).unwrap()
            }
        };
        let wait = Duration::from_micros(rng.next() % 600);
        std::thread::scope(|s| {
            let feeder = &feeder;
            s.spawn(move || {
                std::thread::sleep(wait);
                feeder.cancel(SECOND).unwrap();
            });
            let (numbers, error) = drain(feeder);
            assert!(error.is_none(), "{error:?}");
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
        });
        assert!(feeder.next_batch().unwrap().is_none());
        let after = converted.load(Ordering::Relaxed);
        drop(feeder);
        assert_eq!(converted.load(Ordering::Relaxed), after);
    }
    assert_eq!(held(&device), (0, 0, 0));
}
