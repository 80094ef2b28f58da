//! Memory by its address: DLPack capsules in and out, the array interfaces, and streams of other libraries.
//!
//! All `unsafe` of the package is here. What comes in is checked before an address is used, and kept alive by what it came
//! from; what goes out keeps alive what it points to.
//!
//! The layout of the structs is that of DLPack 1.0 (`dlpack.h`) and of those before it.

use framelane::device::{Buffer, Device, Stream};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Error, ErrorKind, Result};
use framelane_cuda::DeviceBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr::NonNull;

/// Device types of DLPack.
pub const CPU: i32 = 1;
pub const CUDA: i32 = 2;
pub const CUDA_HOST: i32 = 3;
pub const CUDA_MANAGED: i32 = 13;

const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED: &CStr = c"used_dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    ordinal: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

#[repr(C)]
struct DlManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// Where an array of another library's lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Host,
    /// On the CUDA device of this number.
    Cuda(u32),
}

/// An array of another library's, kept alive.
pub struct Foreign {
    pub spec: TensorSpec,
    pub place: Place,
    address: usize,
    _owner: Owner,
}

enum Owner {
    Managed(#[expect(dead_code, reason = "it is held")] Managed),
    /// What an array interface was read from.
    Object(#[expect(dead_code, reason = "it is held")] Py<PyAny>),
    /// Bytes copied out of a buffer.
    Bytes(#[expect(dead_code, reason = "it is held")] Box<[u8]>),
}

/// A managed tensor that was taken over: deleted once.
enum Managed {
    Old(NonNull<DlManaged>),
    New(NonNull<DlManagedVersioned>),
}

// SAFETY: whoever takes a managed tensor over owns it, and DLPack lets its deleter run on any thread.
unsafe impl Send for Managed {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Managed {}

impl Drop for Managed {
    fn drop(&mut self) {
        match *self {
            Self::Old(tensor) => {
                // SAFETY: taken over from its capsule, and alive until this call.
                if let Some(delete) = unsafe { tensor.as_ref() }.deleter {
                    // SAFETY: called once, by its owner.
                    unsafe { delete(tensor.as_ptr()) };
                }
            }
            Self::New(tensor) => {
                // SAFETY: taken over from its capsule, and alive until this call.
                if let Some(delete) = unsafe { tensor.as_ref() }.deleter {
                    // SAFETY: called once, by its owner.
                    unsafe { delete(tensor.as_ptr()) };
                }
            }
        }
    }
}

impl Managed {
    fn tensor(&self) -> &DlTensor {
        match self {
            // SAFETY: alive until `self` is dropped; nobody writes it.
            Self::Old(tensor) => unsafe { &tensor.as_ref().tensor },
            // SAFETY: as above.
            Self::New(tensor) => unsafe { &tensor.as_ref().tensor },
        }
    }
}

fn refuse(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Argument, why)
}

impl Foreign {
    /// Take over the tensor in a capsule that `__dlpack__` gave.
    pub fn of_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let managed = take_over(capsule)?;
        let spec = spec_of(managed.tensor()).map_err(crate::errors::raise)?;
        let tensor = managed.tensor();
        let place = match tensor.device {
            DlDevice { kind: CPU | CUDA_HOST, .. } => Place::Host,
            DlDevice { kind: CUDA | CUDA_MANAGED, ordinal } => {
                Place::Cuda(u32::try_from(ordinal).unwrap_or(0))
            }
            DlDevice { kind, .. } => return Err(crate::errors::raise(no_device(kind))),
        };
        let address = (tensor.data as usize).wrapping_add(usize::try_from(tensor.byte_offset).unwrap_or(0));
        Self::checked(spec, place, address, Owner::Managed(managed)).map_err(crate::errors::raise)
    }

    /// An array at an address that `owner`'s array interface says.
    pub fn of_interface(spec: TensorSpec, place: Place, address: usize, owner: Py<PyAny>) -> Result<Self> {
        Self::checked(spec, place, address, Owner::Object(owner))
    }

    /// A packed array of bytes that were copied.
    pub fn of_bytes(spec: TensorSpec, bytes: Box<[u8]>) -> Result<Self> {
        if bytes.len() < spec.span_bytes() {
            let (needs, has) = (spec.span_bytes(), bytes.len());
            return Err(refuse(format!("{spec} spans {needs} bytes, and its buffer has {has}")));
        }
        Self::checked(spec, Place::Host, bytes.as_ptr() as usize, Owner::Bytes(bytes))
    }

    fn checked(spec: TensorSpec, place: Place, address: usize, owner: Owner) -> Result<Self> {
        if address == 0 && spec.span_bytes() > 0 {
            return Err(refuse(format!("{spec} has no memory: its address is 0")));
        }
        if address.checked_add(spec.span_bytes()).is_none() {
            return Err(refuse(format!("{spec} would lie beyond the end of memory")));
        }
        Ok(Self { spec, place, address, _owner: owner })
    }

    /// Its bytes, from the first element to the last, of an array of the host's.
    pub fn bytes(&self) -> Option<&[u8]> {
        let len = self.spec.span_bytes();
        match self.place {
            Place::Host if len == 0 => Some(&[]),
            // SAFETY: the owner says that so many bytes are there, and keeps them. As in every extension that lets other
            // threads of Python run while it copies, one that writes the array meanwhile gets a torn copy.
            Place::Host => Some(unsafe { std::slice::from_raw_parts(self.address as *const u8, len) }),
            Place::Cuda(_) => None,
        }
    }

    /// Its memory on the CUDA device that it is on, kept until the streams that use it are past their work.
    pub fn into_buffer(self, device: &Device) -> Result<(Buffer, TensorSpec)> {
        let Some(context) = device.cuda_context() else {
            return Err(refuse(format!("{} is not on the {}", self.spec, device.name())));
        };
        let (spec, address, bytes) = (self.spec.clone(), self.address as u64, self.spec.span_bytes());
        let owner: Box<dyn Any + Send + Sync> = Box::new(self);
        // SAFETY: the owner says that so many bytes are there, and keeps them; whoever gave the array ordered the stream
        // that it is used on after its own work, as it was asked to.
        let memory = unsafe { DeviceBuffer::from_raw(context, address, bytes, owner) };
        Ok((device.buffer_from_cuda(memory)?, spec))
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({}, {:?})", self.spec, self.place)
    }
}

/// Mark the capsule as used, and own what was in it.
fn take_over(capsule: &Bound<'_, PyAny>) -> PyResult<Managed> {
    let py = capsule.py();
    let take = |name: &CStr, used: &'static CStr| -> PyResult<Option<NonNull<c_void>>> {
        // SAFETY: any object may be asked; the name is compared, not kept.
        if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) } == 0 {
            return Ok(None);
        }
        // SAFETY: a capsule of this name.
        let inside = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
        // SAFETY: as above; the new name lives as long as the program. From now on the capsule deletes nothing.
        let renamed = unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) };
        match NonNull::new(inside).filter(|_| renamed == 0) {
            Some(inside) => Ok(Some(inside)),
            None => Err(PyErr::fetch(py)),
        }
    };
    if let Some(new) = take(VERSIONED, USED_VERSIONED)? {
        let new = Managed::New(new.cast());
        if let Managed::New(tensor) = &new {
            // SAFETY: just taken over, and alive.
            let major = unsafe { tensor.as_ref().major };
            if major > 1 {
                let text = format!("a DLPack tensor of version {major} came, and 1 is the newest known here");
                return Err(PyBufferError::new_err(text));
            }
        }
        return Ok(new);
    }
    match take(UNVERSIONED, USED)? {
        Some(old) => Ok(Managed::Old(old.cast())),
        None => {
            let text = "__dlpack__ gave no DLPack capsule, or one that was used before";
            Err(PyBufferError::new_err(text))
        }
    }
}

