//! H.264 in MP4: reading it (`demux`, `sps`, this file) and writing it (`mux`).

mod demux;
pub(crate) mod mux;
mod order;
mod sps;

use crate::color::{Chroma, Planes, describe};
use crate::open::{VideoInfo, VideoSource, WITHOUT_SOUND, short_name};
use demux::{Config, Sample, Track, Turn, read_track};
use framelane::feed::{SlotWriter, Source};
use framelane::frame::{ColorSpec, FrameMeta, ImageSize};
use framelane::{Error, ErrorKind, Result};
use openh264::OpenH264API;
use openh264::decoder::{DecodedYUV, Decoder, DecoderConfig, Flush};
use openh264::formats::YUVSource;
use order::Order;
use sps::Sps;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

/// No coded picture is larger: the largest level of H.264 ends far below.
const MAX_SAMPLE: u32 = 1 << 26;

/// H.264 holds back at most 16 pictures to put them into order.
const MAX_HELD: usize = 16;

/// Pictures of an MP4 file. Only the tables are held in memory; pictures are read one by one.
pub(crate) struct Mp4Source {
    info: VideoInfo,
    pictures: Pictures<File>,
    index: u64,
    scratch: Vec<u8>,
}

impl Mp4Source {
    /// Open the file at `path` and decode its first picture.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it is some other codec, or a kind of H.264 that openh264 cannot decode.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file =
            File::open(path).map_err(|e| Error::io(format!("{} cannot be opened", path.display()), e))?;
        let pictures = Pictures::new(file).map_err(|e| e.context(path.display()))?;
        let Pictures { track, order, sps, color, .. } = &pictures;
        let size = turned(sps.size, track.turn);
        let info = VideoInfo {
            name: short_name(path),
            size,
            rate: order.rate(track),
            frames: Some(order.shown()),
            live: false,
            format: format!(
                "H.264 {size}{}, {}, via openh264{}",
                match track.turn {
                    Turn::None => "",
                    Turn::Right => " turned right",
                    Turn::Half => " turned upside down",
                    Turn::Left => " turned left",
                    Turn::Odd => " turned",
                },
                describe(*color),
                if track.sound { WITHOUT_SOUND } else { "" }
            ),
            color: *color,
        };
        Ok(Self { info, pictures, index: 0, scratch: Vec::new() })
    }
}

impl Source for Mp4Source {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let Self { info, pictures, index, scratch } = self;
        let color = info.color;
        let shown = pictures.next(|picture| {
            let meta = FrameMeta {
                source: info.name.clone(),
                index: *index,
                pts: Some(picture.time),
                captured: picture.captured,
            };
            let turn = picture.turn;
            slot.converting(|slot| {
                let rgb = slot.image(info.size, meta)?;
                if turn == Turn::None {
                    return picture.planes.to_rgb(color, rgb);
                }
                scratch.resize(rgb.len(), 0);
                picture.planes.to_rgb(color, scratch)?;
                turn_into(scratch, picture.planes.size, turn, rgb);
                Ok(())
            })
        });
        let shown = shown.map_err(|e| e.context(&info.name))?;
        *index += u64::from(shown);
        Ok(shown)
    }

    fn rewind(&mut self) -> Result<bool> {
        self.pictures.rewind().map_err(|e| e.context(&self.info.name))?;
        self.index = 0;
        Ok(true)
    }
}

impl VideoSource for Mp4Source {
    fn info(&self) -> &VideoInfo {
        &self.info
    }
}

/// A decoded picture, about to be shown.
pub(crate) struct Picture<'a> {
    planes: Planes<'a>,
    turn: Turn,
    time: Duration,
    captured: Instant,
}

/// A decoded picture that waits for others to be shown before it.
struct Held {
    planes: Vec<u8>,
    time: Duration,
    /// `None`: decoded when the file was opened, before anybody asked for a picture.
    captured: Option<Instant>,
}

/// Decodes the pictures of a file and puts them into the order in which they are shown.
///
/// The decoder is made to hand each picture out at once ([`sps::immediate`]), in stored order; the container's
/// times then say which ones must wait. That keeps every picture paired with its own time, and loses none.
pub(crate) struct Pictures<R> {
    input: R,
    length: u64,
    track: Track,
    order: Order,
    sps: Sps,
    color: ColorSpec,
    decoder: Decoder,
    /// Next in stored order.
    next: usize,
    /// Which of the track's configurations the decoder knows.
    config: Option<u32>,
    held: BTreeMap<u32, Held>,
    pool: Vec<Vec<u8>>,
    coded: Vec<u8>,
    packet: Vec<u8>,
    /// Told once all pictures before it are out.
    damage: Option<Error>,
}

