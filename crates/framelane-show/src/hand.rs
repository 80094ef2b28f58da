//! What the mouse does: which pane and pixel it is over, the divider it drags, the picture it moves and magnifies.

use crate::display::Display;
use crate::overlay::Divider;
use crate::rect::{Rect, Zoom};
use framelane::Result;
use winit::window::CursorIcon;

/// Points around the divider where the mouse takes hold of it.
const GRIP: f64 = 12.0;

#[derive(Debug, Default)]
pub(crate) struct Hand {
    /// Where the divider is on each picture, if it is on.
    pub(crate) split: Option<f32>,
    /// Whether the pixel under the mouse is told.
    pub(crate) value: bool,
    /// In pixels of the target; `None`: outside.
    cursor: Option<(f64, f64)>,
    held: Option<Held>,
}

/// One pixel of a pane's picture, or of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pixel {
    pub(crate) pane: usize,
    pub(crate) before: bool,
    pub(crate) x: usize,
    pub(crate) y: usize,
}

/// What was taken hold of.
#[derive(Debug, Clone, Copy)]
enum Held {
    /// The divider of this pane.
    Divider(usize),
    /// The picture of this pane, at this point.
    Picture(usize, f64, f64),
}

impl Hand {
    fn tile(&self, display: &Display, width: u32, height: u32) -> Option<(usize, Rect)> {
        let (x, y) = self.cursor?;
        display.tiles(width, height).find(|(_, tile)| tile.contains(x, y))
    }

    /// The pane under the mouse.
    pub(crate) fn pane(&self, display: &Display, width: u32, height: u32) -> Option<usize> {
        self.tile(display, width, height).map(|(pane, _)| pane)
    }

    /// The pane under the mouse, and where the mouse is; or, with the mouse elsewhere, every pane and its middle.
    fn targets(&self, display: &Display, width: u32, height: u32) -> Vec<(usize, Rect, f64, f64)> {
        match (self.tile(display, width, height), self.cursor) {
            (Some((pane, tile)), Some((x, y))) => vec![(pane, tile, x, y)],
            _ => display
                .tiles(width, height)
                .map(|(pane, tile)| {
                    let (x, y) = tile.middle();
                    (pane, tile, x, y)
                })
                .collect(),
        }
    }

    /// Larger or smaller, around the mouse.
    pub(crate) fn zoom(&self, display: &mut Display, width: u32, height: u32, factor: f64) -> Result<()> {
        for (pane, tile, x, y) in self.targets(display, width, height) {
            if let Some((size, _)) = display.sizes(pane) {
                display.set_zoom(pane, display.zoom(pane).by(factor, size, tile, x, y))?;
            }
        }
        Ok(())
    }

    /// All of the picture.
    pub(crate) fn fit(&self, display: &mut Display, width: u32, height: u32) -> Result<()> {
        let targets = self.targets(display, width, height);
        targets.into_iter().try_for_each(|(pane, ..)| display.set_zoom(pane, Zoom::Fit))
    }

    /// The picture at its own size.
    pub(crate) fn own_size(&self, display: &mut Display, width: u32, height: u32) -> Result<()> {
        for (pane, ..) in self.targets(display, width, height) {
            if let Some((size, _)) = display.sizes(pane) {
                display.set_zoom(pane, Zoom::own_size(size))?;
            }
        }
        Ok(())
    }

    /// The dividers of the panes that have something on both sides.
    pub(crate) fn dividers(&self, display: &Display, width: u32, height: u32) -> Vec<Divider> {
        let Some(split) = self.split else { return Vec::new() };
        let of = |(pane, tile)| {
            let (after, before) = display.sizes(pane)?;
            let placed = display.placed(pane, tile)?;
            Some(Divider { tile, x: placed.column(split), placed, before: before?, after })
        };
        display.tiles(width, height).filter_map(of).collect()
    }

    /// The pixel under the mouse, and where it lies in the target (left, top, width, height).
    pub(crate) fn pixel(&self, display: &Display, width: u32, height: u32) -> Option<(Pixel, [f64; 4])> {
        let (pane, tile) = self.tile(display, width, height)?;
        let ((x, y), (after, before)) = (self.cursor?, display.sizes(pane)?);
        let placed = display.placed(pane, tile)?;
        // Left of the divider it is one of the picture before.
        let before = before.filter(|_| self.split.is_some_and(|split| x.floor() < placed.column(split)));
        let size = before.unwrap_or(after);
        let (column, row) = placed.pixel(size, x, y)?;
        let (w, h) = (placed.width / size.width as f64, placed.height / size.height as f64);
        let pixel = Pixel { pane, before: before.is_some(), x: column, y: row };
        Some((pixel, [placed.x + column as f64 * w, placed.y + row as f64 * h, w, h]))
    }

    /// The pane whose divider is within reach.
    fn divider(&self, display: &Display, width: u32, height: u32, scale: f64) -> Option<usize> {
        let (pane, tile) = self.tile(display, width, height)?;
        let ((x, _), split) = (self.cursor?, self.split?);
        display.sizes(pane)?.1?;
        let column = display.placed(pane, tile)?.column(split);
        ((column - x).abs() <= GRIP * scale).then_some(pane)
    }

    /// The mouse is at (`x`, `y`). What it looks like, and whether something is to be drawn for it.
    pub(crate) fn moved(
        &mut self,
        display: &mut Display,
        width: u32,
        height: u32,
        x: f64,
        y: f64,
        scale: f64,
    ) -> Result<(CursorIcon, bool)> {
        self.cursor = Some((x, y));
        match self.held {
            Some(Held::Divider(pane)) => {
                let tile = display.tiles(width, height).find(|&(n, _)| n == pane);
                if let Some(placed) = tile.and_then(|(_, tile)| display.placed(pane, tile)) {
                    self.split = Some(placed.share(x));
                }
                Ok((CursorIcon::EwResize, true))
            }
            Some(Held::Picture(pane, from_x, from_y)) => {
                if let Some((size, _)) = display.sizes(pane) {
                    display.set_zoom(pane, display.zoom(pane).moved(size, x - from_x, y - from_y))?;
                }
                self.held = Some(Held::Picture(pane, x, y));
                Ok((CursorIcon::Grabbing, true))
            }
            None => {
                let over = self.divider(display, width, height, scale).is_some();
                let icon = match (over, self.value) {
                    (true, _) => CursorIcon::EwResize,
                    (false, true) => CursorIcon::Crosshair,
                    (false, false) => CursorIcon::Default,
                };
                Ok((icon, self.value))
            }
        }
    }

    /// The mouse is outside.
    pub(crate) fn left(&mut self) {
        if self.held.is_none() {
            self.cursor = None;
        }
    }

    pub(crate) fn pressed(&mut self, display: &Display, width: u32, height: u32, scale: f64) {
        let picture = || {
            let (pane, _) = self.tile(display, width, height)?;
            let (x, y) = self.cursor.filter(|_| display.zoom(pane) != Zoom::Fit)?;
            Some(Held::Picture(pane, x, y))
        };
        self.held = self.divider(display, width, height, scale).map(Held::Divider).or_else(picture);
    }

    pub(crate) fn released(&mut self) {
        self.held = None;
    }
}
