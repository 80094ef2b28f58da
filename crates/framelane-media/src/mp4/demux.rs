//! The tables of an MP4 file: where its pictures lie and when they are shown.
//!
//! Containers are walked here, tolerantly, and only the tables that matter are decoded: an odd box of a
//! phone or an editor never makes a film unreadable.

use super::sps::Signal;
use framelane::{Error, ErrorKind, Result};
use mp4_atom::{
    Atom, Co64, Ctts, Elst, Mdhd, Mvhd, Stco, Stsc, Stsz, StszSamples, Stts, Tfdt, Tfhd, Tkhd, Trex, Trun,
};
use std::io::{Read, Seek, SeekFrom};

/// A video track.
#[derive(Debug)]
pub(crate) struct Track {
    /// Ticks per second of [`Sample::time`].
    pub timescale: u32,
    /// One for each kind of stream in the track; nearly always one.
    pub configs: Vec<Config>,
    /// In the order they are stored and decoded.
    pub samples: Vec<Sample>,
    /// How the pictures are turned to be shown.
    pub turn: Turn,
    /// Whether the film has sound, which is not read.
    pub sound: bool,
    /// What is wrong after the last of `samples`, if the tables end too early.
    pub damage: Option<String>,
}

/// How to decode samples.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Config {
    /// H.264.
    Avc {
        /// Bytes of the length in front of each NAL unit.
        length_size: usize,
        /// Sequence and picture parameter sets, each a NAL unit.
        sets: Vec<Vec<u8>>,
        /// Colours by the container's account.
        signal: Signal,
    },
    /// Any other codec, by its four letters.
    Other(String),
}

/// One coded picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub offset: u64,
    pub size: u32,
    /// Index into [`Track::configs`].
    pub config: u32,
    /// When it is shown, in ticks from the start of the film.
    pub time: i64,
    /// Whether it is shown at all, or only needed to decode others (cut off by an edit list).
    pub shown: bool,
}

/// Clockwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    None,
    Right,
    Half,
    Left,
    /// Mirrored, skewed or turned by another angle.
    Odd,
}

/// 155 hours at 30 frames per second. A table that claims more is damaged.
const MAX_SAMPLES: usize = 1 << 24;

/// Read the tables of the first video track of a file of `length` bytes.
pub(crate) fn read_track<R: Read + Seek>(input: &mut R, length: u64) -> Result<Track> {
    let mut movie: Option<Movie> = None;
    let mut fragments = Fragments::default();
    let mut damage = None;
    let mut at = 0;
    while at < length {
        let Some(found) = read_header(input, at, length)? else {
            damage = Some("the file is cut off".to_owned());
            break;
        };
        match &found.kind {
            b"moov" if movie.is_none() => {
                let body = read_body(input, &found)?;
                if (body.len() as u64) < found.body {
                    return Err(input_error("its index (moov) is cut off"));
                }
                movie = Some(Movie::parse(&body, length)?);
            }
            b"moof" => {
                let body = read_body(input, &found)?;
                if (body.len() as u64) < found.body {
                    damage = Some("the file is cut off".to_owned());
                } else if let Some(movie) = &mut movie {
                    fragments.add(movie, &body, found.start);
                }
            }
            _ => {}
        }
        at = found.end;
        if at > length {
            damage = Some("the file is cut off".to_owned());
        }
    }
    let movie = movie.ok_or_else(|| {
        input_error("it has no index (moov): either it is no MP4 file, or it was cut off before its end")
    })?;
    let mut track = movie.finish()?;
    if track.samples.is_empty() {
        return Err(input_error(damage.unwrap_or_else(|| "its video track has no pictures".into())));
    }
    track.damage = track.damage.or(damage);
    Ok(track)
}

/// A box in the file.
struct Found {
    kind: [u8; 4],
    start: u64,
    /// Length of the body.
    body: u64,
    /// Where the next box begins: beyond the file's end if the box is cut off.
    end: u64,
    header: u64,
}

