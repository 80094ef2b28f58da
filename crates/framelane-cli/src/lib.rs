//! The framelane program, as a library, so that others can bring it along: glue between the sources, networks and displays of the library crates.
//!
//! Reading order: `args` (what can be typed) → `play` (the main job) → `report` (what it tells at the end) →
//! `window`, `inspect`, `doctor`. Around them: `console` (the terminal), `progress`, `signals`, `exit`.

#![forbid(unsafe_code)]

mod args;
mod console;
mod doctor;
mod exit;
mod inspect;
mod play;
mod progress;
mod report;
mod signals;
#[cfg(unix)]
mod window;

use args::{Args, Command};
use clap::Parser;
use std::ffi::OsString;

/// Run the program with these arguments, of which the first is its name; its exit code. Blocks to its end; SIGINT and
/// SIGTERM are the program's from then on.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    console::install();
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(said) => {
            // Also what was asked for by `--help`. A closed pipe hears nothing.
            let _ = said.print();
            return u8::try_from(said.exit_code()).unwrap_or(2);
        }
    };
    exit::code(match args.command {
        Command::Play(args) => play::run(&args),
        #[cfg(unix)]
        Command::Window(args) => window::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Doctor => doctor::run(),
    })
}

/// What `framelane doctor` prints: what this machine offers, and what would make it better. `window` is the answer of
/// [`framelane_show::available`], asked on the thread that shows the process's windows.
pub fn doctor(window: framelane::Result<String>) -> String {
    doctor::report(window)
}
