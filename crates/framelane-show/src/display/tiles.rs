//! Panes side by side: as many columns as rows, or one more, so that wide pictures in a wide target stay large.

use crate::view::Rect;
use framelane::frame::ImageSize;

/// The place of pane `n` of `count` in a target of `width` × `height`: tiles of the same size but for a pixel.
pub(super) fn tile(n: usize, count: usize, width: u32, height: u32) -> Rect {
    let count = count.max(1);
    let columns = (1..=count).find(|c| c * c >= count).unwrap_or(count);
    let rows = count.div_ceil(columns);
    let cut = |n: usize, of: usize, length: u32| (u64::from(length) * n as u64 / of as u64) as u32;
    let (column, row) = (n % columns, n / columns);
    let (left, right) = (cut(column, columns, width), cut(column + 1, columns, width));
    let (top, bottom) = (cut(row, rows, height), cut(row + 1, rows, height));
    Rect { x: left, y: top, width: right - left, height: bottom - top }
}

impl Rect {
    /// The largest rectangle of the picture's shape in the middle of this one.
    pub(super) fn place(self, picture: ImageSize) -> Self {
        let inner = Self::fit(picture, self.width, self.height);
        Self { x: self.x + inner.x, y: self.y + inner.y, ..inner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_target_and_do_not_overlap() {
        for count in 1..=17 {
            for (width, height) in [(640, 480), (641, 479), (17, 5), (1, 1), (3840, 2160)] {
                let mut hits = vec![0u8; (width * height) as usize];
                for n in 0..count {
                    let t = tile(n, count, width, height);
                    for y in t.y..t.y + t.height {
                        (t.x..t.x + t.width).for_each(|x| hits[(y * width + x) as usize] += 1);
                    }
                }
                assert!(hits.iter().all(|&n| n <= 1), "{count} in {width}×{height}");
                // What is left over are the last row's empty places.
                let used = hits.iter().filter(|&&n| n == 1).count();
                if count == 1 || count == 4 {
                    assert_eq!(used, hits.len());
                }
            }
        }
    }

    #[test]
    fn three_wide_pictures_in_two_rows() {
        let at = |n| tile(n, 3, 1920, 1080);
        assert_eq!(at(0), Rect { x: 0, y: 0, width: 960, height: 540 });
        assert_eq!(at(1), Rect { x: 960, y: 0, width: 960, height: 540 });
        assert_eq!(at(2), Rect { x: 0, y: 540, width: 960, height: 540 });
        let picture = ImageSize { width: 640, height: 480 };
        assert_eq!(at(2).place(picture), Rect { x: 120, y: 540, width: 720, height: 540 });
    }
}
