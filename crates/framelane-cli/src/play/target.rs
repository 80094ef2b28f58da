//! Where results go: a window, a file, or nowhere.

use super::readback::Picture;
use super::tally::Fate;
use framelane::Result;
use framelane::stats::{Group, Stage};
use framelane_media::{Sink, Summary};
use framelane_show::{Frame, Pace, Pane, Shown};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where results go.
pub struct Target {
    place: Place,
    group: Option<Arc<Group>>,
}

enum Place {
    Nowhere,
    File(Box<dyn Sink>),
    Window(Screen),
}

/// A window's pane, and what is not yet known about the last frame.
struct Screen {
    pane: Pane,
    /// Frames are shown when they are due, if they are a recording.
    pace: Option<Pace>,
    /// The frame shown last: the next one tells whether it was seen.
    last: Option<(Fate, Duration)>,
}

impl Target {
    /// Frames are counted, their pixels stay on the device.
    pub fn nowhere() -> Self {
        Self { place: Place::Nowhere, group: None }
    }

    /// A file, folder or pipe.
    pub fn file(sink: Box<dyn Sink>) -> Self {
        Self { place: Place::File(sink), group: None }
    }

    /// A window; `paced`: each frame at its time.
    pub fn window(pane: Pane, paced: bool) -> Self {
        let screen = Screen { pane, pace: paced.then(Pace::new), last: None };
        Self { place: Place::Window(screen), group: None }
    }

    /// Count the target's time in `group`.
    pub fn timed(self, group: Arc<Group>) -> Self {
        Self { group: Some(group), ..self }
    }

    /// Whether pictures must be read back from the device.
    pub fn wants_pictures(&self) -> bool {
        !matches!(self.place, Place::Nowhere)
    }

    /// Whether the picture that went into the network is wanted beside the result.
    pub fn wants_before(&self) -> bool {
        matches!(self.place, Place::Window(_))
    }

    /// Write or show one picture. Blocks until it is written; in a window, until it is due and the one before
    /// was taken. `false`: the window is closed.
    ///
    /// # Errors
    /// Of the file or the window.
    pub fn write(&mut self, picture: &Picture, rgb: &[u8], before: Option<&[u8]>) -> Result<bool> {
        match &mut self.place {
            Place::Nowhere => {}
            Place::File(sink) => {
                let start = Instant::now();
                let written = sink.write(rgb, picture.size, &picture.meta);
                busy(&self.group, start);
                written?;
                picture.fate.out(picture.meta.captured.elapsed());
            }
            Place::Window(screen) => return screen.show(picture, rgb, before, &self.group),
        }
        Ok(true)
    }

    /// Finish the file, or say that no frame follows.
    ///
    /// # Errors
    /// Of the file.
    pub fn finish(self) -> Result<Option<Summary>> {
        match self.place {
            Place::Nowhere => Ok(None),
            Place::File(sink) => {
                let start = Instant::now();
                let summary = sink.finish();
                busy(&self.group, start);
                summary.map(Some)
            }
            Place::Window(mut screen) => {
                if let Some((fate, age)) = screen.last.take() {
                    if screen.pane.is_closed() {
                        fate.dropped("the window was closed");
                    } else {
                        fate.out(age);
                    }
                }
                Ok(None)
            }
        }
    }
}

fn busy(group: &Option<Arc<Group>>, start: Instant) {
    if let Some(group) = group {
        group.busy(Stage::Sink, start.elapsed());
    }
}

impl Screen {
    fn show(
        &mut self,
        picture: &Picture,
        rgb: &[u8],
        before: Option<&[u8]>,
        group: &Option<Arc<Group>>,
    ) -> Result<bool> {
        if let (Some(pace), Some(pts)) = (&mut self.pace, picture.meta.pts)
            && !self.pane.wait_until(pace.due(pts, Instant::now()))
        {
            picture.fate.dropped("the window was closed");
            return Ok(false);
        }
        let frame =
            Frame { rgb, size: picture.size, meta: &picture.meta, before: before.zip(picture.before) };
        let start = Instant::now();
        let shown = self.pane.show(frame);
        busy(group, start);
        let last = self.last.take();
        match shown? {
            Shown::Shown => {
                if let Some((fate, age)) = last {
                    fate.out(age);
                }
            }
            Shown::Replaced => {
                if let Some((fate, _)) = last {
                    fate.dropped("replaced by a newer frame before the screen took it");
                }
            }
            Shown::Closed => {
                for fate in last.map(|(fate, _)| fate).iter().chain([&picture.fate]) {
                    fate.dropped("the window was closed");
                }
                return Ok(false);
            }
        }
        self.last = Some((picture.fate.clone(), picture.meta.captured.elapsed()));
        Ok(true)
    }
}