fn no_device(kind: i32) -> Error {
    refuse(format!("an array is on a device of DLPack's kind {kind}: give one on the CPU or on CUDA"))
}

fn spec_of(tensor: &DlTensor) -> Result<TensorSpec> {
    let dtype = dtype_of(tensor.dtype)?;
    let ndim = usize::try_from(tensor.ndim).ok().filter(|&ndim| ndim <= 32);
    let ndim = ndim.ok_or_else(|| refuse(format!("an array of {} dimensions came", tensor.ndim)))?;
    let read = |from: *const i64| -> Vec<i64> {
        // SAFETY: the tensor has so many extents, and strides if there are any.
        unsafe { std::slice::from_raw_parts(from, ndim) }.to_vec()
    };
    if ndim > 0 && tensor.shape.is_null() {
        return Err(refuse("an array without a shape came"));
    }
    let shape = if ndim == 0 { Vec::new() } else { read(tensor.shape) };
    let strides = (ndim > 0 && !tensor.strides.is_null()).then(|| read(tensor.strides));
    spec(dtype, &shape, strides.as_deref())
}

/// A spec of what was said by numbers that may be anything; strides count elements.
pub fn spec(dtype: DType, shape: &[i64], strides: Option<&[i64]>) -> Result<TensorSpec> {
    let extents = shape.iter().map(|&n| usize::try_from(n)).collect::<std::result::Result<Vec<_>, _>>();
    let extents = extents.map_err(|_| refuse(format!("an array of shape {shape:?} cannot be")))?;
    // With no elements nothing is ever reached, whatever the strides are.
    if extents.contains(&0) {
        return Ok(TensorSpec::new(dtype, extents));
    }
    let total = extents.iter().try_fold(dtype.size(), |bytes, &n| bytes.checked_mul(n));
    if total.is_none_or(|total| isize::try_from(total).is_err()) {
        return Err(refuse(format!("an array of shape {shape:?} has more bytes than there can be")));
    }
    let Some(strides) = strides else { return Ok(TensorSpec::new(dtype, extents)) };
    let steps = strides
        .iter()
        .zip(&extents)
        .map(|(&stride, &n)| if n == 1 { Ok(0) } else { usize::try_from(stride) });
    let steps = steps.collect::<std::result::Result<Vec<_>, _>>().map_err(|_| {
        refuse(format!(
            "an array with strides {strides:?} came, of which one is negative: give a contiguous copy"
        ))
    })?;
    let span = extents
        .iter()
        .zip(&steps)
        .try_fold(0_usize, |at, (&n, &step)| at.checked_add((n - 1).checked_mul(step)?));
    let span = span.and_then(|last| last.checked_add(1)?.checked_mul(dtype.size()));
    if span.is_none_or(|span| isize::try_from(span).is_err()) {
        return Err(refuse(format!("an array of shape {shape:?} with strides {strides:?} cannot be")));
    }
    TensorSpec::strided(dtype, extents, steps)
}

