//! Feed.
mod source;
pub use source::*;
