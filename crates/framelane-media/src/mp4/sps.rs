//! H.264 sequence parameter sets, as far as a player must know them before decoding.

use framelane::frame::{ColorMatrix, ColorRange, ColorSpec, ImageSize};
use framelane::{Error, ErrorKind, Result};

/// What a sequence parameter set says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sps {
    /// Size after cropping.
    pub size: ImageSize,
    /// What openh264 cannot decode in this stream, if anything.
    pub unsupported: Option<String>,
    /// Colours, if the stream names them.
    pub signal: Signal,
}

/// How a stream, or its container, describes its colours. Each part may be missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Signal {
    pub matrix: Option<ColorMatrix>,
    pub range: Option<ColorRange>,
}

impl Signal {
    /// From the code points of ITU-T H.273. Matrices that are neither BT.601 nor BT.709 are left open.
    pub(crate) fn new(matrix: u32, full_range: bool) -> Self {
        let matrix = match matrix {
            1 => Some(ColorMatrix::Bt709),
            5 | 6 => Some(ColorMatrix::Bt601),
            _ => None,
        };
        Self { matrix, range: Some(if full_range { ColorRange::Full } else { ColorRange::Limited }) }
    }

    /// What is said here, then what `other` says, then what is assumed of pictures of that height.
    pub(crate) fn or(self, other: Self, height: usize) -> ColorSpec {
        let assumed = ColorSpec::assumed(height);
        ColorSpec {
            matrix: self.matrix.or(other.matrix).unwrap_or(assumed.matrix),
            range: self.range.or(other.range).unwrap_or(assumed.range),
        }
    }
}

impl Sps {
    /// Parse a NAL unit of type 7, its header byte included.
    pub(crate) fn parse(nal: &[u8]) -> Result<Self> {
        let bytes = unescape(nal.get(1..).unwrap_or_default());
        let mut bits = Bits { bytes: &bytes, at: 0 };
        read(&mut bits).unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Input, "the H.264 header (sequence parameter set) is damaged"))
        })
    }
}

/// The same set (a NAL unit of type 7) under the profile Scalable Baseline.
///
/// For all profiles but the baselines, openh264 keeps pictures back to order them by itself. It guesses: some
/// orders of B-frames come out wrong, a picture is lost now and then, and it never frees what is flushed. The
/// name of a baseline switches that off (the decoder looks at nothing else by it), so that each coded picture
/// yields its own at once. A Main or Extended set then needs the fields of a High one, with their defaults.
pub(crate) fn immediate(nal: &[u8]) -> Vec<u8> {
    const SCALABLE_BASELINE: u8 = 83;
    let mut out = nal.to_vec();
    match nal.get(1) {
        Some(100) => out[1] = SCALABLE_BASELINE,
        Some(77 | 88) => {
            let bytes = unescape(&nal[2..]);
            let mut bits = Bits { bytes: &bytes, at: 16 };
            // After constraints and level comes the identifier, and the new fields follow it.
            if bits.golomb().is_none() {
                return out;
            }
            // 4:2:0, 8 bits twice, no bypass, no scaling matrices.
            let fields = [false, true, false, true, true, false, false];
            let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
            let all: Vec<bool> =
                (0..bits.at).map(bit).chain(fields).chain((bits.at..bytes.len() * 8).map(bit)).collect();
            let packed =
                all.chunks(8).map(|c| (0..8).fold(0, |b, i| b << 1 | u8::from(c.get(i) == Some(&true))));
            out = vec![nal[0], SCALABLE_BASELINE];
            escape(packed, &mut out);
        }
        _ => {}
    }
    out
}

