//! What is to be shown, and how its numbers become colours.

use framelane::device::{Access, Buffer, Stream};
use framelane::frame::ImageSize;
use framelane::framelane_cuda::Place;
use framelane::framelane_cuda::kernels::{self, Element, Order, ToPicture, twin};
use framelane::tensor::{DType, TensorSpec};
use framelane::{Error, ErrorKind, Result, TensorView};

pub use framelane::feed::Layout;
pub use kernels::Colours;

/// An image tensor, and how it is to be looked at.
///
/// Any of u8, f16, bf16 and f32; height × width × channels or channels × height × width, of 1, 3 or 4 channels, or
/// height × width alone; a batch of one. Shape and type say most of it; the rest can be said here.
///
/// The fourth channel is not looked at: pictures are shown opaque.
#[derive(Debug, Clone)]
pub struct Picture<'a> {
    tensor: TensorView<'a>,
    how: Looks,
}

#[derive(Debug, Clone, Copy)]
struct Looks {
    layout: Option<Layout>,
    range: Option<(f32, f32)>,
    colours: Colours,
    order: Order,
    mark: bool,
}

impl<'a> Picture<'a> {
    /// The tensor as it says itself: u8 from 0 to 255, floats from 0 to 1, red first, one channel in greys.
    pub fn new(tensor: TensorView<'a>) -> Self {
        let how = Looks { layout: None, range: None, colours: Colours::Grey, order: Order::Rgb, mark: false };
        Self { tensor, how }
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

    pub(crate) fn tensor(&self) -> &TensorView<'a> {
        &self.tensor
    }

    /// Enqueue making it into RGBA8 at the start of `target`: one kernel.
    ///
    /// # Errors
    /// Those of [`Stream::launch`]; on CUDA also what makes no sense of the looks, which on the host the stream tells at
    /// its next call.
    pub(crate) fn enqueue(&self, stream: &Stream, how: &ToPicture, target: &Buffer) -> Result<()> {
        let accesses = [self.tensor.access(), Access::write(target, 0..how.to_row * how.height)];
        let how = *how;
        match stream.device().cuda_context() {
            Some(_) => stream.launch_on_cuda("show", &accesses, |stream, places| {
                let [(Place::Device(from), at), (Place::Device(to), _)] = places else {
                    unreachable!("a tensor and a slot are device memory")
                };
                stream.to_picture(&how, from, at.start, to, 0)
            }),
            None => stream.launch("show", &accesses, move |kernel| {
                twin::to_picture(&how, kernel.inputs[0], kernel.outputs[0]).map_err(Error::from)
            }),
        }
    }

    /// Its size, and how it is made into RGBA8 with rows `pitch(width)` bytes apart.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] or [`ErrorKind::Input`] if the tensor is no picture, or its layout must be said.
    pub(crate) fn plan(&self, pitch: impl Fn(usize) -> usize) -> Result<(ImageSize, ToPicture)> {
        let spec = self.tensor.spec();
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
        Ok((size, how))
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
