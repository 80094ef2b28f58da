//! Whatever else can be decoded, through the user's own `ffmpeg` program: a child process that pipes y4m.

use crate::color::{Planes, describe};
use crate::open::{VideoInfo, VideoSource, WITHOUT_SOUND, pts, short_name};
use crate::y4m::{Header, Y4mReader};
use framelane::feed::{Interrupter, SlotWriter, Source};
use framelane::frame::{ColorMatrix, FrameMeta};
use framelane::{Error, ErrorKind, Result};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Frames of a child process.
pub(crate) struct FfmpegSource {
    info: VideoInfo,
    command: FfmpegCommand,
    running: Running,
    planes: Vec<u8>,
    index: u64,
}

impl FfmpegSource {
    /// Read `input`, a path or an address. `instead` is why framelane does not read it itself.
    pub(crate) fn open(input: &str, instead: Option<Error>) -> Result<Self> {
        Self::open_with("ffmpeg", input, instead)
    }

    fn open_with(program: &str, input: &str, instead: Option<Error>) -> Result<Self> {
        let command = FfmpegCommand::new(program, input, instead)?;
        let running = command.start()?;
        let Header { size, rate, chroma, .. } = running.reader.header;
        let (stream, sound) = {
            let log = running.log.lock().unwrap_or_else(PoisonError::into_inner);
            (log.stream.clone(), log.sound)
        };
        let mut color = running.reader.header.color;
        if let Some(matrix) = stream.as_ref().and_then(|s| s.matrix) {
            color.matrix = matrix;
        }
        let codec = stream.map_or_else(|| "video".to_owned(), |s| s.codec);
        let format = format!(
            "{codec} {size}, {}, {}, via the ffmpeg program{}",
            chroma.name(),
            describe(color),
            if sound { WITHOUT_SOUND } else { "" }
        );
        let info = VideoInfo {
            name: command.name.clone(),
            size,
            rate,
            frames: None,
            live: command.live,
            format,
            color,
        };
        Ok(Self { info, command, running, planes: Vec::new(), index: 0 })
    }
}

impl Source for FfmpegSource {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let more = self.running.reader.next_frame(&mut self.planes);
        if !matches!(more, Ok(true)) {
            // Why ffmpeg stopped says more than that its pipe ended, whether or not it ended in mid-frame.
            self.running.end(&self.command)?;
            more.map_err(|e| e.context(&self.info.name))?;
            return Ok(false);
        }
        let pts = self.info.rate.map(|rate| pts(self.index, rate));
        let meta =
            FrameMeta { source: self.info.name.clone(), index: self.index, pts, captured: Instant::now() };
        self.index += 1;
        let planes = Planes::packed(&self.planes, self.info.size, self.running.reader.header.chroma);
        let (size, color) = (self.info.size, self.info.color);
        slot.converting(|slot| planes.to_rgb(color, slot.image(size, meta)?))?;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        if self.command.live {
            return Ok(false);
        }
        let running = self.command.start()?;
        if running.reader.header != self.running.reader.header {
            return Err(Error::new(
                ErrorKind::Input,
                format!("{} has changed since it was opened", self.info.name),
            ));
        }
        self.running = running;
        self.index = 0;
        Ok(true)
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let process = self.command.process.clone();
        Some(Arc::new(move || process.stop()))
    }
}

impl VideoSource for FfmpegSource {
    fn info(&self) -> &VideoInfo {
        &self.info
    }
}

/// How to start the program, as often as needed.
struct FfmpegCommand {
    program: String,
    input: String,
    /// For people: without a password, without folders.
    name: Arc<str>,
    live: bool,
    arguments: Vec<String>,
    process: Arc<Process>,
}