/// `None`: there is no whole header, or one that makes no sense.
fn read_header<R: Read + Seek>(input: &mut R, start: u64, length: u64) -> Result<Option<Found>> {
    let mut head = Vec::with_capacity(16);
    input.seek(SeekFrom::Start(start)).map_err(io_error)?;
    input.by_ref().take(16).read_to_end(&mut head).map_err(io_error)?;
    let Some((kind, size, header)) = parse_header(&head) else { return Ok(None) };
    let size = size.unwrap_or(length - start);
    if size < header {
        return Ok(None);
    }
    Ok(Some(Found { kind, start, body: size - header, end: start.saturating_add(size), header }))
}

/// Kind, size with header (`None`: to the end), size of the header.
fn parse_header(head: &[u8]) -> Option<([u8; 4], Option<u64>, u64)> {
    let size = u32::from_be_bytes(*head.first_chunk()?);
    let kind = *head.get(4..)?.first_chunk()?;
    Some(match size {
        0 => (kind, None, 8),
        1 => (kind, Some(u64::from_be_bytes(*head.get(8..)?.first_chunk()?)), 16),
        size => (kind, Some(size.into()), 8),
    })
}

/// As much of the body as there is.
fn read_body<R: Read + Seek>(input: &mut R, found: &Found) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    input.seek(SeekFrom::Start(found.start + found.header)).map_err(io_error)?;
    input.by_ref().take(found.body).read_to_end(&mut body).map_err(io_error)?;
    Ok(body)
}

/// The boxes in a box. Ends at the first that does not fit.
struct Boxes<'a>(&'a [u8]);

impl<'a> Iterator for Boxes<'a> {
    type Item = ([u8; 4], &'a [u8]);
    fn next(&mut self) -> Option<Self::Item> {
        let (kind, size, header) = parse_header(self.0)?;
        let size = size.map_or(Some(self.0.len()), |s| usize::try_from(s).ok())?;
        let body = self.0.get(header as usize..size)?;
        self.0 = &self.0[size..];
        Some((kind, body))
    }
}

/// The body of the box that a path leads to.
fn find<'a>(body: &'a [u8], path: &[&[u8; 4]]) -> Option<&'a [u8]> {
    path.iter().try_fold(body, |body, kind| Boxes(body).find(|(k, _)| k == *kind).map(|(_, b)| b))
}

/// Decode the table at a path; an error names it.
fn table<T: Atom>(body: &[u8], path: &[&[u8; 4]]) -> Result<T> {
    optional(body, path)?.ok_or_else(|| input_error(format!("its index lacks the table {}", T::KIND)))
}

fn optional<T: Atom>(body: &[u8], path: &[&[u8; 4]]) -> Result<Option<T>> {
    find(body, path)
        .map(|mut body| {
            T::decode_body(&mut body)
                .map_err(|e| input_error(format!("its index is damaged in the table {}: {e}", T::KIND)))
        })
        .transpose()
}

/// What `moov` says about the video track.
struct Movie {
    id: u32,
    timescale: u32,
    movie_timescale: u32,
    configs: Vec<Config>,
    turn: Turn,
    sound: bool,
    edits: Option<Elst>,
    /// Times are in media ticks until [`Movie::finish`].
    samples: Vec<Sample>,
    defaults: Option<Trex>,
    /// Decoding time after the last sample.
    next_time: i64,
    damage: Option<String>,
    length: u64,
}

