//! What a network's first and last operators tell about the pictures it takes and gives.

use crate::overrides::{InputRange, Layout, OutputRange};
use std::collections::HashMap;
use tract_onnx::pb::{self, tensor_proto::DataType};

/// Operators that are followed on the way: enough for every preamble seen, and an end for damaged graphs.
const STEPS: usize = 12;

/// What the operators behind an input tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct InputEvidence {
    pub layout: Option<(Layout, String)>,
    pub channels: Option<usize>,
    pub range: Option<(InputRange, String)>,
}

/// What the operators before an output tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OutputEvidence {
    /// The last operator that computes something (`"Sigmoid"`).
    pub last: Option<String>,
    pub range: Option<(OutputRange, String)>,
}

pub(crate) struct Evidence<'a> {
    constants: HashMap<&'a str, &'a pb::TensorProto>,
    readers: HashMap<&'a str, Vec<&'a pb::NodeProto>>,
    writers: HashMap<&'a str, &'a pb::NodeProto>,
}

impl<'a> Evidence<'a> {
    pub fn new(graph: &'a pb::GraphProto) -> Self {
        let mut this = Self { constants: HashMap::new(), readers: HashMap::new(), writers: HashMap::new() };
        for tensor in &graph.initializer {
            this.constants.insert(&tensor.name, tensor);
        }
        for node in &graph.node {
            if node.op_type == "Constant"
                && let (Some(name), Some(value)) = (node.output.first(), attribute(node, "value"))
                && let Some(tensor) = &value.t
            {
                this.constants.insert(name, tensor);
            }
            for input in &node.input {
                this.readers.entry(input).or_default().push(node);
            }
            for output in &node.output {
                this.writers.insert(output, node);
            }
        }
        this
    }

    pub fn input(&self, name: &str) -> InputEvidence {
        let mut found = InputEvidence::default();
        let mut at = name;
        // Set once a transposition of the input has been passed.
        let mut transposed = false;
        for _ in 0..STEPS {
            let Some(readers) = self.readers.get(at) else { break };
            if let Some(conv) = readers.iter().find(|n| n.op_type == "Conv" && n.input[0] == at) {
                if let Some(weights) = conv.input.get(1).and_then(|w| self.constants.get(w.as_str())) {
                    let group = attribute(conv, "group").map_or(1, |a| a.i.max(1));
                    found.channels = weights
                        .dims
                        .get(1)
                        .and_then(|c| c.checked_mul(group))
                        .and_then(|c| usize::try_from(c).ok());
                }
                if !transposed {
                    found.layout = Some((Layout::Nchw, "it goes straight into a convolution".into()));
                }
                break;
            }
            let [node] = readers[..] else { break };
            match node.op_type.as_str() {
                "Cast" | "Identity" | "Dropout" | "Pad" => {}
                "Transpose" if !transposed => {
                    let perm = attribute(node, "perm").map(|a| a.ints.as_slice());
                    match perm {
                        Some([0, 3, 1, 2]) => {
                            found.layout = Some((Layout::Nhwc, "it is transposed to planes first".into()));
                        }
                        Some([0, 2, 3, 1]) => {
                            found.layout = Some((Layout::Nchw, "it is transposed from planes first".into()));
                        }
                        _ => break,
                    }
                    transposed = true;
                }
                op @ ("Sub" | "Add" | "Mul" | "Div") if node.input.first().is_some_and(|i| i == at) => {
                    let constant = node.input.get(1).and_then(|c| self.constants.get(c.as_str()));
                    let Some(number) = constant.and_then(|t| mean(t)) else { break };
                    if found.range.is_none() {
                        found.range = range_before(op, number);
                    }
                }
                _ => break,
            }
            let Some(next) = node.output.first() else { break };
            at = next;
        }
        found
    }

