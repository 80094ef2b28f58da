//! The figures of a run: the table that people read, and the JSON that programs do.

use framelane::stats::{Report, StageReport};
use serde::Serialize;
use std::fmt::Write;

/// Everything that is told about a run. Its JSON is that of [`Report`] (`frames`, `stages`, `bottleneck`, `fps`,
/// `wall_s`, `age_ms`, `bytes`) with these beside it.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// What was counted and measured.
    #[serde(flatten)]
    pub figures: Report,
    /// Which of several possible ways were taken.
    pub paths: Paths,
    /// What was read, network, and what was written.
    pub input: String,
    pub model: String,
    pub output: String,
    /// Lanes that the network ran in.
    pub lanes: usize,
    /// `fifo` or `latest`.
    pub policy: &'static str,
    /// Whether frames were held back to be shown at the input's own speed.
    pub paced: bool,
    /// Why the run ended before its input did, if it did: `signal`, `window closed` or `error`.
    pub stopped: Option<&'static str>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// Which ways were taken.
#[derive(Debug, Clone, Serialize)]
pub struct Paths {
    pub device: String,
    pub runtime: String,
    pub display: String,
}

const BAR: usize = 22;

impl RunReport {
    /// The table, with ANSI colours or without. Lines of 80 columns, unless a name is longer.
    pub fn table(&self, colours: bool) -> String {
        let paint = |code: &str, text: &str| match colours {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let mut out = String::new();
        let Report { frames, stages, bottleneck, fps, wall_s, age_ms, bytes } = &self.figures;
        let mut line = |text: String| {
            let _ = writeln!(out, "{}", text.trim_end());
        };
        line(String::new());
        let count = |n: u64, what: &str, code: &str| match n {
            0 => format!("{n} {what}"),
            _ => paint(code, &format!("{n} {what}")),
        };
        line(format!(
            "frames      {} in = {} out + {} + {}",
            frames.r#in,
            frames.out,
            count(frames.dropped, "dropped", "33"),
            count(frames.failed, "failed", "31")
        ));
        for (what, by) in [("dropped", &frames.dropped_by), ("failed", &frames.failed_by)] {
            for (why, n) in by {
                line(format!("              {n} {what}: {why}"));
            }
        }
        let own = if self.paced { ", shown at the input's own speed" } else { "" };
        line(format!("speed       {fps:.1} frames a second{own}; {wall_s:.1} s in all"));
        if frames.out > 0 {
            line(format!(
                "age         half under {}, 95 % under {}, 99 % under {} (from capture or decoding to output)",
                ms(age_ms.p50),
                ms(age_ms.p95),
                ms(age_ms.p99)
            ));
        }
        line(format!(
            "copied      {} to the device, {} from it",
            self::bytes(bytes.to_device),
            self::bytes(bytes.from_device)
        ));
        let Paths { device, runtime, display } = &self.paths;
        line(format!("device      {device}"));
        line(format!("runtime     {runtime}"));
        line(format!("display     {display}"));
        line(String::new());
        line(paint("1", "stage             busy     waiting"));
        for stage in stages {
            let is_bottleneck = *bottleneck == Some(stage.name);
            let row = row(stage, *wall_s);
            line(match is_bottleneck {
                true => format!("{}  <- {}", paint("1", &row), if self.paced { "busiest" } else { "bottleneck" }),
                false => row,
            });
        }
        out
    }
}

/// `network        4.812 s     0.100 s  ####################..  2 workers`
fn row(stage: &StageReport, wall_s: f64) -> String {
    let StageReport { name, busy_ms, wait_ms, workers } = *stage;
    let whole = if workers > 0 { busy_ms + wait_ms } else { wall_s * 1e3 };
    let part = if whole > 0.0 { (busy_ms / whole).clamp(0.0, 1.0) } else { 0.0 };
    let full = (part * BAR as f64).round() as usize;
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR - full));
    let wait = if workers > 0 { format!("{:.2} s", wait_ms / 1e3) } else { "-".into() };
    let who = match workers {
        0 | 1 => String::new(),
        _ => format!("  {workers} workers"),
    };
    format!("{:<12}{:>8.2} s  {wait:>10}  {bar} {:>3.0} %{who}", name.to_string(), busy_ms / 1e3, part * 100.0)
}

fn ms(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

fn bytes(n: u64) -> String {
    match n as f64 {
        b if b < 1e3 => format!("{n} bytes"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}
