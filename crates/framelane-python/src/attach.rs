//! A worker process's pane in another process's window.

use crate::array::{self, Array};
use crate::devices;
use crate::dlpack::Place;
use crate::errors::raise;
use crate::forked::Own;
use crate::looks::{self, Looks};
use crate::panes::lock;
use framelane::frame::FrameMeta;
use framelane::share::{self, WorkerOptions, check_window_name};
use framelane::{Error, ErrorKind, Result};
use framelane_show::WorkerPane;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;
use std::time::Duration;

/// A pane in another process's window, as ``framelane.attach`` makes it.
///
/// Parameters
/// ----------
/// window
///     The name that the window listens by.
/// pane
///     What the pane is called there.
///
/// Raises
/// ------
/// ArgumentError
///     ``window`` cannot be a name.
#[pyclass(module = "framelane", frozen)]
pub struct Worker {
    window: String,
    name: String,
    made: Own<Mutex<State>>,
}

enum State {
    /// Nothing was shown so far.
    New,
    Attached(Box<WorkerPane>, Option<u32>, u64),
    /// It was ended here.
    Ended,
}

#[pymethods]
impl Worker {
    #[new]
    #[pyo3(signature = (window, pane="worker"))]
    fn new(window: &str, pane: &str) -> PyResult<Self> {
        check_window_name(window).map_err(raise)?;
        Ok(Self { window: window.to_owned(), name: pane.to_owned(), made: Own::new(Mutex::new(State::New)) })
    }

    /// Show an array in the other process's window. The first one attaches, and waits for the window's answer.
    ///
    /// Returns as soon as the array may be written again, as ``Window.show``, with the same arguments. All arrays are of
    /// the CPU, or of one CUDA device.
    ///
    /// Returns
    /// -------
    /// str
    ///     ``"shown"``; ``"replaced"``, if one shown before was not drawn and this one takes its place; ``"dropped"``, if
    ///     the window still holds all memory and this one was passed over; ``"closed"``, if the window is gone or the
    ///     pane was ended.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     With the first array: no window listens by that name.
    /// ArgumentError
    ///     The array cannot be shown.
    #[pyo3(signature = (tensor, *, layout=None, range=None, colours=None, bgr=false, mark=false))]
    fn show(
        &self,
        tensor: &Bound<'_, PyAny>,
        layout: Option<&str>,
        range: Option<(f32, f32)>,
        colours: Option<&str>,
        bgr: bool,
        mark: bool,
    ) -> PyResult<&'static str> {
        let looks = Looks::parse(layout, range, colours, bgr, mark)?;
        let array = array::take(tensor)?;
        let shown = tensor.py().detach(|| self.show_now(array, &looks)).map_err(raise)?;
        Ok(match shown {
            share::Shown::Shown => "shown",
            share::Shown::Replaced => "replaced",
            share::Shown::Dropped => "dropped",
            share::Shown::Closed => "closed",
        })
    }

    /// Wait until it is known what became of each picture that was shown.
    ///
    /// Parameters
    /// ----------
    /// timeout
    ///     At most so many seconds.
    ///
    /// Returns
    /// -------
    /// int
    ///     Of how many pictures it is not known.
    #[pyo3(signature = (timeout=1.0))]
    fn settle(&self, py: Python<'_>, timeout: f64) -> PyResult<usize> {
        let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::from_secs(1));
        self.with(py, |state| match state {
            State::Attached(pane, ..) => pane.settle(limit),
            State::New | State::Ended => Ok(0),
        })
    }

    /// End the pane.
    ///
    /// Parameters
    /// ----------
    /// why
    ///     What the window says of it.
    #[pyo3(signature = (why=""))]
    fn end(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        py.detach(|| {
            let state = std::mem::replace(&mut *lock(self.made.get()?), State::Ended);
            if let State::Attached(pane, ..) = state {
                pane.end(why);
            }
            Ok(())
        })
        .map_err(raise)
    }

    /// Whether pictures can be shown: not once the window is closed or the pane was ended.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| match state {
            State::New => Ok(true),
            State::Attached(pane, ..) => pane.is_open(),
            State::Ended => Ok(false),
        })
    }

    /// Whether the window went without a word: it was killed, or crashed.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| Ok(matches!(state, State::Attached(pane, ..) if pane.is_lost())))
    }

    /// The way that pictures take to the window; ``None`` before the first.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |state| match state {
            State::Attached(pane, ..) => Ok(Some(pane.path().to_owned())),
            State::New | State::Ended => Ok(None),
        })
    }

    /// What became of the pictures.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``shown``, how many were given to the window; ``drawn``, how many of them it drew; ``unseen``, how many it took
    ///     or passed over and did not draw; ``replaced``, how many a newer one took the place of; ``dropped``, how many were
    ///     never given; ``host_copies``, how many went through the CPU's memory. All are 0 once the pane was ended here.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let (counts, host_copies) = self.with(py, |state| match state {
            State::Attached(pane, ..) => Ok((pane.counts(), pane.host_copies())),
            State::New | State::Ended => Ok((share::WorkerCounts::default(), 0)),
        })?;
        dict.set_item("shown", counts.shown)?;
        dict.set_item("drawn", counts.drawn)?;
        dict.set_item("replaced", counts.replaced)?;
        dict.set_item("unseen", counts.unseen)?;
        dict.set_item("dropped", counts.dropped)?;
        dict.set_item("host_copies", host_copies)?;
        Ok(dict)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// End the pane; an exception that ends the block is what the window says of it.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let why = if kind.is_none() { String::new() } else { value.str()?.to_string_lossy().into_owned() };
        self.end(py, &why)
    }

    fn __repr__(&self) -> String {
        format!("Worker(window {:?}, pane {:?})", self.window, self.name)
    }
}

