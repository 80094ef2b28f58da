//! The native part of the Python package: thin glue. What it does is in the crates that it calls; what it says to its users
//! is in `python/framelane`, whose stubs (`_native.pyi`) hold the documentation.
//!
//! Reading order: `array` (arrays of any library, with `dlpack`, where all addresses are), `devices`, `tensor` (arrays of
//! ours), `looks` and `panes` with `show`, `window_thread` and `lent`, `attach`, `nest`, `items`
//! and `feed`, `recording`.

mod array;
mod attach;
mod devices;
#[allow(unsafe_code, reason = "other libraries' memory, by its address")]
mod dlpack;
mod errors;
mod feed;
mod forked;
mod items;
mod lent;
mod looks;
mod nest;
mod panes;
mod recording;
mod show;
mod tensor;
mod window_thread;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Close the window and stop all feeds: the package has this called when the interpreter ends.
#[pyfunction]
fn shut_down(py: Python<'_>) {
    py.detach(|| {
        window_thread::shut_down();
        feed::shut_down();
    });
}

/// What framelane did on a device since the process began. Opens the device if it was not.
///
/// Parameters
/// ----------
/// device
///     ``"cuda"``, ``"cuda:1"`` or ``"cpu"``.
///
/// Returns
/// -------
/// dict
///     Bytes copied ``to_device``, ``from_device`` and ``within`` it; ``copies`` and ``kernels`` enqueued;
///     ``pinned_bytes`` and ``device_bytes`` allocated now; ``cpu_waits``, by reason: how often a thread of the CPU waited
///     for the device, and how many seconds in all.
///
/// Raises
/// ------
/// ArgumentError
///     ``device`` names none.
/// UnsupportedError
///     It is not there.
#[pyfunction]
fn counters<'py>(py: Python<'py>, device: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let device = devices::device(devices::parse(device)?).map_err(errors::raise)?;
    let counters = device.counters();
    let dict = PyDict::new(py);
    dict.set_item("to_device", counters.to_device)?;
    dict.set_item("from_device", counters.from_device)?;
    dict.set_item("within", counters.within)?;
    dict.set_item("copies", counters.copies)?;
    dict.set_item("kernels", counters.kernels)?;
    dict.set_item("pinned_bytes", counters.pinned_bytes)?;
    dict.set_item("device_bytes", counters.device_bytes)?;
    let waits = PyDict::new(py);
    for (why, (count, time)) in &counters.cpu_waits {
        waits.set_item(why, (count, time.as_secs_f64()))?;
    }
    dict.set_item("cpu_waits", waits)?;
    Ok(dict)
}

/// The program ``framelane``, with the arguments of a command line of which the first is its name; its exit code.
///
/// Signals to stop are the program's from then on.
#[pyfunction]
fn program(py: Python<'_>, args: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| framelane_cli::main(args))
}

/// What this machine offers, and what would make it better, in lines, as ``framelane doctor`` prints them.
///
/// Screens, graphics adapters, CUDA devices and the way from them to the screen, ONNX Runtime, ffmpeg.
#[pyfunction]
fn doctor(py: Python<'_>) -> String {
    py.detach(|| framelane_cli::doctor(window_thread::available()))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::add(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<tensor::Tensor>()?;
    module.add_class::<show::Offscreen>()?;
    module.add_class::<show::Window>()?;
    module.add_class::<show::PyPane>()?;
    module.add_class::<attach::Worker>()?;
    module.add_class::<feed::Feeder>()?;
    module.add_class::<feed::Slot>()?;
    module.add_class::<recording::Recording>()?;
    module.add_class::<lent::Lent>()?;
    module.add_function(wrap_pyfunction!(shut_down, module)?)?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(doctor, module)?)?;
    module.add_function(wrap_pyfunction!(recording::record, module)?)?;
    module.add_function(wrap_pyfunction!(lent::lend, module)?)?;
    module.add_function(wrap_pyfunction!(counters, module)?)
}
