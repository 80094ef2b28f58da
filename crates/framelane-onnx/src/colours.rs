//! Colours of masks, classes and heat, and laying them over a picture.

use crate::overrides::OutputKind;
use crate::picture::{Map, NAN_COLOUR};

const MASK: [u8; 3] = [64, 255, 64];

/// Colours at equal steps from the least to the greatest heat: dark violet, blue, green, yellow, as light as hot.
const HEAT: [[u8; 3]; 9] = [
    [68, 1, 84],
    [71, 44, 122],
    [59, 81, 139],
    [44, 113, 142],
    [33, 144, 141],
    [39, 173, 129],
    [92, 200, 99],
    [170, 220, 50],
    [253, 231, 37],
];

/// The colour of each byte of a map.
pub(crate) struct Palette {
    kind: OutputKind,
    colours: [[u8; 3]; 256],
}

impl Palette {
    pub fn new(kind: OutputKind) -> Self {
        let mut colours = [[0; 3]; 256];
        for (byte, colour) in (0..=255u8).zip(&mut colours) {
            *colour = match kind {
                OutputKind::Heat => heat(byte),
                OutputKind::Classes => class(byte),
                OutputKind::Mask | OutputKind::Image => MASK,
            };
        }
        Self { kind, colours }
    }

    /// Show a map of the picture's size over the picture, in `out` (both height × width × 3). A mask covers at
    /// most half, a class half, class 0 nothing; heat covers all.
    pub fn paint(&self, map: &Map, picture: &[u8], out: &mut [u8]) {
        let pixels = picture.chunks_exact(3).zip(out.chunks_exact_mut(3)).zip(&map.bytes);
        match self.kind {
            OutputKind::Heat => {
                for ((_, out), &byte) in pixels {
                    out.copy_from_slice(&self.colours[usize::from(byte)]);
                }
            }
            OutputKind::Classes => {
                for ((from, out), &class) in pixels {
                    let weight = if class == 0 { 0 } else { 128 };
                    blend(from, self.colours[usize::from(class)], weight, out);
                }
            }
            OutputKind::Mask | OutputKind::Image => {
                for ((from, out), &strength) in pixels {
                    blend(from, MASK, u16::from(strength).div_ceil(2), out);
                }
            }
        }
        for (out, &nan) in out.chunks_exact_mut(3).zip(&map.nan) {
            if nan != 0 {
                out.copy_from_slice(&NAN_COLOUR);
            }
        }
    }
}

/// `weight` / 256 of the colour, and the rest of the pixel.
fn blend(from: &[u8], colour: [u8; 3], weight: u16, out: &mut [u8]) {
    for ((&from, colour), out) in from.iter().zip(colour).zip(out) {
        *out = mix(from, colour, weight);
    }
}

/// `weight` / 256 of `new`, and the rest of `old`, rounded. `weight` is at most 256.
pub(crate) fn mix(old: u8, new: u8, weight: u16) -> u8 {
    let sum = u32::from(old) * u32::from(256 - weight) + u32::from(new) * u32::from(weight);
    ((sum + 128) >> 8) as u8
}

/// The colours that segmentation data sets use: bits of the class number dealt out to red, green and blue, the
/// lowest ones as the strongest.
fn class(byte: u8) -> [u8; 3] {
    let mut colour = [0; 3];
    for bit in 0..8 {
        colour[bit % 3] |= (byte >> bit & 1) << (7 - bit / 3);
    }
    colour
}

fn heat(byte: u8) -> [u8; 3] {
    let steps = HEAT.len() - 1;
    let at = usize::from(byte) * steps;
    let (step, rest) = (at / 255, at % 255);
    let [low, high] = [HEAT[step], HEAT[(step + 1).min(steps)]];
    let channel = |c: usize| {
        let [l, h] = [usize::from(low[c]), usize::from(high[c])];
        ((l * (255 - rest) + h * rest + 127) / 255) as u8
    };
    [channel(0), channel(1), channel(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_known_colours() {
        assert_eq!(
            [0, 1, 2, 3, 15, 20].map(class),
            [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [192, 128, 128], [0, 64, 128]]
        );
    }

    #[test]
    fn heat_begins_and_ends_right() {
        assert_eq!((heat(0), heat(255)), (HEAT[0], HEAT[8]));
        // Rounding may darken a step by the least.
        let light = |c: [u8; 3]| 3 * i32::from(c[0]) + 6 * i32::from(c[1]) + i32::from(c[2]);
        assert!((1..=255).all(|b| light(heat(b)) > light(heat(b - 1)) - 6), "hotter is never darker");
    }

    #[test]
    fn maps_cover_as_they_should() {
        let picture = [100, 100, 100].repeat(4);
        let mut out = vec![0; 12];
        let map = Map { bytes: vec![0, 1, 255, 0], nan: vec![0, 0, 0, 255] };
        Palette::new(OutputKind::Mask).paint(&map, &picture, &mut out);
        assert_eq!(out, [100, 100, 100, 100, 101, 100, 82, 178, 82, 255, 0, 255]);
        Palette::new(OutputKind::Classes).paint(&map, &picture, &mut out);
        assert_eq!(out[..6], [100, 100, 100, 114, 50, 50]);
        Palette::new(OutputKind::Heat).paint(&map, &picture, &mut out);
        assert_eq!(out[..3], HEAT[0]);
        assert_eq!(out[6..], [253, 231, 37, 255, 0, 255]);
    }
}
