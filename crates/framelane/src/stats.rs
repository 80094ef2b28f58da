//! Where the time went, and what became of each frame.

use serde::Serialize;

/// One stage of the way from source to screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Reading and decoding.
    Source,
    /// Changing form: colour, layout, element type, size.
    Convert,
    /// Copies between host and device.
    Copy,
    /// The network itself.
    Network,
    /// Showing, encoding or writing.
    Sink,
}
