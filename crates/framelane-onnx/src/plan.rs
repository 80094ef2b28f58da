//! How pictures will be fed to a network and what will be made of its output: found in the file where it says
//! so, taken from the user where they say so, assumed visibly where it hardly matters, and asked for otherwise.

use crate::inspect::{Dim, Inspection, Port, Text};
use crate::overrides::{ChannelOrder, InputRange, Layout, OutputKind, OutputRange, Overrides, Resize};
use framelane::frame::ImageSize;
use framelane::tensor::DType;
use framelane::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// Pixels that neighbouring tiles share unless [`Overrides::tile_overlap`] says otherwise.
const TILE_OVERLAP: usize = 16;

/// How one network is fed and shown. Its `Display` is what `framelane inspect` prints below the
/// [`Inspection`].
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the input that takes the picture.
    pub input: String,
    /// Order of the input's dimensions.
    pub layout: Layout,
    /// Channels of the input: 1 (luma), 3, or 4 (with opaque alpha).
    pub channels: usize,
    /// Order of the colours, at the input and in pictures that come out.
    pub order: ChannelOrder,
    /// Element type of the input: f32, f16 or u8.
    pub dtype: DType,
    /// Numbers that the pixels become.
    pub input_range: InputRange,
    /// At what size the network works.
    pub sizing: Sizing,
    /// Number of the output that is shown.
    pub output_index: usize,
    /// Its name.
    pub output: String,
    /// What it is.
    pub kind: OutputKind,
    /// Order of its dimensions.
    pub output_layout: Layout,
    /// Numbers that stand for black and white, or nothing and all.
    pub output_range: OutputRange,
    /// What was concluded and from what, and what was assumed and how to say otherwise: one line each.
    pub notes: Vec<String>,
}

/// At what size a network works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizing {
    /// At that of each picture.
    Picture,
    /// At this one, always.
    Fixed {
        /// Width and height.
        size: ImageSize,
        /// How pictures of another size are brought to it.
        resize: Resize,
        /// Pixels that neighbouring tiles share at least, with [`Resize::Tile`].
        overlap: usize,
    },
}

impl Plan {
    /// Find out how to feed the network.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a network that takes no picture; [`ErrorKind::Argument`] where the file
    /// does not say enough: the sentence names the option that would.
    pub fn new(inspection: &Inspection, overrides: &Overrides) -> Result<Self> {
        Planner { inspection, overrides, notes: Vec::new() }.plan()
    }

    /// A plan for tests: RGB planes of f32 from 0 to 1, in and out.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            input: "in".into(),
            layout: Layout::Nchw,
            channels: 3,
            order: ChannelOrder::Rgb,
            dtype: DType::F32,
            input_range: InputRange::UNIT,
            sizing: Sizing::Picture,
            output_index: 0,
            output: "out".into(),
            kind: OutputKind::Image,
            output_layout: Layout::Nchw,
            output_range: OutputRange::Span(0.0, 1.0),
            notes: Vec::new(),
        }
    }
}

struct Planner<'a> {
    inspection: &'a Inspection,
    overrides: &'a Overrides,
    notes: Vec<String>,
}

impl<'a> Planner<'a> {
    fn plan(mut self) -> Result<Plan> {
        let (index, input) = self.input()?;
        let dims = self.picture_dims(input)?;
        let dtype = match &input.dtype {
            Ok(d @ (DType::F32 | DType::F16 | DType::U8)) => *d,
            Ok(other) => return Err(self.unsupported(format!("takes {other} pixels, not f32, f16 or u8"))),
            Err(other) => return Err(self.unsupported(format!("takes {other}, not f32, f16 or u8 pixels"))),
        };
        let layout = self.layout(input, &dims, index)?;
        let (channel_dim, height, width) = match layout {
            Layout::Nchw => (&dims[1], &dims[2], &dims[3]),
            Layout::Nhwc => (&dims[3], &dims[1], &dims[2]),
        };
        let channels = match channel_dim.fixed().or(self.inspection.evidence[index].channels) {
            Some(n @ (1 | 3 | 4)) => n,
            Some(n) => {
                return Err(self.unsupported(format!(
                    "takes pictures of {n} channels ({layout} {input}), not 1, 3 or 4"
                )));
            }
            None => {
                self.notes.push("assumed 3 channels: the file leaves their number open".into());
                3
            }
        };
        let order = self.order()?;
        let input_range = self.input_range(dtype, index)?;
        let (output_index, output, kind, output_layout) = self.output(layout, channels)?;
        let output_range = self.output_range(output_index, output, kind, input_range)?;
        let sizing = self.sizing(height, width, kind)?;
        Ok(Plan {
            input: input.name.clone(),
            layout,
            channels,
            order,
            dtype,
            input_range,
            sizing,
            output_index,
            output: output.name.clone(),
            kind,
            output_layout,
            output_range,
            notes: self.notes,
        })
    }