impl FfmpegCommand {
    fn new(program: &str, input: &str, instead: Option<Error>) -> Result<Self> {
        let address = input.split_once("://");
        let device = input.starts_with("/dev/");
        let live = device
            || address.is_some_and(|(scheme, _)| {
                ["rtsp", "rtsps", "rtmp", "rtmps", "rtp", "udp", "srt", "tcp"].contains(&scheme)
            });
        let name = match address {
            Some((scheme, rest)) => without_password(scheme, rest).into(),
            None if device => input.into(),
            None => short_name(Path::new(input)),
        };
        let major = version(program).map_err(|e| not_started(&e, &name, instead))?;

        let mut arguments: Vec<String> =
            ["-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+info"].map(str::to_owned).into();
        let mut add = |more: &[&str]| arguments.extend(more.iter().map(|&s| s.to_owned()));
        if device && cfg!(target_os = "linux") {
            add(&["-f", "v4l2"]);
        }
        if live {
            add(&["-fflags", "nobuffer"]);
        } else {
            // Damage is an error, as it is in the files that framelane reads itself.
            add(&["-xerror"]);
        }
        match address {
            Some(("rtsp" | "rtsps", _)) => {
                let timeout = if major.is_some_and(|m| m < 5) { "-stimeout" } else { "-timeout" };
                add(&["-rtsp_transport", "tcp", timeout, "10000000"]);
            }
            Some(("http" | "https", _)) => add(&["-rw_timeout", "15000000"]),
            _ => {}
        }
        // "file:" keeps colons in file names from looking like protocols.
        let url = if address.is_some() || device { input.to_owned() } else { format!("file:{input}") };
        // Neither repeat nor drop frames to make the rate even.
        let sync = if major.is_some_and(|m| m <= 5) { "-vsync" } else { "-fps_mode" };
        add(&["-i", &url, "-map", "0:V:0", "-vf", "format=yuv420p|yuv422p|yuv444p|gray"]);
        add(&[sync, "passthrough", "-f", "yuv4mpegpipe", "-"]);
        Ok(Self {
            program: program.into(),
            input: input.into(),
            name,
            live,
            arguments,
            process: Arc::default(),
        })
    }

    /// Start the program and wait for its header.
    fn start(&self) -> Result<Running> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| not_started(&e, &self.name, None))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        self.process.set(child);
        let log = Arc::<Mutex<Log>>::default();
        let writer = log.clone();
        let listener = std::thread::Builder::new()
            .name("ffmpeg's messages".into())
            .spawn(move || stderr.map(|stderr| listen(stderr, &writer)))
            .map_err(|e| Error::io("a thread cannot be started", e))?;
        let mut ending = Ending { process: self.process.clone(), listener: Some(listener) };
        let stdout = BufReader::with_capacity(
            1 << 16,
            stdout.ok_or_else(|| Error::new(ErrorKind::Io, "the pipe from ffmpeg could not be opened"))?,
        );
        match Y4mReader::new(stdout) {
            Ok(reader) => Ok(Running { reader, log, ending }),
            Err(e) => {
                let status = ending.wait();
                Err(self.told(&log, status).unwrap_or_else(|| e.context(&self.name)))
            }
        }
    }

    /// What went wrong by ffmpeg's own account; `None` if it ended well.
    fn told(&self, log: &Mutex<Log>, status: io::Result<bool>) -> Option<Error> {
        if self.process.stopped.load(Ordering::Acquire) {
            return Some(Error::new(ErrorKind::Cancelled, format!("{}: stopped", self.name)));
        }
        match status {
            Ok(true) => None,
            Ok(false) => {
                let log = log.lock().unwrap_or_else(PoisonError::into_inner);
                let why =
                    log.error.as_deref().unwrap_or("it does not say why").replace(&self.input, &self.name);
                Some(Error::new(ErrorKind::Input, format!("{} cannot be read by ffmpeg: {why}", self.name)))
            }
            Err(e) => Some(Error::io(format!("{}: ffmpeg was lost", self.name), e)),
        }
    }
}

/// The program at work. Dropping it ends the program.
struct Running {
    reader: Y4mReader<BufReader<ChildStdout>>,
    log: Arc<Mutex<Log>>,
    ending: Ending,
}

impl Running {
    /// The pipe has ended: find out why.
    fn end(&mut self, command: &FfmpegCommand) -> Result<()> {
        let status = self.ending.wait();
        command.told(&self.log, status).map_or(Ok(()), Err)
    }
}

