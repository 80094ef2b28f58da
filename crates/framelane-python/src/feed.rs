//! The feed: any iterable of nested arrays, on its way to a device on a thread of its own.

use crate::array::{self, address_of_stream};
use crate::devices;
use crate::errors::{BudgetError, argument, leaving, raise};
use crate::forked::Own;
use crate::items::{Items, Shared};
use crate::nest::Nest;
use crate::panes::lock;
use crate::tensor::Tensor;
use framelane::device::{Memory, Stream};
use framelane::feed::{self, Layout, Options, Position, ToFloats};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Batch, Error, ErrorKind, Result};
use pyo3::PyErr;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Slots that a feed may grow to while batches are held, unless its budget ends before.
const MOST_SLOTS: usize = 64;
/// A consumer that waits is asked for signals as often.
const LOOK: Duration = Duration::from_millis(100);
/// With every slot held, and nothing coming, this long: a warning, and then an error.
const HELD: Duration = Duration::from_secs(5);
const HELD_TOO_LONG: Duration = Duration::from_secs(60);
/// A feed that is closed waits as long for an iterable that does not return.
const PATIENCE: Duration = Duration::from_secs(1);

/// A batch on a CUDA device, until the last of its tensors is gone.
pub struct Hold(Batch);

impl Hold {
    /// The stream at this address reads it.
    pub fn on(&self, ordinal: u32, raw: usize) -> Result<()> {
        self.0.on(&devices::stream(Some(ordinal), Some(raw))?).map(|_| ())
    }

    /// Begin to record; ``near`` names files that may be CUPTI.
    ///
    /// Raises
    /// ------
    /// UnsupportedError, DeviceError
    ///     CUPTI is not there, or refuses.
    pub fn record(&self, py: Python<'_>, ordinal: u32, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let raw = address_of_stream(stream)?;
        py.detach(|| self.on(ordinal, raw)).map_err(raise)
    }
}

/// Feeds of this process, to be stopped when the interpreter ends.
static RUNNING: Mutex<Vec<(u32, Weak<Running>)>> = Mutex::new(Vec::new());

/// A feed that was started.
struct Running {
    feeder: feed::Feeder,
    shared: Arc<Shared>,
    /// Where batches of the host's are copied out.
    out: Option<Stream>,
    ended: AtomicBool,
    /// Slots that can be held at once.
    most: usize,
}

/// An iterable's batches, on a device: as ``framelane.feed`` makes it, which says what its arguments are.
///
/// Nothing is begun before the first batch is asked for. A loop after the end, and one after an error, begins the
/// iterable again, unless it is an iterator, which then has no more to give. A loop that was left early goes on where it
/// was.
///
/// ``next`` waits for the next batch without holding the interpreter, and ``KeyboardInterrupt`` ends it. When all slots
/// are held by batches that were not let go it warns after 5 seconds, and raises ``BudgetError`` after 60.
#[pyclass(module = "framelane", frozen)]
pub struct Feeder {
    iterable: Py<PyAny>,
    transform: Option<Py<PyAny>>,
    ordinal: Option<u32>,
    options: Options,
    resume: Mutex<Position>,
    running: Mutex<Option<Own<Arc<Running>>>>,
}

/// What a batch names streams by. There is no constructor.
#[pyclass(module = "framelane", frozen)]
pub struct Slot {
    hold: Weak<Hold>,
    /// `None`: the batch is on the host.
    ordinal: Option<u32>,
}

#[pymethods]
impl Slot {
    /// Name another stream that reads the batch: its slot is not written before that one is done, either.
    ///
    /// Parameters
    /// ----------
    /// stream
    ///     PyTorch's or CuPy's stream, or its address.
    fn record_stream(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let (Some(hold), Some(ordinal)) = (self.hold.upgrade(), self.ordinal) else { return Ok(()) };
        hold.record(py, ordinal, stream)
    }
}

