//! What this crate's tests share with those of others.

#[path = "../../../../testing/skip.rs"]
mod skip;
pub use skip::skip;
