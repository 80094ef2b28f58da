//! The graphics device that presents: which adapters there are, which one is taken, and how it fails.

use crate::caught::quietly;
use crate::interop;
use framelane::device::Device;
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A graphics adapter that could show frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Its name, as the driver says it.
    pub name: String,
    /// The programming interface it is reached by: `Vulkan`, `OpenGL`, `Metal`, `Direct3D 12`.
    pub backend: &'static str,
    /// `discrete`, `integrated`, `virtual`, `software` or `unknown`.
    pub kind: &'static str,
    /// The driver's name and version, if it says them.
    pub driver: String,
    /// Vulkan's UUID of it, which CUDA gives the same GPU. `None` by other interfaces.
    pub uuid: Option<[u8; 16]>,
    /// Whether it offers its memory to other programming interfaces.
    pub shares: bool,
}

impl fmt::Display for AdapterInfo {
    /// `llvmpipe (Vulkan)`: the name without what the driver adds in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.name.split(" (").next().unwrap_or(&self.name);
        write!(f, "{short} ({})", self.backend)
    }
}

impl AdapterInfo {
    /// How the way over the host is named in reports: `host-upload (llvmpipe, Vulkan)`.
    pub(crate) fn uploaded_to(&self) -> String {
        self.reached_by("host-upload")
    }

    /// How a way that pictures take to it is named in reports.
    pub(crate) fn reached_by(&self, way: &str) -> String {
        format!("{way} ({}", self.to_string().replacen(" (", ", ", 1))
    }

    pub(crate) fn of(adapter: &wgpu::Adapter) -> Self {
        let info = adapter.get_info();
        let driver = format!("{} {}", info.driver, info.driver_info).trim().to_owned();
        let backend = match info.backend {
            wgpu::Backend::Vulkan => "Vulkan",
            wgpu::Backend::Gl => "OpenGL",
            wgpu::Backend::Metal => "Metal",
            wgpu::Backend::Dx12 => "Direct3D 12",
            wgpu::Backend::BrowserWebGpu => "WebGPU",
            wgpu::Backend::Noop => "none",
        };
        let kind = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete",
            wgpu::DeviceType::IntegratedGpu => "integrated",
            wgpu::DeviceType::VirtualGpu => "virtual",
            wgpu::DeviceType::Cpu => "software",
            wgpu::DeviceType::Other => "unknown",
        };
        let shares = !interop::FEATURE.is_empty() && adapter.features().contains(interop::FEATURE);
        Self { name: info.name, backend, kind, driver, uuid: interop::uuid(adapter), shares }
    }
}

/// The adapters of this machine, the one a window would take first. Needs no display; empty if no
/// driver can be loaded.
pub fn adapters() -> Vec<AdapterInfo> {
    infos(asked_for())
}

/// Of those, Vulkan's.
pub(crate) fn vulkan_adapters() -> Vec<AdapterInfo> {
    infos(asked_for() & wgpu::Backends::VULKAN)
}

fn infos(backends: wgpu::Backends) -> Vec<AdapterInfo> {
    quietly("the graphics driver", || {
        ranked(&instance_of(backends, None)).iter().map(AdapterInfo::of).collect()
    })
    .unwrap_or_else(|error| {
        log::warn!("{error}");
        Vec::new()
    })
}

/// Of pictures in the adapter's memory, on the way to the screen or back.
pub(crate) const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

pub(crate) type Display = Box<dyn wgpu::wgt::WgpuHasDisplayHandle>;

/// `WGPU_BACKEND` chooses among back ends, as in every program made with wgpu.
fn asked_for() -> wgpu::Backends {
    wgpu::Backends::from_env().unwrap_or(wgpu::Backends::PRIMARY | wgpu::Backends::GL)
}

pub(crate) fn instance(display: Option<Display>) -> wgpu::Instance {
    instance_of(asked_for(), display)
}

fn instance_of(backends: wgpu::Backends, display: Option<Display>) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.display = display;
    wgpu::Instance::new(descriptor)
}

/// All adapters, best first.
fn ranked(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    adapters.retain(|adapter| adapter.get_info().backend != wgpu::Backend::Noop);
    // Stable: among equals the driver's own order decides.
    adapters.sort_by_key(|adapter| {
        let info = adapter.get_info();
        let hardware = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu => 1,
            wgpu::DeviceType::VirtualGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        };
        (hardware, info.backend == wgpu::Backend::Gl)
    });
    adapters
}

/// The best adapter that `suits`.
pub(crate) fn choose(
    instance: &wgpu::Instance,
    suits: impl Fn(&wgpu::Adapter) -> bool,
) -> Result<wgpu::Adapter> {
    ranked(instance).into_iter().find(suits).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "no graphics adapter can show a window: neither Vulkan nor OpenGL has a driver here (on Debian or Ubuntu: apt install mesa-vulkan-drivers)",
        )
    })
}

