//! Memory of the graphics adapter that CUDA writes into: Vulkan makes it and exports it, CUDA maps it.
//!
//! The only place of this crate with `unsafe`. Nothing here orders the two sides: the presenter reads a buffer only
//! when CUDA's event after the write was seen done (a worker process's: the number that its stream wrote after it), and its
//! slot is written again only when the presenter's submission was seen done. Both are seen by the CPU, so that neither
//! GPU side needs a semaphore of the other.

use crate::gpu::Gpu;
use ash::{khr, vk};
use framelane::framelane_cuda::{DeviceBuffer, Exported};
#[cfg(unix)]
use framelane::share::DeviceSlots;
use framelane::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

/// What an adapter must be asked for, so that its memory can be exported.
pub(crate) const FEATURE: wgpu::Features = if cfg!(windows) {
    wgpu::Features::VULKAN_EXTERNAL_MEMORY_WIN32
} else {
    wgpu::Features::VULKAN_EXTERNAL_MEMORY_FD
};

#[cfg(unix)]
const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
#[cfg(windows)]
const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_WIN32;

/// Vulkan's UUID of the adapter: the one that CUDA gives the same GPU. `None` if the adapter is not Vulkan's.
pub(crate) fn uuid(adapter: &wgpu::Adapter) -> Option<[u8; 16]> {
    // SAFETY: the handles are used while the adapter is borrowed, and nothing of it is destroyed.
    let hal = unsafe { adapter.as_hal::<Vulkan>() }?;
    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    let instance = hal.shared_instance().raw_instance();
    // SAFETY: the physical device is the instance's, which lives as long as `hal`; wgpu asks for Vulkan 1.1 or newer
    // where there is one, and an older driver leaves the zeros.
    unsafe { instance.get_physical_device_properties2(hal.raw_physical_device(), &mut properties) };
    Some(id.device_uuid)
}

/// Whether Vulkan's loader is there. It stays loaded no longer than this call, unless wgpu holds it.
pub(crate) fn has_loader() -> bool {
    // SAFETY: the system's own loader, which wgpu loads by the same name; nothing of it is kept.
    unsafe { ash::Entry::load() }.is_ok()
}

/// A buffer of the adapter, and its memory for export.
pub(crate) struct Exportable {
    pub(crate) buffer: wgpu::Buffer,
    exported: Exported,
    /// Bytes of the whole allocation.
    allocated: usize,
    bytes: usize,
}

/// What Vulkan made so far: destroyed unless it is handed over.
struct Made<'a> {
    device: &'a ash::Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this device and given to nobody; null handles are passed over.
        unsafe { self.device.destroy_buffer(self.buffer, None) };
        // SAFETY: as above; the buffer that it was bound to is gone.
        unsafe { self.device.free_memory(self.memory, None) };
    }
}

impl Exportable {
    /// A buffer of `bytes` from which textures can be copied.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the adapter exports no memory; [`ErrorKind::Device`] if it has none left.
    pub(crate) fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        let unsupported = |what: &str| Error::new(ErrorKind::Unsupported, format!("{} {what}", gpu.adapter));
        if !gpu.device.features().contains(FEATURE) {
            return Err(unsupported("does not share its memory with other programming interfaces"));
        }
        // SAFETY: the handles are used while `hal` lives; what is made of them is destroyed or handed to wgpu.
        let hal = unsafe { gpu.device.as_hal::<Vulkan>() };
        let hal = hal.ok_or_else(|| unsupported("is not reached by Vulkan"))?;
        let (device, instance) = (hal.raw_device(), hal.shared_instance().raw_instance());
        let failed = |call: &str, code: vk::Result| {
            Error::new(ErrorKind::Device, format!("{}: {call} failed: {code}", gpu.adapter))
        };

