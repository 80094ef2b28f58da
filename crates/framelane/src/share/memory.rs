//! One worker's memory as both sides map it: a control page and slots; and how pixels get in and out of a slot.

use super::page::PAGE_BYTES;
use crate::frame::ImageSize;
use framelane_cuda::Mapped;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A control page and its slots.
#[derive(Debug)]
pub struct Memory {
    pub page: Mapped,
    pub slots: Vec<Mapped>,
    pub slot_bytes: usize,
}

impl Memory {
    /// New memory, and its descriptors in the order in which they travel.
    pub fn create(slots: usize, slot_bytes: usize) -> Result<(Self, Vec<OwnedFd>)> {
        let slot_bytes = slot_bytes.next_multiple_of(PAGE_BYTES);
        let (page, descriptor) = Mapped::create("framelane page", PAGE_BYTES)?;
        let (mut made, mut descriptors) = (Vec::new(), vec![descriptor]);
        for _ in 0..slots {
            let (slot, descriptor) = Mapped::create("framelane slot", slot_bytes)?;
            made.push(slot);
            descriptors.push(descriptor);
        }
        Ok((Self { page, slots: made, slot_bytes }, descriptors))
    }

    /// Map what another process made.
    pub fn open(descriptors: &[OwnedFd], slots: usize, slot_bytes: usize) -> Result<Self> {
        let Some((page, rest)) = descriptors.split_first().filter(|(_, rest)| rest.len() == slots) else {
            let sentence = format!("{} descriptors came for a page and {slots} slots", descriptors.len());
            return Err(Error::new(ErrorKind::InvalidData, sentence));
        };
        let slots = rest.iter().map(|slot| Mapped::open(slot, slot_bytes)).collect::<Result<_>>()?;
        Ok(Self { page: Mapped::open(page, PAGE_BYTES)?, slots, slot_bytes })
    }
}

/// Pixels in rows without gaps, from the top, sRGB.
#[derive(Debug, Clone, Copy)]
pub enum Pixels<'a> {
    /// Three bytes each.
    Rgb(&'a [u8]),
    /// Four bytes each.
    Rgba(&'a [u8]),
}

impl Pixels<'_> {
    /// How many bytes there are, and how many a pixel has.
    pub(super) fn bytes(&self) -> (usize, usize) {
        match self {
            Self::Rgb(bytes) => (bytes.len(), 3),
            Self::Rgba(bytes) => (bytes.len(), 4),
        }
    }
}

/// Write a picture, whose bytes fit `size`, as RGBA in rows that are `pitch` bytes apart.
pub fn write(slot: &[AtomicU64], pitch: usize, pixels: Pixels<'_>, size: ImageSize) {
    // Two pixels are a word. What follows the last pixel of a row is nobody's.
    let rows = slot.chunks_exact(pitch / 8).take(size.height);
    match pixels {
        Pixels::Rgba(bytes) => {
            for (words, row) in rows.zip(bytes.chunks_exact(size.width * 4)) {
                let (pairs, last) = row.as_chunks::<8>();
                for (word, pair) in words.iter().zip(pairs) {
                    word.store(u64::from_ne_bytes(*pair), Relaxed);
                }
                if let [r, g, b, a] = *last {
                    words[pairs.len()].store(u64::from_ne_bytes([r, g, b, a, 0, 0, 0, 0]), Relaxed);
                }
            }
        }
        Pixels::Rgb(bytes) => {
            for (words, row) in rows.zip(bytes.chunks_exact(size.width * 3)) {
                let (pairs, last) = row.as_chunks::<6>();
                for (word, &[a, b, c, d, e, f]) in words.iter().zip(pairs) {
                    word.store(u64::from_ne_bytes([a, b, c, 255, d, e, f, 255]), Relaxed);
                }
                if let [r, g, b] = *last {
                    words[pairs.len()].store(u64::from_ne_bytes([r, g, b, 255, 0, 0, 0, 0]), Relaxed);
                }
            }
        }
    }
}

/// Copy the first `row_bytes` bytes of rows that are `pitch` bytes apart in `slot`, to rows without gaps in `out`.
pub fn read(slot: &[AtomicU64], pitch: usize, row_bytes: usize, out: &mut [u8]) {
    for (words, row) in slot.chunks_exact(pitch / 8).zip(out.chunks_exact_mut(row_bytes)) {
        let (pairs, last) = row.as_chunks_mut::<8>();
        for (word, pair) in words.iter().zip(&mut *pairs) {
            *pair = word.load(Relaxed).to_ne_bytes();
        }
        if !last.is_empty() {
            let word = words[pairs.len()].load(Relaxed).to_ne_bytes();
            last.copy_from_slice(&word[..last.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::pitch_of;
    use super::*;

    #[test]
    fn pictures_of_any_width_come_out_as_they_went_in() {
        for (width, height) in [(1, 1), (1, 5), (2, 3), (63, 2), (64, 2), (65, 3), (321, 7)] {
            let size = ImageSize { width, height };
            let pitch = pitch_of(size);
            assert!(pitch.is_multiple_of(256) && pitch >= width * 4);
            let slot: Vec<_> = (0..pitch * height / 8 + 16).map(|_| AtomicU64::new(u64::MAX)).collect();
            let rgba: Vec<u8> = (0..width * height * 4).map(|i| (i * 7 % 251) as u8).collect();
            write(&slot, pitch, Pixels::Rgba(&rgba), size);
            let mut out = vec![0; rgba.len()];
            read(&slot, pitch, width * 4, &mut out);
            assert_eq!(out, rgba);
            let rgb: Vec<u8> = rgba.chunks_exact(4).flat_map(|p| [p[2], p[0], p[1]]).collect();
            write(&slot, pitch, Pixels::Rgb(&rgb), size);
            read(&slot, pitch, width * 4, &mut out);
            let wanted: Vec<u8> = rgb.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect();
            assert_eq!(out, wanted);
            let mut whole = vec![0; pitch * height];
            read(&slot, pitch, pitch, &mut whole);
            assert_eq!(whole[..width * 4], wanted[..width * 4]);
            let after = &slot[pitch * height / 8..];
            assert!(after.iter().all(|w| w.load(Relaxed) == u64::MAX), "nothing is written past the picture");
        }
    }
}
