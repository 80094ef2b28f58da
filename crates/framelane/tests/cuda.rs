//! What only a GPU can show: graphs over slots, several devices, other libraries' streams. Without one each test
//! says so and passes, and the first tests what is said then.

mod common;
#[path = "../../../testing/skip.rs"]
mod skip;

use common::*;
use framelane::device::{Access, Device, Memory, cuda_devices};
use framelane::feed::{Feeder, Options};
use framelane::{Error, ErrorKind};
use framelane_cuda::Place;
use skip::skip;
use std::time::Duration;

fn cuda(ordinal: u32) -> Option<TestDevice> {
    let devices = match cuda_devices() {
        Ok(devices) => devices,
        Err(why) => return skip_for(&why),
    };
    if devices.len() <= ordinal as usize {
        skip(format!("there is no cuda:{ordinal}"));
        return None;
    }
    Some(alone_with(Device::cuda(ordinal).unwrap()))
}

fn skip_for(why: &Error) -> Option<TestDevice> {
    skip(why);
    None
}

/// F21: without a driver one sentence says so, each time; and everything on the host goes on working.
#[test]
fn f21_no_driver_is_a_sentence() {
    let Err(error) = cuda_devices() else { return skip("there is a driver") };
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().starts_with("CUDA cannot be used: "), "{error}");
    for _ in 0..2 {
        assert_eq!(Device::cuda(0).unwrap_err().to_string(), error.to_string());
    }
    assert_eq!(Device::host().name(), "cpu");
}

/// A graph captured once for each slot reads whatever batch is in the slot: its address is for ever.
#[test]
fn graphs_are_captured_over_slots_once() {
    let Some(device) = cuda(0) else { return };
    let compute = device.stream("compute").unwrap();
    let (bytes, steps, depth) = (100_000, 500, 3);
    let sums = device.alloc(8 * steps as usize, Memory::Device).unwrap();
    let last = device.alloc(8, Memory::Device).unwrap();
    let fixed = Options { slot_bytes: Some(bytes), ..options("graphs", depth) };
    let feeder = Feeder::new(&device, Numbers::even(steps, bytes), fixed).unwrap();
    let mut graphs: Vec<Option<framelane_cuda::GraphExec>> = (0..depth).map(|_| None).collect();
    let mut captured = 0;
    for batch in &feeder {
        let batch = batch.unwrap();
        let graph = &mut graphs[batch.slot()];
        let view = batch.on(&compute).unwrap();
        let accesses = [view.tensor("data").unwrap().access(), Access::write(&last, 0..8)];
        compute
            .launch_on_cuda("graph", &accesses, |stream, places| {
                let [(Place::Device(data), range), (Place::Device(sum), _)] = places else { unreachable!() };
                if graph.is_none() {
                    captured += 1;
                    let work = |s: &framelane_cuda::Stream| s.checksum(data, range.clone(), sum, 0);
                    *graph = Some(stream.capture(work)?.instantiate()?);
                }
                graph.as_ref().unwrap().launch(stream)
            })
            .unwrap();
        let at = 8 * batch.index() as usize;
        drop(batch);
        compute.copy(&last, 0..8, &sums, at).unwrap();
    }
    assert_eq!(captured, depth);
    let host = device.alloc(sums.len(), Memory::Pinned).unwrap();
    compute.copy(&sums, 0..sums.len(), &host, 0).unwrap();
    compute.synchronize("test").unwrap();
    let found = host.read_host().unwrap();
    for (step, sum) in found.chunks(8).enumerate() {
        assert_eq!(sum, checksum(&content(step as u64, 0, bytes)).to_le_bytes(), "step {step}");
    }
}

