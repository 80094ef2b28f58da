//! The test's side: starts the child, asks it, waits for what should become true.

use crate::xvfb::{Client, Shot, Xvfb};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Long enough for a busy machine; nothing waits this long unless it fails.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Between two questions.
const TICK: Duration = Duration::from_millis(10);

pub struct Program {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Heard while something else was waited for.
    kept: Vec<String>,
}

/// Answers by name.
pub type Status = HashMap<String, String>;

impl Program {
    /// Start the child on `display` in the folder `at`.
    pub fn start(display: Option<&str>, at: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.arg("--child").args(args).current_dir(at);
        command.env_remove("WAYLAND_DISPLAY").env_remove("WAYLAND_SOCKET").env_remove("DISPLAY");
        if let Some(display) = display {
            command.env("DISPLAY", display);
        }
        // Mesa's Vulkan layer looks for Wayland there, and complains on the terminal if it is not set.
        command.env("XDG_RUNTIME_DIR", at);
        command.envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the child starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .take_while(|line| tell.send(line.clone()).is_ok())
                .for_each(drop);
        });
        Self { child, input, lines, kept: Vec::new() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the child listens");
    }

    /// The rest of the oldest line that begins with `word` and was not heard before.
    pub fn hear(&mut self, word: &str) -> String {
        self.hear_within(word, DEADLINE).unwrap_or_else(|| panic!("the child never said {word:?}"))
    }

    pub fn hear_within(&mut self, word: &str, time: Duration) -> Option<String> {
        if let Some(at) = self.kept.iter().position(|line| line.starts_with(word)) {
            return Some(self.kept.remove(at)[word.len()..].trim().to_owned());
        }
        let deadline = Instant::now() + time;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        return Some(rest.trim().to_owned());
                    }
                    self.kept.push(line);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    pub fn status(&mut self) -> Status {
        self.say("status");
        let line = self.hear("status");
        pairs(&line)
    }

    /// Ask until `holds`.
    pub fn wait(&mut self, what: &str, mut holds: impl FnMut(&Status) -> bool) -> Status {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{what}: still {status:?}");
            std::thread::sleep(TICK);
        }
    }

    /// Ask until `key` is `value`.
    pub fn wait_for(&mut self, key: &str, value: &str) -> Status {
        self.wait(&format!("{key} should be {value}"), |status| status[key] == value)
    }

    /// Push frame `n` and hear what became of it.
    pub fn frame(&mut self, n: u64) -> String {
        self.say(&format!("frame {n}"));
        self.hear(&format!("frame {n}"))
    }

    /// The child's end; it must come by itself.
    pub fn exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                return status;
            }
            assert!(Instant::now() < deadline, "the child does not end");
            std::thread::sleep(TICK);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn pairs(line: &str) -> Status {
    line.split(' ')
        .filter_map(|pair| pair.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

/// A server, a client, and the child with its window on the screen and the first frame in it.
pub struct Stage {
    pub program: Program,
    pub client: Client,
    pub window: u32,
    pub folder: tempfile::TempDir,
    // Last: the others talk to it while they are dropped.
    pub server: Xvfb,
}

impl Stage {
    pub fn set(args: &[&str], first: &str) -> Self {
        Self::set_with(args, first, &[])
    }

    pub fn set_with(args: &[&str], first: &str, env: &[(&str, &str)]) -> Self {
        let server = Xvfb::start().expect("it started before");
        let folder = tempfile::tempdir().expect("a folder");
        let mut program = Program::start(Some(&server.display), folder.path(), args, env);
        program.say(first);
        program.wait("the first frame should be shown", |status| status["shown"] != "0");
        let client = server.client();
        let window = until("the window should be found", || client.find());
        client.focus(window);
        Self { program, client, window, folder, server }
    }

    /// Switch the line of numbers off: it changes with time.
    pub fn without_numbers(mut self) -> Self {
        self.client.key('i');
        self.program.wait_for("info", "false");
        self
    }

    /// Look at the window until it looks as it should.
    pub fn see(&self, what: &str, looks_right: impl Fn(&Shot) -> Result<(), String>) -> Shot {
        if std::env::var_os("UPDATE_REFERENCES").is_some() {
            // There is nothing to compare with yet, so nothing says when the picture is complete.
            std::thread::sleep(Duration::from_secs(1));
        }
        let deadline = Instant::now() + DEADLINE;
        loop {
            let shot = self.client.shot(self.window);
            let wrong = match &shot {
                None => Err("it cannot be seen".to_owned()),
                Some(shot) => looks_right(shot),
            };
            match (wrong, shot) {
                (Ok(()), Some(shot)) => return shot,
                (wrong, shot) if Instant::now() >= deadline => {
                    let kept = shot.map(|shot| keep(what, &shot));
                    panic!("{what}: {} ({kept:?})", wrong.unwrap_err());
                }
                _ => std::thread::sleep(TICK),
            }
        }
    }
}

/// Call until there is something.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(TICK);
    }
}

/// Leave a picture of what was wrong beside the other build results.
fn keep(what: &str, shot: &Shot) -> String {
    let name = what.replace(|c: char| !c.is_alphanumeric(), "-");
    let path = format!("{}/{name}.png", env!("CARGO_TARGET_TMPDIR"));
    match image::save_buffer(&path, &shot.rgb, shot.width as u32, shot.height as u32, image::ColorType::Rgb8)
    {
        Ok(()) => path,
        Err(e) => e.to_string(),
    }
}

/// Compare with a picture in `tests/reference`; with `UPDATE_REFERENCES` set, write it instead.
///
/// Text and lines are antialiased, and drivers round differently: no channel may be off by more than
/// 48, and not more than 0.5 % of them by more than 3.
pub fn like_reference(name: &str, shot: &Shot) -> Result<(), String> {
    // Where the package is now, as cargo says when it runs tests, or where it was compiled.
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    let path = format!("{package}/tests/reference/{name}.png");
    if std::env::var_os("UPDATE_REFERENCES").is_some() {
        image::save_buffer(&path, &shot.rgb, shot.width as u32, shot.height as u32, image::ColorType::Rgb8)
            .map_err(|e| e.to_string())?;
    }
    let reference = image::open(&path).map_err(|e| format!("{path}: {e}"))?.into_rgb8();
    if (reference.width() as usize, reference.height() as usize) != (shot.width, shot.height) {
        return Err(format!("{name}: the size differs"));
    }
    let off: Vec<u8> = reference.as_raw().iter().zip(&shot.rgb).map(|(a, b)| a.abs_diff(*b)).collect();
    let worst = off.iter().copied().max().unwrap_or(0);
    let share = off.iter().filter(|&&d| d > 3).count() as f64 / off.len() as f64;
    if worst > 48 || share > 0.005 {
        return Err(format!("{name}: {:.2} % of the channels differ, by {worst} at most", share * 100.0));
    }
    Ok(())
}
