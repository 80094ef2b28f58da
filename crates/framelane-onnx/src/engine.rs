//! One face for the runtimes: a network with its weights, and lanes that run it.

use crate::elements::{Elements, ElementsMut};
use crate::ort_engine::{OrtLane, OrtNet};
use crate::tract_engine::{TractLane, TractNet};
use framelane::Result;
use std::sync::Arc;

/// A loaded network. Its weights exist once; lanes share them.
pub(crate) enum Engine {
    Tract(Arc<TractNet>),
    Ort(Arc<OrtNet>),
}

/// One lane's tensors and scratch. The shape may change from run to run; a shape seen before costs nothing.
pub(crate) enum EngineLane {
    Tract(TractLane),
    Ort(OrtLane),
}

impl Engine {
    /// Shape of the shown output for an input of the given shape.
    pub fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        match self {
            Self::Tract(net) => net.output_shape(input),
            Self::Ort(net) => net.output_shape(input),
        }
    }

    pub fn lane(&self) -> EngineLane {
        match self {
            Self::Tract(net) => EngineLane::Tract(TractLane::new(Arc::clone(net))),
            Self::Ort(net) => EngineLane::Ort(OrtLane::new(Arc::clone(net))),
        }
    }
}

impl EngineLane {
    /// The input tensor of the next run, holding old numbers.
    pub fn input(&mut self, shape: &[usize]) -> Result<ElementsMut<'_>> {
        match self {
            Self::Tract(lane) => lane.input(shape),
            Self::Ort(lane) => lane.input(shape),
        }
    }

    /// Run the network on the input tensor. No lock is held meanwhile.
    pub fn run(&mut self) -> Result<()> {
        match self {
            Self::Tract(lane) => lane.run(),
            Self::Ort(lane) => lane.run(),
        }
    }

    /// Shape and numbers of the last run's output.
    pub fn output(&self) -> Result<(&[usize], Elements<'_>)> {
        match self {
            Self::Tract(lane) => lane.output(),
            Self::Ort(lane) => lane.output(),
        }
    }
}