/// The best adapter that `suits`; before all others that with this UUID.
pub(crate) fn choose_for(
    instance: &wgpu::Instance,
    uuid: Option<[u8; 16]>,
    suits: impl Fn(&wgpu::Adapter) -> bool,
) -> Result<wgpu::Adapter> {
    let same = |adapter: &wgpu::Adapter| uuid.is_some() && interop::uuid(adapter) == uuid;
    choose(instance, |adapter| same(adapter) && suits(adapter)).or_else(|_| choose(instance, suits))
}

/// The UUID that Vulkan gives the GPU of a CUDA device.
pub(crate) fn uuid_of(device: &Device) -> Option<[u8; 16]> {
    device.cuda_context().map(|cuda| cuda.info().uuid)
}

/// An opened adapter.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) adapter: AdapterInfo,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    /// Pixels a side that a texture may have.
    pub(crate) max_side: u32,
    /// Whether compute shaders can write pictures.
    pub(crate) computes: bool,
    /// Bytes of a buffer that they can read.
    pub(crate) max_read: u64,
    /// The first thing that went wrong without a return value to say so.
    problem: Arc<Mutex<Option<String>>>,
}

impl Gpu {
    pub(crate) fn open(adapter: &wgpu::Adapter) -> Result<Self> {
        let info = AdapterInfo::of(adapter);
        let has = adapter.limits();
        // The lowest demands that wgpu knows, so that old OpenGL serves; sizes as large as can be.
        let mut limits = wgpu::Limits::downlevel_webgl2_defaults().using_resolution(has.clone());
        limits.max_buffer_size = has.max_buffer_size;
        let max_side = limits.max_texture_dimension_2d;
        let computes = can_compute(adapter, &has);
        let max_read = has.max_storage_buffer_binding_size.min(has.max_buffer_size);
        if computes {
            limits.max_storage_buffers_per_shader_stage = 2;
            limits.max_storage_textures_per_shader_stage = 1;
            limits.max_storage_buffer_binding_size = has.max_storage_buffer_binding_size;
            limits.max_compute_invocations_per_workgroup = 256;
            limits.max_compute_workgroup_size_x = 16;
            limits.max_compute_workgroup_size_y = 16;
            limits.max_compute_workgroup_size_z = 1;
            limits.max_compute_workgroups_per_dimension = has.max_compute_workgroups_per_dimension;
        }
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("framelane"),
            required_features: adapter.features() & interop::FEATURE,
            required_limits: limits,
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            trace: wgpu::Trace::Off,
        }))
        .map_err(|e| Error::new(ErrorKind::Device, format!("{info} cannot be opened: {e}")).because(e))?;

        let problem = Arc::new(Mutex::new(None));
        let (uncaptured, lost) = (problem.clone(), problem.clone());
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&uncaptured, error.to_string())));
        device.set_device_lost_callback(move |reason, text| {
            // Dropping the device ends here too; that is no loss.
            if reason != wgpu::DeviceLostReason::Destroyed {
                note(&lost, format!("the device was lost: {text}"));
            }
        });
        Ok(Self { adapter: info, device, queue, max_side, computes, max_read, problem })
    }

    /// The size as the adapter counts it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for more pixels a side than it takes.
    pub(crate) fn extent(&self, size: ImageSize) -> Result<wgpu::Extent3d> {
        let side = |n: usize| u32::try_from(n).ok().filter(|&n| n <= self.max_side);
        match (side(size.width), side(size.height)) {
            (Some(width), Some(height)) => Ok(wgpu::Extent3d { width, height, depth_or_array_layers: 1 }),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a picture of {size} pixels cannot be shown: {} takes {} pixels a side (make it smaller first)",
                    self.adapter, self.max_side
                ),
            )),
        }
    }

    /// A picture of 8 bits a colour, whose numbers are read and written as they are.
    pub(crate) fn texture(
        &self,
        label: &str,
        size: wgpu::Extent3d,
        usage: wgpu::TextureUsages,
    ) -> (wgpu::Texture, wgpu::TextureView) {
        let texture = self.device.create_texture(&wgpu::TextureDescriptor {
            label: Some(label),
            size,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: FORMAT,
            usage,
            view_formats: &[],
        });
        let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
        (texture, view)
    }

    /// The error that the device reported since it was opened, if any.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.problem.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(text) => Err(Error::new(ErrorKind::Device, format!("{} failed: {text}", self.adapter))),
        }
    }
}

/// Whether it runs workgroups of 16 × 16 that read a buffer and write a texture.
fn can_compute(adapter: &wgpu::Adapter, has: &wgpu::Limits) -> bool {
    adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
        && has.max_storage_buffers_per_shader_stage >= 2
        && has.max_storage_textures_per_shader_stage >= 1
        && has.max_compute_invocations_per_workgroup >= 256
}

fn note(problem: &Mutex<Option<String>>, text: String) {
    log::error!("{text}");
    problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_short() {
        let info = AdapterInfo {
            name: "llvmpipe (LLVM 15.0.6, 256 bits)".into(),
            backend: "Vulkan",
            kind: "software",
            driver: String::new(),
            uuid: None,
            shares: false,
        };
        assert_eq!(info.to_string(), "llvmpipe (Vulkan)");
        assert_eq!(info.uploaded_to(), "host-upload (llvmpipe, Vulkan)");
    }
}