#[pymethods]
impl Feeder {
    #[new]
    #[pyo3(signature = (iterable, device=None, *, depth=2, dtype=None, normalize=None, layout=None, budget=None, transform=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        iterable: Py<PyAny>,
        device: Option<&Bound<'_, PyAny>>,
        depth: usize,
        dtype: Option<&Bound<'_, PyAny>>,
        normalize: Option<(Vec<f32>, Vec<f32>)>,
        layout: Option<&str>,
        budget: Option<usize>,
        transform: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let ordinal = device.map_or(Ok(Some(0)), devices::parse)?;
        if depth == 0 {
            return Err(argument("depth cannot be 0: 2 is double buffering"));
        }
        let options = Options {
            depth,
            max_depth: Some(depth.max(MOST_SLOTS)),
            device_budget: budget.unwrap_or(usize::MAX),
            to_floats: to_floats(dtype, normalize, layout)?,
            ..Options::new("python")
        };
        Ok(Self {
            iterable,
            transform,
            ordinal,
            options,
            resume: Mutex::default(),
            running: Mutex::default(),
        })
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let this = slf.get();
        let running = this.running(slf.py())?;
        if running.ended.load(Ordering::Relaxed) {
            let again = slf.py().detach(|| {
                lock(&running.shared.nests).clear();
                running.feeder.rewind()
            });
            match again {
                Ok(again) => running.ended.store(!again, Ordering::Relaxed),
                Err(error) => return Err(running.raise(error)),
            }
        }
        Ok(slf)
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let running = self.running(py)?;
        if running.ended.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(batch) = running.next(py)? else { return Ok(None) };
        let nest = lock(&running.shared.nests).pop_front();
        let Some(nest) = nest else {
            return Err(argument("several threads took batches of one feed at once: lock it"));
        };
        let (batch, hold) = match self.ordinal {
            Some(ordinal) => on_cuda(py, batch, &nest, ordinal)?,
            None => (running.on_host(py, &batch, &nest)?, Weak::new()),
        };
        let slot = Bound::new(py, Slot { hold, ordinal: self.ordinal })?;
        // Dicts, lists and tuples become such with `record_stream`; the rest is given as it is.
        static WRAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        WRAP.import(py, "framelane._batch", "wrap")?.call1((batch, slot)).map(Some)
    }

    /// What the feed did so far, and what it waited for: nothing, if it was not begun.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``batches``, how many were taken; ``limited_by``, which side is the slowest; seconds that the sides took:
    ///     ``source_s`` (the iterable, and copying into page-locked memory), ``convert_s``, ``copy_s`` (to the device),
    ///     ``device_convert_s``, ``consumer_wait_s`` (the loop waited for batches), ``compute_wait_s`` (the device did),
    ///     ``compute_s``, ``held_back_s`` (the feed waited for the loop), ``wall_s`` (in all); of the device since the
    ///     process began, for all feeds together: ``bytes_to_device``, ``pinned_bytes`` and ``device_bytes`` (allocated
    ///     now); ``text``, all this to be read.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = match &*lock(&self.running) {
            Some(running) => Some(running.get().map_err(raise)?.feeder.report()),
            None => None,
        };
        let (limit, text) = match &report {
            Some(report) => (report.limit().to_string(), report.to_string()),
            None => ("nothing".to_owned(), "not begun".to_owned()),
        };
        let report = report.unwrap_or_default();
        let dict = PyDict::new(py);
        dict.set_item("batches", report.batches)?;
        dict.set_item("limited_by", limit)?;
        let seconds = [
            ("source", report.source),
            ("convert", report.convert),
            ("copy", report.copy),
            ("device_convert", report.device_convert),
            ("consumer_wait", report.consumer_wait),
            ("compute_wait", report.compute_wait),
            ("compute", report.compute),
            ("held_back", report.held_back),
            ("wall", report.wall),
        ];
        for (name, time) in seconds {
            dict.set_item(format!("{name}_s"), time.as_secs_f64())?;
        }
        let counters = devices::device(self.ordinal).map_err(raise)?.counters();
        dict.set_item("bytes_to_device", counters.to_device)?;
        dict.set_item("pinned_bytes", counters.pinned_bytes)?;
        dict.set_item("device_bytes", counters.device_bytes)?;
        dict.set_item("text", text)?;
        Ok(dict)
    }

    /// Where the loop is: ``epoch``, and ``batch``, how many of this epoch were taken. Batches on their way do not count.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let at = match &*lock(&self.running) {
            Some(running) => running.get().map_err(raise)?.feeder.position(),
            None => *lock(&self.resume),
        };
        let dict = PyDict::new(py);
        dict.set_item("epoch", at.epoch)?;
        dict.set_item("batch", at.batch)?;
        Ok(dict)
    }

    /// Go on where another feed over the same iterable was: its batches before that are taken and not looked at.
    ///
    /// Which epoch it is the iterable has to know by itself (``sampler.set_epoch``).
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     This feed has begun, or ``state`` lacks ``epoch`` or ``batch``.
    fn load_state_dict(&self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        if lock(&self.running).is_some() {
            return Err(argument(
                "this feed has begun: load the state into a new one, before its first batch",
            ));
        }
        let must = |name: &str| -> PyResult<u64> {
            match state.get_item(name)? {
                Some(number) => number.extract(),
                None => Err(argument(format!("a state of a feed has {name:?}, and this one has not"))),
            }
        };
        *lock(&self.resume) = Position { epoch: must("epoch")?, batch: must("batch")? };
        Ok(())
    }

    /// Batches of one epoch, if the iterable knows; ``TypeError`` otherwise.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.iterable.bind(py).len()
    }

    /// Stop: no more batches; those that are held stay valid. Does nothing if the feed was not begun.
    ///
    /// Raises
    /// ------
    /// TimeoutError
    ///     The iterable does not return for a second: its thread is left to end by itself.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let running = match &*lock(&self.running) {
            Some(running) => running.get().map_err(raise)?.clone(),
            None => return Ok(()),
        };
        py.detach(|| running.stop()).map_err(raise)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Stop, as ``close``; an exception that ends the block goes before one of closing.
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
        let device = devices::name(self.ordinal);
        match lock(&self.running).as_ref().map(Own::get) {
            Some(Ok(running)) => format!("Feeder({device}, {})", running.feeder.occupancy()),
            _ => format!("Feeder({device}, not begun)"),
        }
    }
}

