//! Tensors' numbers, as the runtimes hold them.

use half::f16;

/// Numbers of an output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Elements<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    U8(&'a [u8]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    Bool(&'a [bool]),
}

/// Numbers of an input, to be written.
#[derive(Debug)]
pub(crate) enum ElementsMut<'a> {
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
    U8(&'a mut [u8]),
}

impl<'a> Elements<'a> {
    /// `length` numbers from `start` on as f32: borrowed if they are, else converted into `room`.
    pub fn floats<'r>(&self, start: usize, length: usize, room: &'r mut Vec<f32>) -> &'r [f32]
    where
        'a: 'r,
    {
        fn convert<'r, T: Copy>(from: &[T], room: &'r mut Vec<f32>, f: impl Fn(T) -> f32) -> &'r [f32] {
            room.clear();
            room.extend(from.iter().map(|&v| f(v)));
            room
        }
        let range = start..start + length;
        match self {
            Self::F32(v) => &v[range],
            Self::F16(v) => {
                use half::slice::HalfFloatSliceExt;
                room.resize(length, 0.0);
                v[range].convert_to_f32_slice(room);
                room
            }
            Self::U8(v) => convert(&v[range], room, f32::from),
            Self::I32(v) => convert(&v[range], room, |n| n as f32),
            Self::I64(v) => convert(&v[range], room, |n| n as f32),
            Self::Bool(v) => convert(&v[range], room, |n| f32::from(u8::from(n))),
        }
    }
}
