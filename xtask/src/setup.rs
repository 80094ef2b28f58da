//! What the tests need beyond Rust: system packages on Debian and Ubuntu, and ONNX Runtime from PyPI.
//!
//! Nothing here is needed to build or run framelane, and nothing here fails a test run: what cannot be had
//! is named, with the tests that are skipped without it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::run::{output, program, root, show, succeeds};

/// A need of some tests, and how a Debian system fills it.
struct Need {
    what: &'static str,
    packages: &'static [&'static str],
    skipped: &'static str,
}

const NEEDS: &[Need] = &[
    Need { what: "a virtual screen (Xvfb)", packages: &["xvfb"], skipped: "tests of the window" },
    Need {
        what: "the X11 libraries that a window loads",
        packages: &[
            "libx11-6",
            "libx11-xcb1",
            "libxcb1",
            "libxcursor1",
            "libxi6",
            "libxrandr2",
            "libxkbcommon-x11-0",
        ],
        skipped: "tests of the window",
    },
    Need {
        what: "a Vulkan adapter in software (Mesa)",
        packages: &["libvulkan1", "mesa-vulkan-drivers"],
        skipped: "tests that draw, where there is no graphics card",
    },
    Need {
        what: "OpenGL in software (Mesa), by EGL and GLX",
        packages: &["libegl1", "libgl1"],
        skipped: "tests of pictures in OpenGL's textures",
    },
    Need {
        what: "a Wayland compositor (weston)",
        packages: &["weston"],
        skipped: "the test of the window on Wayland",
    },
    Need {
        what: "the ffmpeg program",
        packages: &["ffmpeg"],
        skipped: "tests of inputs that framelane reads through ffmpeg, and of its files in other readers",
    },
];

/// What setup found: handed to the tests.
pub struct Found {
    /// The library of ONNX Runtime, or why there is none.
    pub onnxruntime: Result<PathBuf, String>,
}

/// `cargo xtask setup`.
pub fn command(install: bool) -> Outcome {
    run(install);
    Ok(())
}

/// Installs what is missing and may be installed, and says what stays missing.
pub fn run(install: bool) -> Found {
    if cfg!(target_os = "linux") {
        system_packages(install);
    } else {
        println!(
            "setup: the tests of the window and of ffmpeg use what this system has; see CONTRIBUTING.md"
        );
    }
    let onnxruntime = onnxruntime(&root().join("target/xtask-venv"), install);
    match &onnxruntime {
        Ok(library) => println!("setup: ONNX Runtime is {}", library.display()),
        Err(reason) => println!("setup: no ONNX Runtime ({reason}); its tests are skipped"),
    }
    Found { onnxruntime }
}

fn system_packages(install: bool) {
    if !succeeds(program("dpkg-query").arg("--version")) {
        println!("setup: not a Debian or Ubuntu system, so nothing is installed. Tests need:");
        for need in NEEDS {
            println!("  {} (without it: no {})", need.what, need.skipped);
        }
        return;
    }
    let packages: Vec<&str> = NEEDS.iter().flat_map(|n| n.packages).copied().collect();
    let absent = missing(&packages);
    if absent.is_empty() {
        println!("setup: every system package is there");
        return;
    }
    let outcome = match privilege() {
        _ if !install => Err("--no-install was asked for".to_owned()),
        None => Err("this user is not root and sudo asks for a password".to_owned()),
        Some(sudo) => apt_install(sudo, &absent),
    };
    let Err(reason) = outcome else {
        println!("setup: installed {}", absent.join(" "));
        return;
    };
    println!("setup: not installed: {reason}. To install by hand: apt-get install {}", absent.join(" "));
    for need in NEEDS {
        if need.packages.iter().any(|p| absent.contains(p)) {
            println!("setup: missing {}; skipped: {}", need.what, need.skipped);
        }
    }
}

/// Those of `packages` that dpkg does not know as installed.
fn missing<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    // dpkg-query fails if any package is unknown, and prints the known ones all the same.
    let mut query = program("dpkg-query");
    query.args(["--show", "--showformat=${Package} ${db:Status-Status}\n"]).args(packages);
    let listing = query.output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    absent(packages, &listing)
}

fn absent<'a>(packages: &[&'a str], listing: &str) -> Vec<&'a str> {
    let installed = |p: &&str| listing.lines().any(|line| line.split(' ').eq([*p, "installed"]));
    packages.iter().copied().filter(|p| !installed(p)).collect()
}

/// How to become root without being asked: as it is, or with `sudo -n`.
fn privilege() -> Option<&'static [&'static str]> {
    if output(program("id").arg("-u")).is_ok_and(|id| id.trim() == "0") {
        Some(&[])
    } else if succeeds(program("sudo").args(["-n", "true"])) {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

fn apt_install(sudo: &[&str], packages: &[&str]) -> Outcome {
    // The lists may be old but enough; an unreachable mirror shows at the installation.
    if let Err(sentence) = show(&mut apt_get(sudo, &["update"])) {
        println!("setup: {sentence}");
    }
    show(apt_get(sudo, &["install", "--yes", "--no-install-recommends"]).args(packages))
}

fn apt_get(sudo: &[&str], words: &[&str]) -> Command {
    let start = [sudo, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]].concat();
    let mut command = program(start[0]);
    command.args(&start[1..]).arg("--quiet=2").args(["-o", "DPkg::Lock::Timeout=120"]);
    command.args(["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"]).args(words);
    command
}

/// The library inside Python's onnxruntime package: the one installed, or one put into `venv`.
fn onnxruntime(venv: &Path, install: bool) -> Result<PathBuf, String> {
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let system = if cfg!(windows) { Path::new("python") } else { Path::new("python3") };
    if let Ok(library) = packaged_library(&python).or_else(|_| packaged_library(system)) {
        return Ok(library);
    }
    if !install {
        return Err("Python's onnxruntime package is not installed, and --no-install was asked for".into());
    }
    println!("setup: installing Python's onnxruntime package into {}", venv.display());
    output(program(system).args(["-m", "venv"]).arg(venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20"];
    output(program(&python).args(pip).args(["--only-binary", ":all:", "onnxruntime", "numpy"]))?;
    packaged_library(&python)
}

/// Asks a Python where its onnxruntime keeps the library, without loading it.
fn packaged_library(python: &Path) -> Result<PathBuf, String> {
    let script = "import importlib.util as u, pathlib as p\n\
                  print(p.Path(u.find_spec('onnxruntime').origin).parent / 'capi')";
    let folder = output(program(python).args(["-c", script]))?;
    let folder = Path::new(folder.trim());
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut libraries: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|n| is_library(&n.to_string_lossy())))
        .collect();
    libraries.sort();
    libraries.pop().ok_or_else(|| format!("{} holds no library of ONNX Runtime", folder.display()))
}

fn is_library(name: &str) -> bool {
    name == "onnxruntime.dll"
        || name.starts_with("libonnxruntime.so")
        || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_there_only_when_dpkg_says_installed() {
        let listing = "xvfb installed\nffmpeg config-files\nlibx11-6-dev installed\n";
        assert_eq!(absent(&["xvfb", "ffmpeg", "libx11-6"], listing), ["ffmpeg", "libx11-6"]);
    }

    #[test]
    fn the_library_is_told_from_its_neighbours() {
        assert!(is_library("libonnxruntime.so.1.20.1"));
        assert!(is_library("libonnxruntime.1.20.1.dylib"));
        assert!(!is_library("libonnxruntime_providers_shared.so"));
        assert!(!is_library("onnxruntime_pybind11_state.so"));
    }
}