impl Worker {
    /// Without the interpreter: who shows holds the state, and may need it to let an array go.
    fn with<R: Send>(&self, py: Python<'_>, of: impl FnOnce(&mut State) -> Result<R> + Send) -> PyResult<R> {
        py.detach(|| of(&mut lock(self.made.get()?))).map_err(raise)
    }

    fn show_now(&self, array: Array, looks: &Looks) -> Result<share::Shown> {
        let mut state = lock(self.made.get()?);
        let asked = match (array.foreign.place, &*state) {
            (Place::Cuda(ordinal), _) => Some(ordinal),
            (Place::Host, State::Attached(_, ordinal, _)) => *ordinal,
            (Place::Host, _) => None,
        };
        let device = devices::device(asked)?;
        let shown = match &*state {
            State::New => 0,
            State::Attached(_, ordinal, _) if *ordinal != asked => {
                let (has, asked) = (devices::name(*ordinal), devices::name(asked));
                let text =
                    format!("pane {:?} was attached for arrays of {has}, and one of {asked} came", self.name);
                return Err(Error::new(ErrorKind::Argument, text));
            }
            State::Attached(.., shown) => *shown,
            State::Ended => return Ok(share::Shown::Closed),
        };
        let stream = devices::stream(asked, array.stream)?;
        let meta = FrameMeta::new(self.name.as_str(), shown);
        looks::show(&device, &stream, (array.foreign, None), looks, &meta, |stream, picture, meta| {
            if let State::New = *state {
                // With slots that fit it at once.
                let options = WorkerOptions::for_device(picture.size()?);
                let pane = WorkerPane::attach(&self.window, &self.name, &device, options)?;
                *state = State::Attached(Box::new(pane), asked, 0);
            }
            let State::Attached(pane, _, shown) = &mut *state else { return Ok(share::Shown::Closed) };
            let done = pane.show(stream, picture, meta)?;
            *shown += 1;
            Ok(done)
        })
    }
}
