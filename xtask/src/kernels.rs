//! `cargo xtask kernels [--check]`: make `kernels/*.ptx` from `kernels/*.cu`, or check that they are what would
//! be made.
//!
//! The compiler is NVRTC, from its package on PyPI; no CUDA toolkit and no GPU are needed. Its version is
//! pinned: it decides the version of the PTX language, and drivers refuse PTX newer than themselves. CUDA 12.0
//! writes PTX 8.0, which every driver this project accepts compiles. Compute capability 5.2 is the oldest whose
//! PTX loads on every GPU that those drivers serve.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12";
const VERSION: &str = "12.0.140";
const ARCHITECTURE: &str = "compute_52";
const SCRIPT: &str = include_str!("nvrtc.py");

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub fn command(check: bool) -> crate::Outcome {
    run(&crate::run::root(), check).map_err(|e| e.to_string())
}

/// Make the PTX of all kernels under `root`; with `check`, write nothing and fail if any differs.
///
/// # Errors
/// Python 3 with pip is missing, the package cannot be had, a kernel does not compile, or (`check`) the PTX in
/// the tree is not what would be made.
fn run(root: &Path, check: bool) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("kernels are made on x86-64 Linux, where NVRTC's package is the pinned one".into());
    }
    let folder = root.join("crates/framelane-cuda/kernels");
    let work = root.join("target/nvrtc");
    fs::create_dir_all(&work)?;
    let library = library(&work)?;
    let script = work.join("nvrtc.py");
    fs::write(&script, SCRIPT)?;
    let mut sources: Vec<PathBuf> = fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "cu"))
        .collect();
    sources.sort();
    let mut command = Command::new("python3");
    command.arg(&script).arg(&library).arg(ARCHITECTURE);
    let mut made = Vec::new();
    for source in &sources {
        let name = source.with_extension("ptx");
        let fresh = work.join(name.file_name().ok_or("a kernel has no name")?);
        command.arg(source).arg(&fresh);
        made.push((name, fresh));
    }
    succeed(&mut command)?;
    let mut stale = Vec::new();
    for (committed, fresh) in &made {
        let fresh = fs::read(fresh)?;
        let same = fs::read(committed).is_ok_and(|old| old == fresh);
        let shown = committed.strip_prefix(root).unwrap_or(committed).display();
        match (same, check) {
            (true, _) => println!("{shown}: as committed"),
            (false, true) => stale.push(shown.to_string()),
            (false, false) => {
                fs::write(committed, fresh)?;
                println!("{shown}: made again");
            }
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("{} differ from their sources: run `cargo xtask kernels` and commit", stale.join(", "))
        .into())
}

/// NVRTC's library, fetched once.
fn library(work: &Path) -> Result<PathBuf> {
    let target = work.join(VERSION);
    let library = target.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    if !library.exists() {
        succeed(
            Command::new("python3")
                .args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-compile"])
                .arg("--target")
                .arg(&target)
                .arg(format!("{PACKAGE}=={VERSION}")),
        )?;
    }
    Ok(library)
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|e| format!("{program} cannot be started: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}
