//! What CUPTI records. Where it is not installed the tests are skipped.

use crate::{LONG, common, download, gpu, pinned, stream, upload};
use framelane_cuda::activity::{Crossed, Recording, Traffic};
use framelane_cuda::sys::{self, CUresult};
use framelane_cuda::{Context, DeviceBuffer, Kind};
use std::time::Duration;

/// What was recorded while `work` ran; `None` without CUPTI.
fn recorded(work: impl FnOnce()) -> Option<Traffic> {
    let recording = match Recording::start(&[]) {
        Ok(recording) => recording,
        Err(error) => {
            common::skip(format_args!("no CUPTI: {error}"));
            return None;
        }
    };
    work();
    Some(recording.finish().unwrap())
}

/// Copy by the driver, as another library would.
fn raw_download(context: &Context, from: &DeviceBuffer) -> Vec<u8> {
    let mut bytes = vec![0; from.len()];
    context.bind().unwrap();
    // SAFETY: both ends are live and as long as said.
    let code = unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), from.pointer(), bytes.len()) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    bytes
}

#[test]
fn ours_and_others_are_told_apart() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let device = DeviceBuffer::new(&context, 5000).unwrap();
    let host = pinned(&context, &[7; 5000]);
    for _ in 0..3 {
        let Some(traffic) = recorded(|| {
            stream.copy(&host, 0..5000, &device, 0).unwrap();
            stream.copy(&host, 0..1000, &device, 0).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(raw_download(&context, &device), [7; 5000]);
        }) else {
            return;
        };
        assert_eq!(traffic.to_device.ours, Crossed { bytes: 6000, copies: 2 });
        assert_eq!(traffic.to_device.others, Crossed::default());
        assert_eq!(traffic.from_device.ours, Crossed::default());
        assert_eq!(traffic.from_device.others, Crossed { bytes: 5000, copies: 1 });
        assert_eq!(traffic.lost, 0);
    }
}

#[test]
fn a_thread_waits_for_kernels_and_copies() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let device = upload(&stream, &vec![1; 64 << 20]);
    // Of its own stream alone, which a copy by the driver does not wait for: so waited for first.
    let Some(traffic) = recorded(|| {
        stream.spin(LONG).unwrap();
        stream.synchronize().unwrap();
        raw_download(&context, &device);
    }) else {
        return;
    };
    assert!(traffic.waiting > LONG * 8 / 10, "{traffic:?}");
    assert!(traffic.waiting < traffic.elapsed, "{traffic:?}");
    // 64 MB take longer than at 200 GB/s.
    assert!(traffic.copying > Duration::from_micros(300), "{traffic:?}");
    assert!(traffic.copying + traffic.waiting <= traffic.elapsed, "{traffic:?}");
    assert!(traffic.kernels >= LONG * 8 / 10, "{traffic:?}");
}

#[test]
fn what_is_enqueued_at_the_end_is_counted_and_its_time_is_not() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let device = DeviceBuffer::new(&context, 5000).unwrap();
    let host = pinned(&context, &[7; 5000]);
    let Some(traffic) = recorded(|| {
        stream.spin(LONG).unwrap();
        stream.copy(&host, 0..5000, &device, 0).unwrap();
    }) else {
        return;
    };
    assert_eq!(traffic.to_device.ours, Crossed { bytes: 5000, copies: 1 });
    assert!(traffic.elapsed < LONG / 2, "{traffic:?}");
    assert!(traffic.waiting < LONG / 10, "{traffic:?}");
    assert_eq!(download(&stream, &device), [7; 5000]);
}

#[test]
fn one_recording_at_a_time() {
    let Some(_context) = gpu() else { return };
    let Some(_) = recorded(|| {
        let error = Recording::start(&[]).unwrap_err();
        assert_eq!(error.kind(), Kind::Busy);
        assert!(error.to_string().contains("counted already"), "{error}");
    }) else {
        return;
    };
    // What is dropped ends, too.
    drop(Recording::start(&[]).unwrap());
    assert!(recorded(|| {}).is_some());
}