    fn unsupported(&self, what: String) -> Error {
        Error::new(ErrorKind::Unsupported, format!("{} {what}", self.inspection.name))
    }

    fn ask(&self, what: String) -> Error {
        Error::new(ErrorKind::Argument, format!("{} {what}", self.inspection.name))
    }

    /// What the user, or else the file's metadata, says about something.
    fn said<T: FromStr<Err = Error> + fmt::Display>(
        &mut self,
        given: Option<T>,
        key: &str,
        option: &str,
    ) -> Result<Option<T>> {
        if given.is_some() {
            return Ok(given);
        }
        let name = format!("framelane.{key}");
        let Some(text) = self.inspection.metadata(&name) else { return Ok(None) };
        match text.parse::<T>() {
            Ok(value) => {
                self.notes.push(format!("{} {value}: the file's metadata says so", key.replace('_', " ")));
                Ok(Some(value))
            }
            Err(_) => Err(self.ask(format!(
                "says {name} = \"{}\" in its metadata, which is not a possible value: give {option}",
                Text(text)
            ))),
        }
    }

    fn input(&self) -> Result<(usize, &'a Port)> {
        match &self.inspection.inputs[..] {
            [input] => Ok((0, input)),
            [] => Err(self.unsupported("takes no input: it cannot be fed pictures".into())),
            inputs => {
                let list: Vec<String> = inputs.iter().map(|p| format!("{} {p}", Text(&p.name))).collect();
                Err(self.unsupported(format!(
                    "takes {} inputs ({}), but framelane feeds one picture: export it with the others fixed",
                    inputs.len(),
                    list.join(", ")
                )))
            }
        }
    }

    fn picture_dims(&self, input: &Port) -> Result<Vec<Dim>> {
        let dims = match &input.dims {
            Some(dims) if dims.len() == 4 => dims.clone(),
            None if input.dtype.is_ok() => vec![Dim::Symbolic(String::new()); 4],
            _ => {
                return Err(self.unsupported(format!(
                    "takes {input} at {}, which is no picture: framelane feeds inputs of 4 dimensions (batch, \
                     channels, height, width; or batch, height, width, channels)",
                    Text(&input.name)
                )));
            }
        };
        match dims[0].fixed() {
            Some(n) if n != 1 => Err(self.unsupported(format!(
                "takes batches of {n} pictures ({input}), but framelane feeds one at a time: export it with a batch \
                 of 1 or an open one"
            ))),
            _ => Ok(dims),
        }
    }

    fn layout(&mut self, input: &Port, dims: &[Dim], index: usize) -> Result<Layout> {
        if let Some(layout) = self.said(self.overrides.layout, "layout", "--layout nchw or nhwc")? {
            return Ok(layout);
        }
        let is_channels = |dim: &Dim| matches!(dim.fixed(), Some(1 | 3 | 4));
        match (is_channels(&dims[1]), is_channels(&dims[3])) {
            (true, false) => Ok(Layout::Nchw),
            (false, true) => Ok(Layout::Nhwc),
            _ => match &self.inspection.evidence[index].layout {
                Some((layout, why)) => {
                    self.notes.push(format!("{layout}: {why}"));
                    Ok(*layout)
                }
                None => Err(self.ask(format!(
                    "takes {input}, which does not say whether the channels come before or after height and \
                     width: give --layout nchw or nhwc"
                ))),
            },
        }
    }

