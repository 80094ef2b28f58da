//! Each example runs, quickly, and says what its text promises.

#[path = "../../../testing/skip.rs"]
mod skip;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the example printed. `None`: it was not built, as `cargo test` does unless it is given a list of targets.
fn run(name: &str) -> Option<String> {
    let built = std::env::current_exe().unwrap();
    let program = built.ancestors().nth(2).unwrap().join("examples").join(name);
    if !program.exists() {
        skip::skip("the examples were not built with the tests");
        return None;
    }
    assert_fresh(&program);
    let start = Instant::now();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = Command::new(&program);
    // Nobody watches, and nobody has the time.
    command
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("WAYLAND_SOCKET")
        .env("FRAMES", "30");
    let output = command.current_dir(root).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}{errors}", output.status);
    assert!(start.elapsed() < Duration::from_secs(10), "{name} took {:?}", start.elapsed());
    Some(text)
}

/// Cargo builds examples beside tests, but not if it was told which tests to run: then one of before may lie there.
fn assert_fresh(program: &Path) {
    let changed = |file: &Path| std::fs::metadata(file).and_then(|file| file.modified()).unwrap();
    let sources = std::fs::read_to_string(program.with_extension("d")).unwrap();
    let built = changed(program);
    for source in sources.split_once(": ").unwrap().1.split_whitespace().map(Path::new) {
        let fresh = changed(source) <= built;
        assert!(
            fresh,
            "{program:?} is older than {source:?}: run `cargo test` without a name, or `cargo build --examples`"
        );
    }
}

#[track_caller]
fn assert_says(text: &str, what: &str) {
    assert!(text.contains(what), "{what:?} is not in:\n{text}");
}

#[test]
fn feed() {
    let Some(text) = run("01-feed") else { return };
    assert_says(&text, r#"a batch holds ["u8[32×8×8]", "i64[32]"]"#);
    // 23 batches of 32 rows and one of 5; pixels of batch n are n.
    let sum = (1..=23).map(|n| n * 32 * 64).sum::<u64>() + 24 * 5 * 64;
    assert_says(&text, &format!("{} rows, sum of all pixels {sum}", 23 * 32 + 5));
    assert_says(&text, "24 batches in ");
    assert_says(&text, "limited by the ");
    // Only the feed's own thread waited for the device.
    let waits = text.lines().last().and_then(|line| line.split_once(": ")).map(|(_, names)| names);
    assert!(matches!(waits, Some("[]" | r#"["feed: copy out of the pinned slot"]"#)), "{waits:?}");
}

#[test]
fn lanes() {
    let Some(text) = run("02-lanes") else { return };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 13, "{text}");
    for (n, line) in lines[..12].iter().enumerate() {
        match n {
            5 => assert_eq!(*line, "scale on frame 5 of numbers: cannot make anything of it"),
            _ => {
                let x = n * 3;
                assert_eq!(*line, format!("frame {n} of numbers: [{x}, {x}, {x}, {x}]"));
            }
        }
    }
}

#[test]
fn latest() {
    let Some(text) = run("03-latest") else { return };
    let shown = text.lines().next().and_then(|l| l.strip_prefix("shown: [")?.strip_suffix(']'));
    let shown: Vec<u64> = shown.unwrap().split(", ").map(|n| n.parse().unwrap()).collect();
    assert!(shown.is_sorted_by(|a, b| a < b) && shown.last() == Some(&99), "{text}");
    let (out, dropped) = (shown.len(), 100 - shown.len());
    assert_says(&text, &format!("of 100 frames {out} were shown and {dropped} dropped"));
    assert!(dropped > 30, "{text}");
    assert_says(&text, "bottleneck: sink");
}

#[test]
fn simulate() {
    let Some(text) = run("04-simulate") else { return };
    assert_says(&text, "with every wait: [2, 4, 6, 8]");
    assert_says(&text, "checked: found in 1000 of 1000 interleavings");
    assert_says(&text, r#""double" on "compute" writes bytes 0..4 of buffer #"#);
    assert_says(&text, r#"without waiting for "copy" on "upload", which writes them"#);
    let wrong =
        text.lines().nth(1).and_then(|l| l.split(" in ").nth(1)?.split(' ').next()?.parse::<u32>().ok());
    assert!(wrong.is_some_and(|wrong| wrong > 10), "{text}");
}

#[test]
fn training() {
    let Some(text) = run("06-training") else { return };
    assert_says(&text, r#"a batch holds ["f16[8×3×32×32]"]"#);
    // Sixteen calls: ten batches, the end of the epoch, and five batches of the next.
    assert_says(&text, "stopped before batch 5 of epoch 1");
    assert_says(&text, "5 more steps end the epoch");
    assert_says(&text, "this thread waited for the device 0 times, for 0ns");
    assert_says(&text, "5 batches in ");
}

#[test]
fn display() {
    if let Err(why) = framelane_show::Display::offscreen(&framelane::device::Device::host()) {
        return skip::skip(why);
    }
    let Some(text) = run("07-display") else { return };
    assert_says(&text, "the way of the pictures: ");
    for pane in ["picture", "map"] {
        assert_says(&text, &format!("\n{pane}: 100 shown, "));
    }
    assert_says(&text, " overtaken; now frame 99 of waves");
    // 99 × 2; the first colour of the map, and nearly its last.
    assert_says(&text, "left [198, 198, 198], right from [48, 18, 59] to [");
}

/// There is no screen for the tests, so that it draws into memory.
#[test]
fn window() {
    if let Err(why) = framelane_show::Display::offscreen(&framelane::device::Device::host()) {
        return skip::skip(why);
    }
    let Some(text) = run("08-window") else { return };
    assert_says(&text, "no window: there is no screen");
    assert_says(&text, " shown, ");
    assert_says(&text, "left of the divider [");
}

/// Two processes of it show on the display of a third.
#[cfg(target_os = "linux")]
#[test]
fn processes() {
    if let Err(why) = framelane_show::Display::offscreen(&framelane::device::Device::host()) {
        return skip::skip(why);
    }
    let Some(text) = run("09-processes") else { return };
    for name in ["left", "right"] {
        // Worker and display agree.
        let line = |start: String| {
            text.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{text}"))
        };
        let number =
            |line: &str| line.split(": ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
        let (there, here) = (line(format!("{name}: ")), line(format!("pane {name}: ")));
        assert_eq!(number(there), number(here), "{text}");
        assert!(there.contains(" of 30 pictures were drawn, by "), "{text}");
        assert!(here.ends_with(" drawn, ended: it was the last frame"), "{text}");
    }
}

#[test]
fn video() {
    let Some(text) = run("05-video") else { return };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 27, "{text}");
    for (n, line) in lines[..24].iter().enumerate() {
        assert_eq!(*line, format!("Batch {{ index: {n}, tensors: [u8[432×768×3]], .. }}"));
    }
    assert_says(&text, "24 batches in ");
}

/// What the README shows is what is compiled: by the documentation's tests of `framelane-show`, and as an example.
#[test]
fn the_readme_shows_what_is_compiled() {
    let readme = include_str!("../../../README.md");
    let mut shown = readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());

    let documentation = include_str!("../../framelane-show/src/lib.rs");
    let tested: String = documentation
        .lines()
        .skip_while(|line| *line != "//! ```")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .filter_map(|line| line.strip_prefix("//! "))
        .filter(|line| !line.starts_with("# "))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(shown.next(), Some(tested.as_str()));

    let (_about, code) = include_str!("../../../examples/05-video.rs").split_once("\n\n").unwrap();
    assert_eq!(shown.next(), Some(code));
}
