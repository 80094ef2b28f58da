//! Results on their way to a pane: of a window here, where they are drawn from the device's own memory.

use super::pipeline::{Done, Job};
use super::stop::{Stop, Why};
use super::tally::Fate;
use framelane::device::Stream;
use framelane::frame::FrameMeta;
use framelane::stats::{Group, Stage};
use framelane::{Batch, Error, ErrorKind, Result};
use framelane_show::{Layout, Pace, Picture, Seen, Shown, TensorPane};
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// A pane, and when frames are due on it.
pub struct Screen {
    pane: TensorPane,
    /// Frames are shown when they are due, if they are a recording.
    pace: Option<Pace>,
}

impl Screen {
    /// `paced`: each frame at its time.
    pub fn new(pane: TensorPane, paced: bool) -> Self {
        Self { pane, pace: paced.then(Pace::new) }
    }

    /// Show each result when it is due, to the end, or until the pane is closed: then the run is stopped.
    ///
    /// # Errors
    /// Of the device, or a result that is no picture.
    pub fn show(mut self, jobs: &Receiver<Job>, stream: &Stream, group: &Group, stop: &Stop) -> Result<()> {
        for job in jobs {
            let Some(Done { meta, fate, output, before, permit }) = job.wait()? else { continue };
            let open = self.wait(&meta);
            if !open || self.place(&meta, &fate, &output, before.as_ref(), stream, group)? == Shown::Closed {
                fate.dropped("the window was closed");
                stop.request(Why::Window);
                break;
            }
            drop((output, before, permit));
        }
        Ok(())
    }

    /// Until the frame is due. `false`: the pane was closed.
    fn wait(&mut self, meta: &FrameMeta) -> bool {
        match (&mut self.pace, meta.pts) {
            (Some(pace), Some(pts)) => self.pane.wait_until(pace.due(pts, Instant::now())),
            _ => true,
        }
    }

    fn place(
        &self,
        meta: &FrameMeta,
        fate: &Fate,
        output: &Batch,
        before: Option<&Batch>,
        stream: &Stream,
        group: &Group,
    ) -> Result<Shown> {
        let view = output.on(stream)?;
        let mut picture = picture(view.tensors().next())?;
        let before = before.map(|batch| batch.on(stream)).transpose()?;
        if let Some(view) = &before {
            picture = picture.before(self::picture(view.tensors().next())?);
        }
        let (fate, captured) = (fate.clone(), meta.captured);
        let start = Instant::now();
        let shown = self.pane.show_then(stream, &picture, meta, move |seen| match seen {
            // What a minimised window took went out as well; the window counts it.
            Seen::Presented | Seen::Hidden => fate.out(captured.elapsed()),
            Seen::Overtaken => fate.dropped("replaced by a newer frame before the screen took it"),
            Seen::Closed => fate.dropped("the window was closed"),
        });
        group.busy(Stage::Sink, start.elapsed());
        shown
    }
}

fn picture(tensor: Option<framelane::TensorView<'_>>) -> Result<Picture<'_>> {
    let tensor = tensor.ok_or_else(|| Error::new(ErrorKind::Model, "the result has no picture"))?;
    Ok(Picture::new(tensor).layout(Layout::Hwc))
}
