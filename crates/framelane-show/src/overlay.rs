//! What is written over the picture: small, at the edges, and only what is asked for.

use crate::gpu::Gpu;
use crate::keys::HELP;
use crate::view::Rect;
use egui::{Align2, Color32, FontId, Painter, Pos2, Stroke, pos2, vec2};
use egui_wgpu::{RendererOptions, ScreenDescriptor};
use framelane::frame::ImageSize;

const TEXT: Color32 = Color32::from_rgb(232, 234, 240);
const DIM: Color32 = Color32::from_rgb(176, 181, 192);
const ACCENT: Color32 = Color32::from_rgb(255, 196, 92);
const PLATE: Color32 = Color32::from_rgba_premultiplied(12, 13, 16, 208);
/// Points between an edge and what lies at it.
const MARGIN: f32 = 10.0;
/// Points between a plate's edge and its text.
const PADDING: egui::Vec2 = vec2(9.0, 5.0);
const SIZE: f32 = 13.0;

/// The line of numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Info {
    pub(crate) name: String,
    pub(crate) fps: f64,
    pub(crate) age_ms: f64,
    pub(crate) dropped: u64,
    /// `paused` or `end`, if so.
    pub(crate) state: Option<&'static str>,
}

/// The divider, and what lies on its two sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Divider {
    /// Target column.
    pub(crate) x: u32,
    /// The picture's rectangle in the target.
    pub(crate) rect: Rect,
    pub(crate) before: ImageSize,
    pub(crate) after: ImageSize,
}

/// Everything that may be written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Content {
    pub(crate) info: Option<Info>,
    pub(crate) divider: Option<Divider>,
    /// The keys, and below them how frames get to the screen.
    pub(crate) help: Option<String>,
    /// A passing message.
    pub(crate) message: Option<String>,
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
    if let Some(divider) = &content.divider {
        paint_divider(painter, scale, divider);
    }
    // Messages stand below the numbers: the bottom belongs to the labels of the divider.
    let mut below = screen.top() + MARGIN;
    if let Some(info) = &content.info {
        let at = screen.left_top() + vec2(MARGIN, MARGIN);
        below = plate(painter, at, Align2::LEFT_TOP, &info_parts(info)).bottom() + MARGIN / 2.0;
    }
    if let Some(message) = &content.message {
        let at = pos2(screen.left() + MARGIN, below);
        plate(painter, at, Align2::LEFT_TOP, &[(shortened(message, 90), TEXT)]);
    }
    if let Some(path) = &content.help {
        paint_help(painter, screen, path);
    }
}

fn info_parts(info: &Info) -> Vec<(String, Color32)> {
    let mut parts = vec![
        (shortened(&info.name, 48), TEXT),
        // No rate can be told of one frame, or of a stream that has gone silent.
        (if info.fps > 0.0 { format!("{:.1} fps", info.fps) } else { "– fps".into() }, DIM),
        (format!("{} old", duration(info.age_ms)), DIM),
        (format!("{} dropped", info.dropped), if info.dropped == 0 { DIM } else { ACCENT }),
    ];
    parts.extend(info.state.map(|state| (state.to_owned(), ACCENT)));
    parts
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

/// Write `parts` side by side on a plate that lies at `at` by its `anchor`, and stays on the screen's left.
fn plate(painter: &Painter, at: Pos2, anchor: Align2, parts: &[(String, Color32)]) -> egui::Rect {
    const GAP: f32 = 14.0;
    let galleys: Vec<_> = parts
        .iter()
        .map(|(text, color)| painter.layout_no_wrap(text.clone(), FontId::proportional(SIZE), *color))
        .collect();
    let gaps = GAP * galleys.len().saturating_sub(1) as f32;
    let width = galleys.iter().map(|g| g.size().x).sum::<f32>() + gaps;
    let height = galleys.iter().map(|g| g.size().y).fold(0.0, f32::max);
    let rect = anchor.anchor_size(at, vec2(width, height) + 2.0 * PADDING);
    painter.rect_filled(rect, 6.0, PLATE);
    let mut pen = rect.min + PADDING;
    for galley in galleys {
        let advance = galley.size().x + GAP;
        painter.galley(pen, galley, TEXT);
        pen.x += advance;
    }
    rect
}

fn paint_divider(painter: &Painter, scale: f32, divider: &Divider) {
    let to_points = |n: u32| n as f32 / scale;
    let (x, rect) = (to_points(divider.x), divider.rect);
    let (top, bottom) = (to_points(rect.y), to_points(rect.y + rect.height));
    let (left, right) = (to_points(rect.x), to_points(rect.x + rect.width));

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

    // A label that has no room on its side is left out: it would lie over the other side.
    let label = |at: Pos2, anchor, word: &str, size: ImageSize, room: f32| {
        let parts = [(word.to_owned(), TEXT), (size.to_string(), DIM)];
        if room > 150.0 {
            plate(painter, at, anchor, &parts);
        }
    };
    let y = bottom - MARGIN;
    label(pos2(x - MARGIN, y), Align2::RIGHT_BOTTOM, "before", divider.before, x - left);
    label(pos2(x + MARGIN, y), Align2::LEFT_BOTTOM, "after", divider.after, right - x);
}

fn paint_help(painter: &Painter, screen: egui::Rect, path: &str) {
    const ROW: f32 = 23.0;
    const KEYS: f32 = 84.0;
    const WIDTH: f32 = 300.0;
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
    let path = shortened(path, 54);
    painter.text(pos2(rect.center().x, y + 0.5 * row), Align2::CENTER_CENTER, path, font(12.0), DIM);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("clip.mp4", 48), "clip.mp4");
        let name = format!("{}-end.mp4", "ä".repeat(100));
        let short = shortened(&name, 20);
        assert_eq!(short.chars().count(), 20);
        assert!(short.starts_with("ää") && short.ends_with("…ä-end.mp4"), "{short}");
    }

    #[test]
    fn ages_read_well() {
        assert_eq!(
            [0.04, 9.94, 9.96, 412.4, 12_345.0].map(duration),
            ["0.0 ms", "9.9 ms", "10 ms", "412 ms", "12 s"]
        );
    }
}
