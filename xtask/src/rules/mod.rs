//! The rules of the house, as checks that say what to do. `cargo xtask rules` runs them, and so does
//! `cargo test`; each has tests that show it failing.

mod code;
mod files;
mod graph;
mod layout;
mod text;
mod unsafety;

use crate::Outcome;
use crate::run::{cargo, output, program, root};

/// One text file of the repository.
pub struct File {
    /// From the root, with forward slashes.
    pub path: String,
    pub text: String,
}

/// One rule: its name and what breaks it, each as `where: what, and what to do`.
type Rule = (&'static str, fn(&[File]) -> Vec<String>);

const RULES: &[Rule] = &[
    ("unsafe lives where it may", unsafety::check),
    ("files are small, begin with their subject and are finished", layout::check),
    ("the README holds the two commands", text::readme),
    ("nothing names the machine it was written on", text::machine_paths),
    ("links between pages lead somewhere", text::links),
];

/// `cargo xtask rules`.
pub fn command() -> Outcome {
    let files = files::of_repository()?;
    let mut broken = 0;
    let mut report = |name: &str, violations: Vec<String>| {
        println!("{} {name}", if violations.is_empty() { "ok    " } else { "BROKEN" });
        violations.iter().for_each(|v| println!("       {v}"));
        broken += violations.len();
    };
    report("crates import only whom they may", graph::check(&metadata()?));
    for (name, check) in RULES {
        report(name, check(&files));
    }
    match broken {
        0 => Ok(()),
        n => Err(format!("the rules of the house are broken in {n} places, listed above")),
    }
}

fn metadata() -> Result<serde_json::Value, String> {
    let text = output(&mut cargo("metadata --no-deps --format-version 1"))?;
    serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_import_only_whom_they_may() {
        assert_eq!(graph::check(&metadata().unwrap()), Vec::<String>::new());
    }

    #[test]
    fn the_repository_keeps_its_rules() {
        let files = files::of_repository().unwrap();
        let broken = |(name, check): &Rule| (*name, check(&files));
        let broken: Vec<_> =
            RULES.iter().map(broken).filter(|(_, violations)| !violations.is_empty()).collect();
        assert!(broken.is_empty(), "broken rules: {broken:#?}");
    }
}
