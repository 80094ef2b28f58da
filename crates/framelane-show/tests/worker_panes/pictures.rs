//! Pictures of every kind, which two processes make alike.

use framelane::TensorView;
use framelane::device::{Access, Buffer, Device, Memory, Stream};
use framelane::feed::Layout;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::framelane_cuda::Place;
use framelane::tensor::{DType, TensorSpec};
use framelane_show::{Colours, Picture};

/// Of pictures that are numbers.
pub const SMALL: ImageSize = ImageSize { width: 160, height: 90 };

pub fn meta(index: u64) -> FrameMeta {
    FrameMeta::new("test", index)
}

#[derive(Debug)]
pub struct Kind {
    dtype: DType,
    channels: usize,
    layout: Layout,
    width: usize,
    height: usize,
    look: Look,
}

#[derive(Debug, Clone, Copy)]
enum Look {
    Plain,
    Range(f32, f32),
    Marked(Colours),
    Bgr,
}

const fn kind(
    dtype: DType,
    channels: usize,
    layout: Layout,
    (width, height): (usize, usize),
    look: Look,
) -> Kind {
    Kind { dtype, channels, layout, width, height, look }
}

/// Sizes go up, so that slots grow, and down again.
pub const PICTURES: [Kind; 16] = {
    use Layout::{Chw, Hwc};
    use Look::{Bgr, Marked, Plain, Range};
    let (odd, wide, large) = ((37, 21), (320, 100), (701, 399));
    [
        kind(DType::U8, 3, Hwc, odd, Plain),
        kind(DType::U8, 1, Hwc, odd, Plain),
        kind(DType::U8, 4, Hwc, odd, Range(40.0, 200.0)),
        kind(DType::U8, 3, Chw, odd, Bgr),
        kind(DType::F32, 3, Chw, wide, Plain),
        kind(DType::F32, 3, Hwc, wide, Bgr),
        kind(DType::F32, 1, Chw, wide, Marked(Colours::Viridis)),
        kind(DType::F16, 3, Chw, wide, Range(-0.5, 1.5)),
        kind(DType::F16, 1, Hwc, wide, Marked(Colours::Turbo)),
        kind(DType::F16, 4, Hwc, wide, Plain),
        kind(DType::BF16, 3, Chw, large, Plain),
        kind(DType::BF16, 4, Chw, large, Range(1.0, 0.0)),
        kind(DType::BF16, 1, Chw, large, Marked(Colours::Grey)),
        kind(DType::F32, 4, Chw, large, Plain),
        kind(DType::U8, 3, Hwc, wide, Plain),
        kind(DType::F32, 3, Chw, odd, Range(0.25, 0.75)),
    ]
};

impl Kind {
    pub fn size(&self) -> ImageSize {
        ImageSize { width: self.width, height: self.height }
    }

    fn spec(&self) -> TensorSpec {
        let Self { width, height, channels, .. } = *self;
        match self.layout {
            Layout::Hwc => TensorSpec::new(self.dtype, [height, width, channels]),
            Layout::Chw => TensorSpec::new(self.dtype, [channels, height, width]),
        }
    }

    /// Numbers from a bit below 0 to a bit above 1, and now and then one that is none.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for i in 0..(self.width * self.height * self.channels) as u32 {
            let noise = i.wrapping_mul(2_654_435_761) >> 8;
            let value =
                if noise.is_multiple_of(97) { f32::NAN } else { (noise % 4096) as f32 / 3500.0 - 0.08 };
            match self.dtype {
                DType::U8 => bytes.push(noise as u8),
                DType::F16 => {
                    bytes.extend(framelane::framelane_cuda::kernels::twin::f16_bits(value).to_le_bytes())
                }
                DType::BF16 => bytes.extend(((value.to_bits() >> 16) as u16).to_le_bytes()),
                _ => bytes.extend(value.to_le_bytes()),
            }
        }
        bytes
    }

    pub fn of<'a>(&self, tensor: &'a Tensor) -> Picture<'a> {
        let picture = Picture::new(tensor.view()).layout(self.layout);
        match self.look {
            Look::Plain => picture,
            Look::Range(low, high) => picture.range(low, high),
            Look::Marked(colours) => picture.colours(colours).mark(),
            Look::Bgr => picture.bgr(),
        }
    }
}

/// Numbers in a device's memory.
pub struct Tensor {
    memory: Buffer,
    spec: TensorSpec,
}

impl Tensor {
    pub fn upload(device: &Device, stream: &Stream, kind: &Kind) -> Self {
        let (spec, bytes) = (kind.spec(), kind.bytes());
        let pinned = device.alloc(bytes.len(), Memory::Pinned).unwrap();
        pinned.write_host().unwrap().copy_from_slice(&bytes);
        let memory = device.alloc(bytes.len(), Memory::Device).unwrap();
        stream.copy(&pinned, 0..bytes.len(), &memory, 0).unwrap();
        Self { memory, spec }
    }

    /// RGBA of `size`.
    pub fn new(device: &Device, size: ImageSize) -> Self {
        let spec = TensorSpec::new(DType::U8, [size.height, size.width, 4]);
        Self { memory: device.alloc(spec.bytes(), Memory::Device).unwrap(), spec }
    }

    pub fn view(&self) -> TensorView<'_> {
        TensorView::new(&self.memory, 0, &self.spec).unwrap()
    }

    /// Enqueue writing the number into each pixel, low byte first.
    pub fn paint(&self, stream: &Stream, n: u32) {
        let bytes = self.spec.bytes();
        let access = [Access::write(&self.memory, 0..bytes)];
        match stream.cuda() {
            Some(_) => stream.launch_on_cuda("paint", &access, |stream, places| {
                let [(Place::Device(to), _)] = places else { unreachable!() };
                stream.fill_words(to, 0..bytes, n)
            }),
            None => stream.launch("paint", &access, move |kernel| {
                kernel.outputs[0].chunks_exact_mut(4).for_each(|p| p.copy_from_slice(&n.to_le_bytes()));
                Ok(())
            }),
        }
        .unwrap();
    }
}
