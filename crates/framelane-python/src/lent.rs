//! The main thread, lent to windows by `framelane.run`.

use crate::errors::raise;
use crate::window_thread::{self, Served};
use pyo3::prelude::*;

/// A thread that is lent to windows: ``framelane.run`` is the way to it.
#[pyclass(module = "framelane._native", frozen)]
pub struct Lent(window_thread::Lent);

/// Lend this thread to the process's windows; ``None`` if they have a thread already.
///
/// Raises
/// ------
/// ArgumentError
///     Another thread was lent before.
#[pyfunction]
pub fn lend() -> PyResult<Option<Lent>> {
    Ok(window_thread::lend().map_err(raise)?.map(Lent))
}

#[pymethods]
impl Lent {
    /// Show windows until the thread is taken back. ``False`` if it only looked for signals.
    fn serve(&self, py: Python<'_>) -> PyResult<bool> {
        let served = py.detach(|| self.0.serve());
        py.check_signals()?;
        Ok(served == Served::Ended)
    }

    /// Have ``serve`` return to look for signals; ``close`` closes the window that is open.
    fn look(&self, py: Python<'_>, close: bool) {
        py.detach(|| self.0.look(close));
    }

    /// Take the thread back. The window that is open is closed.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.0.end());
    }
}
