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

/// A named part of a display or window: ``win["left"]``.
///
/// It takes its place when the first picture is shown in it. There is no constructor.
#[pyclass(name = "Pane", module = "framelane", frozen)]
pub struct PyPane(Arc<Pane>);

#[pymethods]
impl PyPane {
    /// Show an array in this pane.
    ///
    /// As ``Window.show``; an ``Offscreen``'s pane never says ``"closed"``. All arrays of a pane are of the CPU, or of
    /// one CUDA device.
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

    /// What the pane is called.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The way that its pictures take to the display, and why not a shorter one; ``None`` before the first.
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

/// A display in memory, for tests, servers and files: its ``show`` is ``Window``'s.
///
/// Parameters
/// ----------
/// width, height
///     Of what is drawn, in pixels.
/// device
///     ``"cuda"``, ``"cuda:1"``: draw on that GPU; ``"cpu"``: on any adapter. If nothing is said: on the first CUDA
///     device, if there is one.
///
/// Raises
/// ------
/// ArgumentError
///     ``width`` or ``height`` is 0 or too large, or ``device`` names none.
/// UnsupportedError
///     Nothing here can draw: there is no Vulkan driver, not even one in software.
///
/// Examples
/// --------
/// >>> import numpy as np, framelane as fl
/// >>> display = fl.Offscreen(4, 2)
/// >>> display.show(np.zeros((2, 4, 3), np.uint8))
/// 'shown'
/// >>> np.asarray(display.image()).shape
/// (2, 4, 4)
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

    /// Show an array in the pane ``"picture"``: as ``Window.show``, with nobody who could close it.
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

    /// The pane of this name, of 1 to 64 bytes; it appears with its first picture, beside those before it.
    fn __getitem__(&self, name: &str) -> PyPane {
        PyPane(self.panes.named(name))
    }

