//! `framelane window`: a window in which other processes show their frames.

use crate::args::WindowArgs;
use crate::console;
use crate::exit::{Ended, Failure, Outcome};
use crate::play;
use crate::signals;
use framelane::Error;
use framelane::device::Device;
use framelane::share::{Listener, check_window_name};
use framelane_show::{Window, WindowOptions, WindowReport};
use std::sync::{Arc, OnceLock};

/// Show what comes, until the window is closed.
pub fn run(args: &WindowArgs) -> Outcome {
    check_window_name(&args.name).map_err(Failure::Usage)?;
    let size = framelane_onnx::parse_size(&args.size).map_err(Failure::Usage)?;
    let options = WindowOptions {
        title: format!("framelane: {}", args.name),
        size: Some(size),
        notice: Some(format!("No pane yet: framelane play FILE --to socket:{}", args.name)),
        ..WindowOptions::default()
    };
    let mut window = Window::open(options, &Device::host()).map_err(no_window)?;
    let listener = Listener::bind(&args.name)?;
    console::say(&format!("listens     {}", listener.path().display()));
    console::say(&format!("adapter     {}", window.adapter()));
    window.listen(listener);
    let (handle, signal) = (window.handle(), Arc::new(OnceLock::new()));
    let asked = signal.clone();
    signals::listen(move |code| {
        let _ = asked.set(code);
        handle.close();
    })?;
    tell(&window.run()?);
    Ok(signal.get().map_or(Ended::Done, |&code| Ended::Signal(code)))
}

/// Why there is no window; a file is no way out here.
fn no_window(why: Error) -> Error {
    Error::new(why.kind(), format!("the window cannot be opened: {}", play::reason(&why))).because(why)
}

/// One line for each pane.
fn tell(report: &WindowReport) {
    for pane in &report.panes {
        let ended = pane.ended.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        let (name, path) = (&pane.name, &pane.path);
        console::say(&format!(
            "{name}: {} shown, {} dropped, {} hidden, by {path}{ended}",
            pane.presented, pane.dropped, pane.hidden
        ));
    }
}
