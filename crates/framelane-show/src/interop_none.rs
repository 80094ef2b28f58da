//! Where wgpu has no Vulkan back end, no memory is shared: what asks is told so, and pictures go by the host.

use crate::gpu::Gpu;
use framelane::framelane_cuda::{Context, DeviceBuffer};
use framelane::{Error, ErrorKind, Result};

pub(crate) const FEATURE: wgpu::Features = wgpu::Features::empty();

pub(crate) fn uuid(_: &wgpu::Adapter) -> Option<[u8; 16]> {
    None
}

pub(crate) struct Exportable;

impl Exportable {
    pub(crate) fn new(gpu: &Gpu, _: usize) -> Result<Self> {
        let text = format!("{} is not reached by Vulkan, which alone shares memory", gpu.adapter);
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    pub(crate) fn for_cuda(self, _: &Context) -> Result<(wgpu::Buffer, DeviceBuffer)> {
        Err(Error::new(ErrorKind::Unsupported, "nothing was exported"))
    }
}
