//! Saying that a test did not run, and why.

use std::io::Write;

/// Tells whoever watches, past the harness, and whoever counts: in the file that `FRAMELANE_SKIPPED` names. The
/// test is the one whose thread this is, unless the harness has been told to run tests on its own.
pub fn skip(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    // What standard error does not take is in the file.
    let _ = write!(std::io::stderr(), "skipped {line}");
    if let Some(report) = std::env::var_os("FRAMELANE_SKIPPED") {
        let report = std::fs::OpenOptions::new().append(true).create(true).open(report);
        report
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("FRAMELANE_SKIPPED can be written");
    }
}
