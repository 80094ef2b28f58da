//! Animated GIF: each frame composed onto the canvas, its delay turned into a time.

use crate::open::{VideoInfo, VideoSource, short_name};
use framelane::feed::{SlotWriter, Source};
use framelane::frame::{ColorSpec, FrameMeta, FrameRate, ImageSize};
use framelane::{Error, ErrorKind, Result};
use gif::{ColorOutput, DecodeOptions, Decoder, DecodingError, DisposalMethod, Frame, MemoryLimit};
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Frames of a GIF file.
pub(crate) struct GifSource {
    info: VideoInfo,
    path: PathBuf,
    frames: GifReader<File>,
    index: u64,
    time: Duration,
}

impl GifSource {
    /// Frames of the GIF file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let frames = GifReader::new(open_file(path)?).map_err(|e| e.context(path.display()))?;
        let size = frames.size;
        let (count, rate) = count(path)?;
        let info = VideoInfo {
            name: short_name(path),
            size,
            rate,
            frames: count,
            live: false,
            format: format!("GIF {size}"),
            color: ColorSpec::assumed(size.height),
        };
        Ok(Self { info, path: path.to_owned(), frames, index: 0, time: Duration::ZERO })
    }
}

impl Source for GifSource {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let index = self.index;
        let delay =
            self.frames.next_frame().map_err(|e| e.context(format!("{}: frame {index}", self.info.name)))?;
        let Some(delay) = delay else { return Ok(false) };
        let meta = FrameMeta {
            source: self.info.name.clone(),
            index,
            pts: Some(self.time),
            captured: Instant::now(),
        };
        self.index += 1;
        self.time += delay;
        slot.image(self.info.size, meta)?.copy_from_slice(&self.frames.canvas);
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        let frames = GifReader::new(open_file(&self.path)?).map_err(|e| e.context(self.path.display()))?;
        if frames.size != self.info.size {
            return Err(Error::new(
                ErrorKind::Input,
                format!("{} has changed since it was opened", self.path.display()),
            ));
        }
        (self.frames, self.index, self.time) = (frames, 0, Duration::ZERO);
        Ok(true)
    }
}

impl VideoSource for GifSource {
    fn info(&self) -> &VideoInfo {
        &self.info
    }
}

/// Decodes frame by frame onto an RGB canvas; what no frame has covered is black.
pub(crate) struct GifReader<R: Read> {
    decoder: Decoder<R>,
    pub size: ImageSize,
    pub canvas: Vec<u8>,
    /// What the frame on the canvas leaves behind when the next one comes.
    disposal: Disposal,
}

enum Disposal {
    Keep,
    Clear(Area),
    Restore(Vec<u8>),
}

#[derive(Clone, Copy)]
struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl<R: Read> GifReader<R> {
    /// Read the header.
    pub(crate) fn new(input: R) -> Result<Self> {
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::RGBA);
        // Frames are checked against the canvas, and that against the largest picture.
        options.set_memory_limit(MemoryLimit::Bytes(
            const { NonZeroU64::new(framelane::frame::MAX_PIXELS as u64 * 4).unwrap() },
        ));
        let decoder = options.read_info(input).map_err(damaged)?;
        let size = ImageSize::new(decoder.width().into(), decoder.height().into())?;
        Ok(Self { decoder, size, canvas: Vec::new(), disposal: Disposal::Keep })
    }

    /// Compose the next frame onto the canvas and say how long it is shown. `None`: there is no more.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Duration>> {
        let canvas = (self.decoder.width(), self.decoder.height());
        match self.decoder.next_frame_info() {
            Err(DecodingError::Io(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(Error::new(ErrorKind::Input, "the GIF is cut off"));
            }
            Err(e) => return Err(damaged(e)),
            Ok(None) => return Ok(None),
            // Before memory is taken for it: a few bytes may claim a frame of four thousand million pixels.
            Ok(Some(frame)) if frame.width > canvas.0 || frame.height > canvas.1 => {
                return Err(Error::new(
                    ErrorKind::Input,
                    format!("it is {}×{}, larger than the GIF's {}", frame.width, frame.height, self.size),
                ));
            }
            Ok(Some(_)) => {}
        }
        let mut pixels = vec![0; self.decoder.buffer_size()];
        self.decoder.read_into_buffer(&mut pixels).map_err(damaged)?;
        let Some(frame) = self.decoder.current_frame_info() else { return Ok(None) };
        let (area, dispose, delay) = (area(frame, self.size), frame.dispose, delay(frame));
        let frame_width = usize::from(frame.width);
        // Only now: a first frame that cannot be decoded costs no canvas.
        self.canvas.resize(self.size.bytes(), 0);
        match std::mem::replace(&mut self.disposal, Disposal::Keep) {
            Disposal::Keep => {}
            Disposal::Clear(area) => {
                for row in rows(&mut self.canvas, self.size, area) {
                    row.fill(0);
                }
            }
            Disposal::Restore(canvas) => self.canvas = canvas,
        }
        self.disposal = match dispose {
            DisposalMethod::Any | DisposalMethod::Keep => Disposal::Keep,
            DisposalMethod::Background => Disposal::Clear(area),
            DisposalMethod::Previous => Disposal::Restore(self.canvas.clone()),
        };
        for (y, row) in rows(&mut self.canvas, self.size, area).enumerate() {
            let source = &pixels[y * frame_width * 4..];
            for (out, pixel) in row.chunks_exact_mut(3).zip(source.chunks_exact(4)) {
                if pixel[3] != 0 {
                    out.copy_from_slice(&pixel[..3]);
                }
            }
        }
        Ok(Some(delay))
    }
}

