//! What an ONNX file says about itself: inputs, outputs, operators, metadata.

use crate::evidence::{Evidence, InputEvidence, OutputEvidence};
use crate::operators;
use framelane::tensor::DType;
use framelane::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use tract_onnx::pb::{self, tensor_proto::DataType};

/// What is in an ONNX file. Its `Display` is what `framelane inspect` prints first.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The file's name.
    pub name: String,
    /// What must be fed, weights left out.
    pub inputs: Vec<Port>,
    /// What comes out.
    pub outputs: Vec<Port>,
    /// Version of the standard operators that the network is written in (0 if it does not say).
    pub opset: i64,
    /// The program that wrote the file, with its version.
    pub producer: String,
    /// Operators with how often they occur, inner graphs included; the most frequent first.
    pub operators: Vec<(String, usize)>,
    /// Numbers in all weights together.
    pub parameters: u64,
    /// Keys and values that the exporter put in.
    pub metadata: Vec<(String, String)>,
    /// Operators that neither ONNX nor the file itself defines: no runtime here can run them.
    pub unknown_operators: Vec<String>,
    /// Operators that tract does not have.
    pub missing_in_tract: Vec<String>,
    pub(crate) evidence: Vec<InputEvidence>,
    pub(crate) output_evidence: Vec<OutputEvidence>,
}

/// An input or output of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Its name in the file.
    pub name: String,
    /// Element type; `Err` holds the name of one that framelane does not have.
    pub dtype: Result<DType, String>,
    /// Extents; `None` if the file does not even say how many there are.
    pub dims: Option<Vec<Dim>>,
}

/// Extent of a dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    /// Always this.
    Fixed(usize),
    /// Whatever is fed; the name tells equal ones.
    Symbolic(String),
}

impl Dim {
    /// The extent, if it is fixed.
    pub fn fixed(&self) -> Option<usize> {
        match self {
            Self::Fixed(n) => Some(*n),
            Self::Symbolic(_) => None,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => n.fmt(f),
            Self::Symbolic(name) if name.is_empty() => f.write_str("?"),
            Self::Symbolic(name) => Text(name).fmt(f),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dtype {
            Ok(dtype) => dtype.fmt(f)?,
            Err(name) => f.write_str(name)?,
        }
        let Some(dims) = &self.dims else { return f.write_str("[of unknown rank]") };
        f.write_str("[")?;
        for (i, dim) in dims.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { "×" })?;
        }
        f.write_str("]")
    }
}

/// Text from a file as one printable line: it may hold anything.
pub(crate) struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 120;
        for c in self.0.chars().take(MOST) {
            fmt::Write::write_char(f, if c.is_control() { ' ' } else { c })?;
        }
        if self.0.chars().nth(MOST).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

impl Inspection {
    pub(crate) fn new(name: &str, model: &pb::ModelProto) -> Result<Self> {
        let graph = model.graph.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Input, format!("{name} is not a whole ONNX file: it has no graph"))
        })?;
        check_names(name, graph)?;
        let weights: HashSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
        let inputs: Vec<Port> =
            graph.input.iter().filter(|i| !weights.contains(i.name.as_str())).map(port).collect();
        let outputs: Vec<Port> = graph.output.iter().map(port).collect();

        let own: HashSet<(&str, &str)> = model.functions.iter().map(|f| (f.domain(), f.name())).collect();
        let mut count = Count::default();
        count.graph(graph);
        for function in &model.functions {
            function.node.iter().for_each(|n| count.node(n));
        }
        let tract = tract_onnx::onnx().op_register;
        let mut unknown_operators = BTreeSet::new();
        let mut missing_in_tract = BTreeSet::new();
        for &(domain, op) in count.operators.keys() {
            let full = full_name(domain, op);
            let is_own = own.contains(&(domain, op));
            if !is_own && !operators::is_known(domain, op) {
                unknown_operators.insert(full.clone());
            }
            // Tract looks operators up by name alone, and does not read functions.
            if is_own || !tract.0.contains_key(op) {
                missing_in_tract.insert(full);
            }
        }
        let mut operators: Vec<(String, usize)> =
            count.operators.iter().map(|(&(domain, op), &n)| (full_name(domain, op), n)).collect();
        operators.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));

        let evidence = Evidence::new(graph);
        Ok(Self {
            name: name.to_owned(),
            evidence: inputs.iter().map(|p| evidence.input(&p.name)).collect(),
            output_evidence: outputs.iter().map(|p| evidence.output(&p.name)).collect(),
            inputs,
            outputs,
            opset: model.opset_import.iter().find(|o| is_standard(&o.domain)).map_or(0, |o| o.version),
            producer: [&model.producer_name, &model.producer_version]
                .into_iter()
                .filter(|s| !s.is_empty())
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" "),
            operators,
            parameters: count.parameters,
            metadata: model.metadata_props.iter().map(|e| (e.key.clone(), e.value.clone())).collect(),
            unknown_operators: unknown_operators.into_iter().collect(),
            missing_in_tract: missing_in_tract.into_iter().collect(),
        })
    }

    /// The value of a metadata key.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// Refuse a graph that reads or gives what nothing in it makes: runtimes do not all take that well.
