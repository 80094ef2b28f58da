//! Where wgpu has no Vulkan back end, no memory is shared: what asks is told so, and pictures go by the host.

use crate::gpu::Gpu;
use framelane::framelane_cuda::{Context, DeviceBuffer, Exported};
use framelane::share::DeviceSlots;
use framelane::{Error, ErrorKind, Result};

pub(crate) const FEATURE: wgpu::Features = wgpu::Features::empty();

pub(crate) fn uuid(_: &wgpu::Adapter) -> Option<[u8; 16]> {
    None
}

pub(crate) fn has_loader() -> bool {
    false
}

/// None is ever made.
pub(crate) struct Exportable(std::convert::Infallible);

impl Exportable {
    pub(crate) fn new(gpu: &Gpu, _: usize) -> Result<Self> {
        let text = format!("{} is not reached by Vulkan, which alone shares memory", gpu.adapter);
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    pub(crate) fn for_worker(self) -> (wgpu::Buffer, Exported, usize) {
        match self.0 {}
    }

    pub(crate) fn for_cuda(self, _: &Context) -> Result<(wgpu::Buffer, DeviceBuffer)> {
        match self.0 {}
    }
}

pub(crate) fn open_slots(_: &Context, _: DeviceSlots, _: usize) -> Result<Vec<DeviceBuffer>> {
    Err(Error::new(ErrorKind::Unsupported, "a window's memory cannot be opened on this system"))
}
