//! Frames: what a picture of a stream is, and who it is, from source to screen.

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{DType, TensorSpec};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who a frame is. Kept from the source to the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameMeta {
    /// Name of the source (`"clip.mp4"`, `"camera 0"`).
    pub source: Arc<str>,
    /// Number of the frame in its source, from 0.
    pub index: u64,
    /// Presentation time in the source's own clock, if it has one.
    pub pts: Option<Duration>,
    /// When the frame came into this process; its age is counted from here.
    pub captured: Instant,
}

impl FrameMeta {
    /// Frame `index` of `source`, captured now.
    pub fn new(source: impl Into<Arc<str>>, index: u64) -> Self {
        Self { source: source.into(), index, pts: None, captured: Instant::now() }
    }
}

impl fmt::Display for FrameMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {} of {}", self.index, self.source)
    }
}

/// Matrix from RGB to luma and colour difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColorMatrix {
    /// ITU-R BT.601: standard definition.
    Bt601,
    /// ITU-R BT.709: high definition.
    Bt709,
}

/// Which code values black and white have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColorRange {
    /// Studio swing: luma 16–235, chroma 16–240.
    Limited,
    /// Full swing: 0–255.
    Full,
}

/// How the samples of a YCbCr picture relate to RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColorSpec {
    /// The matrix.
    pub matrix: ColorMatrix,
    /// The range.
    pub range: ColorRange,
}

impl ColorSpec {
    /// What players assume when a stream says nothing: BT.709 from 720 lines up, BT.601 below; limited range.
    pub fn assumed(height: usize) -> Self {
        let matrix = if height >= 720 { ColorMatrix::Bt709 } else { ColorMatrix::Bt601 };
        Self { matrix, range: ColorRange::Limited }
    }
}

/// Frames per second as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameRate {
    /// Frames …
    pub num: u32,
    /// … per this many seconds.
    pub den: u32,
}

impl FrameRate {
    /// As a float, in frames per second.
    pub fn fps(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }

    /// Time of one frame.
    pub fn period(self) -> Duration {
        Duration::from_secs_f64(f64::from(self.den) / f64::from(self.num))
    }
}

/// Width and height of an 8-bit RGB picture, height × width × 3, rows from the top: the one form in
/// which pictures travel between sources, networks and sinks on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageSize {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// No picture may have more pixels than this (16 384²): a damaged header must not ask for terabytes.
pub const MAX_PIXELS: usize = 1 << 28;

impl ImageSize {
    /// Check and make a size.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if either side is 0 or there are more than [`MAX_PIXELS`] pixels.
    pub fn new(width: usize, height: usize) -> Result<Self> {
        let pixels = width.checked_mul(height);
        match pixels {
            Some(1..=MAX_PIXELS) => Ok(Self { width, height }),
            _ => Err(Error::new(
                ErrorKind::Input,
                format!(
                    "a picture of {width}×{height} pixels cannot be used: it must have 1 to {MAX_PIXELS} pixels"
                ),
            )),
        }
    }

    /// The tensor of such a picture: u8, height × width × 3.
    pub fn spec(self) -> TensorSpec {
        TensorSpec::new(DType::U8, [self.height, self.width, 3])
    }

    /// Bytes of such a picture.
    pub fn bytes(self) -> usize {
        self.width * self.height * 3
    }

    /// The size of the picture that `spec` describes, if it is one (u8, height × width × 3, contiguous).
    pub fn of(spec: &TensorSpec) -> Option<Self> {
        match (spec.dtype(), spec.shape()) {
            (DType::U8, &[height, width, 3]) if spec.is_contiguous() => Self::new(width, height).ok(),
            _ => None,
        }
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}", self.width, self.height)
    }
}