/// Number of frames and their common rate, found without decoding them; `None` where the file is damaged.
fn count(path: &Path) -> Result<(Option<u64>, Option<FrameRate>)> {
    let mut options = DecodeOptions::new();
    options.skip_frame_decoding(true);
    let mut decoder = options.read_info(open_file(path)?).map_err(|e| damaged(e).context(path.display()))?;
    let (mut frames, mut time, mut whole) = (0_u64, Duration::ZERO, true);
    loop {
        match decoder.next_frame_info() {
            Ok(Some(frame)) => {
                frames += 1;
                time += delay(frame);
            }
            Ok(None) => break,
            Err(_) => {
                whole = false;
                break;
            }
        }
    }
    let centiseconds = u32::try_from(time.as_millis() / 10).unwrap_or(u32::MAX);
    let num = u32::try_from(frames * 100).ok();
    let rate = num.filter(|_| frames > 0 && centiseconds > 0).map(|num| {
        let common = gcd(num, centiseconds);
        FrameRate { num: num / common, den: centiseconds / common }
    });
    Ok((whole.then_some(frames), rate))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How long a frame is shown. Delays of 0 and 10 ms mean "no hurry" to every browser: 100 ms.
fn delay(frame: &Frame<'_>) -> Duration {
    let centiseconds = if frame.delay <= 1 { 10 } else { u64::from(frame.delay) };
    Duration::from_millis(centiseconds * 10)
}

/// The part of the canvas that a frame covers.
fn area(frame: &Frame<'_>, canvas: ImageSize) -> Area {
    let left = usize::from(frame.left).min(canvas.width);
    let top = usize::from(frame.top).min(canvas.height);
    Area {
        left,
        top,
        width: usize::from(frame.width).min(canvas.width - left),
        height: usize::from(frame.height).min(canvas.height - top),
    }
}

fn rows(canvas: &mut [u8], size: ImageSize, area: Area) -> impl Iterator<Item = &mut [u8]> {
    canvas
        .chunks_exact_mut(size.width * 3)
        .skip(area.top)
        .take(area.height)
        .map(move |row| &mut row[area.left * 3..(area.left + area.width) * 3])
}

fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::io(format!("{} cannot be opened", path.display()), e))
}

fn damaged(cause: DecodingError) -> Error {
    match cause {
        DecodingError::Io(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
            Error::io("the GIF cannot be read", e)
        }
        cause => Error::new(ErrorKind::Input, format!("the GIF cannot be decoded: {cause}")).because(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gif::Encoder;

    const RED: u8 = 0;
    const GREEN: u8 = 1;
    const CLEAR: u8 = 2;

    /// A frame of one colour.
    fn frame(left: u16, width: u16, index: u8, dispose: DisposalMethod, delay: u16) -> Frame<'static> {
        Frame {
            delay,
            dispose,
            transparent: Some(CLEAR),
            left,
            width,
            height: 1,
            buffer: vec![index; width.into()].into(),
            ..Frame::default()
        }
    }

    fn encode(frames: &[Frame<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 3, 1, &[255, 0, 0, 0, 255, 0, 9, 9, 9]).unwrap();
        for frame in frames {
            encoder.write_frame(frame).unwrap();
        }
        drop(encoder);
        bytes
    }

    fn canvases(bytes: &[u8]) -> Vec<String> {
        let mut reader = GifReader::new(bytes).unwrap();
        let mut all = Vec::new();
        while reader.next_frame().unwrap().is_some() {
            all.push(
                reader
                    .canvas
                    .chunks(3)
                    .map(|p| match p {
                        [255, 0, 0] => 'r',
                        [0, 255, 0] => 'g',
                        [0, 0, 0] => '.',
                        _ => '?',
                    })
                    .collect(),
            );
        }
        all
    }

    #[test]
    fn disposal_and_transparency() {
        use DisposalMethod::{Background, Keep, Previous};
        let bytes = encode(&[
            frame(0, 2, RED, Keep, 5),
            frame(1, 2, GREEN, Previous, 5),
            frame(2, 1, GREEN, Background, 5),
            frame(0, 3, CLEAR, Keep, 5),
            frame(1, 1, GREEN, Keep, 5),
        ]);
        assert_eq!(canvases(&bytes), ["rr.", "rgg", "rrg", "rr.", "rg."]);
    }

    #[test]
    fn frames_beyond_the_canvas_are_cut() {
        let bytes =
            encode(&[frame(2, 3, RED, DisposalMethod::Keep, 5), frame(9, 1, RED, DisposalMethod::Keep, 5)]);
        assert_eq!(canvases(&bytes), ["..r", "..r"]);
    }

    #[test]
    fn a_frame_larger_than_the_canvas_is_refused() {
        let bytes =
            encode(&[frame(0, 3, RED, DisposalMethod::Keep, 5), frame(0, 4, RED, DisposalMethod::Keep, 5)]);
        let mut reader = GifReader::new(bytes.as_slice()).unwrap();
        assert!(reader.next_frame().unwrap().is_some());
        assert_eq!(reader.next_frame().unwrap_err().to_string(), "it is 4×1, larger than the GIF's 3×1");
    }

    #[test]
    fn delays() {
        let of = |delay| super::delay(&frame(0, 1, RED, DisposalMethod::Keep, delay)).as_millis();
        assert_eq!([of(0), of(1), of(2), of(50)], [100, 100, 20, 500]);
    }
}