impl Movie {
    fn parse(moov: &[u8], length: u64) -> Result<Self> {
        let header: Mvhd = table(moov, &[b"mvhd"])?;
        let track_of = |handler: &[u8]| {
            let mut tracks = Boxes(moov).filter(|(kind, _)| kind == b"trak").map(|(_, body)| body);
            tracks.find(|body| find(body, &[b"mdia", b"hdlr"]).and_then(|h| h.get(8..12)) == Some(handler))
        };
        let trak = track_of(b"vide").ok_or_else(|| input_error("there is no video track in it"))?;
        let shown: Tkhd = table(trak, &[b"tkhd"])?;
        let media: Mdhd = table(trak, &[b"mdia", b"mdhd"])?;
        if media.timescale == 0 || header.timescale == 0 {
            return Err(input_error("its clock has no ticks (a timescale of 0)"));
        }
        let stbl = find(trak, &[b"mdia", b"minf", b"stbl"])
            .ok_or_else(|| input_error("its index lacks the table stbl"))?;
        let configs = read_configs(stbl)?;
        let mut defaults = None;
        for (kind, mut body) in find(moov, &[b"mvex"]).map(Boxes).into_iter().flatten() {
            if &kind == b"trex" {
                let trex =
                    Trex::decode_body(&mut body).map_err(|e| input_error(format!("damaged trex: {e}")))?;
                if trex.track_id == shown.track_id {
                    defaults = Some(trex);
                }
            }
        }
        let mut movie = Self {
            id: shown.track_id,
            timescale: media.timescale,
            movie_timescale: header.timescale,
            configs,
            turn: turn(&shown),
            sound: track_of(b"soun").is_some(),
            edits: optional(trak, &[b"edts", b"elst"])?,
            samples: Vec::new(),
            defaults,
            next_time: 0,
            damage: None,
            length,
        };
        // Fragmented files may leave these tables empty, or out.
        if find(stbl, &[b"stsz"]).is_some() {
            movie.read_samples(stbl)?;
        }
        Ok(movie)
    }

    fn read_samples(&mut self, stbl: &[u8]) -> Result<()> {
        let sizes = match table::<Stsz>(stbl, &[b"stsz"])?.samples {
            // No more than the file can hold: the count alone proves nothing.
            StszSamples::Identical { count, size } => {
                let most = self.length / u64::from(size.max(1)) + 1;
                vec![size; u64::from(count).min(most).min(MAX_SAMPLES as u64) as usize]
            }
            StszSamples::Different { sizes } => sizes,
        };
        let chunks: Vec<u64> = match optional::<Stco>(stbl, &[b"stco"])? {
            Some(stco) => stco.entries.into_iter().map(u64::from).collect(),
            None => optional::<Co64>(stbl, &[b"co64"])?.map(|c| c.entries).unwrap_or_default(),
        };
        let runs = optional::<Stsc>(stbl, &[b"stsc"])?.map(|s| s.entries).unwrap_or_default();
        let deltas = optional::<Stts>(stbl, &[b"stts"])?.map(|s| s.entries).unwrap_or_default();
        let offsets = optional::<Ctts>(stbl, &[b"ctts"])?.map(|c| c.entries).unwrap_or_default();
        let mut deltas = Runs::new(deltas.into_iter().map(|e| (e.sample_count, e.sample_delta)));
        // Written as unsigned, meant as signed: so do QuickTime and every player.
        let mut offsets =
            Runs::new(offsets.into_iter().map(|e| (e.sample_count, e.sample_offset as u32 as i32)));
        let mut sizes = sizes.into_iter();
        let total = sizes.len();
        let mut run = 0;
        for (number, &chunk) in chunks.iter().enumerate() {
            while runs.get(run + 1).is_some_and(|next| next.first_chunk as usize <= number + 1) {
                run += 1;
            }
            let Some(this) = runs.get(run) else { break };
            let config = this.sample_description_index.saturating_sub(1);
            let mut offset = chunk;
            for size in sizes.by_ref().take(this.samples_per_chunk as usize) {
                let time = self.next_time.saturating_add(offsets.next().unwrap_or(0).into());
                self.samples.push(Sample { offset, size, config, time, shown: true });
                self.next_time = self.next_time.saturating_add(deltas.next().unwrap_or(0).into());
                offset = offset.saturating_add(size.into());
            }
        }
        if self.samples.len() < total {
            self.damage = Some(format!(
                "its index names {total} pictures but says only of {} where they are",
                self.samples.len()
            ));
        }
        Ok(())
    }

    /// Apply the edit list and check what the samples refer to.
    fn finish(mut self) -> Result<Track> {
        if let Some(bad) = self.samples.iter().position(|s| s.config as usize >= self.configs.len()) {
            self.samples.truncate(bad);
            self.damage = Some("its index refers to a stream description that is not there".into());
        }
        self.edit();
        Ok(Track {
            timescale: self.timescale,
            configs: self.configs,
            samples: self.samples,
            turn: self.turn,
            sound: self.sound,
            damage: self.damage,
        })
    }