/// Ends the process and its listener.
struct Ending {
    process: Arc<Process>,
    listener: Option<JoinHandle<Option<()>>>,
}

impl Ending {
    /// Wait for the end of a process that has closed its output. Returns whether it ended well.
    fn wait(&mut self) -> io::Result<bool> {
        let ended = self.process.wait();
        if let Some(listener) = self.listener.take() {
            // A listener that panicked has nothing to tell.
            let _ = listener.join();
        }
        ended
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.listener.is_some() {
            self.process.kill();
            let _ = self.wait();
        }
    }
}

/// The child, shared with whoever may want to end it.
#[derive(Default)]
struct Process {
    child: Mutex<Option<Child>>,
    stopped: AtomicBool,
}

impl Process {
    fn set(&self, child: Child) {
        let mut place = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut old) = place.replace(child) {
            // Between two passes over a file: the old one has ended, or is not wanted any more.
            let _ = old.kill();
            let _ = old.wait();
        }
        if self.stopped.load(Ordering::Acquire)
            && let Some(child) = place.as_mut()
        {
            let _ = child.kill();
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.kill();
    }

    fn kill(&self) {
        if let Some(child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // Fails only if it has ended already.
            let _ = child.kill();
        }
    }

    fn wait(&self) -> io::Result<bool> {
        match self.child.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(child) => child.wait().map(|status| status.success()),
            None => Ok(true),
        }
    }
}

/// What ffmpeg said, as far as it matters.
#[derive(Default)]
struct Log {
    /// The video stream of the input.
    stream: Option<Stream>,
    /// Whether the input has sound, which is not read.
    sound: bool,
    /// The last error, without its prefixes.
    error: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Stream {
    codec: String,
    matrix: Option<ColorMatrix>,
}

impl Log {
    fn hear(&mut self, line: &str) {
        let level = |name: &str| line.split_once(name).map(|(_, text)| text.trim());
        if let Some(text) = level("[error]").or_else(|| level("[fatal]")) {
            self.error = Some(text.to_owned());
        } else if line.contains("Stream #") && line.contains(": Audio: ") {
            self.sound = true;
        } else if self.stream.is_none()
            && let Some((_, text)) =
                line.split_once(": Video: ").filter(|(head, _)| head.contains("Stream #"))
        {
            self.stream = Some(Stream::parse(text));
        }
    }
}

impl Stream {
    /// From `hevc (Main) (hev1 / 0x31766568), yuv420p(tv, bt709, progressive), 640x360, 30 fps`.
    fn parse(text: &str) -> Self {
        let codec = text.split([' ', ',']).next().unwrap_or_default().to_owned();
        let (_, format) = split_outside(text).unwrap_or_default();
        let (format, tags) = format.trim().split_once('(').unwrap_or((format.trim(), ""));
        let tags = tags.split(')').next().unwrap_or_default();
        // One name stands for matrix, primaries and transfer alike, or three are given, matrix first.
        let matrix = tags.split(',').find_map(|tag| match tag.trim().split('/').next()? {
            "bt709" => Some(ColorMatrix::Bt709),
            "bt470bg" | "smpte170m" | "fcc" => Some(ColorMatrix::Bt601),
            _ => None,
        });
        // What was RGB is now YCbCr by ffmpeg's own choice, which is BT.601 at any size.
        let format = format.split(',').next().unwrap_or_default();
        let rgb = ["rgb", "bgr", "gbr", "argb", "abgr", "0rgb", "0bgr", "pal8"];
        let matrix =
            if rgb.iter().any(|p| format.starts_with(p)) { Some(ColorMatrix::Bt601) } else { matrix };
        Self { codec, matrix }
    }
}

/// Split at the first comma that is not in parentheses.
fn split_outside(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    let at = text.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })?;
    Some((&text[..at], &text[at + 1..]))
}

