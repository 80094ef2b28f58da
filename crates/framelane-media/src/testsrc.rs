//! `testsrc`: a moving test picture whose number can be read back from its pixels.

use crate::open::{VideoInfo, VideoSource, pts};
use framelane::feed::{Interrupter, SlotWriter, Source};
use framelane::frame::{ColorSpec, FrameMeta, FrameRate, ImageSize};
use framelane::{Error, ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Columns and rows of the block code, in the top quarter of the picture.
const COLUMNS: usize = 8;
const ROWS: usize = 5;

const BARS: [[u8; 3]; 8] = [
    [235, 235, 235],
    [220, 220, 20],
    [20, 220, 220],
    [20, 200, 40],
    [210, 30, 210],
    [220, 40, 30],
    [40, 50, 220],
    [16, 16, 16],
];

/// Colour bars over a moving ramp, under a block code of the frame's number.
pub(crate) struct TestSource {
    info: VideoInfo,
    rate: FrameRate,
    next: u64,
    pace: Option<Pace>,
}

/// Waits for each frame's time, unless interrupted.
struct Pace {
    start: Option<Instant>,
    stopped: Arc<(Mutex<bool>, Condvar)>,
}

impl TestSource {
    /// From `testsrc[:WxH][@FPS]`.
    pub(crate) fn open(input: &str, realtime: bool) -> Result<Self> {
        let (size, rate) = parse(input).ok_or_else(|| {
            Error::new(
                ErrorKind::Argument,
                format!("{input}: write it as testsrc, testsrc:640x360 or testsrc:640x360@30"),
            )
        })?;
        let size = ImageSize::new(size.0, size.1).map_err(|e| e.context(input))?;
        let info = VideoInfo {
            name: "testsrc".into(),
            size,
            rate: Some(rate),
            frames: None,
            live: realtime,
            format: format!("test picture {size}"),
            color: ColorSpec::assumed(size.height),
        };
        let pace = realtime.then(|| Pace { start: None, stopped: Arc::default() });
        Ok(Self { info, rate, next: 0, pace })
    }
}

impl Source for TestSource {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let at = pts(self.next, self.rate);
        if let Some(pace) = &mut self.pace {
            pace.wait(at)?;
        }
        let mut meta = FrameMeta::new(self.info.name.clone(), self.next);
        meta.pts = Some(at);
        paint(slot.image(self.info.size, meta)?, self.info.size, self.next);
        self.next += 1;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        self.next = 0;
        if let Some(pace) = &mut self.pace {
            pace.start = None;
        }
        Ok(true)
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let stopped = self.pace.as_ref()?.stopped.clone();
        Some(Arc::new(move || {
            *stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            stopped.1.notify_all();
        }))
    }
}

impl VideoSource for TestSource {
    fn info(&self) -> &VideoInfo {
        &self.info
    }
}

