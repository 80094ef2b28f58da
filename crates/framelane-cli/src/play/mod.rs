//! `framelane play`: choose everything, say what was chosen, run, and report.
//!
//! Reading order: `options` (what the command line means, with `overwrite`) → `playlist` (inputs as one source) →
//! `output` (where results go, to a pane by `screen`) → `relay` (a CUDA device on the way), `paced` → `pipeline` (the threads) with `stamps`,
//! `readback`, `target`, `tally` and `stop`.

mod choose;
pub mod options;
mod output;
mod overwrite;
mod paced;
mod pipeline;
#[cfg(test)]
mod pipeline_tests;
mod playlist;
mod readback;
mod relay;
mod screen;
mod stamps;
mod stop;
mod tally;
mod target;

pub use choose::{cores, default_lanes};
pub use output::reason;
pub use tally::Tally;

use crate::args::PlayArgs;
use crate::console;
use crate::exit::{Ended, Failure, Outcome};
use crate::progress::Progress;
use crate::report::{Paths, RunReport, WindowFrames};
use crate::signals;
use framelane::device::Counters;
use framelane::feed::{FeedReport, Source};
use framelane::frame::FrameRate;
use framelane::lanes::Lanes;
use framelane::ring::Policy;
use framelane::stats::AgeReport;
use framelane::{Error, ErrorKind, Result};
use framelane_show::WindowReport;
use options::{Json, Options, To};
use output::{Opened, Output};
use paced::Paced;
use pipeline::{End, Parts, Running};
use playlist::Playlist;
use relay::Relay;
use stamps::Stamps;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use stop::{Stop, Why};
use target::Target;

