//! What a network must offer to be run in lanes: weights once, scratch memory per lane.

use crate::error::Result;
use crate::frame::FrameMeta;
use crate::stats::Stage;
use crate::tensor::TensorSpec;
use std::time::{Duration, Instant};

/// A network: its weights exist once, however many lanes run it.
pub trait Model: Send + Sync {
    /// A name for reports and errors (`"upscale.onnx"`).
    fn name(&self) -> &str;

    /// Shapes and types of the outputs for inputs of the given shapes and types. Called once for each
    /// new combination of inputs, before anything is allocated.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Model`] or [`crate::ErrorKind::Argument`] if the network cannot take such inputs;
    /// the sentence says what it takes.
    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>>;

    /// Scratch for one lane. Called once per lane, on the lane's thread.
    ///
    /// # Errors
    /// If the runtime could not make it.
    fn session(&self) -> Result<Box<dyn Session>>;
}

/// One lane's private state of a [`Model`]. Used by one thread, one job at a time.
pub trait Session: Send {
    /// Run the network: read all inputs, write all outputs completely.
    ///
    /// # Errors
    /// Fails this job alone; the session is used again for the next one.
    fn run(&mut self, job: &mut Job<'_>) -> Result<()>;
}

/// One run: its inputs, outputs and identity, with stopwatches for the report.
pub struct Job<'a> {
    /// Inputs, packed in C order, aligned to at least 16 bytes.
    pub inputs: &'a [(&'a TensorSpec, &'a [u8])],
    /// Outputs to fill, packed in C order, aligned to at least 16 bytes. They hold old bytes at first.
    pub outputs: &'a mut [(&'a TensorSpec, &'a mut [u8])],
    /// The frame, if the input is one.
    pub meta: Option<&'a FrameMeta>,
    timer: &'a mut JobTimes,
}

/// Time of one job that was not the network itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobTimes {
    /// Conversion to and from the network's own form.
    pub convert: Duration,
    /// Copies to and from the device that the network's runtime made by itself.
    pub copy: Duration,
}

impl<'a> Job<'a> {
    /// Put a job together (the lanes do this; tests and benchmarks may).
    pub fn new(
        inputs: &'a [(&'a TensorSpec, &'a [u8])],
        outputs: &'a mut [(&'a TensorSpec, &'a mut [u8])],
        meta: Option<&'a FrameMeta>,
        timer: &'a mut JobTimes,
    ) -> Self {
        Self { inputs, outputs, meta, timer }
    }

    /// Run `f` and count its time under `stage` ([`Stage::Convert`] or [`Stage::Copy`]) instead of under
    /// [`Stage::Network`]. What `f` times by itself is not counted twice.
    pub fn timed<R>(&mut self, stage: Stage, f: impl FnOnce(&mut Self) -> R) -> R {
        let (start, before) = (Instant::now(), self.timer.convert + self.timer.copy);
        let result = f(self);
        let inside = self.timer.convert + self.timer.copy - before;
        let time = start.elapsed().saturating_sub(inside);
        match stage {
            Stage::Copy => self.timer.copy += time,
            _ => self.timer.convert += time,
        }
        result
    }
}
