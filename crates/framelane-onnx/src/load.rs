//! Loading a network: which runtime, and why that one.

use crate::engine::Engine;
use crate::file::OnnxFile;
use crate::inspect::Inspection;
use crate::model::ImageModel;
use crate::ort_engine::OrtNet;
use crate::ort_find::{OnnxRuntime, onnxruntime};
use crate::overrides::Overrides;
use crate::plan::Plan;
use crate::tract_engine::{self, TractNet};
use framelane::{Error, ErrorKind, Result};
use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::Arc;

/// Which runtime runs the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Runtime {
    /// ONNX Runtime where it is found and can load the network, else tract.
    #[default]
    Auto,
    /// tract, which is built in.
    Tract,
    /// ONNX Runtime (1.5 to 6 times faster on a CPU), or an error that says why not.
    OnnxRuntime,
}

impl FromStr for Runtime {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "tract" => Ok(Self::Tract),
            "onnxruntime" => Ok(Self::OnnxRuntime),
            _ => Err(Error::new(
                ErrorKind::Argument,
                format!("--runtime cannot be {text:?}: give auto, tract or onnxruntime"),
            )),
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Tract => "tract",
            Self::OnnxRuntime => "onnxruntime",
        })
    }
}

/// How a network is loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What the user says about the network.
    pub overrides: Overrides,
    /// Which runtime.
    pub runtime: Runtime,
    /// How many lanes will run it at once.
    pub lanes: usize,
    /// Threads that each lane may use, for ONNX Runtime; the machine's cores shared among the lanes if `None`.
    /// tract uses one.
    pub threads_per_lane: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { overrides: Overrides::default(), runtime: Runtime::Auto, lanes: 1, threads_per_lane: None }
    }
}

/// Load a network for pictures. May take seconds: the runtime optimises it.
///
/// # Errors
/// [`ErrorKind::Input`] for a damaged file; [`ErrorKind::Argument`] where the file does not say enough (the
/// sentence names the option that would); [`ErrorKind::Unsupported`] for a network that takes no picture, and for
/// a runtime asked for but not there; [`ErrorKind::Model`] if no runtime could load it.
pub fn load(file: &OnnxFile, options: &Options) -> Result<ImageModel> {
    let inspection = file.inspect()?;
    let plan = Plan::new(&inspection, &options.overrides)?;
    let (engine, runtime) = Loader { file, inspection: &inspection, plan: &plan, options }.engine()?;
    let description = format!("{inspection}{plan}runtime     {runtime}\n");
    ImageModel::new(file.name(), plan, engine, runtime, description)
}

/// The built-in network: it makes pictures twice as wide and high.
///
/// # Errors
/// As [`load`].
pub fn upscaler(options: &Options) -> Result<ImageModel> {
    const FILE: &[u8] = include_bytes!("../../../assets/upscale.onnx");
    load(&OnnxFile::from_bytes("the built-in upscaler", FILE), options)
}

struct Loader<'a> {
    file: &'a OnnxFile,
    inspection: &'a Inspection,
    plan: &'a Plan,
    options: &'a Options,
}

impl Loader<'_> {
    /// The network in a runtime, and the sentence that says which and why.
    fn engine(&self) -> Result<(Engine, String)> {
        let tract = tract_engine::VERSION;
        let told =
            |runtime: &OnnxRuntime| format!("ONNX Runtime {} (from {})", runtime.version, runtime.origin);
        if self.options.runtime == Runtime::Tract {
            let engine = self.tract().map_err(|e| self.explain(e))?;
            return Ok((engine, format!("tract {tract} (asked for)")));
        }
        let auto = self.options.runtime == Runtime::Auto;
        let runtime = match onnxruntime() {
            Ok(runtime) => runtime,
            Err(why) if auto => {
                let engine = self.tract().map_err(|e| self.explain(e))?;
                return Ok((engine, format!("tract {tract} ({why})")));
            }
            Err(why) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("--runtime onnxruntime cannot be used: {why}"),
                ));
            }
        };
        let why = match self.ort(runtime) {
            Ok(engine) => return Ok((engine, told(runtime))),
            Err(why) if auto => why,
            Err(why) => return Err(self.explain(why)),
        };
        match self.tract() {
            Ok(engine) => {
                log::warn!("{why}; tract runs it instead");
                Ok((engine, format!("tract {tract} ({why})")))
            }
            Err(other) => Err(self.explain(Error::new(ErrorKind::Model, format!("{why}; {other}")))),
        }
    }

    fn tract(&self) -> Result<Engine> {
        Ok(Engine::Tract(Arc::new(TractNet::new(self.file, self.inspection, self.plan)?)))
    }

    fn ort(&self, runtime: &OnnxRuntime) -> Result<Engine> {
        let lanes = self.options.lanes.max(1);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = self.options.threads_per_lane.unwrap_or(cores / lanes).max(1);
        Ok(Engine::Ort(Arc::new(OrtNet::new(runtime, self.file, self.plan, lanes, threads)?)))
    }

    /// Say what is behind a failure to load, if the file shows it.
    fn explain(&self, error: Error) -> Error {
        let Inspection { name, unknown_operators, .. } = self.inspection;
        if unknown_operators.is_empty() {
            return error;
        }
        let (operators, they) = match unknown_operators.len() {
            1 => ("an operator", "it"),
            _ => ("operators", "them"),
        };
        Error::new(
            ErrorKind::Model,
            format!(
                "{name} uses {operators} that neither tract nor ONNX Runtime has: {}; export it without {they}",
                unknown_operators.join(", ")
            ),
        )
        .because(error)
    }
}
