//! Slots that the window's owner offers, as those in a GPU's memory are. Here they are memory that both sides map, so that
//! any machine can look into it; framelane's own way of writing and reading is not used.
#![cfg(target_os = "linux")]

mod sharing;

use framelane::ErrorKind;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::share::{
    Attached, Begun, DeviceSlots, Listener, Offer, Pixels, Provider, SharedMemory, Shown, Taken, Wanted,
    Worker, WorkerOptions, WorkerSlot,
};
use framelane_cuda::Mapped;
use sharing::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const GPU: [u8; 16] = *b"the only GPU her";
/// What a driver adds to each slot.
const MORE: usize = 8192;
const SIZE: ImageSize = ImageSize { width: 20, height: 10 };

/// The owner's side of the slots.
struct Owned(Vec<Mapped>);

/// Gives a worker on [`GPU`] its slots, `times` times.
fn provider(times: usize) -> (Provider, Arc<Mutex<Vec<Wanted>>>) {
    let asked = Arc::<Mutex<Vec<Wanted>>>::default();
    let (noted, given) = (asked.clone(), AtomicUsize::new(0));
    let decide = move |wanted: &Wanted| {
        noted.lock().unwrap().push(*wanted);
        if wanted.device != Some(GPU) {
            return Offer { way: "host: another\nGPU".into(), device: None };
        }
        if given.fetch_add(1, Relaxed) >= times {
            return Offer { way: "the GPU is full".into(), device: None };
        }
        let allocated = wanted.slot_bytes + MORE;
        let made = (0..wanted.slots).map(|_| Mapped::create("device slot", allocated).unwrap());
        let (owned, descriptors) = made.unzip();
        let device = Some((DeviceSlots { descriptors, allocated }, Arc::new(Owned(owned)) as _));
        Offer { way: "shared".into(), device }
    };
    (Provider::new(decide), asked)
}

fn options(device: Option<[u8; 16]>) -> WorkerOptions {
    WorkerOptions { device, patience: LIMIT, ..WorkerOptions::for_device(SIZE) }
}

fn pair(
    listener: &mut Listener,
    name: &str,
    provider: &Provider,
    options: WorkerOptions,
) -> (Worker, Attached) {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| Worker::attach(name, "pane", options).unwrap());
        let attached = listener.accept_with(LIMIT, provider).unwrap().expect("a worker attaches");
        (worker.join().unwrap(), attached)
    })
}

/// A device that writes what it is told later, in order.
#[derive(Default)]
struct Device {
    memory: Option<Arc<SharedMemory>>,
    slots: Arc<Vec<Mapped>>,
    queue: Vec<(Arc<Vec<Mapped>>, WorkerSlot)>,
}

impl Device {
    /// Hand the number over, and write it later.
    fn show(&mut self, worker: &mut Worker, number: u64, size: ImageSize) -> Shown {
        let slot = match worker.begin(size, &FrameMeta::new("device", number)).unwrap() {
            Begun::Slot(slot) => slot,
            Begun::Dropped => return Shown::Dropped,
            Begun::Closed => return Shown::Closed,
        };
        assert_eq!((slot.number(), slot.size()), (number, size));
        if !self.memory.as_ref().is_some_and(|memory| Arc::ptr_eq(memory, worker.memory())) {
            let DeviceSlots { descriptors, allocated } = worker.take_device_slots().unwrap();
            assert_eq!(allocated, worker.memory().slot_bytes() + MORE);
            let open = |descriptor: &_| Mapped::open(descriptor, allocated).unwrap();
            self.slots = Arc::new(descriptors.iter().map(open).collect());
            self.memory = Some(worker.memory().clone());
        }
        self.queue.push((self.slots.clone(), slot.clone()));
        worker.hand_over(slot)
    }

    /// Do the next of what it was told.
    fn step(&mut self) {
        let (slots, slot) = self.queue.remove(0);
        for word in &slots[slot.index()].words()[..slot.pitch() * slot.size().height / 8] {
            word.store(slot.number(), Relaxed);
        }
        slot.raise();
    }
}