    fn order(&mut self) -> Result<ChannelOrder> {
        if let Some(order) = self.said(self.overrides.channels, "channels", "--channels rgb or bgr")? {
            return Ok(order);
        }
        Ok(match self.inspection.metadata("Image.BitmapPixelFormat") {
            Some("Bgr8" | "Bgra8") => {
                self.notes.push("BGR: the file's metadata says so (Image.BitmapPixelFormat)".into());
                ChannelOrder::Bgr
            }
            _ => ChannelOrder::Rgb,
        })
    }

    fn input_range(&mut self, dtype: DType, index: usize) -> Result<InputRange> {
        let option = "--input-range 0-1, -1-1, 0-255 or imagenet";
        if let Some(range) = self.said(self.overrides.input_range, "input_range", option)? {
            return Ok(range);
        }
        if dtype == DType::U8 {
            return Ok(InputRange::BYTES);
        }
        let nominal = match self.inspection.metadata("Image.NominalPixelRange") {
            Some("NominalRange_0_255") => Some(InputRange::BYTES),
            Some("Normalized_0_1") => Some(InputRange::UNIT),
            Some("Normalized_1_1") => Some(InputRange::SIGNED),
            _ => None,
        };
        if let Some(range) = nominal {
            self.notes.push(format!("input {range}: the file's metadata says so (Image.NominalPixelRange)"));
            return Ok(range);
        }
        if let Some((range, why)) = &self.inspection.evidence[index].range {
            self.notes.push(format!("input {range}: {why}"));
            return Ok(*range);
        }
        self.notes.push("assumed input 0-1: the file does not say (override with --input-range)".into());
        Ok(InputRange::UNIT)
    }

    /// Which output is shown, as what, in which order of dimensions.
    fn output(&mut self, layout: Layout, channels: usize) -> Result<(usize, &'a Port, OutputKind, Layout)> {
        let outputs = &self.inspection.outputs;
        let is_map = |p: &Port| p.dims.as_ref().is_none_or(|d| matches!(d.len(), 2..=4)) && p.dtype.is_ok();
        let Some((index, port)) = outputs.iter().enumerate().find(|(_, p)| is_map(p)) else {
            let list: Vec<String> = outputs.iter().map(|p| format!("{} {p}", Text(&p.name))).collect();
            let list = if list.is_empty() { "nothing".into() } else { list.join(", ") };
            return Err(self.unsupported(format!(
                "gives {list}, which is neither a picture nor one number or class for each pixel"
            )));
        };
        if outputs.len() > 1 {
            let others: Vec<String> =
                outputs.iter().filter(|p| *p != port).map(|p| Text(&p.name).to_string()).collect();
            self.notes.push(format!("shows {}; not shown: {}", Text(&port.name), others.join(", ")));
        }
        let (output_layout, depth) = depth(port, layout);
        let whole = matches!(port.dtype, Ok(DType::I32 | DType::I64));
        let asked = self.said(self.overrides.output, "output", "--output image, mask, classes or heat")?;
        let kind = match asked {
            Some(kind) => kind,
            None => self.kind(index, port, depth, channels)?,
        };
        let fits = match (kind, depth) {
            (OutputKind::Image, Some(n)) => matches!(n, 1 | 3 | 4) && !whole,
            (OutputKind::Mask | OutputKind::Heat, Some(n)) => n == 1,
            _ => true,
        };
        let readable = matches!(
            port.dtype,
            Ok(DType::F32 | DType::F16 | DType::U8 | DType::I32 | DType::I64 | DType::Bool)
        );
        if !fits || !readable {
            return Err(self.unsupported(format!("gives {port}, which cannot be shown as {kind}")));
        }
        Ok((index, port, kind, output_layout))
    }

