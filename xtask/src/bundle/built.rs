//! What cargo has built, read from its messages.

use std::path::{Path, PathBuf};

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Test,
    Bench,
    Program,
}

/// One executable.
#[derive(Debug, PartialEq, Eq)]
pub struct Built {
    pub kind: Kind,
    pub package: String,
    /// The target's; `unit` and `unit-PROGRAM` for the tests inside a library and a program.
    pub name: String,
    pub file: PathBuf,
}

impl Built {
    /// Where it lies in a bundle.
    pub fn place(&self) -> String {
        let Self { kind, package, name, .. } = self;
        match kind {
            Kind::Test => format!("tests/{package}/{name}"),
            Kind::Bench => format!("benches/{package}/{name}"),
            Kind::Program => format!("bin/{name}"),
        }
    }
}

/// The executables of packages under `crates` that `messages` tell of: one JSON object a line, as cargo prints
/// them with `--message-format=json`. Tests of other packages are about the repository itself.
pub fn executables(messages: &str, root: &Path) -> Result<Vec<Built>, String> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value =
            serde_json::from_str(line).map_err(|e| format!("cargo said what is no JSON ({e}): {line}"))?;
        found.extend(executable(&message, root)?);
    }
    Ok(found)
}

fn executable(message: &Value, root: &Path) -> Result<Option<Built>, String> {
    let (Some("compiler-artifact"), Some(file)) =
        (message["reason"].as_str(), message["executable"].as_str())
    else {
        return Ok(None);
    };
    let lacks =
        |what: &str| format!("cargo's message about {file} has no {what}: this cargo is not understood");
    let target = &message["target"];
    let manifest = message["manifest_path"].as_str().ok_or_else(|| lacks("manifest_path"))?;
    let name = target["name"].as_str().ok_or_else(|| lacks("target name"))?;
    let kind = target["kind"][0].as_str().ok_or_else(|| lacks("target kind"))?;
    let tests = message["profile"]["test"].as_bool().ok_or_else(|| lacks("profile"))?;
    let Some(package) = package_in(Path::new(manifest), root) else { return Ok(None) };
    let (kind, name) = match (kind, tests) {
        ("bench", _) => (Kind::Bench, name.to_owned()),
        ("test", _) => (Kind::Test, name.to_owned()),
        ("example", _) => return Ok(None),
        ("bin", false) => (Kind::Program, name.to_owned()),
        ("bin", true) => (Kind::Test, format!("unit-{name}")),
        // A library, of whatever kind.
        _ => (Kind::Test, "unit".to_owned()),
    };
    Ok(Some(Built { kind, package, name, file: file.into() }))
}

/// The package whose manifest this is, if it lies in `crates`: its folder there has its name.
pub fn package_in(manifest: &Path, root: &Path) -> Option<String> {
    let folder = manifest.parent()?;
    (folder.parent()? == root.join("crates")).then(|| folder.file_name()?.to_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(folder: &str, kind: &str, name: &str, test: bool) -> String {
        json!({
            "reason": "compiler-artifact",
            "manifest_path": format!("/r/{folder}/Cargo.toml"),
            "target": {"kind": [kind], "crate_types": ["bin"], "name": name},
            "profile": {"test": test},
            "executable": format!("/r/target/{name}-0123"),
        })
        .to_string()
    }

    fn places(messages: &[String]) -> Result<Vec<String>, String> {
        let found = executables(&messages.join("\n"), Path::new("/r"))?;
        Ok(found.iter().map(Built::place).collect())
    }

    #[test]
    fn each_kind_has_its_place() {
        let messages = [
            message("crates/a", "lib", "a_lib", true),
            message("crates/a", "bin", "tool", true),
            message("crates/a", "test", "gpu", true),
            message("crates/a", "bench", "calls", true),
            message("crates/a", "bench", "others", false),
            message("crates/a", "bin", "tool", false),
        ];
        let expected = [
            "tests/a/unit",
            "tests/a/unit-tool",
            "tests/a/gpu",
            "benches/a/calls",
            "benches/a/others",
            "bin/tool",
        ];
        assert_eq!(places(&messages).unwrap(), expected);
    }

    #[test]
    fn all_else_is_passed_over() {
        let library = json!({
            "reason": "compiler-artifact", "manifest_path": "/r/crates/a/Cargo.toml", "executable": null,
            "target": {"kind": ["lib"], "name": "a"}, "profile": {"test": false},
        });
        let messages = [
            library.to_string(),
            json!({"reason": "build-finished", "success": true}).to_string(),
            "warning: not JSON at all".to_owned(),
            message("crates/a", "example", "speed", true),
            message("xtask", "bin", "xtask", true),
            message("tools", "test", "run", true),
        ];
        assert_eq!(places(&messages).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn messages_that_are_not_understood_are_told() {
        assert!(places(&["{\"reason\": ".into()]).unwrap_err().contains("no JSON"));
        let odd = json!({"reason": "compiler-artifact", "executable": "/r/a", "manifest_path": "/r/crates/a/Cargo.toml"});
        assert!(places(&[odd.to_string()]).unwrap_err().contains("no target name"));
    }
}