/// The number in all words of a frame in the owner's memory.
fn number_in(frame: &Taken) -> u64 {
    let (owned, slot) = frame.device().unwrap();
    let words = owned.downcast_ref::<Owned>().unwrap().0[slot].words();
    let words = &words[..frame.pitch() * frame.size().height / 8];
    assert!(words.iter().all(|word| word.load(Relaxed) == frame.number()), "{frame:?} is torn");
    frame.meta().index
}

#[test]
fn frames_in_a_devices_memory_are_taken_once_they_are_complete() {
    let window = window_name("device");
    let mut listener = Listener::bind(&window).unwrap();
    let (provider, asked) = provider(1);
    let (mut worker, mut pane) = pair(&mut listener, &window, &provider, options(Some(GPU)));
    assert_eq!(*asked.lock().unwrap(), [Wanted { slots: 6, slot_bytes: 4096, device: Some(GPU) }]);
    assert_eq!((worker.way(), pane.way()), ("shared", Some("shared")));
    assert!(worker.memory().host_slots().is_none());
    let mut device = Device::default();
    assert_eq!(device.show(&mut worker, 1, SIZE), Shown::Shown);
    assert!(pane.try_take().is_none(), "its pixels are not there");
    device.step();
    let frame = pane.try_take().unwrap();
    assert_eq!(number_in(&frame), 1);
    let refused = frame.copy_to(&mut vec![0; frame.pitch() * SIZE.height]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let refused = worker.show(Pixels::Rgb(&[0; 600]), SIZE, &FrameMeta::new("bytes", 0)).unwrap_err();
    assert!(refused.kind() == ErrorKind::Unsupported && worker.is_open().unwrap(), "{refused}");
    // One is seen. A worker far ahead of its device fills the others, and then goes on in the last.
    let shown: Vec<Shown> = (2..=10).map(|number| device.show(&mut worker, number, SIZE)).collect();
    assert_eq!(shown, [[Shown::Shown; 5].as_slice(), &[Shown::Replaced; 4]].concat());
    let mut last = 1;
    let mut seen = Vec::new();
    for number in 2..=10 {
        device.step();
        if let Some(frame) = pane.try_take() {
            assert!(frame.number() > last && number_in(&frame) == number);
            last = frame.number();
            seen.push(last);
        }
    }
    // 6 to 9 were written over before they were complete.
    assert_eq!(seen, [2, 3, 4, 5, 10]);
    // With most of them complete, the oldest is written over.
    for number in 11..=20 {
        assert_ne!(device.show(&mut worker, number, SIZE), Shown::Dropped);
        device.step();
    }
    assert_eq!(number_in(&pane.try_take().unwrap()), 20);
    let counts = worker.counts();
    assert_eq!((counts.shown, counts.dropped, pane.counts().spoiled), (20, 0, 0));
    // The frame outlives both, and so does what it lies in.
    drop((worker, pane));
    assert_eq!(number_in(&frame), 1);
}

#[test]
fn what_is_begun_and_abandoned_is_nobodys() {
    let window = window_name("abandon");
    let mut listener = Listener::bind(&window).unwrap();
    let (provider, _) = provider(1);
    let (mut worker, mut pane) = pair(&mut listener, &window, &provider, options(Some(GPU)));
    for number in 1..=20 {
        let begun = worker.begin(SIZE, &FrameMeta::new("device", number)).unwrap();
        let Begun::Slot(slot) = begun else { panic!("{begun:?}: slots are lost") };
        worker.abandon(slot);
        assert!(pane.try_take().is_none());
    }
    let mut device = Device::default();
    assert_eq!(device.show(&mut worker, 21, SIZE), Shown::Shown);
    device.step();
    assert_eq!(number_in(&pane.try_take().unwrap()), 21);
    // With neither done, as after a failure in the middle, a slot is used no more: six of them, and nothing is left.
    for number in 22..=27 {
        let begun = worker.begin(SIZE, &FrameMeta::new("device", number)).unwrap();
        assert!(matches!(begun, Begun::Slot(_)), "{begun:?}");
    }
    assert_eq!(device.show(&mut worker, 28, SIZE), Shown::Dropped);
}

#[test]
fn slots_of_a_device_grow_there_or_not_at_all() {
    let window = window_name("device-grows");
    let mut listener = Listener::bind(&window).unwrap();
    let (provider, asked) = provider(2);
    let (mut worker, mut pane) = pair(&mut listener, &window, &provider, options(Some(GPU)));
    let mut device = Device::default();
    assert_eq!(device.show(&mut worker, 1, SIZE), Shown::Shown);
    let larger = size(100, 50);
    std::thread::scope(|scope| {
        let (worker, device) = (&mut worker, &mut device);
        let showing = scope.spawn(move || assert_eq!(device.show(worker, 2, larger), Shown::Shown));
        poll_until(&mut pane, || showing.is_finished());
        showing.join().unwrap();
    });
    assert_eq!(asked.lock().unwrap()[1], Wanted { slots: 6, slot_bytes: 28_672, device: Some(GPU) });
    // What was on its way into the old ones is still seen.
    device.step();
    assert_eq!(number_in(&pane.try_take().unwrap()), 1);
    device.step();
    assert_eq!(number_in(&pane.try_take().unwrap()), 2);
    let refused = std::thread::scope(|scope| {
        let worker = &mut worker;
        let asking =
            scope.spawn(move || worker.begin(size(200, 50), &FrameMeta::new("device", 3)).map(|_| ()));
        poll_until(&mut pane, || asking.is_finished());
        asking.join().unwrap().unwrap_err()
    });
    assert_eq!(refused.kind(), ErrorKind::Budget);
    assert!(refused.to_string().ends_with("the GPU is full"), "{refused}");
    assert_eq!(device.show(&mut worker, 3, larger), Shown::Shown);
    device.step();
    assert_eq!(number_in(&pane.try_take().unwrap()), 3);
}

fn poll_until(pane: &mut Attached, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < LIMIT && pane.poll_alive(), "{:?}", pane.ended());
        std::thread::yield_now();
    }
}

