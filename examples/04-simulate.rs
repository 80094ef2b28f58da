//! Find a missing wait without a GPU and without luck.
//!
//! The simulated device runs all streams on one thread, in an order that a seed decides. Its hazard check
//! knows, for any two accesses to the same bytes, whether anything orders them; if nothing does, the call
//! that enqueues the second one fails, and says what to do.
//!
//! ```text
//! cargo run --release --example 04-simulate
//! ```

#![forbid(unsafe_code)]

use framelane::device::{Access, Device, Memory, Stream};
use framelane::{ErrorKind, Result};

/// Upload, double on the device, download: three streams, and one buffer on the device between them.
/// `forget` leaves out the wait between upload and kernel, as one forgets such things.
fn double(device: &Device, forget: bool) -> Result<Vec<u8>> {
    let [upload, compute, download]: [Stream; 3] =
        [device.stream("upload")?, device.stream("compute")?, device.stream("download")?];
    let host = device.alloc(4, Memory::Pinned)?;
    let there = device.alloc(4, Memory::Device)?;
    host.write_host()?.copy_from_slice(&[1, 2, 3, 4]);

    upload.copy(&host, 0..4, &there, 0)?;
    let uploaded = upload.record()?;
    if !forget {
        compute.wait(&uploaded)?;
    }
    compute.launch("double", &[Access::update(&there, 0..4)], |kernel| {
        kernel.outputs[0].iter_mut().for_each(|x| *x = x.wrapping_mul(2));
        Ok(())
    })?;
    let doubled = compute.record()?;
    download.wait(&doubled)?;
    download.copy(&there, 0..4, &host, 0)?;
    download.synchronize("the result")?;
    Ok(host.read_host()?.to_vec())
}

fn main() -> Result<()> {
    let right = double(&Device::simulated(1), false)?;
    println!("with every wait: {right:?}");

    // The same bug on a device that does not check: sometimes right, sometimes not.
    let wrong = (0..1000)
        .filter(|&seed| double(&Device::simulated_unchecked(seed), true).is_ok_and(|result| result != right))
        .count();
    println!("without the wait, unchecked: wrong in {wrong} of 1000 interleavings");

    // On a device that checks it is found at once, whatever the interleaving.
    let found = (0..1000)
        .filter_map(|seed| double(&Device::simulated(seed), true).err())
        .filter(|error| error.kind() == ErrorKind::Hazard)
        .collect::<Vec<_>>();
    println!("without the wait, checked: found in {} of 1000 interleavings", found.len());
    if let Some(error) = found.first() {
        println!("\n{error}");
    }
    Ok(())
}
