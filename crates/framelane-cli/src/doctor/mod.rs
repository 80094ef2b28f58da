//! `framelane doctor`: what this machine offers, what framelane makes of it, and what would be better.

mod showing;

use crate::console;
use crate::exit::{Ended, Outcome};
use crate::play::{cores, default_lanes, reason};
use framelane::Error;
use framelane::device::cuda_devices;
use framelane::framelane_cuda::{DeviceInfo, driver_version};
use framelane_onnx::onnxruntime;
use showing::Surroundings;
use std::env;
use std::process::{Command, Stdio};

/// Look at everything, print it, and never fail for what is missing.
pub fn run() -> Outcome {
    console::print(&Machine::look().to_string())
        .map_err(|e| Error::io("standard output cannot be written", e))?;
    Ok(Ended::Done)
}

/// What was found. Each `Err` is the reason why there is none.
struct Machine {
    cores: usize,
    displays: Vec<(&'static str, String)>,
    window: Result<String, String>,
    adapters: Vec<String>,
    /// Each with how its pictures come to a display.
    cuda: Result<Vec<(String, String)>, String>,
    ffmpeg: Option<String>,
    onnxruntime: Result<String, String>,
}

impl Machine {
    fn look() -> Self {
        let displays = ["WAYLAND_DISPLAY", "DISPLAY"]
            .into_iter()
            .filter_map(|name| Some((name, env::var(name).ok().filter(|v| !v.is_empty())?)))
            .collect();
        let adapter = |a: &framelane_show::AdapterInfo| {
            let driver = if a.driver.is_empty() { String::new() } else { format!("; driver {}", a.driver) };
            // Software has one, too, which matches nothing.
            let uuid = a.uuid.filter(|_| a.kind != "software").map(showing::short);
            let uuid = uuid.map(|uuid| format!("; {uuid}")).unwrap_or_default();
            format!("{} ({}, {}{driver}{uuid})", a.name, a.backend, a.kind)
        };
        let adapters = framelane_show::adapters();
        let around = Surroundings::look();
        let device = |device: &DeviceInfo| {
            let name = format!("{device}; {}", showing::short(device.uuid));
            (name, showing::way(device, &adapters, around))
        };
        Self {
            cores: cores(),
            displays,
            window: framelane_show::available().map_err(|e| reason(&e)),
            adapters: adapters.iter().map(adapter).collect(),
            cuda: cuda_devices()
                .map(|devices| devices.iter().map(device).collect())
                .map_err(|e| e.to_string()),
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
                for (n, (device, _)) in devices.iter().enumerate() {
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
        for (n, (_, way)) in self.cuda.iter().flatten().enumerate() {
            writeln!(f, "  show tensors  of cuda:{n}: they {way}")?;
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
            cuda: Ok(vec![("a GPU".into(), "stay on it".into())]),
            ffmpeg: Some("7".into()),
            onnxruntime: Ok("1.32".into()),
        };
        let none = || "there is none".to_owned();
        let bare = Machine { window: Err(none()), cuda: Err(none()), ..whole() };
        let ends = |machine: Machine, end: &str| {
            let text = machine.to_string();
            assert!(text.ends_with(end), "{text}");
        };
        assert!(whole().to_string().contains("\n  show tensors  of cuda:0: they stay on it\n"));
        ends(whole(), "\nEverything that can be installed is there.\n");
        ends(bare, "is there.\nThis machine has no screen and no GPU that CUDA can use.\n");
        let lacking = Machine { onnxruntime: Err(none()), cuda: Err(none()), ..whole() };
        ends(
            lacking,
            "\nBetter with\n  pip install onnxruntime  networks run 1.5 to 6 times faster on a CPU\n",
        );
    }
}
