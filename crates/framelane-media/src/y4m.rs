//! YUV4MPEG2 (`.y4m`): reading it from files and pipes, and its headers.

use crate::color::{Chroma, Planes, describe};
use crate::open::{VideoInfo, VideoSource, pts, short_name};
use crate::pipe::PipeReader;
use framelane::feed::{Interrupter, SlotWriter, Source};
use framelane::frame::{ColorRange, ColorSpec, FrameMeta, FrameRate, ImageSize};
use framelane::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// No header line may be longer: comments are rare and short.
const MAX_LINE: u64 = 4096;

/// What a stream's first line says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    pub size: ImageSize,
    pub rate: Option<FrameRate>,
    pub chroma: Chroma,
    pub color: ColorSpec,
}

impl Header {
    /// Parse the first line, without its line feed.
    pub(crate) fn parse(line: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(line);
        let mut words = text.split(' ');
        if words.next() != Some("YUV4MPEG2") {
            return Err(damaged("this is not a y4m stream: it does not begin with YUV4MPEG2"));
        }
        let (mut width, mut height, mut rate, mut chroma, mut range) =
            (None, None, None, Chroma::C420, ColorRange::Limited);
        for word in words.filter(|w| !w.is_empty()) {
            let Some(value) = word.get(1..) else { continue };
            let wrong = || damaged(format!("the y4m header has a field that makes no sense: {word:.40}"));
            match word.as_bytes()[0] {
                b'W' => width = Some(value.parse().map_err(|_| wrong())?),
                b'H' => height = Some(value.parse().map_err(|_| wrong())?),
                b'F' => {
                    let (num, den) = value.split_once(':').ok_or_else(wrong)?;
                    let (num, den): (u32, u32) = num.parse().ok().zip(den.parse().ok()).ok_or_else(wrong)?;
                    rate = (num > 0 && den > 0).then_some(FrameRate { num, den });
                }
                b'C' => chroma = parse_chroma(value)?,
                b'X' => match value.strip_prefix("COLORRANGE=") {
                    Some("FULL") => range = ColorRange::Full,
                    Some("LIMITED") => range = ColorRange::Limited,
                    _ => {}
                },
                // Interlacing, pixel aspect and whatever else there may be do not change the samples.
                _ => {}
            }
        }
        let (Some(width), Some(height)) = (width, height) else {
            return Err(damaged("the y4m header does not say how large the pictures are (W and H)"));
        };
        let size = ImageSize::new(width, height)?;
        Ok(Self { size, rate, chroma, color: ColorSpec { range, ..ColorSpec::assumed(size.height) } })
    }

    /// The first line of a 4:2:0 stream, with its line feed.
    pub(crate) fn line(size: ImageSize, rate: FrameRate, range: ColorRange) -> String {
        format!(
            "YUV4MPEG2 W{} H{} F{}:{} Ip A1:1 C420jpeg XCOLORRANGE={}\n",
            size.width,
            size.height,
            rate.num,
            rate.den,
            match range {
                ColorRange::Limited => "LIMITED",
                ColorRange::Full => "FULL",
            }
        )
    }
}

fn parse_chroma(value: &str) -> Result<Chroma> {
    match value {
        "420" | "420jpeg" | "420mpeg2" | "420paldv" => Ok(Chroma::C420),
        "422" => Ok(Chroma::C422),
        "444" => Ok(Chroma::C444),
        "mono" => Ok(Chroma::Mono),
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "y4m with C{value:.40} is not supported, only 8-bit C420, C422, C444 and Cmono: \
                 convert it with ffmpeg -pix_fmt yuv420p"
            ),
        )),
    }
}

/// Parses a stream frame by frame.
pub(crate) struct Y4mReader<R> {
    input: R,
    pub header: Header,
    frames: u64,
}

impl<R: BufRead> Y4mReader<R> {
    /// Read the header.
    pub(crate) fn new(mut input: R) -> Result<Self> {
        let header = Header::parse(&read_line(&mut input, "header")?.unwrap_or_default())?;
        Ok(Self { input, header, frames: 0 })
    }

    /// Read the next frame's planes into `planes`, replacing its contents. `false`: the stream ended well.
    pub(crate) fn next_frame(&mut self, planes: &mut Vec<u8>) -> Result<bool> {
        let index = self.frames;
        let Some(line) = read_line(&mut self.input, &format!("frame {index}"))? else {
            return Ok(false);
        };
        if line != b"FRAME" && !line.starts_with(b"FRAME ") {
            return Err(damaged(format!("frame {index} does not begin with FRAME")));
        }
        let wanted = self.header.chroma.bytes(self.header.size);
        planes.clear();
        // Grows with what really comes: a header alone cannot ask for gigabytes.
        self.input.by_ref().take(wanted as u64).read_to_end(planes).map_err(|e| read_failed(index, e))?;
        if planes.len() < wanted {
            return Err(damaged(format!(
                "frame {index} is cut off: {} of its {wanted} bytes came",
                planes.len()
            )));
        }
        self.frames += 1;
        Ok(true)
    }
}

