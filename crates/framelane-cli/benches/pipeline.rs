//! What the pipeline costs, with the real program: over the bare network, over its slowest stage, and in memory.
//! Run it on a quiet machine: `cargo bench -p framelane-cli`.

use framelane::feed::{Contents, SlotWriter};
use framelane::frame::ImageSize;
use framelane::lanes::{Job, JobTimes, Model, Session};
use framelane::tensor::TensorSpec;
use framelane::{Error, ErrorKind, Result};
use framelane_media::{OpenOptions, VideoSource};
use framelane_onnx::{ImageModel, Options, Runtime, upscaler};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Frames of one measurement.
const FRAMES: usize = 96;
/// Measurements of each side, in turn; the median counts.
const ROUNDS: usize = 5;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let cores = std::thread::available_parallelism()?;
    println!("pipeline: {cores} cores, {}, {}\n", processor(), date());
    println!("{:<52} {:>12} {:>12} {:>7} {:>8}", "", "baseline", "framelane", "ratio", "target");
    let package = where_now("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    let clip = package.join("../../assets/clip.mp4").canonicalize()?;
    let clip = clip.to_str().ok_or("the repository's path is not UTF-8")?;
    let mut missed = 0;
    for lanes in [1, 2] {
        missed += u32::from(!overhead(clip, lanes, lanes >= cores.get())?);
    }
    missed += u32::from(!whole(clip)?);
    missed += u32::from(!memory()?);
    println!(
        "\n{}",
        if missed == 0 { "all targets met".to_owned() } else { format!("{missed} targets missed") }
    );
    Ok(())
}

/// What is needed may be elsewhere than where it was compiled: cargo, and whoever runs this without cargo, says so in
/// the variable of the same name.
fn where_now(variable: &str, compiled: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or(compiled.into()).into()
}

fn program() -> PathBuf {
    where_now("CARGO_BIN_EXE_framelane", env!("CARGO_BIN_EXE_framelane"))
}

fn line(what: &str, baseline: String, ours: String, ratio: f64, target: f64) -> bool {
    let met = ratio <= target;
    println!(
        "{what:<52} {baseline:>12} {ours:>12} {ratio:>7.3} {:>8}{}",
        format!("<= {target}"),
        if met { "" } else { "  MISSED" }
    );
    met
}

/// The network in a tight loop on `lanes` threads, against the program with as many lanes and no output.
///
/// `decoding`: the lanes take every core, so that decoding, which has one to itself otherwise, is taken from
/// the network's time whoever runs them. The tight loop then decodes as well.
fn overhead(clip: &str, lanes: usize, decoding: bool) -> Result<bool> {
    let (frames, size) = decode(clip)?;
    let options = Options { runtime: Runtime::Tract, lanes, ..Options::default() };
    let model = upscaler(&options)?;
    let (lanes_text, frames_text) = (lanes.to_string(), FRAMES.to_string());
    let args =
        ["--runtime", "tract", "--lanes", &lanes_text, "--loop", "--frames", &frames_text, "--to", "none"];
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let video = decoding.then(|| open(clip).map(Mutex::new)).transpose()?;
        bare.push(1e3 / bare_fps(&model, &frames, video.as_ref(), size, lanes)?);
        ours.push(1e3 / number(&play(clip, &args)?, "/fps")?);
    }
    let (bare, ours) = (median(bare), median(ours));
    let bare_work = if decoding { "decoding and network by hand" } else { "the bare network" };
    let what = format!("over {bare_work}, lanes: {lanes}, ms a frame");
    Ok(line(&what, format!("{bare:.2}"), format!("{ours:.2}"), ours / bare, 1.03))
}

/// Frames per second from the first result to the last, as the program measures it.
fn bare_fps(
    model: &ImageModel,
    frames: &[Vec<u8>],
    video: Option<&Mutex<Box<dyn VideoSource>>>,
    size: ImageSize,
    lanes: usize,
) -> Result<f64> {
    let barrier = Barrier::new(lanes);
    let each = FRAMES / lanes;
    let spans = std::thread::scope(|scope| {
        let lane = |n: usize| {
            let barrier = &barrier;
            move || {
                let mut session = model.session()?;
                let outputs = model.outputs(&[size.spec()])?;
                let mut out = vec![0; outputs[0].bytes()];
                let (mut arena, mut contents) = (Vec::new(), Contents::default());
                run(&mut *session, (&size.spec(), &frames[n]), (&outputs[0], &mut out))?;
                barrier.wait();
                let start = Instant::now();
                for i in 1..each {
                    let mut input = &frames[(i * lanes + n) % frames.len()][..];
                    if let Some(video) = video {
                        let mut video = video.lock().unwrap_or_else(PoisonError::into_inner);
                        video.next_into(&mut SlotWriter::new(&mut arena, &mut contents))?;
                        input = &arena[..size.bytes()];
                    }
                    run(&mut *session, (&size.spec(), input), (&outputs[0], &mut out))?;
                }
                Ok::<_, Error>((start, Instant::now()))
            }
        };
        let threads: Vec<_> = (0..lanes).map(|n| scope.spawn(lane(n))).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|p| Err(Error::from_panic("a lane", p.as_ref()))))
            .collect::<Result<Vec<_>>>()
    })?;
    let start = spans.iter().map(|s| s.0).min().unwrap_or_else(Instant::now);
    let end = spans.iter().map(|s| s.1).max().unwrap_or_else(Instant::now);
    Ok(((each - 1) * lanes) as f64 / (end - start).as_secs_f64())
}

