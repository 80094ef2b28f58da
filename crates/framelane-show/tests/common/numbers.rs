//! A tensor whose numbers say where they are.

use framelane::feed::Layout;
use framelane::frame::ImageSize;
use framelane::framelane_cuda::kernels::twin;
use framelane::tensor::{DType, TensorSpec};

/// All 256 numbers, different in each channel.
pub fn number(x: usize, y: usize, c: usize) -> u8 {
    ((x * 7 + y * 13 + c * 91) % 256) as u8
}

/// A tensor of this size with [`number`]s in it.
pub fn numbers(size: ImageSize, dtype: DType, layout: Layout, channels: usize) -> (TensorSpec, Vec<u8>) {
    let ImageSize { width, height } = size;
    let shape = match layout {
        Layout::Hwc => [height, width, channels],
        Layout::Chw => [channels, height, width],
    };
    let mut bytes = Vec::new();
    for i in 0..channels * width * height {
        let (x, y, c) = match layout {
            Layout::Hwc => (i / channels % width, i / channels / width, i % channels),
            Layout::Chw => (i % width, i / width % height, i / width / height),
        };
        let v = number(x, y, c);
        match dtype {
            DType::U8 => bytes.push(v),
            // Of 0 to 256, so that each number is exact in half precision, and 8 bits in bf16.
            DType::F16 => bytes.extend(twin::f16_bits(v.into()).to_le_bytes()),
            DType::BF16 => bytes.extend(((f32::from(v).to_bits() >> 16) as u16).to_le_bytes()),
            _ => bytes.extend(f32::from(v).to_le_bytes()),
        }
    }
    (TensorSpec::new(dtype, shape), bytes)
}
