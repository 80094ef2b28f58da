//! What is written over the picture: small, at the edges, and only what is asked for.

use crate::gpu::Gpu;
use crate::keys::HELP;
use crate::rect::{Placed, Rect};
use egui::{Align2, Color32, FontId, Painter, Pos2, Stroke, pos2, vec2};
use egui_wgpu::{RendererOptions, ScreenDescriptor};
use framelane::frame::ImageSize;

const TEXT: Color32 = Color32::from_rgb(232, 234, 240);
const DIM: Color32 = Color32::from_rgb(176, 181, 192);
const ACCENT: Color32 = Color32::from_rgb(255, 196, 92);
/// Between panes.
const BORDER: Color32 = Color32::from_rgb(66, 70, 79);
const PLATE: Color32 = Color32::from_rgba_premultiplied(12, 13, 16, 208);
/// Points between an edge and what lies at it.
const MARGIN: f32 = 10.0;
/// Points between a plate's edge and its text.
const PADDING: egui::Vec2 = vec2(9.0, 5.0);
const SIZE: f32 = 13.0;
/// Points between the parts of a plate.
const GAP: f32 = 14.0;

/// A pane's line of numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Info {
    /// The pane's part of the target.
    pub(crate) tile: Rect,
    pub(crate) name: String,
    pub(crate) fps: f64,
    pub(crate) age_ms: f64,
    pub(crate) dropped: u64,
    /// `paused`, or why nothing follows, if so.
    pub(crate) state: Option<String>,
}

/// A pane's divider, and what lies on its two sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Divider {
    /// The pane's part of the target.
    pub(crate) tile: Rect,
    /// Target column.
    pub(crate) x: f64,
    /// Where the picture lies in the target.
    pub(crate) placed: Placed,
    pub(crate) before: ImageSize,
    pub(crate) after: ImageSize,
}

/// One pixel in numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    /// The pane's part of the target.
    pub(crate) tile: Rect,
    /// Where the pixel lies in the target: left, top, width, height.
    pub(crate) pixel: [f64; 4],
    pub(crate) rgb: [u8; 3],
    pub(crate) text: String,
}

/// Everything that may be written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Content {
    /// The panes' parts of the target.
    pub(crate) tiles: Vec<Rect>,
    pub(crate) infos: Vec<Info>,
    pub(crate) dividers: Vec<Divider>,
    pub(crate) value: Option<Value>,
    /// What stands in the middle of a window that has no picture yet.
    pub(crate) notice: Option<String>,
    /// The keys, and below them how frames get to the screen.
    pub(crate) help: Option<String>,
    /// A passing message, and the part of the target that it is about.
    pub(crate) message: Option<(String, Rect)>,
}

pub(crate) struct Overlay {
    context: egui::Context,
    renderer: egui_wgpu::Renderer,
    max_side: u32,
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Overlay")
    }
}

/// Shapes made ready for one pass.
pub(crate) struct Prepared {
    primitives: Vec<egui::ClippedPrimitive>,
    screen: ScreenDescriptor,
    commands: Vec<wgpu::CommandBuffer>,
    free: Vec<egui::TextureId>,
}

impl Overlay {
    pub(crate) fn new(gpu: &Gpu, format: wgpu::TextureFormat) -> Self {
        let renderer = egui_wgpu::Renderer::new(&gpu.device, format, RendererOptions::PREDICTABLE);
        Self { context: egui::Context::default(), renderer, max_side: gpu.max_side }
    }

    /// Lay `content` out for a target of `size` pixels, `scale` of them a point.
    pub(crate) fn prepare(
        &mut self,
        gpu: &Gpu,
        encoder: &mut wgpu::CommandEncoder,
        content: &Content,
        size: [u32; 2],
        scale: f32,
    ) -> Prepared {
        let points = vec2(size[0] as f32, size[1] as f32) / scale;
        let screen_rect = egui::Rect::from_min_size(Pos2::ZERO, points);
        let mut input = egui::RawInput {
            screen_rect: Some(screen_rect),
            max_texture_side: Some(self.max_side as usize),
            ..egui::RawInput::default()
        };
        input.viewports.entry(egui::ViewportId::ROOT).or_default().native_pixels_per_point = Some(scale);
        self.context.begin_pass(input);
        let painter = self.context.layer_painter(egui::LayerId::background());
        paint(&painter, screen_rect, scale, content);
        let output = self.context.end_pass();

        let mut textures = output.textures_delta;
        for (id, deltas) in textures.set.drain() {
            for delta in deltas {
                self.renderer.update_texture(&gpu.device, &gpu.queue, id, &delta);
            }
        }
        let free = textures.free.drain().collect();
        let primitives = self.context.tessellate(output.shapes, output.pixels_per_point);
        let screen = ScreenDescriptor { size_in_pixels: size, pixels_per_point: output.pixels_per_point };
        let commands = self.renderer.update_buffers(&gpu.device, &gpu.queue, encoder, &primitives, &screen);
        Prepared { primitives, screen, commands, free }
    }