    /// An empty edit delays the film; one other edit says which part of it is shown. Films cut together
    /// from several parts are shown whole, in stored order.
    fn edit(&mut self) {
        let ticks = |movie: u64| {
            i64::try_from(u128::from(movie) * u128::from(self.timescale) / u128::from(self.movie_timescale))
                .unwrap_or(i64::MAX)
        };
        let entries = self.edits.take().map(|e| e.entries).unwrap_or_default();
        let delay = entries
            .iter()
            .take_while(|e| e.media_time.is_none())
            .fold(0_i64, |sum, e| sum.saturating_add(ticks(e.segment_duration)));
        let parts: Vec<_> = entries.iter().filter(|e| e.media_time.is_some()).collect();
        let start = parts.first().and_then(|e| i64::try_from(e.media_time?).ok()).unwrap_or(0);
        let end = match parts.as_slice() {
            // Durations are rounded to the movie's coarser clock: a tick of it is no reason to lose a frame.
            [part] if part.segment_duration > 0 => {
                start.saturating_add(ticks(part.segment_duration.saturating_add(1)))
            }
            _ => i64::MAX,
        };
        let trimmed = parts.len() == 1;
        for sample in &mut self.samples {
            sample.shown = !trimmed || (start..end).contains(&sample.time);
            sample.time = sample.time.saturating_sub(start).saturating_add(delay);
        }
        // An edit list that shows nothing at all is nonsense.
        if self.samples.iter().all(|s| !s.shown) {
            for sample in &mut self.samples {
                sample.shown = true;
            }
        }
    }
}

/// Samples of `moof` boxes.
#[derive(Default)]
struct Fragments {
    /// Where the data of the previous track fragment ended.
    data_end: u64,
}

impl Fragments {
    /// Add the samples of one `moof` that lies at `start`. A damaged one ends the film.
    fn add(&mut self, movie: &mut Movie, moof: &[u8], start: u64) {
        if movie.damage.is_some() {
            return;
        }
        self.data_end = start;
        for (kind, traf) in Boxes(moof) {
            if &kind == b"traf" && self.add_track(movie, traf, start).is_none() {
                movie.damage = Some("the index of a fragment (moof) is damaged".into());
                return;
            }
        }
    }

    fn add_track(&mut self, movie: &mut Movie, traf: &[u8], start: u64) -> Option<()> {
        let header = Tfhd::decode_body(&mut find(traf, &[b"tfhd"])?).ok()?;
        let ours = header.track_id == movie.id;
        let base = match header.base_data_offset {
            Some(offset) => offset,
            None if header.default_base_is_moof => start,
            None => self.data_end,
        };
        if let Some(mut body) = find(traf, &[b"tfdt"]).filter(|_| ours) {
            let time = Tfdt::decode_body(&mut body).ok()?.base_media_decode_time;
            movie.next_time = i64::try_from(time).ok()?;
        }
        let defaults = movie.defaults.as_ref();
        let default_duration =
            header.default_sample_duration.or(defaults.map(|d| d.default_sample_duration)).unwrap_or(0);
        let default_size =
            header.default_sample_size.or(defaults.map(|d| d.default_sample_size)).unwrap_or(0);
        let config = header
            .sample_description_index
            .or(defaults.map(|d| d.default_sample_description_index))
            .unwrap_or(1)
            .saturating_sub(1);
        let mut offset = base;
        for (_, mut body) in Boxes(traf).filter(|(kind, _)| kind == b"trun") {
            let run = Trun::decode_body(&mut body).ok()?;
            if let Some(from_base) = run.data_offset {
                offset = base.checked_add_signed(from_base.into())?;
            }
            for entry in &run.samples {
                let size = entry.size.unwrap_or(default_size);
                // Also bounds runs that claim billions of pictures without listing them.
                if offset > movie.length {
                    return Some(());
                }
                if size == 0 || movie.samples.len() == MAX_SAMPLES {
                    return None;
                }
                if ours {
                    let shift = entry.cts.map_or(0, |cts| cts as u32 as i32);
                    let time = movie.next_time.saturating_add(shift.into());
                    movie.samples.push(Sample { offset, size, config, time, shown: true });
                    let duration = entry.duration.unwrap_or(default_duration);
                    movie.next_time = movie.next_time.saturating_add(duration.into());
                }
                offset += u64::from(size);
            }
        }
        self.data_end = offset;
        Some(())
    }
}

