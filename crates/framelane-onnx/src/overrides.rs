//! What a user may say about a network: each answer is a small type that reads itself from the text of a
//! command-line option.

use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// Answers that take the place of what [`Plan::new`](crate::Plan::new) would find out by itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// Order of the input's dimensions (`--layout`).
    pub layout: Option<Layout>,
    /// Order of the colour channels, of input and output (`--channels`).
    pub channels: Option<ChannelOrder>,
    /// Numbers that stand for black and white at the input (`--input-range`).
    pub input_range: Option<InputRange>,
    /// What the output is (`--output`).
    pub output: Option<OutputKind>,
    /// Numbers that stand for black and white, or nothing and all, at the output (`--output-range`).
    pub output_range: Option<OutputRange>,
    /// How a picture is brought to the network's size (`--resize`).
    pub resize: Option<Resize>,
    /// The size that the network works at, if its file leaves it open (`--size`).
    pub size: Option<ImageSize>,
    /// Pixels that neighbouring tiles share at least, with [`Resize::Tile`] (`--tile-overlap`).
    pub tile_overlap: Option<usize>,
}

fn unknown(option: &str, text: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("{option} cannot be {text:?}: give {expected}"))
}

/// Order of the dimensions of a picture tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Batch, channels, height, width: planes.
    Nchw,
    /// Batch, height, width, channels: interleaved.
    Nhwc,
}

impl FromStr for Layout {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "nchw" => Ok(Self::Nchw),
            "nhwc" => Ok(Self::Nhwc),
            _ => Err(unknown("--layout", text, "nchw or nhwc")),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nchw => "NCHW",
            Self::Nhwc => "NHWC",
        })
    }
}

/// Order of the colour channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChannelOrder {
    /// Red first.
    #[default]
    Rgb,
    /// Blue first.
    Bgr,
}

impl FromStr for ChannelOrder {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "rgb" => Ok(Self::Rgb),
            "bgr" => Ok(Self::Bgr),
            _ => Err(unknown("--channels", text, "rgb or bgr")),
        }
    }
}

impl fmt::Display for ChannelOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rgb => "RGB",
            Self::Bgr => "BGR",
        })
    }
}

/// Which numbers the network takes for a pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InputRange {
    /// Black is the first number, white the second.
    Span(f32, f32),
    /// Pixels from 0 to 1, less the mean, divided by the standard deviation, per channel (red, green, blue).
    MeanStd([f32; 3], [f32; 3]),
}

impl InputRange {
    /// 0 to 1.
    pub const UNIT: Self = Self::Span(0.0, 1.0);
    /// −1 to 1.
    pub const SIGNED: Self = Self::Span(-1.0, 1.0);
    /// 0 to 255.
    pub const BYTES: Self = Self::Span(0.0, 255.0);
    /// The mean and deviation of ImageNet, which most networks for classes were trained with.
    pub const IMAGENET: Self = Self::MeanStd([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

    /// What one pixel value `0..=255` of colour `channel` (0 red, 1 green, 2 blue) becomes.
    pub fn apply(self, pixel: u8, channel: usize) -> f32 {
        let unit = f64::from(pixel) / 255.0;
        // In double precision, so that 255 becomes the exact upper end.
        (match self {
            Self::Span(low, high) => f64::from(low) + unit * (f64::from(high) - f64::from(low)),
            Self::MeanStd(mean, std) => (unit - f64::from(mean[channel])) / f64::from(std[channel]),
        }) as f32
    }
}

impl FromStr for InputRange {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let expected = "0-1, -1-1, 0-255, imagenet, or three means and three deviations of pixels from 0 to 1, \
                        as in 0.5,0.5,0.5/0.25,0.25,0.25";
        if text.eq_ignore_ascii_case("imagenet") {
            return Ok(Self::IMAGENET);
        }
        if let Some((mean, std)) = text.split_once('/') {
            return match (three(mean), three(std)) {
                (Some(mean), Some(std)) if std.iter().all(|&s| s > 0.0) => Ok(Self::MeanStd(mean, std)),
                _ => Err(unknown("--input-range", text, expected)),
            };
        }
        span(text)
            .map(|(low, high)| Self::Span(low, high))
            .ok_or_else(|| unknown("--input-range", text, expected))
    }
}

impl fmt::Display for InputRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(low, high) => write!(f, "{low}-{high}"),
            Self::MeanStd(mean, std) => {
                write!(f, "{},{},{}/", mean[0], mean[1], mean[2])?;
                write!(f, "{},{},{}", std[0], std[1], std[2])
            }
        }
    }
}

/// Which numbers the network gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OutputRange {
    /// Black (nothing) is the first number, white (all) the second.
    Span(f32, f32),
    /// The least and the greatest number of each frame: for heat maps of no fixed scale.
    Frame,
    /// The inverse of the input's mean and deviation: for pictures alone.
    MeanStd([f32; 3], [f32; 3]),
}

impl FromStr for OutputRange {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if text.eq_ignore_ascii_case("frame") {
            return Ok(Self::Frame);
        }
        match text.parse::<InputRange>() {
            Ok(InputRange::Span(low, high)) => Ok(Self::Span(low, high)),
            Ok(InputRange::MeanStd(mean, std)) => Ok(Self::MeanStd(mean, std)),
            Err(_) => Err(unknown(
                "--output-range",
                text,
                "0-1, -1-1, 0-255, any LOW..HIGH, imagenet, or frame (each frame's least to greatest, for heat \
                 maps)",
            )),
        }
    }
}