    /// Draw what was prepared. The commands returned must be submitted before the pass.
    pub(crate) fn draw(
        &mut self,
        pass: wgpu::RenderPass<'_>,
        prepared: Prepared,
    ) -> Vec<wgpu::CommandBuffer> {
        let mut pass = pass.forget_lifetime();
        self.renderer.render(&mut pass, &prepared.primitives, &prepared.screen);
        drop(pass);
        for id in prepared.free {
            self.renderer.free_texture(&id);
        }
        prepared.commands
    }
}

fn paint(painter: &Painter, screen: egui::Rect, scale: f32, content: &Content) {
    let in_points = |tile: Rect| {
        let points = |n: u32| n as f32 / scale;
        egui::Rect::from_min_size(
            pos2(points(tile.x), points(tile.y)),
            vec2(points(tile.width), points(tile.height)),
        )
    };
    paint_borders(painter, &content.tiles, in_points);
    for divider in &content.dividers {
        let tile = in_points(divider.tile);
        paint_divider(&painter.with_clip_rect(tile), tile, scale, divider);
    }
    if let Some(value) = &content.value {
        paint_value(painter, screen, in_points(value.tile), scale, value);
    }
    // Messages stand below their pane's numbers: the bottom belongs to the labels of the divider.
    let message = content.message.as_ref().map(|(text, tile)| (text, in_points(*tile)));
    let mut below = message.map_or(0.0, |(_, tile)| tile.top() + MARGIN);
    for info in &content.infos {
        let tile = in_points(info.tile);
        let painter = painter.with_clip_rect(tile);
        let parts = info_parts(&painter, info, tile.width() - 2.0 * MARGIN);
        if parts.is_empty() {
            continue;
        }
        let plate = plate(&painter, tile.left_top() + vec2(MARGIN, MARGIN), Align2::LEFT_TOP, &parts);
        if message.is_some_and(|(_, about)| about.left_top() == tile.left_top()) {
            below = plate.bottom() + MARGIN / 2.0;
        }
    }
    if let Some(notice) = &content.notice {
        let parts = [(shortened(notice, 90), TEXT)];
        plate(painter, screen.center(), Align2::CENTER_CENTER, &parts);
    }
    if let Some((text, tile)) = message {
        let at = pos2(tile.left() + MARGIN, below);
        let parts = [90, 60, 40, 24, 12].map(|most| vec![(shortened(text, most), TEXT)]);
        let fits = |parts: &Vec<_>| width(painter, parts) <= tile.width() - 2.0 * MARGIN;
        // One that cannot be read in its tile may lie over others.
        let [.., readable, _, _] = &parts;
        let parts = parts.iter().find(|parts| fits(parts)).unwrap_or(readable);
        plate_within(painter, screen, at, Align2::LEFT_TOP, parts);
    }
    if let Some(path) = &content.help {
        paint_help(painter, screen, path);
    }
}

/// What tells panes apart whose pictures are alike at their edges.
fn paint_borders(painter: &Painter, tiles: &[Rect], in_points: impl Fn(Rect) -> egui::Rect) {
    let stroke = Stroke::new(1.0, BORDER);
    for tile in tiles {
        let rect = in_points(*tile);
        if tile.x > 0 {
            painter.vline(rect.left(), rect.y_range(), stroke);
        }
        if tile.y > 0 {
            painter.hline(rect.x_range(), rect.top(), stroke);
        }
    }
}

