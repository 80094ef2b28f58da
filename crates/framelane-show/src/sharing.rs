//! Whether a CUDA device's pictures can be in memory of a graphics adapter, and what to do where they cannot.

use crate::gpu::{self, AdapterInfo};
use crate::interop;
use framelane::framelane_cuda::DeviceInfo;
use std::path::Path;
use std::{env, fs};

/// What was found of the things that sharing needs. Pure data: every machine can be made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The adapters, those of Vulkan among them.
    pub adapters: Vec<AdapterInfo>,
    /// Whether Vulkan's loader can be loaded.
    pub loader: bool,
    /// Whether a description of NVIDIA's Vulkan driver (`nvidia_icd.json`) is where the loader looks.
    pub icd: bool,
    /// The variable that names the loader's drivers, if one is set: it looks nowhere else.
    pub drivers_named_by: Option<&'static str>,
    /// Whether `WGPU_BACKEND` leaves Vulkan out.
    pub vulkan_left_out: bool,
    /// Whether this is Linux inside Windows.
    pub wsl: bool,
    /// Whether this is a container.
    pub container: bool,
}

/// The variables that name Vulkan's drivers, the stronger one first.
const NAMED: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

impl Facts {
    /// Look at this machine. Loads the graphics drivers; needs no display.
    pub fn look() -> Self {
        Self::with(gpu::adapters())
    }

    /// As [`Facts::look`], without OpenGL: its drivers meddle with a caller's context.
    fn of_vulkan() -> Self {
        Self::with(gpu::vulkan_adapters())
    }

    fn with(adapters: Vec<AdapterInfo>) -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let drivers_named_by = NAMED.into_iter().find(|name| set(name).is_some());
        let icd = match drivers_named_by.and_then(set) {
            Some(files) => {
                env::split_paths(&files).any(|f| f.exists() && f.to_string_lossy().contains("nvidia"))
            }
            None => !cfg!(target_os = "linux") || installed(),
        };
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            adapters,
            loader: interop::has_loader(),
            icd,
            drivers_named_by,
            vulkan_left_out: wgpu::Backends::from_env().is_some_and(|b| !b.contains(wgpu::Backends::VULKAN)),
            wsl: release.to_lowercase().contains("microsoft"),
            container: ["/.dockerenv", "/run/.containerenv"].iter().any(|f| Path::new(f).exists())
                || set("NVIDIA_VISIBLE_DEVICES").is_some(),
        }
    }

    /// The adapter whose memory the device can write.
    ///
    /// # Errors
    /// Why there is none, and what to do: a sentence without its full stop.
    pub fn shared_with(&self, device: &DeviceInfo) -> Result<&AdapterInfo, String> {
        let same = |a: &&AdapterInfo| a.uuid == Some(device.uuid);
        if let Some(adapter) = self.adapters.iter().find(|a| same(a) && a.shares) {
            return Ok(adapter);
        }
        if let Some(adapter) = self.adapters.iter().find(same) {
            return Err(format!("{adapter} does not share its memory: update the NVIDIA driver"));
        }
        Err(if self.wsl {
            "WSL2 has no Vulkan driver of NVIDIA's: only Linux or Windows itself can share memory".to_owned()
        } else if self.vulkan_left_out {
            "WGPU_BACKEND leaves Vulkan out: unset it".to_owned()
        } else if !self.loader {
            "there is no Vulkan loader: install it (on Debian or Ubuntu: apt install libvulkan1)".to_owned()
        } else if let (false, Some(variable)) = (self.icd, self.drivers_named_by) {
            format!("{variable} names no Vulkan driver of NVIDIA's: unset it")
        } else if !self.icd && self.container {
            "the container has no Vulkan driver of NVIDIA's: start it with NVIDIA_DRIVER_CAPABILITIES=all (or graphics,compute,utility,display)".to_owned()
        } else if !self.icd {
            "Vulkan finds no nvidia_icd.json: install the graphics part of the NVIDIA driver, too".to_owned()
        } else {
            "Vulkan does not offer this GPU: `vulkaninfo --summary` says which it does".to_owned()
        })
    }

    /// The adapter's name, if nothing but software draws here.
    pub fn only_software(&self) -> Option<&AdapterInfo> {
        let first = self.adapters.first()?;
        self.adapters.iter().all(|a| a.kind == "software").then_some(first)
    }
}

/// Why the pictures of `device` are not in memory of `drawn_by`, which is another GPU: both are named.
pub(crate) fn apart(device: &DeviceInfo, drawn_by: &AdapterInfo) -> String {
    two_gpus(device, drawn_by, &Facts::of_vulkan())
}

