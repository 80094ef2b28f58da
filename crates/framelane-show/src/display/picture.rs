//! What is to be shown, and how its numbers become colours.

use framelane::device::{Access, Buffer, Stream};
use framelane::frame::ImageSize;
use framelane::framelane_cuda::kernels::{self, Element, Nv12ToPicture, Order, ToPicture, twin};
use framelane::framelane_cuda::{self, DeviceBuffer, Place};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Error, ErrorKind, Result, TensorView};
use std::ops::Range;

pub use framelane::feed::Layout;
pub use kernels::{Colours, Matrix};

/// An image, and how it is to be looked at.
///
/// A tensor of u8, f16, bf16 or f32; height × width × channels or channels × height × width, of 1, 3 or 4 channels, or
/// height × width alone; a batch of one. Shape and type say most of it; the rest can be said here. Or NV12, what video
/// decoders give.
///
/// On the device that shows it, or on the host: then the call that shows it copies it once, so that the host's memory may
/// be written again as soon as the call is back, and the device gets it by a copy on the stream. (Pinned memory of the
/// device is copied by the stream alone: the CPU may write it again when that is done, and is refused before.)
///
/// The fourth channel is not looked at: pictures are shown opaque.
#[derive(Debug, Clone)]
pub struct Picture<'a> {
    source: Source<'a>,
    what: What<'a>,
    how: Looks,
    before: Option<Box<Picture<'a>>>,
}

/// Where the numbers are.
#[derive(Debug, Clone)]
pub(crate) enum Source<'a> {
    Memory(&'a Buffer, Range<usize>),
    Bytes(&'a [u8]),
}

#[derive(Debug, Clone, Copy)]
enum What<'a> {
    Tensor(&'a TensorSpec),
    Nv12 { size: ImageSize, y_row: usize, chroma_at: usize, chroma_row: usize, matrix: Matrix, full: bool },
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Looks {
    layout: Option<Layout>,
    range: Option<(f32, f32)>,
    colours: Colours,
    order: Order,
    mark: bool,
}

const AS_IT_SAYS: Looks =
    Looks { layout: None, range: None, colours: Colours::Grey, order: Order::Rgb, mark: false };

/// How a picture, and the one before it behind it in memory, are made.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub size: ImageSize,
    pub how: How,
    /// The byte where it begins is the last of these.
    pub before: Option<(ImageSize, How, usize)>,
    /// Of both together.
    pub bytes: usize,
}

/// How numbers are made into RGBA8.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    Numbers(ToPicture),
    Nv12(Nv12ToPicture),
}

impl How {
    /// Bytes of the picture from row to row.
    pub fn row(&self) -> usize {
        match self {
            Self::Numbers(how) => how.to_row,
            Self::Nv12(how) => how.to_row,
        }
    }

    /// Enqueue the kernel.
    pub fn on_cuda(
        &self,
        stream: &framelane_cuda::Stream,
        from: &DeviceBuffer,
        from_at: usize,
        to: &DeviceBuffer,
        to_at: usize,
    ) -> framelane_cuda::Result<()> {
        match self {
            Self::Numbers(how) => stream.to_picture(how, from, from_at, to, to_at),
            Self::Nv12(how) => stream.nv12_to_picture(how, from, from_at, to, to_at),
        }
    }

    /// What the kernel does, here and now.
    pub fn on_host(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        let done = match self {
            Self::Numbers(how) => twin::to_picture(how, from, to),
            Self::Nv12(how) => twin::nv12_to_picture(how, from, to),
        };
        done.map_err(Error::from)
    }

    /// Bytes of the picture.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Numbers(how) => how.to_row * how.height,
            Self::Nv12(how) => how.to_row * how.height,
        }
    }
}