impl Feeder {
    /// The feed, started now if it was not.
    fn running(&self, py: Python<'_>) -> PyResult<Arc<Running>> {
        if let Some(running) = &*lock(&self.running) {
            return running.get().cloned().map_err(raise);
        }
        let shared = Arc::<Shared>::default();
        let transform = self.transform.as_ref().map(|transform| transform.clone_ref(py));
        let items = Items::new(self.iterable.clone_ref(py), transform, shared.clone());
        let options = Options { resume: *lock(&self.resume), ..self.options.clone() };
        let started = py.detach(|| {
            let device = devices::device(self.ordinal)?;
            let out = self.ordinal.is_none().then(|| device.stream("batches of the host")).transpose()?;
            let most = options.max_depth.unwrap_or(options.depth);
            let feeder = feed::Feeder::new(&device, items, options)?;
            Ok(Arc::new(Running { feeder, shared, out, ended: AtomicBool::new(false), most }))
        });
        let started = started.map_err(raise)?;
        let mut all = lock(&RUNNING);
        all.retain(|(_, running)| running.strong_count() > 0);
        all.push((std::process::id(), Arc::downgrade(&started)));
        drop(all);
        // Another thread may have started it meanwhile; its own is the one that counts.
        let mut running = lock(&self.running);
        let running = running.get_or_insert_with(|| Own::new(started));
        running.get().cloned().map_err(raise)
    }
}

fn on_cuda<'py>(
    py: Python<'py>,
    batch: Batch,
    nest: &Nest,
    ordinal: u32,
) -> PyResult<(Bound<'py, PyAny>, Weak<Hold>)> {
    // The streams that read them are named when somebody takes them.
    let addresses = batch.cuda_addresses().map(|address| address.unwrap_or(0) as usize);
    let tensors: Vec<(TensorSpec, usize)> = batch.specs().cloned().zip(addresses).collect();
    let hold = Arc::new(Hold(batch));
    let mut named = false;
    let batch = nest.together(py, &mut |number, torch| {
        let (spec, address) = tensors[number].clone();
        let tensor = Tensor::of_slot(spec, hold.clone(), ordinal, address);
        if !torch {
            return Ok(Bound::new(py, tensor)?.into_any());
        }
        if !named {
            if let Some(raw) = array::current_stream(py, "torch", ordinal)? {
                py.detach(|| hold.on(ordinal, raw)).map_err(raise)?;
            }
            named = true;
        }
        to_torch(py, &tensor)
    })?;
    Ok((batch, Arc::downgrade(&hold)))
}

