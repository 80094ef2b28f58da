//! What every source file keeps to: one subject, named at its top; a size that can be read; nothing unfinished.

use super::File;
use super::code::only;

const MOST_LINES: usize = 800;
const SOURCES: &[&str] = &[".rs", ".py", ".sh", ".wgsl", ".cu", ".cuh"];

/// What unfinished or left-over code looks like, and what to do about it.
const UNFINISHED: &[(&str, &str)] = &[
    ("todo!", "finish it, or leave it out and say so in an issue"),
    ("unimplemented!", "finish it, or return an error that says what is not supported"),
    ("dbg!", "remove it, or use `log`"),
    ("#[ignore]", "give the reason: #[ignore = \"…\"]"),
];

pub fn check(files: &[File]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|f| SOURCES.iter().any(|end| f.path.ends_with(end))) {
        let lines = file.text.lines().count();
        if lines > MOST_LINES {
            violations.push(format!(
                "{}: {lines} lines; split it by subject into files of {MOST_LINES} lines at most",
                file.path
            ));
        }
        if file.path.ends_with(".rs") {
            rust(file, &mut violations);
        }
    }
    violations
}

fn rust(file: &File, violations: &mut Vec<String>) {
    let mut lines = file.text.lines().filter(|line| !line.is_empty() && !line.starts_with("#![no_main]"));
    if !lines.next().is_some_and(|line| line.starts_with("//! ")) {
        violations.push(format!("{}: begin it with a `//!` line that names its subject", file.path));
    }
    for (i, line) in only(&file.text).lines().enumerate() {
        for (unfinished, advice) in UNFINISHED {
            if let Some(at) = line.find(unfinished)
                && !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                violations.push(format!("{}:{}: {unfinished}: {advice}", file.path, i + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(text: &str) -> Vec<String> {
        check(&[File { path: "a.rs".into(), text: text.into() }])
    }

    #[test]
    fn a_long_file_is_told() {
        assert!(
            check_one(&format!("//! Long.\n{}", "\n".repeat(MOST_LINES)))[0].contains("801 lines; split it")
        );
        assert!(check_one(&format!("//! Just right.\n{}", "\n".repeat(MOST_LINES - 1))).is_empty());
    }

    #[test]
    fn a_file_without_its_subject_is_told() {
        assert!(check_one("use a::b;\n")[0].contains("begin it with"));
        assert!(check_one("")[0].contains("begin it with"));
        assert!(check_one("#![no_main]\n//! Fuzzes.\n").is_empty());
    }

    #[test]
    fn unfinished_code_is_told() {
        let told = |code: &str| check_one(&format!("//! A.\n{code}\n")).len();
        assert_eq!(told("fn f() { todo!() }"), 1);
        assert_eq!(told("fn f() { std::unimplemented!() }"), 1);
        assert_eq!(told("fn f() { dbg!(1); }"), 1);
        assert_eq!(told("#[test]\n#[ignore]\nfn f() {}"), 1);
        assert_eq!(told("#[test]\n#[ignore = \"takes an hour\"]\nfn f() {}"), 0);
        assert_eq!(told("// todo!\nfn f() { my_todo!(\"dbg!\") }"), 0);
    }
}
