//! Cutting a picture into overlapping tiles, and blending what came out of them.

use crate::colours::mix;
use framelane::frame::ImageSize;

/// First pixels of the tiles that cover `length` pixels, evenly spread; neighbours share at least `overlap`.
pub(crate) fn starts(length: usize, tile: usize, overlap: usize) -> Vec<usize> {
    if length <= tile {
        return vec![0];
    }
    let steps = (length - tile).div_ceil(tile - overlap);
    (0..=steps).map(|i| i * (length - tile) / steps).collect()
}

/// Grow an RGB picture to the right and below by repeating its last pixels.
pub(crate) fn extend(rgb: &[u8], size: ImageSize, to: ImageSize, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(to.bytes());
    for row in rgb.chunks_exact(size.width * 3) {
        out.extend_from_slice(row);
        for _ in size.width..to.width {
            out.extend_from_slice(&row[row.len() - 3..]);
        }
    }
    let last = out.len() - to.width * 3;
    for _ in size.height..to.height {
        out.extend_from_within(last..last + to.width * 3);
    }
}

/// Lay a tile, `tile` pixels large, into a strip of its height and `width` pixels across, its left edge at
/// `left`. Its first `shared` columns fade in over what is there.
pub(crate) fn into_strip(
    rgb: &[u8],
    tile: ImageSize,
    strip: &mut [u8],
    width: usize,
    left: usize,
    shared: usize,
) {
    for (from, to) in rgb.chunks_exact(tile.width * 3).zip(strip.chunks_exact_mut(width * 3)) {
        let to = &mut to[left * 3..][..tile.width * 3];
        let (fading, rest) = to.split_at_mut(shared * 3);
        for (x, (from, to)) in from.chunks_exact(3).zip(fading.chunks_exact_mut(3)).enumerate() {
            let weight = fade(x, shared);
            for (&from, to) in from.iter().zip(to) {
                *to = mix(*to, from, weight);
            }
        }
        rest.copy_from_slice(&from[shared * 3..]);
    }
}

/// Lay a strip, `width` pixels across, into a picture, its top edge at `top`; what goes beyond the picture is cut
/// off. Its first `shared` rows fade in over what is there.
pub(crate) fn into_picture(
    strip: &[u8],
    width: usize,
    picture: &mut [u8],
    size: ImageSize,
    top: usize,
    shared: usize,
) {
    let rows = picture.chunks_exact_mut(size.width * 3).skip(top);
    for (y, (from, to)) in strip.chunks_exact(width * 3).zip(rows).enumerate() {
        let from = &from[..to.len()];
        if y < shared {
            let weight = fade(y, shared);
            for (&from, to) in from.iter().zip(to) {
                *to = mix(*to, from, weight);
            }
        } else {
            to.copy_from_slice(from);
        }
    }
}

/// How much of the new tile is seen `at` pixels from its edge, of 256, if it shares `shared`.
fn fade(at: usize, shared: usize) -> u16 {
    ((2 * at + 1) * 128 / shared) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tiles_cover_everything_and_overlap(length in 1usize..5000, tile in 2usize..600, share in 0usize..300) {
            let overlap = share.min(tile / 2);
            let starts = starts(length, tile, overlap);
            prop_assert_eq!(starts[0], 0);
            prop_assert!(starts[starts.len() - 1] + tile >= length);
            if length >= tile {
                prop_assert_eq!(starts[starts.len() - 1] + tile, length);
            }
            for pair in starts.windows(2) {
                prop_assert!(pair[1] > pair[0] && pair[1] + overlap <= pair[0] + tile);
            }
        }
    }

    #[test]
    fn equal_tiles_leave_no_seam() {
        let tile = ImageSize { width: 8, height: 4 };
        let grey = vec![77; tile.bytes()];
        let mut strip = vec![0; 13 * 4 * 3];
        into_strip(&grey, tile, &mut strip, 13, 0, 0);
        into_strip(&grey, tile, &mut strip, 13, 5, 3);
        assert!(strip.iter().all(|&b| b == 77));
        let size = ImageSize { width: 12, height: 6 };
        let mut picture = vec![0; size.bytes()];
        into_picture(&strip, 13, &mut picture, size, 0, 0);
        into_picture(&strip, 13, &mut picture, size, 3, 1);
        assert!(picture.iter().all(|&b| b == 77));
    }

    #[test]
    fn fading_is_monotonic_and_symmetric() {
        for shared in 1..40 {
            let weights: Vec<u16> = (0..shared).map(|x| fade(x, shared)).collect();
            assert!(weights.is_sorted() && weights.iter().all(|w| *w <= 256));
            assert!(weights.iter().zip(weights.iter().rev()).all(|(a, b)| (255..=256).contains(&(a + b))));
        }
    }

    #[test]
    fn extends_by_the_last_pixels() {
        let rgb = [1, 1, 1, 2, 2, 2];
        let (size, to) = (ImageSize { width: 2, height: 1 }, ImageSize { width: 3, height: 2 });
        let mut out = Vec::new();
        extend(&rgb, size, to, &mut out);
        assert_eq!(out, [1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }
}
