//! The framelane program: glue between the sources, networks and displays of the library crates.
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
use std::process::ExitCode;

fn main() -> ExitCode {
    console::install();
    let outcome = match Args::parse().command {
        Command::Play(args) => play::run(&args),
        #[cfg(unix)]
        Command::Window(args) => window::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Doctor => doctor::run(),
    };
    exit::code(outcome)
}
