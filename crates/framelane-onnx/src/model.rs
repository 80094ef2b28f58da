//! A network as a [`Model`] that takes and gives RGB pictures.

use crate::colours::Palette;
use crate::engine::{Engine, EngineLane};
use crate::overrides::{OutputKind, Resize};
use crate::picture::{Dims, Map, Unpacker};
use crate::pixels::{Packer, Window};
use crate::plan::{Plan, Sizing};
use crate::scale::{Crop, Filter, Part, Scaler};
use crate::tiles;
use framelane::frame::ImageSize;
use framelane::lanes::{Job, Model, Session};
use framelane::stats::Stage;
use framelane::tensor::TensorSpec;
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;

/// A network that takes one RGB picture (u8, height × width × 3) and gives one.
///
/// What it gives is as large as the picture, unless the network itself makes pictures larger or smaller: then it
/// is so by the network's factor. Maps are shown over the picture.
pub struct ImageModel {
    inner: Arc<Inner>,
    description: String,
}

struct Inner {
    name: String,
    plan: Plan,
    runtime: String,
    engine: Engine,
    packer: Packer,
    palette: Palette,
}

/// How one size of picture goes through the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Whole(Fitted),
    Tiles { tile: ImageSize, overlap: usize },
}

/// A picture scaled to `content` (often its own size), its top left corner at `at` in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fitted {
    content: ImageSize,
    at: (usize, usize),
    frame: ImageSize,
}

impl Fitted {
    /// Where the content lies in an output of the frame, of another size; `None` if it fills it.
    fn crop(&self, given: ImageSize) -> Option<Crop> {
        let x = given.width as f64 / self.frame.width as f64;
        let y = given.height as f64 / self.frame.height as f64;
        let (content, at) = (self.content, self.at);
        let crop = [at.0 as f64 * x, at.1 as f64 * y, content.width as f64 * x, content.height as f64 * y];
        (content != self.frame).then_some(crop)
    }
}

impl ImageModel {
    pub(crate) fn new(
        name: &str,
        plan: Plan,
        engine: Engine,
        runtime: String,
        description: String,
    ) -> Result<Self> {
        let inner = Inner {
            name: name.to_owned(),
            packer: Packer::new(&plan),
            palette: Palette::new(plan.kind),
            plan,
            runtime,
            engine,
        };
        if let Sizing::Fixed { size, .. } = inner.plan.sizing {
            // What cannot run at its own size is better refused now than at the first picture.
            inner.dims(size)?;
        }
        Ok(Self { inner: Arc::new(inner), description })
    }

    /// How pictures are fed and what is made of the output.
    pub fn plan(&self) -> &Plan {
        &self.inner.plan
    }

    /// Which runtime runs the network, and why that one (`"tract 0.23 (no ONNX Runtime found …)"`).
    pub fn runtime(&self) -> &str {
        &self.inner.runtime
    }

    /// Everything about this model in lines: the file, the plan with all that was assumed, the runtime.
    pub fn describe(&self) -> &str {
        &self.description
    }
}

impl Model for ImageModel {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn outputs(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        let [input] = inputs else { return Err(self.inner.wants_picture(inputs)) };
        let picture = ImageSize::of(input).ok_or_else(|| self.inner.wants_picture(inputs))?;
        Ok(vec![self.inner.output_size(picture)?.spec()])
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(ImageSession {
            lane: self.inner.engine.lane(),
            unpacker: Unpacker::new(&self.inner.plan),
            inner: Arc::clone(&self.inner),
            scaler: Scaler::default(),
            scaled: Vec::new(),
            given: Vec::new(),
            strip: Vec::new(),
            map: Map::default(),
            fitted: Map::default(),
        }))
    }
}

impl Inner {
    fn wants_picture(&self, inputs: &[TensorSpec]) -> Error {
        let got: Vec<String> = inputs.iter().map(TensorSpec::to_string).collect();
        Error::new(
            ErrorKind::Argument,
            format!(
                "{} takes one RGB picture (u8, height × width × 3), not {}",
                self.name,
                got.join(" and ")
            ),
        )
    }

    fn way(&self, picture: ImageSize) -> Way {
        let whole = |size| Way::Whole(Fitted { content: size, at: (0, 0), frame: size });
        match self.plan.sizing {
            Sizing::Picture => whole(picture),
            Sizing::Fixed { size, .. } if size == picture => whole(size),
            Sizing::Fixed { size, resize: Resize::Fit, .. } => whole(size),
            Sizing::Fixed { size, resize: Resize::Letterbox, .. } => {
                let content = within(picture, size);
                let at = ((size.width - content.width) / 2, (size.height - content.height) / 2);
                Way::Whole(Fitted { content, at, frame: size })
            }
            Sizing::Fixed { size, resize: Resize::Tile, overlap } => Way::Tiles { tile: size, overlap },
        }
    }