impl fmt::Display for OutputRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Span(low, high) => InputRange::Span(low, high).fmt(f),
            Self::MeanStd(mean, std) => InputRange::MeanStd(mean, std).fmt(f),
            Self::Frame => f.write_str("frame"),
        }
    }
}

/// What the network's output is, and so how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputKind {
    /// A picture: shown as it is, larger or smaller than the input by a fixed factor.
    Image,
    /// How much each pixel belongs to something: laid over the input in one colour.
    Mask,
    /// One class, or one score per class, for each pixel: laid over the input in the classes' colours.
    Classes,
    /// One number for each pixel (depth, heat): shown in a scale of colours.
    Heat,
}

impl FromStr for OutputKind {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "image" => Ok(Self::Image),
            "mask" => Ok(Self::Mask),
            "classes" => Ok(Self::Classes),
            "heat" => Ok(Self::Heat),
            _ => Err(unknown("--output", text, "image, mask, classes or heat")),
        }
    }
}

impl fmt::Display for OutputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Image => "image",
            Self::Mask => "mask",
            Self::Classes => "classes",
            Self::Heat => "heat",
        })
    }
}

/// How a picture is brought to a network that works at one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resize {
    /// Stretch it to the size.
    Fit,
    /// Scale it evenly into the size, black around it.
    Letterbox,
    /// Cut it into overlapping tiles of the size, and blend them where they meet: for pictures alone.
    Tile,
}

impl FromStr for Resize {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "fit" => Ok(Self::Fit),
            "letterbox" => Ok(Self::Letterbox),
            "tile" => Ok(Self::Tile),
            _ => Err(unknown("--resize", text, "fit, letterbox or tile")),
        }
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fit => "fit",
            Self::Letterbox => "letterbox",
            Self::Tile => "tile",
        })
    }
}

/// Read a size such as `640x360`.
///
/// # Errors
/// [`ErrorKind::Argument`] if the text is not of that form or the size is empty or far too large.
pub fn parse_size(text: &str) -> Result<ImageSize> {
    text.split_once(['x', 'X', '×'])
        .and_then(|(w, h)| ImageSize::new(w.trim().parse().ok()?, h.trim().parse().ok()?).ok())
        .ok_or_else(|| unknown("--size", text, "width and height in pixels, as in 640x360"))
}

/// `0-1`, `-1-1`, `0-255` or `LOW..HIGH`, of two different finite numbers.
fn span(text: &str) -> Option<(f32, f32)> {
    let (low, high) = match text.split_once("..") {
        Some(ends) => ends,
        // The first sign may belong to the first number, so look for the dash behind it.
        None => {
            let dash = text
                .char_indices()
                .skip(1)
                .find(|&(i, c)| c == '-' && text[..i].ends_with(|c: char| c.is_ascii_digit() || c == '.'))?;
            (&text[..dash.0], &text[dash.0 + 1..])
        }
    };
    let (low, high) = (low.trim().parse::<f32>().ok()?, high.trim().parse::<f32>().ok()?);
    (low.is_finite() && high.is_finite() && low != high).then_some((low, high))
}

fn three(text: &str) -> Option<[f32; 3]> {
    let mut numbers = text.split(',').map(|n| n.trim().parse::<f32>().ok().filter(|n| n.is_finite()));
    let three = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_and_print_alike() {
        for text in ["0-1", "-1-1", "0-255", "-0.5-0.5", "0.5,0.5,0.5/0.25,0.25,0.25"] {
            assert_eq!(text.parse::<InputRange>().unwrap().to_string(), text);
            assert_eq!(text.parse::<OutputRange>().unwrap().to_string(), text);
        }
        assert_eq!("-3..-1".parse::<OutputRange>().unwrap(), OutputRange::Span(-3.0, -1.0));
        assert_eq!("ImageNet".parse::<InputRange>().unwrap(), InputRange::IMAGENET);
        assert_eq!("frame".parse::<OutputRange>().unwrap(), OutputRange::Frame);
        for text in ["", "0", "1-1", "nan-1", "0-inf", "a-b", "0,0,0/1,1,0", "1,2/3,4", "-", "--", "é-1"] {
            assert!(text.parse::<InputRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_hit_their_ends_exactly() {
        for (range, low, high) in
            [(InputRange::UNIT, 0.0, 1.0), (InputRange::SIGNED, -1.0, 1.0), (InputRange::BYTES, 0.0, 255.0)]
        {
            assert_eq!((range.apply(0, 0), range.apply(255, 2)), (low, high));
        }
        assert_eq!(InputRange::BYTES.apply(77, 1), 77.0);
        assert!((InputRange::IMAGENET.apply(255, 0) - (1.0 - 0.485) / 0.229).abs() < 1e-6);
    }

    #[test]
    fn errors_say_what_may_be_given() {
        let error = "nwhc".parse::<Layout>().unwrap_err();
        assert_eq!(error.to_string(), "--layout cannot be \"nwhc\": give nchw or nhwc");
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!("0x5".parse::<Resize>().is_err());
        assert!(parse_size("0x5").is_err());
        assert_eq!(parse_size("640x360").unwrap(), ImageSize { width: 640, height: 360 });
    }
}
