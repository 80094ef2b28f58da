//! The device that tests run on: the host's, or what `FRAMELANE_TEST_DEVICE` (`cuda:0`) names. Included by the tests of
//! several crates.

use framelane::Result;
use framelane::device::Device;
use std::ops::Deref;
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;

/// A device for a test. On CUDA the test has it for itself until this is dropped: streams share a few queues of the
/// hardware, so that one which is held up would hold up another test's, for as long as that test lets it be held.
pub struct TestDevice {
    device: Device,
    _alone: Option<Alone>,
}

impl Deref for TestDevice {
    type Target = Device;
    fn deref(&self) -> &Device {
        &self.device
    }
}

/// The device that tests run on: the host's, or what `FRAMELANE_TEST_DEVICE` (`cuda:0`) names.
pub fn device() -> TestDevice {
    open(Device::host, Device::cuda)
}

/// As [`device`], with the hazard check on.
pub fn checked_device() -> TestDevice {
    open(Device::host_checked, Device::cuda_checked)
}

/// For a test that opened its device itself.
pub fn alone_with(device: Device) -> TestDevice {
    TestDevice { device, _alone: Some(Alone::wait()) }
}

/// One of these two.
pub fn open(host: fn() -> Device, cuda: fn(u32) -> Result<Device>) -> TestDevice {
    match cuda_ordinal() {
        None => TestDevice { device: host(), _alone: None },
        Some(ordinal) => {
            let alone = Alone::wait();
            TestDevice { device: cuda(ordinal).unwrap(), _alone: Some(alone) }
        }
    }
}

/// The test that is running on the GPU, by its thread, which may open several devices.
struct Alone;

static RUNNING: Mutex<Option<(ThreadId, usize)>> = Mutex::new(None);
static DONE: Condvar = Condvar::new();

impl Alone {
    fn wait() -> Self {
        let me = std::thread::current().id();
        let mut running = RUNNING.lock().unwrap();
        while running.is_some_and(|(thread, _)| thread != me) {
            running = DONE.wait(running).unwrap();
        }
        running.get_or_insert((me, 0)).1 += 1;
        Self
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap();
        *running = running.take().map(|(thread, n)| (thread, n - 1)).filter(|(_, n)| *n > 0);
        DONE.notify_all();
    }
}

pub fn on_cuda() -> bool {
    cuda_ordinal().is_some()
}

fn cuda_ordinal() -> Option<u32> {
    let name = std::env::var("FRAMELANE_TEST_DEVICE").ok()?;
    let ordinal = name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
    Some(ordinal.unwrap_or_else(|| panic!("FRAMELANE_TEST_DEVICE={name}: cuda:0 is meant, or unset")))
}
