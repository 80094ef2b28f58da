//! Finding ONNX Runtime on this machine, and loading it once for the process.

use crate::tract_engine::one_line;
use ort::environment::Environment;
use ort::logging::LogLevel;
use std::env;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

/// The oldest ONNX Runtime that is used: 1.17.
const OLDEST_MINOR: u32 = 17;

/// A Python that takes longer to say where a package lies is not waited for.
const PYTHON_TIMEOUT: Duration = Duration::from_secs(5);

/// ONNX Runtime, loaded.
pub struct OnnxRuntime {
    /// Its version (`"1.30.0"`).
    pub version: String,
    /// The library's file.
    pub path: PathBuf,
    /// Who named it (`"ORT_DYLIB_PATH"`, `"Python's onnxruntime package"`).
    pub origin: &'static str,
    pub(crate) environment: Environment,
}

/// ONNX Runtime, if a fit library is found: the one that the environment variable `ORT_DYLIB_PATH` names, or
/// else the one inside the `onnxruntime` package of the Python on the path. Looked for and loaded once; the first
/// call may take as long as a Python needs to start.
///
/// # Errors
/// One sentence that says why there is none and what to do.
pub fn onnxruntime() -> Result<&'static OnnxRuntime, &'static str> {
    static FOUND: OnceLock<Result<OnnxRuntime, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(String::as_str)
}

fn find() -> Result<OnnxRuntime, String> {
    match env::var_os("ORT_DYLIB_PATH").filter(|p| !p.is_empty()) {
        // What the user names is used or reported, not replaced.
        Some(path) => load(Path::new(&path), "ORT_DYLIB_PATH").map_err(|e| {
            format!("ORT_DYLIB_PATH names {}, which cannot be used: {e}", Path::new(&path).display())
        }),
        None => {
            let Some(folder) = python_package() else {
                return Err("no ONNX Runtime found: install it with `pip install onnxruntime`, or set \
                            ORT_DYLIB_PATH to its library"
                    .into());
            };
            let libraries = libraries(&folder.join("capi"));
            let mut errors = Vec::new();
            for library in &libraries {
                match load(library, "Python's onnxruntime package") {
                    Ok(found) => return Ok(found),
                    Err(e) => errors.push(format!("{}: {e}", library.display())),
                }
            }
            Err(if errors.is_empty() {
                format!(
                    "the onnxruntime package in {} holds no library: install it again, or set ORT_DYLIB_PATH",
                    folder.display()
                )
            } else {
                format!(
                    "the onnxruntime package cannot be used ({}): upgrade it with `pip install -U onnxruntime`",
                    errors.join("; ")
                )
            })
        }
    }
}

fn load(path: &Path, origin: &'static str) -> Result<OnnxRuntime, String> {
    // A relative path means one from here; `ort` would look beside the program.
    let path = path.canonicalize().map_err(|e| e.to_string())?;
    let builder = ort::init_from(&path).map_err(|e| one_line(&e.to_string()))?;
    let environment =
        builder.with_name("framelane").with_telemetry(false).build().map_err(|e| one_line(&e.to_string()))?;
    // Errors come back as errors; printed as well, they would be seen twice. Who wants them sets ORT_LOG.
    if env::var_os("ORT_LOG").is_none() {
        environment.set_log_level(LogLevel::Fatal);
    }
    Ok(OnnxRuntime { version: version(&path), path, origin, environment })
}

/// The version in the library's file name (`libonnxruntime.so.1.30.0`), or else in its description.
fn version(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let from_name = name.split_once(".so.").map(|(_, v)| v).filter(|v| v.contains('.'));
    // "ORT Build Info: git-branch=rel-1.30.0, …"
    let info = ort::info();
    let from_info = || info.split("rel-").nth(1)?.split([',', ' ']).next();
    from_name.or_else(from_info).map_or_else(|| format!("≥ 1.{OLDEST_MINOR}"), str::to_owned)
}

/// The folder of the installed `onnxruntime` package, without importing it.
fn python_package() -> Option<PathBuf> {
    // The current folder is taken off the search path first: a stranger's file there must not be run.
    const SCRIPT: &str = "import sys\nsys.path.pop(0)\nimport importlib.util as u\n\
                          s = u.find_spec('onnxruntime')\nprint(s.submodule_search_locations[0] if s else '')";
    let programs: &[&str] = if cfg!(windows) { &["python", "py"] } else { &["python3", "python"] };
    programs.iter().find_map(|program| {
        let mut child = Command::new(program)
            .args(["-c", SCRIPT])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut stdout = child.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            let read = stdout.read_to_string(&mut text);
            // Nobody may be listening any more; that is fine.
            let _ = sender.send(read.map(|_| text));
        });
        let answer = receiver.recv_timeout(PYTHON_TIMEOUT);
        if answer.is_err() {
            log::warn!(
                "{program} did not answer within {PYTHON_TIMEOUT:?}, so its packages are not searched"
            );
            let _ = child.kill();
        }
        let _ = child.wait();
        if answer.is_ok() {
            let _ = reader.join();
        }
        let folder = answer.ok()?.ok()?;
        let folder = folder.lines().last()?.trim();
        (!folder.is_empty()).then(|| PathBuf::from(folder)).filter(|f| f.is_dir())
    })
}

/// ONNX Runtime's own library in a folder, the plainest name first.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let is_library = |name: &str| {
        name.starts_with("libonnxruntime.so")
            || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
            || name == "onnxruntime.dll"
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(is_library))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_runtime_and_not_its_providers() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libonnxruntime.so.1.30.0",
            "libonnxruntime_providers_shared.so",
            "onnxruntime_pybind11_state.so",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(libraries(folder.path()), [folder.path().join("libonnxruntime.so.1.30.0")]);
        assert!(libraries(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libonnxruntime.so");
        std::fs::write(&path, "not a library").unwrap();
        assert!(load(&path, "test").is_err());
        assert!(load(&folder.path().join("missing"), "test").is_err());
    }
}
