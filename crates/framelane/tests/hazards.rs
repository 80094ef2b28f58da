//! The hazard check finds a user's missing fence, on every device, whatever the timing happened to be.

mod common;

use common::*;
use framelane::device::{Access, Stream};
use framelane::feed::Feeder;
use framelane::{Error, ErrorKind, Result};
use std::time::Duration;

/// A kernel called `name` that reads, of whichever device the stream is.
fn read(stream: &Stream, name: &'static str, access: Access<'_>) -> Result<()> {
    match stream.cuda() {
        Some(_) => stream.launch_on_cuda(name, &[access], |stream, _| stream.spin(Duration::from_micros(50))),
        None => stream.launch(name, &[access], |_| Ok(())),
    }
}

fn assert_hazard(error: &Error, parts: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::Hazard, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

/// A stream reads a batch without waiting for its copy.
#[test]
fn a_missing_wait_is_named() {
    let device = checked_device();
    let (named, hasty) = (device.stream("named").unwrap(), device.stream("hasty").unwrap());
    let feeder = Feeder::new(&device, Numbers::even(3, 64), options("feed", 2)).unwrap();
    let batch = feeder.next_batch().unwrap().unwrap();
    let view = batch.on(&named).unwrap();
    let access = || view.tensor("data").unwrap().access();
    read(&named, "patient", access()).unwrap();
    let error = read(&hasty, "too early", access()).unwrap_err();
    assert_hazard(&error, &["\"too early\" on \"hasty\"", "\"copy\" on \"feed feed\"", "wait for an event"]);
    // What was refused was not enqueued, and the next call works.
    batch.on(&hasty).unwrap();
    read(&hasty, "in time", access()).unwrap();
    assert_eq!(device.hazards().len(), 1);
}

/// A second stream reads, after the copy, and was not named: the next copy into the slot would not wait for it.
#[test]
fn a_second_reader_that_was_not_named_is_named() {
    let device = checked_device();
    let (named, secret) = (device.stream("named").unwrap(), device.stream("secret").unwrap());
    let feeder = Feeder::new(&device, Numbers::even(9, 64), options("feed", 1)).unwrap();
    let batch = feeder.next_batch().unwrap().unwrap();
    secret.wait(batch.ready()).unwrap();
    let view = batch.on(&named).unwrap();
    read(&secret, "unseen", view.tensor("data").unwrap().access()).unwrap();
    drop(batch);
    let (_, error) = drain(&feeder);
    assert_hazard(&error.expect("the next copy is refused"), &["\"copy\" on", "\"unseen\" on \"secret\""]);
}

/// Memory is given back before the kernel that reads it is enqueued. With a [`framelane::Batch`] that does not
/// compile; with a ring of one's own it is found.
#[test]
fn a_release_before_the_reading_kernel_is_named() {
    use framelane::device::{Event, Memory};
    use framelane::ring::{self, Policy};
    let device = checked_device();
    let (writing, reading) = (device.stream("writing").unwrap(), device.stream("reading").unwrap());
    let from = device.alloc(64, Memory::Pinned).unwrap();
    let memory = device.clone();
    let (writer, reader) =
        ring::ring(ring::Options::fixed("own", Policy::Fifo, 1), move |_| memory.alloc(64, Memory::Device))
            .unwrap();
    let write = || -> Result<()> {
        let slot = writer.acquire()?;
        slot.wait_for().iter().try_for_each(|fence: &Event| writing.wait(fence))?;
        writing.copy(&from, 0..64, slot.payload(), 0)?;
        slot.publish(writing.record()?, ());
        Ok(())
    };
    write().unwrap();
    let mut lease = reader.take().unwrap().unwrap();
    reading.wait(lease.ready()).unwrap();
    lease.add_fence(reading.record().unwrap());
    let released = lease.payload().clone();
    drop(lease);
    read(&reading, "after release", Access::read(&released, 0..64)).unwrap();
    let error = write().unwrap_err();
    assert_hazard(&error, &["\"copy\" on \"writing\"", "\"after release\" on \"reading\"", "0..64"]);
}

/// A feed with several readers, conversions held up and batches held: nothing to report.
#[test]
fn clean_runs_report_nothing() {
    let device = checked_device();
    let (a, b) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    for depth in [1, 2, 8] {
        let feeder = Feeder::new(&device, Numbers::new(300), options("clean", depth)).unwrap();
        let findings = Findings::default();
        let mut held = Vec::new();
        for batch in &feeder {
            let batch = batch.unwrap();
            findings.check_ragged(&batch, &a, batch.index()).unwrap();
            if batch.index() % 3 == 0 {
                findings.check_ragged(&batch, &b, batch.index()).unwrap();
            }
            held.push(batch);
            if held.len() == depth || held[0].index() % 5 == 0 {
                held.clear();
            }
        }
        a.synchronize("test").unwrap();
        b.synchronize("test").unwrap();
        assert_eq!(findings.checks(), 400);
        findings.assert_none();
    }
    assert_eq!(device.hazards(), []);
}

/// F6: a backward pass reads the input again after a delay; the slot survives until then.
#[test]
fn f6_backward_after_a_delay() {
    let device = checked_device();
    let (compute, steps) = (device.stream("compute").unwrap(), steps(60));
    let feeder = Feeder::new(&device, Numbers::new(steps), options("f6", 2)).unwrap();
    let findings = Findings::default();
    for batch in &feeder {
        let batch = batch.unwrap();
        findings.check_ragged(&batch, &compute, batch.index()).unwrap();
        delay(&compute, Duration::from_micros(200)).unwrap();
        findings.check_ragged(&batch, &compute, batch.index()).unwrap();
    }
    compute.synchronize("test").unwrap();
    assert_eq!(findings.checks(), 2 * steps);
    findings.assert_none();
    assert_eq!(device.hazards(), []);
}
