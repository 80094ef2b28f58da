//! Proof that no lock is held while a network runs: a run is held fast inside the network until another one,
//! of the same network in another lane, has gone all the way through. With a lock, the other never could.

use crate::elements::{Elements, ElementsMut};
use crate::engine::{Engine, EngineLane};
use crate::ort_engine::OrtNet;
use crate::ort_find::onnxruntime;
use crate::tract_engine::TractNet;
use framelane::tensor::DType;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ends a test that would otherwise hang, and so fails it; never waited for when all is well.
const DEADLINE: Duration = Duration::from_secs(60);

const SHAPE: [usize; 4] = [1, 1, 4, 4];

/// The inside of the held run: says that it is there, and waits to be let go.
#[derive(Debug)]
struct Gate {
    entered: Mutex<Sender<()>>,
    leave: Mutex<Receiver<()>>,
}

impl Gate {
    fn pass(&self) -> Result<(), &'static str> {
        self.entered.lock().unwrap().send(()).map_err(|_| "nobody waits at the gate")?;
        self.leave.lock().unwrap().recv_timeout(DEADLINE).map_err(|_| "the other run never got through")
    }
}

fn gate() -> (Arc<Gate>, Receiver<()>, Sender<()>) {
    let ((entered, has_entered), (let_go, leave)) = (channel(), channel());
    (Arc::new(Gate { entered: Mutex::new(entered), leave: Mutex::new(leave) }), has_entered, let_go)
}

fn run(mut lane: EngineLane, value: f32) {
    match lane.input(&SHAPE).unwrap() {
        ElementsMut::F32(input) => input.fill(value),
        other => panic!("{other:?}"),
    }
    lane.run().unwrap();
    match lane.output().unwrap() {
        (shape, Elements::F32(output)) => {
            assert_eq!(shape, SHAPE);
            assert!(output.iter().all(|&v| v == value), "{output:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// The bright run enters the gate; the dark one must get through meanwhile.
fn overlap(engine: &Engine, has_entered: &Receiver<()>, let_go: &Sender<()>) {
    std::thread::scope(|scope| {
        let held = scope.spawn(|| run(engine.lane(), 1.0));
        has_entered.recv_timeout(DEADLINE).expect("the held run enters the network");
        run(engine.lane(), 0.0);
        let_go.send(()).unwrap();
        held.join().unwrap();
    });
}

mod in_tract {
    use super::*;
    use tract_onnx::tract_core::internal::*;

    /// An operator that passes its input on, through the gate if it is bright.
    #[derive(Debug, Clone)]
    struct GateOp(Arc<Gate>);

    impl PartialEq for GateOp {
        fn eq(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.0, &other.0)
        }
    }
    impl Eq for GateOp {}

    impl Op for GateOp {
        fn name(&self) -> StaticName {
            "Gate".into()
        }
        op_as_typed_op!();
    }

    impl EvalOp for GateOp {
        not_out_of_plan!();

        fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
            if inputs[0].try_as_plain_ram()?.as_slice::<f32>()?[0] > 0.5 {
                self.0.pass().map_err(|e| anyhow!(e))?;
            }
            Ok(inputs)
        }
    }

    impl TypedOp for GateOp {
        fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
            Ok(tvec!(inputs[0].clone()))
        }
        as_op!();
    }

    #[test]
    fn tract_holds_no_lock_while_it_runs() {
        let (gate, has_entered, let_go) = gate();
        let mut model = TypedModel::default();
        let input = model.add_source("image", f32::fact(SHAPE)).unwrap();
        let outputs = model.wire_node("gate", GateOp(gate), &[input]).unwrap();
        model.select_output_outlets(&outputs).unwrap();
        let plan = TypedSimplePlan::new(model).unwrap();
        let engine = Engine::Tract(Arc::new(TractNet::of_plan("gate", &SHAPE, Arc::new(plan))));
        overlap(&engine, &has_entered, &let_go);
    }
}

mod in_onnxruntime {
    use super::*;
    use ort::operator::{
        BoxedKernel, ComputeContext, KernelContext, Operator, OperatorDomain, OperatorInput, OperatorOutput,
    };
    use ort::session::Session;
    use ort::value::TensorElementType;

    /// Called by the held run alone: the network asks for it only if the input is bright.
    struct GateOperator(Arc<Gate>);

    impl Operator for GateOperator {
        type Kernel<'attr> = BoxedKernel<'attr>;

        fn name(&self) -> &str {
            "Gate"
        }
        fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
            [OperatorInput::required(TensorElementType::Float32)]
        }
        fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
            [OperatorOutput::required(TensorElementType::Float32)]
        }
        fn create_kernel<'attr>(&self, _: &KernelContext<'attr>) -> ort::Result<Self::Kernel<'attr>> {
            let gate = Arc::clone(&self.0);
            Ok(Box::new(move |context: &ComputeContext| {
                gate.pass().map_err(ort::Error::new)?;
                let input = context.input(0)?.ok_or_else(|| ort::Error::new("no input"))?;
                let (shape, from) = input.try_extract_tensor::<f32>()?;
                let mut output =
                    context.output(0, shape.to_vec())?.ok_or_else(|| ort::Error::new("no output"))?;
                output.try_extract_tensor_mut::<f32>()?.1.copy_from_slice(from);
                Ok(())
            }))
        }
    }

    #[test]
    fn onnxruntime_holds_no_lock_while_it_runs() {
        let runtime = match onnxruntime() {
            Ok(runtime) => runtime,
            Err(why) => {
                use std::io::Write;
                let mut stderr = std::io::stderr();
                writeln!(stderr, "skipped: onnxruntime_holds_no_lock_while_it_runs: {why}").unwrap();
                return;
            }
        };
        let (gate, has_entered, let_go) = gate();
        let domain = OperatorDomain::new("test").unwrap().add(GateOperator(gate)).unwrap();
        let session = Session::builder(&runtime.environment)
            .unwrap()
            .with_intra_threads(1)
            .unwrap()
            .with_operators(domain)
            .unwrap()
            .commit_from_memory(include_bytes!("../tests/models/gate.onnx"))
            .unwrap();
        let net = OrtNet::of_session("gate", session, DType::F32, "image", "out").unwrap();
        overlap(&Engine::Ort(Arc::new(net)), &has_entered, &let_go);
    }
}
