//! Whether a CUDA device's pictures can be shown without the host: by an adapter that is the same GPU and shares its memory
//! with CUDA. Where not, why, and what to do.

use framelane::framelane_cuda::DeviceInfo;
use framelane_show::AdapterInfo;
use std::path::Path;

/// What the answer depends on, besides the devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Linux inside Windows.
    pub wsl: bool,
    /// NVIDIA has told the Vulkan loader of its driver.
    pub nvidia_vulkan: bool,
}

/// Where the Vulkan loader looks for drivers, if it is not told otherwise.
const FOLDERS: [&str; 4] = [
    "/etc/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/usr/local/etc/vulkan/icd.d",
];

impl Surroundings {
    pub fn look() -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let told =
            ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].into_iter().find_map(|name| std::env::var(name).ok());
        let is_nvidias = |name: &str| name.to_ascii_lowercase().contains("nvidia");
        let in_folder = |folder: &Path| {
            let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
            files.into_iter().any(|file| is_nvidias(&file.file_name().to_string_lossy()))
        };
        Self {
            wsl: release.to_ascii_lowercase().contains("microsoft"),
            nvidia_vulkan: match told {
                Some(files) => is_nvidias(&files),
                None => FOLDERS.iter().any(|folder| in_folder(Path::new(folder))),
            },
        }
    }
}

/// One line about how pictures of `device` come to a display here.
pub fn way(device: &DeviceInfo, adapters: &[AdapterInfo], around: Surroundings) -> String {
    let same = adapters.iter().find(|adapter| adapter.uuid == Some(device.uuid));
    let by_host = |why: &str| format!("pass through the host: {why}");
    match same {
        Some(adapter) if adapter.shares_memory => {
            format!("stay on it: {adapter} is the same GPU and shares its memory")
        }
        Some(adapter) => by_host(&format!("{adapter} does not share its memory: update NVIDIA's driver")),
        None if around.wsl => by_host("NVIDIA has no Vulkan driver for WSL, so that nothing can be done"),
        None if cfg!(target_os = "macos") => by_host("this system has no CUDA"),
        None if !around.nvidia_vulkan => by_host(
            "NVIDIA's Vulkan driver is not here: give a container NVIDIA_DRIVER_CAPABILITIES=all, or install the whole driver",
        ),
        None if adapters.iter().all(|adapter| adapter.backend != "Vulkan") => {
            by_host("the Vulkan loader is not here: on Debian or Ubuntu, apt install libvulkan1")
        }
        None => by_host(
            "NVIDIA's Vulkan driver does not offer this GPU: `vulkaninfo --summary` says what it offers",
        ),
    }
}

/// As `nvidia-smi -L` writes it, its first part: enough to tell GPUs of one machine apart.
pub fn short(uuid: [u8; 16]) -> String {
    let [a, b, c, d, ..] = uuid;
    format!("GPU-{a:02x}{b:02x}{c:02x}{d:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; 16] = [0x1a, 0x2b, 0x3c, 0x4d, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

    fn device() -> DeviceInfo {
        DeviceInfo {
            ordinal: 0,
            name: "NVIDIA H200".into(),
            uuid: OURS,
            compute: (9, 0),
            memory: 1 << 37,
            multiprocessors: 132,
            copy_engines: 3,
            pci: (0, 1, 0),
            integrated: false,
            memory_pools: true,
        }
    }

    fn adapter(name: &str, uuid: Option<[u8; 16]>, shares_memory: bool) -> AdapterInfo {
        let (driver, kind) = (String::new(), "discrete");
        AdapterInfo { name: name.into(), backend: "Vulkan", kind, driver, uuid, shares_memory }
    }

    /// S4, S5: each reason is named, with what to do.
    #[test]
    fn each_machine_is_told_its_own_reason() {
        let nvidia = adapter("NVIDIA H200", Some(OURS), true);
        let other = adapter("Intel UHD", Some([9; 16]), true);
        let software = adapter("llvmpipe", Some([7; 16]), true);
        let full = Surroundings { wsl: false, nvidia_vulkan: true };
        let bare = Surroundings::default();
        let wsl = Surroundings { wsl: true, ..bare };
        let cases: [(&[AdapterInfo], Surroundings, &str); 7] = [
            (&[other.clone(), nvidia.clone()], full, "stay on it: NVIDIA H200 (Vulkan) is the same GPU"),
            (
                &[AdapterInfo { shares_memory: false, ..nvidia }],
                full,
                "through the host: NVIDIA H200 (Vulkan) does not share",
            ),
            (&[software.clone()], wsl, "no Vulkan driver for WSL"),
            (&[software], bare, "NVIDIA_DRIVER_CAPABILITIES=all"),
            (&[], bare, "NVIDIA_DRIVER_CAPABILITIES=all"),
            (&[], full, "apt install libvulkan1"),
            (&[other], full, "does not offer this GPU"),
        ];
        for (adapters, around, says) in cases {
            let said = way(&device(), adapters, around);
            assert!(said.contains(says), "{said:?} does not say {says:?}");
        }
        assert_eq!(short(OURS), "GPU-1a2b3c4d");
    }
}