fn check_names(file: &str, graph: &pb::GraphProto) -> Result<()> {
    let inputs = graph.input.iter().map(|i| &i.name);
    let weights = graph.initializer.iter().map(|t| &t.name);
    let sparse = graph.sparse_initializer.iter().filter_map(|t| Some(&t.values.as_ref()?.name));
    let made = graph.node.iter().flat_map(|n| &n.output);
    let known: HashSet<&String> = inputs.chain(weights).chain(sparse).chain(made).collect();
    // An empty name stands for an optional input left out.
    let read = graph.node.iter().flat_map(|n| &n.input).filter(|n| !n.is_empty());
    let given = graph.output.iter().map(|o| &o.name);
    match read.chain(given).find(|n| !known.contains(n)) {
        None => Ok(()),
        Some(missing) => Err(Error::new(
            ErrorKind::Input,
            format!("{file} is damaged: nothing in it makes \"{}\"; copy or export it again", Text(missing)),
        )),
    }
}

fn is_standard(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

fn full_name(domain: &str, op: &str) -> String {
    if is_standard(domain) { Text(op).to_string() } else { format!("{}.{}", Text(domain), Text(op)) }
}

#[derive(Default)]
struct Count<'a> {
    operators: BTreeMap<(&'a str, &'a str), usize>,
    parameters: u64,
}

impl<'a> Count<'a> {
    // Inner graphs are no deeper than what the decoder admits (100 messages).
    fn graph(&mut self, graph: &'a pb::GraphProto) {
        graph.initializer.iter().for_each(|t| self.weights(t));
        graph.sparse_initializer.iter().filter_map(|t| t.values.as_ref()).for_each(|t| self.weights(t));
        graph.node.iter().for_each(|n| self.node(n));
    }

    fn node(&mut self, node: &'a pb::NodeProto) {
        *self.operators.entry((&node.domain, &node.op_type)).or_default() += 1;
        for attribute in &node.attribute {
            if let Some(weights) = &attribute.t {
                self.weights(weights);
            }
            attribute.g.iter().chain(&attribute.graphs).for_each(|g| self.graph(g));
        }
    }

    fn weights(&mut self, tensor: &pb::TensorProto) {
        let elements = tensor.dims.iter().fold(1u64, |n, &d| n.saturating_mul(u64::try_from(d).unwrap_or(0)));
        self.parameters = self.parameters.saturating_add(elements);
    }
}

fn port(info: &pb::ValueInfoProto) -> Port {
    let Some(pb::type_proto::Value::TensorType(tensor)) = info.r#type.as_ref().and_then(|t| t.value.as_ref())
    else {
        return Port { name: info.name.clone(), dtype: Err("a type other than a tensor".into()), dims: None };
    };
    let dims = tensor.shape.as_ref().map(|shape| {
        use pb::tensor_shape_proto::dimension::Value;
        let dim = |d: &pb::tensor_shape_proto::Dimension| match &d.value {
            // Some exporters write −1 or 0 for "any".
            Some(Value::DimValue(n)) => match usize::try_from(*n) {
                Ok(n) if n > 0 => Dim::Fixed(n),
                _ => Dim::Symbolic(String::new()),
            },
            Some(Value::DimParam(name)) => Dim::Symbolic(name.clone()),
            None => Dim::Symbolic(String::new()),
        };
        shape.dim.iter().map(dim).collect()
    });
    Port { name: info.name.clone(), dtype: dtype(tensor.elem_type), dims }
}

fn dtype(code: i32) -> Result<DType, String> {
    match DataType::try_from(code) {
        Ok(DataType::Float) => Ok(DType::F32),
        Ok(DataType::Float16) => Ok(DType::F16),
        Ok(DataType::Bfloat16) => Ok(DType::BF16),
        Ok(DataType::Double) => Ok(DType::F64),
        Ok(DataType::Uint8) => Ok(DType::U8),
        Ok(DataType::Int8) => Ok(DType::I8),
        Ok(DataType::Uint16) => Ok(DType::U16),
        Ok(DataType::Int16) => Ok(DType::I16),
        Ok(DataType::Int32) => Ok(DType::I32),
        Ok(DataType::Int64) => Ok(DType::I64),
        Ok(DataType::Bool) => Ok(DType::Bool),
        Ok(other) => Err(other.as_str_name().to_ascii_lowercase()),
        Err(_) => Err(format!("type {code}")),
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model       {}", self.name)?;
        let producer = if self.producer.is_empty() { "an unnamed program" } else { &self.producer };
        writeln!(f, "written by  {} (opset {})", Text(producer), self.opset)?;
        writeln!(f, "parameters  {}", self.parameters)?;
        for port in &self.inputs {
            writeln!(f, "input       {}  {port}", Text(&port.name))?;
        }
        for port in &self.outputs {
            writeln!(f, "output      {}  {port}", Text(&port.name))?;
        }
        let operators: Vec<String> = self.operators.iter().map(|(op, n)| format!("{op} {n}")).collect();
        writeln!(f, "operators   {}", operators.join(", "))?;
        for (key, value) in &self.metadata {
            writeln!(f, "metadata    {} = {}", Text(key), Text(value))?;
        }
        if !self.unknown_operators.is_empty() {
            writeln!(f, "unknown     {} (no runtime has these)", self.unknown_operators.join(", "))?;
        }
        let tract: Vec<&str> = self
            .missing_in_tract
            .iter()
            .filter(|o| !self.unknown_operators.contains(o))
            .map(|s| s.as_str())
            .collect();
        if !tract.is_empty() {
            writeln!(f, "needs       ONNX Runtime, for {} (tract does not have them)", tract.join(", "))?;
        }
        Ok(())
    }
}
