//! What the command line of `bundle` asks for.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::built::package_in;
use crate::Outcome;
use crate::run::root;

#[derive(Debug)]
pub struct Asked {
    pub folder: PathBuf,
    /// Empty: all packages.
    only: Vec<String>,
}

impl Asked {
    pub fn parse(args: &[&str]) -> Result<Self, String> {
        let (mut folder, mut only) = (None, Vec::new());
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--only" => {
                    let packages = args.next().ok_or("--only needs packages, separated by commas")?;
                    only.extend(packages.split(',').map(str::to_owned));
                }
                flag if flag.starts_with('-') => {
                    return Err(format!("bundle has no option {flag}: see `cargo xtask`"));
                }
                path if folder.is_none() => folder = Some(path),
                path => return Err(format!("bundle makes one folder, so {path} is one too many")),
            }
        }
        // What was typed counts from where it was typed.
        let folder = match folder {
            None => root().join("target/bundle"),
            Some(path) => std::path::absolute(path).map_err(|e| format!("{path}: {e}"))?,
        };
        Ok(Self { folder, only })
    }

    /// That the packages asked for are there.
    pub fn check(&self, metadata: &Value) -> Outcome {
        let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
        let all: Vec<&str> = packages
            .iter()
            .filter_map(|package| {
                package_in(Path::new(package["manifest_path"].as_str()?), &root())
                    .and(package["name"].as_str())
            })
            .collect();
        match self.only.iter().find(|name| !all.contains(&name.as_str())) {
            Some(name) => Err(format!("--only {name}: bundles are made of {}", all.join(", "))),
            None => Ok(()),
        }
    }

    pub fn wants(&self, package: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == package)
    }

    /// For cargo. The whole workspace is one selection, so that nothing is built twice with other features; a
    /// few packages are built alone, because that takes seconds where the workspace takes minutes.
    pub fn selection(&self) -> Vec<&str> {
        match self.only.is_empty() {
            true => vec!["--workspace"],
            false => self.only.iter().flat_map(|name| ["--package", name]).collect(),
        }
    }

    /// For people; `None`: all.
    pub fn packages(&self) -> Option<String> {
        (!self.only.is_empty()).then(|| self.only.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packages_and_a_folder() {
        let asked = Asked::parse(&["--only", "a,b", "some where"]).unwrap();
        assert!(asked.folder.is_absolute() && asked.folder.ends_with("some where"));
        assert!(asked.wants("a") && asked.wants("b") && !asked.wants("ab"));
        assert_eq!(asked.selection(), ["--package", "a", "--package", "b"]);

        let asked = Asked::parse(&[]).unwrap();
        assert!(asked.folder.ends_with("target/bundle") && asked.wants("a"));
        assert_eq!(asked.selection(), ["--workspace"]);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        assert!(Asked::parse(&["--only"]).unwrap_err().contains("separated by commas"));
        assert!(Asked::parse(&["--all"]).unwrap_err().contains("no option --all"));
        assert!(Asked::parse(&["a", "b"]).unwrap_err().contains("b is one too many"));
        let manifest = |folder: &str| root().join(folder).join("Cargo.toml");
        let metadata = json!({"packages": [
            {"name": "one", "manifest_path": manifest("crates/one")},
            {"name": "xtask", "manifest_path": manifest("xtask")},
        ]});
        let check = |only: &str| Asked::parse(&["--only", only]).unwrap().check(&metadata);
        assert_eq!(check("one"), Ok(()));
        assert_eq!(check("one,two"), Err("--only two: bundles are made of one".into()));
        assert!(check("xtask").is_err());
    }
}
