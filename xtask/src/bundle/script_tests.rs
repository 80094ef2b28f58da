//! The script of a bundle, on a bundle of tiny shell programs.

use std::process::{Command, Output, Stdio};

use super::{README, SCRIPT};

/// Written by a child, so that no other thread's children hold a program open for writing while it is started.
const PROGRAMS: &str = r#"
set -eu
program() { mkdir -p "$(dirname "$1")"; { echo '#!/bin/sh'; cat; } >"$1"; chmod +x "$1"; }
mkdir -p repository/crates/a repository/crates/b
echo 'framelane bundle' >about.txt

program tests/a/good <<'END'
echo 'test one ... ok'
echo 'test two ... ok'
echo 'test three ... ignored, takes an hour'
echo 'two: no GPU' >>"$FRAMELANE_SKIPPED"
echo 'two: no GPU' >>"$FRAMELANE_SKIPPED"
echo "given: $*"
echo "folder: $CARGO_MANIFEST_DIR $(pwd)"
echo "program: $CARGO_BIN_EXE_framelane"
touch "$TMPDIR/left behind"
echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s'
END
program tests/a/bad <<'END'
echo 'test one ... FAILED'
echo 'test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s'
exit 101
END
program tests/b/crash <<'END'
echo 'test one ... ok'
kill -SEGV $$
END
program tests/b/plain <<'END'
echo 'test opens ... ok (1.2 s)'
echo 'skipped: no Xvfb'
END
program benches/b/speed <<'END'
echo "bench: $*"
exit 7
END
program bin/framelane <<'END'
echo "program: $*"
END
"#;

struct Bundle {
    folder: tempfile::TempDir,
}

impl Bundle {
    fn new() -> Self {
        // A place with what breaks careless scripts in its name.
        let folder = tempfile::Builder::new().prefix("a b'c*").tempdir().unwrap();
        std::fs::write(folder.path().join("run.sh"), SCRIPT).unwrap();
        let made = Command::new("sh").args(["-c", PROGRAMS]).current_dir(&folder).status().unwrap();
        assert!(made.success());
        Self { folder }
    }

    /// Exit code, standard output, standard error.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let script = self.folder.path().join("run.sh");
        let Output { status, stdout, stderr } =
            Command::new("sh").arg(script).args(args).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }
}

#[track_caller]
fn assert_says(text: &str, what: &str) {
    assert!(text.contains(what), "{what:?} is not in:\n{text}");
}