#[test]
fn who_has_another_device_or_none_gets_memory_of_the_host_and_the_reason() {
    let window = window_name("no-device");
    let mut listener = Listener::bind(&window).unwrap();
    let (provider, asked) = provider(0);
    for device in [None, Some([9; 16])] {
        let (mut worker, mut pane) = pair(&mut listener, &window, &provider, options(device));
        assert_eq!(worker.way(), "host: another GPU", "in one line");
        assert!(worker.take_device_slots().is_none() && worker.memory().host_slots().is_some());
        assert_eq!(show_number(&mut worker, 1, SIZE).unwrap(), Shown::Shown);
        assert_eq!(number_of(&pane.try_take().unwrap()), 1);
        assert_eq!(asked.lock().unwrap().pop().unwrap().device, device);
    }
    let (full, mut pane) = pair(&mut listener, &window, &provider, options(Some(GPU)));
    assert_eq!((full.way(), pane.way()), ("the GPU is full", Some("the GPU is full")));
    drop(full);
    assert!(!pane.poll_alive());
    // Accepted without an offer.
    let worker = std::thread::scope(|scope| {
        let worker = scope.spawn(|| Worker::attach(&window, "pane", options(Some(GPU))).unwrap());
        assert_eq!(accept(&mut listener).way(), None);
        worker.join().unwrap()
    });
    assert_eq!(worker.way(), "shared-memory: the window offers no GPU's memory");
}

/// An owner that makes a mistake spoils the one worker, which is told so.
#[test]
fn offers_that_make_no_sense_are_not_passed_on() {
    let window = window_name("offers");
    let mut listener = Listener::bind(&window).unwrap();
    for (slots, allocated) in [(5, 4096), (7, 4096), (6, 4095)] {
        let wrong = Provider::new(move |_| {
            let descriptors = (0..slots).map(|_| Mapped::create("device slot", 4096).unwrap().1).collect();
            Offer { way: String::new(), device: Some((DeviceSlots { descriptors, allocated }, Arc::new(()))) }
        });
        let error = std::thread::scope(|scope| {
            let worker = scope.spawn(|| Worker::attach(&window, "pane", options(Some(GPU))).unwrap_err());
            while !worker.is_finished() {
                assert!(listener.accept_with(std::time::Duration::from_millis(1), &wrong).unwrap().is_none());
            }
            worker.join().unwrap()
        });
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert!(listener.last_refusal().unwrap().contains("not what was wanted"));
    }
}
