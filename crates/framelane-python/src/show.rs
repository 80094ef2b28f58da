//! `Offscreen`, `Window` and their panes.

use crate::devices;
use crate::errors::{NoScreenError, argument, leaving, raise};
use crate::forked::Own;
use crate::looks::Looks;
use crate::panes::{self, Pane, Panes, Screen, lock};
use crate::tensor::Tensor;
use crate::window_thread::{self, Opened};
use framelane::frame::ImageSize;
use framelane::tensor::{DType, TensorSpec};
use framelane::{Error, ErrorKind};
use framelane_show::{Display, WindowOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The pane that `show` means if none is named.
const FIRST: &str = "picture";

/// Width and height that a picture can have.
fn size(width: usize, height: usize) -> PyResult<ImageSize> {
    ImageSize::new(width, height).map_err(raise)
}

/// One pane of a display or a window: `win["left"]`. It appears with the first array that is shown in it.
#[pyclass(name = "Pane", module = "framelane", frozen)]
pub struct PyPane(Arc<Pane>);

#[pymethods]
impl PyPane {
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
    /// before
    ///     What it was before the network: seen left of the window's divider (`b`).
    ///
    /// Returns
    /// -------
    /// str
    ///     `"shown"`; `"replaced"`, if an earlier picture was never seen; `"closed"`, if nobody looks any more.
    ///
    /// Notes
    /// -----
    /// A tensor on CUDA is read by one kernel on the stream that is current in its library (PyTorch, CuPy), or that its
    /// interface names; an array of the CPU is copied in the call. Both may be written again at once.
    #[pyo3(signature = (tensor, *, layout=None, range=None, colours=None, bgr=false, mark=false, before=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn show(
        &self,
        tensor: &Bound<'_, PyAny>,
        layout: Option<&str>,
        range: Option<(f32, f32)>,
        colours: Option<&str>,
        bgr: bool,
        mark: bool,
        before: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<&'static str> {
        self.0.show(tensor, before, &Looks::parse(layout, range, colours, bgr, mark)?)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The way that pictures take, in one line, and why it is not a better one; `None` before the first.
    #[getter]
    fn path(&self, py: Python<'_>) -> Option<String> {
        // Who shows holds the pane, and may need the interpreter to let an array go.
        py.detach(|| self.0.path())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let path = self.path(py);
        format!("Pane({:?}, {})", self.0.name(), path.as_deref().unwrap_or("nothing shown so far"))
    }
}

/// A display in memory, which needs no screen.
///
/// Parameters
/// ----------
/// width, height
///     Of what is drawn, in pixels. Panes share it.
/// device
///     The CUDA device whose GPU draws (`"cuda:1"`); if nothing is said, the first there is, or else the best adapter.
#[pyclass(module = "framelane", frozen)]
pub struct Offscreen {
    panes: Panes,
    size: ImageSize,
    adapter: String,
}

impl Offscreen {
    fn display<R: Send>(
        &self,
        py: Python<'_>,
        of: impl FnOnce(&mut Display) -> framelane::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| match self.panes.screen.get()? {
            Screen::Memory(display) => of(&mut lock(display)),
            Screen::Window(_) => Err(Error::new(ErrorKind::Argument, "a window is no display in memory")),
        })
        .map_err(raise)
    }

    /// What the display looks like now: u8, height × width × 3.
    fn read(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let (panes, size) = (self.panes.all(), self.size);
        self.panes.screen.get().map_err(raise)?;
        // Before the display is locked, which who shows a first picture waits for with its pane locked.
        py.detach(|| panes.iter().try_for_each(|pane| pane.settle())).map_err(raise)?;
        self.display(py, |display| {
            display.present(size)?;
            Ok(display.read()?.unwrap_or_default())
        })
    }
}

