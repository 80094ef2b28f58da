//! Networks in ONNX Runtime: one session, one copy of the weights, run by all lanes at once.

use crate::elements::{Elements, ElementsMut};
use crate::file::OnnxFile;
use crate::ort_find::OnnxRuntime;
use crate::ort_raw::SharedSession;
use crate::plan::Plan;
use crate::tract_engine::one_line;
use framelane::tensor::DType;
use framelane::{Error, ErrorKind, Result};
use half::f16;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::{DynTensor, Tensor, TensorElementType};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Shapes whose outputs are remembered; beyond that the memory is emptied.
const SHAPES: usize = 64;

/// Shape and type of an output.
type OutputForm = (Vec<usize>, TensorElementType);

pub(crate) struct OrtNet {
    name: String,
    session: SharedSession,
    dtype: DType,
    /// Shape and type of the output for each shape of input seen.
    outputs: Mutex<HashMap<Vec<usize>, OutputForm>>,
}

impl OrtNet {
    /// Load the network on the CPU. ONNX Runtime's own threads and the lanes together are `lanes` ×
    /// `threads_per_lane`.
    pub fn new(
        runtime: &OnnxRuntime,
        file: &OnnxFile,
        plan: &Plan,
        lanes: usize,
        threads_per_lane: usize,
    ) -> Result<Self> {
        let name = file.name();
        // The pool serves all lanes, and each lane's own thread works too.
        let threads = lanes * (threads_per_lane - 1) + 1;
        let fail = |e: &dyn fmt::Display| failed(name, "load", e);
        let mut builder = Session::builder(&runtime.environment)
            .map_err(|e| fail(&e))?
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(|e| fail(&e))?
            .with_intra_threads(threads)
            .map_err(|e| fail(&e))?
            // Decoders and encoders need the cores while a lane waits.
            .with_intra_op_spinning(false)
            .map_err(|e| fail(&e))?
            .with_no_environment_execution_providers()
            .map_err(|e| fail(&e))?;
        let session = match file.path() {
            Some(path) => builder.commit_from_file(path),
            None => builder.commit_from_memory(file.bytes()),
        };
        Self::of_session(name, session.map_err(|e| fail(&e))?, plan.dtype, &plan.input, &plan.output)
    }

    pub(crate) fn of_session(
        name: &str,
        session: Session,
        dtype: DType,
        input: &str,
        output: &str,
    ) -> Result<Self> {
        let session = SharedSession::new(session, input, output)
            .ok_or_else(|| failed(name, "load", &"the name of its input or output holds a zero byte"))?;
        Ok(Self { name: name.to_owned(), session, dtype, outputs: Mutex::new(HashMap::new()) })
    }

    pub fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        Ok(self.output(input)?.0)
    }

    /// Shape and type of the output: ONNX Runtime tells them by running, so one black picture is run for each
    /// new shape.
    fn output(&self, input: &[usize]) -> Result<OutputForm> {
        let known =
            |this: &Self| this.outputs.lock().unwrap_or_else(PoisonError::into_inner).get(input).cloned();
        if let Some(found) = known(self) {
            return Ok(found);
        }
        let tensor = tensor(element_type(self.dtype), input).map_err(|e| failed(&self.name, "run", &e))?;
        let value = self.session.run(&tensor).map_err(|e| failed(&self.name, "run", &e))?;
        let (Some(shape), Some(dtype)) = (value.dtype().tensor_shape(), value.dtype().tensor_type()) else {
            return Err(failed(&self.name, "run", &"its output is no tensor"));
        };
        let shape = shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect::<Vec<_>>();
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        if outputs.len() == SHAPES {
            outputs.clear();
        }
        outputs.insert(input.to_vec(), (shape.clone(), dtype));
        Ok((shape, dtype))
    }
}

fn failed(name: &str, doing: &str, error: &dyn fmt::Display) -> Error {
    let text = one_line(&error.to_string());
    Error::new(ErrorKind::Model, format!("ONNX Runtime could not {doing} {name}: {text}"))
}

