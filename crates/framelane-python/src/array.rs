//! Arrays of any library, as they come: by DLPack, by the array interfaces, or as a buffer.

use crate::devices;
use crate::dlpack::{self, DTYPES, Foreign, Place};
use crate::errors::{argument, raise};
use framelane::tensor::{DType, TensorSpec};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyString, PyTuple, PyType};

/// An array, and the stream that its work goes to.
pub struct Array {
    pub foreign: Foreign,
    /// Of an array on CUDA: another library's stream, or `None` for ours.
    pub stream: Option<usize>,
}

/// Take an array in. One on CUDA is ready for work on the stream that comes with it.
///
/// PyTorch's and CuPy's arrays come on the stream that is current there. Other libraries order ours after their work, or
/// say which stream theirs goes to.
pub fn take(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    let py = object.py();
    if object.is_instance_of::<PyType>() {
        return Err(unknown(object, "which is no array"));
    }
    let library = library(object)?;
    if library == "torch" {
        return torch(object);
    }
    if let Some(device) = maybe(object, intern!(py, "__dlpack_device__"))? {
        let (kind, ordinal): (i32, i32) = device.call0()?.extract()?;
        return match kind {
            dlpack::CPU | dlpack::CUDA_HOST => host(object),
            dlpack::CUDA | dlpack::CUDA_MANAGED => {
                cuda(object, &library, u32::try_from(ordinal).unwrap_or(0))
            }
            _ => Err(unknown(object, &format!("on a device of DLPack's kind {kind}"))),
        };
    }
    if let Some(interface) = maybe(object, intern!(py, "__cuda_array_interface__"))? {
        return cuda_interface(object, &interface, &library);
    }
    host(object)
}

/// PyTorch's tensors, on the stream that is current there: so nothing need be ordered, and `to_dlpack` is enough, which
/// takes a tenth of the time of `__dlpack__` with a stream.
fn torch(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    static TO_DLPACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let detached = match object.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
        // A picture of a network is looked at, and not learnt from.
        true => Some(object.call_method0(intern!(py, "detach"))?),
        false => None,
    };
    let to_dlpack = TO_DLPACK.import(py, "torch.utils.dlpack", "to_dlpack")?;
    let foreign = Foreign::of_capsule(&to_dlpack.call1((detached.as_ref().unwrap_or(object),))?)?;
    let stream = match foreign.place {
        Place::Host => None,
        Place::Cuda(ordinal) => current_stream(py, "torch", ordinal)?,
    };
    Ok(Array { foreign, stream })
}

/// The library that an array's type is of.
fn library(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let module = object.get_type().module()?;
    let module = module.to_str().unwrap_or_default();
    Ok(module.split('.').next().unwrap_or_default().to_owned())
}