impl<R: Read + Seek> Pictures<R> {
    /// Read the tables, check that openh264 is able to decode the stream, and decode the first picture.
    pub(crate) fn new(mut input: R) -> Result<Self> {
        let Headers { length, track, sps, color } = Headers::read(&mut input)?;
        let mut pictures = Self {
            input,
            length,
            order: Order::new(&track.samples),
            track,
            sps,
            color,
            decoder: new_decoder()?,
            next: 0,
            config: None,
            held: BTreeMap::new(),
            pool: Vec::new(),
            coded: Vec::new(),
            packet: Vec::new(),
            damage: None,
        };
        pictures.rewind()?;
        if pictures.held.is_empty() {
            return Err(Error::new(ErrorKind::Input, "no picture could be decoded from its video track"));
        }
        Ok(pictures)
    }

    /// Back to the first picture, which is decoded at once.
    fn rewind(&mut self) -> Result<()> {
        self.decoder = new_decoder()?;
        self.pool.extend(std::mem::take(&mut self.held).into_values().map(|h| h.planes));
        (self.next, self.config) = (0, None);
        self.damage = self.track.damage.as_ref().map(|what| Error::new(ErrorKind::Input, what.clone()));
        while self.held.is_empty() && self.next < self.track.samples.len() {
            self.decode(&mut |_| Ok(false)).map_err(|e| {
                // A stream that fails on its first picture is more likely odd than damaged.
                if e.kind() == ErrorKind::Input && self.next == 1 && self.whole(0) {
                    Error::new(ErrorKind::Unsupported, format!("openh264 cannot decode it: {e}"))
                } else {
                    e
                }
            })?;
        }
        // Between opening and the first question a network may be loaded: no picture is as old as that.
        self.held.values_mut().for_each(|held| held.captured = None);
        Ok(())
    }

    /// Whether a sample lies in the file.
    fn whole(&self, index: usize) -> bool {
        let sample = self.track.samples[index];
        sample.offset.saturating_add(sample.size.into()) <= self.length
    }

    /// Show the next picture to `show`. `false`: there is no more.
    pub(crate) fn next(&mut self, mut show: impl FnMut(Picture<'_>) -> Result<()>) -> Result<bool> {
        let asked = Instant::now();
        loop {
            let last = self.next == self.track.samples.len();
            if let Some(first) = self.held.first_entry()
                && (last || *first.key() < self.order.undecoded(self.next) || self.held.len() > MAX_HELD)
            {
                let held = self.held.pop_first().map(|(_, held)| held);
                let Some(Held { planes, time, captured }) = held else { continue };
                let picture = Picture {
                    planes: Planes::packed(&planes, self.sps.size, Chroma::C420),
                    turn: self.track.turn,
                    time,
                    captured: captured.unwrap_or(asked),
                };
                let shown = show(picture);
                self.pool.push(planes);
                return shown.map(|()| true);
            }
            if last {
                return self.damage.take().map_or(Ok(false), Err);
            }
            match self.decode(&mut |picture| show(picture).map(|()| true)) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                // What was decoded before is shown first.
                Err(e) => {
                    self.damage = Some(e);
                    self.next = self.track.samples.len();
                }
            }
        }
    }