fn element_type(dtype: DType) -> TensorElementType {
    match dtype {
        DType::U8 => TensorElementType::Uint8,
        DType::F16 => TensorElementType::Float16,
        _ => TensorElementType::Float32,
    }
}

/// A tensor of zeros that owns its memory.
fn tensor(dtype: TensorElementType, shape: &[usize]) -> ort::Result<DynTensor> {
    let n = shape.iter().product();
    Ok(match dtype {
        TensorElementType::Float32 => Tensor::from_array((shape, vec![0f32; n]))?.upcast(),
        TensorElementType::Float16 => Tensor::from_array((shape, vec![f16::ZERO; n]))?.upcast(),
        TensorElementType::Uint8 => Tensor::from_array((shape, vec![0u8; n]))?.upcast(),
        TensorElementType::Int32 => Tensor::from_array((shape, vec![0i32; n]))?.upcast(),
        TensorElementType::Int64 => Tensor::from_array((shape, vec![0i64; n]))?.upcast(),
        TensorElementType::Bool => Tensor::from_array((shape, vec![false; n]))?.upcast(),
        other => return Err(ort::Error::new(format!("tensors of {other} cannot be shown"))),
    })
}

pub(crate) struct OrtLane {
    net: Arc<OrtNet>,
    shape: Vec<usize>,
    output_shape: Vec<usize>,
    /// Input and output, kept from run to run.
    tensors: Option<(DynTensor, DynTensor)>,
}

impl OrtLane {
    pub fn new(net: Arc<OrtNet>) -> Self {
        Self { net, shape: Vec::new(), output_shape: Vec::new(), tensors: None }
    }

    pub fn input(&mut self, shape: &[usize]) -> Result<ElementsMut<'_>> {
        let fail = |e: ort::Error| failed(&self.net.name, "run", &e);
        if self.tensors.is_none() || self.shape != shape {
            self.tensors = None;
            let (output_shape, dtype) = self.net.output(shape)?;
            let input = tensor(element_type(self.net.dtype), shape).map_err(fail)?;
            let output = tensor(dtype, &output_shape).map_err(fail)?;
            self.tensors = Some((input, output));
            self.shape = shape.to_vec();
            self.output_shape = output_shape;
        }
        let Some((input, _)) = &mut self.tensors else {
            return Err(failed(&self.net.name, "run", &"its input was not made"));
        };
        match self.net.dtype {
            DType::U8 => input.try_extract_tensor_mut().map(|(_, v)| ElementsMut::U8(v)),
            DType::F16 => input.try_extract_tensor_mut().map(|(_, v)| ElementsMut::F16(v)),
            _ => input.try_extract_tensor_mut().map(|(_, v)| ElementsMut::F32(v)),
        }
        .map_err(fail)
    }

    pub fn run(&mut self) -> Result<()> {
        let Some((input, output)) = &mut self.tensors else {
            return Err(failed(&self.net.name, "run", &"its input was not written"));
        };
        self.net.session.run_into(input, output).map_err(|e| failed(&self.net.name, "run", &e))
    }

    pub fn output(&self) -> Result<(&[usize], Elements<'_>)> {
        let Some((_, output)) = &self.tensors else {
            return Err(failed(&self.net.name, "run", &"its output was read before it was run"));
        };
        let elements = match output.data_type() {
            TensorElementType::Float32 => output.try_extract_tensor().map(|(_, v)| Elements::F32(v)),
            TensorElementType::Float16 => output.try_extract_tensor().map(|(_, v)| Elements::F16(v)),
            TensorElementType::Uint8 => output.try_extract_tensor().map(|(_, v)| Elements::U8(v)),
            TensorElementType::Int32 => output.try_extract_tensor().map(|(_, v)| Elements::I32(v)),
            TensorElementType::Int64 => output.try_extract_tensor().map(|(_, v)| Elements::I64(v)),
            TensorElementType::Bool => output.try_extract_tensor().map(|(_, v)| Elements::Bool(v)),
            other => return Err(failed(&self.net.name, "run", &format!("its output is of {other}"))),
        };
        Ok((&self.output_shape, elements.map_err(|e| failed(&self.net.name, "run", &e))?))
    }
}