/// `None`: the set ends too early or has a number that cannot be.
fn read(bits: &mut Bits<'_>) -> Option<Result<Sps>> {
    let profile = bits.take(8)?;
    bits.take(16)?; // constraints and level
    bits.golomb()?; // identifier
    let (mut chroma, mut depth) = (1, 8);
    if matches!(profile, 100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135) {
        chroma = bits.golomb()?;
        if chroma == 3 {
            bits.take(1)?; // separate planes
        }
        depth = 8 + bits.golomb()?.max(bits.golomb()?).min(255);
        bits.take(1)?; // lossless
        if bits.take(1)? == 1 {
            for i in 0..if chroma == 3 { 12 } else { 8 } {
                if bits.take(1)? == 1 {
                    skip_scaling_list(bits, if i < 6 { 16 } else { 64 })?;
                }
            }
        }
    }
    bits.golomb()?; // frame number's length
    match bits.golomb()? {
        0 => {
            bits.golomb()?;
        }
        1 => {
            bits.take(1)?;
            bits.golomb()?;
            bits.golomb()?;
            for _ in 0..bits.golomb()?.min(256) {
                bits.golomb()?;
            }
        }
        _ => {}
    }
    bits.golomb()?; // reference frames
    bits.take(1)?;
    let width = u64::from(bits.golomb()?) + 1;
    let height = u64::from(bits.golomb()?) + 1;
    let progressive = bits.take(1)? == 1;
    if !progressive {
        bits.take(1)?;
    }
    bits.take(1)?;
    let (width, height) = (width * 16, height * 16 * if progressive { 1 } else { 2 });
    let mut crop = [0_u64; 4];
    if bits.take(1)? == 1 {
        let unit_x = if matches!(chroma, 1 | 2) { 2 } else { 1 };
        let unit_y = if chroma == 1 { 2 } else { 1 } * if progressive { 1 } else { 2 };
        for (side, unit) in crop.iter_mut().zip([unit_x, unit_x, unit_y, unit_y]) {
            *side = u64::from(bits.golomb()?) * unit;
        }
    }
    let signal = if bits.take(1)? == 1 { read_signal(bits).unwrap_or_default() } else { Signal::default() };
    let shown = |whole: u64, cut: u64| usize::try_from(whole.saturating_sub(cut)).unwrap_or(usize::MAX);
    let size = match ImageSize::new(shown(width, crop[0] + crop[1]), shown(height, crop[2] + crop[3])) {
        Ok(size) => size,
        Err(e) => return Some(Err(e)),
    };
    let unsupported = if depth != 8 {
        Some(format!("{depth}-bit H.264"))
    } else if chroma != 1 {
        Some(format!(
            "H.264 in {}",
            ["grey", "4:2:0", "4:2:2", "4:4:4"].get(chroma as usize).unwrap_or(&"unknown colours")
        ))
    } else if !progressive {
        Some("interlaced H.264".to_owned())
    } else {
        None
    };
    Some(Ok(Sps { size, unsupported, signal }))
}

/// The part of the usability information before and with the colours.
fn read_signal(bits: &mut Bits<'_>) -> Option<Signal> {
    if bits.take(1)? == 1 && bits.take(8)? == 255 {
        bits.take(32)?; // pixel aspect
    }
    if bits.take(1)? == 1 {
        bits.take(1)?; // overscan
    }
    if bits.take(1)? == 0 {
        return None;
    }
    bits.take(3)?; // video format
    let full_range = bits.take(1)? == 1;
    let matrix = if bits.take(1)? == 1 { bits.take(24)? & 0xff } else { 2 };
    Some(Signal::new(matrix, full_range))
}