        let mut made = Made { device, buffer: vk::Buffer::null(), memory: vk::DeviceMemory::null() };
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let what = vk::BufferCreateInfo::default()
            .size(bytes as u64)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::STORAGE_BUFFER)
            .push_next(&mut external);
        // SAFETY: a whole description; the device lives as long as `hal`.
        made.buffer =
            unsafe { device.create_buffer(&what, None) }.map_err(|e| failed("vkCreateBuffer", e))?;
        // SAFETY: the buffer was just made.
        let needs = unsafe { device.get_buffer_memory_requirements(made.buffer) };
        // SAFETY: the physical device is the one that the device was made of.
        let kinds = unsafe { instance.get_physical_device_memory_properties(hal.raw_physical_device()) };
        let local = |&kind: &u32| {
            let flags = kinds.memory_types[kind as usize].property_flags;
            needs.memory_type_bits & (1 << kind) != 0 && flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
        };
        let kind = (0..kinds.memory_type_count)
            .find(local)
            .ok_or_else(|| unsupported("has no memory of its own for pictures"))?;
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(HANDLE);
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(made.buffer);
        let what = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(kind)
            .push_next(&mut export)
            .push_next(&mut dedicated);
        // SAFETY: a whole description, of a kind that the buffer takes.
        made.memory =
            unsafe { device.allocate_memory(&what, None) }.map_err(|e| failed("vkAllocateMemory", e))?;
        // SAFETY: both were just made, and the memory is as large as the buffer needs.
        unsafe { device.bind_buffer_memory(made.buffer, made.memory, 0) }
            .map_err(|e| failed("vkBindBufferMemory", e))?;
        let exported =
            export_memory(instance, device, made.memory).map_err(|e| failed("exporting memory", e))?;

        let (buffer, memory) = (made.buffer, made.memory);
        std::mem::forget(made);
        // SAFETY: nobody else destroys the two or binds the memory; it has `needs.size` bytes from 0 on.
        let buffer = unsafe { wgpu::hal::vulkan::Buffer::from_raw_managed(buffer, memory, 0, needs.size) };
        let description = wgpu::BufferDescriptor {
            label: Some("shared"),
            size: bytes as u64,
            usage: wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        };
        // SAFETY: the buffer is of this device, has this size and these usages, and whoever copies out of it has
        // seen it written.
        let buffer = unsafe { gpu.device.create_buffer_from_hal::<Vulkan>(buffer, &description) };
        Ok(Self { buffer, exported, allocated: needs.size as usize, bytes })
    }

    /// Map it for CUDA. The adapter must be the GPU of `cuda` ([`uuid`]).
    ///
    /// # Errors
    /// Of the driver; no error is left behind for its next call.
    pub(crate) fn for_cuda(
        self,
        cuda: &framelane::framelane_cuda::Context,
    ) -> Result<(wgpu::Buffer, DeviceBuffer)> {
        // SAFETY: Vulkan exported this allocation, of so many bytes, for this one buffer.
        let mapped = unsafe { DeviceBuffer::import(cuda, self.exported, self.allocated, self.bytes, true) }?;
        Ok((self.buffer, mapped))
    }

    /// For another process ([`open_slots`]): the buffer, the descriptor that is sent there, and the bytes of its
    /// allocation.
    #[cfg(unix)]
    pub(crate) fn for_worker(self) -> (wgpu::Buffer, Exported, usize) {
        (self.buffer, self.exported, self.allocated)
    }
}

/// Map, in a worker process, the slots of `bytes` bytes that its window's [`Exportable::for_worker`] made on the GPU of
/// `cuda`.
///
/// # Errors
/// Of the driver, for descriptors that it cannot open; no error is left behind for its next call.
#[cfg(unix)]
pub(crate) fn open_slots(
    cuda: &framelane::framelane_cuda::Context,
    slots: DeviceSlots,
    bytes: usize,
) -> Result<Vec<DeviceBuffer>> {
    let DeviceSlots { descriptors, allocated } = slots;
    let open = |descriptor| {
        // SAFETY: the window was asked for memory of this very GPU and says that it is, with so many bytes; it is a process
        // of the same user, who alone can listen in the folder. What the driver maps is the device's: should the window
        // not keep to it, this process's streams fail, and no memory of the process is touched.
        unsafe { DeviceBuffer::import(cuda, descriptor, allocated, bytes, true) }
    };
    Ok(descriptors.into_iter().map(open).collect::<framelane::framelane_cuda::Result<_>>()?)
}

#[cfg(unix)]
fn export_memory(
    instance: &ash::Instance,
    device: &ash::Device,
    memory: vk::DeviceMemory,
) -> std::result::Result<Exported, vk::Result> {
    use std::os::fd::FromRawFd;
    let export = khr::external_memory_fd::Device::new(instance, device);
    let what = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(HANDLE);
    // SAFETY: the memory was allocated for export as this type, and the extension is on with the feature.
    let fd = unsafe { export.get_memory_fd(&what) }?;
    // SAFETY: Vulkan gives each descriptor to its caller.
    Ok(unsafe { Exported::from_raw_fd(fd) })
}

#[cfg(windows)]
fn export_memory(
    instance: &ash::Instance,
    device: &ash::Device,
    memory: vk::DeviceMemory,
) -> std::result::Result<Exported, vk::Result> {
    use std::os::windows::io::FromRawHandle;
    let export = khr::external_memory_win32::Device::new(instance, device);
    let what = vk::MemoryGetWin32HandleInfoKHR::default().memory(memory).handle_type(HANDLE);
    // SAFETY: the memory was allocated for export as this type, and the extension is on with the feature.
    let handle = unsafe { export.get_memory_win32_handle(&what) }?;
    // SAFETY: Vulkan gives each handle of this type to its caller, who closes it.
    Ok(unsafe { Exported::from_raw_handle(handle as _) })
}
