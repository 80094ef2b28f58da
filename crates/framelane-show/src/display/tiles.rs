//! Panes side by side: as many columns as rows, or one more, so that wide pictures in a wide target stay large.

use crate::rect::Rect;

/// Columns and rows of so many panes.
pub(crate) fn grid(count: usize) -> (usize, usize) {
    let count = count.max(1);
    let columns = (1..=count).find(|c| c * c >= count).unwrap_or(count);
    (columns, count.div_ceil(columns))
}

/// The places of `count` panes in a target of `width` × `height`, and those that are left over: tiles of the same size
/// but for a pixel, which cover the target.
pub(super) fn all(count: usize, width: u32, height: u32) -> Vec<Rect> {
    let (columns, rows) = grid(count);
    (0..columns * rows).map(|n| tile(n, columns, rows, width, height)).collect()
}

fn tile(n: usize, columns: usize, rows: usize, width: u32, height: u32) -> Rect {
    let cut = |n: usize, of: usize, length: u32| (u64::from(length) * n as u64 / of as u64) as u32;
    let (column, row) = (n % columns, n / columns);
    let (left, right) = (cut(column, columns, width), cut(column + 1, columns, width));
    let (top, bottom) = (cut(row, rows, height), cut(row + 1, rows, height));
    Rect { x: left, y: top, width: right - left, height: bottom - top }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_target_and_do_not_overlap() {
        for count in 1..=17 {
            for (width, height) in [(640, 480), (641, 479), (17, 5), (1, 1), (3840, 2160)] {
                let tiles = all(count, width, height);
                assert!((count..2 * count).contains(&tiles.len()));
                let mut hits = vec![0u8; (width * height) as usize];
                for t in tiles {
                    for y in t.y..t.y + t.height {
                        (t.x..t.x + t.width).for_each(|x| hits[(y * width + x) as usize] += 1);
                    }
                }
                assert!(hits.iter().all(|&n| n == 1), "{count} in {width}×{height}");
            }
        }
    }

    #[test]
    fn three_wide_pictures_in_two_rows() {
        let tiles = all(3, 1920, 1080);
        let at = |n: usize| tiles[n];
        assert_eq!(tiles.len(), 4);
        assert_eq!(at(0), Rect { x: 0, y: 0, width: 960, height: 540 });
        assert_eq!(at(1), Rect { x: 960, y: 0, width: 960, height: 540 });
        assert_eq!(at(2), Rect { x: 0, y: 540, width: 960, height: 540 });
    }
}