/// As much as fits into `room`: the name and the state stay longest. Nothing if not even a few letters fit.
fn info_parts(painter: &Painter, info: &Info, room: f32) -> Vec<(String, Color32)> {
    let all = [
        // No rate can be told of one frame, or of a stream that has gone silent.
        (if info.fps > 0.0 { format!("{:.1} fps", info.fps) } else { "– fps".into() }, DIM),
        (format!("{} old", duration(info.age_ms)), DIM),
        (format!("{} dropped", info.dropped), if info.dropped == 0 { DIM } else { ACCENT }),
    ];
    let part = |name: usize, numbers: usize, state: usize| {
        let name = (name > 0).then(|| (shortened(&info.name, name), TEXT));
        let state = info.state.as_ref().filter(|_| state > 0).map(|text| (begun(text, state), ACCENT));
        name.into_iter().chain(all.iter().take(numbers).cloned()).chain(state).collect::<Vec<_>>()
    };
    let whole = [(48, 3), (24, 3), (24, 2), (24, 1), (16, 1), (16, 0)].map(|(name, n)| (name, n, usize::MAX));
    let shorter =
        [16, 8].into_iter().flat_map(|name| (12..=60).rev().step_by(6).map(move |state| (name, 0, state)));
    let shortest = [(8, 0, 6), (5, 0, 6), (8, 0, 0), (5, 0, 0)];
    let fits = |parts: &Vec<_>| !parts.is_empty() && width(painter, parts) <= room;
    whole
        .into_iter()
        .chain(shorter)
        .chain(shortest)
        .map(|(name, n, state)| part(name, n, state))
        .find(fits)
        .unwrap_or_default()
}

/// The beginning of a text that is longer than `most` characters.
fn begun(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) if text[end..].chars().count() > 1 => format!("{}…", text[..end].trim_end()),
        _ => text.to_owned(),
    }
}

/// Of a plate with these parts.
fn width(painter: &Painter, parts: &[(String, Color32)]) -> f32 {
    let one = |text: &String| painter.layout_no_wrap(text.clone(), FontId::proportional(SIZE), TEXT).size().x;
    parts.iter().map(|(text, _)| one(text) + GAP).sum::<f32>() - GAP + 2.0 * PADDING.x
}

fn duration(ms: f64) -> String {
    if ms < 9.95 {
        format!("{ms:.1} ms")
    } else if ms < 9_950.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.0} s", ms / 1e3)
    }
}

/// The name with its middle left out if it is longer than `most` characters: both ends tell.
fn shortened(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    name.chars().take(head).chain(['…']).chain(name.chars().skip(length - tail)).collect()
}

/// Write `parts` side by side on a plate that lies at `at` by its `anchor`.
fn plate(painter: &Painter, at: Pos2, anchor: Align2, parts: &[(String, Color32)]) -> egui::Rect {
    plate_within(painter, egui::Rect::EVERYTHING, at, anchor, parts)
}

/// As [`plate`], moved so that it lies within `room`; one that has no room there shows its beginning.
fn plate_within(
    painter: &Painter,
    room: egui::Rect,
    at: Pos2,
    anchor: Align2,
    parts: &[(String, Color32)],
) -> egui::Rect {
    let galleys: Vec<_> = parts
        .iter()
        .map(|(text, color)| painter.layout_no_wrap(text.clone(), FontId::proportional(SIZE), *color))
        .collect();
    let gaps = GAP * galleys.len().saturating_sub(1) as f32;
    let width = galleys.iter().map(|g| g.size().x).sum::<f32>() + gaps;
    let height = galleys.iter().map(|g| g.size().y).fold(0.0, f32::max);
    let rect = anchor.anchor_size(at, vec2(width, height) + 2.0 * PADDING);
    let last = (room.max - rect.size()).max(room.min);
    let rect = rect.translate(rect.min.clamp(room.min, last) - rect.min);
    painter.rect_filled(rect, 6.0, PLATE);
    let mut pen = rect.min + PADDING;
    for galley in galleys {
        let advance = galley.size().x + GAP;
        painter.galley(pen, galley, TEXT);
        pen.x += advance;
    }
    rect
}