fn run(
    session: &mut dyn Session,
    input: (&TensorSpec, &[u8]),
    output: (&TensorSpec, &mut [u8]),
) -> Result<()> {
    let mut times = JobTimes::default();
    session.run(&mut Job::new(&[input], &mut [output], None, &mut times))
}

/// mp4 → network → mp4 against the time of its slowest stage.
fn whole(clip: &str) -> Result<bool> {
    let folder = tempfile::tempdir().map_err(|e| Error::io("no temporary folder", e))?;
    let out = folder.path().join("out.mp4");
    let out = out.to_str().ok_or_else(|| Error::new(ErrorKind::Io, "its name is not UTF-8"))?;
    let (mut walls, mut slowest) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let figures = play(clip, &["--runtime", "tract", "--to", out])?;
        let wall = number(&figures, "/wall_s")? * 1e3;
        let stages = figures["stages"].as_array().cloned().unwrap_or_default();
        // What the workers of a stage did in all: they convert on the side.
        let busy = |s: &Value| {
            let workers = s["workers"].as_f64().filter(|w| *w > 0.0)?;
            Some(wall - s["wait_ms"].as_f64()? / workers)
        };
        slowest.push(stages.iter().filter_map(busy).fold(0.0, f64::max));
        walls.push(wall);
    }
    let (wall, slowest) = (median(walls), median(slowest));
    Ok(line(
        "mp4 to mp4, over its slowest stage, s",
        format!("{:.2}", slowest / 1e3),
        format!("{:.2}", wall / 1e3),
        wall / slowest,
        1.15,
    ))
}

/// Resident memory over 10 000 frames: the last quarter of the time against the second.
fn memory() -> Result<bool> {
    let args = ["play", "testsrc:64x48", "--frames", "10000", "--runtime", "tract", "--to", "none"];
    let failed = |e| Error::io("the program cannot be run", e);
    let mut child = Command::new(program())
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let statm = format!("/proc/{}/statm", child.id());
    let mut samples = Vec::new();
    while child.try_wait().map_err(failed)?.is_none() {
        let text = std::fs::read_to_string(&statm).unwrap_or_default();
        samples
            .extend(text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).filter(|p| *p > 0.0));
        std::thread::sleep(Duration::from_millis(20));
    }
    if samples.len() < 40 {
        println!("memory: not measured: this system has no /proc");
        return Ok(true);
    }
    let quarter = samples.len() / 4;
    let mib = |pages: &[f64]| pages.iter().copied().fold(0.0, f64::max) * 4096.0 / f64::from(1 << 20);
    let (early, late) = (mib(&samples[quarter..2 * quarter]), mib(&samples[3 * quarter..]));
    Ok(line(
        "resident over 10 000 frames, MiB",
        format!("{early:.1}"),
        format!("{late:.1}"),
        late / early,
        1.01,
    ))
}

fn play(input: &str, args: &[&str]) -> Result<Value> {
    let output = Command::new(program())
        .args(["play", input, "--json", "-"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::io("the program cannot be run", e))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| Error::new(ErrorKind::Io, String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn number(figures: &Value, at: &str) -> Result<f64> {
    let number = figures.pointer(at).and_then(Value::as_f64);
    number.ok_or_else(|| Error::new(ErrorKind::Input, format!("the figures have no {at}")))
}

fn open(clip: &str) -> Result<Box<dyn VideoSource>> {
    framelane_media::open(clip, &OpenOptions::default())
}

/// The clip's first frames.
fn decode(clip: &str) -> Result<(Vec<Vec<u8>>, ImageSize)> {
    let mut video = open(clip)?;
    let size = video.info().size;
    let (mut arena, mut contents, mut frames) = (Vec::new(), Contents::default(), Vec::new());
    while frames.len() < 24 && video.next_into(&mut SlotWriter::new(&mut arena, &mut contents))? {
        frames.push(arena[..size.bytes()].to_vec());
    }
    Ok((frames, size))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The processor's name.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// The date, as year-month-day.
fn date() -> String {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    // Days since 1 March of year 0, in eras of 400 years.
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", year + era * 400 + next)
}