#[pymethods]
impl Offscreen {
    #[new]
    #[pyo3(signature = (width, height, *, device=None))]
    fn new(py: Python<'_>, width: usize, height: usize, device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let (size, gpu) = (size(width, height)?, devices::uuid(device)?);
        let display = py.detach(|| Display::offscreen_on(gpu)).map_err(raise)?;
        let adapter = display.adapter().to_string();
        Ok(Self { panes: Panes::new(Screen::Memory(Box::new(display.into()))), size, adapter })
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
    /// before
    ///     What it was before the network: seen left of the window's divider (`b`).
    ///
    /// Returns
    /// -------
    /// str
    ///     `"shown"`; `"replaced"`, if an earlier picture was never seen; `"closed"`, if nobody looks any more.
    ///
    /// Notes
    /// -----
    /// A tensor on CUDA is read by one kernel on the stream that is current in its library (PyTorch, CuPy), or that its
    /// interface names; an array of the CPU is copied in the call. Both may be written again at once.
    #[pyo3(signature = (tensor, *, layout=None, range=None, colours=None, bgr=false, mark=false, before=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn show(
        &self,
        tensor: &Bound<'_, PyAny>,
        layout: Option<&str>,
        range: Option<(f32, f32)>,
        colours: Option<&str>,
        bgr: bool,
        mark: bool,
        before: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<&'static str> {
        self.panes.named(FIRST).show(tensor, before, &Looks::parse(layout, range, colours, bgr, mark)?)
    }

    fn __getitem__(&self, name: &str) -> PyPane {
        PyPane(self.panes.named(name))
    }