impl<'a> Picture<'a> {
    /// The tensor as it says itself: u8 from 0 to 255, floats from 0 to 1, red first, one channel in greys.
    pub fn new(tensor: TensorView<'a>) -> Self {
        let source = Source::Memory(tensor.buffer(), tensor.range());
        Self { source, what: What::Tensor(tensor.spec()), how: AS_IT_SAYS, before: None }
    }

    /// An array of the host's, as [`Picture::new`].
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for fewer bytes than `spec` spans.
    pub fn of_bytes(bytes: &'a [u8], spec: &'a TensorSpec) -> Result<Self> {
        let needs = spec.span_bytes();
        let Some(bytes) = bytes.get(..needs) else {
            let has = bytes.len();
            return Err(no_picture(spec, &format!("it spans {needs} bytes, and there are {has}")));
        };
        Ok(Self { source: Source::Bytes(bytes), what: What::Tensor(spec), how: AS_IT_SAYS, before: None })
    }

    /// NV12: a plane `y` of u8, height × width, and a plane `uv` of u8 of half its height and width, rounded up, × 2, in
    /// one buffer; rows may have gaps. `matrix` is what the video says (as a rule BT.709 from 720 rows on), `full_range`
    /// whether black to white is 0 to 255 rather than 16 to 235. It has colours of its own: nothing else is said.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for planes that do not belong together.
    pub fn nv12(y: TensorView<'a>, uv: TensorView<'a>, matrix: Matrix, full_range: bool) -> Result<Self> {
        let refuse = |why: &str| {
            let text = format!("planes {} and {} are no NV12: {why}", y.spec(), uv.spec());
            Err(Error::new(ErrorKind::Argument, text))
        };
        let (&[height, width], &[y_row, 1]) = (y.spec().shape(), y.spec().strides()) else {
            return refuse("the first is height × width, its pixels side by side");
        };
        let half = [height.div_ceil(2), width.div_ceil(2), 2];
        let &[chroma_row, 2, 1] = uv.spec().strides() else {
            return refuse("the second is height × width × 2, its numbers side by side");
        };
        if uv.spec().shape() != half || [y.spec().dtype(), uv.spec().dtype()] != [DType::U8; 2] {
            let [height, width, _] = half;
            return refuse(&format!("both are of u8, and the second is {height} × {width} × 2"));
        }
        let (first, second) = (y.range(), uv.range());
        if !y.buffer().same(uv.buffer()) || second.start < first.start {
            return refuse("the second lies behind the first, in the same buffer");
        }
        let size = ImageSize::new(width, height)?;
        let chroma_at = second.start - first.start;
        let source = Source::Memory(y.buffer(), first.start..first.end.max(second.end));
        let what = What::Nv12 { size, y_row, chroma_at, chroma_row, matrix, full: full_range };
        Ok(Self { source, what, how: AS_IT_SAYS, before: None })
    }