/// Play to the end, or until it is stopped.
pub fn run(args: &PlayArgs) -> Outcome {
    let options = Options::resolve(args).map_err(Failure::Usage)?;
    let mut chosen = choose::input(&options)?;
    let title = chosen.sources.iter().map(|source| source.name()).collect::<Vec<_>>().join(", ");
    let devices = choose::devices(&options)?;
    // A picture is looked at for longer than a frame.
    let stills = chosen.sources.iter().all(|source| source.info().frames == Some(1));
    let Opened { window, why } = output::window(&options, &devices.run, &title, stills)?;
    let side_by_side = window.is_some() || matches!(options.to, To::Socket(_));
    let lists = choose::playlists(std::mem::take(&mut chosen.sources), &options, side_by_side)?;
    lists.iter().flat_map(Playlist::describe).for_each(|line| tell("input", &line));

    let network = choose::network(&options)?;
    let runs: Vec<_> = lists
        .iter()
        .map(|list| {
            let usual = if list.is_live() { Policy::Latest } else { Policy::Fifo };
            choose::pipeline(&options, options.policy.unwrap_or(usual), network.as_deref())
        })
        .collect();
    let mut sizes = Vec::new();
    for list in &lists {
        let size = choose::output_size(network.as_deref(), list.size()?)?;
        tell("model", &choose::describe(network.as_deref(), list.size()?, size));
        sizes.push(size);
    }
    network.iter().for_each(|model| {
        model.plan().to_string().lines().for_each(console::say);
    });
    let runtime = network.as_ref().map_or("none", |model| model.runtime()).to_owned();
    tell("runtime", &runtime);
    tell("device", &choose::describe_devices(&devices, &runs));
    devices.notes.iter().for_each(|note| tell("", note));

    // From here on Ctrl-C finishes what was begun.
    let (tally, stop) = (Tally::new(), Stop::default());
    let asked = stop.clone();
    signals::listen(move |code| asked.request(Why::Signal(code)))?;
    let output = match window {
        Some(window) => Output::Window(window),
        None => output::open(&options, sizes[0], &lists[0])?,
    };
    tell("output", &output.describe());
    why.iter().for_each(|why| tell("", why));
    let mut json = options.json.as_ref().map(JsonFile::create).transpose()?;

    let panes: Vec<_> = lists
        .iter()
        .zip(&runs)
        .zip(&sizes)
        .map(|((list, run), &size)| output::Run {
            name: Source::name(list).to_owned(),
            size,
            policy: run.policy,
            // Of which the newest counts, each comes at its time from the source.
            paced: !list.is_live() && run.policy == Policy::Fifo,
        })
        .collect();
    let first = &lists[0];
    let mut report = Describe {
        input: lists.iter().flat_map(Playlist::describe).collect::<Vec<_>>().join("; "),
        model: network.as_ref().map_or("none".into(), |m| framelane::lanes::Model::name(&**m).to_owned()),
        output: output.describe(),
        display: output.path(),
        runtime,
        device: devices.name(),
        lanes: runs[0].lanes,
        policy: choose::policy(&runs),
        input_fps: first.rate().map(FrameRate::fps),
        paced: !first.is_live() && output.is_seen(),
    };
    let frames = lists.iter().map(Playlist::frames).sum();
    let (targets, window) = output.split(&devices.run, &panes)?;
    if let Some(window) = &window {
        report.display = window.handle().status().path();
        let handle = window.handle();
        stop.on_request(move || handle.close());
    }
    let lanes = network.map(|model| pipeline::lanes(&devices.run, model, &runs, &tally)).transpose()?;
    let (mut running, mut relayed) = (Vec::new(), Vec::new());
    let mut started = Ok(());
    let stops = stop.split(lists.len());
    for (((list, run), target), stop) in lists.into_iter().zip(runs).zip(targets).zip(&stops) {
        let one = start(list, run, target, &devices, lanes.clone(), &tally, stop);
        match one {
            Ok((one, relay)) => {
                running.push(one);
                relayed.extend(relay);
            }
            // What runs already is ended in order.
            Err(error) => {
                stop.request(Why::Failure);
                started = Err(error);
                break;
            }
        }
    }
    drop(lanes);
    let progress = Progress::start(tally.clone(), frames)?;
    // The window's events belong to the main thread; the pipeline's threads run beside it.
    let shown = window.map(|window| {
        let shown = window.run();
        if !matches!(&shown, Ok(report) if !report.closed_by_user) {
            stop.request(Why::Window);
        }
        shown
    });
    let mut end = End { error: started.err(), summary: None };
    for one in running {
        let ended = one.join();
        end.error = end.error.or(ended.error);
        end.summary = end.summary.or(ended.summary);
    }
    drop(progress);
    drop(chosen.keep.take());

    let (shown, window_error) = match shown.transpose() {
        Ok(shown) => (shown, None),
        Err(error) => (None, Some(error)),
    };
    let failed = end.error.is_some();
    let error = end.error.or(window_error).or_else(|| nothing(&tally, stop.why(), &report.input));
    if let Some(summary) = &end.summary {
        report.output = wrote(summary);
    }
    let why = stop.why().or(failed.then_some(Why::Failure));
    let report = report.report(&tally, &devices.counters(), shown.as_ref(), why, error.as_ref());
    console::say(report.table(console::has_colours()).trim_end());
    for (name, report) in relayed {
        console::say(&format!(
            "\nby way of   {name}: {}",
            report().to_string().replace('\n', "\n            ")
        ));
    }
    if let Some(summary) = &end.summary {
        console::say(&format!("\nwrote       {}", wrote(summary)));
    }
    if let Some(json) = &mut json {
        json.write(&report)?;
    }
    match (error, stop.why()) {
        (Some(error), _) => Err(Failure::Work(error)),
        (None, Some(Why::Signal(code))) => Ok(Ended::Signal(code)),
        (None, _) => Ok(Ended::Done),
    }
}

/// What a feed's device is called, and what to ask for its report.
type Relayed = (String, Box<dyn Fn() -> FeedReport>);

/// Start the threads of one pipeline.
fn start(
    list: Playlist,
    options: pipeline::Options,
    target: Target,
    devices: &choose::Devices,
    lanes: Option<Arc<Lanes>>,
    tally: &Arc<Tally>,
    stop: &Stop,
) -> Result<(Running, Option<Relayed>)> {
    // A window shows pictures without a clock (a folder) at the pace that files would give them.
    let clock = list.rate().or((!list.is_live()).then_some(FrameRate { num: 30, den: 1 }));
    // Of which each counts, they are shown when they are due; of which the newest counts, they come when they are.
    let paced = !list.is_live() && options.policy == Policy::Latest && matches!(target, Target::Screen(_));
    let mut source: Box<dyn Source> = Box::new(list);
    let mut relayed = None;
    if let Some(device) = &devices.relay {
        let relay = Relay::new(device, source)?;
        relayed = Some((device.name().to_owned(), Box::new(relay.reporter()) as Box<dyn Fn() -> FeedReport>));
        source = Box::new(relay);
    }
    if paced {
        source = Box::new(Paced::new(source, clock));
    }
    let parts = Parts { source, stamps: Stamps::new(clock), lanes, target, options };
    Ok((Running::start(&devices.run, parts, tally, stop)?, relayed))
}

