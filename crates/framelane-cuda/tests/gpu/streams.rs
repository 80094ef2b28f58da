//! Streams, events and contexts from any thread.

use crate::{LONG, download, gpu, pattern, pinned, stream, upload};
use framelane_cuda::sys::{self, CUresult};
use framelane_cuda::{DeviceBuffer, EventOptions, Flag, Kind, PinnedBuffer, PinnedKind, Stream};
use std::time::{Duration, Instant};

fn current() -> sys::CUcontext {
    let mut context = std::ptr::null_mut();
    // SAFETY: writes one handle.
    assert_eq!(unsafe { sys::cuCtxGetCurrent(&mut context) }, CUresult::CUDA_SUCCESS);
    context
}

/// The failure this crate exists for: a thread that never saw CUDA copies.
#[test]
fn a_fresh_thread_fails_with_the_raw_driver_and_works_here() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let device = DeviceBuffer::new(&context, 64).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(current().is_null());
            let bytes = [7u8; 64];
            // SAFETY: both ends are live and 64 bytes long.
            let raw = unsafe { sys::cuMemcpyHtoD_v2(device.pointer(), bytes.as_ptr().cast(), 64) };
            assert_eq!(raw, CUresult::CUDA_ERROR_INVALID_CONTEXT);
            let host = pinned(&context, &bytes);
            stream.copy(&host, 0..64, &device, 0).unwrap();
            assert_eq!(download(&stream, &device), bytes);
            assert!(current().is_null(), "the thread is left as it was");
        });
    });
}

#[test]
fn the_callers_own_context_is_put_back() {
    let Some(gpu) = gpu() else { return };
    let context = (*gpu).clone();
    std::thread::spawn(move || {
        let mut own = std::ptr::null_mut();
        // SAFETY: writes one handle; the context becomes current on this thread.
        assert_eq!(unsafe { sys::cuCtxCreate_v2(&mut own, 0, 0) }, CUresult::CUDA_SUCCESS);
        let stream = stream(&context);
        let event = stream.record().unwrap();
        event.synchronize().unwrap();
        drop((stream, event, DeviceBuffer::new(&context, 10).unwrap()));
        assert_eq!(current(), own);
        // SAFETY: made above, used by nobody else.
        assert_eq!(unsafe { sys::cuCtxDestroy_v2(own) }, CUresult::CUDA_SUCCESS);
        context.bind().unwrap();
        assert_eq!(current(), context.raw());
    })
    .join()
    .unwrap();
}

#[test]
fn an_event_keeps_its_meaning() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let first = stream.record().unwrap();
    first.synchronize().unwrap();
    stream.spin(LONG).unwrap();
    let second = stream.record().unwrap();
    assert!(first.is_done().unwrap(), "the first stays reached");
    assert!(!second.is_done().unwrap());
    assert!(!stream.is_idle().unwrap());
    assert!(!second.synchronize_for(Duration::from_millis(5)).unwrap());
    assert!(second.synchronize_for(Duration::from_secs(20)).unwrap());
    assert!(stream.is_idle().unwrap());
}

/// An event dropped while streams wait for it goes back to the pool and is recorded elsewhere: the wait still
/// means what it meant.
#[test]
fn a_wait_outlives_its_event() {
    let Some(context) = gpu() else { return };
    let (writer, reader, other) = (stream(&context), stream(&context), stream(&context));
    let bytes = 10_001;
    let data = DeviceBuffer::new(&context, bytes).unwrap();
    for seed in 0..20 {
        writer.spin(Duration::from_millis(20)).unwrap();
        writer.pattern(&data, 0..bytes, seed).unwrap();
        let written = writer.record().unwrap();
        reader.wait(&written).unwrap();
        drop(written);
        for _ in 0..50 {
            drop(other.record().unwrap());
        }
        assert_eq!(download(&reader, &data), pattern(bytes, seed), "round {seed}");
    }
}

#[test]
fn a_wait_holds_up_the_stream_and_not_the_thread() {
    let Some(context) = gpu() else { return };
    let (slow, fast) = (stream(&context), stream(&context));
    slow.spin(LONG).unwrap();
    let start = Instant::now();
    let end = slow.record().unwrap();
    fast.wait(&end).unwrap();
    let after = fast.record().unwrap();
    assert!(!after.is_done().unwrap());
    assert!(start.elapsed() < LONG, "enqueueing waited: {:?}", start.elapsed());
    after.synchronize().unwrap();
    assert!(end.is_done().unwrap());
}