    fn kind(
        &mut self,
        index: usize,
        port: &Port,
        depth: Option<usize>,
        channels: usize,
    ) -> Result<OutputKind> {
        let last = self.inspection.output_evidence[index].last.as_deref();
        let name = port.name.to_ascii_lowercase();
        let named = |words: &[&str]| words.iter().any(|w| name.contains(w));
        let (kind, why) = match (&port.dtype, depth) {
            (Ok(DType::I32 | DType::I64), _) => (OutputKind::Classes, "its numbers are whole".to_owned()),
            _ if last == Some("ArgMax") => (OutputKind::Classes, "its last operator is ArgMax".into()),
            (Ok(DType::Bool), _) => (OutputKind::Mask, "it is true or false".into()),
            (_, Some(n @ (2 | 4..))) if named(&["logit", "class", "score", "prob", "seg"]) => (
                OutputKind::Classes,
                format!("its name is {}, and it has {n} numbers for each pixel", Text(&port.name)),
            ),
            (_, Some(3)) => (OutputKind::Image, "it has 3 channels".into()),
            (_, Some(4)) if channels == 4 => (OutputKind::Image, "input and output have 4 channels".into()),
            (_, Some(4)) => {
                return Err(self.ask(format!(
                    "gives {port}, which may be a picture with alpha or the scores of 4 classes: give --output \
                     image or classes"
                )));
            }
            (_, Some(n @ 2..)) => (OutputKind::Classes, format!("it has {n} scores for each pixel")),
            (_, Some(_)) if channels == 1 => (OutputKind::Image, "input and output have one channel".into()),
            (_, Some(_)) if named(&["mask", "alpha", "matte", "seg"]) => {
                (OutputKind::Mask, format!("its name is {}", Text(&port.name)))
            }
            (_, Some(_)) if named(&["depth", "heat", "dispar", "density"]) => {
                (OutputKind::Heat, format!("its name is {}", Text(&port.name)))
            }
            (_, Some(_)) if last == Some("Sigmoid") => {
                (OutputKind::Mask, "its last operator is Sigmoid".into())
            }
            (_, Some(_)) => {
                self.notes.push(
                    "assumed output heat: one number for each pixel (override with --output mask, image or classes)"
                        .into(),
                );
                return Ok(OutputKind::Heat);
            }
            (_, None) => {
                return Err(self.ask(format!(
                    "gives {port}, which does not say what it is: give --output image, mask, classes or heat"
                )));
            }
        };
        self.notes.push(format!("output {kind}: {why}"));
        Ok(kind)
    }

    fn output_range(
        &mut self,
        index: usize,
        port: &Port,
        kind: OutputKind,
        input: InputRange,
    ) -> Result<OutputRange> {
        let option = "--output-range 0-1, -1-1, 0-255 or LOW..HIGH";
        if let Some(range) = self.said(self.overrides.output_range, "output_range", option)? {
            let fits = match range {
                OutputRange::Span(..) => true,
                OutputRange::Frame => kind == OutputKind::Heat,
                OutputRange::MeanStd(..) => kind == OutputKind::Image,
            };
            return if fits {
                Ok(range)
            } else {
                Err(self.ask(format!(
                    "is shown as {kind}, for which --output-range cannot be {range}: give {option}"
                )))
            };
        }
        let evidence = &self.inspection.output_evidence[index].range;
        let (range, note) = match (kind, &port.dtype, evidence) {
            (OutputKind::Classes, ..) => (OutputRange::Span(0.0, 1.0), None),
            (_, Ok(DType::Bool), _) => (OutputRange::Span(0.0, 1.0), None),
            (OutputKind::Image | OutputKind::Mask, Ok(DType::U8), _) => (OutputRange::Span(0.0, 255.0), None),
            (_, _, Some((range, why))) => (*range, Some(format!("output {range}: {why}"))),
            (OutputKind::Heat, ..) => (
                OutputRange::Frame,
                Some("assumed output range frame: each frame's least to greatest (override with --output-range)".into()),
            ),
            (OutputKind::Mask, ..) => (
                OutputRange::Span(0.0, 1.0),
                Some("assumed output 0-1: the file does not say (override with --output-range)".into()),
            ),
            (OutputKind::Image, ..) => {
                let range = match input {
                    InputRange::Span(low, high) => OutputRange::Span(low, high),
                    InputRange::MeanStd(mean, std) => OutputRange::MeanStd(mean, std),
                };
                (range, Some(format!("assumed output {range}, as the input (override with --output-range)")))
            }
        };
        self.notes.extend(note);
        Ok(range)
    }

