//! Graphs: capture, launch, what they keep alive.

use crate::{download, gpu, pattern, pinned, stream, upload};
use framelane_cuda::{CudaError, DeviceBuffer, Kind};
use std::sync::Barrier;
use std::time::Duration;

#[test]
fn captured_work_runs_at_each_launch_and_not_before() {
    let Some(context) = gpu() else { return };
    let (stream, other) = (stream(&context), stream(&context));
    let a = upload(&stream, &pattern(5000, 1));
    let b = DeviceBuffer::new(&context, 5000).unwrap();
    stream.synchronize().unwrap();
    let graph = stream
        .capture(|s| {
            // A branch on a second stream, joined again.
            let fork = s.record()?;
            other.wait(&fork)?;
            other.copy(&a, 0..2500, &b, 0)?;
            s.copy(&a, 2500..5000, &b, 2500)?;
            s.wait(&other.record()?)
        })
        .unwrap();
    let exec = graph.instantiate().unwrap();
    drop(graph);
    assert!(download(&stream, &b).iter().all(|byte| *byte == 0), "capturing runs nothing");
    for seed in 1..20 {
        stream.pattern(&a, 0..5000, seed).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(download(&stream, &b), pattern(5000, seed));
    }
}

#[test]
fn a_graph_keeps_its_memory() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let result = DeviceBuffer::new(&context, 1 << 16).unwrap();
    let exec = {
        let data = upload(&stream, &pattern(1 << 16, 5));
        stream.synchronize().unwrap();
        stream.capture(|s| s.copy(&data, 0..1 << 16, &result, 0)).unwrap().instantiate().unwrap()
    };
    let spoilers: Vec<_> = (0..32).map(|_| DeviceBuffer::new(&context, 1 << 16).unwrap()).collect();
    for spoiler in &spoilers {
        stream.fill(spoiler, 0..1 << 16, 0xee).unwrap();
    }
    stream.spin(Duration::from_millis(50)).unwrap();
    exec.launch(&stream).unwrap();
    drop(exec);
    assert_eq!(download(&stream, &result), pattern(1 << 16, 5));
}

/// One thread captures while others allocate, copy, wait and free: neither disturbs the other.
#[test]
fn others_go_on_during_a_capture() {
    let Some(context) = gpu() else { return };
    let captured = stream(&context);
    let data = DeviceBuffer::new(&context, 4000).unwrap();
    let (open, close) = (Barrier::new(3), Barrier::new(3));
    std::thread::scope(|scope| {
        for t in 0..2 {
            let (context, open, close, captured) = (&context, &open, &close, &captured);
            scope.spawn(move || {
                let own = stream(context);
                open.wait();
                for i in 0..30 {
                    let bytes = pattern(3000, t * 100 + i);
                    assert_eq!(download(&own, &upload(&own, &bytes)), bytes);
                    drop(pinned(context, &bytes));
                    let refused = captured.record().unwrap_err();
                    assert_eq!(refused.kind(), Kind::Capture, "{refused}");
                }
                close.wait();
            });
        }
        let exec = captured
            .capture(|s| {
                open.wait();
                // The capturing thread may allocate, query and free too.
                let scratch = DeviceBuffer::new(&context, 1 << 20)?;
                drop(pinned(&context, &[1; 100]));
                s.pattern(&data, 0..4000, 77)?;
                s.copy(&data, 0..1000, &scratch, 0)?;
                close.wait();
                Ok(())
            })
            .unwrap()
            .instantiate()
            .unwrap();
        exec.launch(&captured).unwrap();
        assert_eq!(download(&captured, &data), pattern(4000, 77));
    });
    assert_eq!(context.take_late_error(), None);
}

#[test]
fn a_capture_that_fails_leaves_the_stream_usable() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let data = DeviceBuffer::new(&context, 100).unwrap();
    let host = pinned(&context, &[1; 100]);
    let refused: CudaError = stream.capture(|s| s.copy(&host, 0..100, &data, 0)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Capture, "{refused}");
    let nested = stream.capture(|s| s.capture(|_| Ok(())).map(drop)).unwrap_err();
    assert_eq!(nested.kind(), Kind::Capture, "{nested}");
    let waits = stream.capture(|s| s.synchronize()).unwrap_err();
    assert_eq!(waits.kind(), Kind::Capture, "{waits}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = stream.capture(|_| panic!("planted"));
    }));
    assert!(panicked.is_err());
    stream.pattern(&data, 0..100, 3).unwrap();
    assert_eq!(download(&stream, &data), pattern(100, 3));
    assert!(!host.write().unwrap().is_empty());
}

/// The memory was used by a stream before and is dropped inside that stream's own capture.
#[test]
fn memory_dropped_inside_a_capture_comes_back_after_it() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let old = upload(&stream, &[1; 1000]);
    let data = DeviceBuffer::new(&context, 1000).unwrap();
    let graph = stream
        .capture(|s| {
            drop(old);
            s.pattern(&data, 0..1000, 1)
        })
        .unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(download(&stream, &data), pattern(1000, 1));
    assert_eq!(context.take_late_error(), None);
}