/// F8: everything happens on the device that was asked for, from threads that never saw CUDA, with nothing made on
/// another device.
#[test]
fn f8_device_1_alone() {
    if std::env::var_os("FRAMELANE_F8_CHILD").is_none() {
        if cuda(1).is_none() {
            return;
        }
        // In a process of its own: the other tests use device 0.
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "f8_device_1_alone", "--nocapture"])
            .env("FRAMELANE_F8_CHILD", "1")
            .env("FRAMELANE_TEST_DEVICE", "cuda:1")
            .status()
            .unwrap();
        assert!(child.success());
        return;
    }
    let device = device();
    assert_eq!(device.name(), "cuda:1");
    let feeder = Feeder::new(&device, Numbers::new(200), options("f8", 2)).unwrap();
    let findings = Findings::default();
    // The thread that computes is not the one that drops, nor the one that made the feed.
    let (send, receive) = std::sync::mpsc::channel();
    let (theirs, compute) = (findings.clone(), device.stream("compute").unwrap());
    let streams = compute.clone();
    let computing = std::thread::spawn(move || {
        for batch in &feeder {
            let batch = batch.unwrap();
            theirs.check_ragged(&batch, &streams, batch.index()).unwrap();
            send.send(batch).unwrap();
        }
        feeder
    });
    let dropping = std::thread::spawn(move || receive.into_iter().for_each(drop));
    drop(computing.join().unwrap());
    dropping.join().unwrap();
    compute.synchronize("test").unwrap();
    assert_eq!(findings.checks(), 200);
    findings.assert_none();
    assert!(!framelane_cuda::device_is_active(0).unwrap(), "device 0 was touched");
    assert!(framelane_cuda::device_is_active(1).unwrap());
}

/// Two openings of one GPU are one device for events and memory, unless a hazard check watches.
#[test]
fn two_openings_are_one_device() {
    let Some(one) = cuda(0) else { return };
    let two = Device::cuda(0).unwrap();
    let feeder = Feeder::new(&one, Numbers::even(3, 64), options("two", 2)).unwrap();
    let elsewhere = two.stream("elsewhere").unwrap();
    let findings = Findings::default();
    for batch in &feeder {
        let batch = batch.unwrap();
        findings
            .check(&batch, &elsewhere, batch.index(), vec![checksum(&content(batch.index(), 0, 64))])
            .unwrap();
    }
    findings.assert_none();
    let watched = Device::cuda_checked(0).unwrap();
    let refused = watched.stream("s").unwrap().wait(&elsewhere.record().unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Argument, "{refused}");
    let host = Device::host().stream("host").unwrap();
    assert_eq!(host.wait(&elsewhere.record().unwrap()).unwrap_err().kind(), ErrorKind::Argument);
    let wrong = elsewhere.launch("host kernel", &[], |_| Ok(())).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Unsupported, "{wrong}");
    let wrong = host.launch_on_cuda("cuda kernel", &[], |_, _| Ok(())).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Unsupported, "{wrong}");
}

/// What the feed's time is spent on, told by events: a consumer that computes longer than the copies take is named,
/// though its thread waits for batches most of the time; and the feed never waits for the device on that thread.
#[test]
fn f20_a_consumer_that_works_on_the_gpu_is_named() {
    let Some(device) = cuda(0) else { return };
    let compute = device.stream("compute").unwrap();
    let feeder = Feeder::new(&device, Numbers::even(40, 1 << 20), options("f20", 2)).unwrap();
    for batch in &feeder {
        let batch = batch.unwrap();
        batch.on(&compute).unwrap();
        delay(&compute, ms(4)).unwrap();
    }
    // The last one's time is known once it is over; this wait is the test's own, after the last batch.
    compute.synchronize("test").unwrap();
    let report = feeder.report();
    assert_eq!(report.limit(), framelane::feed::Limit::Consumer, "{report}");
    assert_eq!(report.consumer_syncs, (0, Duration::ZERO), "{report}");
    assert!(report.compute >= ms(155) && report.compute_wait < report.compute / 4, "{report}");
    let batches = feeder.batch_reports();
    assert_eq!(batches.len(), 40);
    let usual = |b: &framelane::feed::BatchReport| b.compute.unwrap() >= ms(4) && b.copy.unwrap() < ms(4);
    // The first ones' memory is still being made.
    assert!(batches[5..].iter().all(usual), "{batches:?}");
}