    fn sizing(&mut self, height: &Dim, width: &Dim, kind: OutputKind) -> Result<Sizing> {
        let given = self.overrides.size;
        let size = match (width.fixed(), height.fixed(), given) {
            (None, None, None) => {
                return match self.overrides.resize {
                    None => Ok(Sizing::Picture),
                    Some(resize) => Err(self.ask(format!(
                        "works at any size, so --resize {resize} needs one: give --size, as in --size 640x360"
                    ))),
                };
            }
            (w, h, Some(size)) => {
                if w.is_some_and(|w| w != size.width) || h.is_some_and(|h| h != size.height) {
                    return Err(
                        self.ask(format!("works at {width}×{height}, not at the --size {size} given"))
                    );
                }
                size
            }
            (Some(w), Some(h), None) => ImageSize::new(w, h).map_err(|_| {
                self.unsupported(format!("works at {w}×{h}, which is larger than any picture"))
            })?,
            (_, _, None) => {
                return Err(self.ask(format!(
                    "works at width {width} and height {height}: give both, as in --size 640x360"
                )));
            }
        };
        let resize = match (self.overrides.resize, kind) {
            (Some(Resize::Tile), OutputKind::Mask | OutputKind::Classes | OutputKind::Heat) => {
                return Err(self.ask(format!(
                    "gives a map ({kind}), which is not made in tiles: give --resize fit or letterbox"
                )));
            }
            (Some(resize), _) => resize,
            (None, kind) => {
                let resize = if kind == OutputKind::Image { Resize::Tile } else { Resize::Fit };
                self.notes.push(format!(
                    "assumed {resize}: pictures of another size than {size} (override with --resize fit{})",
                    if kind == OutputKind::Image { ", letterbox or tile" } else { " or letterbox" }
                ));
                resize
            }
        };
        let most = size.width.min(size.height) / 2;
        let overlap = match self.overrides.tile_overlap {
            Some(overlap) if overlap > most => {
                return Err(self.ask(format!(
                    "works in tiles of {size}, which may share up to {most} pixels, not {overlap}: give a smaller \
                     --tile-overlap"
                )));
            }
            Some(overlap) => overlap,
            None => TILE_OVERLAP.min(most / 2),
        };
        Ok(Sizing::Fixed { size, resize, overlap })
    }
}

/// The order of an output's dimensions, and how many numbers it has for each pixel if that is known.
fn depth(port: &Port, input: Layout) -> (Layout, Option<usize>) {
    let Some(dims) = &port.dims else { return (input, None) };
    let (first, last) = match &dims[..] {
        [_, first, _, last] => (first.fixed(), last.fixed()),
        // Without channels, or without a batch.
        [first, _, last] => match (first.fixed(), last.fixed()) {
            (Some(3 | 4), _) | (_, Some(3 | 4)) => (first.fixed(), last.fixed()),
            _ => return (input, Some(1)),
        },
        _ => return (input, Some(1)),
    };
    let (own, other, flipped) = match input {
        Layout::Nchw => (first, last, Layout::Nhwc),
        Layout::Nhwc => (last, first, Layout::Nchw),
    };
    match (own, other) {
        (Some(1 | 3 | 4), _) => (input, own),
        (_, Some(1 | 3 | 4)) => (flipped, other),
        _ => (input, own),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colours = match self.channels {
            1 => "luma".to_owned(),
            3 => self.order.to_string(),
            _ => format!("{} and alpha", self.order),
        };
        write!(
            f,
            "feed        {} as {} {}, {colours}, range {}",
            Text(&self.input),
            self.layout,
            self.dtype,
            self.input_range
        )?;
        match self.sizing {
            Sizing::Picture => writeln!(f, ", at the picture's size")?,
            Sizing::Fixed { size, resize: Resize::Tile, overlap } => {
                writeln!(f, ", in tiles of {size} that share {overlap} pixels")?;
            }
            Sizing::Fixed { size, resize, .. } => writeln!(f, ", at {size} ({resize})")?,
        }
        write!(f, "show        {} as {}", Text(&self.output), self.kind)?;
        match self.kind {
            OutputKind::Classes => writeln!(f)?,
            _ => writeln!(f, ", range {}", self.output_range)?,
        }
        for note in &self.notes {
            writeln!(f, "because     {note}")?;
        }
        Ok(())
    }
}
