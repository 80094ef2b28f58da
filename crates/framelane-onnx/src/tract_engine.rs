//! Networks in tract: pure Rust, always there.
//!
//! A network of open size is made concrete and optimised anew for each size of picture, since that is what
//! tract runs fast (and what lets it work out every shape); the last few such plans are kept. Lanes share a plan,
//! and with it the weights; each plan has its own copy of those that it rearranges.

use crate::elements::{Elements, ElementsMut};
use crate::file::OnnxFile;
use crate::inspect::Inspection;
use crate::plan::Plan;
use framelane::tensor::DType;
use framelane::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::DefaultRuntime;

/// The version of tract built in, for reports.
pub(crate) const VERSION: &str = "0.23";

/// Optimised plans that are kept, each for one shape of input.
const PLANS: usize = 4;

type RunnablePlan = Arc<dyn Runnable>;

pub(crate) struct TractNet {
    name: String,
    model: InferenceModel,
    dtype: DatumType,
    /// The most recently used last.
    plans: Mutex<Vec<(Vec<usize>, RunnablePlan)>>,
}

impl TractNet {
    /// Load the network, reduced to the output that is shown.
    pub fn new(file: &OnnxFile, inspection: &Inspection, plan: &Plan) -> Result<Self> {
        if !inspection.missing_in_tract.is_empty() {
            return Err(Error::new(
                ErrorKind::Model,
                format!(
                    "{} uses operators that tract does not have: {}",
                    file.name(),
                    inspection.missing_in_tract.join(", ")
                ),
            ));
        }
        let proto = file.decode()?;
        let model = guarded(file.name(), "load", || {
            // Types between the operators may name open sizes, which would contradict the concrete ones.
            let onnx = tract_onnx::onnx().with_ignore_value_info(true);
            let folder = file.path().and_then(|p| p.parent()?.to_str());
            let mut model = onnx.parse(&proto, folder)?.model;
            let shown = model.output_outlets()?[plan.output_index];
            model.select_output_outlets(&[shown])?;
            Ok(model)
        })?;
        let dtype = match plan.dtype {
            DType::U8 => DatumType::U8,
            DType::F16 => DatumType::F16,
            _ => DatumType::F32,
        };
        Ok(Self { name: file.name().to_owned(), model, dtype, plans: Mutex::new(Vec::new()) })
    }

    pub fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        let plan = self.plan(input)?;
        let fact = plan.output_fact(0).map_err(|e| failed(&self.name, "load", &e))?;
        fact.shape.as_concrete().map(<[usize]>::to_vec).ok_or_else(|| {
            Error::new(
                ErrorKind::Model,
                format!("{} gives an output whose size depends on the picture's contents", self.name),
            )
        })
    }

    /// The plan for one shape of input. Lanes that ask for one while another is being made wait for it; lanes
    /// that have theirs do not come here.
    fn plan(&self, shape: &[usize]) -> Result<RunnablePlan> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = plans.iter().position(|(s, _)| s == shape) {
            let found = plans.remove(at);
            let plan = Arc::clone(&found.1);
            plans.push(found);
            return Ok(plan);
        }
        let plan = guarded(&self.name, &format!("prepare for an input of {shape:?}"), || {
            let mut model = self.model.clone();
            model.set_input_fact(0, InferenceFact::dt_shape(self.dtype, shape))?;
            Ok(Arc::from(DefaultRuntime.prepare(model.into_typed()?)?))
        })?;
        if plans.len() == PLANS {
            plans.remove(0);
        }
        plans.push((shape.to_vec(), Arc::clone(&plan)));
        Ok(plan)
    }

    /// A network made of a plan that exists already, for tests that put their own operators into one.
    #[cfg(test)]
    pub fn of_plan(name: &str, shape: &[usize], plan: RunnablePlan) -> Self {
        Self {
            name: name.to_owned(),
            model: InferenceModel::default(),
            dtype: DatumType::F32,
            plans: Mutex::new(vec![(shape.to_vec(), plan)]),
        }
    }
}

