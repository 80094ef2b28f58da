//! Writing H.264 into an MP4 file that can be played at any moment.
//!
//! While it grows, the file is fragmented: a short index (`moov`), then for each group of pictures a `moof`
//! with its `mdat`. If the program dies, whole groups stay playable. At the end an ordinary index is appended,
//! and the 16 bytes kept free after `ftyp` become the header of one `mdat` over everything between: from then
//! on it is an ordinary MP4 file, with exact duration and number of frames.

use framelane::frame::{ColorMatrix, ColorRange, ColorSpec, FrameRate, ImageSize};
use framelane::{Error, ErrorKind, Result};
use mp4_atom::{
    Avc1, Avcc, Co64, Codec, Colr, Dinf, Dref, Encode, Ftyp, Hdlr, Mdhd, Mdia, Mfhd, Minf, Moof, Moov, Mvex,
    Mvhd, Stbl, Stco, Stsc, StscEntry, Stsd, Stss, Stsz, StszSamples, Stts, SttsEntry, Tfdt, Tfhd, Tkhd,
    Traf, Trak, Trex, Trun, TrunEntry, Url, Visual, Vmhd,
};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const KEY: u32 = 0x0200_0000;
const NOT_KEY: u32 = 0x0101_0000;

/// An MP4 file being written.
pub(crate) struct Muxer {
    file: File,
    path: PathBuf,
    clock: Clock,
    /// Known from the first picture on.
    avc1: Option<Avc1>,
    /// Where the reserved header lies.
    reserved: u64,
    /// End of the last whole fragment.
    end: u64,
    written: Vec<Entry>,
    /// Their duration in ticks.
    time: u64,
    /// Offset and number of pictures of each fragment's data.
    chunks: Vec<(u64, u32)>,
    group: Vec<Entry>,
    data: Vec<u8>,
    finished: bool,
}

/// One coded picture.
#[derive(Clone, Copy)]
struct Entry {
    size: u32,
    duration: u32,
    key: bool,
}

/// A coded picture to be written.
pub(crate) struct Coded<'a> {
    /// NAL units with start codes, as encoders hand them out.
    pub annex_b: &'a [u8],
    /// Whether decoding can begin here.
    pub key: bool,
    /// When it is shown, if the source knows.
    pub pts: Option<Duration>,
}

