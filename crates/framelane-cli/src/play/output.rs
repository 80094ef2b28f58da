//! Opening what results are shown in or written to.

use super::options::{Options, To};
use super::overwrite;
use super::playlist::Playlist;
use super::target::Target;
use framelane::Result;
use framelane::frame::ImageSize;
use framelane::ring::Policy;
use framelane_media::{Sink, SinkSpec, create};
use framelane_show::{Pane, Window, WindowOptions};
use std::path::Path;

/// Where results go without a screen.
const FALLBACK: &str = "framelane-out.mp4";

/// An output that is ready.
pub enum Output {
    Window { window: Box<Window>, pane: Pane, paced: bool },
    File(Box<dyn Sink>),
    Nowhere,
}

/// An output, and why it is not the first choice, if it is not.
pub struct Opened {
    pub output: Output,
    pub why: Option<String>,
}

/// Open what `--to` says, for pictures of `size`.
///
/// # Errors
/// Of the window, if one was asked for by name, and of files.
pub fn open(
    options: &Options,
    size: ImageSize,
    list: &Playlist,
    policy: Policy,
    paced: bool,
) -> Result<Opened> {
    let spec = SinkSpec::new(size, list.rate());
    let file = |target: &str| Ok::<_, framelane::Error>(Output::File(create(target, &spec)?));
    let opened = |output| Opened { output, why: None };
    match &options.to {
        To::Window => window(policy, list, paced).map(opened),
        To::None => Ok(opened(Output::Nowhere)),
        To::Stdout => file("-").map(opened),
        To::Path(path) => file(path).map(opened),
        To::Auto => match window(policy, list, paced) {
            Ok(window) => Ok(opened(window)),
            Err(why) => {
                // It may be what an earlier run has written.
                overwrite::refuse(options, Path::new(FALLBACK), "--to")?;
                Ok(Opened { output: file(FALLBACK)?, why: Some(format!("because {}", reason(&why))) })
            }
        },
    }
}

/// Why there is no window, without the advice to do what is done anyway.
pub fn reason(why: &framelane::Error) -> String {
    let why = why.to_string();
    let end = [" (write to a file", "; write to a file"].iter().filter_map(|advice| why.find(advice)).min();
    why[..end.unwrap_or(why.len())].to_owned()
}

fn window(policy: Policy, list: &Playlist, paced: bool) -> Result<Output> {
    let options = WindowOptions {
        title: format!("framelane: {}", framelane::feed::Source::name(list)),
        policy,
        close_at_end: true,
        ..WindowOptions::default()
    };
    let (window, pane) = Window::open(options)?;
    Ok(Output::Window { window: Box::new(window), pane, paced })
}

impl Output {
    /// For people, before the first frame.
    pub fn describe(&self) -> String {
        match self {
            Self::Window { .. } => {
                "a window (space pause, f full screen, s screenshot, b before/after, h all keys, q quit)"
                    .into()
            }
            Self::File(sink) => sink.describe(),
            Self::Nowhere => "none (frames are counted)".into(),
        }
    }

    /// The path that pictures take to the eye.
    pub fn path(&self) -> String {
        match self {
            Self::Window { window, .. } => window.path(),
            Self::File(_) => "none: written to a file".into(),
            Self::Nowhere => "none".into(),
        }
    }

    pub fn is_window(&self) -> bool {
        matches!(self, Self::Window { .. })
    }

    /// The end of the pipeline, and the window that the main thread must run.
    pub fn split(self) -> (Target, Option<Window>) {
        match self {
            Self::Window { window, pane, paced } => (Target::window(pane, paced), Some(*window)),
            Self::File(sink) => (Target::file(sink), None),
            Self::Nowhere => (Target::nowhere(), None),
        }
    }
}
