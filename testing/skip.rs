//! Saying that a test did not run, and why. Included by the tests of each crate that has such tests.
#![allow(dead_code, reason = "each crate names its tests in one of the two ways")]

use std::fmt::Display;
use std::io::Write;

/// Tells whoever watches, past the harness, and whoever counts: in the file that `FRAMELANE_SKIPPED` names. The
/// test is the one whose thread this is, unless the harness has been told to run tests on its own.
pub fn skip(reason: impl Display) {
    skip_named(std::thread::current().name().unwrap_or("a test"), reason);
}

/// As [`skip`], for a test, or a part of one, that is not called as its thread is.
pub fn skip_named(test: &str, reason: impl Display) {
    let line = format!("{test}: {reason}\n");
    // What standard error does not take is in the file.
    let _ = write!(std::io::stderr(), "skipped {line}");
    if let Some(report) = std::env::var_os("FRAMELANE_SKIPPED") {
        let report = std::fs::OpenOptions::new().append(true).create(true).open(report);
        // In one piece: other tests write, too.
        report
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("FRAMELANE_SKIPPED can be written");
    }
}
