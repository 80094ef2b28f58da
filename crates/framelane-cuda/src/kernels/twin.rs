//! The kernels' twins on the host: the same bits, bit for bit. For tests, and for machines without a GPU.

pub use super::picture_twin::{nv12_to_picture, to_picture};

use super::{Affine, Float, Shape, Strides, ToBytes, ToFloats};
use crate::error::Result;
use crate::memory::check_range;

/// What [`crate::Stream::to_floats`] does, here and now.
///
/// # Errors
/// [`crate::Kind::Argument`] for shapes or strides that make no sense or lie outside the memory.
pub fn to_floats(how: &ToFloats, from: &[u8], to: &mut [u8]) -> Result<()> {
    let extents = how.extents()?;
    check_range("convert", &(0..extents.from), from.len())?;
    check_range("convert", &(0..extents.to), to.len())?;
    let size = how.float.size();
    each(&how.shape, how.shape.channels, &how.from, &how.to, |channel, source, target| {
        let v = step(f32::from(from[source]), &how.affine, channel);
        let at = target * size;
        match how.float {
            Float::F32 => to[at..at + 4].copy_from_slice(&v.to_le_bytes()),
            Float::F16 => to[at..at + 2].copy_from_slice(&f16_bits(v).to_le_bytes()),
            Float::BF16 => to[at..at + 2].copy_from_slice(&bf16_bits(v).to_le_bytes()),
        }
    });
    Ok(())
}

/// What [`crate::Stream::to_bytes`] does, here and now.
///
/// # Errors
/// As [`to_floats`].
pub fn to_bytes(how: &ToBytes, from: &[u8], to: &mut [u8]) -> Result<()> {
    let extents = how.extents()?;
    check_range("convert", &(0..extents.from), from.len())?;
    check_range("convert", &(0..extents.to), to.len())?;
    let size = how.float.size();
    each(&how.shape, how.written, &how.from, &how.to, |channel, source, target| {
        to[target] = 255;
        if channel < how.shape.channels {
            let at = source * size;
            let half = u16::from_le_bytes([from[at], from[at + 1]]);
            let v = match how.float {
                Float::F32 => f32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]),
                Float::F16 => f16_value(half),
                Float::BF16 => f32::from_bits(u32::from(half) << 16),
            };
            // NaN stays NaN up to the last step, which makes it 0.
            to[target] = step(v, &how.affine, channel).clamp(0.0, 255.0).round_ties_even() as u8;
        }
    });
    Ok(())
}

fn each(
    shape: &Shape,
    channels: usize,
    from: &Strides,
    to: &Strides,
    mut element: impl FnMut(usize, usize, usize),
) {
    for image in 0..shape.images {
        for row in 0..shape.height {
            for pixel in 0..shape.width {
                for channel in 0..channels {
                    let at =
                        |s: &Strides| image * s.image + row * s.row + pixel * s.pixel + channel * s.channel;
                    element(channel, at(from), at(to));
                }
            }
        }
    }
}

fn step(v: f32, affine: &Affine, channel: usize) -> f32 {
    let v = v * affine.scale[channel] + affine.bias[channel];
    if v.is_nan() { f32::from_bits(0x7fff_ffff) } else { v }
}

/// Half precision: to nearest, ties to even; too large is infinite; NaN is 0x7fff.
pub fn f16_bits(v: f32) -> u16 {
    if v.is_nan() {
        return 0x7fff;
    }
    let bits = v.to_bits();
    let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
    // From 65520 on, halfway to the power after the largest number, it is infinite.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let rounded = if magnitude < 0x3880_0000 {
        // Subnormal: a whole number of 2^-24, and the addition rounds to it.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let even = 0xfff + (magnitude >> 13 & 1);
        (magnitude + even - (112 << 23)) >> 13
    };
    sign | rounded as u16
}

