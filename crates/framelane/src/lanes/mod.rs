//! Lanes.
mod model;
pub use model::*;