fn two_gpus(device: &DeviceInfo, drawn_by: &AdapterInfo, facts: &Facts) -> String {
    let why = match facts.shared_with(device) {
        Ok(_) => {
            "this screen or display was opened on the other one (let the NVIDIA GPU drive the desktop: prime-select nvidia)".to_owned()
        }
        Err(why) => why,
    };
    format!("pictures are made on {device}, and drawn by another one, {drawn_by}: {why}")
}

/// Whether NVIDIA's description is in one of the loader's folders.
fn installed() -> bool {
    let folders = ["/etc", "/usr/share", "/usr/local/share", "/usr/local/etc"].map(str::to_owned);
    let home = env::var("HOME").ok().map(|home| format!("{home}/.local/share"));
    let more = env::var("XDG_DATA_DIRS").unwrap_or_default();
    let more = more.split(':').filter(|folder| !folder.is_empty()).map(str::to_owned);
    folders.into_iter().chain(home).chain(more).any(|folder| {
        fs::read_dir(format!("{folder}/vulkan/icd.d"))
            .is_ok_and(|files| files.flatten().any(|f| f.file_name().to_string_lossy().contains("nvidia")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(first: u8) -> DeviceInfo {
        DeviceInfo {
            ordinal: 0,
            name: "H200".into(),
            uuid: [first; 16],
            compute: (9, 0),
            memory: 1 << 37,
            multiprocessors: 132,
            copy_engines: 3,
            pci: (0, 1, 0),
            integrated: false,
            memory_pools: true,
        }
    }

    fn adapter(name: &str, kind: &'static str, first: u8, shares: bool) -> AdapterInfo {
        let uuid = Some([first; 16]);
        AdapterInfo { name: name.into(), backend: "Vulkan", kind, driver: String::new(), uuid, shares }
    }

    /// A machine where the driver of one other adapter is all that Vulkan has.
    fn other() -> Facts {
        Facts {
            adapters: vec![adapter("Iris", "integrated", 2, true)],
            loader: true,
            icd: true,
            drivers_named_by: None,
            vulkan_left_out: false,
            wsl: false,
            container: false,
        }
    }

    #[test]
    fn the_same_gpu_shares_whatever_else_is_there() {
        let mut facts = Facts { wsl: true, icd: false, container: true, ..other() };
        facts.adapters.push(adapter("H200", "discrete", 1, true));
        assert_eq!(facts.shared_with(&device(1)), Ok(&facts.adapters[1]));
        facts.adapters[1].shares = false;
        let why = facts.shared_with(&device(1)).unwrap_err();
        assert_eq!(why, "H200 (Vulkan) does not share its memory: update the NVIDIA driver");
    }

    #[test]
    fn what_is_missing_is_said_with_its_fix() {
        let bare = Facts { adapters: vec![], icd: false, ..other() };
        let cases = [
            (Facts { wsl: true, loader: false, ..bare.clone() }, "WSL2"),
            (Facts { vulkan_left_out: true, ..other() }, "unset it"),
            (Facts { loader: false, container: true, ..bare.clone() }, "apt install libvulkan1"),
            (
                Facts { drivers_named_by: Some("VK_DRIVER_FILES"), container: true, ..bare.clone() },
                "VK_DRIVER_FILES names no",
            ),
            (Facts { container: true, ..bare.clone() }, "NVIDIA_DRIVER_CAPABILITIES=all"),
            (bare, "install the graphics part"),
            (other(), "vulkaninfo"),
        ];
        for (facts, words) in cases {
            let why = facts.shared_with(&device(1)).unwrap_err();
            assert!(why.contains(words) && !why.contains('\n'), "{words}: {why}");
        }
    }

    #[test]
    fn both_gpus_are_named_and_what_stands_between_them() {
        let mut facts = other();
        let drawn_by = facts.adapters[0].clone();
        let said = two_gpus(&device(1), &drawn_by, &facts);
        assert!(
            said.contains("cuda:0 H200") && said.contains("Iris (Vulkan): Vulkan does not offer"),
            "{said}"
        );
        facts.adapters.push(adapter("H200", "discrete", 1, true));
        let said = two_gpus(&device(1), &drawn_by, &facts);
        assert!(said.contains("Iris (Vulkan): this screen") && said.contains("prime-select"), "{said}");
    }

    #[test]
    fn software_alone_is_known() {
        let mut facts = Facts { adapters: vec![adapter("llvmpipe", "software", 3, true)], ..other() };
        assert_eq!(facts.only_software().unwrap().name, "llvmpipe");
        facts.adapters.extend(other().adapters);
        assert_eq!(facts.only_software(), None);
        facts.adapters.clear();
        assert_eq!(facts.only_software(), None);
    }
}