    pub fn output(&self, name: &str) -> OutputEvidence {
        let mut found = OutputEvidence::default();
        let mut at = name;
        for _ in 0..STEPS {
            let Some(&node) = self.writers.get(at) else { break };
            let op = node.op_type.as_str();
            let because = |range: OutputRange| Some((range, format!("its last operator is {op}")));
            match op {
                "Cast" | "Identity" | "Transpose" | "Squeeze" | "Unsqueeze" | "Reshape" | "Resize"
                | "DepthToSpace" => {}
                _ => {
                    found.range = match op {
                        "Sigmoid" | "HardSigmoid" | "Softmax" => because(OutputRange::Span(0.0, 1.0)),
                        "Tanh" => because(OutputRange::Span(-1.0, 1.0)),
                        "Clip" => self.clip(node).and_then(|(low, high)| {
                            because(OutputRange::Span(low, high)).filter(|_| low < high)
                        }),
                        "Mul" => {
                            let factor = node.input.get(1).and_then(|c| self.constants.get(c.as_str()));
                            let is_255 =
                                factor.and_then(|t| mean(t)).is_some_and(|n| (254.0..=256.0).contains(&n));
                            is_255.then(|| {
                                (OutputRange::Span(0.0, 255.0), "it is multiplied by 255 last".into())
                            })
                        }
                        _ => None,
                    };
                    found.last = Some(op.to_owned());
                    break;
                }
            }
            let Some(next) = node.input.first() else { break };
            at = next;
        }
        found
    }

    fn clip(&self, node: &pb::NodeProto) -> Option<(f32, f32)> {
        let bound = |input: usize, name: &str| {
            let tensor = node.input.get(input).and_then(|c| self.constants.get(c.as_str()));
            tensor.and_then(|t| mean(t)).or_else(|| attribute(node, name).map(|a| a.f))
        };
        Some((bound(1, "min")?, bound(2, "max")?)).filter(|(l, h)| l.is_finite() && h.is_finite())
    }
}

/// Which pixels a network takes if its first arithmetic is `op` with (on average) `number`.
fn range_before(op: &str, number: f32) -> Option<(InputRange, String)> {
    let range = match op {
        "Div" if (200.0..=256.0).contains(&number) => InputRange::BYTES,
        "Div" if (100.0..=130.0).contains(&number) => InputRange::BYTES,
        "Mul" if (1.0 / 256.5..=1.0 / 100.0).contains(&number) => InputRange::BYTES,
        "Sub" if number > 2.0 => InputRange::BYTES,
        "Add" if number < -2.0 => InputRange::BYTES,
        "Sub" if number > 0.1 && number < 0.9 => InputRange::UNIT,
        "Add" if number > -0.9 && number < -0.1 => InputRange::UNIT,
        "Mul" if (1.5..=2.5).contains(&number) || (254.0..=256.0).contains(&number) => InputRange::UNIT,
        "Mul" if (127.0..=128.0).contains(&number) => InputRange::SIGNED,
        "Add" if number == 1.0 => InputRange::SIGNED,
        _ => return None,
    };
    let verb = match op {
        "Div" => "divides by",
        "Mul" => "multiplies by",
        "Sub" => "subtracts",
        _ => "adds",
    };
    Some((range, format!("the network first {verb} {number}")))
}

fn attribute<'a>(node: &'a pb::NodeProto, name: &str) -> Option<&'a pb::AttributeProto> {
    node.attribute.iter().find(|a| a.name == name)
}

/// The average of a constant of 1 to 4 numbers: a scalar, or one per channel.
fn mean(tensor: &pb::TensorProto) -> Option<f32> {
    let numbers: Vec<f32> = match DataType::try_from(tensor.data_type).ok()? {
        DataType::Float if tensor.raw_data.is_empty() => tensor.float_data.iter().take(5).copied().collect(),
        DataType::Float => tensor
            .raw_data
            .chunks_exact(4)
            .take(5)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        DataType::Float16 if !tensor.raw_data.is_empty() => {
            let half = |b: &[u8]| half::f16::from_le_bytes([b[0], b[1]]).to_f32();
            tensor.raw_data.chunks_exact(2).take(5).map(half).collect()
        }
        _ => return None,
    };
    let mean = numbers.iter().sum::<f32>() / numbers.len() as f32;
    ((1..=4).contains(&numbers.len()) && mean.is_finite()).then_some(mean)
}
