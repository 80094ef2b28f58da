//! Running the program, reading what it wrote, and skipping what cannot run here.

#[path = "../../../../testing/skip.rs"]
mod skip;
pub use skip::skip_named as skip;

use framelane::feed::{Contents, SlotWriter, Source};
use framelane::frame::{FrameMeta, ImageSize};
use framelane_media::{OpenOptions, VideoSource};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// No run of the program in these tests takes longer.
const DEADLINE: Duration = Duration::from_secs(120);

/// What a run left.
#[derive(Debug)]
pub struct Run {
    /// `None`: killed by a signal.
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

/// The program, without a screen, speaking to no terminal, with tract alone.
pub fn framelane<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(where_now("CARGO_BIN_EXE_framelane", env!("CARGO_BIN_EXE_framelane")));
    command.args(args).stdin(Stdio::null());
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    // No library of that name: whatever is installed, the test sees the same machine.
    command.env("ORT_DYLIB_PATH", "/nonexistent/libonnxruntime.so");
    command
}

/// What the tests need may be elsewhere than where it was compiled: cargo, and whoever runs them without cargo, says
/// so in the variable of the same name.
fn where_now(variable: &str, compiled: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or(compiled.into()).into()
}

/// `framelane play`, its figures as JSON on standard output unless it goes elsewhere.
pub fn play(args: &[&str]) -> Run {
    run(&mut framelane(["play"].iter().chain(args)))
}

/// Run to the end.
pub fn run(command: &mut Command) -> Run {
    Started::new(command).finish()
}

/// A run that goes on.
pub struct Started {
    pub pid: u32,
    child: Child,
    out: Receiver<Vec<u8>>,
    err: Receiver<Vec<u8>>,
}

impl Started {
    pub fn new(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
        Self { pid: child.id(), child, out, err }
    }

    /// Write to its standard input, which must be piped; closed afterwards.
    pub fn feed(&mut self, bytes: &[u8]) {
        // The program may stop reading when it has seen enough.
        let _ = self.child.stdin.take().unwrap().write_all(bytes);
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid.to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Wait for its end.
    pub fn finish(mut self) -> Run {
        let end = Instant::now() + DEADLINE;
        let read =
            |from: &Receiver<Vec<u8>>| from.recv_timeout(end.saturating_duration_since(Instant::now()));
        match (read(&self.out), read(&self.err)) {
            (Ok(out), Ok(err)) => {
                // Both pipes are closed: it has ended, or is about to.
                let code = self.child.wait().unwrap().code();
                Run { code, out, err: String::from_utf8(err).unwrap() }
            }
            _ => {
                self.child.kill().unwrap();
                let err = self.err.recv().unwrap_or_default();
                panic!("no end within {DEADLINE:?}; it said:\n{}", String::from_utf8_lossy(&err));
            }
        }
    }
}

fn drain(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        // The test may have failed meanwhile.
        let _ = sender.send(bytes);
    });
    receiver
}

impl Run {
    /// It did what was asked.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// It failed with this exit code and one sentence, the last thing it said. Returns the sentence.
    #[track_caller]
    pub fn failed(&self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        let said: Vec<&str> = self.err.lines().filter(|l| l.starts_with("framelane: ")).collect();
        assert_eq!(said.len(), 1, "one sentence: {}", self.err);
        assert_eq!(self.err.lines().last(), Some(said[0]), "{}", self.err);
        said[0]["framelane: ".len()..].to_owned()
    }

    /// The figures, from standard output.
    #[track_caller]
    pub fn figures(&self) -> Figures {
        Figures(serde_json::from_slice(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}")))
    }
}

/// The JSON of a run, checked to be consistent.
#[derive(Debug)]
pub struct Figures(pub Value);

impl Figures {
    #[track_caller]
    pub fn read(path: &Path) -> Self {
        Self(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    }

    /// Frames in, out, dropped, failed. Their sum is checked.
    #[track_caller]
    pub fn frames(&self) -> [u64; 4] {
        let frames = ["in", "out", "dropped", "failed"].map(|k| self.0["frames"][k].as_u64().unwrap());
        assert_eq!(frames[0], frames[1..].iter().sum::<u64>(), "{}", self.0);
        frames
    }
}

/// A file of the repository's assets.
pub fn asset(name: &str) -> String {
    let package = where_now("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    let path = package.join("../../assets").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// A folder for one test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    pub fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.name(name)
    }
}

/// One picture of a video.
pub struct Picture {
    pub rgb: Vec<u8>,
    pub size: ImageSize,
    pub meta: FrameMeta,
}

impl Picture {
    pub fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        let at = (y * self.size.width + x) * 3;
        self.rgb[at..at + 3].try_into().unwrap()
    }
    /// The number that `testsrc` painted into it.
    pub fn number(&self) -> Option<u64> {
        framelane_media::read_frame_number(&self.rgb, self.size).map(u64::from)
    }
}

/// All pictures of a video, as another program of this project would read them.
#[track_caller]
pub fn pictures(path: &Path) -> Vec<Picture> {
    let mut video: Box<dyn VideoSource> =
        framelane_media::open(path.to_str().unwrap(), &OpenOptions::default()).unwrap();
    let size = video.info().size;
    let (mut arena, mut contents) = (Vec::new(), Contents::default());
    let mut pictures = Vec::new();
    while video.next_into(&mut SlotWriter::new(&mut arena, &mut contents)).unwrap() {
        let rgb = arena[..size.bytes()].to_vec();
        pictures.push(Picture { rgb, size, meta: contents.meta.clone().unwrap() });
    }
    pictures
}

/// Poll until `done`, at most until the deadline.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Whether the user's ffmpeg can be started; otherwise the test is skipped.
pub fn has_ffmpeg(test: &str) -> bool {
    let found =
        Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip(test, "there is no ffmpeg program");
    }
    found
}