    /// Dimensions of the network's output for a frame of this size.
    fn dims(&self, frame: ImageSize) -> Result<Dims> {
        Dims::new(&self.engine.output_shape(&self.packer.shape(frame))?, &self.plan, &self.name)
    }

    /// Size of what is shown for a picture of this size.
    fn output_size(&self, picture: ImageSize) -> Result<ImageSize> {
        let way = self.way(picture);
        let frame = match way {
            Way::Whole(fitted) => fitted.frame,
            Way::Tiles { tile, .. } => tile,
        };
        let shown = self.shown_size(picture, way, self.dims(frame)?.size)?;
        ImageSize::new(shown.width, shown.height)
            .map_err(|e| e.context(format_args!("{} makes pictures of {picture} too large", self.name)))
    }

    /// Size of what is shown for a picture, if the network gives `given` for one frame or tile.
    fn shown_size(&self, picture: ImageSize, way: Way, given: ImageSize) -> Result<ImageSize> {
        if self.plan.kind != OutputKind::Image {
            return Ok(picture);
        }
        match way {
            Way::Whole(Fitted { frame, .. }) => {
                let scale = |side: usize, given: usize, taken: usize| {
                    (side as f64 * given as f64 / taken as f64).round().max(1.0) as usize
                };
                Ok(ImageSize {
                    width: scale(picture.width, given.width, frame.width),
                    height: scale(picture.height, given.height, frame.height),
                })
            }
            Way::Tiles { tile, .. } => {
                let (x, y) = self.factors(tile, given)?;
                Ok(ImageSize { width: picture.width * x, height: picture.height * y })
            }
        }
    }

    fn wrong_output(&self, room: ImageSize, made: ImageSize) -> Error {
        Error::new(
            ErrorKind::Argument,
            format!("{} makes a picture of {made}, but there is room for one of {room}", self.name),
        )
    }

    /// How much larger a tile comes out, in whole numbers.
    fn factors(&self, tile: ImageSize, given: ImageSize) -> Result<(usize, usize)> {
        let whole = given.width.is_multiple_of(tile.width) && given.height.is_multiple_of(tile.height);
        if !whole {
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "{} makes {given} of {tile}, which is no whole factor, so its tiles cannot be put together: \
                     give --resize fit or letterbox",
                    self.name
                ),
            ));
        }
        Ok((given.width / tile.width, given.height / tile.height))
    }
}

/// The largest size of the picture's shape within a frame.
fn within(picture: ImageSize, frame: ImageSize) -> ImageSize {
    let scale = (frame.width as f64 / picture.width as f64).min(frame.height as f64 / picture.height as f64);
    let side = |n: usize, most: usize| ((n as f64 * scale).round() as usize).clamp(1, most);
    ImageSize { width: side(picture.width, frame.width), height: side(picture.height, frame.height) }
}

/// One lane: the runtime's tensors, and room for what does not fit straight into the output. All of it is kept
/// from frame to frame.
struct ImageSession {
    inner: Arc<Inner>,
    lane: EngineLane,
    unpacker: Unpacker,
    scaler: Scaler,
    /// The picture at the network's size, or grown to one tile.
    scaled: Vec<u8>,
    /// The network's picture before it is scaled or blended into the output.
    given: Vec<u8>,
    /// One row of tiles.
    strip: Vec<u8>,
    map: Map,
    fitted: Map,
}

impl Session for ImageSession {
    fn run(&mut self, job: &mut Job<'_>) -> Result<()> {
        self.run_job(job).map_err(|e| match job.meta {
            Some(frame) => e.context(frame),
            None => e,
        })
    }
}

impl ImageSession {
    fn run_job(&mut self, job: &mut Job<'_>) -> Result<()> {
        let picture = match job.inputs {
            [(spec, _)] => ImageSize::of(spec),
            _ => None,
        };
        let shown = match &*job.outputs {
            [(spec, _)] => ImageSize::of(spec),
            _ => None,
        };
        let (Some(picture), Some(shown)) = (picture, shown) else {
            let inputs: Vec<TensorSpec> = job.inputs.iter().map(|(s, _)| (*s).clone()).collect();
            return Err(self.inner.wants_picture(&inputs));
        };
        match self.inner.way(picture) {
            Way::Whole(fitted) => self.whole(job, picture, shown, fitted),
            Way::Tiles { tile, overlap } => self.tiles(job, picture, shown, tile, overlap),
        }
    }