/// The stream descriptions (`stsd`).
fn read_configs(stbl: &[u8]) -> Result<Vec<Config>> {
    let entries = find(stbl, &[b"stsd"]).and_then(|body| body.get(8..)).unwrap_or_default();
    let mut configs = Vec::new();
    for (kind, body) in Boxes(entries) {
        configs.push(match &kind {
            b"avc1" | b"avc3" => {
                // The fields of a visual sample entry come before its boxes.
                let boxes = body.get(78..).unwrap_or_default();
                find(boxes, &[b"avcC"])
                    .and_then(|body| read_avc(body, read_colr(boxes)))
                    .ok_or_else(|| input_error("its H.264 description (avcC) is missing or damaged"))?
            }
            _ => Config::Other(String::from_utf8_lossy(&kind).trim().to_owned()),
        });
    }
    if configs.is_empty() {
        return Err(input_error("its index does not say how the video is coded (stsd)"));
    }
    Ok(configs)
}

fn read_avc(mut body: &[u8], signal: Signal) -> Option<Config> {
    let mut take = |count: usize| {
        let (head, rest) = body.split_at_checked(count)?;
        body = rest;
        Some(head)
    };
    let head = take(5)?;
    let length_size = usize::from(head[4] & 3) + 1;
    let mut sets = Vec::new();
    for mask in [0x1f, 0xff] {
        for _ in 0..take(1)?[0] & mask {
            let length = u16::from_be_bytes(*take(2)?.first_chunk()?);
            sets.push(take(length.into())?.to_vec());
        }
    }
    (head[0] == 1).then_some(Config::Avc { length_size, sets, signal })
}

fn read_colr(boxes: &[u8]) -> Signal {
    let field = |body: &[u8], at: usize| body.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    find(boxes, &[b"colr"])
        .and_then(|body| {
            let matrix = field(body, 8)?;
            match body.first_chunk()? {
                b"nclx" => Some(Signal::new(matrix.into(), body.get(10)? & 0x80 != 0)),
                // QuickTime's says nothing about the range.
                b"nclc" => Some(Signal { range: None, ..Signal::new(matrix.into(), false) }),
                _ => None,
            }
        })
        .unwrap_or_default()
}

fn turn(header: &Tkhd) -> Turn {
    let m = &header.matrix;
    match [m.a, m.b, m.c, m.d].map(i32::signum) {
        // An all-zero matrix is written by some tools and means nothing.
        [1, 0, 0, 1] | [0, 0, 0, 0] => Turn::None,
        [0, 1, -1, 0] => Turn::Right,
        [-1, 0, 0, -1] => Turn::Half,
        [0, -1, 1, 0] => Turn::Left,
        _ => Turn::Odd,
    }
}

/// Values written as runs.
struct Runs<I, T> {
    runs: I,
    left: u32,
    value: Option<T>,
}

impl<I: Iterator<Item = (u32, T)>, T: Copy> Runs<I, T> {
    fn new(runs: I) -> Self {
        Self { runs, left: 0, value: None }
    }

    /// The next value; the last one is repeated if the runs are too short.
    fn next(&mut self) -> Option<T> {
        while self.left == 0 {
            match self.runs.next() {
                Some((count, value)) => (self.left, self.value) = (count, Some(value)),
                None => return self.value,
            }
        }
        self.left -= 1;
        self.value
    }
}

fn input_error(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Input, what)
}

fn io_error(e: std::io::Error) -> Error {
    Error::io("it cannot be read", e)
}
