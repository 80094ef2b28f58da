//! `cargo xtask fuzz`: libFuzzer over the parsers, on stable Rust and without cargo-fuzz.

use std::path::Path;

use serde_json::Value;

use crate::Outcome;
use crate::run::{cargo, output, program, root, show, succeeds};
use crate::tally::{Steps, Tally};

/// Coverage counters as libFuzzer reads them, from options that stable Rust has. Address sanitizing is not
/// among those; it would see little, as the parsers have no `unsafe`.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// `cargo xtask fuzz`.
pub fn command(seconds: u32) -> Outcome {
    let (mut steps, mut tally) = (Steps::new(), Tally::default());
    steps.run("fuzz targets", || run(seconds, &mut tally));
    steps.finish(&tally)
}

/// Runs each target for some seconds from its seeds and from what earlier runs found. Each counts as a test.
pub fn run(seconds: u32, tally: &mut Tally) -> Outcome {
    if let Some(reason) = unfit() {
        println!("skipped: fuzz targets: {reason}");
        tally.skipped.push(format!("fuzz targets: {reason}"));
        return Ok(());
    }
    let targets = targets().inspect_err(|_| tally.failed += 1)?;
    let triple = host_triple()?;
    let built = root().join("target/fuzz");
    // For a named target, so that build scripts and macros are not instrumented, too.
    let mut build = cargo("build --manifest-path fuzz/Cargo.toml --locked --release --bins --target");
    build.arg(&triple).arg("--target-dir").arg(&built).env("RUSTFLAGS", COVERAGE);
    // Lightly optimised: short runs spend most of their time on the build.
    build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    show(&mut build).inspect_err(|_| tally.failed += 1)?;
    let mut broken = Vec::new();
    for target in &targets {
        match fuzz_one(&built.join(&triple).join("release").join(target), target, seconds) {
            Ok(runs) => {
                println!("fuzz {target}: {runs}");
                tally.passed += 1;
            }
            Err(sentence) => {
                println!("fuzz {target}: {sentence}");
                tally.failed += 1;
                broken.push(target.as_str());
            }
        }
    }
    match broken.as_slice() {
        [] => Ok(()),
        names => Err(format!(
            "inputs that break {} are in fuzz/artifacts; run the target on one",
            names.join(", ")
        )),
    }
}

/// Why this machine cannot fuzz, if so.
fn unfit() -> Option<&'static str> {
    if !cfg!(all(unix, target_pointer_width = "64")) {
        Some("libFuzzer is run on 64-bit Unix only")
    } else if !succeeds(program("c++").arg("--version")) {
        Some("building libFuzzer needs a C++ compiler named c++ (on Debian: apt-get install g++)")
    } else {
        None
    }
}

fn targets() -> Result<Vec<String>, String> {
    let metadata =
        output(&mut cargo("metadata --manifest-path fuzz/Cargo.toml --no-deps --format-version 1"))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let bins = metadata["packages"][0]["targets"].as_array().into_iter().flatten();
    let names: Vec<String> = bins
        .filter(|t| t["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "bin")))
        .filter_map(|t| Some(t["name"].as_str()?.to_owned()))
        .collect();
    if names.is_empty() { Err("fuzz/Cargo.toml names no target".into()) } else { Ok(names) }
}

fn host_triple() -> Result<String, String> {
    let said = output(program("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` names no host".into())
}

/// What libFuzzer says at the end of a run that found nothing.
fn fuzz_one(binary: &Path, target: &str, seconds: u32) -> Result<String, String> {
    let fuzz = root().join("fuzz");
    // libFuzzer writes its finds into the first folder, and only reads the second.
    let (corpus, artifacts) = (fuzz.join("corpus").join(target), fuzz.join("artifacts").join(target));
    let seeds = fuzz.join("seeds").join(target);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    if !seeds.is_dir() {
        return Err(format!("it has no seeds; put a few small inputs into fuzz/seeds/{target}"));
    }
    let mut command = program(binary);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    // The panic's own line says more than the frames below it.
    command
        .env("RUST_BACKTRACE", "0")
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .arg(&corpus)
        .arg(&seeds);
    let run = command.output().map_err(|e| format!("{}: {e}", binary.display()))?;
    let said = String::from_utf8_lossy(&run.stderr);
    if !run.status.success() {
        let last: Vec<&str> = said.lines().rev().take(40).collect();
        return Err(format!("FAILED\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n")));
    }
    let done = said.lines().rev().find(|line| line.starts_with("Done "));
    done.map(str::to_owned).ok_or_else(|| "libFuzzer ended without its closing line".into())
}