    /// Wait for what was shown, draw it, and read it back (counted in `readbacks`): uint8, height × width × 4.
    fn image(&self, py: Python<'_>) -> PyResult<Tensor> {
        let rgb = self.read(py)?;
        let rgba = rgb.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [r, g, b, 255]).collect();
        Ok(Tensor::of_host(TensorSpec::new(DType::U8, [self.size.height, self.size.width, 4]), rgba))
    }

    /// As `image`, written to a file: PNG or JPEG, by its name.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let rgb = self.read(py)?;
        let ImageSize { width, height } = self.size;
        let saved = py.detach(|| {
            image::save_buffer(&path, &rgb, width as u32, height as u32, image::ExtendedColorType::Rgb8)
        });
        saved.map_err(|error| {
            let text = format!("{} cannot be written: {error}", path.display());
            raise(Error::new(ErrorKind::Io, text).because(error))
        })
    }

    /// What each pane showed so far: a dict each, with `name`, `path`, `shown`, `presented`, `dropped`, `hidden`,
    /// `host_copies` and `ended`.
    fn panes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.display(py, |display| Ok(display.panes()))?;
        PyList::new(py, all.iter().map(|pane| panes::status(py, pane)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Width and height, in pixels.
    #[getter]
    fn size(&self) -> (usize, usize) {
        (self.size.width, self.size.height)
    }

    /// The graphics adapter that draws.
    #[getter]
    fn adapter(&self) -> &str {
        &self.adapter
    }

    /// How often something was read back into memory of the host.
    #[getter]
    fn readbacks(&self, py: Python<'_>) -> PyResult<u64> {
        self.display(py, |display| Ok(display.readbacks()))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(&self, _kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _trace: &Bound<'_, PyAny>) {}

    fn __repr__(&self) -> String {
        format!("Offscreen({}, {}, {})", self.size.width, self.size.height, self.adapter)
    }
}

/// A window, on a thread of its own. True until it is closed: by the user (`q`), by `close`, or at the end of its `with`.
///
/// A process has one at a time. In it `space` pauses, the wheel magnifies, `b` splits before and after, `s` saves a
/// screenshot, `h` lists all keys.
///
/// Parameters
/// ----------
/// title
///     What the title bar says.
/// size
///     Width and height: open at once. Otherwise with the first picture, sized for it.
/// device
///     The CUDA device whose GPU draws, if it can show windows here; if nothing is said, the first there is.
/// listen
///     A name by which other processes find it (`framelane.attach`).
///
/// Raises
/// ------
/// NoScreenError
///     Without a screen: `Offscreen` needs none.
#[pyclass(module = "framelane", frozen)]
pub struct Window {
    panes: Panes,
    opened: Own<Opened>,
    title: String,
}

#[pymethods]
impl Window {
    #[new]
    #[pyo3(signature = (title="framelane", *, size=None, device=None, listen=None))]
    fn new(
        py: Python<'_>,
        title: &str,
        size: Option<(usize, usize)>,
        device: Option<&Bound<'_, PyAny>>,
        listen: Option<&str>,
    ) -> PyResult<Self> {
        let size = size.map(|(width, height)| self::size(width, height)).transpose()?;
        let (gpu, options) = (
            devices::uuid(device)?,
            WindowOptions {
                title: title.to_owned(),
                size,
                notice: listen.map(|name| format!("No pane yet: framelane.attach({name:?})")),
                ..WindowOptions::default()
            },
        );
        let opened = py.detach(|| window_thread::open(options, gpu, listen)).map_err(no_screen)?;
        let panes = Panes::new(Screen::Window(opened.handle.clone()));
        Ok(Self { panes, opened: Own::new(opened), title: title.to_owned() })
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
    /// before
    ///     What it was before the network: seen left of the window's divider (`b`).
    ///
    /// Returns
    /// -------
    /// str
    ///     `"shown"`; `"replaced"`, if an earlier picture was never seen; `"closed"`, if nobody looks any more.
    ///
    /// Notes
    /// -----
    /// A tensor on CUDA is read by one kernel on the stream that is current in its library (PyTorch, CuPy), or that its
    /// interface names; an array of the CPU is copied in the call. Both may be written again at once.
    #[pyo3(signature = (tensor, *, layout=None, range=None, colours=None, bgr=false, mark=false, before=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn show(
        &self,
        tensor: &Bound<'_, PyAny>,
        layout: Option<&str>,
        range: Option<(f32, f32)>,
        colours: Option<&str>,
        bgr: bool,
        mark: bool,
        before: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<&'static str> {
        self.panes.named(FIRST).show(tensor, before, &Looks::parse(layout, range, colours, bgr, mark)?)
    }

    fn __getitem__(&self, name: &str) -> PyPane {
        PyPane(self.panes.named(name))
    }

    /// Whether it is not closed.
    fn __bool__(&self) -> bool {
        self.opened.get().is_ok_and(|opened| !opened.is_over())
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        !self.__bool__()
    }

    /// The keys that were pressed in the window since this was asked last, 64 at most: the text of each, or the name of one
    /// without (`ArrowLeft`, `Escape`, `Space`).
    fn keys(&self) -> PyResult<Vec<String>> {
        Ok(self.opened.get().map_err(raise)?.handle.take_keys())
    }

    /// Close it, and wait until it is gone.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let opened = self.opened.get().map_err(raise)?;
        py.detach(|| opened.close()).map_err(raise)
    }

    /// Wait until it is closed, at most for so many seconds. Whether it is.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        const LOOK: Duration = Duration::from_millis(100);
        let opened = self.opened.get().map_err(raise)?;
        let limit = match timeout {
            None => None,
            Some(seconds) => Some(
                Duration::try_from_secs_f64(seconds)
                    .map_err(|_| argument(format!("timeout cannot be {seconds}: give seconds")))?,
            ),
        };
        let start = std::time::Instant::now();
        loop {
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(start.elapsed()).min(LOOK));
            if py.detach(|| opened.wait(left)).map_err(raise)? {
                return Ok(true);
            }
            py.check_signals()?;
            if limit.is_some_and(|limit| start.elapsed() >= limit) {
                return Ok(false);
            }
        }
    }

    /// What the window looks like now: a dict with `open`, `size`, `paused`, `full_screen`, `path`, `drawn`, `readbacks` and
    /// `panes`, as `Offscreen.panes` gives them.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = self.opened.get().map_err(raise)?.handle.status();
        let dict = PyDict::new(py);
        dict.set_item("open", status.open)?;
        dict.set_item("size", status.size)?;
        dict.set_item("paused", status.paused)?;
        dict.set_item("full_screen", status.full_screen)?;
        dict.set_item("path", status.path())?;
        dict.set_item("drawn", status.drawn)?;
        dict.set_item("readbacks", status.readbacks)?;
        let all = status.panes.iter().map(|pane| panes::status(py, pane)).collect::<PyResult<Vec<_>>>()?;
        dict.set_item("panes", all)?;
        Ok(dict)
    }

    /// What the title bar says before rate and age.
    #[getter]
    fn title(&self) -> &str {
        &self.title
    }

    /// The graphics adapter that draws.
    #[getter]
    fn adapter(&self) -> PyResult<&str> {
        Ok(&self.opened.get().map_err(raise)?.adapter)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        leaving(kind, self.close(py))
    }

    fn __repr__(&self) -> String {
        format!("Window({:?}, {})", self.title, if self.__bool__() { "open" } else { "closed" })
    }
}

/// Where there is no screen the way out is not a file here.
fn no_screen(error: Error) -> PyErr {
    if error.kind() != ErrorKind::Unsupported {
        return raise(error);
    }
    let text = error.to_string();
    let end = [" (write to a file", "; write to a file"].iter().filter_map(|advice| text.find(advice)).min();
    let why = &text[..end.unwrap_or(text.len())];
    NoScreenError::new_err(format!(
        "{why}: framelane.Offscreen(width, height) draws without one, and .save(\"x.png\") writes it"
    ))
}