/// A line without its line feed; `None` at the end of the stream.
fn read_line(input: &mut impl BufRead, what: &str) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(|e| {
        if stopped(&e) { cancelled() } else { Error::io(format!("{what} cannot be read"), e) }
    })?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 + 1 == MAX_LINE => {
            Err(damaged(format!("the line of its {what} has no end")))
        }
        Some(_) => Err(damaged(format!("the line of its {what} is cut off"))),
    }
}

fn read_failed(index: u64, e: io::Error) -> Error {
    if stopped(&e) { cancelled() } else { Error::io(format!("frame {index} cannot be read"), e) }
}

fn stopped(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::ConnectionAborted
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "stopped while waiting for data")
}

fn damaged(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Input, what)
}

/// Frames of a y4m file or pipe.
pub(crate) struct Y4mSource {
    info: VideoInfo,
    reader: Y4mReader<Box<dyn BufRead + Send>>,
    planes: Vec<u8>,
    index: u64,
    path: Option<PathBuf>,
    interrupter: Option<Interrupter>,
}

impl Y4mSource {
    /// Frames of the file at `path`.
    pub(crate) fn file(path: &Path) -> Result<Self> {
        let shown = path.display();
        let reader = Self::open_file(path).map_err(|e| e.context(&shown))?;
        let mut source = Self::new(short_name(path), reader, None);
        source.path = Some(path.to_owned());
        // Exact unless frames carry parameters of their own, which nobody writes.
        let header = &source.reader.header;
        let frame = header.chroma.bytes(header.size) as u64 + 6;
        let length =
            std::fs::metadata(path).map_err(|e| Error::io(format!("{shown} cannot be read"), e))?.len();
        let mut line = Vec::new();
        File::open(path)
            .map(BufReader::new)
            .and_then(|mut file| file.read_until(b'\n', &mut line))
            .map_err(|e| Error::io(format!("{shown} cannot be read"), e))?;
        let data = length.saturating_sub(line.len() as u64);
        source.info.frames = (data % frame == 0).then_some(data / frame);
        Ok(source)
    }

    /// Frames of the named pipe at `path`.
    pub(crate) fn pipe(path: &Path) -> Result<Self> {
        let opened = path.to_owned();
        Self::from_pipe(short_name(path), move || File::open(opened))
    }

    /// Frames of standard input.
    pub(crate) fn stdin() -> Result<Self> {
        Self::from_pipe("standard input".into(), || Ok(io::stdin()))
    }

    fn from_pipe<R: Read + 'static>(
        name: Arc<str>,
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> Result<Self> {
        let pipe = PipeReader::start(open).map_err(|e| Error::io(format!("{name} cannot be read"), e))?;
        let interrupter = pipe.interrupter();
        let input: Box<dyn BufRead + Send> = Box::new(BufReader::with_capacity(8192, pipe));
        let reader = Y4mReader::new(input).map_err(|e| e.context(&name))?;
        Ok(Self::new(name, reader, Some(interrupter)))
    }

    fn new(
        name: Arc<str>,
        reader: Y4mReader<Box<dyn BufRead + Send>>,
        interrupter: Option<Interrupter>,
    ) -> Self {
        let Header { size, rate, chroma, color } = reader.header;
        let format = format!("y4m {size}, {}, {}", chroma.name(), describe(color));
        let info = VideoInfo { name, size, rate, frames: None, live: false, format, color };
        Self { info, reader, planes: Vec::new(), index: 0, path: None, interrupter }
    }

    fn open_file(path: &Path) -> Result<Y4mReader<Box<dyn BufRead + Send>>> {
        let file = File::open(path).map_err(|e| Error::io("it cannot be opened", e))?;
        Y4mReader::new(Box::new(BufReader::with_capacity(1 << 16, file)))
    }
}

impl Source for Y4mSource {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if !self.reader.next_frame(&mut self.planes).map_err(|e| e.context(&self.info.name))? {
            return Ok(false);
        }
        let pts = self.info.rate.map(|rate| pts(self.index, rate));
        let meta =
            FrameMeta { source: self.info.name.clone(), index: self.index, pts, captured: Instant::now() };
        self.index += 1;
        let planes = Planes::packed(&self.planes, self.info.size, self.reader.header.chroma);
        let (size, color) = (self.info.size, self.info.color);
        slot.converting(|slot| planes.to_rgb(color, slot.image(size, meta)?))?;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        let Some(path) = &self.path else { return Ok(false) };
        let reader = Self::open_file(path).map_err(|e| e.context(path.display()))?;
        if reader.header != self.reader.header {
            return Err(damaged(format!("{} has changed since it was opened", path.display())));
        }
        self.reader = reader;
        self.index = 0;
        Ok(true)
    }

    fn interrupter(&self) -> Option<Interrupter> {
        self.interrupter.clone()
    }
}