/// The error of a run in which nothing failed but everything.
fn nothing(tally: &Tally, why: Option<Why>, input: &str) -> Option<Error> {
    let frames = tally.recorder.frames();
    match (frames.r#in, frames.out, why) {
        (_, _, Some(_)) => None,
        (0, _, None) => Some(Error::new(ErrorKind::Input, format!("{input}: there is no frame in it"))),
        (_, 0, None) => tally.first_failure(),
        _ => None,
    }
}

/// One labelled line about what was chosen.
fn tell(label: &str, text: &str) {
    console::say(&format!("{label:<12}{text}"));
}

fn wrote(summary: &framelane_media::Summary) -> String {
    let size = match summary.bytes {
        b if b < 1_000_000 => format!("{:.0} kB", b as f64 / 1e3),
        b => format!("{:.1} MB", b as f64 / 1e6),
    };
    format!("{} ({} frames, {size})", summary.target, summary.frames)
}

/// What the report says that is not a figure.
struct Describe {
    input: String,
    model: String,
    output: String,
    display: String,
    runtime: String,
    device: String,
    lanes: usize,
    /// `None`: they differ.
    policy: Option<Policy>,
    input_fps: Option<f64>,
    paced: bool,
}

impl Describe {
    fn report(
        self,
        tally: &Tally,
        device: &Counters,
        shown: Option<&WindowReport>,
        why: Option<Why>,
        error: Option<&Error>,
    ) -> RunReport {
        let mut figures = tally.recorder.report(device);
        let mut display = self.display;
        if let Some(shown) = shown {
            // The window knows when a frame was really handed to the screen.
            if let Some(ages) = shown.age {
                let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
                figures.age_ms = AgeReport { p50: ms(ages.p50), p95: ms(ages.p95), p99: ms(ages.p99) };
            }
            display = shown.path.clone();
        }
        let failed = || tally.first_failure().map(|e| e.to_string());
        RunReport {
            figures,
            paths: Paths { device: self.device, runtime: self.runtime, display },
            window: shown.map(|shown| WindowFrames {
                shown: shown.shown(),
                hidden: shown.hidden(),
                host_copies: shown.panes.iter().map(|pane| pane.host_copies).sum(),
            }),
            input: self.input,
            model: self.model,
            output: self.output,
            lanes: self.lanes,
            policy: match self.policy {
                Some(Policy::Fifo) => "fifo",
                Some(Policy::Latest) => "latest",
                None => "mixed",
            },
            input_fps: self.input_fps,
            paced: self.paced,
            stopped: why.map(|why| match why {
                Why::Signal(_) => "signal",
                Why::Window => "window closed",
                Why::Failure => "error",
            }),
            error: error.map(Error::to_string).or_else(failed),
        }
    }
}

/// Where the JSON goes. Made before the run, so that a folder that cannot be written is told at once.
enum JsonFile {
    Stdout,
    File { file: File, name: String, unwritten: Option<PathBuf> },
}

impl JsonFile {
    fn create(to: &Json) -> Result<Self> {
        match to {
            Json::Stdout => Ok(Self::Stdout),
            Json::File(path) => {
                let name = path.display().to_string();
                let failed = |e| Error::io(format!("{name} cannot be created"), e);
                let is_new = !path.exists();
                let file =
                    File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
                Ok(Self::File { file, name, unwritten: is_new.then(|| path.clone()) })
            }
        }
    }

    fn write(&mut self, report: &RunReport) -> Result<()> {
        let text = serde_json::to_string_pretty(report).map_err(|e| {
            Error::new(ErrorKind::Io, format!("the figures cannot be written as JSON: {e}")).because(e)
        })?;
        let text = text + "\n";
        match self {
            Self::Stdout => {
                console::print(&text).map_err(|e| Error::io("standard output cannot be written", e))
            }
            Self::File { file, name, unwritten } => {
                // What was there before was kept until now. Of a pipe or a terminal there is none.
                if file.metadata().is_ok_and(|about| about.is_file()) {
                    file.set_len(0).map_err(|e| Error::io(format!("{name} cannot be written"), e))?;
                }
                *unwritten = None;
                file.write_all(text.as_bytes()).map_err(|e| Error::io(format!("{name} cannot be written"), e))
            }
        }
    }
}

impl Drop for JsonFile {
    fn drop(&mut self) {
        if let Self::File { unwritten: Some(path), .. } = self {
            // A run that never began leaves no empty file. If that fails, an empty one stays.
            let _ = std::fs::remove_file(path);
        }
    }
}
