//! `framelane doctor`: what this machine offers, what framelane makes of it, and what would be better.

use crate::console;
use crate::exit::{Ended, Outcome};
use crate::play::{cores, default_lanes, reason};
use framelane::Error;
use framelane::device::cuda_devices;
use framelane::framelane_cuda::{DeviceInfo, driver_version};
use framelane_onnx::onnxruntime;
use std::env;
use std::process::{Command, Stdio};

/// Look at everything, print it, and never fail for what is missing.
pub fn run() -> Outcome {
    console::print(&report(framelane_show::available()))
        .map_err(|e| Error::io("standard output cannot be written", e))?;
    Ok(Ended::Done)
}

/// What was found, in lines. `window` says whether and where one can be opened.
pub fn report(window: framelane::Result<String>) -> String {
    Machine::look(window).to_string()
}

/// What was found. Each `Err` is the reason why there is none.
struct Machine {
    cores: usize,
    displays: Vec<(&'static str, String)>,
    window: Result<String, String>,
    adapters: Vec<String>,
    /// Of each CUDA device, by which way its pictures come to the screen.
    ways: Vec<String>,
    only_software: bool,
    cuda: Result<Vec<String>, String>,
    ffmpeg: Option<String>,
    onnxruntime: Result<String, String>,
}

impl Machine {
    fn look(window: framelane::Result<String>) -> Self {
        let displays = ["WAYLAND_DISPLAY", "DISPLAY"]
            .into_iter()
            .filter_map(|name| Some((name, env::var(name).ok().filter(|v| !v.is_empty())?)))
            .collect();
        let adapter = |a: &framelane_show::AdapterInfo| {
            let driver = if a.driver.is_empty() { String::new() } else { format!("; driver {}", a.driver) };
            let uuid = a.uuid.map_or(String::new(), |uuid| format!("; {}", short(uuid)));
            format!("{} ({}, {}{driver}{uuid})", a.name, a.backend, a.kind)
        };
        let facts = framelane_show::Facts::look();
        let cuda = cuda_devices().map_err(|e| e.to_string());
        let way = |device: &DeviceInfo| match facts.shared_with(device) {
            Ok(adapter) => format!("cuda:{} by vulkan-shared, in memory of {adapter}", device.ordinal),
            Err(why) => format!("cuda:{} by host-upload: {why}", device.ordinal),
        };
        Self {
            cores: cores(),
            displays,
            window: window.map_err(|e| reason(&e)),
            adapters: facts.adapters.iter().map(adapter).collect(),
            ways: cuda.iter().flatten().map(way).collect(),
            only_software: facts.only_software().is_some(),
            cuda: cuda.map(|all| all.iter().map(|d| format!("{d}; {}", short(d.uuid))).collect()),
            ffmpeg: ffmpeg(),
            onnxruntime: onnxruntime()
                .map(|r| format!("{} ({}, from {})", r.version, r.path.display(), r.origin))
                .map_err(str::to_owned),
        }
    }

    /// What to install, and what it would give.
    fn advice(&self) -> Vec<(&'static str, &'static str)> {
        let linux = cfg!(target_os = "linux");
        let mut advice = Vec::new();
        if self.onnxruntime.is_err() {
            advice.push(("pip install onnxruntime", "networks run 1.5 to 6 times faster on a CPU"));
        }
        if self.ffmpeg.is_none() {
            let how = if linux { "apt install ffmpeg" } else { "install ffmpeg" };
            advice.push((how, "every other video format, cameras and network streams"));
        }
        if self.adapters.is_empty() {
            let how = if linux { "apt install mesa-vulkan-drivers" } else { "install a graphics driver" };
            advice.push((how, "a window, even without a graphics card"));
        }
        if self.only_software && self.cuda.is_ok() {
            advice.push(("the GPU's Vulkan driver", "software draws the windows for now, which is slow"));
        }
        advice
    }

    /// What no package brings.
    fn absent(&self) -> Vec<&'static str> {
        let mut absent = Vec::new();
        if self.window.is_err() {
            absent.push("screen");
        }
        if self.cuda.is_err() {
            absent.push("GPU that CUDA can use");
        }
        absent
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        writeln!(
            f,
            "framelane {version} on {} {}, {}\n",
            env::consts::OS,
            env::consts::ARCH,
            count(self.cores, "core")
        )?;

