//! What is used where the command line leaves it open: by input, network, and machine.

use super::options::{Network, On, Options};
use super::pipeline;
use super::playlist::Playlist;
use framelane::device::{Counters, Device, cuda_devices};
use framelane::frame::ImageSize;
use framelane::lanes::Model;
use framelane::ring::Policy;
use framelane::{Error, ErrorKind, Result};
use framelane_media::{OpenOptions, VideoSource};
use framelane_onnx::{ImageModel, OnnxFile, Runtime, onnxruntime};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The built-in clip.
const CLIP: &[u8] = include_bytes!("../../../../assets/clip.mp4");

/// More lanes than this help no CPU: they wait for the same memory.
const MOST_LANES: usize = 8;

/// Frames on the device that wait for the network.
const DEPTH: usize = 3;

/// What is played.
pub struct Input {
    pub sources: Vec<Box<dyn VideoSource>>,
    /// The folder that holds the built-in clip as long as it is read.
    pub keep: Option<TempDir>,
}

/// Open the inputs.
///
/// # Errors
/// Of any of them.
pub fn input(options: &Options) -> Result<Input> {
    // A test picture under `Latest` plays the part of a camera.
    let open_options = OpenOptions { frames: None, realtime: options.policy == Some(Policy::Latest) };
    let open = |input: &str| framelane_media::open(input, &open_options);
    if !options.inputs.is_empty() {
        let sources = options.inputs.iter().map(|i| open(i)).collect::<Result<_>>()?;
        return Ok(Input { sources, keep: None });
    }
    let failed = |e| Error::io("the built-in clip cannot be unpacked into the system's temporary folder", e);
    let folder = tempfile::tempdir().map_err(failed)?;
    let clip = folder.path().join("clip.mp4");
    std::fs::write(&clip, CLIP).map_err(failed)?;
    let clip = clip.to_str().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "the name of the system's temporary folder is not UTF-8")
    })?;
    Ok(Input { sources: vec![open(clip)?], keep: Some(folder) })
}

/// The inputs one after the other, or, if all are seen at once, each for itself.
///
/// # Errors
/// Sizes that differ, one after the other.
pub fn playlists(
    sources: Vec<Box<dyn VideoSource>>,
    options: &Options,
    side_by_side: bool,
) -> Result<Vec<Playlist>> {
    let list = |sources| Playlist::new(sources, options.looped, options.frames);
    match side_by_side {
        true => sources.into_iter().map(|source| list(vec![source])).collect(),
        false => Ok(vec![list(sources)?]),
    }
}

/// Load the network. `None`: pictures pass through.
///
/// # Errors
/// Of the file, the plan, or the runtime.
pub fn network(options: &Options) -> Result<Option<Arc<ImageModel>>> {
    if options.network == Network::None {
        return Ok(None);
    }
    let load = framelane_onnx::Options {
        overrides: options.overrides.clone(),
        runtime: options.runtime,
        lanes: lanes(options),
        threads_per_lane: None,
    };
    let model = match &options.network {
        Network::File(path) => framelane_onnx::load(&file(path)?, &load)?,
        Network::Upscale | Network::None => framelane_onnx::upscaler(&load)?,
    };
    Ok(Some(Arc::new(model)))
}

/// A name without an ending may have been meant for a built-in network.
fn file(path: &Path) -> Result<OnnxFile> {
    OnnxFile::open(path).map_err(|e| match path.exists() {
        true => e,
        false => Error::new(e.kind(), format!("{e}: give --model an ONNX file, upscale or none")).because(e),
    })
}

fn lanes(options: &Options) -> usize {
    let with_onnxruntime = || options.runtime != Runtime::Tract && onnxruntime().is_ok();
    options.lanes.unwrap_or_else(|| default_lanes(with_onnxruntime(), cores()))
}

/// Processors that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Lanes unless told: tract uses one thread a lane, ONNX Runtime spreads its threads over the lanes, and two
/// keep it busy between frames.
pub fn default_lanes(onnxruntime: bool, cores: usize) -> usize {
    cores.clamp(1, if onnxruntime { 2 } else { MOST_LANES })
}

