//! Where `unsafe` may live, and that each use of it is argued.

use super::File;
use super::code::{has_word, only};

/// Each crate that may hold `unsafe`, and where in it. Every other crate forbids it at its root.
const HOMES: &[(&str, &str)] = &[
    ("crates/framelane-cuda/", "crates/framelane-cuda/"),
    ("crates/framelane-onnx/", "crates/framelane-onnx/src/ort_raw.rs"),
    ("crates/framelane-show/", "crates/framelane-show/src/interop.rs"),
    // OpenGL's calls, and in the tests those of a program that draws with it.
    ("crates/framelane-show/", "crates/framelane-show/src/gl/raw/"),
    ("crates/framelane-show/", "crates/framelane-show/tests/gl/program.rs"),
    // Other libraries' memory, by its address.
    ("crates/framelane-python/", "crates/framelane-python/src/dlpack.rs"),
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// How far above an `unsafe` its reason may begin to be out of sight.
const NEAR: usize = 5;

pub fn check(files: &[File]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
        let code = only(&file.text);
        let home = HOMES.iter().any(|(_, home)| file.path.starts_with(home));
        if !home {
            let lines = code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
            violations.extend(lines.map(|(i, _)| {
                format!(
                    "{}:{}: unsafe may not live here; do without it, or move it into the crate's own place for it \
                     (named in xtask/src/rules/unsafety.rs)",
                    file.path,
                    i + 1
                )
            }));
        } else {
            unargued(file, &code, &mut violations);
        }
        let holds_a_home = HOMES.iter().any(|(krate, _)| file.path.starts_with(krate));
        let forbids = code.lines().any(|line| line.trim() == FORBID);
        if is_crate_root(&file.path) && !holds_a_home && !forbids {
            violations.push(format!("{}: this crate has no unsafe; say `{FORBID}` at its root", file.path));
        }
    }
    violations
}

/// `unsafe` blocks and implementations with no `SAFETY:` comment near above.
fn unargued(file: &File, code: &str, violations: &mut Vec<String>) {
    let lines: Vec<&str> = file.text.lines().collect();
    for (i, line) in code.lines().enumerate() {
        let declares = ["fn", "extern", "trait"].iter().any(|kind| line.contains(&format!("unsafe {kind}")));
        let argued = lines[i.saturating_sub(NEAR)..=i].iter().any(|line| line.contains("SAFETY:"));
        if has_word(line, "unsafe") && !declares && !argued {
            violations.push(format!(
                "{}:{}: unsafe without a reason; say `// SAFETY: …` within {NEAR} lines above, and name what \
                 makes it sound",
                file.path,
                i + 1
            ));
        }
    }
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, text: &str) -> Vec<String> {
        check(&[File { path: path.into(), text: text.into() }])
    }

    #[test]
    fn unsafe_outside_its_home_is_told() {
        let violations = check_one("crates/framelane/src/ring.rs", "fn f() {\n    unsafe { g() }\n}\n");
        assert_eq!(violations.len(), 1);
        assert!(violations[0].starts_with("crates/framelane/src/ring.rs:2: unsafe may not live here"));
    }

    #[test]
    fn a_home_is_no_wider_than_it_says() {
        assert_eq!(check_one("crates/framelane-onnx/src/lib.rs", "unsafe { g() }\n").len(), 1);
        assert_eq!(check_one("crates/framelane-cuda/src/a.rs", "// SAFETY: a.\nunsafe { g() }\n").len(), 0);
    }

    #[test]
    fn talk_of_unsafe_is_no_unsafe() {
        let text = "// unsafe\nfn f() -> &'static str { \"unsafe {\" }\n";
        assert_eq!(check_one("crates/framelane/src/ring.rs", text), Vec::<String>::new());
    }

    #[test]
    fn unsafe_without_a_reason_is_told() {
        let home = "crates/framelane-onnx/src/ort_raw.rs";
        assert!(
            check_one(home, "\nfn f() {\n    unsafe { g() }\n}\n")[0].contains(":3: unsafe without a reason")
        );
        assert!(check_one(home, "unsafe impl Send for A {}\n")[0].contains("unsafe without a reason"));
        assert_eq!(check_one(home, "// SAFETY: g asks nothing.\nunsafe { g() }\n"), Vec::<String>::new());
        assert_eq!(check_one(home, "unsafe extern \"C\" fn f() {}\n"), Vec::<String>::new());
        let far = format!("// SAFETY: far away{}unsafe {{ g() }}\n", "\n".repeat(NEAR + 1));
        assert_eq!(check_one(home, &far).len(), 1);
    }

    #[test]
    fn a_crate_that_does_not_forbid_is_told() {
        let root = "crates/framelane/src/lib.rs";
        assert!(check_one(root, "//! A library.\n")[0].contains(FORBID));
        assert!(check_one(root, "//! A library.\n// #![forbid(unsafe_code)]\n")[0].contains(FORBID));
        assert_eq!(check_one(root, "//! A library.\n#![forbid(unsafe_code)]\n"), Vec::<String>::new());
    }
}