        writeln!(f, "This machine has")?;
        let set: Vec<String> = self.displays.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let set = if set.is_empty() {
            "neither WAYLAND_DISPLAY nor DISPLAY is set".to_owned()
        } else {
            set.join(", ")
        };
        match &self.window {
            Ok(screen) => writeln!(f, "  screen        {screen} ({set})")?,
            Err(_) => writeln!(f, "  screen        none ({set})")?,
        }
        match self.adapters.split_first() {
            None => writeln!(f, "  graphics      none: no Vulkan or OpenGL driver was found")?,
            Some((first, rest)) => {
                writeln!(f, "  graphics      {first}")?;
                rest.iter().try_for_each(|a| writeln!(f, "                {a}"))?;
            }
        }
        match &self.cuda {
            Ok(devices) => {
                let driver = driver_version().map_or(String::new(), |v| format!("; driver of CUDA {v}"));
                for (n, device) in devices.iter().enumerate() {
                    let label = if n == 0 { "CUDA" } else { "" };
                    writeln!(f, "  {label:<13} {device}{driver}")?;
                }
            }
            Err(why) => {
                writeln!(f, "  CUDA          none: {}", why.trim_start_matches("CUDA cannot be used: "))?
            }
        }
        writeln!(f, "  ffmpeg        {}", self.ffmpeg.as_deref().unwrap_or("none on the PATH"))?;
        match &self.onnxruntime {
            Ok(found) => writeln!(f, "  ONNX Runtime  {found}")?,
            Err(why) => writeln!(f, "  ONNX Runtime  none: {why}")?,
        }
        writeln!(f, "  tract         built in")?;

        let lanes = count(default_lanes(self.onnxruntime.is_ok(), self.cores), "lane");
        writeln!(f, "\n`framelane play` would")?;
        match &self.onnxruntime {
            Ok(_) => writeln!(
                f,
                "  run networks  by ONNX Runtime on the CPU, in {lanes}: it is faster than tract"
            )?,
            Err(_) => {
                writeln!(f, "  run networks  by tract on the CPU, in {lanes}: there is no ONNX Runtime")?
            }
        }
        if self.cuda.is_ok() {
            writeln!(
                f,
                "  feed frames   on the CPU too, because no network of this version runs on CUDA; `--device cuda` does"
            )?;
        }
        for way in &self.ways {
            writeln!(f, "  show pictures of {way}")?;
        }
        match &self.window {
            Ok(screen) => writeln!(f, "  show results  in a window on {screen}")?,
            Err(why) => writeln!(f, "  write results into framelane-out.mp4, because {why}")?,
        }
        match &self.ffmpeg {
            Some(_) => writeln!(
                f,
                "  read videos   by itself (H.264 in mp4, y4m, PNG, JPEG, GIF), others by ffmpeg"
            )?,
            None => writeln!(
                f,
                "  read videos   of H.264 in mp4, y4m, PNG, JPEG and GIF, no others: there is no ffmpeg"
            )?,
        }

        let advice = self.advice();
        if advice.is_empty() {
            writeln!(f, "\nEverything that can be installed is there.")?;
            return match self.absent().join(" and no ").as_str() {
                "" => Ok(()),
                absent => writeln!(f, "This machine has no {absent}."),
            };
        }
        writeln!(f, "\nBetter with")?;
        let width = advice.iter().map(|(how, _)| how.len()).max().unwrap_or(0);
        advice.iter().try_for_each(|(how, why)| writeln!(f, "  {how:width$}  {why}"))
    }
}

/// The beginning of a GPU's UUID, as `nvidia-smi -L` writes it: enough to find the same GPU elsewhere.
fn short(uuid: [u8; 16]) -> String {
    let [a, b, c, d, ..] = uuid;
    format!("UUID {a:02x}{b:02x}{c:02x}{d:02x}…")
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The version of the user's ffmpeg.
fn ffmpeg() -> Option<String> {
    let output =
        Command::new("ffmpeg").arg("-version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?;
    let version = line.strip_prefix("ffmpeg version ").unwrap_or(line);
    Some(version.split(" Copyright").next().unwrap_or(version).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_installed_is_no_advice_but_is_said() {
        let whole = || Machine {
            cores: 2,
            displays: vec![],
            window: Ok("Wayland".into()),
            adapters: vec!["a card".into()],
            ways: vec![],
            only_software: false,
            cuda: Ok(vec!["a GPU".into()]),
            ffmpeg: Some("7".into()),
            onnxruntime: Ok("1.32".into()),
        };
        let none = || "there is none".to_owned();
        let bare = Machine { window: Err(none()), cuda: Err(none()), ..whole() };
        let ends = |machine: Machine, end: &str| {
            let text = machine.to_string();
            assert!(text.ends_with(end), "{text}");
        };
        ends(whole(), "\nEverything that can be installed is there.\n");
        ends(bare, "is there.\nThis machine has no screen and no GPU that CUDA can use.\n");
        let mixed =
            Machine { ways: vec!["cuda:0 by host-upload: why".into()], only_software: true, ..whole() };
        assert!(mixed.to_string().contains("\n  show pictures of cuda:0 by host-upload: why\n"), "{mixed}");
        ends(
            mixed,
            "\nBetter with\n  the GPU's Vulkan driver  software draws the windows for now, which is slow\n",
        );
        let lacking = Machine { onnxruntime: Err(none()), cuda: Err(none()), ..whole() };
        ends(
            lacking,
            "\nBetter with\n  pip install onnxruntime  networks run 1.5 to 6 times faster on a CPU\n",
        );
    }
}
