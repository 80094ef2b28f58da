//! Counts of tests, read from what the test runners print, and the skips that tests report.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Outcome;

/// How many tests passed, failed and were skipped, with each skip's reason.
#[derive(Default)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    /// `test: reason`, one a skipped test.
    pub skipped: Vec<String>,
    /// Tests that passed and failed, each with a line of its own, since the last closing line of a harness.
    single: (usize, usize),
}

impl Tally {
    /// Counts one line of output. Test programs with Rust's harness end with a line of counts; those without
    /// are counted by their lines `test NAME ... ok` or `FAILED`, and by `skipped: REASON`.
    pub fn count(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.single = (0, 0);
            self.count_closing_line(counts);
        } else if line.starts_with("running ") {
            self.count_single_lines();
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            self.skipped.push(format!("tests: {reason}"));
        } else if let Some((name, result)) = line.strip_prefix("test ").and_then(|l| l.split_once(" ... ")) {
            if let Some(reason) = result.strip_prefix("ignored") {
                let reason = reason.trim_start_matches([',', ' ']);
                self.skipped.push(format!("{name}: {}", if reason.is_empty() { "ignored" } else { reason }));
            } else if result.starts_with("ok") {
                self.single.0 += 1;
            } else if result.starts_with("FAILED") {
                self.single.1 += 1;
            }
        }
    }

    /// Adds up what a program without the harness has printed; called at the end of each run.
    pub fn count_single_lines(&mut self) {
        let (passed, failed) = std::mem::take(&mut self.single);
        self.passed += passed;
        self.failed += failed;
    }

    /// `ok. 5 passed; 0 failed; 1 ignored; …`
    fn count_closing_line(&mut self, counts: &str) {
        let counts = counts.split_once(". ").map_or("", |(_, counts)| counts);
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((n, "passed")) => self.passed += n.parse::<usize>().unwrap_or(0),
                Some((n, "failed")) => self.failed += n.parse::<usize>().unwrap_or(0),
                _ => {}
            }
        }
    }

    /// Takes in the skips that tests wrote into the file of `FRAMELANE_SKIPPED`. The harness counted those
    /// tests as passed.
    pub fn take_reported_skips(&mut self, report: &str) {
        let mut skips: Vec<String> = report.lines().map(str::to_owned).filter(|l| !l.is_empty()).collect();
        skips.sort();
        skips.dedup();
        self.passed = self.passed.saturating_sub(skips.len());
        self.skipped.append(&mut skips);
    }

    /// The closing line, alone on its line and last.
    pub fn closing_line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len())
    }
}

/// The file into which tests write their skips, emptied.
pub fn skip_report(target: &Path) -> Result<PathBuf, String> {
    let path = target.join("xtask-skipped.txt");
    std::fs::create_dir_all(target)
        .and_then(|()| std::fs::write(&path, ""))
        .map_err(|e| format!("{} cannot be written: {e}", path.display()))?;
    Ok(path)
}

/// Named steps, each timed; a failing step does not keep the next ones from running.
pub struct Steps {
    started: Instant,
    done: Vec<(String, Duration, Outcome)>,
}

impl Steps {
    pub fn new() -> Self {
        Self { started: Instant::now(), done: Vec::new() }
    }

    pub fn run(&mut self, name: &str, step: impl FnOnce() -> Outcome) {
        println!("\n== {name}");
        let started = Instant::now();
        let outcome = step();
        let took = started.elapsed();
        match &outcome {
            Ok(()) => println!("== {name}: ok, {:.0} s", took.as_secs_f64()),
            Err(sentence) => println!("== {name}: FAILED, {:.0} s: {sentence}", took.as_secs_f64()),
        }
        self.done.push((name.to_owned(), took, outcome));
    }

    /// Prints the table of steps, then the skips, then the closing line.
    pub fn finish(self, tally: &Tally) -> Outcome {
        println!();
        for skip in &tally.skipped {
            println!("skipped {skip}");
        }
        let mut failed = Vec::new();
        for (name, took, outcome) in &self.done {
            println!(
                "{:>6.0} s  {:<6} {name}",
                took.as_secs_f64(),
                if outcome.is_ok() { "ok" } else { "FAILED" }
            );
            if let Err(sentence) = outcome {
                failed.push(format!("{name}: {sentence}"));
            }
        }
        println!("{:>6.0} s  in all", self.started.elapsed().as_secs_f64());
        for failure in &failed {
            println!("failed step: {failure}");
        }
        println!("{}", tally.closing_line());
        match failed.len() {
            0 if tally.failed == 0 => Ok(()),
            0 => Err(format!("{} tests failed", tally.failed)),
            1 => Err(failed.remove(0)),
            n => Err(format!("{n} steps failed; each is named above")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_added_up() {
        let mut tally = Tally::default();
        tally.count("running 5 tests");
        tally.count("test ring::keeps_order ... ok");
        tally.count(
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        tally.count("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(tally.closing_line(), "7 passed, 3 failed, 0 skipped");
    }

    #[test]
    fn programs_without_the_harness_are_counted_line_by_line() {
        let mut tally = Tally::default();
        for line in ["test opens ... ok (1.2 s)", "test closes ... FAILED (0.1 s)", "running 1 test"] {
            tally.count(line);
        }
        tally.count("test a ... ok");
        tally.count("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        tally.count("skipped: no Xvfb");
        tally.count("test last ... ok (0.3 s)");
        tally.count_single_lines();
        assert_eq!(tally.closing_line(), "3 passed, 1 failed, 1 skipped");
        assert_eq!(tally.skipped, ["tests: no Xvfb"]);
    }

    #[test]
    fn ignored_tests_are_skips_with_their_reason() {
        let mut tally = Tally::default();
        tally.count("test slow ... ignored, takes an hour");
        tally.count("test other ... ignored");
        assert_eq!(tally.skipped, ["slow: takes an hour", "other: ignored"]);
    }

    #[test]
    fn a_reported_skip_is_not_a_pass() {
        let mut tally = Tally { passed: 4, ..Tally::default() };
        tally.take_reported_skips("window: no Xvfb\n\nwindow: no Xvfb\nort: no library\n");
        assert_eq!(tally.closing_line(), "2 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn a_failed_step_fails_the_whole_but_not_the_next_step() {
        let mut steps = Steps::new();
        let mut ran = false;
        steps.run("first", || Err("broken".into()));
        steps.run("second", || {
            ran = true;
            Ok(())
        });
        assert!(ran);
        assert_eq!(steps.finish(&Tally::default()), Err("first: broken".into()));
    }
}
