//! Rectangles of whole pixels, and how a picture lies in one.

use framelane::frame::ImageSize;

/// A rectangle of whole pixels in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rect {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Rect {
    /// The largest rectangle of the picture's shape in the middle of a target of `width` × `height`,
    /// in whole pixels so that its edges are sharp.
    pub(crate) fn fit(picture: ImageSize, width: u32, height: u32) -> Self {
        let (w, h) = (picture.width as f64, picture.height as f64);
        let scale = (f64::from(width) / w).min(f64::from(height) / h);
        let side = |n: f64, most: u32| ((n * scale).round() as u32).clamp(1, most.max(1));
        let (w, h) = (side(w, width), side(h, height));
        Self { x: (width.saturating_sub(w)) / 2, y: height.saturating_sub(h) / 2, width: w, height: h }
    }

    pub(crate) fn middle(&self) -> (f64, f64) {
        let middle = |from: u32, length: u32| f64::from(from) + f64::from(length) / 2.0;
        (middle(self.x, self.width), middle(self.y, self.height))
    }

    /// Whether the point lies in it.
    pub(crate) fn contains(&self, x: f64, y: f64) -> bool {
        let within =
            |at: f64, from: u32, length: u32| (0.0..f64::from(length)).contains(&(at - f64::from(from)));
        within(x, self.x, self.width) && within(y, self.y, self.height)
    }
}

/// How a pane's picture lies in its tile.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Zoom {
    /// As large as the tile allows, whole.
    #[default]
    Fit,
    /// Magnified by hand: pixels keep their edges.
    At {
        /// Pixels of the display for each of the picture, 1 for its own size.
        scale: f64,
        /// The point of the picture in the middle of the tile, in its pixels from the left …
        x: f64,
        /// … and from the top.
        y: f64,
    },
}

/// Where a picture lies: in whole pixels of the target, perhaps beyond its tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Display pixels for each of the picture, at most: one pixel fills a small window.
const MOST: f64 = 256.0;
/// Or as few, so that the picture is at least so many display pixels wide and high.
const LEAST: f64 = 4.0;

impl Placed {
    /// A picture of `size` in `tile`.
    pub(crate) fn of(size: ImageSize, tile: Rect, zoom: Zoom) -> Self {
        let Self { x, y, width, height } = Self::exact(size, tile, zoom);
        // The corner lies on a whole pixel, so that a picture at its own size is exact.
        Self { x: x.round(), y: y.round(), width: width.round().max(1.0), height: height.round().max(1.0) }
    }

    fn exact(size: ImageSize, tile: Rect, zoom: Zoom) -> Self {
        match zoom {
            Zoom::Fit => {
                let inner = Rect::fit(size, tile.width, tile.height);
                let (x, y) = (tile.x + inner.x, tile.y + inner.y);
                Self { x: x.into(), y: y.into(), width: inner.width.into(), height: inner.height.into() }
            }
            Zoom::At { scale, x, y } => {
                let (middle_x, middle_y) = tile.middle();
                Self {
                    x: middle_x - x * scale,
                    y: middle_y - y * scale,
                    width: size.width as f64 * scale,
                    height: size.height as f64 * scale,
                }
            }
        }
    }

    /// The target column at this share of the width.
    pub(crate) fn column(&self, share: f32) -> f64 {
        self.x + (f64::from(share.clamp(0.0, 1.0)) * self.width).round()
    }

    /// Where target column `x` lies in the picture, from 0 to 1.
    pub(crate) fn share(&self, x: f64) -> f32 {
        (((x - self.x) / self.width) as f32).clamp(0.0, 1.0)
    }

    /// The picture's pixel under a point of the target.
    pub(crate) fn pixel(&self, size: ImageSize, x: f64, y: f64) -> Option<(usize, usize)> {
        let (u, v) = self.point(size, x.floor() + 0.5, y.floor() + 0.5);
        let inside = |at: f64, length: usize| (0.0..length as f64).contains(&at).then_some(at as usize);
        Some((inside(u, size.width)?, inside(v, size.height)?))
    }

    fn point(&self, size: ImageSize, x: f64, y: f64) -> (f64, f64) {
        ((x - self.x) / self.width * size.width as f64, (y - self.y) / self.height * size.height as f64)
    }
}

impl Zoom {
    /// The picture's own size, its middle in the tile's.
    pub(crate) fn own_size(size: ImageSize) -> Self {
        Self::At { scale: 1.0, x: size.width as f64 / 2.0, y: size.height as f64 / 2.0 }
    }

