//! A ticket for a job that was submitted.

use crate::batch::Batch;
use crate::device::Event;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::FrameMeta;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How a job ended, once it has.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    failed: OnceLock<Option<Error>>,
}

impl Outcome {
    pub fn set(&self, result: Result<()>) {
        // Set once, by the one run of the job.
        let _ = self.failed.set(result.err());
    }
}

/// A job on its way, or done. Dropping the ticket gives its output up; the job is run all the same.
#[derive(Debug)]
pub struct Ticket {
    output: Batch,
    outcome: Arc<Outcome>,
}

impl Ticket {
    pub(super) fn new(output: Batch, outcome: Arc<Outcome>) -> Self {
        Self { output, outcome }
    }

    /// Number of the job in its lanes, from 0 in the order of submission.
    pub fn number(&self) -> u64 {
        self.output.index()
    }

    /// The frame, if the input was one.
    pub fn meta(&self) -> Option<&FrameMeta> {
        self.output.meta()
    }

    /// When the output is there.
    pub fn ready(&self) -> &Event {
        self.output.ready()
    }

    /// Whether the job is done or failed. Never waits.
    pub fn is_done(&self) -> bool {
        self.ready().is_done()
    }

    /// The output, to be read on streams, without waiting on the CPU. Whether the job failed is not known
    /// yet: [`Ticket::wait`] tells. The output of a failed job holds old bytes.
    pub fn fenced(self) -> Batch {
        self.output
    }

    /// Wait on the CPU until the job is done (counted as `"lanes: result"`), and take its output.
    ///
    /// # Errors
    /// Why this job failed, naming its frame.
    pub fn wait(self) -> Result<Batch> {
        self.output.ready().synchronize("lanes: result")?;
        self.finish()
    }

    /// As [`Ticket::wait`], at most for `limit`; then the ticket comes back.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn wait_for(self, limit: Duration) -> Result<std::result::Result<Batch, Ticket>> {
        match self.output.ready().synchronize_for("lanes: result", limit)? {
            true => self.finish().map(Ok),
            false => Ok(Err(self)),
        }
    }

    fn finish(self) -> Result<Batch> {
        match self.outcome.failed.get() {
            Some(None) => Ok(self.output),
            Some(Some(error)) => Err(error.clone()),
            None => Err(Error::new(
                ErrorKind::Device,
                format!("job {} was never run: its lane has stopped", self.number()),
            )),
        }
    }
}
