//! Networks and targets that fail, and runs that are stopped: each frame has one fate, and the cause is told.

use super::pipeline::{self, End, Options, Parts, Running};
use super::playlist::Playlist;
use super::stamps::Stamps;
use super::stop::{Stop, Why};
use super::tally::Tally;
use super::target::Target;
use framelane::device::Device;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::lanes::{Job, Model, Session};
use framelane::ring::Policy;
use framelane::stats::Frames;
use framelane::tensor::TensorSpec;
use framelane::{Error, ErrorKind, Result};
use framelane_media::{OpenOptions, Sink, Summary};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// Passes pictures through, and does what `on` says for some frames.
struct Fake {
    on: fn(u64) -> Result<()>,
}

impl Model for Fake {
    fn name(&self) -> &str {
        "fake"
    }
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        Ok(inputs.to_vec())
    }
    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(FakeSession { on: self.on }))
    }
}

struct FakeSession {
    on: fn(u64) -> Result<()>,
}

impl Session for FakeSession {
    fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
        (self.on)(job.meta.unwrap().index)?;
        job.outputs[0].1.copy_from_slice(job.inputs[0].1);
        Ok(())
    }
}

/// Notes the frames that come, refuses the one with number `refuse`, and tells each.
struct FakeSink {
    seen: Arc<Mutex<Vec<u64>>>,
    refuse: u64,
    tell: Sender<u64>,
}

impl Sink for FakeSink {
    fn write(&mut self, rgb: &[u8], size: ImageSize, meta: &FrameMeta) -> Result<()> {
        if meta.index == self.refuse {
            return Err(Error::new(ErrorKind::Io, "the disk is full"));
        }
        assert_eq!(framelane_media::read_frame_number(rgb, size).map(u64::from), Some(meta.index));
        self.seen.lock().unwrap().push(meta.index);
        // The test may have seen enough.
        let _ = self.tell.send(meta.index);
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Summary> {
        Ok(Summary { target: "fake".into(), frames: self.seen.lock().unwrap().len() as u64, bytes: 0 })
    }
    fn describe(&self) -> String {
        "fake".into()
    }
}

/// Runs test pictures through `on` into a target; `during` is called once the run goes on.
fn run(
    frames: Option<u64>,
    policy: Policy,
    on: fn(u64) -> Result<()>,
    target: Target,
    during: impl FnOnce(&Stop),
) -> (End, Frames) {
    let device = Device::host_checked();
    let source = framelane_media::open("testsrc:64x48@30", &OpenOptions::default()).unwrap();
    let list = Playlist::new(vec![source], false, frames).unwrap();
    let (tally, stop) = (Tally::new(), Stop::default());
    let options = Options { lanes: 2, depth: 3, policy };
    let lanes = pipeline::lanes(&device, Arc::new(Fake { on }), &[options], &tally).unwrap();
    let parts =
        Parts { source: Box::new(list), stamps: Stamps::new(None), lanes: Some(lanes), target, options };
    let running = Running::start(&device, parts, &tally, &stop).unwrap();
    during(&stop);
    let end = running.join();
    assert_eq!(device.hazards().len(), 0);
    let frames = tally.recorder.frames();
    assert_eq!(frames.r#in, frames.out + frames.dropped + frames.failed, "{frames:?}");
    (end, frames)
}

fn sink(refuse: u64) -> (Target, Arc<Mutex<Vec<u64>>>, std::sync::mpsc::Receiver<u64>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (tell, told) = channel();
    (Target::File(Box::new(FakeSink { seen: seen.clone(), refuse, tell })), seen, told)
}

#[test]
fn frames_that_fail_leave_a_hole() {
    let on = |n| match n {
        3 => Err(Error::new(ErrorKind::Model, "no")),
        7 => panic!("a mistake in the network"),
        _ => Ok(()),
    };
    let (target, seen, _told) = sink(u64::MAX);
    let (end, frames) = run(Some(12), Policy::Fifo, on, target, |_| {});
    assert!(end.error.is_none(), "{:?}", end.error);
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]);
    assert_eq!((frames.r#in, frames.out, frames.failed), (12, 10, 2));
    assert_eq!(frames.failed_by.keys().collect::<Vec<_>>(), ["the network failed", "the network panicked"]);
}

#[test]
fn a_network_that_always_fails_ends_the_run() {
    let (end, frames) =
        run(None, Policy::Fifo, |_| Err(Error::new(ErrorKind::Model, "no")), Target::Nowhere, |_| {});
    let said = end.error.unwrap().to_string();
    assert!(said.contains("first 10 frames") && said.contains("frame 0 of testsrc"), "{said}");
    assert_eq!((frames.out, frames.failed), (0, 10));
}

#[test]
fn a_target_that_fails_ends_the_run() {
    let (target, seen, _told) = sink(5);
    let (end, frames) = run(None, Policy::Fifo, |_| Ok(()), target, |_| {});
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!((end.error.unwrap().to_string().as_str(), frames.out), ("the disk is full", 5));
}

#[test]
fn an_endless_run_stops_when_asked() {
    for policy in [Policy::Fifo, Policy::Latest] {
        let (target, seen, told) = sink(u64::MAX);
        let (end, frames) = run(
            None,
            policy,
            |_| Ok(()),
            target,
            |stop| {
                assert_eq!(told.iter().take(20).count(), 20);
                stop.request(Why::Signal(130));
            },
        );
        assert!(end.error.is_none());
        assert!(seen.lock().unwrap().is_sorted());
        assert_eq!(end.summary.unwrap().frames, frames.out);
    }
}

#[test]
fn stopped_before_it_began() {
    let device = Device::host();
    let source = framelane_media::open("testsrc:64x48@30", &OpenOptions::default()).unwrap();
    let (tally, stop) = (Tally::new(), Stop::default());
    stop.request(Why::Signal(130));
    let parts = Parts {
        source: Box::new(Playlist::new(vec![source], false, None).unwrap()),
        stamps: Stamps::new(None),
        lanes: None,
        target: Target::Nowhere,
        options: Options { lanes: 1, depth: 1, policy: Policy::Fifo },
    };
    let end = Running::start(&device, parts, &tally, &stop).unwrap().join();
    assert!(end.error.is_none());
    let frames = tally.recorder.frames();
    assert_eq!(frames.r#in, frames.out + frames.dropped + frames.failed);
}