/// Run tract code that meets a file's contents for the first time: a panic in it becomes an error.
fn guarded<T>(name: &str, doing: &str, f: impl FnOnce() -> TractResult<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result.map_err(|e| failed(name, doing, &e)),
        Err(payload) => {
            let panic = Error::from_panic("tract", &*payload);
            Err(Error::new(ErrorKind::Model, format!("tract could not {doing} {name}: {panic}")))
        }
    }
}

fn failed(name: &str, doing: &str, error: &TractError) -> Error {
    // The outermost contexts name inner steps; the root says what is wrong.
    Error::new(
        ErrorKind::Model,
        format!("tract could not {doing} {name}: {}", one_line(&format!("{error:#}"))),
    )
}

/// A runtime's message on one line of bounded length.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

pub(crate) struct TractLane {
    net: Arc<TractNet>,
    shape: Vec<usize>,
    state: Option<Box<dyn State>>,
    input: Arc<Tensor>,
    output: Option<TValue>,
}

impl TractLane {
    pub fn new(net: Arc<TractNet>) -> Self {
        Self { net, shape: Vec::new(), state: None, input: Arc::default(), output: None }
    }

    pub fn input(&mut self, shape: &[usize]) -> Result<ElementsMut<'_>> {
        let fail = |e: TractError| failed(&self.net.name, "run", &e);
        // Drop the last output first: it may be the input itself, in a network that only passes it on.
        self.output = None;
        if self.shape != shape || self.state.is_none() {
            let plan = self.net.plan(shape)?;
            self.state = Some(plan.spawn().map_err(fail)?);
            self.shape = shape.to_vec();
        }
        if self.input.shape() != shape || Arc::get_mut(&mut self.input).is_none() {
            self.input = Tensor::zero_dt(self.net.dtype, shape).map_err(fail)?.into_arc_tensor();
        }
        let Some(tensor) = Arc::get_mut(&mut self.input) else {
            return Err(Error::new(ErrorKind::Model, "tract shares a tensor that was just made"));
        };
        let elements = match self.net.dtype {
            DatumType::U8 => tensor.to_plain_array_view_mut().map(|v| v.into_slice().map(ElementsMut::U8)),
            DatumType::F16 => tensor.to_plain_array_view_mut().map(|v| v.into_slice().map(ElementsMut::F16)),
            _ => tensor.to_plain_array_view_mut().map(|v| v.into_slice().map(ElementsMut::F32)),
        };
        elements
            .map_err(fail)?
            .ok_or_else(|| Error::new(ErrorKind::Model, "tract made a strided input tensor"))
    }

    pub fn run(&mut self) -> Result<()> {
        let Some(mut state) = self.state.take() else {
            return Err(Error::new(ErrorKind::Model, "a network was run before its input was written"));
        };
        // A state that has failed holds half a run: it is dropped, and a fresh one made for the next frame.
        let input = TValue::from_const(Arc::clone(&self.input));
        let mut outputs = guarded(&self.net.name, "run", || state.run(tvec![input]))?;
        self.output = outputs.pop();
        self.state = Some(state);
        Ok(())
    }

    pub fn output(&self) -> Result<(&[usize], Elements<'_>)> {
        let Some(output) = &self.output else {
            return Err(Error::new(ErrorKind::Model, "a network's output was read before it was run"));
        };
        let view = output.try_as_plain_ram().map_err(|e| failed(&self.net.name, "run", &e))?;
        let elements = match output.datum_type() {
            DatumType::F32 => view.as_slice().map(Elements::F32),
            DatumType::F16 => view.as_slice().map(Elements::F16),
            DatumType::U8 => view.as_slice().map(Elements::U8),
            DatumType::I32 => view.as_slice().map(Elements::I32),
            DatumType::I64 => view.as_slice().map(Elements::I64),
            DatumType::Bool => view.as_slice().map(Elements::Bool),
            other => {
                return Err(Error::new(
                    ErrorKind::Model,
                    format!("{} gives {other:?} in tract, which cannot be shown", self.net.name),
                ));
            }
        };
        Ok((output.shape(), elements.map_err(|e| failed(&self.net.name, "run", &e))?))
    }
}