fn dtype_of(dtype: DlType) -> Result<DType> {
    Ok(match (dtype.code, dtype.bits, dtype.lanes) {
        (6, 8, 1) => DType::Bool,
        (1, 8, 1) => DType::U8,
        (0, 8, 1) => DType::I8,
        (1, 16, 1) => DType::U16,
        (0, 16, 1) => DType::I16,
        (0, 32, 1) => DType::I32,
        (0, 64, 1) => DType::I64,
        (2, 16, 1) => DType::F16,
        (4, 16, 1) => DType::BF16,
        (2, 32, 1) => DType::F32,
        (2, 64, 1) => DType::F64,
        (code, bits, lanes) => {
            let text =
                format!("an array of DLPack's type {code} with {bits} bits and {lanes} lanes came: {DTYPES}");
            return Err(refuse(text));
        }
    })
}

/// What arrays may be of.
pub const DTYPES: &str = "give one of bool, u8, i8, u16, i16, i32, i64, f16, bf16, f32 or f64";

fn dl_type(dtype: DType) -> DlType {
    let (code, bits) = match dtype {
        DType::Bool => (6, 8),
        DType::U8 => (1, 8),
        DType::I8 => (0, 8),
        DType::U16 => (1, 16),
        DType::I16 => (0, 16),
        DType::I32 => (0, 32),
        DType::I64 => (0, 64),
        DType::F16 => (2, 16),
        DType::BF16 => (4, 16),
        DType::F64 => (2, 64),
        // The rest is f32: a type that is new there has a test that fails here.
        _ => (2, 32),
    };
    DlType { code, bits, lanes: 1 }
}

/// What a capsule of ours points into.
struct Exported {
    managed: DlManaged,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _keep: Box<dyn Any + Send + Sync>,
}

