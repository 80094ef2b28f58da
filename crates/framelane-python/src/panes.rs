//! Panes of a display in memory or of a window: made with the device of the first array that is shown in them.

use crate::array::{self, Array};
use crate::devices;
use crate::dlpack::Place;
use crate::errors::raise;
use crate::forked::Own;
use crate::looks::{self, Looks};
use framelane::device::Stream;
use framelane::frame::FrameMeta;
use framelane::{Error, ErrorKind, Result};
use framelane_show::{Display, PaneOptions, PaneStatus, Shown, TensorPane, WindowHandle};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

// No code that can panic runs under these locks, so a poisoned one still holds good state.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What panes are made on.
pub enum Screen {
    Memory(Box<Mutex<Display>>),
    Window(WindowHandle),
}

impl Screen {
    fn pane(&self, name: &str, ordinal: Option<u32>) -> Result<TensorPane> {
        let device = devices::device(ordinal)?;
        match self {
            Self::Memory(display) => lock(display).pane(name, &device, &PaneOptions::default()),
            Self::Window(window) => window.pane(name, &device, &PaneOptions::default()),
        }
    }
}

/// One pane, made when the first array is shown.
pub struct Pane {
    screen: Arc<Own<Screen>>,
    name: Arc<str>,
    made: Mutex<Option<Made>>,
}

struct Made {
    pane: TensorPane,
    ordinal: Option<u32>,
    /// Where the last picture was made.
    last: Option<Stream>,
    shown: u64,
}

impl Pane {
    fn new(screen: Arc<Own<Screen>>, name: &str) -> Arc<Self> {
        Arc::new(Self { screen, name: name.into(), made: Mutex::default() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Take the arrays in, and show them without holding the interpreter.
    pub fn show(
        &self,
        tensor: &Bound<'_, PyAny>,
        before: Option<&Bound<'_, PyAny>>,
        looks: &Looks,
    ) -> PyResult<&'static str> {
        let array = array::take(tensor)?;
        let before = before.map(array::take).transpose()?;
        let shown = tensor.py().detach(|| self.show_now(array, before, looks)).map_err(raise)?;
        Ok(match shown {
            Shown::Shown => "shown",
            Shown::Replaced => "replaced",
            Shown::Closed => "closed",
        })
    }

    fn show_now(&self, array: Array, before: Option<Array>, looks: &Looks) -> Result<Shown> {
        let screen = self.screen.get()?;
        let mut made = lock(&self.made);
        let asked = match (array.foreign.place, before.as_ref().map(|before| before.foreign.place)) {
            (Place::Cuda(ordinal), _) | (Place::Host, Some(Place::Cuda(ordinal))) => Some(ordinal),
            (Place::Host, _) => made.as_ref().and_then(|made| made.ordinal),
        };
        let made = match &mut *made {
            Some(made) if made.ordinal == asked => made,
            Some(made) => return Err(self.another(made.ordinal, asked)),
            empty => match screen.pane(&self.name, asked) {
                Ok(pane) => empty.insert(Made { pane, ordinal: asked, last: None, shown: 0 }),
                Err(error) if error.kind() == ErrorKind::Closed => return Ok(Shown::Closed),
                Err(error) => return Err(error),
            },
        };
        let device = devices::device(asked)?;
        let stream = devices::stream(asked, array.stream.or_else(|| before.as_ref()?.stream))?;
        let meta = FrameMeta::new(self.name.clone(), made.shown);
        let arrays = (array.foreign, before.map(|before| before.foreign));
        let shown = looks::show(&device, &stream, arrays, looks, &meta, |stream, picture, meta| {
            made.pane.show(stream, picture, meta)
        })?;
        made.shown += 1;
        if !made.last.as_ref().is_some_and(|last| last.same(&stream)) {
            made.last = Some(stream);
        }
        Ok(shown)
    }

    fn another(&self, has: Option<u32>, asked: Option<u32>) -> Error {
        let (name, has, asked) = (&self.name, devices::name(has), devices::name(asked));
        let text = format!(
            "pane {name:?} was made for arrays of {has}, and one of {asked} came: show it in a pane of its own, win[\"…\"]"
        );
        Error::new(ErrorKind::Argument, text)
    }

    /// Wait until the pictures that were shown so far are there.
    pub fn settle(&self) -> Result<()> {
        let last = lock(&self.made).as_ref().and_then(|made| made.last.clone());
        last.map_or(Ok(()), |stream| stream.synchronize("the picture of a display"))
    }

    /// The way that pictures take; `None` before the first.
    pub fn path(&self) -> Option<String> {
        lock(&self.made).as_ref().map(|made| made.pane.path().to_owned())
    }
}

/// The panes of one display or window, in the order in which they were named.
pub struct Panes {
    pub screen: Arc<Own<Screen>>,
    all: Mutex<Vec<Arc<Pane>>>,
}

impl Panes {
    pub fn new(screen: Screen) -> Self {
        Self { screen: Arc::new(Own::new(screen)), all: Mutex::default() }
    }

    pub fn named(&self, name: &str) -> Arc<Pane> {
        let mut all = lock(&self.all);
        if let Some(pane) = all.iter().find(|pane| pane.name() == name) {
            return pane.clone();
        }
        let pane = Pane::new(self.screen.clone(), name);
        all.push(pane.clone());
        pane
    }

    pub fn all(&self) -> Vec<Arc<Pane>> {
        lock(&self.all).clone()
    }
}

/// A pane's figures, as a dict.
pub fn status<'py>(py: Python<'py>, pane: &PaneStatus) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &pane.name)?;
    dict.set_item("path", &pane.path)?;
    dict.set_item("shown", pane.shown)?;
    dict.set_item("presented", pane.presented)?;
    dict.set_item("dropped", pane.dropped)?;
    dict.set_item("hidden", pane.hidden)?;
    dict.set_item("host_copies", pane.host_copies)?;
    dict.set_item("ended", pane.ended.as_deref())?;
    Ok(dict)
}