fn skip_scaling_list(bits: &mut Bits<'_>, length: usize) -> Option<()> {
    let (mut last, mut next) = (8_i64, 8_i64);
    for _ in 0..length {
        if next != 0 {
            let code = i64::from(bits.golomb()?);
            let delta = if code % 2 == 0 { -(code / 2) } else { code / 2 + 1 };
            next = (last + delta).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Some(())
}

/// Remove the bytes that keep start codes out of the payload.
fn unescape(nal: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(nal.len());
    let mut zeros = 0;
    for &byte in nal {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
    out
}

/// Keep start codes out of the payload.
fn escape(payload: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let mut zeros = 0;
    for byte in payload {
        if zeros == 2 && byte <= 3 {
            out.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        out.push(byte);
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next `count` (at most 32) bits.
    fn take(&mut self, count: usize) -> Option<u32> {
        let mut value = 0_u64;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value = value << 1 | u64::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value as u32)
    }

    /// The next Exp-Golomb number.
    fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some(((1_u64 << zeros) - 1 + u64::from(self.take(zeros)?)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes parameter sets for the tests.
    #[derive(Default)]
    struct Writer(Vec<bool>);

    impl Writer {
        fn bits(mut self, value: u32, count: usize) -> Self {
            self.0.extend((0..count).rev().map(|i| value >> i & 1 == 1));
            self
        }
        fn golomb(self, value: u32) -> Self {
            let length = (value + 1).ilog2() as usize;
            self.bits(0, length).bits(value + 1, length + 1)
        }
        fn nal(self) -> Vec<u8> {
            let mut bits = self.bits(1, 1).0;
            bits.resize(bits.len().next_multiple_of(8), false);
            let mut nal = vec![0x67];
            escape(bits.chunks(8).map(|c| c.iter().fold(0, |b, &bit| b << 1 | u8::from(bit))), &mut nal);
            nal
        }
    }

    /// 640 × 368 macroblocks cropped to 638 × 360.
    fn high(chroma: u32, depth: u32, progressive: u32) -> Writer {
        Writer::default()
            .bits(100, 8)
            .bits(0, 16)
            .golomb(0)
            .golomb(chroma)
            .golomb(depth - 8)
            .golomb(depth - 8)
            .bits(0, 2)
            .golomb(0)
            .golomb(0)
            .golomb(4)
            .golomb(4)
            .bits(0, 1)
            .golomb(39)
            .golomb(if progressive == 1 { 22 } else { 11 })
            .bits(progressive, 1)
            .bits(0, if progressive == 1 { 1 } else { 2 })
            .bits(1, 1)
            .golomb(0)
            .golomb(1)
            .golomb(0)
            .golomb(4)
    }

    #[test]
    fn size_and_colours() {
        let vui = |writer: Writer| writer.bits(1, 1).bits(0, 2).bits(1, 1).bits(5, 3);
        let plain = Sps::parse(&high(1, 8, 1).bits(0, 1).nal()).unwrap();
        assert_eq!(plain.size, ImageSize { width: 638, height: 360 });
        assert_eq!((plain.unsupported, plain.signal), (None, Signal::default()));
        let tagged = vui(high(1, 8, 1)).bits(1, 1).bits(1, 1).bits(0x01_01_01, 24).nal();
        assert_eq!(Sps::parse(&tagged).unwrap().signal, Signal::new(1, true));
        let range_only = vui(high(1, 8, 1)).bits(1, 1).bits(0, 1).nal();
        let signal = Sps::parse(&range_only).unwrap().signal;
        assert_eq!((signal.matrix, signal.range), (None, Some(ColorRange::Full)));
        assert_eq!(signal.or(Signal::new(6, false), 1080).matrix, ColorMatrix::Bt601);
        assert_eq!(signal.or(Signal::default(), 1080).matrix, ColorMatrix::Bt709);
    }

    #[test]
    fn what_openh264_cannot_do_is_named() {
        let says = |writer: Writer| Sps::parse(&writer.bits(0, 1).nal()).unwrap().unsupported.unwrap();
        assert_eq!(says(high(1, 10, 1)), "10-bit H.264");
        assert_eq!(says(high(2, 8, 1)), "H.264 in 4:2:2");
        assert_eq!(says(high(0, 8, 1)), "H.264 in grey");
        assert_eq!(says(high(1, 8, 0)), "interlaced H.264");
    }

    #[test]
    fn renamed_sets_say_the_same() {
        let main = Writer::default()
            .bits(77, 8)
            .bits(0, 16)
            .golomb(0)
            .golomb(0)
            .golomb(2)
            .golomb(4)
            .bits(0, 1)
            .golomb(19)
            .golomb(14)
            .bits(0b110, 3)
            .bits(0, 1)
            .nal();
        for nal in [main, high(1, 8, 1).bits(0, 1).nal()] {
            let renamed = immediate(&nal);
            assert_eq!(renamed[1], 83);
            assert_eq!(Sps::parse(&renamed).unwrap(), Sps::parse(&nal).unwrap());
        }
        let baseline = [0x67, 66, 0, 30, 0xaa];
        assert_eq!(immediate(&baseline), baseline);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let huge = Writer::default()
            .bits(66, 8)
            .bits(0, 16)
            .golomb(0)
            .golomb(0)
            .golomb(2)
            .golomb(1)
            .bits(0, 1)
            .golomb(1 << 28)
            .golomb(1 << 28)
            .bits(0b110, 3)
            .bits(0, 2)
            .nal();
        assert!(Sps::parse(&huge).unwrap_err().to_string().contains("pixels"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(nal in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Sps::parse(&nal);
            let _ = immediate(&nal);
            for profile in [77, 100] {
                let mut led = vec![0x67, profile];
                led.extend(&nal);
                let _ = (Sps::parse(&led), immediate(&led));
            }
        }
    }
}