/// A capsule for a packed tensor of ours at this address, which `keep` keeps: until whoever takes it over deletes it.
pub fn export<'py>(
    py: Python<'py>,
    spec: &TensorSpec,
    place: Place,
    address: usize,
    keep: Box<dyn Any + Send + Sync>,
) -> PyResult<Bound<'py, PyAny>> {
    let extents = |of: &[usize]| of.iter().map(|&n| n as i64).collect::<Box<[i64]>>();
    let device = match place {
        Place::Host => DlDevice { kind: CPU, ordinal: 0 },
        Place::Cuda(ordinal) => DlDevice { kind: CUDA, ordinal: ordinal as i32 },
    };
    let tensor = DlTensor {
        data: address as *mut c_void,
        device,
        ndim: spec.shape().len() as i32,
        dtype: dl_type(spec.dtype()),
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = DlManaged { tensor, context: std::ptr::null_mut(), deleter: Some(delete) };
    let (shape, strides) = (extents(spec.shape()), extents(spec.strides()));
    let mut exported = Box::new(Exported { managed, shape, strides, _keep: keep });
    exported.managed.tensor.shape = exported.shape.as_mut_ptr();
    exported.managed.tensor.strides = exported.strides.as_mut_ptr();
    let raw = Box::into_raw(exported);
    // SAFETY: it lives until it is deleted, and so does what its fields point to.
    let managed = unsafe { &raw mut (*raw).managed };
    // SAFETY: lives as long; its context is how the deleter finds the whole.
    unsafe { (*managed).context = raw.cast() };
    // SAFETY: the name lives as long as the program; the destructor knows what is in it.
    let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), UNVERSIONED.as_ptr(), Some(destroy)) };
    if capsule.is_null() {
        // SAFETY: nobody else knows it.
        drop(unsafe { Box::from_raw(raw) });
        return Err(PyErr::fetch(py));
    }
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}

/// Called once by whoever took the tensor over, on any thread.
unsafe extern "C" fn delete(managed: *mut DlManaged) {
    // SAFETY: made by `export`, whose context is the whole.
    let raw = unsafe { (*managed).context }.cast::<Exported>();
    // SAFETY: as above, and deleted once.
    drop(unsafe { Box::from_raw(raw) });
}

/// Called when a capsule goes: one that nobody took over still has its name.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that goes, while it holds the interpreter.
    if unsafe { ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: just checked.
    let managed = unsafe { ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()) };
    // SAFETY: `export` put it there, and nobody took it over.
    unsafe { delete(managed.cast()) };
}

/// A stream of another library's, by its address; 0 and 1 are the legacy default stream.
pub fn stream(device: &Device, raw: usize) -> Result<Stream> {
    let Some(context) = device.cuda_context() else {
        return Err(refuse(format!("a CUDA stream came, and the device is the {}", device.name())));
    };
    // SAFETY: the library that names it as its current one, or as that of its array, made it on this device. PyTorch and
    // CuPy keep theirs; of others the package's documentation says that they must.
    let stream = unsafe { framelane_cuda::Stream::from_raw(context, raw as _) }?;
    device.stream_from_cuda(format!("stream {raw:#x}"), stream)
}

/// Memory of the host's that other libraries write, too: known here by its address alone.
pub struct Block {
    memory: NonNull<u128>,
    words: usize,
}

// SAFETY: it is owned; who reads and writes it is up to those who have its address.
unsafe impl Send for Block {}
// SAFETY: nothing is done through a shared reference but telling the address.
unsafe impl Sync for Block {}

impl Block {
    /// A copy of these bytes, aligned to 16.
    pub fn of(bytes: &[u8]) -> Self {
        let mut words = vec![0_u128; bytes.len().div_ceil(size_of::<u128>())].into_boxed_slice();
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        let words = NonNull::from(Box::leak(words));
        Self { memory: words.cast(), words: words.len() }
    }

    pub fn address(&self) -> usize {
        self.memory.as_ptr() as usize
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let all = NonNull::slice_from_raw_parts(self.memory, self.words);
        // SAFETY: leaked by `of`, of this length; whoever has the address keeps the block.
        drop(unsafe { Box::from_raw(all.as_ptr()) });
    }
}
