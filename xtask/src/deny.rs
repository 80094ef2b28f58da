//! `cargo xtask deny`: licences and origins of all dependencies, by cargo-deny and `deny.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::run::{cargo, output, program, root, show};

/// The version that is installed where there is none; older ones do not read this `deny.toml`.
const VERSION: &str = "0.20.2";

pub fn command() -> Outcome {
    let tool = tool()?;
    println!("$ cargo deny check licenses bans sources");
    let mut check = deny(&tool);
    check.args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    let checked = check.output().map_err(|e| format!("cargo-deny cannot be started: {e}"))?;
    let said = String::from_utf8_lossy(&checked.stderr);
    if !checked.status.success() {
        return Err(format!("cargo-deny found\n{said}"));
    }
    let twice = said.lines().filter(|l| l.starts_with("warning[duplicate]")).count();
    println!("{twice} crates come in more than one version (`cargo deny check bans` lists them)");
    println!("{}", String::from_utf8_lossy(&checked.stdout).trim());
    println!("{}", said.lines().last().unwrap_or_default());
    advisories(&tool)
}

/// Known weaknesses are looked up where the database can be reached, and only there: its servers being away
/// says nothing about the change at hand.
fn advisories(tool: &Path) -> Outcome {
    if let Err(reason) = output(deny(tool).args(["fetch", "db"])) {
        let reason = reason.lines().find(|l| l.contains("fatal")).unwrap_or("it could not be fetched");
        println!("skipped: known weaknesses (the advisory database cannot be had: {})", reason.trim());
        return Ok(());
    }
    show(deny(tool).args(["check", "--disable-fetch", "advisories"]))
}

fn deny(tool: &Path) -> Command {
    let mut command = program(tool);
    // Never a question for a password when the database is fetched.
    command.env("GIT_TERMINAL_PROMPT", "0").args(["--locked"]);
    command
}

/// The user's cargo-deny if it is recent enough; else one built once: under `target/tools`, or in CI, where
/// every run has a fresh checkout, where cargo keeps its programs.
fn tool() -> Result<PathBuf, String> {
    let tools = root().join("target/tools");
    let ours = tools.join("bin/cargo-deny");
    for candidate in [Path::new("cargo-deny"), &ours] {
        if output(program(candidate).arg("--version")).is_ok_and(|said| recent_enough(&said)) {
            return Ok(candidate.to_path_buf());
        }
    }
    // Unoptimised: that builds in half the time, and checking takes seconds all the same.
    let mut install = cargo("install cargo-deny --locked --force --debug --quiet --version");
    install.arg(VERSION).args(["--config", "profile.dev.debug=false"]);
    if std::env::var_os("CI").is_some() {
        show(&mut install)?;
        return Ok("cargo-deny".into());
    }
    println!("cargo-deny {VERSION} is built once, into target/tools");
    show(install.arg("--root").arg(&tools))?;
    Ok(ours)
}

fn recent_enough(said: &str) -> bool {
    let numbers = |version: &str| -> Vec<u32> { version.split('.').map_while(|n| n.parse().ok()).collect() };
    let version = said.trim().strip_prefix("cargo-deny ").map(numbers).unwrap_or_default();
    version.len() == 3 && version >= numbers(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recent_versions_are_used() {
        assert!(recent_enough("cargo-deny 0.20.2\n"));
        assert!(recent_enough("cargo-deny 1.0.0"));
        assert!(!recent_enough("cargo-deny 0.14.2"));
        assert!(!recent_enough("something else"));
    }
}