    /// Decode the next sample. Its picture is given to `show` if its turn has come, and kept if it has not or
    /// `show` declines (`false`). Returns whether it was shown.
    fn decode(&mut self, show: &mut dyn FnMut(Picture<'_>) -> Result<bool>) -> Result<bool> {
        let index = self.next;
        self.next += 1;
        let sample = self.track.samples[index];
        let time = time(sample, self.track.timescale);
        let place = || {
            let number = self.order.place(index).map_or_else(|| index.to_string(), |n| n.to_string());
            format!("frame {number} (byte {}, {:.3} s)", sample.offset, time.as_secs_f64())
        };
        let damaged = |what: &str| Error::new(ErrorKind::Input, format!("{} {what}", place()));
        let Config::Avc { length_size, sets, .. } = &self.track.configs[sample.config as usize] else {
            return Err(damaged("changes to another codec"));
        };
        read_sample(&mut self.input, self.length, sample, &mut self.coded).map_err(|e| e.context(place()))?;
        self.packet.clear();
        if self.config.replace(sample.config) != Some(sample.config) {
            sets.iter().for_each(|set| append(&mut self.packet, set));
        }
        let mut coded_picture = false;
        for nal in (Nals { rest: &self.coded, length_size: *length_size }) {
            let nal = nal.map_err(|()| damaged("is damaged"))?;
            coded_picture |= matches!(nal.first().map(|head| head & 0x1f), Some(1..=5));
            append(&mut self.packet, nal);
        }
        let captured = Instant::now();
        let decoded = self
            .decoder
            .decode(&self.packet)
            .map_err(|e| damaged(&format!("is damaged (openh264: {})", reason(&e))))?;
        let Some(decoded) = decoded else {
            // Some samples hold nothing but remarks.
            return if coded_picture {
                Err(damaged("is damaged: openh264 made no picture of it"))
            } else {
                Ok(false)
            };
        };
        let (width, height) = decoded.dimensions();
        let size = self.sps.size;
        if (width, height) != (size.width, size.height) {
            return Err(damaged(&format!(
                "is {width}×{height}, but the video began as {size}: the size may not change in mid-stream"
            )));
        }
        let Some(place) = self.order.place(index) else { return Ok(false) };
        let planes = planes(&decoded, size);
        let ready = place < self.order.undecoded(self.next)
            && self.held.first_key_value().is_none_or(|(first, _)| place < *first);
        if ready && show(Picture { planes, turn: self.track.turn, time, captured })? {
            return Ok(true);
        }
        let mut copy = self.pool.pop().unwrap_or_default();
        pack(planes, &mut copy);
        self.held.insert(place, Held { planes: copy, time, captured: Some(captured) });
        Ok(false)
    }
}

/// What is known before anything is decoded.
struct Headers {
    length: u64,
    track: Track,
    sps: Sps,
    color: ColorSpec,
}

impl Headers {
    fn read<R: Read + Seek>(input: &mut R) -> Result<Self> {
        let length = input.seek(SeekFrom::End(0)).map_err(|e| Error::io("it cannot be read", e))?;
        let track = read_track(input, length)?;
        let first = track.samples[0];
        let (length_size, sets, signal) = match &track.configs[first.config as usize] {
            Config::Avc { length_size, sets, signal } => (*length_size, sets, *signal),
            Config::Other(codec) => return Err(unsupported(&format!("the codec {codec}"))),
        };
        if track.turn == Turn::Odd {
            return Err(unsupported("a mirrored or oddly turned picture"));
        }
        // The first parameter set that counts is the stream's own, if it has one.
        let mut coded = Vec::new();
        read_sample(input, length, first, &mut coded)?;
        let sps = Nals { rest: &coded, length_size }
            .filter_map(std::result::Result::ok)
            .chain(sets.iter().map(Vec::as_slice))
            .find(|nal| nal.first().is_some_and(|head| head & 0x1f == 7))
            .ok_or_else(|| Error::new(ErrorKind::Input, "its H.264 headers (parameter sets) are missing"))?;
        let sps = Sps::parse(sps)?;
        if let Some(what) = &sps.unsupported {
            return Err(unsupported(what));
        }
        let color = sps.signal.or(signal, sps.size.height);
        Ok(Self { length, track, sps, color })
    }
}

/// Everything up to the decoder's door, for the fuzzer.
pub(crate) fn inspect<R: Read + Seek>(mut input: R) {
    let Ok(headers) = Headers::read(&mut input) else { return };
    let order = Order::new(&headers.track.samples);
    let _ = order.rate(&headers.track);
    let mut coded = Vec::new();
    for (index, &sample) in headers.track.samples.iter().enumerate() {
        let _ = (order.place(index), order.undecoded(index), time(sample, headers.track.timescale));
        let Config::Avc { length_size, .. } = headers.track.configs[sample.config as usize] else { continue };
        if read_sample(&mut input, headers.length, sample, &mut coded).is_err() {
            return;
        }
        for nal in (Nals { rest: &coded, length_size }).flatten() {
            let _ = Sps::parse(nal);
        }
    }
}

/// One picture in, one picture out ([`sps::immediate`]): the order is made here.
fn new_decoder() -> Result<Decoder> {
    let config = DecoderConfig::new().flush_after_decode(Flush::NoFlush);
    Decoder::with_api_config(OpenH264API::from_source(), config).map_err(|e| {
        Error::new(
            ErrorKind::Unsupported,
            format!("openh264 cannot start its decoder (code {})", e.native_code()),
        )
    })
}

/// What openh264's code says, as far as it says anything.
fn reason(error: &openh264::Error) -> String {
    let code = error.native_code();
    let mut reasons = Vec::new();
    for (bit, what) in [
        (0x02, "a reference picture is missing"),
        (0x04, "the data make no sense"),
        (0x08, "something it depends on is missing"),
        (0x10, "parameter sets are missing"),
        (0x40, "reference pictures are missing"),
    ] {
        if code & bit != 0 {
            reasons.push(what);
        }
    }
    if reasons.is_empty() { format!("code {code}") } else { reasons.join(", ") }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not decoded by framelane itself"))
}

/// The NAL units of a sample; `Err` where a length points beyond its end.
struct Nals<'a> {
    rest: &'a [u8],
    length_size: usize,
}