#[test]
fn tests_that_pass() {
    let bundle = Bundle::new();
    let (code, out, err) = bundle.run(&["tests", "a/good", "two words", "x"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("framelane bundle\nmachine     "), "{out}");
    assert_says(&out, "GPU         ");
    assert_says(&out, "given: two words x\n");
    assert_says(&out, "skipped a/good: two: no GPU\nskipped a/good: three: takes an hour\n");
    let last = out.lines().last().unwrap();
    assert_eq!(last, "     1 passed    0 failed    2 skipped  a/good");
    assert!(!out.contains("a/bad"), "the filter chooses: {out}");
}

#[test]
fn tests_find_their_folder_and_the_program() {
    let bundle = Bundle::new();
    let (_, out, _) = bundle.run(&["tests", "good"]);
    let here = bundle.folder.path().canonicalize().unwrap();
    let (here, package) = (here.display(), here.join("repository/crates/a"));
    assert_says(&out, &format!("folder: {0} {0}\n", package.display()));
    assert_says(&out, &format!("program: {here}/bin/framelane\n"));
}

#[test]
fn one_failure_fails_the_whole() {
    let (code, out, _) = Bundle::new().run(&["tests"]);
    assert_eq!(code, Some(1), "{out}");
    let summary: Vec<&str> = out.lines().rev().take(4).collect();
    let crash = summary[1].strip_prefix("     1 passed    1 failed    0 skipped  b/crash (ended with code ");
    assert_eq!(
        (summary[3], summary[2], summary[0]),
        (
            "     4 passed    1 failed    0 skipped  a/bad",
            "     1 passed    0 failed    2 skipped  a/good",
            "     1 passed    0 failed    1 skipped  b/plain",
        ),
        "{out}"
    );
    assert_eq!(crash, Some("139)"), "{out}");
    assert_says(&out, "skipped b/plain: all: no Xvfb\n");
}

#[test]
fn nothing_is_left_behind() {
    let (bundle, temporary) = (Bundle::new(), tempfile::tempdir().unwrap());
    let mut run = Command::new("sh");
    run.arg(bundle.folder.path().join("run.sh")).args(["tests", "good"]).env("TMPDIR", temporary.path());
    assert!(run.output().unwrap().status.success());
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn benchmarks_and_the_program() {
    let bundle = Bundle::new();
    let (code, out, _) = bundle.run(&["bench", "speed", "fast"]);
    assert_eq!(code, Some(7), "a benchmark's own code: {out}");
    assert_says(&out, "bench: --bench fast\n");
    let (code, out, _) = bundle.run(&["doctor"]);
    assert_eq!(code, Some(0));
    assert_says(&out, "program: doctor\n");
}

#[test]
fn what_cannot_be_done_is_a_sentence() {
    let bundle = Bundle::new();
    for (args, says) in [
        (&["tests", "nothing"][..], "no test program here has 'nothing' in its name"),
        (&["bench"], "bench needs a name"),
        (&["bench", "slow"], "there is no benchmark 'slow' here"),
        (&["sanitize"], "the tests of the GPU are not in this bundle"),
        (&["rm"], "'rm' is none of these"),
    ] {
        let (code, _, err) = bundle.run(args);
        assert_eq!(code, Some(2), "{args:?}: {err}");
        assert_says(&err, &format!("run.sh: {says}"));
    }
    let (code, out, _) = bundle.run(&[]);
    assert_eq!(code, Some(0));
    assert_says(&out, "./run.sh tests [FILTER");
}

/// One of them may leave a GPU that draws no more.
#[test]
fn the_cuda_layer_is_tested_last() {
    let bundle = Bundle::new();
    let setup = "for p in framelane-cuda z; do mkdir -p tests/$p repository/crates/$p; cp tests/a/good tests/$p/last; done";
    let made = Command::new("sh").args(["-c", setup]).current_dir(&bundle.folder).status().unwrap();
    assert!(made.success());
    let (code, out, _) = bundle.run(&["tests", "last"]);
    assert_eq!(code, Some(0), "{out}");
    let names: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(names, ["z/last", "framelane-cuda/last"], "{out}");
}

/// Stands for compute-sanitizer: says what it is asked, and finds a fault with racecheck.
#[test]
fn the_sanitizer_runs_the_tests_of_the_gpu() {
    let bundle = Bundle::new();
    let setup = r#"
        mkdir -p tests/framelane-cuda repository/crates/framelane-cuda tools
        cp tests/a/good tests/framelane-cuda/gpu
        printf '%s\n' '#!/bin/sh' 'echo "asked: $*"' '[ "$2" != racecheck ]' >tools/compute-sanitizer
        chmod +x tools/compute-sanitizer"#;
    let made = Command::new("sh").args(["-c", setup]).current_dir(&bundle.folder).status().unwrap();
    assert!(made.success());
    let path = format!("{}:{}", bundle.folder.path().join("tools").display(), std::env::var("PATH").unwrap());
    let mut run = Command::new("sh");
    run.arg(bundle.folder.path().join("run.sh")).arg("sanitize").env("PATH", path);
    let output = run.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert_says(&out, "asked: --tool memcheck --report-api-errors no --error-exitcode 1 ");
    assert_says(&out, "/tests/framelane-cuda/gpu kernels:: picture::\n");
    assert_says(&out, "     0 passed    0 failed    0 skipped  framelane-cuda/gpu under memcheck\n");
    assert_says(
        &out,
        "     0 passed    1 failed    0 skipped  framelane-cuda/gpu under racecheck (ended with code 1)\n",
    );
}

#[test]
fn the_readme_names_every_command() {
    for command in ["tests", "bench", "doctor", "sanitize"] {
        assert!(README.contains(&format!("./run.sh {command}")), "{command}");
    }
}
