//! This test again, in processes that play other roles.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

pub const LIMIT: Duration = Duration::from_secs(60);

/// A name for this test's window alone.
pub fn window_name(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}

/// A process that does not outlive this.
pub struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Lines that came while others were looked for.
    heard: Vec<String>,
}

impl Process {
    /// Run the ignored test `role`, with the name of a window and what it is to do.
    pub fn start(role: &str, window: &str, task: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
            .env("FRAMELANE_TEST_WINDOW", window)
            .env("FRAMELANE_TEST_TASK", task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    // Nobody listens once the process is gone.
                    let _ = tell.send(line.to_owned());
                }
            }
        });
        Self { child, input, lines, heard: Vec::new() }
    }

    /// What it says about `what`, within the limit.
    #[track_caller]
    pub fn said(&mut self, what: &str) -> String {
        let prefix = format!("{what}: ");
        loop {
            if let Some(at) = self.heard.iter().position(|line| line.starts_with(&prefix)) {
                return self.heard.remove(at)[prefix.len()..].to_owned();
            }
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => self.heard.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("it does not say {what:?}: {:?}", self.heard),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without {what:?}: {:?}", self.heard),
            }
        }
    }

    /// Whether it has said anything about `what` so far.
    pub fn has_said(&mut self, what: &str) -> bool {
        self.heard.extend(self.lines.try_iter());
        self.heard.iter().any(|line| line.starts_with(what))
    }

    /// It may go on from where it waits ([`wait_for_word`]).
    pub fn go_on(&mut self) {
        self.input.write_all(b"go on\n").unwrap();
    }

    /// SIGKILL, in the middle of whatever it does; it is not waited for.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// It ends by itself, and its test has passed.
    #[track_caller]
    pub fn ends_well(mut self) {
        assert!(self.child.wait().unwrap().success(), "{:?}", self.heard);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Before what is said to whoever started this: the harness prints, too.
const MARK: &str = "said ";

/// In such a process: the window's name, and what to do.
pub fn role() -> (String, String) {
    let var = |name| std::env::var(name).expect("run by the tests here");
    (var("FRAMELANE_TEST_WINDOW"), var("FRAMELANE_TEST_TASK"))
}

/// In such a process: tell whoever started it.
pub fn say(what: &str, value: impl std::fmt::Display) {
    // The harness may have begun a line.
    println!("\n{MARK}{what}: {value}");
}

/// In such a process: wait for [`Process::go_on`].
pub fn wait_for_word() {
    let mut line = String::new();
    assert!(std::io::stdin().read_line(&mut line).unwrap() > 0, "whoever started this is gone");
}
