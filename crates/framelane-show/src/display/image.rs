//! The memory of a display's slots: where a producer's kernel writes a picture, and the presenter finds it.

use super::picture::Plan;
use crate::gpu::{self, Gpu};
use crate::interop::Exportable;
use crate::sharing;
use framelane::device::{Buffer, Device, Memory};
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// How pictures of one pane come to the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// The producer's kernel writes memory of the graphics adapter.
    Shared,
    /// The producer's kernel writes its own device's memory; a copy to the host follows, then an upload. Why so.
    Upload(String),
}

/// RGBA8, rows [`pitch`] bytes apart.
pub(super) struct Image {
    /// What the kernel writes.
    pub target: Buffer,
    pub for_presenter: ForPresenter,
}

/// What the presenter reads.
pub(super) enum ForPresenter {
    /// The same memory, as the adapter sees it.
    Shared(wgpu::Buffer),
    /// Pinned host memory: `target` itself on the host device, a copy of it on others.
    Host(Buffer),
}

/// Bytes from row to row of RGBA8 in a buffer: adapters copy between buffers and textures by rows of whole steps.
pub(crate) fn pitch(width: usize) -> usize {
    (4 * width).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT as usize)
}

/// # Errors
/// [`ErrorKind::Unsupported`] if the adapter cannot draw such pictures.
pub(super) fn check(gpu: &Gpu, plan: &Plan) -> Result<()> {
    if let Some((before, ..)) = &plan.before {
        gpu.extent(*before)?;
    }
    check_size(gpu, plan.size, plan.bytes)
}

/// As [`check`], for a picture of `bytes` in all.
pub(super) fn check_size(gpu: &Gpu, size: ImageSize, bytes: usize) -> Result<()> {
    gpu.extent(size)?;
    if bytes as u64 <= gpu.max_read {
        return Ok(());
    }
    let (adapter, most) = (&gpu.adapter, gpu.max_read);
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "a picture of {size} takes {bytes} bytes, and {adapter} draws out of {most} at most (make it smaller first)"
        ),
    ))
}

/// How pictures can come from `device`.
///
/// Found out by trying once: whatever stands in the way says so itself.
pub(super) fn way(gpu: &Gpu, device: &Device) -> Way {
    let Some(cuda) = device.cuda_context() else {
        return Way::Upload(format!("pictures are made on the {}", device.name()));
    };
    if gpu.adapter.uuid != gpu::uuid_of(device) {
        return Way::Upload(sharing::apart(cuda.info(), &gpu.adapter));
    }
    match shared(gpu, device, pitch(1)) {
        Ok(_) => Way::Shared,
        Err(why) => Way::Upload(why.to_string()),
    }
}

fn shared(gpu: &Gpu, device: &Device, bytes: usize) -> Result<Image> {
    let cuda = device.cuda_context().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("the {} has no memory to share", device.name()))
    })?;
    let (buffer, mapped) = Exportable::new(gpu, bytes)?.for_cuda(cuda)?;
    Ok(Image { target: device.buffer_from_cuda(mapped)?, for_presenter: ForPresenter::Shared(buffer) })
}

/// What the kernel writes of a picture that goes by the host, and the pinned memory where the host sees it: the same on
/// the host device.
pub(crate) fn by_host(device: &Device, bytes: usize) -> Result<(Buffer, Buffer)> {
    let seen = device.alloc(bytes, Memory::Pinned)?;
    let target = match device.cuda_context() {
        Some(_) => device.alloc(bytes, Memory::Device)?,
        None => seen.clone(),
    };
    Ok((target, seen))
}

/// One slot of a pane's ring: nothing until it is first used, then as large as its largest picture.
#[derive(Default)]
pub(super) struct Slot {
    image: Mutex<Option<Arc<Image>>>,
}

impl Slot {
    /// The slot's image, if it has at least `bytes`.
    pub fn of(&self, bytes: usize) -> Option<Arc<Image>> {
        let slot = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().filter(|image| image.target.len() >= bytes).cloned()
    }

    /// The slot's image, made anew if it has less than `bytes`. A picture that is still being read from a smaller one keeps it.
    pub fn at_least(&self, gpu: &Gpu, device: &Device, way: &Way, bytes: usize) -> Result<Arc<Image>> {
        let mut slot = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = slot.as_ref().filter(|image| image.target.len() >= bytes) {
            return Ok(image.clone());
        }
        // Before there is a new one: the two together were not asked for.
        *slot = None;
        let image = match way {
            Way::Shared => shared(gpu, device, bytes)?,
            Way::Upload(_) => {
                let (target, seen) = by_host(device, bytes)?;
                Image { target, for_presenter: ForPresenter::Host(seen) }
            }
        };
        Ok(slot.insert(Arc::new(image)).clone())
    }
}