    /// Where the channels are, for shapes that could be read both ways.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.how.layout = Some(layout);
        self
    }

    /// The numbers that are black and white (or the first and the last colour). `low` may be the greater one.
    pub fn range(mut self, low: f32, high: f32) -> Self {
        self.how.range = Some((low, high));
        self
    }

    /// Colours for one channel.
    pub fn colours(mut self, colours: Colours) -> Self {
        self.how.colours = colours;
        self
    }

    /// Blue comes first.
    pub fn bgr(mut self) -> Self {
        self.how.order = Order::Bgr;
        self
    }

    /// Make numbers outside the range visible: what is above it red, below it blue, NaN magenta. Otherwise they are
    /// shown as the nearest inside, and NaN as the low end.
    pub fn mark(mut self) -> Self {
        self.how.mark = true;
        self
    }

    /// What it was before the network, to be compared: seen left of the display's divider
    /// ([`Display::set_split`](crate::Display::set_split)), brought to this picture's place. Any size; only displays of
    /// the same process show it.
    pub fn before(mut self, before: Picture<'a>) -> Self {
        self.before = Some(Box::new(before));
        self
    }

    /// Width and height, as it will be shown.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if it is no picture.
    pub fn size(&self) -> Result<ImageSize> {
        self.plan(crate::display::pitch).map(|(size, _)| size)
    }

    pub(crate) fn source(&self) -> &Source<'a> {
        &self.source
    }

    pub(crate) fn picture_before(&self) -> Option<&Picture<'a>> {
        self.before.as_deref()
    }

    /// As [`Picture::plan`], with the picture before behind it.
    ///
    /// # Errors
    /// As [`Picture::plan`].
    pub(crate) fn plan_both(&self, pitch: impl Fn(usize) -> usize) -> Result<Plan> {
        let (size, how) = self.plan(&pitch)?;
        let at = how.bytes();
        let before = match &self.before {
            None => None,
            Some(before) => {
                let (size, how) = before.plan(&pitch).map_err(|e| e.context("the picture before"))?;
                Some((size, how, at))
            }
        };
        let bytes = at + before.as_ref().map_or(0, |(_, how, _)| how.bytes());
        Ok(Plan { size, how, before, bytes })
    }

    /// Its size, and how it is made into RGBA8 with rows `pitch(width)` bytes apart.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] or [`ErrorKind::Input`] if the tensor is no picture, or its layout must be said.
    pub(crate) fn plan(&self, pitch: impl Fn(usize) -> usize) -> Result<(ImageSize, How)> {
        match self.what {
            What::Tensor(spec) => self.plan_of(spec, pitch).map(|(size, how)| (size, How::Numbers(how))),
            What::Nv12 { .. } if self.how != AS_IT_SAYS => Err(Error::new(
                ErrorKind::Argument,
                "NV12 has colours of its own: leave out layout, range, colours, bgr and mark",
            )),
            What::Nv12 { size, y_row, chroma_at, chroma_row, matrix, full } => {
                let ImageSize { width, height } = size;
                let to_row = pitch(width);
                let how = Nv12ToPicture {
                    height,
                    width,
                    y_row,
                    chroma_at,
                    chroma_row,
                    matrix,
                    full_range: full,
                    to_row,
                };
                Ok((size, How::Nv12(how)))
            }
        }
    }

    fn plan_of(&self, spec: &TensorSpec, pitch: impl Fn(usize) -> usize) -> Result<(ImageSize, ToPicture)> {
        let element = match spec.dtype() {
            DType::U8 => Element::U8,
            DType::F16 => Element::F16,
            DType::BF16 => Element::BF16,
            DType::F32 => Element::F32,
            _ => return Err(no_picture(spec, "its numbers must be u8, f16, bf16 or f32")),
        };
        let Axes { height, width, channel } = Axes::of(spec, self.how.layout)?;
        let stride = |axis: usize| spec.strides()[axis];
        let size = ImageSize::new(spec.shape()[width], spec.shape()[height])?;
        let (low, high) =
            self.how.range.unwrap_or(if element == Element::U8 { (0.0, 255.0) } else { (0.0, 1.0) });
        let how = ToPicture {
            height: size.height,
            width: size.width,
            channels: channel.map_or(1, |axis| spec.shape()[axis]),
            element,
            row: stride(height),
            pixel: stride(width),
            channel: channel.map_or(1, stride),
            low,
            high,
            colours: self.how.colours,
            order: self.how.order,
            mark: self.how.mark,
            to_row: pitch(size.width),
        };
        if how.channels > 1 && how.colours != Colours::Grey {
            return Err(no_picture(spec, "a colour map is for one channel: leave it out"));
        }
        // Now: the host's streams would tell it at their next call, which may be another's.
        how.check()?;
        Ok((size, how))
    }
}