/// The upper half of an f32: to nearest, ties to even; NaN is 0x7fff.
pub fn bf16_bits(v: f32) -> u16 {
    if v.is_nan() {
        return 0x7fff;
    }
    let bits = v.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The exact value of a half precision number.
pub fn f16_value(half: u16) -> f32 {
    let (sign, exponent, fraction) =
        (u32::from(half & 0x8000) << 16, half >> 10 & 0x1f, u32::from(half & 0x3ff));
    let magnitude = match exponent {
        0 => (fraction as f32 * (1.0 / 16_777_216.0)).to_bits(),
        31 => 0x7f80_0000 | fraction << 13,
        _ => (u32::from(exponent) + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// SplitMix64's output for one state (Steele, Lea and Flood 2014).
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A sum that tells bytes and their places; words of 8 bytes can be added up in any order.
pub fn checksum(data: &[u8]) -> u64 {
    data.chunks(8).zip(0u64..).fold(0, |sum, (chunk, i)| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(mix(u64::from_le_bytes(word) ^ mix(i)))
    })
}

/// Bytes that look random and depend on `seed`.
pub fn pattern(data: &mut [u8], seed: u64) {
    for (chunk, i) in data.chunks_mut(8).zip(0u64..) {
        let word = mix(seed.wrapping_add(i)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_there_and_back() {
        for half in 0..=u16::MAX {
            let v = f16_value(half);
            if v.is_nan() {
                assert_eq!(f16_bits(v), 0x7fff);
            } else {
                assert_eq!(f16_bits(v), half, "{v}");
            }
        }
    }

    /// Between each two neighbours: the middle goes to the even one, and beside the middle to the nearer.
    #[test]
    fn halves_are_rounded_to_nearest_even() {
        for half in 0..0x7bffu16 {
            let (low, high) = (f16_value(half), f16_value(half + 1));
            let middle = f32::midpoint(low, high);
            assert_eq!(f16_bits(middle), if half % 2 == 0 { half } else { half + 1 });
            assert_eq!(f16_bits(middle.next_down()), half);
            assert_eq!(f16_bits(middle.next_up()), half + 1);
            assert_eq!(f16_bits(-middle), f16_bits(middle) | 0x8000);
        }
        assert_eq!(f16_bits(65519.996), 0x7bff);
        assert_eq!(f16_bits(65520.0), 0x7c00);
        assert_eq!(f16_bits(f32::NEG_INFINITY), 0xfc00);
    }

    #[test]
    fn brain_floats_are_rounded_to_nearest_even() {
        assert_eq!(bf16_bits(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(bf16_bits(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(bf16_bits(f32::from_bits(0x3f80_8001)), 0x3f81);
        assert_eq!(bf16_bits(f32::MAX), 0x7f80);
        assert_eq!(bf16_bits(-0.0), 0x8000);
        assert_eq!(bf16_bits(f32::NAN), 0x7fff);
    }

    #[test]
    fn bytes_are_clamped_and_rounded() {
        let shape = Shape { images: 1, height: 1, width: 9, channels: 1 };
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.5, 1.5, 254.5, 255.4, 1e-40];
        let from: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let strides = Strides::hwc(shape);
        let how = ToBytes {
            shape,
            from: strides,
            to: strides,
            float: Float::F32,
            written: 1,
            affine: Affine::SAME,
        };
        let mut to = [7; 9];
        to_bytes(&how, &from, &mut to).unwrap();
        assert_eq!(to, [0, 255, 0, 0, 0, 2, 254, 255, 0]);
    }

    #[test]
    fn targets_that_fold_onto_themselves_are_refused() {
        let shape = Shape { images: 1, height: 2, width: 2, channels: 3 };
        let (from, good) = (Strides::hwc(shape), Strides::chw(shape));
        let mut how = ToFloats { shape, from, to: good, float: Float::F32, affine: Affine::SAME };
        let (bytes, mut floats) = ([0; 12], [0; 48]);
        to_floats(&how, &bytes, &mut floats).unwrap();
        how.to.row = 1;
        assert_eq!(to_floats(&how, &bytes, &mut floats).unwrap_err().kind(), crate::Kind::Argument);
        how.to = Strides { row: usize::MAX / 2, ..good };
        assert_eq!(to_floats(&how, &bytes, &mut floats).unwrap_err().kind(), crate::Kind::Argument);
    }

    #[test]
    fn a_checksum_sees_swapped_words_and_the_length() {
        let mut data = vec![0; 100];
        pattern(&mut data, 1);
        let sum = checksum(&data);
        data.swap(3, 60);
        assert_ne!(checksum(&data), sum);
        data.swap(3, 60);
        assert_eq!(checksum(&data), sum);
        assert_ne!(checksum(&data[..99]), sum);
    }
}
