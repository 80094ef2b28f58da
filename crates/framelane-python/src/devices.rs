//! The devices of this process, each opened once, and streams on them: other libraries' and one of ours for each.

use crate::dlpack;
use crate::errors::{argument, raise};
use framelane::device::{Device, Stream};
use framelane::framelane_cuda::DeviceInfo;
use framelane::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Foreign streams that are remembered for each device: a program has few.
const MOST_STREAMS: usize = 32;

struct Known {
    /// `None`: the host.
    ordinal: Option<u32>,
    device: Device,
    /// Ours.
    stream: Stream,
    /// Other libraries', by their address; the one used last is the last.
    foreign: Vec<(usize, Stream)>,
}

/// With the process that opened them.
static KNOWN: Mutex<(u32, Vec<Known>)> = Mutex::new((0, Vec::new()));

fn known() -> MutexGuard<'static, (u32, Vec<Known>)> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if known.0 != process {
        // Those of a parent have no threads here, which dropping them would wait for.
        std::mem::forget(std::mem::replace(&mut *known, (process, Vec::new())));
    }
    known
}

/// What `of` gives of a device, which is opened when it is first asked for.
fn with<R>(ordinal: Option<u32>, of: impl FnOnce(&mut Known) -> Result<R>) -> Result<R> {
    let known = &mut known().1;
    let at = match known.iter().position(|known| known.ordinal == ordinal) {
        Some(at) => at,
        None => {
            let device = ordinal.map_or_else(|| Ok(Device::host()), Device::cuda)?;
            let stream = device.stream("python")?;
            known.push(Known { ordinal, device, stream, foreign: Vec::new() });
            known.len() - 1
        }
    };
    of(&mut known[at])
}

/// The host, or the CUDA device of this number. May wait for the driver.
pub fn device(ordinal: Option<u32>) -> Result<Device> {
    with(ordinal, |known| Ok(known.device.clone()))
}

/// A stream of the device: another library's by its address, or ours.
pub fn stream(ordinal: Option<u32>, raw: Option<usize>) -> Result<Stream> {
    with(ordinal, |known| {
        let Some(raw) = raw else { return Ok(known.stream.clone()) };
        if let Some((_, stream)) = known.foreign.iter().find(|(of, _)| *of == raw) {
            return Ok(stream.clone());
        }
        let stream = dlpack::stream(&known.device, raw)?;
        if known.foreign.len() == MOST_STREAMS {
            known.foreign.remove(0);
        }
        known.foreign.push((raw, stream.clone()));
        Ok(stream)
    })
}

/// The address of our own stream, for other libraries to order after their work.
pub fn own_stream(ordinal: u32) -> Result<usize> {
    with(Some(ordinal), |known| {
        let stream = known.stream.cuda().map(|stream| stream.raw() as usize);
        stream.ok_or_else(|| Error::new(ErrorKind::Argument, "the host has no CUDA stream"))
    })
}

/// What `"cpu"`, `"cuda"` and `"cuda:1"` mean; other libraries' device objects are read by their text.
pub fn parse(device: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    let text = device.str()?.to_string_lossy().into_owned();
    let number = match text.split_once(':') {
        None if text == "cpu" => return Ok(None),
        None if text == "cuda" => Some(0),
        Some(("cuda", number)) => number.parse().ok(),
        _ => None,
    };
    let wrong = || {
        argument(format!(
            "device cannot be {text:?}: give \"cpu\", \"cuda\" or \"cuda:N\" (\"cuda:0\" is the first)"
        ))
    };
    number.map(Some).ok_or_else(wrong)
}

/// The CUDA devices of this machine, without opening one; none if there is no driver.
pub fn cuda_devices() -> &'static [DeviceInfo] {
    static DEVICES: OnceLock<Vec<DeviceInfo>> = OnceLock::new();
    DEVICES.get_or_init(|| framelane::device::cuda_devices().unwrap_or_default())
}

/// The UUID of the GPU that pictures are drawn on: of the named device, or of the first one there is.
pub fn uuid(device: Option<&Bound<'_, PyAny>>) -> PyResult<Option<[u8; 16]>> {
    let Some(device) = device else { return Ok(cuda_devices().first().map(|info| info.uuid)) };
    let Some(ordinal) = parse(device)? else { return Ok(None) };
    match cuda_devices().iter().find(|info| info.ordinal == ordinal) {
        Some(info) => Ok(Some(info.uuid)),
        None => Err(Device::cuda(ordinal).map_or_else(raise, |_| argument("the device came and went"))),
    }
}

/// Where the name of a device leads: `cpu`, `cuda:0`.
pub fn name(ordinal: Option<u32>) -> String {
    ordinal.map_or_else(|| "cpu".to_owned(), |ordinal| format!("cuda:{ordinal}"))
}
