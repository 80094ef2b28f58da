//! What a display gives worker processes: slots in its adapter's memory for those that have the same GPU, and for the
//! others the reason why not.

use crate::gpu::Gpu;
use crate::interop::Exportable;
use framelane::share::{DeviceSlots, Offer, Owned, Provider, Taken, Wanted};
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;

/// A worker's slots, as the adapter sees them.
struct Lent(Vec<wgpu::Buffer>);

/// Decides for each worker of the display on this adapter. No driver of a worker's own interface is needed here.
pub(super) fn provider(gpu: Arc<Gpu>) -> Provider {
    Provider::new(move |wanted| {
        let Some(device) = wanted.device else {
            return Offer { way: through_host(&gpu, "pictures are made by another process"), device: None };
        };
        if gpu.adapter.uuid != Some(device) {
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
    if wanted.slot_bytes as u64 > gpu.max_read {
        // To bind one would be an error of the whole display.
        let (bytes, adapter, most) = (wanted.slot_bytes, &gpu.adapter, gpu.max_read);
        let text = format!("slots of {bytes} bytes are wanted, and {adapter} draws out of {most} at most");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::common::skip;
    use crate::display::Display;
    use framelane::device::Device;
    use framelane::frame::{FrameMeta, ImageSize};
    use framelane::share::{Begun, Limits, Listener, MAX_SLOT_BYTES, Pixels, Shown, Worker, WorkerOptions};
    use std::time::Duration;

    const SIZE: ImageSize = ImageSize { width: 40, height: 20 };
    const LIMIT: Duration = Duration::from_secs(20);

    /// A display whose adapter exports memory: software does, too.
    fn display() -> Option<(Display, [u8; 16])> {
        let display = Display::offscreen(&Device::host()).map_err(skip).ok()?;
        let exports = Exportable::new(&display.gpu, 4096).map(|_| display.gpu.adapter.uuid);
        match exports {
            Ok(Some(uuid)) => Some((display, uuid)),
            Ok(None) => unreachable!("what exports is Vulkan's, and has a name"),
            Err(why) => {
                skip(why);
                None
            }
        }
    }

    fn attach(display: &mut Display, window: &str, options: WorkerOptions) -> (Result<Worker>, usize) {
        let name = format!("test-lend-{window}-{}", std::process::id());
        let mut listener = Listener::bind_with(&name, Limits { slot_bytes: MAX_SLOT_BYTES / 2 }).unwrap();
        std::thread::scope(|s| {
            let worker = s.spawn(move || Worker::attach(&name, "pane", options));
            let at = display.accept(&mut listener, LIMIT).unwrap().expect("a worker attaches");
            (worker.join().unwrap(), at)
        })
    }

    /// Each slot comes by a descriptor of its own, is drawn out of, and comes back once the adapter is done with it.
    #[test]
    fn a_worker_on_the_same_gpu_is_given_the_adapters_memory() {
        let Some((mut display, uuid)) = display() else { return };
        let options = WorkerOptions { device: Some(uuid), ..WorkerOptions::for_device(SIZE) };
        let (worker, at) = attach(&mut display, "same", options);
        let mut worker = worker.unwrap();
        let path = display.panes()[at].path.clone();
        assert!(path.starts_with("vulkan-shared (") && path == worker.way(), "{path} {}", worker.way());
        let slots = worker.take_device_slots().unwrap();
        assert_eq!(slots.descriptors.len(), 6);
        assert!(slots.allocated >= worker.memory().slot_bytes() && worker.memory().host_slots().is_none());
        assert!(worker.take_device_slots().is_none(), "once");
        let refused = worker.show(Pixels::Rgb(&[0; 2400]), SIZE, &FrameMeta::new("bytes", 0)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        for n in 1..=299 {
            let begun = worker.begin(SIZE, &FrameMeta::new("device", n)).unwrap();
            let Begun::Slot(slot) = begun else { panic!("{begun:?}: slots do not come back") };
            // The device would do so, after the pixels.
            slot.raise();
            assert_ne!(worker.hand_over(slot), Shown::Closed);
            if n % 3 > 0 {
                display.present(SIZE).unwrap();
                assert_eq!(display.panes()[at].picture.as_ref().unwrap().index, n);
            }
        }
        let status = &display.panes()[at];
        assert_eq!((status.presented, status.dropped), (200, 99), "{status:?}");
        assert_eq!(worker.counts().dropped, 0);
        // What is never complete is never shown, also when its worker is gone.
        let begun = worker.begin(SIZE, &FrameMeta::new("device", 300)).unwrap();
        let Begun::Slot(slot) = begun else { panic!("{begun:?}") };
        let _ = worker.hand_over(slot);
        drop(worker);
        for _ in 0..3 {
            display.present(SIZE).unwrap();
        }
        let status = &display.panes()[at];
        assert_eq!((status.presented, status.ended.as_deref()), (200, Some("ended")));
    }

    /// Larger pictures get larger slots in the adapter's memory, too.
    #[test]
    fn slots_of_the_adapter_grow() {
        let Some((mut display, uuid)) = display() else { return };
        let options =
            WorkerOptions { device: Some(uuid), patience: LIMIT, ..WorkerOptions::for_device(SIZE) };
        let (worker, at) = attach(&mut display, "grow", options);
        let mut worker = worker.unwrap();
        let first = worker.take_device_slots().unwrap().allocated;
        let large = ImageSize { width: 700, height: 500 };
        let (mut worker, slots) = std::thread::scope(|s| {
            let growing = s.spawn(move || {
                let begun = worker.begin(large, &FrameMeta::new("device", 1)).unwrap();
                let Begun::Slot(slot) = begun else { panic!("{begun:?}") };
                slot.raise();
                assert_eq!(worker.hand_over(slot), Shown::Shown);
                let slots = worker.take_device_slots().unwrap();
                (worker, slots)
            });
            while display.panes()[at].presented == 0 {
                display.present(SIZE).unwrap();
            }
            growing.join().unwrap()
        });
        assert!(slots.allocated > first && slots.allocated >= 700 * 500 * 4);
        assert_eq!((worker.counts().grown, display.panes()[at].presented), (1, 1));
        // More than a worker is allowed is refused in words, and the pane goes on.
        let huge = ImageSize { width: 60_000, height: 2500 };
        let refused = std::thread::scope(|s| {
            let asking = s.spawn(|| worker.begin(huge, &FrameMeta::new("device", 2)).map(|_| ()));
            while !asking.is_finished() {
                display.present(SIZE).unwrap();
            }
            asking.join().unwrap().unwrap_err()
        });
        assert!(refused.to_string().contains("this window allows"), "{refused}");
        assert!(worker.is_open().unwrap());
    }

    /// To draw out of more than the adapter can would be an error of the whole display.
    #[test]
    fn slots_that_the_adapter_cannot_draw_out_of_are_in_memory_of_the_host() {
        let Some((mut display, uuid)) = display() else { return };
        let Ok(most @ ..=0x1000_0000) = usize::try_from(display.gpu.max_read) else {
            return skip("this adapter draws out of as much as a window allows");
        };
        let options = WorkerOptions {
            device: Some(uuid),
            slots: 2,
            slot_bytes: most + 1,
            ..WorkerOptions::for_device(SIZE)
        };
        let (worker, at) = attach(&mut display, "large", options);
        let mut worker = worker.unwrap();
        assert!(worker.way().contains(&format!("draws out of {most} at most")), "{}", worker.way());
        let rgb = [5; SIZE.width * SIZE.height * 3];
        let shown = worker.show(Pixels::Rgb(&rgb), SIZE, &FrameMeta::new("bytes", 1)).unwrap();
        assert_eq!(shown, Shown::Shown);
        display.present(SIZE).unwrap();
        assert_eq!((display.read().unwrap().unwrap(), display.panes()[at].presented), (rgb.to_vec(), 1));
    }

    #[test]
    fn a_worker_on_another_gpu_is_told_why_it_gets_memory_of_the_host() {
        let Some((mut display, mut uuid)) = display() else { return };
        uuid[3] ^= 1;
        let options = WorkerOptions { device: Some(uuid), ..WorkerOptions::for_device(SIZE) };
        let (worker, at) = attach(&mut display, "other", options);
        let mut worker = worker.unwrap();
        let adapter = display.adapter().to_string();
        let why = format!("pictures are made by another process, on another GPU than {adapter}");
        assert!(
            worker.way().starts_with("shared-memory, then host-upload (") && worker.way().ends_with(&why)
        );
        assert_eq!(display.panes()[at].path, worker.way());
        assert!(worker.take_device_slots().is_none());
        let rgb = [7; SIZE.width * SIZE.height * 3];
        assert_eq!(worker.show(Pixels::Rgb(&rgb), SIZE, &FrameMeta::new("bytes", 1)).unwrap(), Shown::Shown);
        display.present(SIZE).unwrap();
        assert_eq!(display.read().unwrap().unwrap(), rgb);
    }
}
