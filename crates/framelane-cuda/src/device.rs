//! The GPUs there are, and what each can do. Creates no context.

use crate::api::{Api, Attribute};
use crate::driver::driver;
use crate::error::{CudaError, Result, check};
use cudarc::driver::sys::{CUdevice, CUuuid};
use std::ffi::{c_char, c_int};
use std::fmt;

/// A GPU. Ordinals count the devices visible to this process (`CUDA_VISIBLE_DEVICES`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub ordinal: u32,
    /// Its name, as the vendor has it.
    pub name: String,
    /// Its UUID: what Vulkan calls `deviceUUID`.
    pub uuid: [u8; 16],
    /// Compute capability: (9, 0) for Hopper.
    pub compute: (u32, u32),
    /// Bytes of memory.
    pub memory: usize,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Copy engines: with 2, copies each way run at the same time.
    pub copy_engines: u32,
    /// PCI domain, bus and device.
    pub pci: (u32, u32, u32),
    /// Whether it shares the host's memory.
    pub integrated: bool,
    /// Whether memory can be allocated in a stream's order.
    pub memory_pools: bool,
}

impl DeviceInfo {
    /// The UUID as text, as `nvidia-smi -L` writes it: `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub fn uuid_text(&self) -> String {
        let hex: String = self.uuid.iter().map(|b| format!("{b:02x}")).collect();
        format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.compute;
        write!(f, "cuda:{} {} ({major}.{minor}, {} MiB)", self.ordinal, self.name, self.memory >> 20)
    }
}

/// How many GPUs are visible to this process; never 0.
///
/// # Errors
/// [`crate::Kind::NoDriver`], [`crate::Kind::OldDriver`], [`crate::Kind::NoDevice`].
pub fn device_count() -> Result<u32> {
    let api = driver()?;
    let mut count = 0;
    // SAFETY: writes one number.
    check("cuDeviceGetCount", unsafe { (api.cuDeviceGetCount)(&mut count) })?;
    match u32::try_from(count) {
        Ok(count @ 1..) => Ok(count),
        // The driver says success and 0; its own code for "no device" has the sentence for it.
        _ => check("cuDeviceGetCount", 100).map(|()| 0),
    }
}

/// All GPUs visible to this process, in the order of their ordinals.
///
/// # Errors
/// As [`device_count`].
pub fn devices() -> Result<Vec<DeviceInfo>> {
    (0..device_count()?).map(|ordinal| find(ordinal).map(|(_, info)| info)).collect()
}

/// Whether anything in this process uses the GPU: whether its primary context exists. Creates none.
///
/// # Errors
/// As [`device_count`]; [`crate::Kind::Argument`] for an ordinal there is not.
pub fn device_is_active(ordinal: u32) -> Result<bool> {
    let (device, _) = find(ordinal)?;
    let (mut flags, mut active) = (0, 0);
    // SAFETY: writes two numbers.
    check("cuDevicePrimaryCtxGetState", unsafe {
        (driver()?.cuDevicePrimaryCtxGetState)(device, &mut flags, &mut active)
    })?;
    Ok(active != 0)
}

/// The device that an address is memory of, as another library names it.
///
/// # Errors
/// [`crate::Kind::Argument`] if it is no device's; as [`device_count`].
pub fn device_of(pointer: u64) -> Result<u32> {
    const DEVICE_ORDINAL: u32 = 9;
    let api = driver()?;
    let mut ordinal: c_int = 0;
    // SAFETY: writes one number; any address may be asked for.
    let found = unsafe { (api.cuPointerGetAttribute)((&raw mut ordinal).cast(), DEVICE_ORDINAL, pointer) };
    check("cuPointerGetAttribute", found)
        .map_err(|e| e.saying(format!("{pointer:#x} is no memory of a CUDA device")))?;
    u32::try_from(ordinal)
        .map_err(|_| CudaError::argument("device_of", format!("{pointer:#x} is of no device")))
}

pub(crate) fn find(ordinal: u32) -> Result<(CUdevice, DeviceInfo)> {
    let api = driver()?;
    let mut device = 0;
    // SAFETY: writes one number; a wrong ordinal is an error code.
    check("cuDeviceGet", unsafe { (api.cuDeviceGet)(&mut device, ordinal.min(i32::MAX as u32) as i32) })
        .map_err(|e| {
            let sentence = format!("there is no GPU cuda:{ordinal}: {e}");
            e.saying(sentence)
        })?;
    let number = |attribute: Attribute| attribute_of(api, device, attribute);
    let info = DeviceInfo {
        ordinal,
        name: name(api, device)?,
        uuid: uuid(api, device)?,
        compute: (number(75)?, number(76)?),
        memory: memory(api, device)?,
        multiprocessors: number(16)?,
        copy_engines: number(40)?,
        pci: (number(50)?, number(33)?, number(34)?),
        integrated: number(18)? != 0,
        memory_pools: number(115)? != 0,
    };
    Ok((device, info))
}

fn attribute_of(api: &Api, device: CUdevice, attribute: Attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: writes one number.
    check("cuDeviceGetAttribute", unsafe { (api.cuDeviceGetAttribute)(&mut value, attribute, device) })?;
    Ok(value.max(0) as u32)
}

fn name(api: &Api, device: CUdevice) -> Result<String> {
    let mut text = [0 as c_char; 256];
    // SAFETY: writes at most the length given, with a zero at the end.
    check("cuDeviceGetName", unsafe { (api.cuDeviceGetName)(text.as_mut_ptr(), text.len() as i32, device) })?;
    let bytes: Vec<u8> = text.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn uuid(api: &Api, device: CUdevice) -> Result<[u8; 16]> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: writes 16 bytes.
    check("cuDeviceGetUuid_v2", unsafe { (api.cuDeviceGetUuid_v2)(&mut uuid, device) })?;
    Ok(uuid.bytes.map(|b| b as u8))
}

fn memory(api: &Api, device: CUdevice) -> Result<usize> {
    let mut bytes = 0;
    // SAFETY: writes one number.
    check("cuDeviceTotalMem_v2", unsafe { (api.cuDeviceTotalMem_v2)(&mut bytes, device) })?;
    Ok(bytes)
}
