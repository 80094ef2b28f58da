//! The window, end to end, on a screen of its own.

#![cfg(target_os = "linux")]

use crate::help::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// An X server with no screen behind it, ended when this is dropped.
struct Screen {
    server: Child,
    name: String,
}

impl Screen {
    fn start() -> Option<Self> {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1280x720x24", "-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        // It says its number once it listens.
        let mut number = String::new();
        BufReader::new(server.stdout.take()?).read_line(&mut number).ok()?;
        Some(Self { server, name: format!(":{}", number.trim()) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Runs `play` on a screen. `None`: it cannot show windows here, and the test was skipped.
fn on_screen(test: &str, args: &[&str]) -> Option<Run> {
    let Some(screen) = Screen::start() else {
        skip(test, "there is no Xvfb");
        return None;
    };
    let doctor = run(framelane(["doctor"]).env("DISPLAY", &screen.name)).ok();
    let doctor = String::from_utf8(doctor.out).unwrap();
    if !doctor.contains("in a window on") {
        let why = doctor.lines().find(|l| l.contains("because")).unwrap_or("no window can be opened").trim();
        skip(test, why);
        return None;
    }
    Some(run(framelane(["play"].iter().chain(args)).env("DISPLAY", &screen.name)))
}

#[test]
fn every_frame_of_a_recording_is_shown() {
    let args = ["testsrc:320x180@60", "--frames", "30", "--model", "none", "--to", "window", "--json", "-"];
    if let Some(run) = on_screen("every_frame_of_a_recording_is_shown", &args) {
        let figures = run.ok().figures();
        assert_eq!(figures.frames(), [30, 30, 0, 0]);
        let window = &figures.0["window"];
        let (shown, hidden) = (window["shown"].as_u64().unwrap(), window["hidden"].as_u64().unwrap());
        assert_eq!(shown + hidden, 30, "each frame out was seen or is counted as hidden");
        assert!(shown > 0, "{window}");
        assert_eq!(window["host_copies"], 30, "this device is the host");
        let path = figures.0["paths"]["display"].as_str().unwrap();
        assert!(path.starts_with("host-upload"), "{path}");
        // 29 steps at 60 a second, not as fast as the machine can.
        assert!(figures.0["wall_s"].as_f64().unwrap() > 29.0 / 60.0, "{figures:?}");
    }
}

#[test]
fn auto_takes_the_window() {
    let args = ["--frames", "3", "--json", "-"];
    if let Some(run) = on_screen("auto_takes_the_window", &args) {
        let run = run.ok();
        assert!(run.err.contains("output      a window"), "{}", run.err);
        assert_eq!(run.figures().frames(), [3, 3, 0, 0]);
    }
}

/// Each for itself: of any size, at its own rate, through one network.
#[test]
fn several_inputs_are_shown_side_by_side() {
    let inputs = ["testsrc:64x48@30", "testsrc:96x32@60", "testsrc:48x48@20"];
    let args = ["--frames", "8", "--to", "window", "--runtime", "tract", "--json", "-"];
    let all: Vec<&str> = inputs.into_iter().chain(args).collect();
    if let Some(run) = on_screen("several_inputs_are_shown_side_by_side", &all) {
        let run = run.ok();
        assert_eq!(run.err.matches("\ninput ").count() + usize::from(run.err.starts_with("input ")), 3);
        let figures = run.figures();
        assert_eq!(figures.frames(), [24, 24, 0, 0]);
        let window = &figures.0["window"];
        assert_eq!(window["shown"].as_u64().unwrap() + window["hidden"].as_u64().unwrap(), 24);
    }
}

/// A lone input that breaks: what came before it is shown, each frame, and its reason is the run's.
#[test]
fn what_comes_before_a_break_is_shown() {
    let folder = Folder::new();
    let frames = [&b"FRAME\n"[..], &[90; 384]].concat().repeat(20);
    let film = [b"YUV4MPEG2 W16 H16 F100:1 C420jpeg\n", &frames[..], b"FRAME\n"].concat();
    let cut = folder.write("cut.y4m", &film);
    let args = [&cut, "--model", "none", "--to", "window", "--json", "-"];
    if let Some(run) = on_screen("what_comes_before_a_break_is_shown", &args) {
        assert_eq!(run.code, Some(1), "{}", run.err);
        let figures = run.figures();
        assert_eq!((figures.frames(), figures.0["stopped"].as_str()), ([20, 20, 0, 0], Some("error")));
        assert!(run.err.contains("cut.y4m: frame 20 is cut off"), "{}", run.err);
    }
}

/// Two processes show in the window of a third, which is stopped: they are told, and end well.
#[cfg(target_os = "linux")]
#[test]
fn processes_show_in_anothers_window() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let test = "processes_show_in_anothers_window";
    let Some(screen) = Screen::start() else { return skip(test, "there is no Xvfb") };
    let folder = tempfile::tempdir().unwrap();
    let here = |args: &[&str]| {
        let mut command = framelane(args);
        command.env("DISPLAY", &screen.name).env("XDG_RUNTIME_DIR", folder.path());
        command
    };
    let json = folder.path().join("figures.json");
    let nobody =
        run(here(&["play", "testsrc", "--to", "socket:wall", "--model", "none", "--json"]).arg(&json));
    assert!(nobody.err.contains("wall") && nobody.code == Some(1), "{}", nobody.err);
    assert!(!json.exists(), "a run that never began leaves no figures");

    let mut window = here(&["window", "wall", "--size", "320x200"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(window.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = said.by_ref().find(|line| line.starts_with("listens") || line.contains("cannot be opened"));
    if first.as_ref().is_none_or(|line| line.contains("cannot be opened")) {
        let _ = window.wait();
        return skip(test, first.unwrap_or_default());
    }
    let inputs = ["testsrc:64x48@30", "testsrc:32x32@60"];
    let play = ["play", inputs[0], inputs[1], "--to", "socket:wall", "--model", "none", "--json", "-"];
    let short = run(here(&play).args(["--frames", "10"])).ok();
    assert!(short.err.contains("shared-memory, then host-upload ("), "{}", short.err);
    let [read, out, dropped, failed] = short.figures().frames();
    assert_eq!((read, out + dropped, failed), (20, 20, 0));
    assert!(out > 0);

    // Without an end; the window's decides.
    let endless = here(&play).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = i32::try_from(window.id()).unwrap();
    let mut worker =
        here(&["play", "testsrc:64x48@60", "--frames", "60", "--to", "socket:wall", "--model", "none"]);
    run(&mut worker).ok();
    // One that breaks ends alone, says why in its pane, and is the exit code.
    let film = |name: &str, frames: usize, rest: &[u8]| {
        let path = folder.path().join(name);
        let frames = [&b"FRAME\n"[..], &[90; 384]].concat().repeat(frames);
        std::fs::write(&path, [b"YUV4MPEG2 W16 H16 F400:1 C420jpeg\n", &frames[..], rest].concat()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let broken = [
        "play",
        &film("cut.y4m", 3, b"FRAME\n"),
        "testsrc:64x48@60",
        "--frames",
        "30",
        "--to",
        "socket:wall",
    ];
    let broken = run(here(&broken).args(["--model", "none", "--json", "-"]));
    assert_eq!(broken.code, Some(1), "{}", broken.err);
    assert!(broken.err.contains("cut.y4m") && broken.err.contains("; the others go on"), "{}", broken.err);
    let figures = broken.figures();
    assert_eq!((figures.frames()[0], figures.0["stopped"].as_str()), (33, Some("error")));
    assert!(figures.0["error"].as_str().unwrap().contains("cut.y4m"));

    // What a worker counts as out is what the window drew.
    let mut counted = here(&["play", &film("fast.y4m", 200, b""), "--to", "socket:wall"]);
    let counted = run(counted.args(["--policy", "latest", "--model", "none", "--json", "-"])).ok().figures();
    let [read, out, dropped, _] = counted.frames();
    assert_eq!((read, out + dropped), (200, 200));
    assert!(
        counted.0["wall_s"].as_f64().unwrap() > 199.0 / 400.0,
        "the newest of a recording come when they are due"
    );

    std::process::Command::new("kill").arg(id.to_string()).status().unwrap();
    assert_eq!(window.wait().unwrap().code(), Some(128 + 15));
    let rest: Vec<String> = said.collect();
    assert!(rest.iter().filter(|line| line.contains(" shown, ")).count() >= 2, "{rest:?}");
    let line =
        |of: &str| rest.iter().find(|line| line.starts_with(of)).unwrap_or_else(|| panic!("{of}: {rest:?}"));
    assert!(line("cut.y4m").contains("ended: ") && line("cut.y4m").contains("frame 3"), "{rest:?}");
    let counts = line("fast.y4m: ").rsplit_once(", by ").map_or("", |(counts, _)| counts);
    let counts: Vec<u64> = counts.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let [shown, _, hidden] = counts[..] else { panic!("{rest:?}") };
    assert_eq!(shown + hidden, out, "{rest:?}");
    let ended = endless.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{err}");
}

/// S16: a window that is killed is told from one that is closed.
#[test]
fn a_window_that_is_killed_is_an_error_of_who_shows_there() {
    let test = "a_window_that_is_killed_is_an_error_of_who_shows_there";
    let Some(screen) = Screen::start() else { return skip(test, "there is no Xvfb") };
    let folder = tempfile::tempdir().unwrap();
    let here = |args: &[&str]| {
        let mut command = framelane(args);
        command.env("DISPLAY", &screen.name).env("XDG_RUNTIME_DIR", folder.path());
        command
    };
    let mut window = here(&["window", "doomed"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(window.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = said.by_ref().find(|line| line.starts_with("listens") || line.contains("cannot be opened"));
    if first.as_ref().is_none_or(|line| line.contains("cannot be opened")) {
        let _ = window.wait();
        return skip(test, first.unwrap_or_default());
    }
    let mut endless = here(&["play", "testsrc:64x48@60", "--to", "socket:doomed", "--model", "none"]);
    let mut endless = endless.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(endless.stderr.take().unwrap()).lines().map(Result::unwrap);
    // The way is said once it is attached.
    let attached = told.by_ref().find(|line| line.contains("host-upload"));
    assert!(attached.is_some());
    // One whose input gives nothing any more hears of it, too: standard input that stays open.
    let mut silent = here(&["play", "-", "--to", "socket:doomed", "--model", "none"]);
    let mut silent = silent.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let frame = [&b"YUV4MPEG2 W16 H16 F30:1 C420jpeg\nFRAME\n"[..], &[90; 384]].concat();
    let mut input = silent.stdin.take().unwrap();
    input.write_all(&frame).unwrap();
    let mut heard = BufReader::new(silent.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(heard.by_ref().any(|line| line.contains("host-upload")));
    window.kill().unwrap();
    window.wait().unwrap();
    let rest: Vec<String> = told.collect();
    assert_eq!(endless.wait().unwrap().code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("the window doomed is gone without a word")), "{rest:?}");
    let heard: Vec<String> = heard.collect();
    assert_eq!(silent.wait().unwrap().code(), Some(1), "{heard:?}");
    drop(input);
}

/// S5: a screen, but nothing that draws: a sentence with what to do, or a file instead of the window.
#[cfg(target_os = "linux")]
#[test]
fn s5_no_vulkan_is_a_sentence() {
    let test = "s5_no_vulkan_is_a_sentence";
    let Some(screen) = Screen::start() else { return skip(test, "there is no Xvfb") };
    let folder = tempfile::tempdir().unwrap();
    let bare = |to: &str| {
        let mut command =
            framelane(["play", "testsrc:64x48@30", "--frames", "3", "--model", "none", "--to", to]);
        command.env("DISPLAY", &screen.name).env("WGPU_BACKEND", "vulkan").current_dir(folder.path());
        command.env("VK_DRIVER_FILES", "/nonexistent").env("VK_ICD_FILENAMES", "/nonexistent");
        run(&mut command)
    };
    let refused = bare("window");
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("apt install mesa-vulkan-drivers"), "{}", refused.err);
    let written = bare("auto").ok();
    assert!(written.err.contains("because no graphics adapter"), "{}", written.err);
    assert!(folder.path().join("framelane-out.mp4").exists());
}

/// S6: no screen at all. A window for other processes says so.
#[cfg(target_os = "linux")]
#[test]
fn s6_no_screen_is_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = framelane(["window", "wall"]);
    command.env("XDG_RUNTIME_DIR", folder.path());
    let refused = run(&mut command);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("the window cannot be opened: there is no screen"), "{}", refused.err);
    assert!(!folder.path().join("framelane").exists(), "nothing stays behind");
}
