//! The twins of the kernels that make pictures for a display.

use super::colours::colour;
use super::nv12::{Coefficients, Nv12ToPicture};
use super::picture::{CALL, Element, Order, ToPicture};
use super::twin::f16_value;
use crate::error::Result;
use crate::memory::check_range;

const NAN: [u8; 4] = [255, 0, 255, 255];
const BEYOND_HIGH: [u8; 4] = [255, 0, 0, 255];
const BEYOND_LOW: [u8; 4] = [0, 0, 255, 255];

/// What [`crate::Stream::to_picture`] does, here and now.
///
/// # Errors
/// [`crate::Kind::Argument`] for channels, ranges or strides that make no sense or lie outside the memory.
pub fn to_picture(how: &ToPicture, from: &[u8], to: &mut [u8]) -> Result<()> {
    let extents = how.extents()?;
    check_range(CALL, &(0..extents.from), from.len())?;
    check_range(CALL, &(0..extents.to), to.len())?;
    if extents.to == 0 {
        return Ok(());
    }
    let affine = how.affine();
    if how.element == Element::U8 && (how.channels == 1 || !how.mark) {
        bytes_to_picture(how, affine, from, to);
        return Ok(());
    }
    for row in 0..how.height {
        for pixel in 0..how.width {
            let number = |channel| {
                let at = row * how.row + pixel * how.pixel + channel * how.channel;
                value(how.element, &from[at * how.element.size()..])
            };
            let seen = if how.channels == 1 {
                of_one(how, affine, number(0))
            } else {
                of_three(how, affine, [0, 1, 2].map(number))
            };
            put(to, row * how.to_row + pixel * 4, seen);
        }
    }
    Ok(())
}

/// The same for bytes, of which there are so few that each is worked out once: displays without CUDA are fed by this.
fn bytes_to_picture(how: &ToPicture, affine: (f32, f32), from: &[u8], to: &mut [u8]) {
    let numbers: [f32; 256] = std::array::from_fn(|byte| byte as f32);
    let one = numbers.map(|v| of_one(how, affine, v));
    let of_three = numbers.map(|v| level(v, affine));
    let (first, last) = if how.order == Order::Rgb { (0, 2) } else { (2, 0) };
    let rows = to.chunks_mut(how.to_row).take(how.height);
    for (row, to) in rows.enumerate() {
        let from = &from[row * how.row..];
        for (pixel, to) in to[..how.width * 4].chunks_exact_mut(4).enumerate() {
            let at = pixel * how.pixel;
            let seen = if how.channels == 1 {
                one[usize::from(from[at])]
            } else {
                let channel = |n: usize| of_three[usize::from(from[at + n * how.channel])];
                [channel(first), channel(1), channel(last), 255]
            };
            to.copy_from_slice(&seen);
        }
    }
}

fn put(to: &mut [u8], at: usize, pixel: [u8; 4]) {
    to[at..at + 4].copy_from_slice(&pixel);
}

/// The first number.
fn value(element: Element, from: &[u8]) -> f32 {
    match element {
        Element::U8 => f32::from(from[0]),
        Element::F16 => f16_value(u16::from_le_bytes([from[0], from[1]])),
        Element::BF16 => f32::from_bits(u32::from(u16::from_le_bytes([from[0], from[1]])) << 16),
        Element::F32 => f32::from_le_bytes([from[0], from[1], from[2], from[3]]),
    }
}

/// NaN stays NaN up to the last step, which makes it 0.
fn level(v: f32, (scale, bias): (f32, f32)) -> u8 {
    (v * scale + bias).clamp(0.0, 255.0).round_ties_even() as u8
}

fn of_one(how: &ToPicture, affine: (f32, f32), v: f32) -> [u8; 4] {
    mark(how, &[v]).unwrap_or_else(|| colour(how.colours, level(v, affine)).to_le_bytes())
}

fn of_three(how: &ToPicture, affine: (f32, f32), v: [f32; 3]) -> [u8; 4] {
    mark(how, &v).unwrap_or_else(|| {
        let [a, b, c] = v.map(|v| level(v, affine));
        match how.order {
            Order::Rgb => [a, b, c, 255],
            Order::Bgr => [c, b, a, 255],
        }
    })
}

/// What is shown instead of numbers that cannot be shown.
fn mark(how: &ToPicture, numbers: &[f32]) -> Option<[u8; 4]> {
    let beyond = |end: f32, other: f32, v: f32| if other < end { v > end } else { v < end };
    if !how.mark {
        None
    } else if numbers.iter().any(|v| v.is_nan()) {
        Some(NAN)
    } else if numbers.iter().any(|v| beyond(how.high, how.low, *v)) {
        Some(BEYOND_HIGH)
    } else if numbers.iter().any(|v| beyond(how.low, how.high, *v)) {
        Some(BEYOND_LOW)
    } else {
        None
    }
}

/// What [`crate::Stream::nv12_to_picture`] does, here and now.
///
/// # Errors
/// [`crate::Kind::Argument`] for rows that make no sense or lie outside the memory.
pub fn nv12_to_picture(how: &Nv12ToPicture, from: &[u8], to: &mut [u8]) -> Result<()> {
    let extents = how.extents()?;
    check_range(CALL, &(0..extents.from), from.len())?;
    check_range(CALL, &(0..extents.to), to.len())?;
    let Coefficients { black, luma, red, green, blue } = how.coefficients();
    for row in 0..how.height {
        for pixel in 0..how.width {
            let light = (i32::from(from[row * how.y_row + pixel]) - black) * luma;
            let at = how.chroma_at + row / 2 * how.chroma_row + pixel / 2 * 2;
            let [u, v] = [from[at], from[at + 1]].map(|d| i32::from(d) - 128);
            let sums = [light + v * red, light - u * green[0] - v * green[1], light + u * blue];
            // Half a unit more, and then down: to nearest, halves up.
            let [r, g, b] = sums.map(|sum| ((sum + 0x8000) >> 16).clamp(0, 255) as u8);
            put(to, row * how.to_row + pixel * 4, [r, g, b, 255]);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
