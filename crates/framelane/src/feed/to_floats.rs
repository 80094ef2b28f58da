//! Conversion on the device: pictures of bytes become floats after the copy, so that a quarter of the bytes
//! crosses the bus and no CPU touches a pixel.

use crate::batch::Contents;
use crate::device::{Access, Buffer, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{DType, TensorSpec};
use framelane_cuda::Place;
use framelane_cuda::kernels::{self, Affine, Float, Shape, Strides, twin};
use std::ops::Range;

/// Order of a picture's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Channels first: one plane a channel.
    Chw,
    /// Channels last: a pixel's numbers side by side, as decoders give them.
    Hwc,
}

/// What the device makes of pictures after the copy, in one kernel for each tensor.
///
/// Pictures are the batch's tensors of u8 with 3 or 4 dimensions whose last is 1 to 4: (images ×) height × width
/// × channels. Each number becomes `v * scale + bias`, its channel's, product and sum each rounded to f32, then
/// to `dtype` (nearest, ties to even). Other tensors pass as they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToFloats {
    float: Float,
    layout: Layout,
    affine: Affine,
}

impl ToFloats {
    /// 0…255 to 0…1, in the order of `layout`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if `dtype` is not f32, f16 or bf16.
    pub fn unit(dtype: DType, layout: Layout) -> Result<Self> {
        let float = match dtype {
            DType::F32 => Float::F32,
            DType::F16 => Float::F16,
            DType::BF16 => Float::BF16,
            other => {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("pictures become f32, f16 or bf16 on the device, not {other}"),
                ));
            }
        };
        Ok(Self { float, layout, affine: Affine::TO_UNIT })
    }

    /// 0…255 to `(v / 255 - mean) / std`, each channel by its own (within rounding: one factor, one sum).
    pub fn normalised(self, mean: [f32; 4], std: [f32; 4]) -> Self {
        Self { affine: Affine::normalised(mean, std), ..self }
    }

    /// 0…255 to `v * scale + bias`, each channel by its own.
    pub fn scaled(self, scale: [f32; 4], bias: [f32; 4]) -> Self {
        Self { affine: Affine { scale, bias }, ..self }
    }

    fn dtype(&self) -> DType {
        match self.float {
            Float::F32 => DType::F32,
            Float::F16 => DType::F16,
            Float::BF16 => DType::BF16,
        }
    }

    /// The contents that `copied` becomes, and what must run for it. Results lie behind what was copied.
    pub(super) fn plan(&self, copied: &Contents) -> Result<(Contents, Vec<Step>)> {
        let (mut contents, mut steps) = (copied.clone(), Vec::new());
        for index in 0..copied.tensors.len() {
            let (spec, from) = &copied.tensors[index];
            let Some((shape, lead)) = picture(spec) else { continue };
            let Shape { height, width, channels, .. } = shape;
            let (to, last) = match self.layout {
                Layout::Chw => (Strides::chw(shape), [channels, height, width]),
                Layout::Hwc => (Strides::hwc(shape), [height, width, channels]),
            };
            let result = TensorSpec::new(self.dtype(), [lead, &last].concat());
            let added = contents.add(&result)?;
            let (spec, range) = contents.tensors.remove(added);
            let (float, affine) = (self.float, self.affine);
            let how = kernels::ToFloats { shape, from: Strides::hwc(shape), to, float, affine };
            steps.push(Step { how, from: from.clone(), to: range.clone() });
            // Only from here on may the next one be added: it goes behind this one.
            contents.tensors[index] = (spec, range);
        }
        Ok((contents, steps))
    }
}

/// The picture's shape, and the extents before height.
fn picture(spec: &TensorSpec) -> Option<(Shape, &[usize])> {
    let (lead, last) = spec.shape().split_last_chunk::<3>()?;
    let &[height, width, channels] = last;
    let fits = spec.dtype() == DType::U8 && lead.len() <= 1 && (1..=4).contains(&channels);
    fits.then(|| (Shape { images: lead.iter().product(), height, width, channels }, lead))
}

/// One tensor's conversion within a slot.
#[derive(Debug, Clone)]
pub(super) struct Step {
    how: kernels::ToFloats,
    from: Range<usize>,
    to: Range<usize>,
}

impl Step {
    /// Enqueue it.
    pub fn enqueue(&self, stream: &Stream, slot: &Buffer) -> Result<()> {
        let Self { how, from, to } = self.clone();
        let name = "convert to floats";
        if to.is_empty() {
            return Ok(());
        }
        if stream.cuda().is_some() {
            let accesses = [Access::read(slot, from), Access::write(slot, to)];
            return stream.launch_on_cuda(name, &accesses, |stream, places| match places {
                [(Place::Device(memory), from), (_, to)] => {
                    stream.to_floats(&how, memory, from.start, memory, to.start)
                }
                _ => Ok(()),
            });
        }
        // One buffer, so one access: everything from the bytes to the floats.
        let (start, bytes, floats) = (from.start, from.len(), to.start - from.start);
        stream.launch(name, &[Access::update(slot, start..to.end)], move |kernel| {
            let (left, right) = kernel.outputs[0].split_at_mut(floats);
            twin::to_floats(&how, &left[..bytes], right).map_err(Error::from)
        })
    }
}
