//! `cargo xtask bundle [FOLDER] [--only PACKAGE,...]`: tests, benchmarks and the program in a folder that runs
//! where there is no Rust, such as a machine lent for its GPU.
//!
//! The folder holds a copy of the files that tests read, so that `run.sh` can start each executable as cargo
//! does: in its package's folder, told where that folder and the program are.

mod asked;
mod built;
#[cfg(all(test, unix))]
mod script_tests;

use std::path::Path;

use serde_json::Value;

use crate::Outcome;
use crate::bench::benches;
use crate::run::{cargo, output, program, root};
use asked::Asked;
use built::{Built, Kind};

const SCRIPT: &str = include_str!("run.sh");
const README: &str = include_str!("README.md");

/// The file that says what a bundle is made of; a folder that has it may be made anew.
const ABOUT: &str = "about.txt";

/// What tests and benchmarks read besides what is compiled into them, from the root of the repository.
const DATA: &[&str] =
    &["assets", "fuzz/seeds", "crates/framelane-onnx/tests/models", "crates/framelane-show/tests/reference"];

pub fn command(args: &[&str]) -> Outcome {
    if !cfg!(target_os = "linux") {
        return Err("bundles are made on Linux, because they run on the system they were made on".into());
    }
    let asked = Asked::parse(args)?;
    let metadata = output(&mut cargo("metadata --no-deps --format-version 1 --locked"))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    asked.check(&metadata)?;
    make_room(&asked.folder)?;

    let built = build(&asked, &metadata)?;
    let about = about(&asked)?;
    let mut whole = 0;
    for one in &built {
        let to = one.place();
        let bytes = strip(&one.file, &asked.folder.join(&to))?;
        println!("{:>8} {to}", size(bytes));
        whole += bytes;
        make_folder(&asked.folder.join("repository/crates").join(&one.package))?;
    }
    for folder in DATA {
        whole += copy(&root().join(folder), &asked.folder.join("repository").join(folder))?;
    }
    for (name, text) in [("run.sh", SCRIPT), ("README.md", README), (ABOUT, about.as_str())] {
        let path = asked.folder.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{} cannot be written: {e}", path.display()))?;
    }
    make_executable(&asked.folder.join("run.sh"))?;
    println!(
        "{:>8} {} with {} executables; see its README.md",
        size(whole),
        asked.folder.display(),
        built.len()
    );
    Ok(())
}

/// Builds the tests as `cargo test` does, and benchmarks and program in release.
fn build(asked: &Asked, metadata: &Value) -> Result<Vec<Built>, String> {
    // Messages are read, and what the compiler says to people is shown all the same.
    let words = "--locked --no-run --message-format json-render-diagnostics";
    let run = |verb: &str, more: &[&str]| {
        let mut command = cargo(&format!("{verb} {words}"));
        command.args(asked.selection()).args(more).stderr(std::process::Stdio::inherit());
        println!("$ cargo {verb} --no-run {} {}", asked.selection().join(" "), more.join(" "));
        let messages = command.output().map_err(|e| format!("cargo cannot be started: {e}"))?;
        if !messages.status.success() {
            return Err(format!("`cargo {verb} --no-run` failed ({}), as said above", messages.status));
        }
        built::executables(&String::from_utf8_lossy(&messages.stdout), &root())
    };
    let mut all = run("test", &[])?;
    // Cargo builds the programs of a package along with its tests and benchmarks. Those in release are wanted.
    all.retain(|built| built.kind == Kind::Test);
    if benches(metadata).iter().any(|(package, _)| asked.wants(package)) {
        // The pattern keeps cargo from building every test in release, too.
        all.extend(run("bench", &["--bench", "*"])?.into_iter().filter(|built| built.kind != Kind::Test));
    }
    all.sort_by_key(Built::place);
    if let Some(pair) = all.windows(2).find(|pair| pair[0].place() == pair[1].place()) {
        return Err(format!(
            "two executables would be {}: give one of the targets another name",
            pair[0].place()
        ));
    }
    Ok(all)
}

/// What a result must say of where it comes from.
fn about(asked: &Asked) -> Result<String, String> {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let commit = output(program("git").args(["describe", "--always", "--dirty", "--abbrev=12"]))?;
    let rustc = output(program(std::env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version"))?;
    // Executables start where the C library is this one or a newer one.
    let libc = output(program("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_else(|_| "not glibc".into());
    Ok(format!(
        "framelane bundle\ncommit      {}\npackages    {}\nmade for    {} Linux, {}\nmade by     {}\n",
        first_line(commit),
        asked.packages().unwrap_or("all".into()),
        std::env::consts::ARCH,
        first_line(libc),
        first_line(rustc),
    ))
}

/// An empty folder; one that holds anything but a former bundle is left alone.
fn make_room(folder: &Path) -> Outcome {
    let shown = folder.display();
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let about = std::fs::read_to_string(folder.join(ABOUT)).unwrap_or_default();
        if !about.starts_with("framelane bundle\n") {
            return Err(format!("{shown} holds something that is no bundle: name a new folder"));
        }
        std::fs::remove_dir_all(folder).map_err(|e| format!("{shown} cannot be made anew: {e}"))?;
    }
    make_folder(folder)
}

fn make_folder(folder: &Path) -> Outcome {
    std::fs::create_dir_all(folder).map_err(|e| format!("{} cannot be created: {e}", folder.display()))
}

/// Copies an executable without its symbols; its size.
fn strip(from: &Path, to: &Path) -> Result<u64, String> {
    make_folder(to.parent().unwrap_or(to))?;
    output(program("strip").arg("-o").args([to, from]))
        .map_err(|e| format!("{e} (strip is a program of binutils)"))?;
    bytes(to)
}

/// Copies a folder with all that is in it; its size.
fn copy(from: &Path, to: &Path) -> Result<u64, String> {
    let failed = |e: std::io::Error| format!("{} cannot be copied: {e}", from.display());
    make_folder(to)?;
    let mut whole = 0;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let to = to.join(entry.file_name());
        whole += match entry.file_type().map_err(failed)?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => std::fs::copy(entry.path(), &to).map_err(failed)?,
        };
    }
    Ok(whole)
}

fn bytes(file: &Path) -> Result<u64, String> {
    std::fs::metadata(file).map(|m| m.len()).map_err(|e| format!("{}: {e}", file.display()))
}

fn size(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(unix)]
fn make_executable(file: &Path) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))
        .map_err(|e| format!("{} cannot be made executable: {e}", file.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Outcome {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_former_bundle_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a bundle");
        make_room(&folder).unwrap();
        std::fs::write(folder.join("letter.txt"), "dear").unwrap();
        assert!(make_room(&folder).unwrap_err().contains("name a new folder"));
        std::fs::write(folder.join(ABOUT), "framelane bundle\ncommit 1\n").unwrap();
        make_room(&folder).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_tests_read_is_there() {
        for folder in DATA {
            assert!(root().join(folder).is_dir(), "{folder} is not in the repository: correct DATA");
        }
    }
}
