//! The library's errors as exceptions: one for each kind, all of them `framelane.Error`.

use framelane::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    framelane,
    Error,
    PyException,
    "What went wrong, in one sentence: what, where, what to do. Each error of framelane's own is one."
);
create_exception!(framelane, InputError, Error, "Data is damaged, truncated or not what its name says.");
create_exception!(
    framelane,
    UnsupportedError,
    Error,
    "This build or machine cannot do it. Also: an object is used in a child that was forked after it was made."
);
create_exception!(
    framelane,
    NoScreenError,
    UnsupportedError,
    "There is no screen for a window here. ``Offscreen`` needs none."
);
create_exception!(
    framelane,
    ArgumentError,
    Error,
    "An argument makes no sense here: says what came and what is taken."
);
create_exception!(framelane, ModelError, Error, "A network failed to load or to run.");
create_exception!(framelane, DeviceError, Error, "A device refused or failed an operation.");
create_exception!(
    framelane,
    BudgetError,
    Error,
    "A stated budget of memory would be exceeded, or all slots of a feed are held."
);
create_exception!(framelane, IoError, Error, "The operating system refused to read or write.");
create_exception!(framelane, ClosedError, Error, "The other side has stopped.");
create_exception!(framelane, TimeoutError, Error, "Something did not happen within the given time.");
create_exception!(framelane, CancelledError, Error, "Somebody asked for the work to stop.");
create_exception!(framelane, HazardError, Error, "Two accesses to the same bytes are not ordered.");
create_exception!(
    framelane,
    PanicError,
    Error,
    "Code given to the library panicked, or the library itself did."
);

/// The exception for an error of the library.
pub fn raise(error: framelane::Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Input => InputError::new_err(text),
        ErrorKind::Unsupported => UnsupportedError::new_err(text),
        ErrorKind::Argument => ArgumentError::new_err(text),
        ErrorKind::Model => ModelError::new_err(text),
        ErrorKind::Device => DeviceError::new_err(text),
        ErrorKind::Budget => BudgetError::new_err(text),
        ErrorKind::Io => IoError::new_err(text),
        ErrorKind::Closed => ClosedError::new_err(text),
        ErrorKind::Timeout => TimeoutError::new_err(text),
        ErrorKind::Cancelled => CancelledError::new_err(text),
        ErrorKind::Hazard => HazardError::new_err(text),
        ErrorKind::Panic => PanicError::new_err(text),
        _ => Error::new_err(text),
    }
}

/// An argument that makes no sense, in one sentence.
pub fn argument(text: impl Into<String>) -> PyErr {
    ArgumentError::new_err(text.into())
}

/// What closing comes to at the end of a `with`: the exception that ends the block is the one to be told.
pub fn leaving(raised: &Bound<'_, PyAny>, closed: PyResult<()>) -> PyResult<()> {
    if raised.is_none() { closed } else { Ok(()) }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("UnsupportedError", py.get_type::<UnsupportedError>())?;
    module.add("NoScreenError", py.get_type::<NoScreenError>())?;
    module.add("ArgumentError", py.get_type::<ArgumentError>())?;
    module.add("ModelError", py.get_type::<ModelError>())?;
    module.add("DeviceError", py.get_type::<DeviceError>())?;
    module.add("BudgetError", py.get_type::<BudgetError>())?;
    module.add("IoError", py.get_type::<IoError>())?;
    module.add("ClosedError", py.get_type::<ClosedError>())?;
    module.add("TimeoutError", py.get_type::<TimeoutError>())?;
    module.add("CancelledError", py.get_type::<CancelledError>())?;
    module.add("HazardError", py.get_type::<HazardError>())?;
    module.add("PanicError", py.get_type::<PanicError>())
}
