//! What results are written to.

mod folder;
mod mp4;
mod y4m;

use crate::open::{VideoInfo, extension};
use framelane::frame::{ColorSpec, FrameMeta, FrameRate, ImageSize};
use framelane::{Error, ErrorKind, Result};
use std::path::Path;

/// Takes RGB pictures, all of one size, one after the other.
///
/// At every moment what was written stays playable: after an error, and if the sink is dropped unfinished.
pub trait Sink: Send {
    /// Write one picture: `rgb` is u8, height × width × 3, rows from the top. Blocks while it is encoded and
    /// written. Presentation times are kept where the format has them.
    ///
    /// # Errors
    /// One sentence that names the target: a full disk, a closed pipe ([`ErrorKind::Closed`]), another size
    /// than the first ([`ErrorKind::Input`]). Nothing more should be written then; [`Sink::finish`] still
    /// makes the best of what is there.
    fn write(&mut self, rgb: &[u8], size: ImageSize, meta: &FrameMeta) -> Result<()>;

    /// Write what is still held back, and whatever the format needs at its end.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn finish(self: Box<Self>) -> Result<Summary>;

    /// For people, before the first frame: `"result.mp4 (H.264 640×360, BT.601 limited, via openh264)"`.
    fn describe(&self) -> String;
}

/// What a sink is told beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SinkSpec {
    /// Size of every picture.
    pub size: ImageSize,
    /// Nominal frames per second: of pictures without a presentation time, and for formats that know no other.
    pub rate: FrameRate,
    /// How formats that store YCbCr make it from RGB.
    pub color: ColorSpec,
}

impl SinkSpec {
    /// Pictures of `size` at `rate` (30 per second if there is none), in the colours that players assume.
    pub fn new(size: ImageSize, rate: Option<FrameRate>) -> Self {
        let rate = rate.unwrap_or(FrameRate { num: 30, den: 1 });
        Self { size, rate, color: ColorSpec::assumed(size.height) }
    }

    /// For the same pictures as a source gives.
    pub fn like(info: &VideoInfo) -> Self {
        Self::new(info.size, info.rate)
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The target, as it was given.
    pub target: String,
    /// Frames in it.
    pub frames: u64,
    /// Bytes in it; 0 if nothing was kept.
    pub bytes: u64,
}

/// Make the sink that `target` names:
///
/// - `FILE.mp4` or `.m4v`: H.264 by openh264. Playable at any moment, even if the program is killed: at most
///   the last second is lost. H.264 in 4:2:0 has even sides only: an odd picture gets its last column or row
///   twice, which [`Sink::describe`] says.
/// - `FILE.y4m`, or `-` for standard output: 4:2:0 in the given range. y4m does not store the matrix, so it is
///   always the one that readers assume ([`ColorSpec::assumed`]).
/// - `FOLDER/`, or an existing folder: `frame-000001.png` and so on, lossless. Files of these names are
///   replaced, others left alone.
/// - `none`: counts.
///
/// Files that exist are replaced.
///
/// # Errors
/// [`ErrorKind::Argument`] for any other target, [`ErrorKind::Io`] if it cannot be created, and
/// [`ErrorKind::Unsupported`] if the format has no such size.
pub fn create(target: &str, spec: &SinkSpec) -> Result<Box<dyn Sink>> {
    let path = Path::new(target);
    if target == "none" {
        return Ok(Box::new(Nothing { frames: 0 }));
    }
    if target == "-" {
        return Ok(Box::new(y4m::Y4mSink::stdout(spec)));
    }
    if target.ends_with('/') || target.ends_with(std::path::MAIN_SEPARATOR) || path.is_dir() {
        return Ok(Box::new(folder::FolderSink::create(path, spec)?));
    }
    match extension(path).as_str() {
        "mp4" | "m4v" => Ok(Box::new(mp4::Mp4Sink::create(path, spec)?)),
        "y4m" => Ok(Box::new(y4m::Y4mSink::create(path, spec)?)),
        _ => Err(Error::new(
            ErrorKind::Argument,
            format!("{target}: results can be written to FILE.mp4, FILE.y4m, FOLDER/ or none"),
        )),
    }
}

/// Counts.
struct Nothing {
    frames: u64,
}

impl Sink for Nothing {
    fn write(&mut self, _rgb: &[u8], _size: ImageSize, _meta: &FrameMeta) -> Result<()> {
        self.frames += 1;
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Summary> {
        Ok(Summary { target: "none".into(), frames: self.frames, bytes: 0 })
    }
    fn describe(&self) -> String {
        "nothing (frames are counted)".into()
    }
}

/// Refuse a picture that does not fit what was begun.
fn check(rgb: &[u8], size: ImageSize, spec: &SinkSpec, target: &str, meta: &FrameMeta) -> Result<()> {
    if size != spec.size || rgb.len() != size.bytes() {
        return Err(Error::new(
            ErrorKind::Input,
            format!("{target}: {meta} is {size} ({} bytes), but it was begun with {}", rgb.len(), spec.size),
        ));
    }
    Ok(())
}

/// The sentence for a failed write.
pub(crate) fn write_failed(target: &str, e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::BrokenPipe => {
            Error::new(ErrorKind::Closed, format!("{target}: its reader has closed the pipe")).because(e)
        }
        std::io::ErrorKind::StorageFull => {
            Error::new(ErrorKind::Io, format!("{target}: the disk is full; what was written before is kept"))
                .because(e)
        }
        _ => Error::io(format!("{target} cannot be written"), e),
    }
}
