//! An ONNX file in memory, with its name for messages.

use crate::inspect::Inspection;
use framelane::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::Framework;

/// The bytes of an ONNX file, and how to call it.
#[derive(Debug, Clone)]
pub struct OnnxFile {
    name: Arc<str>,
    bytes: Arc<[u8]>,
    path: Option<PathBuf>,
}

impl OnnxFile {
    /// Read a file. Weights that it keeps in files beside it are found there by the runtime.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .map_err(|e| Error::io(format_args!("cannot read the model {}", path.display()), e))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Ok(Self { name: name.into(), bytes: bytes.into(), path: path.canonicalize().ok() })
    }

    /// Take bytes that are in memory already; `name` is used in messages.
    pub fn from_bytes(name: impl Into<Arc<str>>, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { name: name.into(), bytes: bytes.into(), path: None }
    }

    /// The file's name, without its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What goes in and out of the network, read from the file alone: nothing is run.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if this is no ONNX file, or a damaged one.
    pub fn inspect(&self) -> Result<Inspection> {
        Inspection::new(&self.name, &self.decode()?)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the file is, if it is one: weights may lie beside it.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(crate) fn decode(&self) -> Result<ModelProto> {
        let damaged = |what: &str| {
            Error::new(
                ErrorKind::Input,
                format!("{} is not a whole ONNX file: {what}; copy or export it again", self.name),
            )
        };
        if self.bytes.is_empty() {
            return Err(damaged("it is empty"));
        }
        tract_onnx::onnx()
            .proto_model_for_read(&mut &*self.bytes)
            .map_err(|e| damaged(&format!("its contents cannot be decoded ({})", e.root_cause())))
    }
}