fn listen(stderr: impl Read, log: &Mutex<Log>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    // Lines may be in any encoding; no line may grow without end.
    while stderr.by_ref().take(1 << 16).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line);
        log::debug!("ffmpeg: {}", text.trim_end());
        log.lock().unwrap_or_else(PoisonError::into_inner).hear(&text);
        line.clear();
    }
}

/// Major version of the program, if it says one (builds from git do not).
fn version(program: &str) -> io::Result<Option<u32>> {
    let output = Command::new(program).arg("-version").stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let word = text.split_whitespace().nth(2).unwrap_or_default().trim_start_matches('n');
    Ok(word.split('.').next().and_then(|major| major.parse().ok()).filter(|major| *major < 100))
}

fn not_started(e: &io::Error, name: &str, instead: Option<Error>) -> Error {
    let why = match instead {
        Some(instead) => format!("{name}: {}", strip(&instead, name)),
        None => format!("{name} is nothing that framelane reads itself"),
    };
    if e.kind() == io::ErrorKind::NotFound {
        Error::new(
            ErrorKind::Unsupported,
            format!("{why}: install the ffmpeg program, and it will be read through it"),
        )
    } else {
        Error::new(ErrorKind::Unsupported, format!("{why}, and the ffmpeg program cannot be started: {e}"))
    }
}

/// The sentence without the path that leads it.
fn strip(error: &Error, name: &str) -> String {
    let text = error.to_string();
    text.split_once(&format!("{name}: ")).map_or(text.clone(), |(_, rest)| rest.to_owned())
}

fn without_password(scheme: &str, rest: &str) -> String {
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_lines() {
        let parsed = |text| {
            let Stream { codec, matrix } = Stream::parse(text);
            (codec, matrix)
        };
        assert_eq!(
            parsed("hevc (Main) (hev1 / 0x31766568), yuv420p(tv, bt709, progressive), 640x360, 30 fps"),
            ("hevc".into(), Some(ColorMatrix::Bt709))
        );
        assert_eq!(
            parsed("mpeg4 (Simple Profile) (XVID / 0x44495658), yuv420p, 640x360 [SAR 1:1 DAR 16:9]"),
            ("mpeg4".into(), None)
        );
        assert_eq!(
            parsed("vp9 (Profile 0), yuv420p(tv, smpte170m/bt470bg/smpte170m), 640x360"),
            ("vp9".into(), Some(ColorMatrix::Bt601))
        );
        assert_eq!(parsed("qtrle (rle / 0x1), rgb24(progressive), 9x9").1, Some(ColorMatrix::Bt601));
        assert_eq!(parsed(""), (String::new(), None));
        let mut log = Log::default();
        log.hear("[info]   Stream #0:0(und): Video: av1 (Main), yuv420p10le(tv), 64x64, 25 fps");
        assert!(!log.sound);
        log.hear("[info]   Stream #0:1(und): Audio: aac (LC), 48000 Hz, stereo, fltp, 128 kb/s");
        log.hear("[hevc @ 0x55] [error] no frame!");
        assert!(log.sound);
        assert_eq!(log.stream.unwrap().codec, "av1");
        assert_eq!(log.error.unwrap(), "no frame!");
    }

    #[test]
    fn passwords_stay_secret() {
        assert_eq!(without_password("rtsp", "me:secret@camera:554/1?x=a@b"), "rtsp://camera:554/1?x=a@b");
        assert_eq!(without_password("http", "host"), "http://host");
    }

    #[test]
    fn without_the_program() {
        let program = "no-such-program-as-ffmpeg";
        let error = FfmpegSource::open_with(program, "some/film.mkv", None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("film.mkv") && error.to_string().contains("install"), "{error}");
        let instead = Error::new(ErrorKind::Unsupported, "the codec hvc1 is not decoded by framelane itself");
        let error = FfmpegSource::open_with(program, "film.mp4", Some(instead.context("film.mp4")));
        let text = error.err().unwrap().to_string();
        assert!(text.starts_with("film.mp4: the codec hvc1"), "{text}");
        assert!(text.contains("install"), "{text}");
    }
}
