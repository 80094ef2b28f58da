//! ONNX networks as framelane models: pictures in, pictures out.
//!
//! [`OnnxFile::inspect`] reads what a file says about itself; [`Plan::new`] makes of that, and of what the user
//! says, how pictures are fed and what is made of the output; [`load`] gives an [`ImageModel`] to run in lanes,
//! by ONNX Runtime if it is installed, by tract otherwise.
//!
//! ```no_run
//! use framelane_onnx::{OnnxFile, Options, load};
//!
//! let file = OnnxFile::open("segment.onnx")?;
//! let model = load(&file, &Options { lanes: 2, ..Options::default() })?;
//! print!("{}", model.describe());
//! # Ok::<(), framelane::Error>(())
//! ```

// Foreign runtimes' raw calls live in `ort_raw`, and only there.
#![deny(unsafe_code)]

mod colours;
mod elements;
mod engine;
mod evidence;
mod file;
mod inspect;
mod load;
mod model;
mod operators;
mod ort_engine;
mod ort_find;
#[allow(unsafe_code)]
mod ort_raw;
mod overrides;
mod picture;
mod pixels;
mod plan;
mod scale;
mod tiles;
mod tract_engine;

#[cfg(test)]
mod overlap_tests;

pub use file::OnnxFile;
pub use inspect::{Dim, Inspection, Port};
pub use load::{Options, Runtime, load, upscaler};
pub use model::ImageModel;
pub use ort_find::{OnnxRuntime, onnxruntime};
pub use overrides::{
    ChannelOrder, InputRange, Layout, OutputKind, OutputRange, Overrides, Resize, parse_size,
};
pub use plan::{Plan, Sizing};