fn paint_divider(painter: &Painter, tile: egui::Rect, scale: f32, divider: &Divider) {
    let to_points = |n: f64| (n / f64::from(scale)) as f32;
    let (x, placed) = (to_points(divider.x), divider.placed);
    // What lies beyond the tile is not seen, nor are the marks to lie there.
    let (top, bottom) =
        (to_points(placed.y).max(tile.top()), to_points(placed.y + placed.height).min(tile.bottom()));
    let (left, right) =
        (to_points(placed.x).max(tile.left()), to_points(placed.x + placed.width).min(tile.right()));

    let line =
        |width: f32, color| painter.line_segment([pos2(x, top), pos2(x, bottom)], Stroke::new(width, color));
    line(4.0, Color32::from_black_alpha(90));
    line(1.5, Color32::from_white_alpha(235));
    let middle = pos2(x, (top + bottom) / 2.0);
    painter.circle(
        middle,
        11.0,
        Color32::from_black_alpha(215),
        Stroke::new(1.5, Color32::from_white_alpha(235)),
    );
    for side in [-1.0, 1.0] {
        let tip = middle + vec2(side * 7.0, 0.0);
        let back = vec2(side * -3.5, 3.5);
        painter.line(
            vec![tip + back, tip, tip + vec2(back.x, -back.y)],
            Stroke::new(1.5, Color32::from_white_alpha(235)),
        );
    }

    // A label that has no room on its side is left out: it would lie over the other side. Beyond the tile the divider is
    // at its edge.
    let x = x.clamp(left.min(right), right);
    let has_height = bottom - top > 60.0;
    let label = |at: Pos2, anchor, word: &str, size: ImageSize, room: f32| {
        let parts = [(word.to_owned(), TEXT), (size.to_string(), DIM)];
        if room > 150.0 && has_height {
            plate(painter, at, anchor, &parts);
        }
    };
    let y = bottom - MARGIN;
    label(pos2(x - MARGIN, y), Align2::RIGHT_BOTTOM, "before", divider.before, x - left);
    label(pos2(x + MARGIN, y), Align2::LEFT_BOTTOM, "after", divider.after, right - x);
}

fn paint_value(painter: &Painter, screen: egui::Rect, tile: egui::Rect, scale: f32, value: &Value) {
    let parts = [("    ".into(), TEXT), (value.text.clone(), TEXT)];
    // In its tile, unless that is too narrow for it to be read.
    let tile = if width(painter, &parts) <= tile.width() { tile } else { screen };
    let [x, y, width, height] = value.pixel.map(|n| (n / f64::from(scale)) as f32);
    let pixel = egui::Rect::from_min_size(pos2(x, y), vec2(width, height));
    if width >= 4.0 {
        let outline = |grow: f32, color| {
            painter.rect_stroke(pixel.expand(grow), 0.0, Stroke::new(1.0, color), egui::StrokeKind::Outside);
        };
        outline(0.0, Color32::from_white_alpha(235));
        outline(1.0, Color32::from_black_alpha(200));
    }
    // Beside the pixel, on the side that has room.
    let right = pixel.right() + 200.0 < tile.right();
    let below = pixel.bottom() + 60.0 < tile.bottom();
    let x = if right { pixel.right() + MARGIN } else { pixel.left() - MARGIN };
    let y = if below { pixel.bottom() + MARGIN } else { pixel.top() - MARGIN };
    let anchor = match (right, below) {
        (true, true) => Align2::LEFT_TOP,
        (true, false) => Align2::LEFT_BOTTOM,
        (false, true) => Align2::RIGHT_TOP,
        (false, false) => Align2::RIGHT_BOTTOM,
    };
    let [r, g, b] = value.rgb;
    let rect = plate_within(painter, tile, pos2(x, y), anchor, &parts);
    let patch = egui::Rect::from_min_size(rect.min + PADDING, vec2(12.0, rect.height() - 2.0 * PADDING.y));
    painter.rect_filled(patch, 2.0, Color32::from_rgb(r, g, b));
}

