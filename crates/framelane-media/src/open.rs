//! Which source reads which input.

use crate::ffmpeg::FfmpegSource;
use crate::gif::GifSource;
use crate::images::ImageSource;
use crate::mp4::Mp4Source;
use crate::testsrc::TestSource;
use crate::y4m::Y4mSource;
use framelane::feed::{Interrupter, SlotWriter, Source};
use framelane::frame::{ColorSpec, FrameRate, ImageSize};
use framelane::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How to open an input.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// End after this many frames (of each pass, if the source is rewound).
    pub frames: Option<u64>,
    /// Let `testsrc` make its frames at its frame rate, as a camera does. Without it, and for all other
    /// inputs, frames come as fast as they are asked for.
    pub realtime: bool,
}

/// What [`VideoInfo::format`] ends with where there is sound beside the pictures.
pub(crate) const WITHOUT_SOUND: &str = "; its sound is left out";

/// What is known about a video before its first frame is asked for.
#[derive(Debug, Clone)]
pub struct VideoInfo {
    /// The input's short name, the one frames carry (`"clip.mp4"`).
    pub name: Arc<str>,
    /// Size of every frame, as shown: cropped and turned upright.
    pub size: ImageSize,
    /// Frames per second: exact where they are evenly spaced, the mean otherwise. `None` if there is no
    /// clock at all (a folder of pictures).
    pub rate: Option<FrameRate>,
    /// Number of frames, if it is known beforehand.
    pub frames: Option<u64>,
    /// Whether frames come at their own pace (a camera, a network stream) and are lost if nobody looks.
    pub live: bool,
    /// For people: `"H.264 640×360, BT.601 limited, via openh264"`, and that sound is left out where there is some.
    pub format: String,
    /// How the stream's own YCbCr was understood; for RGB inputs, how the picture is best encoded.
    pub color: ColorSpec,
}

/// A source of RGB pictures, all of one size.
///
/// Each batch is one picture called `"image"` (u8, height × width × 3) with its [`FrameMeta`]: `captured` is
/// when it came into this process (what a source decodes on being opened counts from the first question for a
/// picture), `pts` is its time in the container, or index / rate without one. Indices
/// count from 0, and do so anew after a [`Source::rewind`].
///
/// [`FrameMeta`]: framelane::frame::FrameMeta
pub trait VideoSource: Source {
    /// What is known about the video.
    fn info(&self) -> &VideoInfo;
}

impl<S: VideoSource + ?Sized> VideoSource for Box<S> {
    fn info(&self) -> &VideoInfo {
        (**self).info()
    }
}

/// Open `input`: a file, a folder of pictures, `-` (y4m on standard input), `testsrc[:WxH@FPS]`, a network
/// address (`rtsp://…`) or a device (`/dev/video0`).
///
/// Files are told apart by their first bytes, not by their names. Whatever this crate cannot read itself is
/// given to the `ffmpeg` program, if there is one. Blocks until the first picture's size is known.
///
/// # Errors
/// One sentence that names the input: it is not there ([`ErrorKind::Io`]), damaged ([`ErrorKind::Input`]), or
/// needs an `ffmpeg` that is not installed ([`ErrorKind::Unsupported`]).
pub fn open(input: &str, options: &OpenOptions) -> Result<Box<dyn VideoSource>> {
    let source = open_whole(input, options)?;
    Ok(match options.frames {
        None => source,
        Some(frames) => {
            let mut info = source.info().clone();
            info.frames = Some(info.frames.map_or(frames, |all| all.min(frames)));
            Box::new(Limited { source, info, frames, left: frames })
        }
    })
}