impl Muxer {
    /// Create the file, replacing what is there.
    pub(crate) fn create(path: &Path, rate: FrameRate) -> Result<Self> {
        let file =
            File::create(path).map_err(|e| Error::io(format!("{} cannot be created", path.display()), e))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            clock: Clock::new(rate),
            avc1: None,
            reserved: 0,
            end: 0,
            written: Vec::new(),
            time: 0,
            chunks: Vec::new(),
            group: Vec::new(),
            data: Vec::new(),
            finished: false,
        })
    }

    /// Number of pictures given to it.
    pub(crate) fn frames(&self) -> u64 {
        (self.written.len() + self.group.len()) as u64
    }

    /// Add a picture of `size`; `color` is how it was made from RGB.
    ///
    /// # Errors
    /// If a group could not be written. What was whole before stays whole.
    pub(crate) fn add(&mut self, coded: &Coded<'_>, size: ImageSize, color: ColorSpec) -> Result<()> {
        if self.avc1.is_none() {
            let avc1 = describe(coded.annex_b, size, color)?;
            self.begin(&avc1)?;
            self.avc1 = Some(avc1);
        }
        let duration = self.clock.next(coded.pts);
        if let Some(last) = self.group.last_mut() {
            last.duration = duration;
        }
        if coded.key {
            self.write_group()?;
        }
        let before = self.data.len();
        for nal in nal_units(coded.annex_b) {
            // Parameter sets stand in the index.
            if !matches!(nal.first().map(|head| head & 0x1f), None | Some(7 | 8)) {
                self.data.extend((nal.len() as u32).to_be_bytes());
                self.data.extend(nal);
            }
        }
        let size = u32::try_from(self.data.len() - before)
            .map_err(|_| Error::new(ErrorKind::Input, "a coded picture is too large for an MP4 file"))?;
        self.group.push(Entry { size, duration: self.clock.frame, key: coded.key });
        Ok(())
    }

    /// Write what is left and the final index. Returns the file's length.
    ///
    /// # Errors
    /// If that fails; the file is then left as it was, playable up to the last whole group.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.finished = true;
        let Some(avc1) = self.avc1.clone() else {
            // No picture, no film: an empty file would only be in the way.
            drop(std::fs::remove_file(&self.path));
            return Ok(0);
        };
        self.write_group()?;
        let index = encode(&self.index(avc1))?;
        let end = self.end;
        self.append(&index)?;
        let mut header = [0, 0, 0, 1, b'm', b'd', b'a', b't', 0, 0, 0, 0, 0, 0, 0, 0];
        header[8..].copy_from_slice(&(end - self.reserved).to_be_bytes());
        self.file
            .seek(SeekFrom::Start(self.reserved))
            .and_then(|_| self.file.write_all(&header))
            .map_err(|e| failed(&self.path, e))?;
        Ok(self.end)
    }

    /// Write what comes before the first fragment.
    fn begin(&mut self, avc1: &Avc1) -> Result<()> {
        let brands = [b"isom", b"iso6", b"avc1", b"mp41"];
        let mut head = encode(&Ftyp {
            major_brand: b"isom".into(),
            minor_version: 512,
            compatible_brands: brands.map(Into::into).into(),
        })?;
        self.reserved = head.len() as u64;
        head.extend([0, 0, 0, 16, b'f', b'r', b'e', b'e', 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut moov = self.movie(avc1.clone(), 0);
        moov.mvex = Some(Mvex {
            mehd: None,
            trex: vec![Trex {
                track_id: 1,
                default_sample_description_index: 1,
                default_sample_duration: self.clock.frame,
                default_sample_size: 0,
                default_sample_flags: NOT_KEY,
            }],
        });
        head.extend(encode(&moov)?);
        self.append(&head)
    }

    /// Write the pictures gathered so far as a fragment.
    fn write_group(&mut self) -> Result<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        let samples: Vec<TrunEntry> = self
            .group
            .iter()
            .map(|entry| TrunEntry {
                duration: Some(entry.duration),
                size: Some(entry.size),
                flags: Some(if entry.key { KEY } else { NOT_KEY }),
                cts: None,
            })
            .collect();
        let mut moof = Moof {
            mfhd: Mfhd { sequence_number: self.chunks.len() as u32 + 1 },
            traf: vec![Traf {
                tfhd: Tfhd { track_id: 1, default_base_is_moof: true, ..Tfhd::default() },
                tfdt: Some(Tfdt { base_media_decode_time: self.time }),
                trun: vec![Trun { data_offset: Some(0), samples: samples.into() }],
                ..Traf::default()
            }],
        };
        // The offset counts from the start of the box whose length it is part of.
        let length = encode(&moof)?.len() + 8;
        moof.traf[0].trun[0].data_offset = i32::try_from(length).ok();
        let mut fragment = encode(&moof)?;
        let data = u32::try_from(self.data.len() + 8).map_err(|_| {
            Error::new(ErrorKind::Input, format!("{}: a group of pictures is too large", self.path.display()))
        })?;
        fragment.extend(data.to_be_bytes());
        fragment.extend(b"mdat");
        fragment.append(&mut self.data);
        let offset = self.end + length as u64;
        // Whatever happens, these pictures are dealt with: a failed group is not tried again.
        let group = std::mem::take(&mut self.group);
        self.append(&fragment)?;
        self.chunks.push((offset, group.len() as u32));
        self.time += group.iter().map(|e| u64::from(e.duration)).sum::<u64>();
        self.written.extend(group);
        Ok(())
    }

    /// Append to the file. If that fails, the file is cut back to what it was.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let done = self.file.write_all(bytes);
        if let Err(e) = done {
            // Not all targets can be cut (pipes, devices); then there is nothing to keep whole either.
            drop(self.file.set_len(self.end));
            drop(self.file.seek(SeekFrom::Start(self.end)));
            return Err(failed(&self.path, e));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// The frame of both indices.
    fn movie(&self, avc1: Avc1, duration: u64) -> Moov {
        let (width, height) = (avc1.visual.width, avc1.visual.height);
        let timescale = self.clock.timescale;
        Moov {
            mvhd: Mvhd {
                timescale,
                duration,
                rate: 1.into(),
                volume: 1.into(),
                next_track_id: 2,
                ..Mvhd::default()
            },
            trak: vec![Trak {
                tkhd: Tkhd {
                    track_id: 1,
                    duration,
                    enabled: true,
                    in_movie: true,
                    width: width.into(),
                    height: height.into(),
                    ..Tkhd::default()
                },
                mdia: Mdia {
                    mdhd: Mdhd { timescale, duration, language: "und".into(), ..Mdhd::default() },
                    hdlr: Hdlr { handler: b"vide".into(), name: "framelane".into() },
                    minf: Minf {
                        vmhd: Some(Vmhd::default()),
                        dinf: Dinf { dref: Dref { entries: vec![Url::default().into()] } },
                        stbl: Stbl {
                            stsd: Stsd { codecs: vec![Codec::Avc1(avc1)] },
                            stco: Some(Stco::default()),
                            ..Stbl::default()
                        },
                        ..Minf::default()
                    },
                },
                ..Trak::default()
            }],
            ..Moov::default()
        }
    }

    /// The final index.
    fn index(&self, avc1: Avc1) -> Moov {
        let mut moov = self.movie(avc1, self.time);
        let stbl = &mut moov.trak[0].mdia.minf.stbl;
        let mut times = Vec::<SttsEntry>::new();
        for entry in &self.written {
            match times.last_mut() {
                Some(last) if last.sample_delta == entry.duration => last.sample_count += 1,
                _ => times.push(SttsEntry { sample_count: 1, sample_delta: entry.duration }),
            }
        }
        let mut runs = Vec::<StscEntry>::new();
        for (number, &(_, samples_per_chunk)) in self.chunks.iter().enumerate() {
            if runs.last().is_none_or(|last| last.samples_per_chunk != samples_per_chunk) {
                let first_chunk = number as u32 + 1;
                runs.push(StscEntry { first_chunk, samples_per_chunk, sample_description_index: 1 });
            }
        }
        let keys = self.written.iter().zip(1..).filter(|(entry, _)| entry.key).map(|(_, number)| number);
        stbl.stts = Stts { entries: times };
        stbl.stsc = Stsc { entries: runs };
        stbl.stss = Some(Stss { entries: keys.collect() });
        let sizes = self.written.iter().map(|e| e.size).collect();
        stbl.stsz = Stsz { samples: StszSamples::Different { sizes } };
        if self.end > u32::MAX.into() {
            stbl.stco = None;
            stbl.co64 = Some(Co64 { entries: self.chunks.iter().map(|c| c.0).collect() });
        } else {
            stbl.stco = Some(Stco { entries: self.chunks.iter().map(|c| c.0 as u32).collect() });
        }
        moov
    }
}

impl Drop for Muxer {
    /// Not finished, for whatever reason: at least write what there is.
    fn drop(&mut self) {
        if !self.finished
            && let Err(e) = self.write_group()
        {
            log::warn!("{e}");
        }
    }
}

/// Turns presentation times into durations.
struct Clock {
    timescale: u32,
    /// Ticks of one frame at the nominal rate.
    frame: u32,
    /// Ticks of the last picture, and what to add to the source's times to get ours.
    last: Option<u64>,
    shift: i128,
}

impl Clock {
    fn new(rate: FrameRate) -> Self {
        // Fine enough for uneven times, and a multiple of the rate so that even ones stay exact.
        let fine = (10_000 / rate.num.max(1)).max(1);
        match (rate.num.checked_mul(fine), rate.den.checked_mul(fine)) {
            (Some(timescale @ 1..), Some(frame @ 1..)) => Self { timescale, frame, last: None, shift: 0 },
            _ => Self { timescale: 90_000, frame: 3_000, last: None, shift: 0 },
        }
    }

    /// Ticks between the previous picture and this one; 0 for the first.
    fn next(&mut self, pts: Option<Duration>) -> u32 {
        let ticks = pts.map(|pts| {
            let ticks = (pts.as_nanos() * u128::from(self.timescale) + 500_000_000) / 1_000_000_000;
            i128::try_from(ticks).unwrap_or(0)
        });
        let Some(last) = self.last else {
            self.last = Some(0);
            self.shift = -ticks.unwrap_or(0);
            return 0;
        };
        let even = last + u64::from(self.frame);
        let now = match ticks {
            None => even,
            Some(ticks) => match u64::try_from(ticks + self.shift) {
                Ok(now) if now > last => now,
                // Time went backwards (the source began anew): go on at the nominal rate.
                _ => {
                    self.shift = i128::from(even) - ticks;
                    even
                }
            },
        };
        let duration = u32::try_from(now - last).unwrap_or(u32::MAX);
        self.last = Some(last + u64::from(duration));
        duration
    }
}

/// The stream's description, from its first picture.
fn describe(annex_b: &[u8], size: ImageSize, color: ColorSpec) -> Result<Avc1> {
    let set = |kind: u8| nal_units(annex_b).find(|nal| nal.first().is_some_and(|head| head & 0x1f == kind));
    let avcc = set(7).zip(set(8)).and_then(|(sps, pps)| Avcc::new(sps, pps).ok());
    let avcc = avcc.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "the H.264 encoder gave no parameter sets with its first picture")
    })?;
    let (width, height) = (u16::try_from(size.width).ok(), u16::try_from(size.height).ok());
    let (Some(width), Some(height)) = (width, height) else {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("an MP4 file cannot have pictures of {size}"),
        ));
    };
    let code = match color.matrix {
        ColorMatrix::Bt601 => 6,
        ColorMatrix::Bt709 => 1,
    };
    Ok(Avc1 {
        visual: Visual { data_reference_index: 1, width, height, ..Visual::default() },
        avcc,
        colr: Some(Colr::Nclx {
            colour_primaries: code,
            transfer_characteristics: code,
            matrix_coefficients: code,
            full_range_flag: color.range == ColorRange::Full,
        }),
        ..Avc1::default()
    })
}

