//! The one call that `ort` does not offer safely: to run a session from several threads at once.
//!
//! ONNX Runtime documents `OrtApi::Run` as callable from any number of threads on one session, and its CPU
//! kernels keep no state between calls; `ort` still asks for `&mut Session`, because some device back ends (CUDA)
//! do not live up to it. Sessions are therefore made here for the CPU alone (see `ort_engine`), and a test
//! compares lanes that run at once with one lane, bit by bit.

use ort::session::Session;
use ort::value::{DynTensor, DynValue};
use ort::{AsPointer, Error};
use std::ffi::CString;
use std::ptr::{self, NonNull};

/// A session on the CPU that any number of threads may run at once.
pub(crate) struct SharedSession {
    session: Session,
    input: CString,
    output: CString,
}

impl SharedSession {
    /// Share a session made for the CPU without any other execution provider. `None` if a name holds a zero byte.
    pub fn new(session: Session, input: &str, output: &str) -> Option<Self> {
        Some(Self { session, input: CString::new(input).ok()?, output: CString::new(output).ok()? })
    }

    /// Run on `input`, into `output`, which must have the shape and type of the result.
    pub fn run_into(&self, input: &DynTensor, output: &mut DynTensor) -> ort::Result<()> {
        self.call(input, output.ptr_mut()).map(drop)
    }

    /// Run on `input`, into a new value.
    pub fn run(&self, input: &DynTensor) -> ort::Result<DynValue> {
        let value = self.call(input, ptr::null_mut())?;
        let value = NonNull::new(value).ok_or_else(|| Error::new("ONNX Runtime gave no output"))?;
        // SAFETY: the call above succeeded with a null output, so this value was made for us with the session's
        // allocator, and we own it.
        Ok(unsafe { DynValue::from_ptr(value, Some(self.session.allocator())) })
    }

    fn call(
        &self,
        input: &DynTensor,
        output: *mut ort::sys::OrtValue,
    ) -> ort::Result<*mut ort::sys::OrtValue> {
        let run = ort::api().Run;
        let mut outputs = [output];
        // SAFETY:
        // - The session lives as long as `self`, and `Run` may be called on it by several threads at once (above).
        // - The names end in zero bytes and outlive the call; there is one of each, as the counts say.
        // - `input` is borrowed for the call; `output` is null or comes from a tensor borrowed mutably by the
        //   caller, so nobody else reads or writes it meanwhile. ONNX Runtime checks its type and shape.
        let status = unsafe {
            run(
                self.session.ptr().cast_mut(),
                ptr::null(),
                [self.input.as_ptr()].as_ptr(),
                [input.ptr()].as_ptr(),
                1,
                [self.output.as_ptr()].as_ptr(),
                1,
                outputs.as_mut_ptr(),
            )
        };
        // SAFETY: the status comes from the call just made, and is read (and freed) this one time.
        unsafe { Error::result_from_status(status) }?;
        Ok(outputs[0])
    }
}