impl Pace {
    fn wait(&mut self, at: Duration) -> Result<()> {
        let due = *self.start.get_or_insert_with(Instant::now) + at;
        let (stopped, changed) = &*self.stopped;
        let mut stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *stopped {
                return Err(Error::new(ErrorKind::Cancelled, "testsrc: stopped"));
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            stopped = changed.wait_timeout(stopped, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn parse(input: &str) -> Option<((usize, usize), FrameRate)> {
    let mut size = (640, 360);
    let mut rate = FrameRate { num: 30, den: 1 };
    let rest = input.strip_prefix("testsrc")?;
    let (geometry, speed) = rest.split_once('@').map_or((rest, None), |(g, s)| (g, Some(s)));
    if let Some(geometry) = geometry.strip_prefix(':') {
        if !geometry.is_empty() {
            let (width, height) = geometry.split_once(['x', '×'])?;
            size = (width.parse().ok()?, height.parse().ok()?);
        }
    } else if !geometry.is_empty() {
        return None;
    }
    if let Some(speed) = speed {
        rate = parse_rate(speed)?;
    }
    Some((size, rate))
}

/// `30`, `29.97` or `30000/1001`.
fn parse_rate(text: &str) -> Option<FrameRate> {
    let rate = match text.split_once('/') {
        Some((num, den)) => FrameRate { num: num.parse().ok()?, den: den.parse().ok()? },
        None => match text.parse() {
            Ok(num) => FrameRate { num, den: 1 },
            Err(_) => {
                let fps: f64 = text.parse().ok().filter(|fps| (0.001..=1e6).contains(fps))?;
                FrameRate { num: (fps * 1000.0).round() as u32, den: 1000 }
            }
        },
    };
    (rate.num > 0 && rate.den > 0).then_some(rate)
}

/// Paint frame `index`: the same pixels for the same number and size, always.
fn paint(rgb: &mut [u8], size: ImageSize, index: u64) {
    let ramp_from = size.height - size.height / 4;
    let mut bars = Vec::with_capacity(size.width * 3);
    let mut ramp = Vec::with_capacity(size.width * 3);
    for x in 0..size.width {
        bars.extend(BARS[x * BARS.len() / size.width]);
        ramp.extend([((x as u64 + 4 * index) % 256) as u8; 3]);
    }
    for (y, row) in rgb.chunks_exact_mut(size.width * 3).enumerate() {
        row.copy_from_slice(if y < ramp_from { &bars } else { &ramp });
    }
    if block(size).is_some() {
        let code = encode(index as u32);
        for (y, row) in rgb.chunks_exact_mut(size.width * 3).enumerate() {
            let line = y * 4 * ROWS / size.height;
            if line == ROWS {
                break;
            }
            for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
                let bit = code >> (line * COLUMNS + x * COLUMNS / size.width) & 1;
                pixel.fill(if bit == 1 { 255 } else { 0 });
            }
        }
    }
}

/// The number that `testsrc` wrote into a picture, if its code is there and intact.
///
/// It survives compression and resizing: 40 black or white blocks (the number, modulo 2³², and a check byte)
/// in the top quarter are read at their centres. `None` for any other picture, and for test pictures under
/// 16 × 20 pixels, which carry no code.
pub fn read_frame_number(rgb: &[u8], size: ImageSize) -> Option<u32> {
    let block = block(size)?;
    if rgb.len() != size.bytes() {
        return None;
    }
    // Blocks need not be whole pixels: their places are fractions of the whole picture.
    let mut code = 0_u64;
    for bit in 0..COLUMNS * ROWS {
        let x = middle(bit % COLUMNS, COLUMNS, size.width);
        let y = middle(bit / COLUMNS, 4 * ROWS, size.height);
        let reach = (block.0.min(block.1) / 4).min(2);
        let (mut sum, mut count) = (0_u32, 0_u32);
        for y in y - reach..=y + reach {
            for x in x - reach..=x + reach {
                sum += rgb[(y * size.width + x) * 3..][..3].iter().map(|&c| u32::from(c)).sum::<u32>();
                count += 3;
            }
        }
        match sum / count {
            0..=95 => {}
            160..=255 => code |= 1 << bit,
            _ => return None,
        }
    }
    let number = code as u32;
    (encode(number) == code).then_some(number)
}

/// The middle pixel of part `part` of `parts` of `length` pixels.
fn middle(part: usize, parts: usize, length: usize) -> usize {
    ((part * length).div_ceil(parts) + ((part + 1) * length).div_ceil(parts) - 1) / 2
}

/// Width and height of one block, rounded down; `None` if the picture is too small for the code.
fn block(size: ImageSize) -> Option<(usize, usize)> {
    let block = (size.width / COLUMNS, size.height / (4 * ROWS));
    (block.0 >= 2 && block.1 >= 1).then_some(block)
}

fn encode(number: u32) -> u64 {
    let check = number.to_le_bytes().iter().fold(0x5a_u8, |sum, b| sum.rotate_left(3) ^ b);
    u64::from(number) | u64::from(check) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_back() {
        for (width, height) in [(16, 20), (17, 23), (64, 64), (640, 360), (1919, 1079)] {
            let size = ImageSize::new(width, height).unwrap();
            let mut rgb = vec![0; size.bytes()];
            for index in [0, 1, 255, 256, 123_456_789, u64::from(u32::MAX)] {
                paint(&mut rgb, size, index);
                assert_eq!(read_frame_number(&rgb, size), Some(index as u32), "{size}");
            }
        }
    }

    #[test]
    fn the_number_survives_doubling() {
        let size = ImageSize::new(100, 50).unwrap();
        let mut rgb = vec![0; size.bytes()];
        paint(&mut rgb, size, 77);
        let big = ImageSize::new(200, 100).unwrap();
        let mut doubled = Vec::new();
        for y in 0..big.height {
            for x in 0..big.width {
                doubled.extend(&rgb[((y / 2) * size.width + x / 2) * 3..][..3]);
            }
        }
        assert_eq!(read_frame_number(&doubled, big), Some(77));
    }

    #[test]
    fn no_number_in_other_pictures() {
        let size = ImageSize::new(64, 64).unwrap();
        assert_eq!(read_frame_number(&vec![0; size.bytes()], size), None);
        assert_eq!(read_frame_number(&vec![128; size.bytes()], size), None);
        let mut rgb = vec![0; size.bytes()];
        paint(&mut rgb, size, 9);
        rgb[..8 * 3].fill(0);
        rgb[64 * 3..64 * 3 + 8 * 3].fill(0);
        rgb[2 * 64 * 3..2 * 64 * 3 + 8 * 3].fill(0);
        assert_eq!(read_frame_number(&rgb, size), None, "a flipped bit is noticed");
    }

    #[test]
    fn arguments() {
        assert_eq!(parse("testsrc"), Some(((640, 360), FrameRate { num: 30, den: 1 })));
        assert_eq!(parse("testsrc:64x48@60"), Some(((64, 48), FrameRate { num: 60, den: 1 })));
        assert_eq!(parse("testsrc:64x48@30000/1001").unwrap().1, FrameRate { num: 30000, den: 1001 });
        assert_eq!(parse("testsrc@29.97").unwrap().1, FrameRate { num: 29970, den: 1000 });
        for bad in ["testsrc:64", "testsrc:64x", "testsrc64x48", "testsrc@0", "testsrc@1/0", "testsrc@x"] {
            assert!(TestSource::open(bad, false).is_err(), "{bad}");
        }
        assert!(TestSource::open("testsrc:0x10", false).is_err());
        assert!(TestSource::open("testsrc:99999999x99999999", false).is_err());
    }
}
