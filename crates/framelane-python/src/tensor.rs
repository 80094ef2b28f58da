//! `framelane.Tensor`: an array of ours, for any library to take.

use crate::array;
use crate::devices;
use crate::dlpack::{self, Block, Place};
use crate::errors::{argument, raise};
use crate::feed::Hold;
use framelane::tensor::{DType, TensorSpec};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::any::Any;
use std::sync::Arc;

/// A packed array in memory of framelane's, for any library to take.
///
/// Take it by ``numpy.asarray``, ``torch.from_dlpack``, ``cupy.from_dlpack`` or ``jax.dlpack.from_dlpack``: none of
/// them copies. On a CUDA device it lies in a slot of a feed. The slot is not written while this object, or an array
/// that was taken from it, lives, nor before the streams that read it are done.
///
/// There is no constructor: ``Offscreen.image`` and ``feed`` give such.
#[pyclass(module = "framelane", frozen)]
pub struct Tensor {
    spec: TensorSpec,
    memory: Memory,
}

enum Memory {
    Host(Arc<Block>),
    /// In a slot of a feed, which it holds.
    Slot {
        hold: Arc<Hold>,
        ordinal: u32,
        address: usize,
    },
}

/// What other libraries call the type.
fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8",
        DType::I8 => "int8",
        DType::U16 => "uint16",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F64 => "float64",
        _ => "float32",
    }
}

/// As the array interfaces say it. `None`: they have no word for it.
fn typestr(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::U16 => "<u2",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        _ => return None,
    })
}

impl Tensor {
    pub fn of_host(spec: TensorSpec, bytes: Vec<u8>) -> Self {
        Self { spec, memory: Memory::Host(Arc::new(Block::of(&bytes))) }
    }

    pub fn of_slot(spec: TensorSpec, hold: Arc<Hold>, ordinal: u32, address: usize) -> Self {
        Self { spec, memory: Memory::Slot { hold, ordinal, address } }
    }

    fn place(&self) -> Place {
        match self.memory {
            Memory::Host(_) => Place::Host,
            Memory::Slot { ordinal, .. } => Place::Cuda(ordinal),
        }
    }

    fn address(&self) -> usize {
        match &self.memory {
            Memory::Host(block) => block.address(),
            Memory::Slot { address, .. } => *address,
        }
    }

    /// A capsule that holds what it points to. The reader's stream is named before.
    pub fn capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keep: Box<dyn Any + Send + Sync> = match &self.memory {
            Memory::Host(block) => Box::new(block.clone()),
            Memory::Slot { hold, .. } => Box::new(hold.clone()),
        };
        dlpack::export(py, &self.spec, self.place(), self.address(), keep)
    }

    fn interface<'py>(&self, py: Python<'py>, what: &str, version: u32) -> PyResult<Bound<'py, PyDict>> {
        let Some(typestr) = typestr(self.spec.dtype()) else {
            let text = format!("{what} has no word for {}: take it by __dlpack__", name(self.spec.dtype()));
            return Err(PyAttributeError::new_err(text));
        };
        let dict = PyDict::new(py);
        dict.set_item("shape", PyTuple::new(py, self.spec.shape())?)?;
        dict.set_item("typestr", typestr)?;
        dict.set_item("data", (self.address(), false))?;
        dict.set_item("strides", py.None())?;
        dict.set_item("version", version)?;
        Ok(dict)
    }
}

