//! A device that is lost, and memory and kernels of others.

use crate::{gpu, stream};
use framelane_cuda::{Arg, Context, DeviceBuffer, Grid, Kind, Module, PinnedBuffer, PinnedKind};
use std::process::Command;

/// Stores 7 at the address given.
pub const STORE: &str = "
.version 8.0
.target sm_52
.address_size 64
.visible .entry store(.param .u64 at) {
    .reg .b64 %rd1;
    .reg .b32 %r1;
    ld.param.u64 %rd1, [at];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}
";

#[test]
fn foreign_kernels_run() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    let buffer = DeviceBuffer::new(&context, 16).unwrap();
    let store = Module::from_ptx(&context, STORE).unwrap().function("store").unwrap();
    // SAFETY: one address, inside the buffer.
    unsafe { store.launch(&stream, Grid::line(1, 1), &[Arg::Device(&buffer, 8)]) }.unwrap();
    assert_eq!(crate::download(&stream, &buffer)[8], 7);
    // SAFETY: refused.
    let bad = unsafe { store.launch(&stream, Grid::line(0, 1), &[Arg::Device(&buffer, 0)]) };
    assert!(bad.is_err(), "a grid of nothing");
    // SAFETY: refused.
    let bad = unsafe { store.launch(&stream, Grid::line(1, 1), &[Arg::Device(&buffer, 17)]) };
    assert_eq!(bad.unwrap_err().kind(), Kind::Argument);
}

/// In a process of its own, since its context is dead afterwards.
#[test]
fn a_wrong_address_is_told_as_a_lost_device() {
    let Some(_gpu) = gpu() else { return };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lost::child_loses_the_device", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    println!("{said}");
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
}

#[test]
#[ignore = "run by the test above"]
fn child_loses_the_device() {
    let context = Context::open(0).unwrap();
    let stream = stream(&context);
    let (device, host) = (
        DeviceBuffer::new(&context, 100).unwrap(),
        PinnedBuffer::new(&context, 100, PinnedKind::Cached).unwrap(),
    );
    let store = Module::from_ptx(&context, STORE).unwrap().function("store").unwrap();
    stream.copy(&host, 0..100, &device, 0).unwrap();
    // SAFETY: not safe at all: this is the planted fault.
    unsafe { store.launch(&stream, Grid::line(1, 1), &[Arg::U64(0x10)]) }.unwrap();
    let after = stream.record();
    let lost = stream.synchronize().unwrap_err();
    println!("{lost}");
    assert_eq!(lost.kind(), Kind::Lost);
    assert!(lost.to_string().contains("start the process again"), "{lost}");
    if let Ok(after) = after {
        assert_eq!(after.is_done().unwrap_err().kind(), Kind::Lost);
    }
    assert_eq!(stream.record().unwrap_err().kind(), Kind::Lost);
    assert_eq!(DeviceBuffer::new(&context, 100).unwrap_err().kind(), Kind::Lost);
    assert!(host.write().is_ok_and(|_| true) || host.write().is_err_and(|e| e.kind() == Kind::Lost));
    // Dropping what is on a dead device neither hangs nor panics.
    drop((device, host, store, stream));
    println!("told late: {:?}", context.take_late_error().map(|e| e.to_string()));
    drop(context);
}