/// How the pipeline behaves.
pub fn pipeline(options: &Options, policy: Policy, network: Option<&ImageModel>) -> pipeline::Options {
    let lanes = network.map_or(1, |_| lanes(options));
    pipeline::Options { lanes, depth: options.depth.unwrap_or(DEPTH), policy }
}

/// How large the results for pictures of this size are.
///
/// # Errors
/// If the network cannot take them.
pub fn output_size(network: Option<&ImageModel>, size: ImageSize) -> Result<ImageSize> {
    let Some(network) = network else { return Ok(size) };
    let outputs = network.outputs(&[size.spec()])?;
    outputs.first().and_then(ImageSize::of).ok_or_else(|| {
        Error::new(ErrorKind::Model, format!("{} gives something other than pictures", network.name()))
    })
}

/// One line about the network.
pub fn describe(network: Option<&ImageModel>, from: ImageSize, to: ImageSize) -> String {
    match network {
        None => "none: pictures pass through".into(),
        Some(network) => format!("{}: {from} -> {to}", network.name()),
    }
}

/// The devices of a run.
pub struct Devices {
    /// Where frames are fed first, and which they leave before the network.
    pub relay: Option<Device>,
    /// Where the pipeline runs: the network's device, or without a network the feed's.
    pub run: Device,
    /// What to know about the choice.
    pub notes: Vec<String>,
}

impl Devices {
    /// A name for both.
    pub fn name(&self) -> String {
        match &self.relay {
            Some(relay) => format!("{}, network on {}", relay.name(), self.run.name()),
            None => self.run.name().to_owned(),
        }
    }

    /// What both have copied.
    pub fn counters(&self) -> Counters {
        let run = self.run.counters();
        let Some(relay) = self.relay.as_ref().map(Device::counters) else { return run };
        Counters {
            to_device: run.to_device + relay.to_device,
            from_device: run.from_device + relay.from_device,
            ..run
        }
    }
}

/// Open what `--device` says, before a network is loaded: that takes its time.
///
/// # Errors
/// If the device that was asked for is not there, or cannot be used.
pub fn devices(options: &Options) -> Result<Devices> {
    let host = |notes| Devices { relay: None, run: Device::host(), notes };
    let ordinal = match options.device {
        On::Cpu => return Ok(host(vec![])),
        On::Auto => {
            // Only a device that is there is worth a word: most machines have none.
            let unused = cuda_devices().ok().and_then(|all| all.into_iter().next()).map(|first| {
                format!(
                    "{first} is not used: networks run on the CPU for now (--device cuda feeds through it)"
                )
            });
            return Ok(host(unused.into_iter().collect()));
        }
        On::Cuda(ordinal) => ordinal,
    };
    let cuda = Device::cuda(ordinal).map_err(|e| {
        let without = "leave out --device to feed frames on the CPU";
        Error::new(e.kind(), format!("--device cuda:{ordinal}: {e}; or {without}")).because(e)
    })?;
    let name = cuda.cuda_context().map(|c| c.info().to_string()).unwrap_or_default();
    Ok(match options.network != Network::None {
        false => Devices { relay: None, run: cuda, notes: vec![name] },
        true => {
            let way = format!(
                "the network runs on the CPU: each frame is copied to {} and back, and once more for it",
                cuda.name()
            );
            Devices { relay: Some(cuda), run: Device::host(), notes: vec![name, way] }
        }
    })
}

/// One line about the device and how work is laid out on it.
pub fn describe_devices(devices: &Devices, runs: &[pipeline::Options]) -> String {
    let cores = cores();
    let policy = match policy(runs) {
        Some(Policy::Fifo) => "every frame counts (fifo)",
        Some(Policy::Latest) => "the newest frame counts (latest)",
        None => "of files every frame counts (fifo), of the rest the newest (latest)",
    };
    let run = runs[0];
    format!(
        "{} ({cores} core{}), {} lane{}, depth {}; {policy}",
        devices.name(),
        if cores == 1 { "" } else { "s" },
        run.lanes,
        if run.lanes == 1 { "" } else { "s" },
        run.depth
    )
}

/// That of all runs; `None`: they differ.
pub fn policy(runs: &[pipeline::Options]) -> Option<Policy> {
    let first = runs.first()?.policy;
    runs.iter().all(|run| run.policy == first).then_some(first)
}
