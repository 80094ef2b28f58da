//! Results on their way to a pane: of a window here, or of another process's. They are drawn from the device's own
//! memory, if they can be.

use super::pipeline::{Done, Job};
use super::stop::{Stop, Why};
use super::tally::Fate;
use framelane::device::Stream;
use framelane::frame::FrameMeta;
use framelane::stats::{Group, Stage};
use framelane::{Error, ErrorKind, Result};
#[cfg(unix)]
use framelane_show::WorkerPane;
use framelane_show::{Layout, Pace, Picture, Seen, Shown, TensorPane};
use std::sync::OnceLock;
use std::sync::mpsc::Receiver;
#[cfg(unix)]
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// A pane, and when frames are due on it.
pub struct Screen {
    place: Place,
    /// Frames are shown when they are due, if they are a recording.
    pace: Option<Pace>,
}

enum Place {
    Here(TensorPane),
    /// Of another process's window, by its name.
    #[cfg(unix)]
    There(String, Box<WorkerPane>),
}

/// So long at most until it is noticed that the other process is gone, or that the run shall stop.
#[cfg(unix)]
const NOTICE: Duration = Duration::from_millis(50);
/// So long at most the end waits for another process's window to draw the last frames: a few refreshes.
#[cfg(unix)]
const LAST: Duration = Duration::from_millis(500);

impl Screen {
    /// `paced`: each frame at its time.
    pub fn new(pane: TensorPane, paced: bool) -> Self {
        Self { place: Place::Here(pane), pace: paced.then(Pace::new) }
    }

    /// A pane of another process's window of this name.
    #[cfg(unix)]
    pub fn there(window: &str, pane: WorkerPane, paced: bool) -> Self {
        Self { place: Place::There(window.to_owned(), Box::new(pane)), pace: paced.then(Pace::new) }
    }

    /// Whether the picture that went into the network is wanted beside the result: another process's window has no
    /// place for it.
    pub fn wants_before(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    /// Show each result when it is due, to the end, or until the pane is closed: then the run is stopped. The pane says why
    /// it ends, if that is an error: of this call, or what is in `broken` when no more results come.
    ///
    /// # Errors
    /// Of the device, a result that is no picture, another process's window that was killed.
    pub fn show(
        mut self,
        jobs: &Receiver<Job>,
        stream: &Stream,
        group: &Group,
        stop: &Stop,
        broken: &OnceLock<String>,
    ) -> Result<()> {
        let shown = self.show_all(jobs, stream, group, stop);
        let why = match &shown {
            Ok(()) => broken.get().cloned(),
            Err(error) => Some(error.to_string()),
        };
        // The pane's name stands beside it.
        let name = format!("{}: ", self.name());
        let why = why.map(|why| why.strip_prefix(&name).unwrap_or(&why).to_owned());
        match self.place {
            Place::Here(pane) => {
                if let Some(why) = &why {
                    pane.end(why);
                }
            }
            #[cfg(unix)]
            Place::There(_, mut pane) => {
                // Of what is not known then it is counted so; what else may be wrong was told.
                let _ = pane.settle(LAST);
                pane.end(why.as_deref().unwrap_or_default());
            }
        }
        shown
    }

    fn show_all(&mut self, jobs: &Receiver<Job>, stream: &Stream, group: &Group, stop: &Stop) -> Result<()> {
        while let Some(job) = self.next(jobs, stop)? {
            let Some(done) = job.wait()? else { continue };
            let open = self.wait(&done.meta, stop)?;
            if !open || !self.place(&done, stream, group, stop)? {
                // Not if it was closed because the run is stopped: then the frame is unfinished.
                closed(&done.fate, stop);
                if !is_asked(stop) {
                    self.check_lost()?;
                }
                stop.request(Why::Window);
                break;
            }
        }
        Ok(())
    }

    fn name(&self) -> &str {
        match &self.place {
            Place::Here(pane) => pane.name(),
            #[cfg(unix)]
            Place::There(_, pane) => pane.name(),
        }
    }

    /// The next result; `None`: no more come, or another process's window is gone, of which nobody tells.
    fn next(&mut self, jobs: &Receiver<Job>, stop: &Stop) -> Result<Option<Job>> {
        #[cfg(unix)]
        while let Place::There(_, pane) = &mut self.place {
            match jobs.recv_timeout(NOTICE) {
                Ok(job) => return Ok(Some(job)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if pane.is_open()? => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.check_lost()?;
                    stop.request(Why::Window);
                    return Ok(None);
                }
            }
        }
        #[cfg(not(unix))]
        let _ = stop;
        Ok(jobs.recv().ok())
    }

    /// A window that was closed is no error; one that was killed is.
    fn check_lost(&self) -> Result<()> {
        #[cfg(unix)]
        if let Place::There(window, pane) = &self.place
            && pane.is_lost()
        {
            let text = format!("the window {window} is gone without a word: it was killed, or crashed");
            return Err(Error::new(ErrorKind::Device, text));
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
            Place::There(_, pane) => wait_there(pane, due, stop),
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
        let (told, of, stop) = (fate.clone(), meta.captured, stop.clone());
        let start = Instant::now();
        let open = match &mut self.place {
            Place::Here(pane) => pane
                .show_then(stream, &picture, meta, move |seen| tell(&told, seen, of.elapsed(), &stop))
                .map(|shown| shown != Shown::Closed),
            #[cfg(unix)]
            Place::There(_, pane) => pane
                .show_then(stream, &picture, meta, move |seen, age| tell(&told, seen, age, &stop))
                .map(|shown| shown != framelane::share::Shown::Closed),
        };
        group.busy(Stage::Sink, start.elapsed());
        open
    }
}

/// What the window says of a frame.
fn tell(fate: &Fate, seen: Seen, age: Duration, stop: &Stop) {
    match seen {
        // What a minimised window took went out as well; the window counts it.
        Seen::Presented | Seen::Hidden => fate.out(age),
        Seen::Overtaken => fate.dropped("replaced by a newer frame before the screen took it"),
        Seen::Refused => fate.dropped("the window did not take it"),
        Seen::Closed => closed(fate, stop),
        Seen::Left if is_signalled(stop) => {}
        Seen::Left => fate.dropped("left with the window, which had not drawn it when the run ended"),
    }
}

/// What is dropped because a signal ends the run is counted as unfinished when it is let go.
fn closed(fate: &Fate, stop: &Stop) {
    if !is_signalled(stop) {
        fate.dropped("the window was closed");
    }
}

/// Whether somebody wants the run to end. (After a failure what came before it is still shown.)
fn is_asked(stop: &Stop) -> bool {
    matches!(stop.why(), Some(Why::Signal(_) | Why::Window))
}

fn is_signalled(stop: &Stop) -> bool {
    matches!(stop.why(), Some(Why::Signal(_)))
}

#[cfg(unix)]
fn wait_there(pane: &mut WorkerPane, due: Instant, stop: &Stop) -> Result<bool> {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(true);
        }
        std::thread::sleep(left.min(NOTICE));
        if is_asked(stop) || !pane.is_open()? {
            return Ok(false);
        }
    }
}

fn picture(tensor: Option<framelane::TensorView<'_>>) -> Result<Picture<'_>> {
    let tensor = tensor.ok_or_else(|| Error::new(ErrorKind::Model, "the result has no picture"))?;
    Ok(Picture::new(tensor).layout(Layout::Hwc))
}
