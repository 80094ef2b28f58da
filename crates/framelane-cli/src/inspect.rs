//! `framelane inspect`: what goes in and out of a network, and how it would be fed.

use crate::args::InspectArgs;
use crate::console;
use crate::exit::{Ended, Failure, Outcome};
use crate::play::options::overrides;
use framelane::{Error, Result};
use framelane_onnx::{Inspection, OnnxFile, Plan, Port, Sizing, onnxruntime};
use serde_json::{Value, json};

/// Print what the file says, then how it would be played, or why it cannot be.
pub fn run(args: &InspectArgs) -> Outcome {
    let overrides = overrides(&args.hints).map_err(Failure::Usage)?;
    let inspection = OnnxFile::open(&args.file)?.inspect()?;
    let plan = playable(&inspection).and_then(|()| Plan::new(&inspection, &overrides));
    let text = if args.json {
        format!("{:#}\n", as_json(&inspection, &plan))
    } else {
        let plan = match &plan {
            Ok(plan) => format!("{plan}{}", runtime(&inspection)),
            Err(why) => format!("cannot be played as it is: {why}\n"),
        };
        format!("{inspection}\n{plan}")
    };
    console::print(&text).map_err(|e| Error::io("standard output cannot be written", e))?;
    Ok(Ended::Done)
}

fn playable(inspection: &Inspection) -> Result<()> {
    match inspection.unknown_operators.as_slice() {
        [] => Ok(()),
        unknown => Err(Error::new(
            framelane::ErrorKind::Model,
            format!("no runtime has {}; export it without", unknown.join(", ")),
        )),
    }
}

/// Which runtime would run it, as far as that can be told without loading it.
fn runtime(inspection: &Inspection) -> String {
    match onnxruntime() {
        Ok(found) => format!("runtime     ONNX Runtime {} (from {})\n", found.version, found.origin),
        Err(why) if inspection.missing_in_tract.is_empty() => {
            format!("runtime     tract, built in ({why})\n")
        }
        Err(why) => {
            format!("runtime     none: tract lacks {}, and {why}\n", inspection.missing_in_tract.join(", "))
        }
    }
}

fn as_json(inspection: &Inspection, plan: &Result<Plan>) -> Value {
    json!({
        "model": inspection.name,
        "producer": inspection.producer,
        "opset": inspection.opset,
        "parameters": inspection.parameters,
        "inputs": inspection.inputs.iter().map(port).collect::<Vec<_>>(),
        "outputs": inspection.outputs.iter().map(port).collect::<Vec<_>>(),
        "operators": inspection.operators.iter().map(|(op, n)| json!({"name": op, "count": n})).collect::<Vec<_>>(),
        "unknown_operators": inspection.unknown_operators,
        "missing_in_tract": inspection.missing_in_tract,
        "metadata": inspection.metadata.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect::<serde_json::Map<_, Value>>(),
        "plan": plan.as_ref().ok().map(planned),
        "problem": plan.as_ref().err().map(Error::to_string),
    })
}

/// Fixed extents are numbers, others their names.
fn port(port: &Port) -> Value {
    let dim = |d: &framelane_onnx::Dim| d.fixed().map_or_else(|| d.to_string().into(), Value::from);
    json!({
        "name": port.name,
        "dtype": port.dtype.as_ref().map_or_else(|name| name.clone(), |dtype| dtype.to_string()),
        "dims": port.dims.as_ref().map(|dims| dims.iter().map(dim).collect::<Vec<_>>()),
    })
}

fn planned(plan: &Plan) -> Value {
    let size = match plan.sizing {
        Sizing::Picture => Value::Null,
        Sizing::Fixed { size, resize, overlap } => {
            json!({"width": size.width, "height": size.height, "resize": resize.to_string(), "overlap": overlap})
        }
    };
    json!({
        "input": plan.input,
        "layout": plan.layout.to_string(),
        "channels": plan.channels,
        "order": plan.order.to_string(),
        "dtype": plan.dtype.to_string(),
        "input_range": plan.input_range.to_string(),
        "size": size,
        "output": plan.output,
        "kind": plan.kind.to_string(),
        "output_range": plan.output_range.to_string(),
        "notes": plan.notes,
    })
}