/// An attribute, if there is one. (PyTorch has some that are errors for a tensor of the wrong device.)
fn maybe<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match object.getattr(name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn unknown(object: &Bound<'_, PyAny>, why: &str) -> PyErr {
    let kind = object.get_type().fully_qualified_name();
    let kind = kind.as_ref().map_or_else(|_| "an object".into(), |name| name.to_string());
    argument(format!(
        "{kind} came, {why}: give an array or tensor of the CPU or of CUDA, with __dlpack__, __cuda_array_interface__, \
         __array_interface__ or the buffer protocol"
    ))
}

fn cuda(object: &Bound<'_, PyAny>, library: &str, ordinal: u32) -> PyResult<Array> {
    let stream = current_stream(object.py(), library, ordinal)?;
    let named = match stream {
        Some(raw) => raw,
        None => devices::own_stream(ordinal).map_err(raise)?,
    };
    let kwargs = PyDict::new(object.py());
    kwargs.set_item(intern!(object.py(), "stream"), named)?;
    let capsule = object.call_method(intern!(object.py(), "__dlpack__"), (), Some(&kwargs))?;
    Ok(Array { foreign: Foreign::of_capsule(&capsule)?, stream })
}

/// The legacy default stream is 0 or 1, and 1 where other libraries are told of it.
const LEGACY_DEFAULT: usize = 1;

/// The stream that is current in the library, if it is one that has such: never imports one.
pub fn current_stream(py: Python<'_>, library: &str, ordinal: u32) -> PyResult<Option<usize>> {
    // Who has an array of the library has imported it: nothing is imported here that is not there.
    static TORCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static CUPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let raw: usize = match library {
        "torch" => {
            let current = TORCH.import(py, "torch.cuda", "current_stream")?.call1((ordinal,))?;
            current.getattr(intern!(py, "cuda_stream"))?.extract()?
        }
        "cupy" => {
            let current = CUPY.import(py, "cupy.cuda", "get_current_stream")?.call0()?;
            current.getattr(intern!(py, "ptr"))?.extract()?
        }
        _ => return Ok(None),
    };
    Ok(Some(raw.max(LEGACY_DEFAULT)))
}

/// The address of a stream: a number, or PyTorch's, CuPy's or another library's stream object.
pub fn address_of_stream(stream: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = stream.py();
    for name in [intern!(py, "cuda_stream"), intern!(py, "ptr"), intern!(py, "handle")] {
        if let Some(address) = maybe(stream, name)? {
            return Ok(address.extract::<usize>()?.max(LEGACY_DEFAULT));
        }
    }
    let raw = stream.extract::<usize>().map_err(|_| {
        argument("a stream is given by its address, or as an object with cuda_stream (PyTorch), ptr (CuPy) or handle")
    })?;
    Ok(raw.max(LEGACY_DEFAULT))
}

/// Version 3 of the CUDA array interface, and those before it.
fn cuda_interface(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>, library: &str) -> PyResult<Array> {
    let (spec, address) = interface_of(object, interface, "__cuda_array_interface__")?;
    let said: Option<usize> = match interface.get_item(intern!(object.py(), "stream")) {
        Ok(stream) => stream.extract()?,
        // Versions before 3 have none.
        Err(_) => None,
    };
    if said == Some(0) {
        return Err(argument(
            "__cuda_array_interface__ says stream 0, which its version 3 forbids: 1 is the legacy default stream",
        ));
    }
    // Which device it is on nobody says: that of the driver's pointer is found where it is used. With one GPU it is clear.
    let ordinal = device_of(address)?;
    let stream = match current_stream(object.py(), library, ordinal)? {
        Some(current) => Some(current),
        None => said,
    };
    let foreign =
        Foreign::of_interface(spec, Place::Cuda(ordinal), address, object.clone().unbind()).map_err(raise)?;
    Ok(Array { foreign, stream })
}

/// The CUDA device that an address is memory of.
fn device_of(address: usize) -> PyResult<u32> {
    if devices::cuda_devices().is_empty() {
        let why = framelane::device::cuda_devices()
            .err()
            .map_or_else(|| "there is none".into(), |why| why.to_string());
        return Err(crate::errors::UnsupportedError::new_err(format!(
            "an array of a CUDA device came, and {why}"
        )));
    }
    framelane_cuda::device_of(address as u64).map_err(|error| raise(error.into()))
}

fn host(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    let py = object.py();
    let array = |foreign| Ok(Array { foreign, stream: None });
    if let Some(interface) = maybe(object, intern!(py, "__array_interface__"))? {
        if is_reversed(&interface)? {
            // NumPy's `image[:, :, ::-1]`: one copy more, in the order of its elements.
            return host(&object.call_method0(intern!(py, "copy"))?);
        }
        if object.hasattr(intern!(py, "mask"))? && object.hasattr(intern!(py, "filled"))? {
            return Err(masked());
        }
        return array(host_interface(object, &interface)?);
    }
    if let Some(dlpack) = maybe(object, intern!(py, "__dlpack__"))? {
        return array(Foreign::of_capsule(&dlpack.call0()?)?);
    }
    match PyMemoryView::from(object) {
        Ok(view) => array(buffer(&view)?),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Err(unknown(object, "which is no array")),
        Err(error) => Err(error),
    }
}

fn masked() -> PyErr {
    argument("an array with a mask came: give one without, such as `.filled(0)`")
}

/// What an array interface describes: at an address, or, as Pillow's images have it, in bytes.
fn host_interface(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Foreign> {
    let py = object.py();
    if let Ok(data) = interface.get_item(intern!(py, "data"))
        && let Ok(bytes) = data.cast::<PyBytes>()
    {
        let kind: String = interface.get_item(intern!(py, "typestr"))?.extract()?;
        let shape: Vec<i64> = interface.get_item(intern!(py, "shape"))?.extract()?;
        let spec = dlpack::spec(typestr(object, &kind)?, &shape, None).map_err(raise)?;
        return Foreign::of_bytes(spec, bytes.as_bytes().into()).map_err(raise);
    }
    let (spec, address) = interface_of(object, interface, "__array_interface__")?;
    // With the interface itself: NumPy's scalars have memory that only it keeps.
    let owner = (object, interface).into_pyobject(py)?.into_any().unbind();
    Foreign::of_interface(spec, Place::Host, address, owner).map_err(raise)
}

/// A buffer's elements, copied in their order: what Python's stable interface lets one see of it.
fn buffer(view: &Bound<'_, PyMemoryView>) -> PyResult<Foreign> {
    let py = view.py();
    let format: String = view.getattr(intern!(py, "format"))?.extract()?;
    let size: usize = view.getattr(intern!(py, "itemsize"))?.extract()?;
    let kind = match format.trim_start_matches(['@', '=', '<']) {
        "?" => "b",
        "B" | "H" => "u",
        "b" | "h" | "i" | "l" | "q" => "i",
        "e" | "f" | "d" => "f",
        _ => return Err(argument(format!("a buffer of format {format:?} came: {DTYPES}"))),
    };
    let shape: Vec<i64> = view.getattr(intern!(py, "shape"))?.extract()?;
    let spec = dlpack::spec(dtype(kind, size)?, &shape, None).map_err(raise)?;
    let bytes = view.call_method0(intern!(py, "tobytes"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes().into();
    Foreign::of_bytes(spec, bytes).map_err(raise)
}

/// Whether an array interface has a negative stride.
fn is_reversed(interface: &Bound<'_, PyAny>) -> PyResult<bool> {
    let strides = interface.get_item(intern!(interface.py(), "strides"));
    let strides: Option<Vec<i64>> = match strides {
        Ok(strides) => strides.extract()?,
        Err(_) => None,
    };
    Ok(strides.is_some_and(|strides| strides.iter().any(|&stride| stride < 0)))
}

/// The array that an interface of either kind describes, and its address.
fn interface_of(
    object: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyAny>,
    which: &str,
) -> PyResult<(TensorSpec, usize)> {
    let wrong = |why: &str| argument(format!("{which} makes no sense: {why}"));
    let interface = interface.cast::<PyDict>().map_err(|_| wrong("it is no dict"))?;
    let must =
        |name: &str| interface.get_item(name)?.ok_or_else(|| wrong(&format!("there is no {name:?} in it")));
    let shape: Vec<i64> = must("shape")?.extract().map_err(|_| wrong("its shape is no tuple of numbers"))?;
    let kind: String = must("typestr")?.extract().map_err(|_| wrong("its typestr is no text"))?;
    let data = must("data")?;
    let data = data.cast::<PyTuple>().map_err(|_| wrong("its data is no tuple of an address and a flag"))?;
    let address: usize = data.get_item(0)?.extract().map_err(|_| wrong("its address is no number"))?;
    let optional = |name: &str| Ok::<_, PyErr>(interface.get_item(name)?.filter(|found| !found.is_none()));
    if optional("mask")?.is_some() {
        return Err(masked());
    }
    let dtype = typestr(object, &kind)?;
    let strides: Option<Vec<i64>> = optional("strides")?
        .map(|strides| strides.extract().map_err(|_| wrong("its strides are no tuple of numbers")))
        .transpose()?;
    // They count bytes there.
    let size = dtype.size() as i64;
    let strides = match strides {
        Some(strides) if strides.len() != shape.len() => {
            return Err(wrong("it has not as many strides as dimensions"));
        }
        Some(strides) if strides.iter().zip(&shape).any(|(stride, &n)| n > 1 && stride % size != 0) => {
            return Err(argument(format!(
                "an array with strides of {strides:?} bytes came, which its elements of {size} bytes do not divide: give a contiguous copy"
            )));
        }
        strides => strides.map(|strides| strides.iter().map(|stride| stride / size).collect::<Vec<_>>()),
    };
    Ok((dlpack::spec(dtype, &shape, strides.as_deref()).map_err(raise)?, address))
}

/// `<f4`, and what libraries that add types to NumPy say.
fn typestr(object: &Bound<'_, PyAny>, text: &str) -> PyResult<DType> {
    let unknown = || argument(format!("an array of type {text:?} came: {DTYPES}"));
    let mut chars = text.chars();
    let (order, kind) = (chars.next().ok_or_else(unknown)?, chars.next().ok_or_else(unknown)?);
    let size: usize = chars.as_str().parse().map_err(|_| unknown())?;
    if order == '>' && size > 1 {
        return Err(argument(format!(
            "an array of type {text:?} came, whose bytes are in the other order: give a copy in this machine's"
        )));
    }
    if kind == 'V' && size == 2 {
        let name = object.getattr(intern!(object.py(), "dtype"))?.getattr(intern!(object.py(), "name"))?;
        if name.extract::<String>()? == "bfloat16" {
            return Ok(DType::BF16);
        }
    }
    dtype(&kind.to_string(), size).map_err(|_| unknown())
}

fn dtype(kind: &str, size: usize) -> PyResult<DType> {
    Ok(match (kind, size) {
        ("b", 1) => DType::Bool,
        ("u", 1) => DType::U8,
        ("i", 1) => DType::I8,
        ("u", 2) => DType::U16,
        ("i", 2) => DType::I16,
        ("i", 4) => DType::I32,
        ("i", 8) => DType::I64,
        ("f", 2) => DType::F16,
        ("f", 4) => DType::F32,
        ("f", 8) => DType::F64,
        _ => return Err(argument(format!("an array of type {kind}{size} came: {DTYPES}"))),
    })
}
