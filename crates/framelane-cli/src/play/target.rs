//! Where results go: a file, a pane, or nowhere.

use super::readback::Picture;
use super::screen::Screen;
use framelane::Result;
use framelane::stats::{Group, Stage};
use framelane_media::{Sink, Summary};
use std::time::Instant;

/// Where results go.
pub enum Target {
    /// Frames are counted, their pixels stay on the device.
    Nowhere,
    /// A file, folder or pipe: pixels are read back into host memory.
    File(Box<dyn Sink>),
    /// A pane, which takes them from the device.
    Screen(Screen),
}

impl Target {
    /// Whether the picture that went into the network is wanted beside the result.
    pub fn wants_before(&self) -> bool {
        matches!(self, Self::Screen(screen) if screen.wants_before())
    }
}

/// Write one picture. Blocks until it is written.
///
/// # Errors
/// Of the file.
pub fn write(sink: &mut dyn Sink, picture: &Picture, rgb: &[u8], group: &Group) -> Result<()> {
    let start = Instant::now();
    let written = sink.write(rgb, picture.size, &picture.meta);
    group.busy(Stage::Sink, start.elapsed());
    written?;
    picture.fate.out(picture.meta.captured.elapsed());
    Ok(())
}

/// Finish the file.
///
/// # Errors
/// Of the file.
pub fn finish(sink: Box<dyn Sink>, group: &Group) -> Result<Summary> {
    let start = Instant::now();
    let summary = sink.finish();
    group.busy(Stage::Sink, start.elapsed());
    summary
}
