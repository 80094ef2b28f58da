//! Results on their way to a pane: of a window here, or of another process's. They are drawn from the device's own
//! memory, if they can be.

use super::pipeline::{Done, Job};
use super::stop::{Stop, Why};
use super::tally::Fate;
use framelane::device::Stream;
use framelane::frame::FrameMeta;
#[cfg(unix)]
use framelane::share as there;
use framelane::stats::{Group, Stage};
use framelane::{Error, ErrorKind, Result};
#[cfg(unix)]
use framelane_show::WorkerPane;
use framelane_show::{Layout, Pace, Picture, Seen, Shown, TensorPane};
use std::sync::mpsc::Receiver;
#[cfg(unix)]
use std::time::Duration;
use std::time::Instant;

/// A pane, and when frames are due on it.
pub struct Screen {
    place: Place,
    /// Frames are shown when they are due, if they are a recording.
    pace: Option<Pace>,
}

enum Place {
    Here(TensorPane),
    #[cfg(unix)]
    There(Box<There>),
}

/// Another process's pane.
#[cfg(unix)]
struct There {
    pane: WorkerPane,
    /// The frame shown last: the next one tells whether it was seen.
    last: Option<(Fate, Duration)>,
}

/// So long at most until it is noticed that the other process is gone, or that the run shall stop.
#[cfg(unix)]
const NOTICE: Duration = Duration::from_millis(50);

impl Screen {
    /// `paced`: each frame at its time.
    pub fn new(pane: TensorPane, paced: bool) -> Self {
        Self { place: Place::Here(pane), pace: paced.then(Pace::new) }
    }

    /// A pane of another process's window.
    #[cfg(unix)]
    pub fn there(pane: WorkerPane, paced: bool) -> Self {
        Self { place: Place::There(Box::new(There { pane, last: None })), pace: paced.then(Pace::new) }
    }

    /// Whether the picture that went into the network is wanted beside the result: another process's window has no
    /// place for it.
    pub fn wants_before(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    /// Show each result when it is due, to the end, or until the pane is closed: then the run is stopped.
    ///
    /// # Errors
    /// Of the device, or a result that is no picture.
    pub fn show(mut self, jobs: &Receiver<Job>, stream: &Stream, group: &Group, stop: &Stop) -> Result<()> {
        for job in jobs {
            let Some(done) = job.wait()? else { continue };
            let open = self.wait(&done.meta, stop)?;
            if !open || !self.place(&done, stream, group, stop)? {
                // Not if it was closed because the run is stopped: then the frame is unfinished.
                closed(&done.fate, stop);
                stop.request(Why::Window);
                break;
            }
        }
        #[cfg(unix)]
        if let Place::There(there) = &mut self.place {
            // The window keeps the last one.
            there.settle(true);
        }
        Ok(())
    }

    /// Until the frame is due. `false`: the pane was closed.
    fn wait(&mut self, meta: &FrameMeta, stop: &Stop) -> Result<bool> {
        let (Some(pace), Some(pts)) = (&mut self.pace, meta.pts) else { return Ok(true) };
        let due = pace.due(pts, Instant::now());
        match &mut self.place {
            Place::Here(pane) => Ok(pane.wait_until(due)),
            #[cfg(unix)]
            Place::There(there) => there.wait_until(due, stop),
        }
    }

    /// `false`: the pane was closed.
    fn place(&mut self, done: &Done, stream: &Stream, group: &Group, stop: &Stop) -> Result<bool> {
        let Done { meta, fate, output, before, .. } = done;
        let view = output.on(stream)?;
        let mut picture = picture(view.tensors().next())?;
        let before = before.as_ref().map(|batch| batch.on(stream)).transpose()?;
        if let Some(view) = &before {
            picture = picture.before(self::picture(view.tensors().next())?);
        }
        let start = Instant::now();
        let open = match &mut self.place {
            Place::Here(pane) => {
                let (fate, captured, stop) = (fate.clone(), meta.captured, stop.clone());
                let shown = pane.show_then(stream, &picture, meta, move |seen| match seen {
                    // What a minimised window took went out as well; the window counts it.
                    Seen::Presented | Seen::Hidden => fate.out(captured.elapsed()),
                    Seen::Overtaken => fate.dropped(REPLACED),
                    Seen::Closed => closed(&fate, &stop),
                });
                shown.map(|shown| shown != Shown::Closed)
            }
            #[cfg(unix)]
            Place::There(there) => there.show(stream, &picture, meta, fate),
        };
        group.busy(Stage::Sink, start.elapsed());
        open
    }
}

/// What is dropped because a signal ends the run is counted as unfinished when it is let go.
fn closed(fate: &Fate, stop: &Stop) {
    if !matches!(stop.why(), Some(Why::Signal(_))) {
        fate.dropped("the window was closed");
    }
}

const REPLACED: &str = "replaced by a newer frame before the screen took it";

#[cfg(unix)]
impl There {
    fn wait_until(&mut self, due: Instant, stop: &Stop) -> Result<bool> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(NOTICE));
            if stop.why().is_some() || !self.pane.is_open()? {
                return Ok(false);
            }
        }
    }

    fn show(
        &mut self,
        stream: &Stream,
        picture: &Picture<'_>,
        meta: &FrameMeta,
        fate: &Fate,
    ) -> Result<bool> {
        match self.pane.show(stream, picture, meta)? {
            there::Shown::Shown => self.settle(true),
            there::Shown::Replaced => self.settle(false),
            there::Shown::Dropped => {
                fate.dropped("the window had no room for it");
                return Ok(true);
            }
            there::Shown::Closed => return Ok(false),
        }
        self.last = Some((fate.clone(), meta.captured.elapsed()));
        Ok(true)
    }

    /// What became of the frame shown last.
    fn settle(&mut self, seen: bool) {
        match self.last.take() {
            Some((fate, age)) if seen => fate.out(age),
            Some((fate, _)) => fate.dropped(REPLACED),
            None => {}
        }
    }
}

fn picture(tensor: Option<framelane::TensorView<'_>>) -> Result<Picture<'_>> {
    let tensor = tensor.ok_or_else(|| Error::new(ErrorKind::Model, "the result has no picture"))?;
    Ok(Picture::new(tensor).layout(Layout::Hwc))
}
