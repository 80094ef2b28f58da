//! What a display gives worker processes: slots in its adapter's memory for those that have the same GPU, and for the
//! others the reason why not.

use crate::gpu::Gpu;
use crate::interop::Exportable;
use framelane::Result;
use framelane::share::{DeviceSlots, Offer, Owned, Provider, Taken, Wanted};
use std::sync::Arc;

/// A worker's slots, as the adapter sees them.
struct Lent(Vec<wgpu::Buffer>);

/// Decides for each worker of the display on this adapter. No driver of a worker's own interface is needed here.
pub(super) fn provider(gpu: Arc<Gpu>) -> Provider {
    Provider::new(move |wanted| {
        let Some(device) = wanted.device else {
            return Offer { way: through_host(&gpu, "pictures are made by another process"), device: None };
        };
        if gpu.uuid != Some(device) {
            let why = format!("pictures are made by another process, on another GPU than {}", gpu.adapter);
            return Offer { way: through_host(&gpu, &why), device: None };
        }
        match slots(&gpu, wanted) {
            Ok(device) => Offer { way: gpu.adapter.reached_by("vulkan-shared"), device: Some(device) },
            Err(why) => Offer { way: through_host(&gpu, &why.to_string()), device: None },
        }
    })
}

/// The way of workers whose slots are in host memory, and why.
pub(super) fn through_host(gpu: &Gpu, why: &str) -> String {
    format!("shared-memory, then {}: {why}", gpu.adapter.uploaded_to())
}

fn slots(gpu: &Gpu, wanted: &Wanted) -> Result<(DeviceSlots, Owned)> {
    let mut slots = DeviceSlots { descriptors: Vec::new(), allocated: 0 };
    let mut buffers = Vec::new();
    for _ in 0..wanted.slots {
        // All are made alike, so that their allocations are, too.
        let (buffer, descriptor, allocated) = Exportable::new(gpu, wanted.slot_bytes)?.for_worker();
        slots.allocated = allocated;
        slots.descriptors.push(descriptor);
        buffers.push(buffer);
    }
    Ok((slots, Arc::new(Lent(buffers))))
}

/// Where the adapter finds a frame, if it is in the adapter's own memory.
pub(super) fn pixels(frame: &Taken) -> Option<wgpu::Buffer> {
    let (owned, slot) = frame.device()?;
    owned.downcast_ref::<Lent>()?.0.get(slot).cloned()
}