#[test]
fn time_is_measured_on_the_gpu() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    for options in
        [EventOptions { timed: true, sleeping: false }, EventOptions { timed: true, sleeping: true }]
    {
        let start = stream.record_with(options).unwrap();
        stream.spin(Duration::from_millis(20)).unwrap();
        let end = stream.record_with(options).unwrap();
        assert_eq!(end.since(&start).unwrap(), None, "not over yet");
        end.synchronize().unwrap();
        let time = end.since(&start).unwrap().unwrap();
        assert!((19..200).contains(&time.as_millis()), "{time:?}");
        assert_eq!(start.since(&end).unwrap(), Some(Duration::ZERO));
    }
    let (a, b) = (stream.record().unwrap(), stream.record().unwrap());
    b.synchronize().unwrap();
    assert!(b.since(&a).is_err(), "untimed events have no time");
    stream.synchronize().unwrap();
}

#[test]
fn priorities_are_clamped() {
    let Some(context) = gpu() else { return };
    let (least, most) = context.priorities();
    assert!(most <= least);
    for (asked, given) in [(0, 0.clamp(most, least)), (-1000, most), (1000, least)] {
        assert_eq!(Stream::new(&context, asked).unwrap().priority().unwrap(), given);
    }
}

#[test]
fn streams_of_other_libraries_are_honoured() {
    let Some(context) = gpu() else { return };
    let buffer = DeviceBuffer::new(&context, 3000).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut raw = std::ptr::null_mut();
            context.bind().unwrap();
            // SAFETY: writes one handle.
            assert_eq!(unsafe { sys::cuStreamCreate(&mut raw, 1) }, CUresult::CUDA_SUCCESS);
            // SAFETY: made just now on this device's primary context.
            let foreign = unsafe { Stream::from_raw(&context, raw) }.unwrap();
            foreign.spin(LONG).unwrap();
            for seed in 0..30 {
                foreign.pattern(&buffer, 0..3000, seed).unwrap();
            }
            let own = stream(&context);
            own.wait(&foreign.record().unwrap()).unwrap();
            drop(foreign);
            // SAFETY: ours, and no handle is left.
            assert_eq!(unsafe { sys::cuStreamDestroy_v2(raw) }, CUresult::CUDA_SUCCESS);
            assert_eq!(download(&own, &buffer), pattern(3000, 29));
        });
    });
    drop(buffer);
    // SAFETY: the legacy default stream always lives.
    let default = unsafe { Stream::from_raw(&context, std::ptr::null_mut()) }.unwrap();
    assert!(default.is_legacy_default());
    let bytes = pattern(100, 1);
    assert_eq!(download(&default, &upload(&default, &bytes)), bytes);
    // SAFETY: refused before it is used.
    let per_thread = unsafe { Stream::from_raw(&context, std::ptr::without_provenance_mut(2)) };
    assert_eq!(per_thread.unwrap_err().kind(), Kind::Argument);
}

/// Streams, events and memory made and dropped by different threads, all at once.
#[test]
fn any_thread_may_make_any_call() {
    let Some(context) = gpu() else { return };
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            let (send, context) = (send.clone(), &context);
            scope.spawn(move || {
                for i in 0..50 {
                    let stream = stream(context);
                    let bytes = pattern(1000 + i, t);
                    let device = upload(&stream, &bytes);
                    let host = PinnedBuffer::new(context, bytes.len(), PinnedKind::Cached).unwrap();
                    stream.copy(&device, 0..bytes.len(), &host, 0).unwrap();
                    let end = stream.record().unwrap();
                    send.send((device, host, end, bytes)).unwrap();
                }
            });
        }
        drop(send);
        for (device, host, end, bytes) in receive {
            end.synchronize().unwrap();
            assert_eq!(*host.read().unwrap(), *bytes);
            drop(device);
        }
    });
    assert_eq!(context.take_late_error(), None);
}

/// A stream that waits for a flag goes on when the CPU raises it, not before, whichever thread does; and the flag
/// may be dropped while it is waited for.
#[test]
fn a_flag_holds_a_stream_until_it_is_raised() {
    let Some(gpu) = gpu() else { return };
    let stream = stream(&gpu);
    let flag = Flag::new(&gpu).unwrap();
    stream.wait_for_flag(&flag, 2).unwrap();
    let after = stream.record().unwrap();
    assert!(!after.synchronize_for(Duration::from_millis(30)).unwrap());
    flag.raise(1);
    assert!(!after.synchronize_for(Duration::from_millis(30)).unwrap(), "1 is not 2");
    let theirs = flag.clone();
    std::thread::spawn(move || theirs.raise(2)).join().unwrap();
    assert!(after.synchronize_for(Duration::from_secs(5)).unwrap());
    flag.raise(1);
    assert_eq!(flag.value(), 2, "it never falls");
    // Past it already; then dropped while a wait for it may be pending.
    for _ in 0..100 {
        let short = Flag::new(&gpu).unwrap();
        stream.wait_for_flag(&short, 1).unwrap();
        short.raise(1);
    }
    stream.synchronize().unwrap();
}
