//! One worker's memory as both sides map it: a control page and slots; and how pixels get in and out of a slot.

use super::page::{PAGE_BYTES, done_at};
use crate::frame::ImageSize;
use framelane_cuda::Mapped;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A control page and its slots, as one side has them. What is shared with another process may change at any time.
#[derive(Debug)]
pub struct SharedMemory {
    pub(super) page: Arc<Mapped>,
    pub(super) slots: usize,
    pub(super) slot_bytes: usize,
    /// `None`: they are a device's, and not mapped here.
    pub(super) host: Option<Vec<Arc<Mapped>>>,
}

/// Slots in a device's memory, by descriptors that any process can open it by.
#[derive(Debug)]
pub struct DeviceSlots {
    /// One for each.
    pub descriptors: Vec<OwnedFd>,
    /// Bytes of each allocation, which are no less than those of a slot: whoever opens it must say how many.
    pub allocated: usize,
}

impl SharedMemory {
    /// New memory, and its descriptors in the order in which they travel.
    pub(super) fn create(slots: usize, slot_bytes: usize) -> Result<(Self, Vec<OwnedFd>)> {
        let (memory, page) = Self::with_device(slots, slot_bytes)?;
        let (mut made, mut descriptors) = (Vec::new(), vec![page]);
        for _ in 0..slots {
            let (slot, descriptor) = Mapped::create("framelane slot", slot_bytes)?;
            made.push(Arc::new(slot));
            descriptors.push(descriptor);
        }
        Ok((Self { host: Some(made), ..memory }, descriptors))
    }

    /// A new page for slots of a device, and its descriptor.
    pub(super) fn with_device(slots: usize, slot_bytes: usize) -> Result<(Self, OwnedFd)> {
        let (page, descriptor) = Mapped::create("framelane page", PAGE_BYTES)?;
        Ok((Self { page: Arc::new(page), slots, slot_bytes, host: None }, descriptor))
    }

    /// Map what another process made. With `allocated` the slots are a device's, and still to be opened.
    pub(super) fn open(
        descriptors: Vec<OwnedFd>,
        slots: usize,
        slot_bytes: usize,
        allocated: Option<usize>,
    ) -> Result<(Self, Option<DeviceSlots>)> {
        let came = descriptors.len();
        let mut descriptors = descriptors.into_iter();
        let Some(page) = descriptors.next().filter(|_| came == slots + 1) else {
            let sentence = format!("{came} descriptors came for a page and {slots} slots");
            return Err(Error::new(ErrorKind::InvalidData, sentence));
        };
        let page = Arc::new(Mapped::open(page, PAGE_BYTES)?);
        if let Some(allocated) = allocated {
            let device = DeviceSlots { descriptors: descriptors.collect(), allocated };
            return Ok((Self { page, slots, slot_bytes, host: None }, Some(device)));
        }
        let host =
            descriptors.map(|slot| Mapped::open(slot, slot_bytes).map(Arc::new)).collect::<Result<_>>()?;
        Ok((Self { page, slots, slot_bytes, host: Some(host) }, None))
    }

    /// The control page, into which a device writes at [`Self::done_at`].
    pub fn page(&self) -> &Arc<Mapped> {
        &self.page
    }

    /// Bytes of each slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// The slots, if they are in host memory.
    pub fn host_slots(&self) -> Option<&[Arc<Mapped>]> {
        self.host.as_deref()
    }

    /// At which byte of the page a device writes the number of the frame in `slot` ([`super::WorkerSlot::number`])
    /// once its pixels are there.
    pub fn done_at(&self, slot: usize) -> usize {
        done_at(slot)
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

/// Write a picture of RGBA whose rows are `pitch` bytes apart in `rgba`, too.
pub fn write_rows(slot: &[AtomicU64], pitch: usize, rgba: &[u8], size: ImageSize) {
    let rows = slot.chunks_exact(pitch / 8).zip(rgba.chunks_exact(pitch));
    for (words, row) in rows.take(size.height) {
        // What follows the last pixel of a row is nobody's, and goes with it up to a whole word.
        let row = row.as_chunks::<8>().0;
        for (word, pair) in words.iter().zip(&row[..size.width.div_ceil(2)]) {
            word.store(u64::from_ne_bytes(*pair), Relaxed);
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
            write_rows(&slot, pitch, &vec![9; pitch * height], size);
            read(&slot, pitch, width * 4, &mut out);
            assert_eq!(out, vec![9; rgba.len()]);
            let after = &slot[pitch * height / 8..];
            assert!(after.iter().all(|w| w.load(Relaxed) == u64::MAX), "nothing is written past the picture");
        }
    }
}
