//! The Python package: its tests, run over what the workspace's build made, and its wheel.

use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::run::{cargo, output, program, root, show, show_lines};
use crate::tally::Tally;

/// Where the package is, from the root.
const PACKAGE: &str = "crates/framelane-python";
/// What its tests import beside it. JAX gives arrays of another library on the CPU.
const TOOLS: &[&str] = &["pytest", "mypy", "numpy", "jax"];
/// Loaders that feeds are tested over. What a machine's Python cannot have is skipped by its tests.
const LOADERS: &[&str] = &["webdataset", "grain"];

/// `cargo xtask python`: the tests alone.
pub fn command() -> Outcome {
    let mut tally = Tally::default();
    let outcome = test(&mut tally, true);
    tally.skipped.iter().for_each(|skip| println!("skipped {skip}"));
    println!("{}", tally.closing_line());
    outcome
}

/// Build the native module, put the package together in the target folder, check its types and run its tests.
pub fn test(tally: &mut Tally, install: bool) -> Outcome {
    let python = match tools(TOOLS, install) {
        Ok(python) => python,
        Err(reason) => {
            tally.skipped.push(format!("framelane-python: {reason}"));
            return Ok(());
        }
    };
    if install {
        for loader in LOADERS {
            if let Err(reason) = tools(&[loader], true) {
                println!("{loader} is not tested: {reason}");
            }
        }
    }
    // With the features of the workspace, so that nothing is built that the tests have not built already.
    show(&mut cargo("build --workspace --locked"))?;
    let site = put_together()?;
    let stubs = root().join(PACKAGE).join("python");
    let types = ["-m", "mypy", "--strict", "--python-version", "3.10", "--no-error-summary"];
    show(
        program(&python)
            .args(types)
            .arg("--cache-dir")
            .arg(root().join("target/mypy"))
            .arg(stubs.join("framelane"))
            .arg(root().join("examples/python")),
    )?;
    let mut tests = program(&python);
    tests.args(["-m", "pytest", "-q", "-rs", "--color=no", "-p", "no:cacheprovider"]);
    tests
        .arg(root().join(PACKAGE).join("tests"))
        .env("PYTHONPATH", &site)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let before = tally.failed;
    let outcome = show_lines(&mut tests, |line| count(line, tally));
    if outcome.is_err() && tally.failed == before {
        tally.failed += 1;
    }
    outcome
}

/// `cargo xtask wheel`: the wheel, into `folder`.
pub fn wheel(folder: Option<&str>) -> Outcome {
    let python = tools(&["maturin"], true)?;
    let folder = folder.map_or_else(|| root().join("target/wheels"), PathBuf::from);
    let mut build = program(&python);
    build.args(["-m", "maturin", "build", "--profile", "wheel", "--locked", "--out"]).arg(&folder);
    show(build.arg("--manifest-path").arg(root().join(PACKAGE).join("Cargo.toml")))?;
    println!("the wheel is in {}", folder.display());
    Ok(())
}

/// A Python of its own that has these packages.
fn tools(packages: &[&str], install: bool) -> Result<PathBuf, String> {
    let venv = root().join("target/xtask-venv");
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let has = |python: &Path| {
        let imports = packages.join(", ");
        output(program(python).args(["-c", &format!("import {imports}")])).map(|_| ())
    };
    if has(&python).is_ok() {
        return Ok(python);
    }
    if !install {
        return Err(format!(
            "Python's packages {} are not all installed, and --no-install was asked for",
            packages.join(", ")
        ));
    }
    let system = if cfg!(windows) { "python" } else { "python3" };
    if !python.exists() {
        output(program(system).args(["-m", "venv"]).arg(&venv))?;
    }
    let pip =
        ["-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20", "--only-binary", ":all:"];
    output(program(&python).args(pip).args(packages))?;
    has(&python).map(|()| python)
}

/// The package as it would be installed, in the target folder: what is Python's, and the module that was built.
fn put_together() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let (site, sources) = (target.join("python"), root().join(PACKAGE).join("python/framelane"));
    let package = site.join("framelane");
    let failed = |e: std::io::Error| format!("{} cannot be written: {e}", package.display());
    std::fs::create_dir_all(&package).map_err(failed)?;
    for entry in std::fs::read_dir(&sources).map_err(|e| format!("{}: {e}", sources.display()))? {
        let path = entry.map_err(failed)?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            std::fs::copy(&path, package.join(name)).map_err(failed)?;
        }
    }
    let (built, module) = match std::env::consts::OS {
        "windows" => ("_native.dll", "_native.pyd"),
        "macos" => ("lib_native.dylib", "_native.abi3.so"),
        _ => ("lib_native.so", "_native.abi3.so"),
    };
    // Not over one that a program has loaded.
    let _ = std::fs::remove_file(package.join(module));
    std::fs::copy(target.join("debug").join(built), package.join(module)).map_err(failed)?;
    Ok(site)
}

/// pytest's lines: `SKIPPED [1] tests/test_x.py:3: reason`, and at the end `12 passed, 1 failed in 3.4s`.
fn count(line: &str, tally: &mut Tally) {
    if let Some(skip) = line.strip_prefix("SKIPPED [")
        && let Some((times, reason)) = skip.split_once("] ")
    {
        let times = times.parse().unwrap_or(1);
        tally.skipped.extend(std::iter::repeat_n(format!("framelane-python: {reason}"), times));
        return;
    }
    let Some((counts, _)) = line.rsplit_once(" in ").filter(|(_, time)| time.ends_with('s')) else { return };
    for count in counts.split(", ") {
        match count.trim_matches(['=', ' ']).split_once(' ') {
            Some((n, "passed")) => tally.passed += n.parse::<usize>().unwrap_or(0),
            Some((n, "failed" | "error" | "errors")) => tally.failed += n.parse::<usize>().unwrap_or(0),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pytests_lines_are_counted() {
        let mut tally = Tally::default();
        for line in [
            "........s.F                  [100%]",
            "SKIPPED [2] crates/framelane-python/tests/test_cuda.py:3: no CUDA device is here",
            "FAILED tests/test_x.py::test_y - AssertionError: 1 failed in 2s of them",
            "1 failed, 8 passed, 2 skipped in 3.41s",
        ] {
            count(line, &mut tally);
        }
        assert_eq!(tally.closing_line(), "8 passed, 1 failed, 2 skipped");
    }
}