    fn whole(
        &mut self,
        job: &mut Job<'_>,
        picture: ImageSize,
        shown: ImageSize,
        fitted: Fitted,
    ) -> Result<()> {
        let Fitted { content, at, frame } = fitted;
        let shape = self.inner.packer.shape(frame);
        // Before the stopwatch: a new size makes the runtime prepare.
        self.lane.input(&shape)?;
        job.timed(Stage::Convert, |job| {
            let mut rgb = job.inputs[0].1;
            if content != picture {
                self.scaled.resize(content.bytes(), 0);
                let whole = Part { bytes: rgb, size: picture, crop: None };
                self.scaler.rgb(&whole, &mut self.scaled, content)?;
                rgb = &self.scaled;
            }
            let window = Window { picture: content, from: (0, 0), size: content, to: at, frame };
            self.inner.packer.pack(rgb, &window, self.lane.input(&shape)?);
            Ok::<_, Error>(())
        })?;
        self.lane.run()?;
        job.timed(Stage::Convert, |job| {
            let (shape, elements) = self.lane.output()?;
            let dims = Dims::new(shape, &self.inner.plan, &self.inner.name)?;
            let made = self.inner.shown_size(picture, Way::Whole(fitted), dims.size)?;
            if made != shown {
                return Err(self.inner.wrong_output(shown, made));
            }
            let rgb = job.inputs[0].1;
            let out = &mut *job.outputs[0].1;
            let crop = fitted.crop(dims.size);
            if self.inner.plan.kind == OutputKind::Image {
                if crop.is_none() && dims.size == shown {
                    self.unpacker.image(elements, &dims, out);
                } else {
                    self.given.resize(dims.size.bytes(), 0);
                    self.unpacker.image(elements, &dims, &mut self.given);
                    self.scaler.rgb(&Part { bytes: &self.given, size: dims.size, crop }, out, shown)?;
                }
                return Ok(());
            }
            self.unpacker.map(elements, &dims, &mut self.map);
            let map = if crop.is_none() && dims.size == picture {
                &self.map
            } else {
                let area = picture.width * picture.height;
                let filter = match self.inner.plan.kind {
                    OutputKind::Classes => Filter::Nearest,
                    _ => Filter::Smooth,
                };
                self.fitted.bytes.resize(area, 0);
                let part = Part { bytes: &self.map.bytes, size: dims.size, crop };
                self.scaler.map(&part, &mut self.fitted.bytes, picture, filter)?;
                self.fitted.nan.clear();
                if !self.map.nan.is_empty() {
                    self.fitted.nan.resize(area, 0);
                    let part = Part { bytes: &self.map.nan, size: dims.size, crop };
                    self.scaler.map(&part, &mut self.fitted.nan, picture, Filter::Nearest)?;
                }
                &self.fitted
            };
            self.inner.palette.paint(map, rgb, out);
            Ok(())
        })
    }

    fn tiles(
        &mut self,
        job: &mut Job<'_>,
        picture: ImageSize,
        shown: ImageSize,
        tile: ImageSize,
        overlap: usize,
    ) -> Result<()> {
        let shape = self.inner.packer.shape(tile);
        self.lane.input(&shape)?;
        // A picture smaller than one tile is grown to it, and the result cut.
        let grown =
            ImageSize { width: picture.width.max(tile.width), height: picture.height.max(tile.height) };
        if grown != picture {
            job.timed(Stage::Convert, |job| tiles::extend(job.inputs[0].1, picture, grown, &mut self.scaled));
        }
        let columns = tiles::starts(grown.width, tile.width, overlap);
        let rows = tiles::starts(grown.height, tile.height, overlap);
        let mut last_y = None;
        for &y in &rows {
            let mut last_x = None;
            let mut factors = (1, 1);
            for &x in &columns {
                job.timed(Stage::Convert, |job| {
                    let rgb = if grown == picture { job.inputs[0].1 } else { &self.scaled };
                    let window = Window { picture: grown, from: (x, y), size: tile, to: (0, 0), frame: tile };
                    self.inner.packer.pack(rgb, &window, self.lane.input(&shape)?);
                    Ok::<_, Error>(())
                })?;
                self.lane.run()?;
                job.timed(Stage::Convert, |_| {
                    let (shape, elements) = self.lane.output()?;
                    let dims = Dims::new(shape, &self.inner.plan, &self.inner.name)?;
                    factors = self.inner.factors(tile, dims.size)?;
                    let width = grown.width * factors.0;
                    self.given.resize(dims.size.bytes(), 0);
                    self.unpacker.image(elements, &dims, &mut self.given);
                    self.strip.resize(width * dims.size.height * 3, 0);
                    let shared = last_x.map_or(0, |last: usize| (last + tile.width - x) * factors.0);
                    let left = x * factors.0;
                    tiles::into_strip(&self.given, dims.size, &mut self.strip, width, left, shared);
                    Ok::<_, Error>(())
                })?;
                last_x = Some(x);
            }
            let made = (picture.width * factors.0, picture.height * factors.1);
            if made != (shown.width, shown.height) {
                return Err(self.inner.wrong_output(shown, ImageSize { width: made.0, height: made.1 }));
            }
            job.timed(Stage::Convert, |job| {
                let shared = last_y.map_or(0, |last: usize| (last + tile.height - y) * factors.1);
                let width = grown.width * factors.0;
                tiles::into_picture(&self.strip, width, job.outputs[0].1, shown, y * factors.1, shared);
            });
            last_y = Some(y);
        }
        Ok(())
    }
}
