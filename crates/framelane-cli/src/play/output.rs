//! Opening what results are shown in or written to.

use super::options::{Options, To};
use super::overwrite;
use super::playlist::Playlist;
use super::screen::Screen;
use super::target::Target;
use framelane::Result;
use framelane::device::Device;
use framelane::frame::ImageSize;
use framelane::ring::Policy;
#[cfg(unix)]
use framelane::share::{WorkerOptions, pane_name};
use framelane_media::{Sink, SinkSpec, create};
#[cfg(unix)]
use framelane_show::WorkerPane;
use framelane_show::{PaneOptions, Window, WindowOptions};
use std::path::Path;

/// Where results go without a screen.
const FALLBACK: &str = "framelane-out.mp4";

/// An output that is ready.
pub enum Output {
    Window(Box<Window>),
    /// Another process's window, by its name.
    Socket(String),
    File(Box<dyn Sink>),
    Nowhere,
}

/// A window, if results go to one, or why not, if one would have been the first choice.
pub struct Opened {
    pub window: Option<Box<Window>>,
    pub why: Option<String>,
}

/// Open a window for pictures of `device`, if `--to` says so. `stays`: until the user closes it.
///
/// # Errors
/// Of the window, if one was asked for by name.
pub fn window(options: &Options, device: &Device, title: &str, stays: bool) -> Result<Opened> {
    let title = format!("framelane: {title}");
    let window = || {
        let options = WindowOptions { title, close_at_end: !stays, ..WindowOptions::default() };
        Window::open(options, device).map(Box::new)
    };
    Ok(match &options.to {
        To::Window => Opened { window: Some(window()?), why: None },
        To::Auto => match window() {
            Ok(window) => Opened { window: Some(window), why: None },
            Err(why) => Opened { window: None, why: Some(format!("because {}", reason(&why))) },
        },
        To::Socket(_) | To::None | To::Stdout | To::Path(_) => Opened { window: None, why: None },
    })
}

/// Open what else `--to` says, for pictures of `size`.
///
/// # Errors
/// Of files.
pub fn open(options: &Options, size: ImageSize, list: &Playlist) -> Result<Output> {
    let spec = SinkSpec::new(size, list.rate());
    let file = |target: &str| Ok(Output::File(create(target, &spec)?));
    match &options.to {
        To::None => Ok(Output::Nowhere),
        To::Socket(name) => Ok(Output::Socket(name.clone())),
        To::Stdout => file("-"),
        To::Path(path) => file(path),
        To::Window | To::Auto => {
            // It may be what an earlier run has written.
            overwrite::refuse(options, Path::new(FALLBACK), "--to")?;
            file(FALLBACK)
        }
    }
}

/// Why there is no window, without the advice to do what is done anyway.
pub fn reason(why: &framelane::Error) -> String {
    let why = why.to_string();
    let end = [" (write to a file", "; write to a file"].iter().filter_map(|advice| why.find(advice)).min();
    why[..end.unwrap_or(why.len())].to_owned()
}

impl Output {
    /// For people, before the first frame.
    pub fn describe(&self) -> String {
        match self {
            Self::Window(_) => {
                "a window (space pause, f full screen, s screenshot, b before/after, h all keys, q quit)"
                    .into()
            }
            Self::Socket(name) => format!("the window {name:?} of another process"),
            Self::File(sink) => sink.describe(),
            Self::Nowhere => "none (frames are counted)".into(),
        }
    }

    /// The path that pictures take to the eye.
    pub fn path(&self) -> String {
        match self {
            Self::Window(window) => window.handle().status().path(),
            Self::Socket(_) => "another process's".into(),
            Self::File(_) => "none: written to a file".into(),
            Self::Nowhere => "none".into(),
        }
    }

    /// Whether somebody watches.
    pub fn is_seen(&self) -> bool {
        matches!(self, Self::Window(_) | Self::Socket(_))
    }

    /// The ends of the pipelines, of which several go to a window alone, and the window that the main thread must run.
    ///
    /// # Errors
    /// Of the window's panes.
    pub fn split(self, device: &Device, runs: &[Run]) -> Result<(Vec<Target>, Option<Window>)> {
        Ok(match self {
            Self::Window(mut window) => {
                let pane = |run: &Run| {
                    // Fewer ahead of the screen for a recording: what waits there grows old.
                    let slots = if run.policy == Policy::Fifo { 4 } else { PaneOptions::default().slots };
                    let options = PaneOptions { policy: run.policy, slots };
                    Ok(Target::Screen(Screen::new(window.pane(&run.name, device, &options)?, run.paced)))
                };
                let targets = runs.iter().map(pane).collect::<Result<_>>()?;
                (targets, Some(*window))
            }
            #[cfg(unix)]
            Self::Socket(window) => {
                let pane = |run: &Run| {
                    let options = WorkerOptions::for_device(run.size);
                    let name = pane_name(&run.name);
                    let pane = WorkerPane::attach(&window, &name, device, options)?;
                    crate::console::say(&format!("{:<12}{name}: {}", "", pane.path()));
                    Ok(Target::Screen(Screen::there(&window, pane, run.paced)))
                };
                (runs.iter().map(pane).collect::<Result<_>>()?, None)
            }
            #[cfg(not(unix))]
            Self::Socket(_) => unreachable!("refused with the command line"),
            Self::File(sink) => (vec![Target::File(sink)], None),
            Self::Nowhere => (vec![Target::Nowhere], None),
        })
    }
}

/// What a pane must know of the frames that will come.
pub struct Run {
    pub name: String,
    pub size: ImageSize,
    pub policy: Policy,
    /// Each frame is shown at its time.
    pub paced: bool,
}