/// The NAL units between start codes.
fn nal_units(annex_b: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = after_start_code(annex_b).unwrap_or_default();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let code = rest.windows(3).position(|w| w == [0, 0, 1]);
        let unit = &rest[..code.unwrap_or(rest.len())];
        rest = after_start_code(rest).unwrap_or_default();
        // A longer start code, or padding: a unit itself never ends in a zero byte.
        Some(&unit[..unit.len() - unit.iter().rev().take_while(|&&b| b == 0).count()])
    })
}

fn after_start_code(bytes: &[u8]) -> Option<&[u8]> {
    bytes.windows(3).position(|w| w == [0, 0, 1]).map(|at| &bytes[at + 3..])
}

fn encode(atom: &impl Encode) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    atom.encode(&mut bytes)
        .map_err(|e| Error::new(ErrorKind::Unsupported, format!("the MP4 index cannot be written: {e}")))?;
    Ok(bytes)
}

fn failed(path: &Path, e: std::io::Error) -> Error {
    crate::sink::write_failed(&path.display().to_string(), e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_between_start_codes() {
        let stream = [0, 0, 0, 1, 0x67, 7, 0, 0, 1, 0x68, 8, 0, 0, 0, 1, 0x65, 0, 9, 0, 0];
        assert_eq!(nal_units(&stream).collect::<Vec<_>>(), [&[0x67, 7][..], &[0x68, 8], &[0x65, 0, 9]]);
        assert_eq!(nal_units(&[1, 2, 3]).count(), 0);
        assert_eq!(nal_units(&[]).count(), 0);
    }

    #[test]
    fn even_times_stay_exact() {
        let rate = FrameRate { num: 30000, den: 1001 };
        let mut clock = Clock::new(rate);
        assert_eq!((clock.timescale, clock.frame), (30000, 1001));
        let durations: Vec<_> = (5..105).map(|i| clock.next(Some(crate::open::pts(i, rate)))).collect();
        assert_eq!(durations[0], 0);
        assert!(durations[1..].iter().all(|&d| d == 1001));
    }

    #[test]
    fn uneven_missing_and_backward_times() {
        let mut clock = Clock::new(FrameRate { num: 10, den: 1 });
        assert_eq!((clock.timescale, clock.frame), (10_000, 1000));
        let ms = |ms| Some(Duration::from_millis(ms));
        let durations =
            [ms(100), ms(150), ms(450), None, ms(0), ms(100), ms(100), ms(200)].map(|t| clock.next(t));
        assert_eq!(durations, [0, 500, 3000, 1000, 1000, 1000, 1000, 1000]);
        let mut clock = Clock::new(FrameRate { num: u32::MAX, den: u32::MAX });
        assert_eq!(clock.next(None), 0);
        assert!(clock.next(ms(1 << 60)) > 0);
    }
}