impl VideoSource for Y4mSource {
    fn info(&self) -> &VideoInfo {
        &self.info
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framelane::frame::ColorMatrix;
    use proptest::prelude::*;

    fn header(line: &str) -> Result<Header> {
        Header::parse(line.as_bytes())
    }

    #[test]
    fn headers() {
        let h = header("YUV4MPEG2 W640 H360 F30000:1001 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2").unwrap();
        assert_eq!((h.size.width, h.size.height, h.chroma), (640, 360, Chroma::C420));
        assert_eq!(h.rate, Some(FrameRate { num: 30000, den: 1001 }));
        assert_eq!(h.color, ColorSpec { matrix: ColorMatrix::Bt601, range: ColorRange::Limited });
        let h = header("YUV4MPEG2 W1280 H720 F0:0 C444 XCOLORRANGE=FULL").unwrap();
        assert_eq!((h.rate, h.chroma), (None, Chroma::C444));
        assert_eq!(h.color, ColorSpec { matrix: ColorMatrix::Bt709, range: ColorRange::Full });
        assert_eq!(header("YUV4MPEG2 W2 H2").unwrap().chroma, Chroma::C420);
    }

    #[test]
    fn bad_headers_are_named() {
        for (line, kind, says) in [
            ("", ErrorKind::Input, "YUV4MPEG2"),
            ("YUV4MPEG W2 H2", ErrorKind::Input, "YUV4MPEG2"),
            ("YUV4MPEG2 H2", ErrorKind::Input, "W and H"),
            ("YUV4MPEG2 W0 H2", ErrorKind::Input, "0×2"),
            ("YUV4MPEG2 W99999999 H99999999", ErrorKind::Input, "99999999×99999999"),
            ("YUV4MPEG2 W99999999999999999999999 H2", ErrorKind::Input, "W9999"),
            ("YUV4MPEG2 W-2 H2", ErrorKind::Input, "W-2"),
            ("YUV4MPEG2 W2 H2 Fx:1", ErrorKind::Input, "Fx:1"),
            ("YUV4MPEG2 W2 H2 C420p10", ErrorKind::Unsupported, "C420p10"),
            ("YUV4MPEG2 W2 H2 C444alpha", ErrorKind::Unsupported, "ffmpeg"),
        ] {
            let error = header(line).unwrap_err();
            assert_eq!(error.kind(), kind, "{line}");
            assert!(error.to_string().contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_understood() {
        let size = ImageSize::new(5, 3).unwrap();
        let rate = FrameRate { num: 24, den: 1 };
        let line = Header::line(size, rate, ColorRange::Full);
        let h = header(line.trim_end()).unwrap();
        assert_eq!((h.size, h.rate, h.color.range), (size, Some(rate), ColorRange::Full));
    }

    #[test]
    fn frames_until_the_cut() {
        let mut stream = b"YUV4MPEG2 W2 H2 F1:1 Cmono\nFRAME\nabcdFRAME Ip\nefghFRAME\nij".to_vec();
        let mut planes = Vec::new();
        let mut reader = Y4mReader::new(stream.as_slice()).unwrap();
        assert!(reader.next_frame(&mut planes).unwrap());
        assert_eq!(planes, b"abcd");
        assert!(reader.next_frame(&mut planes).unwrap());
        assert_eq!(planes, b"efgh");
        let error = reader.next_frame(&mut planes).unwrap_err();
        assert_eq!(error.to_string(), "frame 2 is cut off: 2 of its 4 bytes came");
        stream.truncate(stream.len() - 4);
        let mut reader = Y4mReader::new(stream.as_slice()).unwrap();
        assert!(reader.next_frame(&mut planes).unwrap() && reader.next_frame(&mut planes).unwrap());
        assert!(reader.next_frame(&mut planes).unwrap_err().to_string().contains("frame 2"));
    }

    #[test]
    fn a_large_claim_takes_no_memory() {
        let mut reader = Y4mReader::new(b"YUV4MPEG2 W16384 H16384 C444\nFRAME\n12".as_slice()).unwrap();
        let mut planes = Vec::new();
        assert!(reader.next_frame(&mut planes).is_err());
        assert!(planes.capacity() < 1 << 20);
    }

    proptest! {
        #[test]
        fn no_header_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::parse(&line);
            let mut led = b"YUV4MPEG2 ".to_vec();
            led.extend(line);
            let _ = Header::parse(&led);
        }

        #[test]
        fn no_field_panics(fields in "YUV4MPEG2( [WHFCXIA][0-9a-zA-Z:=]{0,24}){0,8}") {
            let _ = Header::parse(fields.as_bytes());
        }
    }
}
