//! Which crate of the workspace may import which.
//!
//! Feed, lanes and display do not know each other: each takes and gives what `framelane` defines. An import
//! between siblings would end that, so it is not a matter of review.

use serde_json::Value;

const LIBRARIES: &[&str] =
    &["framelane", "framelane-cuda", "framelane-onnx", "framelane-media", "framelane-show"];

const WITH_PROGRAM: &[&str] =
    &["framelane", "framelane-cuda", "framelane-onnx", "framelane-media", "framelane-show", "framelane-cli"];

/// Each crate and those that it may import, tests and build scripts included.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("framelane", &["framelane-cuda"]),
    ("framelane-cuda", &[]),
    ("framelane-onnx", &["framelane"]),
    ("framelane-media", &["framelane"]),
    ("framelane-show", &["framelane", "framelane-cuda"]),
    ("framelane-cli", LIBRARIES),
    // The program as well, which its wheel brings along.
    ("framelane-python", WITH_PROGRAM),
    ("xtask", &[]),
];

/// `metadata` is what `cargo metadata --no-deps` prints.
pub fn check(metadata: &Value) -> Vec<String> {
    let packages = list(metadata, "packages");
    let names: Vec<&str> = packages.iter().map(name).collect();
    let mut violations = Vec::new();
    for package in packages {
        let importer = name(package);
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(n, _)| *n == importer) else {
            violations.push(format!(
                "{importer}: no rule says what this crate may import; add it to the table in \
                 xtask/src/rules/graph.rs"
            ));
            continue;
        };
        for imported in list(package, "dependencies").iter().map(name) {
            if names.contains(&imported) && !allowed.contains(&imported) {
                let allowed = if allowed.is_empty() { "no sibling".to_owned() } else { allowed.join(", ") };
                violations.push(format!(
                    "{importer} imports {imported}, but may import {allowed}; move what it needs to where both \
                     may look, or pass it in"
                ));
            }
        }
    }
    violations
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or("(a package without a name)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_one(importer: &str, imported: &str) -> Vec<String> {
        check(&json!({"packages": [
            {"name": importer, "dependencies": [{"name": imported}, {"name": "log"}]},
            {"name": "framelane", "dependencies": []},
            {"name": "framelane-media", "dependencies": []},
        ]}))
    }

    #[test]
    fn an_allowed_import_passes() {
        assert_eq!(check_one("framelane-onnx", "framelane"), Vec::<String>::new());
        assert_eq!(check_one("framelane-cli", "framelane-media"), Vec::<String>::new());
    }

    #[test]
    fn an_import_between_siblings_is_told() {
        let violations = check_one("framelane-show", "framelane-media");
        assert_eq!(violations.len(), 1);
        assert!(
            violations[0].starts_with("framelane-show imports framelane-media, but may import framelane")
        );
        assert!(check_one("xtask", "framelane")[0].contains("no sibling"));
    }

    #[test]
    fn a_crate_without_a_rule_is_told() {
        assert!(check_one("framelane-new", "log")[0].contains("add it to the table"));
    }
}