impl<'a> Iterator for Nals<'a> {
    type Item = std::result::Result<&'a [u8], ()>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let unit = self.rest.split_at_checked(self.length_size).and_then(|(length, rest)| {
            let length = length.iter().fold(0_usize, |n, &byte| n << 8 | usize::from(byte));
            rest.split_at_checked(length)
        });
        let Some((unit, rest)) = unit else {
            self.rest = &[];
            return Some(Err(()));
        };
        self.rest = rest;
        Some(Ok(unit))
    }
}

/// Append a NAL unit for the decoder.
fn append(packet: &mut Vec<u8>, nal: &[u8]) {
    if let Some(head) = nal.first() {
        packet.extend([0, 0, 0, 1]);
        if head & 0x1f == 7 {
            packet.extend(sps::immediate(nal));
        } else {
            packet.extend(nal);
        }
    }
}

fn read_sample<R: Read + Seek>(input: &mut R, length: u64, sample: Sample, out: &mut Vec<u8>) -> Result<()> {
    let Sample { offset, size, .. } = sample;
    if offset.saturating_add(size.into()) > length {
        return Err(Error::new(
            ErrorKind::Input,
            format!(
                "the file is cut off: it has {length} bytes, the picture would end at {}",
                offset.saturating_add(size.into())
            ),
        ));
    }
    if size > MAX_SAMPLE {
        return Err(Error::new(ErrorKind::Input, format!("a coded picture cannot have {size} bytes")));
    }
    out.resize(size as usize, 0);
    input
        .seek(SeekFrom::Start(offset))
        .and_then(|_| input.read_exact(out))
        .map_err(|e| Error::io("the file cannot be read", e))
}

fn time(sample: Sample, timescale: u32) -> Duration {
    let ticks = u128::try_from(sample.time).unwrap_or(0);
    Duration::from_nanos(u64::try_from(ticks * 1_000_000_000 / u128::from(timescale)).unwrap_or(u64::MAX))
}

fn planes<'a>(decoded: &'a DecodedYUV<'_>, size: ImageSize) -> Planes<'a> {
    let (y_stride, uv_stride, _) = decoded.strides();
    let (y, u, v) = (decoded.y(), decoded.u(), decoded.v());
    Planes { size, chroma: Chroma::C420, y, u, v, y_stride, uv_stride }
}

/// Copy planes without the room between their rows.
fn pack(planes: Planes<'_>, out: &mut Vec<u8>) {
    let (width, height) = planes.chroma.plane(planes.size);
    out.clear();
    for (plane, stride, width, height) in [
        (planes.y, planes.y_stride, planes.size.width, planes.size.height),
        (planes.u, planes.uv_stride, width, height),
        (planes.v, planes.uv_stride, width, height),
    ] {
        for row in plane.chunks(stride.max(1)).take(height) {
            out.extend(&row[..width]);
        }
    }
}

/// The size of a picture of `size` once turned.
fn turned(size: ImageSize, turn: Turn) -> ImageSize {
    match turn {
        Turn::Right | Turn::Left => ImageSize { width: size.height, height: size.width },
        Turn::None | Turn::Half | Turn::Odd => size,
    }
}

/// Turn an RGB picture of `size`.
fn turn_into(rgb: &[u8], size: ImageSize, turn: Turn, out: &mut [u8]) {
    let ImageSize { width, height } = size;
    let to = turned(size, turn);
    for (y, row) in out.chunks_exact_mut(to.width * 3).enumerate() {
        for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
            let (from_x, from_y) = match turn {
                Turn::Right => (y, height - 1 - x),
                Turn::Left => (width - 1 - y, x),
                Turn::Half => (width - 1 - x, height - 1 - y),
                Turn::None | Turn::Odd => (x, y),
            };
            pixel.copy_from_slice(&rgb[(from_y * width + from_x) * 3..][..3]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns() {
        // Two pixels side by side: red, green.
        let rgb = [255, 0, 0, 0, 255, 0];
        let size = ImageSize { width: 2, height: 1 };
        let mut out = [0; 6];
        for (turn, first_is_red) in
            [(Turn::None, true), (Turn::Right, true), (Turn::Half, false), (Turn::Left, false)]
        {
            turn_into(&rgb, size, turn, &mut out);
            assert_eq!(out[0] == 255, first_is_red, "{turn:?}");
        }
    }

    #[test]
    fn nal_units() {
        let units = |bytes: &[u8], length_size| {
            Nals { rest: bytes, length_size }.map(|n| n.map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        assert_eq!(units(&[0, 1, 7, 0, 0, 0, 2, 8, 9], 2), [Ok(vec![7]), Ok(vec![]), Ok(vec![8, 9])]);
        assert_eq!(units(&[2, 7], 1), [Err(())]);
        assert_eq!(units(&[0, 0], 4), [Err(())]);
    }
}
