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
    /// What became of the frames that went out into a window, if there was one.
    pub window: Option<WindowFrames>,
    /// What was read, network, and what was written.
    pub input: String,
    pub model: String,
    pub output: String,
    /// Lanes that the network ran in.
    pub lanes: usize,
    /// `fifo`, `latest`, or of several inputs `mixed`.
    pub policy: &'static str,
    /// Frames per second of the input, if it has a rate.
    pub input_fps: Option<f64>,
    /// Whether frames were held back to be shown at the input's own speed.
    pub paced: bool,
    /// Why the run ended before its input did, if it did: `signal`, `window closed` or `error`.
    pub stopped: Option<&'static str>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// Frames that a window took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WindowFrames {
    /// Handed to the screen.
    pub shown: u64,
    /// Not drawn, because the window was minimised or covered.
    pub hidden: u64,
    /// Pictures that went through host memory on their way to the window: none where it shares memory with the device.
    pub host_copies: u64,
}

/// Which ways were taken.
#[derive(Debug, Clone, Serialize)]
pub struct Paths {
    pub device: String,
    pub runtime: String,
    pub display: String,
}

const BAR: usize = 14;

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
        if let Some(WindowFrames { hidden: hidden @ 1.., .. }) = self.window {
            let hidden = paint("33", &format!("{hidden} out, but hidden"));
            line(format!("              {hidden}: the window was minimised or covered"));
        }
        for (what, by) in [("dropped", &frames.dropped_by), ("failed", &frames.failed_by)] {
            for (why, n) in by {
                line(format!("              {n} {what}: {why}"));
            }
        }
        // A frame or two may be missing at the ends.
        let in_time = self.paced && self.input_fps.is_some_and(|own| *fps >= own * 0.95);
        let own = match self.input_fps {
            Some(_) if in_time => ", the input's own speed".to_owned(),
            Some(own) if self.paced => format!(", slower than the input ({own:.1})"),
            _ => String::new(),
        };
        line(format!("speed       {fps:.1} frames a second{own}; {} in all", ms(wall_s * 1e3)));
        if frames.out > 0 {
            line(format!(
                "age         p50 {}, p95 {}, p99 {}, since capture or decoding",
                ms(age_ms.p50),
                ms(age_ms.p95),
                ms(age_ms.p99)
            ));
        }
        line(format!(
            "copied      {} to the device, {} from it{}",
            self::bytes(bytes.to_device),
            self::bytes(bytes.from_device),
            if self.paths.device.starts_with("cpu") { ", within main memory" } else { "" }
        ));
        let Paths { device, runtime, display } = &self.paths;
        line(format!("device      {device}"));
        line(format!("runtime     {runtime}"));
        line(format!("display     {display}"));
        if let Some(WindowFrames { shown, hidden, host_copies }) = self.window {
            line(format!("            {host_copies} of {} pictures through host memory", shown + hidden));
        }
        line(String::new());
        line(paint("1", "stage       workers        busy     waiting   (of each worker)"));
        for stage in stages {
            let is_bottleneck = *bottleneck == Some(stage.name);
            let row = row(stage, wall_s * 1e3);
            line(match is_bottleneck {
                true => {
                    format!("{} <- {}", paint("1", &row), if in_time { "busiest" } else { "bottleneck" })
                }
                false => row,
            });
        }
        if stages.iter().any(|stage| stage.workers == 0) {
            line("shared: done by the workers of other stages".into());
        }
        out
    }
}

/// `network           2      4.81 s     0.10 s   ####################..  98 %`
fn row(stage: &StageReport, wall_ms: f64) -> String {
    let StageReport { name, busy_ms, wait_ms, workers } = *stage;
    // 0: workers of other stages do it on the side.
    let each = workers.max(1) as f64;
    let part = if wall_ms > 0.0 { (busy_ms / each / wall_ms).clamp(0.0, 1.0) } else { 0.0 };
    let full = (part * BAR as f64).round() as usize;
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR - full));
    format!(
        "{:<12}{:>7}  {:>10}  {:>10}   {bar} {:>3.0} %",
        name.to_string(),
        if workers > 0 { workers.to_string() } else { "shared".into() },
        ms(busy_ms / each),
        if workers > 0 { ms(wait_ms / each) } else { "-".into() },
        part * 100.0
    )
}

fn ms(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 10_000.0 => format!("{:.2} s", ms / 1e3),
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

#[cfg(test)]
mod tests {
    use super::*;
    use framelane::device::Counters;
    use framelane::stats::{Recorder, Stage};
    use std::time::Duration;

    fn report() -> RunReport {
        let recorder = Recorder::default();
        let lanes = recorder.group(Stage::Network, 2);
        recorder.group(Stage::Sink, 1).busy(Stage::Sink, Duration::from_micros(3));
        lanes.busy(Stage::Network, Duration::from_micros(90));
        for _ in 0..3 {
            recorder.frame_in();
        }
        recorder.frame_out(Duration::from_millis(12));
        recorder.frame_dropped("skipped for a newer frame");
        recorder.frame_failed("the network failed");
        let text = |t: &str| t.to_owned();
        RunReport {
            figures: recorder.report(&Counters { to_device: 1_234_567, ..Counters::default() }),
            paths: Paths { device: text("cpu"), runtime: text("tract"), display: text("none") },
            window: Some(WindowFrames { shown: 0, hidden: 1, host_copies: 0 }),
            input: text("a.mp4"),
            model: text("b.onnx"),
            output: text("none"),
            lanes: 2,
            policy: "latest",
            input_fps: Some(24.0),
            paced: false,
            stopped: None,
            error: None,
        }
    }

    #[test]
    fn the_table_fits_and_names_what_matters() {
        let table = report().table(false);
        for words in [
            "3 in = 1 out + 1 dropped + 1 failed",
            "1 dropped: skipped for a newer frame",
            "1 out, but hidden: the window was minimised or covered",
            "            0 of 1 pictures through host memory",
            "1.2 MB to the device",
            "network           2",
            "<- bottleneck",
        ] {
            assert!(table.contains(words), "{words}:\n{table}");
        }
        assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
        assert!(!table.contains('\x1b') && report().table(true).contains('\x1b'));
    }

    #[test]
    fn the_json_has_its_names() {
        let json = serde_json::to_value(report()).unwrap();
        for at in [
            "/frames/in",
            "/frames/failed",
            "/stages/0/busy_ms",
            "/stages/4/wait_ms",
            "/bottleneck",
            "/fps",
            "/wall_s",
        ] {
            assert!(json.pointer(at).is_some(), "{at}: {json}");
        }
        for at in [
            "/age_ms/p99",
            "/bytes/to_device",
            "/bytes/from_device",
            "/paths/display",
            "/paths/runtime",
            "/window/shown",
            "/window/hidden",
            "/window/host_copies",
        ] {
            assert!(json.pointer(at).is_some(), "{at}: {json}");
        }
    }
}