#[pymethods]
impl Tensor {
    /// Elements along each dimension; empty for a scalar.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.spec.shape())
    }

    /// The type of its elements, by NumPy's name: ``"uint8"``, ``"float32"``, ``"bfloat16"``, …
    #[getter]
    fn dtype(&self) -> &'static str {
        name(self.spec.dtype())
    }

    /// ``"cpu"``, or ``"cuda:N"``.
    #[getter]
    fn device(&self) -> String {
        devices::name(match self.place() {
            Place::Host => None,
            Place::Cuda(ordinal) => Some(ordinal),
        })
    }

    /// Bytes of its elements together.
    #[getter]
    fn nbytes(&self) -> usize {
        self.spec.bytes()
    }

    /// Dimensions; 0 for a scalar.
    #[getter]
    fn ndim(&self) -> usize {
        self.spec.shape().len()
    }

    /// The first dimension's extent.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     It has no dimensions.
    fn __len__(&self) -> PyResult<usize> {
        self.spec
            .shape()
            .first()
            .copied()
            .ok_or_else(|| PyTypeError::new_err("a tensor without dimensions has no length"))
    }

    /// DLPack's device type (1: CPU, 2: CUDA) and the device's number.
    fn __dlpack_device__(&self) -> (i32, u32) {
        match self.place() {
            Place::Host => (dlpack::CPU, 0),
            Place::Cuda(ordinal) => (dlpack::CUDA, ordinal),
        }
    }

    /// A DLPack capsule, without a version, that holds the memory.
    ///
    /// Parameters
    /// ----------
    /// stream
    ///     On CUDA, the address of the stream that reads it: that stream waits on the device, and not the CPU, until the
    ///     tensor is there, and the slot waits for it later. ``None`` or 1 is the legacy default stream, -1 says that the
    ///     reader orders itself.
    /// max_version
    ///     Of no effect.
    /// dl_device, copy
    ///     Another device than its own, and a copy, are refused.
    ///
    /// Raises
    /// ------
    /// BufferError
    ///     A copy, or another device, was asked for.
    /// ArgumentError
    ///     ``stream`` is 0, which DLPack forbids for CUDA.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<(i32, u32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // What is given has no version, which every reader takes.
        let _ = max_version;
        if copy == Some(true) || dl_device.is_some_and(|device| device != self.__dlpack_device__()) {
            return Err(PyBufferError::new_err(
                "a tensor of framelane's is taken where it is: copy it afterwards",
            ));
        }
        if let Memory::Slot { hold, ordinal, .. } = &self.memory {
            let raw = match stream {
                Some(stream) => stream.extract::<i64>()?,
                // As DLPack says for CUDA: the legacy default stream.
                None => 1,
            };
            match usize::try_from(raw) {
                Ok(0) => return Err(argument("stream 0 says nothing: 1 is the legacy default stream")),
                Ok(raw) => py.detach(|| hold.on(*ordinal, raw)).map_err(raise)?,
                // -1: the reader orders itself.
                Err(_) => {}
            }
        }
        self.capsule(py)
    }

    /// NumPy's interface, of a tensor on the CPU; ``AttributeError`` on CUDA, and for bfloat16.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.place() != Place::Host {
            let text = format!("this tensor is on {}: it has no __array_interface__", self.device());
            return Err(PyAttributeError::new_err(text));
        }
        let dict = self.interface(py, "__array_interface__", 3)?;
        Ok(dict)
    }

    /// Version 3 of Numba's interface, of a tensor on CUDA; ``AttributeError`` on the CPU, and for bfloat16.
    ///
    /// Names CuPy's current stream as its reader if CuPy is loaded, and a stream of framelane's otherwise.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Memory::Slot { hold, ordinal, .. } = &self.memory else {
            return Err(PyAttributeError::new_err(
                "this tensor is on the CPU: it has no __cuda_array_interface__",
            ));
        };
        // CuPy reads on its current stream; others wait for the one that is named.
        let modules = py.import("sys")?.getattr("modules")?;
        let library = if modules.contains("cupy")? { "cupy" } else { "" };
        let raw = match array::current_stream(py, library, *ordinal)? {
            Some(raw) => raw,
            None => devices::own_stream(*ordinal).map_err(raise)?,
        };
        py.detach(|| hold.on(*ordinal, raw)).map_err(raise)?;
        let dict = self.interface(py, "__cuda_array_interface__", 3)?;
        dict.set_item("stream", raw)?;
        Ok(dict)
    }

    /// Name another stream that reads the tensor: its slot is not written before that one is done, either.
    ///
    /// On the CPU this does nothing.
    ///
    /// Parameters
    /// ----------
    /// stream
    ///     PyTorch's or CuPy's stream, or its address.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     It is no stream.
    fn record_stream(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let Memory::Slot { hold, ordinal, .. } = &self.memory else { return Ok(()) };
        hold.record(py, *ordinal, stream)
    }

    fn __repr__(&self) -> String {
        format!("framelane.Tensor({}, {})", self.spec, self.device())
    }
}
