//! Memory that two processes map, written by a stream: whoever sees the value that was written last sees the picture.

use crate::{gpu, pattern, stream, upload};
use framelane_cuda::kernels::{Colours, Element, Order, ToPicture};
use framelane_cuda::{DeviceBuffer, Flag, Kind, Mapped};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const LIMIT: Duration = Duration::from_secs(20);
/// RGBA as it is, but opaque.
const PICTURE: ToPicture = ToPicture {
    height: 90,
    width: 160,
    channels: 4,
    element: Element::U8,
    row: 640,
    pixel: 4,
    channel: 1,
    low: 0.0,
    high: 255.0,
    colours: Colours::Grey,
    order: Order::Rgb,
    mark: false,
    to_row: 640,
};
const BYTES: usize = PICTURE.to_row * PICTURE.height;

fn await_value(page: &Mapped, word: usize, value: u64) {
    let start = Instant::now();
    while page.words()[word].load(Acquire) != value {
        assert!(start.elapsed() < LIMIT, "{value} does not come");
        std::hint::spin_loop();
    }
}

#[test]
fn a_value_is_seen_after_the_picture_that_was_written_before_it() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let slot_bytes = BYTES.next_multiple_of(PAGE);
    let (ours, page) = Mapped::create("page", PAGE).unwrap();
    let (slot, descriptor) = Mapped::create("slot", slot_bytes).unwrap();
    // As another process sees them.
    let (page_there, slot_there) =
        (Mapped::open(&page, PAGE).unwrap(), Mapped::open(&descriptor, slot_bytes).unwrap());
    let page = DeviceBuffer::over_mapped(&context, Arc::new(ours)).unwrap();
    let slot = DeviceBuffer::over_mapped(&context, Arc::new(slot)).unwrap();
    let numbers = DeviceBuffer::new(&context, BYTES).unwrap();
    for n in 1..=2000u32 {
        stream.fill_words(&numbers, 0..BYTES, n).unwrap();
        stream.to_picture(&PICTURE, &numbers, 0, &slot, 0).unwrap();
        stream.write_value(&page, 8 * 40, n.into()).unwrap();
        await_value(&page_there, 40, n.into());
        let pixels = u64::from(n | 0xFF00_0000);
        let pair = pixels << 32 | pixels;
        let words = &slot_there.words()[..BYTES / 8];
        assert!(words.iter().all(|word| word.load(Relaxed) == pair), "picture {n} is torn");
    }
    let others = page_there.words().iter().enumerate().filter(|(at, _)| *at != 40);
    assert!(others.map(|(_, word)| word.load(Relaxed)).all(|word| word == 0), "8 bytes are written");
}

/// The mapping outlives its handles for as long as work uses it, and is gone then.
#[test]
fn memory_that_is_dropped_stays_until_its_work_is_done() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let bytes: Vec<u8> = pattern(BYTES, 5);
    let source = upload(&stream, &bytes);
    let (ours, descriptor) = Mapped::create("slot", BYTES.next_multiple_of(PAGE)).unwrap();
    let there = Mapped::open(&descriptor, ours.bytes()).unwrap();
    let ours = Arc::new(ours);
    let flag = Flag::new(&context).unwrap();
    let slot = DeviceBuffer::over_mapped(&context, ours.clone()).unwrap();
    stream.wait_for_flag(&flag, 1).unwrap();
    stream.to_picture(&PICTURE, &source, 0, &slot, 0).unwrap();
    stream.write_value(&slot, ours.bytes() - 8, 7).unwrap();
    drop(slot);
    context.reap();
    assert_eq!(Arc::strong_count(&ours), 2, "work that uses it is pending");
    flag.raise(1);
    stream.synchronize().unwrap();
    await_value(&there, ours.bytes() / 8 - 1, 7);
    let expected = |pixel: &[u8]| u32::from_le_bytes([pixel[0], pixel[1], pixel[2], 255]);
    let words = there.words().iter().map(|word| word.load(Relaxed));
    for (word, pair) in words.zip(bytes.chunks_exact(8)) {
        assert_eq!((word as u32, (word >> 32) as u32), (expected(&pair[..4]), expected(&pair[4..])));
    }
    let start = Instant::now();
    while Arc::strong_count(&ours) > 1 {
        assert!(start.elapsed() < LIMIT, "it is never given back");
        context.reap();
        std::thread::yield_now();
    }
    // So it can be a device's again.
    let again = DeviceBuffer::over_mapped(&context, ours.clone()).unwrap();
    assert_eq!(again.len(), ours.bytes());
    let twice = DeviceBuffer::over_mapped(&context, ours).unwrap_err();
    assert!(twice.to_string().contains("cuMemHostRegister"), "{twice}");
    stream.write_value(&again, 0, 9).unwrap();
    await_value(&there, 0, 9);
}

#[test]
fn values_lie_inside_the_memory_at_whole_words() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let (ours, descriptor) = Mapped::create("page", PAGE).unwrap();
    let there = Mapped::open(&descriptor, PAGE).unwrap();
    let memory = DeviceBuffer::over_mapped(&context, Arc::new(ours)).unwrap();
    for at in [PAGE - 4, PAGE, usize::MAX - 7, 4, 1] {
        assert_eq!(stream.write_value(&memory, at, 1).unwrap_err().kind(), Kind::Argument, "{at}");
    }
    stream.write_value(&memory, PAGE - 8, 0x0102_0304_0506_0708).unwrap();
    await_value(&there, PAGE / 8 - 1, 0x0102_0304_0506_0708);
}
