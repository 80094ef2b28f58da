//! What all of the process copies between host and device, for `residency`.

use crate::errors::{argument, raise};
use crate::panes::lock;
use framelane_cuda::activity;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Mutex;

/// What the process does on its GPUs is recorded by CUPTI: ``residency`` is the way to it.
#[pyclass(module = "framelane._native", frozen)]
pub struct Recording(Mutex<Option<activity::Recording>>);

/// Begin to record; ``near`` names files that may be CUPTI.
///
/// Raises
/// ------
/// UnsupportedError, DeviceError
///     CUPTI is not there, or refuses.
#[pyfunction]
pub fn record(py: Python<'_>, near: Vec<PathBuf>) -> PyResult<Recording> {
    let recording = py.detach(|| activity::Recording::start(&near)).map_err(|error| raise(error.into()))?;
    Ok(Recording(Mutex::new(Some(recording))))
}

#[pymethods]
impl Recording {
    /// Stop, wait for the devices, and tell what was copied and what this thread's time went to.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(recording) = lock(&self.0).take() else {
            return Err(argument("this recording is finished"));
        };
        let found = py.detach(|| recording.finish()).map_err(|error| raise(error.into()))?;
        let dict = PyDict::new(py);
        dict.set_item("others_to_device", found.to_device.others.bytes)?;
        dict.set_item("others_from_device", found.from_device.others.bytes)?;
        dict.set_item("others_copies", found.to_device.others.copies + found.from_device.others.copies)?;
        dict.set_item("copying_s", found.copying.as_secs_f64())?;
        dict.set_item("waiting_s", found.waiting.as_secs_f64())?;
        dict.set_item("kernels_s", found.kernels.as_secs_f64())?;
        dict.set_item("lost", found.lost)?;
        Ok(dict)
    }
}
