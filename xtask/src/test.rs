//! `cargo xtask test`: set-up, then every test there is, then one line that counts them.

use std::path::PathBuf;

use crate::run::{cargo, root, show_lines};
use crate::tally::{Steps, Tally, skip_report};
use crate::{Outcome, fuzz, python, setup};

/// How long each fuzz target runs as a part of the tests.
const FUZZ_SECONDS: u32 = 5;

pub fn command(install: bool) -> Outcome {
    let (mut steps, mut tally) = (Steps::new(), Tally::default());
    run(&mut steps, &mut tally, install);
    steps.finish(&tally)
}

/// Runs everything, whatever fails on the way.
pub fn run(steps: &mut Steps, tally: &mut Tally, install: bool) {
    let target = root().join("target");
    let mut found = None;
    steps.run("setup", || {
        found = Some(setup::run(install));
        Ok(())
    });
    let library = found.and_then(|f| f.onnxruntime.ok());
    steps.run("tests", || workspace_tests(tally, &target, library));
    steps.run("Python package", || python::test(tally, install));
    steps.run("model checks (loom)", || {
        // A folder of its own: `--cfg loom` changes the library under test. No LTO: it would gain nothing.
        let mut command = cargo("test --package framelane --locked --release --target-dir");
        command
            .arg(target.join("loom"))
            .args(["--test", "loom_ring", "--test", "loom_share"])
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_PROFILE_RELEASE_LTO", "off");
        counted(&mut command, tally)
    });
    steps.run("fuzz targets, a short run", || fuzz::run(FUZZ_SECONDS, tally));
}

fn workspace_tests(tally: &mut Tally, target: &std::path::Path, onnxruntime: Option<PathBuf>) -> Outcome {
    let report = skip_report(target)?;
    let mut command = cargo("test --workspace --locked --no-fail-fast");
    command.env("FRAMELANE_SKIPPED", &report);
    if let Some(library) = onnxruntime {
        command.env("FRAMELANE_TEST_ORT_DYLIB", library);
    }
    let outcome = counted(&mut command, tally);
    tally.take_reported_skips(&std::fs::read_to_string(&report).map_err(|e| e.to_string())?);
    outcome
}

/// Runs tests and counts them. A run that fails without a failed test (it did not build, or it crashed)
/// counts as one failure.
fn counted(command: &mut std::process::Command, tally: &mut Tally) -> Outcome {
    let before = tally.failed;
    let outcome = show_lines(command, |line| tally.count(line));
    tally.count_single_lines();
    if outcome.is_err() && tally.failed == before {
        tally.failed += 1;
    }
    outcome
}