/// Enqueue making the numbers in these bytes of the stream's device into RGBA8 from byte `at` of `target` on: one kernel.
///
/// # Errors
/// Those of [`Stream::launch`].
pub(crate) fn enqueue(
    stream: &Stream,
    how: &How,
    (from, range): (&Buffer, Range<usize>),
    (target, at): (&Buffer, usize),
) -> Result<()> {
    let accesses = [Access::read(from, range), Access::write(target, at..at + how.bytes())];
    let how = *how;
    match stream.device().cuda_context() {
        Some(_) => stream.launch_on_cuda("show", &accesses, |stream, places| {
            let [(Place::Device(from), range), (Place::Device(to), _)] = places else {
                unreachable!("what is not device memory was staged")
            };
            how.on_cuda(stream, from, range.start, to, at)
        }),
        None => {
            stream.launch("show", &accesses, move |kernel| how.on_host(kernel.inputs[0], kernel.outputs[0]))
        }
    }
}

/// Which axis is which.
struct Axes {
    height: usize,
    width: usize,
    channel: Option<usize>,
}

impl Axes {
    fn of(spec: &TensorSpec, layout: Option<Layout>) -> Result<Self> {
        let shape = spec.shape();
        // A batch of one picture is a picture.
        let first = usize::from(shape.len() == 4);
        if first == 1 && shape[0] != 1 {
            return Err(no_picture(spec, "it is a batch of several: show one of them"));
        }
        let channels = |n: usize| matches!(n, 1 | 3 | 4);
        let axes = |height, width, channel| Ok(Self { height, width, channel });
        match shape.len() - first {
            2 if first == 0 => axes(0, 1, None),
            3 => {
                let (outer, inner) = (channels(shape[first]), channels(shape[first + 2]));
                match (layout, outer, inner) {
                    (Some(Layout::Hwc), _, true) | (None, false, true) => {
                        axes(first, first + 1, Some(first + 2))
                    }
                    (Some(Layout::Chw), true, _) | (None, true, false) => {
                        axes(first + 1, first + 2, Some(first))
                    }
                    (None, true, true) => {
                        Err(no_picture(spec, "its channels may come first or last: say which by `layout`"))
                    }
                    _ => Err(no_picture(spec, "a picture has 1, 3 or 4 channels, first or last")),
                }
            }
            _ => Err(no_picture(spec, "a picture has height, width and perhaps channels")),
        }
    }
}

fn no_picture(spec: &TensorSpec, why: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("a tensor {spec} cannot be shown: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(shape: &[usize], layout: Option<Layout>) -> Result<(usize, usize, Option<usize>)> {
        let axes = Axes::of(&TensorSpec::new(DType::U8, shape), layout)?;
        Ok((axes.height, axes.width, axes.channel))
    }

    #[test]
    fn shapes_say_what_they_are() {
        assert_eq!(axes(&[480, 640], None).unwrap(), (0, 1, None));
        assert_eq!(axes(&[480, 640, 3], None).unwrap(), (0, 1, Some(2)));
        assert_eq!(axes(&[4, 480, 640], None).unwrap(), (1, 2, Some(0)));
        assert_eq!(axes(&[1, 3, 480, 640], None).unwrap(), (2, 3, Some(1)));
        assert_eq!(axes(&[1, 480, 640, 1], None).unwrap(), (1, 2, Some(3)));
        assert_eq!(axes(&[3, 7, 4], Some(Layout::Chw)).unwrap(), (1, 2, Some(0)));
        assert_eq!(axes(&[3, 7, 4], Some(Layout::Hwc)).unwrap(), (0, 1, Some(2)));
        for (shape, layout, says) in [
            (&[3, 7, 4][..], None, "say which by `layout`"),
            (&[2, 3, 8, 8], None, "show one of them"),
            (&[480, 640, 2], None, "1, 3 or 4 channels"),
            (&[480, 640, 3], Some(Layout::Chw), "1, 3 or 4 channels"),
            (&[8], None, "height, width"),
            (&[1, 1, 1, 8, 8], None, "height, width"),
            (&[], None, "height, width"),
        ] {
            let error = axes(shape, layout).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