fn paint_help(painter: &Painter, screen: egui::Rect, path: &str) {
    const ROW: f32 = 23.0;
    const KEYS: f32 = 84.0;
    const WIDTH: f32 = 310.0;
    let height = ROW * (HELP.len() as f32 + 1.6) + 2.0 * 14.0;
    // A window smaller than the panel shows it smaller.
    let shrink = ((screen.width() - 8.0) / WIDTH).min((screen.height() - 8.0) / height).clamp(0.3, 1.0);
    let (row, keys) = (ROW * shrink, KEYS * shrink);
    let rect = egui::Rect::from_center_size(screen.center(), vec2(WIDTH, height) * shrink);
    painter.rect_filled(rect, 10.0 * shrink, Color32::from_rgba_premultiplied(10, 11, 14, 228));
    let font = |size: f32| FontId::proportional(size * shrink);
    let mut y = rect.top() + 14.0 * shrink + row / 2.0;
    for (key, what) in HELP {
        let x = rect.left() + 14.0 * shrink + keys;
        painter.text(pos2(x, y), Align2::RIGHT_CENTER, key, font(14.0), ACCENT);
        painter.text(pos2(x + 16.0 * shrink, y), Align2::LEFT_CENTER, what, font(14.0), TEXT);
        y += row;
    }
    let path = shortened(path, 48);
    painter.text(pos2(rect.center().x, y + 0.5 * row), Align2::CENTER_CENTER, path, font(12.0), DIM);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blit::{Painter, Painting};
    use crate::display::{Display, PaneOptions, Picture};
    use crate::gpu::FORMAT;
    use crate::readback::Readback;
    use framelane::TensorView;
    use framelane::device::{Device, Memory};
    use framelane::frame::FrameMeta;

    const SIZE: ImageSize = ImageSize { width: 480, height: 270 };
    const SPLIT: f32 = 0.4;

    /// A display of `panes` panes that show the same picture and its opposite before it, drawn at `target`.
    fn display(panes: usize, target: ImageSize) -> framelane::Result<Display> {
        let device = Device::host();
        let mut display = Display::offscreen(&device)?;
        let pixel = |i: usize| {
            let (x, y) = (i % SIZE.width, i / SIZE.width);
            [(x * 255 / SIZE.width) as u8, (y * 255 / SIZE.height) as u8, 140]
        };
        let after: Vec<u8> = (0..SIZE.width * SIZE.height).flat_map(pixel).collect();
        let before: Vec<u8> = after.iter().map(|c| 255 - c).collect();
        let buffer = |bytes: &[u8]| {
            let buffer = device.alloc(bytes.len(), Memory::Pinned)?;
            buffer.write_host()?.copy_from_slice(bytes);
            Ok::<_, framelane::Error>(buffer)
        };
        let (after, before, spec) = (buffer(&after)?, buffer(&before)?, SIZE.spec());
        let stream = device.stream("test")?;
        for n in 0..panes {
            let pane = display.pane(format!("pane {n}"), &device, &PaneOptions::default())?;
            let before = Picture::new(TensorView::new(&before, 0, &spec)?);
            let picture = Picture::new(TensorView::new(&after, 0, &spec)?).before(before);
            let _ = pane.show(&stream, &picture, &FrameMeta::new("clip.mp4", 0))?;
        }
        stream.synchronize("the test's pictures")?;
        display.set_split(Some(SPLIT));
        display.present(target)?;
        Ok(display)
    }

    /// Draw the overlay over panes, and compare with the picture that was looked at when it was last changed
    /// (`UPDATE_REFERENCES=1` writes it anew). Drivers round and blend differently: no channel may be off by more
    /// than 48, and not more than 0.5 % of them by more than 3.
    fn look(
        name: &str,
        panes: usize,
        target: ImageSize,
        scale: f32,
        content: impl FnOnce(&Display) -> Content,
    ) {
        let Some(display) = crate::common::opened(display(panes, target)) else { return };
        let gpu = display.gpu();
        let extent = gpu.extent(target).unwrap();
        let usage = wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC;
        let (texture, view) = gpu.texture("canvas", extent, usage);
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let (composed, content) = (&display.target().unwrap().view, content(&display));
        let size = [extent.width, extent.height];
        let mut painter = Painter::new(gpu, FORMAT);
        let painting = Painting { composed, content: &content, size, scale };
        let commands = painter.paint(gpu, &mut encoder, &view, &painting);
        let readback = Readback::begin(gpu, &mut encoder, &texture, target);
        gpu.queue.submit(commands.into_iter().chain([encoder.finish()]));
        let rgb = readback.finish(gpu).unwrap();

        // Where the package is now, as cargo says when it runs tests, or where it was compiled.
        let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
        let path = format!("{package}/tests/reference/{name}.png");
        let (width, height) = (target.width as u32, target.height as u32);
        if std::env::var_os("UPDATE_REFERENCES").is_some() {
            image::save_buffer(&path, &rgb, width, height, image::ColorType::Rgb8).unwrap();
        }
        let reference = image::open(&path).unwrap().into_rgb8();
        assert_eq!(reference.dimensions(), (width, height));
        let off: Vec<u8> = reference.as_raw().iter().zip(&rgb).map(|(a, b)| a.abs_diff(*b)).collect();
        let worst = off.iter().max().copied().unwrap_or(0);
        let share = off.iter().filter(|&&d| d > 3).count() as f64 / off.len() as f64;
        assert!(worst <= 48 && share <= 0.005, "{name}: {share} of the channels differ, by {worst} at most");
    }

    /// The line of numbers and the divider of each pane.
    fn content(display: &Display, target: ImageSize) -> Content {
        let name = |n: usize| if n == 0 { "clip.mp4".to_owned() } else { format!("camera {n}") };
        let mut content = Content::default();
        for (n, tile) in display.tiles(target.width as u32, target.height as u32) {
            content.tiles.push(tile);
            let (dropped, state) = (3 * n as u64, (n != 1).then(|| "paused".to_owned()));
            content.infos.push(Info { tile, name: name(n), fps: 23.976, age_ms: 41.7, dropped, state });
            let placed = display.placed(n, tile).unwrap();
            let small = ImageSize { width: 240, height: 135 };
            content.dividers.push(Divider {
                tile,
                x: placed.column(SPLIT),
                placed,
                before: small,
                after: SIZE,
            });
        }
        content
    }

    fn whole(target: ImageSize) -> Rect {
        Rect { x: 0, y: 0, width: target.width as u32, height: target.height as u32 }
    }

    const MEDIUM: ImageSize = ImageSize { width: 760, height: 480 };

    #[test]
    fn the_overlay_looks_as_it_did() {
        look("overlay", 1, MEDIUM, 1.0, |display| Content {
            message: Some(("Saved clip-000123.png".into(), whole(MEDIUM))),
            ..content(display, MEDIUM)
        });
    }

    #[test]
    fn the_overlay_is_sharp_at_twice_the_scale() {
        let target = ImageSize { width: 1200, height: 675 };
        look("overlay-2x", 1, target, 2.0, |display| Content {
            message: Some(("Saved clip-000123.png".into(), whole(target))),
            ..content(display, target)
        });
    }

    #[test]
    fn each_pane_has_its_own() {
        look("panes", 3, MEDIUM, 1.0, |display| {
            let mut content = content(display, MEDIUM);
            content.infos[2].state = Some("killed, or crashed: it said no goodbye".into());
            let tile = content.tiles[1];
            let value = Value {
                tile,
                pixel: [384.0, 230.0, 8.0, 8.0],
                rgb: [255, 128, 0],
                text: "12, 30: 255 128 0".into(),
            };
            Content {
                message: Some(("Saved camera-1-000123.png".into(), tile)),
                value: Some(value),
                ..content
            }
        });
        let narrow = ImageSize { width: 330, height: 200 };
        look("panes-narrow", 3, narrow, 1.0, |display| {
            let mut content = content(display, narrow);
            content.infos[0].state = Some("ended: the input broke".into());
            content
        });
    }

    #[test]
    fn a_pixel_is_told_beside_it() {
        let value =
            |pixel, rgb, text: &str| Some(Value { tile: whole(MEDIUM), pixel, rgb, text: text.to_owned() });
        look("value", 1, MEDIUM, 1.0, |_| Content {
            value: value([300.0, 200.0, 24.0, 24.0], [255, 128, 0], "12, 30: 255 128 0"),
            ..Content::default()
        });
        look("value-corner", 1, MEDIUM, 1.0, |_| Content {
            value: value([750.0, 470.0, 1.0, 1.0], [0, 0, 90], "1279, 719: 0 0 90"),
            notice: Some("No pane yet: workers attach to \"wall\"".into()),
            ..Content::default()
        });
    }

    #[test]
    fn the_help_fits_a_small_window() {
        look("help-small", 1, ImageSize { width: 200, height: 112 }, 1.0, |_| Content {
            help: Some("host-upload (llvmpipe, Vulkan)".into()),
            ..Content::default()
        });
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("clip.mp4", 48), "clip.mp4");
        let name = format!("{}-end.mp4", "ä".repeat(100));
        let short = shortened(&name, 20);
        assert_eq!(short.chars().count(), 20);
        assert!(short.starts_with("ää") && short.ends_with("…ä-end.mp4"), "{short}");
    }

    #[test]
    fn long_reasons_are_cut_at_their_end() {
        assert_eq!(begun("ended", usize::MAX), "ended");
        assert_eq!(begun("the lens is dirty", 9), "the lens…");
        assert_eq!(begun("ääää", 3), "ääää", "a mark is no shorter than what it stands for");
    }

    #[test]
    fn ages_read_well() {
        assert_eq!(
            [0.04, 9.94, 9.96, 412.4, 12_345.0].map(duration),
            ["0.0 ms", "9.9 ms", "10 ms", "412 ms", "12 s"]
        );
    }
}