    /// Draw all panes, and read the picture back. Waits for what was shown so far.
    ///
    /// Returns
    /// -------
    /// Tensor
    ///     On the CPU: uint8, height × width × 4, red, green, blue and 255. A copy: what is shown later does not
    ///     change it. Each call is one of ``readbacks``.
    fn image(&self, py: Python<'_>) -> PyResult<Tensor> {
        let rgb = self.read(py)?;
        let rgba = rgb.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [r, g, b, 255]).collect();
        Ok(Tensor::of_host(TensorSpec::new(DType::U8, [self.size.height, self.size.width, 4]), rgba))
    }

    /// Draw all panes, and write the picture into a file. Waits as ``image`` does.
    ///
    /// Parameters
    /// ----------
    /// path
    ///     Its ending says the format: ``.png``, ``.jpg``.
    ///
    /// Raises
    /// ------
    /// IoError
    ///     The file cannot be written, or its ending is of no format that is known here.
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

    /// What became of the pictures of each pane, in the order in which they appeared.
    ///
    /// Returns
    /// -------
    /// list of dict
    ///     ``name``; ``path``, the way that pictures take; ``shown``, how many were; ``presented``, how many were drawn;
    ///     ``dropped``, how many were passed over by a newer one; ``hidden``, how many came while the pane could not be
    ///     seen; ``host_copies``, how many went through the CPU's memory; ``ended``, why there will be no more, or
    ///     ``None``.
    fn panes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self.display(py, |display| Ok(display.panes()))?;
        PyList::new(py, all.iter().map(|pane| panes::status(py, pane)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Width and height, in pixels.
    #[getter]
    fn size(&self) -> (usize, usize) {
        (self.size.width, self.size.height)
    }

    /// What draws, and through which interface: ``"NVIDIA H200 (Vulkan)"``.
    #[getter]
    fn adapter(&self) -> &str {
        &self.adapter
    }

    /// Pictures that ``image`` and ``save`` copied back from what draws.
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

/// A window, on a thread of its own: no main loop is needed. A process has one at a time, as many after each other as it likes.
///
/// ``while win:`` goes on until the window is closed: by its user (also by the keys ``q`` and ``Esc``), by ``close``, or
/// by the end of a ``with`` block. An object that nobody holds any more does not close it.
///
/// Parameters
/// ----------
/// title
///     What its bar says.
/// size
///     Width and height of its inside, in pixels; if nothing is said, those of the first pictures.
/// device
///     ``"cuda"``, ``"cuda:1"``: draw on that GPU; ``"cpu"``: on any adapter. If nothing is said: on the first CUDA
///     device, if there is one.
/// listen
///     A name that worker processes can attach by, ``framelane.attach(listen, pane=…)``: 1 to 64 letters, digits,
///     ``.``, ``_`` or ``-``.
///
/// Raises
/// ------
/// NoScreenError
///     There is neither an X11 nor a Wayland display that can be reached.
/// ArgumentError
///     Another window of this process is open, or an argument makes no sense.
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

    /// Show an array in the pane ``"picture"``.
    ///
    /// Returns as soon as the array may be written again, or dropped: what is shown is what it held when it was given.
    /// On CUDA that is after the work has been enqueued, on the stream that the array comes with (PyTorch's or CuPy's
    /// current one, or the one that it names itself): the CPU waits for nothing. An array of the CPU is copied. Never
    /// waits for the screen: a picture that was not drawn yet is replaced. May be called by several threads.
    ///
    /// Parameters
    /// ----------
    /// tensor
    ///     uint8, float16, bfloat16 or float32; height × width, height × width × channels or channels × height × width,
    ///     of 1, 3 or 4 channels; dimensions of 1 before them are passed over. Contiguous or not. Of NumPy, PyTorch,
    ///     CuPy, JAX, or anything with ``__dlpack__``, ``__cuda_array_interface__``, ``__array_interface__`` or the
    ///     buffer protocol.
    /// layout
    ///     ``"hwc"`` or ``"chw"``, where the shape alone does not say whether channels are last or first.
    /// range
    ///     The numbers shown as black and as full: (0, 255) for uint8 and (0, 1) for floats if nothing is said. Beyond
    ///     them is as at them.
    /// colours
    ///     For one channel: ``"grey"``, ``"viridis"`` or ``"turbo"``.
    /// bgr
    ///     The channels are blue, green, red.
    /// mark
    ///     Show NaN as magenta, what is above the range as red, and what is below it as blue.
    /// before
    ///     An array of what ``tensor`` was made of, of its size: a window's user can lay it beside it, by keys and mouse.
    ///
    /// Returns
    /// -------
    /// str
    ///     ``"shown"``; ``"replaced"``, if one shown before was not drawn and this one takes its place; ``"closed"``,
    ///     if there is no window any more.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     The array cannot be shown: says what came and what is taken.
    /// UnsupportedError
    ///     It is on a device that is not there.
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

    /// The pane of this name, of 1 to 64 bytes; it appears with its first picture, beside those before it.
    fn __getitem__(&self, name: &str) -> PyPane {
        PyPane(self.panes.named(name))
    }

    /// Whether the window is open.
    fn __bool__(&self) -> bool {
        self.opened.get().is_ok_and(|opened| !opened.is_over())
    }

    /// Whether the window is not open any more.
    #[getter]
    fn closed(&self) -> bool {
        !self.__bool__()
    }

    /// Keys pressed in the window since the last call, the oldest first and 64 at most, also those that do something there.
    ///
    /// Returns
    /// -------
    /// list of str
    ///     The text of each key, or the name of one without (``"ArrowLeft"``, ``"Escape"``, ``"Space"``).
    fn keys(&self) -> PyResult<Vec<String>> {
        Ok(self.opened.get().map_err(raise)?.handle.take_keys())
    }

    /// Close the window, and wait until it is gone. Does nothing if it is closed.
    ///
    /// Raises
    /// ------
    /// TimeoutError
    ///     The display server does not answer for 5 seconds.
    /// Error
    ///     What ended the window before.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let opened = self.opened.get().map_err(raise)?;
        py.detach(|| opened.close()).map_err(raise)
    }

    /// Wait until the window is closed. ``KeyboardInterrupt`` ends it.
    ///
    /// Parameters
    /// ----------
    /// timeout
    ///     At most so many seconds; for ever if nothing is said.
    ///
    /// Returns
    /// -------
    /// bool
    ///     Whether it is closed.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     ``timeout`` is negative or no number.
    /// Error
    ///     What ended the window, if it was not closed.
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

    /// How the window is doing. Waits for nothing.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``open``; ``size``, width and height in pixels; ``paused`` and ``full_screen``, by its user; ``path``, the
    ///     ways that pictures take; ``drawn``, times that it was drawn; ``readbacks``, pictures copied back to the CPU to
    ///     be drawn; ``panes``, as ``Offscreen.panes`` says.
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

    /// What its bar says.
    #[getter]
    fn title(&self) -> &str {
        &self.title
    }

    /// What draws, and through which interface.
    #[getter]
    fn adapter(&self) -> PyResult<&str> {
        Ok(&self.opened.get().map_err(raise)?.adapter)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Close the window, as ``close``; an exception that ends the block goes before one of closing.
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