    /// `factor` times larger, so that what lies under the target's point (`x`, `y`) stays there. On the way from large to
    /// small a picture that would be smaller than its fit is fitted.
    pub(crate) fn by(self, factor: f64, size: ImageSize, tile: Rect, x: f64, y: f64) -> Self {
        let placed = Placed::exact(size, tile, self);
        let now = match self {
            Self::At { scale, .. } => scale,
            Self::Fit => placed.width / size.width as f64,
        };
        let fit = Placed::of(size, tile, Self::Fit).width / size.width as f64;
        let least = LEAST / size.width.min(size.height) as f64;
        let scale = (now * factor).clamp(least.min(1.0), MOST);
        if factor < 1.0 && scale <= fit && now >= fit {
            return Self::Fit;
        }
        let (u, v) = placed.point(size, x, y);
        let middle = tile.middle();
        Self::At { scale, x: u + (middle.0 - x) / scale, y: v + (middle.1 - y) / scale }.within(size)
    }

    /// Moved by so many pixels of the target.
    pub(crate) fn moved(self, size: ImageSize, dx: f64, dy: f64) -> Self {
        match self {
            Self::Fit => Self::Fit,
            Self::At { scale, x, y } => Self::At { scale, x: x - dx / scale, y: y - dy / scale }.within(size),
        }
    }

    /// The tile's middle never leaves the picture: a picture cannot be lost.
    fn within(self, size: ImageSize) -> Self {
        match self {
            Self::Fit => Self::Fit,
            Self::At { scale, x, y } => {
                Self::At { scale, x: x.clamp(0.0, size.width as f64), y: y.clamp(0.0, size.height as f64) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TILE: Rect = Rect { x: 100, y: 40, width: 401, height: 300 };
    const SIZE: ImageSize = ImageSize { width: 160, height: 90 };

    fn fit(w: usize, h: usize, width: u32, height: u32) -> [u32; 4] {
        let r = Rect::fit(ImageSize { width: w, height: h }, width, height);
        [r.x, r.y, r.width, r.height]
    }

    #[test]
    fn fits_whole_pixels_in_the_middle() {
        assert_eq!(fit(640, 360, 640, 360), [0, 0, 640, 360]);
        assert_eq!(fit(640, 360, 800, 800), [0, 175, 800, 450]);
        assert_eq!(fit(360, 640, 801, 640), [220, 0, 360, 640]);
        assert_eq!(fit(3, 2, 1000, 5), [496, 0, 8, 5]);
        assert_eq!(fit(10_000, 1, 100, 100), [0, 49, 100, 1]);
        assert_eq!(fit(1, 1, 1, 1), [0, 0, 1, 1]);
    }

    #[test]
    fn the_divider_goes_there_and_back() {
        let placed = Placed { x: 10.0, y: 0.0, width: 200.0, height: 100.0 };
        assert_eq!((placed.column(0.0), placed.column(0.5), placed.column(1.0)), (10.0, 110.0, 210.0));
        for column in 10..=210 {
            assert_eq!(placed.column(placed.share(f64::from(column))), f64::from(column));
        }
        assert_eq!((placed.share(-5.0), placed.share(900.0)), (0.0, 1.0));
    }

    #[test]
    fn the_pixel_under_the_cursor_stays_there() {
        let (x, y) = (350.3, 101.7);
        let mut zoom = Zoom::Fit;
        let under = |zoom| Placed::of(SIZE, TILE, zoom).pixel(SIZE, x, y).unwrap();
        let first = under(zoom);
        for _ in 0..40 {
            zoom = zoom.by(1.25, SIZE, TILE, x, y);
            // Corners lie on whole pixels of the target, so it may be a neighbour.
            let now = under(zoom);
            assert!(now.0.abs_diff(first.0) <= 1 && now.1.abs_diff(first.1) <= 1, "{now:?} at {zoom:?}");
        }
        assert!(matches!(zoom, Zoom::At { scale: MOST, .. }));
        for _ in 0..80 {
            zoom = zoom.by(0.8, SIZE, TILE, x, y);
        }
        assert_eq!(zoom, Zoom::Fit);
    }

    #[test]
    fn a_picture_cannot_be_lost() {
        let mut zoom = Zoom::own_size(SIZE);
        assert_eq!(Placed::of(SIZE, TILE, zoom), Placed { x: 221.0, y: 145.0, width: 160.0, height: 90.0 });
        zoom = zoom.moved(SIZE, 1e9, -1e9);
        assert_eq!(zoom, Zoom::At { scale: 1.0, x: 0.0, y: 90.0 });
        assert_eq!(Zoom::Fit.moved(SIZE, 5.0, 5.0), Zoom::Fit);
        let placed = Placed::of(SIZE, TILE, zoom);
        assert_eq!(placed.pixel(SIZE, placed.x, placed.y), Some((0, 0)));
        assert_eq!(placed.pixel(SIZE, placed.x - 1.0, placed.y), None);
        assert_eq!(placed.pixel(SIZE, placed.x + 159.9, placed.y + 89.9), Some((159, 89)));
    }
}
