//! The terminal: lines on standard error that do not tear a progress bar, standard output that may be a closed
//! pipe, warnings of the libraries, and the last words of a panic.

use indicatif::ProgressBar;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bar on the screen, if there is one.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn bar() -> MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pass the libraries' warnings on, and make one sentence of a panic.
pub fn install() {
    // Fails only if a logger was set before, which nobody does.
    let _ = log::set_logger(&Warnings);
    log::set_max_level(log::LevelFilter::Warn);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            report(panic);
        }
        // Panics of library threads are caught there and become errors of the run, which are printed in their
        // turn; a panic of the main thread ends the program.
        if std::thread::current().name() == Some("main") {
            let text = panic.payload_as_str().unwrap_or("something that is not text");
            let at = panic.location().map(|l| format!(" at {l}")).unwrap_or_default();
            say(&format!("framelane: a mistake in framelane itself ({text}{at}): please report it"));
        }
    }));
}

/// Print a line on standard error, above the progress bar. A standard error that is closed is no reason to stop.
pub fn say(line: &str) {
    let print = || {
        let _ = writeln!(io::stderr(), "{line}");
    };
    // Held while printing, so that no bar appears in the middle of it. The hook of a panic inside must not wait.
    match BAR.try_lock() {
        Ok(bar) => match &*bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        },
        Err(_) => print(),
    }
}

/// Print text on standard output: results that were asked for. A reader that went away (`| head`) is content.
///
/// # Errors
/// What the system says, for example that the disk is full.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Whether standard error is a terminal that can redraw a line.
pub fn is_live() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether colours may be used on standard error.
pub fn has_colours() -> bool {
    is_live() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}

/// Show a bar below the lines, or none.
pub fn set_bar(new: Option<ProgressBar>) {
    if let Some(old) = std::mem::replace(&mut *bar(), new) {
        old.finish_and_clear();
    }
}

/// Warnings of framelane's own crates. Those of foreign ones (graphics drivers, codecs) are for developers.
struct Warnings;

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn && metadata.target().starts_with("framelane")
    }
    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            say(&format!("warning     {}", record.args()));
        }
    }
    fn flush(&self) {}
}