fn open_whole(input: &str, options: &OpenOptions) -> Result<Box<dyn VideoSource>> {
    if input == "-" {
        return Ok(Box::new(Y4mSource::stdin()?));
    }
    // A file of that name wins over the word, so that nothing on disk is out of reach.
    let path = Path::new(input);
    let found = fs::metadata(path);
    if found.is_err() {
        if input == "testsrc" || input.starts_with("testsrc:") || input.starts_with("testsrc@") {
            return Ok(Box::new(TestSource::open(input, options.realtime)?));
        }
        if is_address(input) {
            return Ok(Box::new(FfmpegSource::open(input, None)?));
        }
    }
    let found = found.map_err(|e| Error::io(format!("{input} cannot be opened"), e))?;
    if found.is_dir() {
        return Ok(Box::new(ImageSource::folder(path)?));
    }
    if !found.is_file() {
        return if is_pipe(&found) {
            Ok(Box::new(Y4mSource::pipe(path)?))
        } else {
            Ok(Box::new(FfmpegSource::open(input, None)?))
        };
    }
    match sniff(path)? {
        Kind::Y4m => Ok(Box::new(Y4mSource::file(path)?)),
        Kind::Gif => Ok(Box::new(GifSource::open(path)?)),
        Kind::Picture => Ok(Box::new(ImageSource::single(path)?)),
        Kind::Mp4 => match Mp4Source::open(path) {
            // Another codec or a flavour that openh264 does not know.
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Box::new(FfmpegSource::open(input, Some(e))?)),
            other => Ok(Box::new(other?)),
        },
        Kind::Empty => Err(Error::new(ErrorKind::Input, format!("{input} is empty"))),
        Kind::Other => Ok(Box::new(FfmpegSource::open(input, None)?)),
    }
}

/// `rtsp://…`, but not a Windows path such as `C:\clip.mp4`.
fn is_address(input: &str) -> bool {
    input.split_once("://").is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

#[cfg(unix)]
fn is_pipe(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_found: &fs::Metadata) -> bool {
    false
}

enum Kind {
    Y4m,
    Gif,
    Picture,
    Mp4,
    Empty,
    Other,
}

fn sniff(path: &Path) -> Result<Kind> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(12).read_to_end(&mut head))
        .map_err(|e| Error::io(format!("{} cannot be read", path.display()), e))?;
    Ok(match head.as_slice() {
        [] => Kind::Empty,
        [b'Y', b'U', b'V', b'4', b'M', b'P', b'E', b'G', ..] => Kind::Y4m,
        [b'G', b'I', b'F', b'8', ..] => Kind::Gif,
        [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] => Kind::Picture,
        [_, _, _, _, b'f', b't', b'y', b'p', ..]
        | [_, _, _, _, b'm', b'o', b'o', b'v', ..]
        | [_, _, _, _, b'm', b'd', b'a', b't', ..]
        | [_, _, _, _, b'w', b'i', b'd', b'e', ..]
        | [_, _, _, _, b'f', b'r', b'e', b'e', ..]
        | [_, _, _, _, b's', b'k', b'i', b'p', ..] => Kind::Mp4,
        // Damaged from the first byte on: the name still says who should complain.
        _ => match extension(path).as_str() {
            "y4m" => Kind::Y4m,
            "gif" => Kind::Gif,
            "png" | "jpg" | "jpeg" => Kind::Picture,
            "mp4" | "m4v" | "mov" => Kind::Mp4,
            _ => Kind::Other,
        },
    })
}

/// The file's extension in lower case, or an empty string.
pub(crate) fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

/// The last part of a path, for frames to carry.
pub(crate) fn short_name(path: &Path) -> Arc<str> {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into()
}

/// When frame `index` is shown at a constant `rate`.
pub(crate) fn pts(index: u64, rate: FrameRate) -> Duration {
    let nanos = u128::from(index) * u128::from(rate.den) * 1_000_000_000 / u128::from(rate.num.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The first `frames` frames of another source.
struct Limited {
    source: Box<dyn VideoSource>,
    info: VideoInfo,
    frames: u64,
    left: u64,
}

impl Source for Limited {
    fn name(&self) -> &str {
        self.source.name()
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.source.next_into(slot)
    }
    fn rewind(&mut self) -> Result<bool> {
        self.left = self.frames;
        self.source.rewind()
    }
    fn interrupter(&self) -> Option<Interrupter> {
        self.source.interrupter()
    }
}

impl VideoSource for Limited {
    fn info(&self) -> &VideoInfo {
        &self.info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_paths() {
        assert!(is_address("rtsp://camera/1"));
        assert!(is_address("http://host/a.mp4"));
        assert!(!is_address(r"C:\clip.mp4"));
        assert!(!is_address("C://clip.mp4"));
        assert!(!is_address("clip.mp4"));
    }

    #[test]
    fn times_are_exact() {
        let ntsc = FrameRate { num: 30000, den: 1001 };
        assert_eq!(pts(30000, ntsc), Duration::from_secs(1001));
        assert_eq!(pts(u64::MAX, FrameRate { num: 1, den: 1 }), Duration::from_nanos(u64::MAX));
    }
}
