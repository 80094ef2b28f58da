//! `cargo xtask bench`: every benchmark of the workspace, in release.

use serde_json::Value;

use crate::Outcome;
use crate::run::{cargo, output, show};

pub fn command(only: Option<&str>) -> Outcome {
    let metadata = output(&mut cargo("metadata --no-deps --format-version 1 --locked"))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let mut benches = benches(&metadata);
    if let Some(name) = only {
        benches.retain(|(_, bench)| bench == name);
    }
    if benches.is_empty() {
        return Err(match only {
            Some(name) => format!("no package of the workspace has a benchmark named {name}"),
            None => "no package of the workspace has a benchmark".into(),
        });
    }
    for (package, bench) in &benches {
        show(cargo("bench --locked --package").args([package, "--bench", bench]))?;
    }
    println!("To keep what was printed, see bench/results/README.md.");
    Ok(())
}

/// `(package, benchmark)` of each, in the order of the workspace.
pub fn benches(metadata: &Value) -> Vec<(String, String)> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for package in list(metadata, "packages") {
        for target in list(&package, "targets") {
            if list(&target, "kind").iter().any(|kind| kind == "bench")
                && let (Some(package), Some(bench)) = (package["name"].as_str(), target["name"].as_str())
            {
                found.push((package.to_owned(), bench.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benches_are_found_among_the_targets() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "targets": [{"name": "a", "kind": ["lib"]}, {"name": "ring", "kind": ["bench"]}]},
            {"name": "b", "targets": [{"name": "b", "kind": ["bin"]}]},
        ]});
        assert_eq!(benches(&metadata), [("a".to_owned(), "ring".to_owned())]);
    }
}