impl Running {
    /// No more batches. Waits for the threads, at most a second each; not to be called with the interpreter, which the
    /// iterable may need to return.
    fn stop(&self) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        self.feeder.cancel(PATIENCE)?;
        self.shared.wait_for_fetching(PATIENCE)
    }

    /// The next batch, while signals are heard.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let (start, mut warned) = (Instant::now(), false);
        loop {
            match py.detach(|| self.feeder.next_batch_for(LOOK)) {
                Ok(Some(batch)) => return Ok(Some(batch)),
                Ok(None) => {
                    self.ended.store(true, Ordering::Relaxed);
                    return Ok(None);
                }
                Err(error) if error.kind() == ErrorKind::Timeout => py.check_signals()?,
                Err(error) => {
                    self.ended.store(true, Ordering::Relaxed);
                    return Err(self.raise(error));
                }
            }
            let held = self.feeder.occupancy().leased.len();
            let all_held = held >= self.most;
            if all_held && start.elapsed() > HELD {
                let text = format!(
                    "all {} slots of the feed are held by batches that were not let go: drop them, copy what is kept, or \
                     raise the budget",
                    held
                );
                if start.elapsed() > HELD_TOO_LONG {
                    return Err(BudgetError::new_err(text));
                }
                if !warned {
                    warned = true;
                    let text = std::ffi::CString::new(text).unwrap_or_default();
                    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
                }
            }
        }
    }

    /// What the iterable raised is told as it was.
    fn raise(&self, error: Error) -> PyErr {
        lock(&self.shared.raised).take().unwrap_or_else(|| raise(error))
    }

    fn on_host<'py>(&self, py: Python<'py>, batch: &Batch, nest: &Nest) -> PyResult<Bound<'py, PyAny>> {
        let tensors = py.detach(|| self.copy_out(batch)).map_err(raise)?;
        let mut tensors: Vec<_> = tensors.into_iter().map(Some).collect();
        nest.together(py, &mut |number, torch| {
            let Some((spec, bytes)) = tensors[number].take() else {
                return Err(argument("an array was given twice"));
            };
            let tensor = Tensor::of_host(spec, bytes);
            if torch { to_torch(py, &tensor) } else { Ok(Bound::new(py, tensor)?.into_any()) }
        })
    }

    /// The host device's memory is not for others to touch: its batches are copied once more.
    fn copy_out(&self, batch: &Batch) -> Result<Vec<(TensorSpec, Vec<u8>)>> {
        let Some(stream) = &self.out else { return Ok(Vec::new()) };
        let view = batch.on(stream)?;
        view.tensors()
            .map(|tensor| {
                let out = stream.device().alloc(tensor.range().len(), Memory::Pinned)?;
                tensor.copy_to(stream, &out)?;
                stream.synchronize("a batch for the host")?;
                Ok((tensor.spec().clone(), out.read_host()?.to_vec()))
            })
            .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that does not stop in time is left, and said so where somebody reads the log. Without an interpreter there
        // is nothing left to wait for.
        let stopped = Python::try_attach(|py| py.detach(|| self.stop()));
        if let Some(Err(stuck)) = stopped {
            log::error!("{stuck}");
        }
    }
}

fn to_torch<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    static FROM_DLPACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FROM_DLPACK.import(py, "torch.utils.dlpack", "from_dlpack")?.call1((tensor.capsule(py)?,))
}

/// What the device makes of pictures, if anything is said.
fn to_floats(
    dtype: Option<&Bound<'_, PyAny>>,
    normalize: Option<(Vec<f32>, Vec<f32>)>,
    layout: Option<&str>,
) -> PyResult<Option<ToFloats>> {
    if dtype.is_none() && normalize.is_none() && layout.is_none() {
        return Ok(None);
    }
    let dtype = match dtype {
        None => DType::F32,
        Some(dtype) => {
            let text = match dtype.getattr("__name__") {
                Ok(name) => name.to_string(),
                Err(_) => dtype.str()?.to_string_lossy().into_owned(),
            };
            match text.trim_start_matches("torch.") {
                "f32" | "float32" | "float" => DType::F32,
                "f16" | "float16" | "half" => DType::F16,
                "bf16" | "bfloat16" => DType::BF16,
                _ => {
                    return Err(argument(format!(
                        "dtype cannot be {text:?}: give \"f32\", \"f16\" or \"bf16\""
                    )));
                }
            }
        }
    };
    let layout = match layout.map(str::to_ascii_lowercase).as_deref() {
        None | Some("chw") => Layout::Chw,
        Some("hwc") => Layout::Hwc,
        Some(other) => return Err(argument(format!("layout cannot be {other:?}: give \"chw\" or \"hwc\""))),
    };
    let to = ToFloats::unit(dtype, layout).map_err(raise)?;
    let Some((mean, std)) = normalize else { return Ok(Some(to)) };
    let channels = |given: &[f32]| match *given {
        [all] => Some([all; 4]),
        [a, b, c] => Some([a, b, c, 0.0]),
        [a, b, c, d] => Some([a, b, c, d]),
        _ => None,
    };
    let std = channels(&std).map(|std| if std[3] == 0.0 { [std[0], std[1], std[2], 1.0] } else { std });
    match (channels(&mean), std) {
        (Some(mean), Some(std)) if std.iter().all(|&std| std > 0.0) => Ok(Some(to.normalised(mean, std))),
        _ => Err(argument(
            "normalize is (mean, std): each 1, 3 or 4 numbers, for pixels from 0 to 1, and no std of 0",
        )),
    }
}

/// Close the window and stop all feeds: the package has this called when the interpreter ends.
pub fn shut_down() {
    let all = std::mem::take(&mut *lock(&RUNNING));
    for running in all
        .iter()
        .filter(|(process, _)| *process == std::process::id())
        .filter_map(|(_, running)| running.upgrade())
    {
        // One that does not stop in time is left: nobody is there to be told.
        let _ = running.stop();
    }
}
