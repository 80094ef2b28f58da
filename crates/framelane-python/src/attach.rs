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

/// A pane of another process's window, attached with the first array that is shown. True until the window is closed.
///
/// See `framelane.attach`.
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

    /// Show an image: an array or tensor of any library, on the CPU or on CUDA.
    ///
    /// Parameters
    /// ----------
    /// tensor
    ///     `uint8`, `float16`, `bfloat16` or `float32`; height × width × channels or channels × height × width, of 1, 3 or 4
    ///     channels, or height × width; may be strided.
    /// layout
    ///     `"hwc"` or `"chw"`, for shapes that can be read both ways.
    /// range
    ///     The numbers that are black and white; if nothing is said 0 and 255 for bytes, 0 and 1 for floats.
    /// colours
    ///     For one channel: `"grey"`, `"viridis"` or `"turbo"`.
    /// bgr
    ///     Blue comes first.
    /// mark
    ///     What is above the range is red, below it blue, NaN magenta.
    ///
    /// Returns
    /// -------
    /// str
    ///     `"shown"`; `"replaced"`, if an earlier picture was never seen; `"closed"`, if nobody looks any more; `"dropped"`, if the window holds
    ///     every slot.
    ///
    /// Notes
    /// -----
    /// A tensor on CUDA is read by one kernel on the stream that is current in its library (PyTorch, CuPy), or that its
    /// interface names; an array of the CPU is copied in the call. Both may be written again at once.
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

    /// Wait until it is known what became of each picture, at most for so many seconds: of how many it is not.
    #[pyo3(signature = (timeout=1.0))]
    fn settle(&self, py: Python<'_>, timeout: f64) -> PyResult<usize> {
        let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::from_secs(1));
        self.with(py, |state| match state {
            State::Attached(pane, ..) => pane.settle(limit),
            State::New | State::Ended => Ok(0),
        })
    }

    /// End the pane, and let the window say why.
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

    /// Whether pictures can be shown: `False` once the window is closed, or the pane was ended.
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

    /// The way that pictures take, in one line, and why it is not a better one; `None` before the first.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |state| match state {
            State::Attached(pane, ..) => Ok(Some(pane.path().to_owned())),
            State::New | State::Ended => Ok(None),
        })
    }

    /// What was counted so far: a dict with `shown`, `drawn` and `unseen` (by the window, as far as it is known), `replaced`, `dropped` and
    /// `host_copies`.
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
