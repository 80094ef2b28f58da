//! Running other programs from the root of the repository.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// The root of the repository.
pub fn root() -> PathBuf {
    // cargo names the manifest at run time too, so that a moved checkout is found where it is now.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask lies in a folder of the repository").to_path_buf()
}

/// A program to be started in the root of the repository, with nothing to read on its standard input.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs this program, with `words` (split at spaces) as its arguments.
pub fn cargo(words: &str) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(words.split_whitespace());
    command
}

/// Prints the command, runs it to its end and turns a failure into a sentence.
pub fn show(command: &mut Command) -> Outcome {
    println!("$ {}", line(command));
    let status = command.status().map_err(|e| cannot_start(command, &e))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", line(command))) }
}

/// Like [`show`], and hands each line of standard output to `each` after echoing it.
pub fn show_lines(command: &mut Command, mut each: impl FnMut(&str)) -> Outcome {
    println!("$ {}", line(command));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| cannot_start(command, &e))?;
    let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped"));
    let mut bytes = Vec::new();
    while lines.read_until(b'\n', &mut bytes).map_err(|e| format!("{}: {e}", line(command)))? > 0 {
        let text = String::from_utf8_lossy(&bytes);
        print!("{text}");
        each(text.trim_end());
        bytes.clear();
    }
    let status = child.wait().map_err(|e| format!("{}: {e}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", line(command))) }
}

/// Standard output of a command that succeeds; its standard error otherwise, as the sentence.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|e| cannot_start(command, &e))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{}` failed ({}): {}", line(command), output.status, said.trim()))
    }
}

/// Whether a command can be started and succeeds; what it prints is hidden.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("`{}` cannot be started: {error}", command.get_program().to_string_lossy())
}

/// The command as a person would type it.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
