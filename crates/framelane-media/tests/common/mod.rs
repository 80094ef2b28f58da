//! Shared by the integration tests: playing a source to its end, and making inputs.
#![allow(dead_code)]

#[path = "../../../../testing/skip.rs"]
mod skip;
#[allow(unused_imports, reason = "not every test binary can be skipped")]
pub use skip::skip;

use framelane::feed::{Contents, SlotWriter};
use framelane::frame::{FrameMeta, FrameRate, ImageSize};
use framelane::{Error, Result};
use framelane_media::{OpenOptions, SinkSpec, VideoSource, create, open, read_frame_number};
use std::path::{Path, PathBuf};

/// One frame, as it lies in its slot.
pub struct Frame {
    pub rgb: Vec<u8>,
    pub size: ImageSize,
    pub meta: FrameMeta,
}

impl Frame {
    pub fn number(&self) -> Option<u32> {
        read_frame_number(&self.rgb, self.size)
    }

    /// Mean of a channel over the middle of the part of the picture given in percent.
    pub fn mean(&self, channel: usize, x: std::ops::Range<usize>, y: std::ops::Range<usize>) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for row in self.size.height * y.start / 100..self.size.height * y.end / 100 {
            for column in self.size.width * x.start / 100..self.size.width * x.end / 100 {
                sum += f64::from(self.rgb[(row * self.size.width + column) * 3 + channel]);
                count += 1.0;
            }
        }
        sum / count
    }
}

/// The next frame.
pub fn next(source: &mut dyn VideoSource) -> Result<Option<Frame>> {
    let (mut arena, mut contents) = (Vec::new(), Contents::default());
    if !source.next_into(&mut SlotWriter::new(&mut arena, &mut contents))? {
        return Ok(None);
    }
    let (spec, range) = contents.tensors[0].clone();
    assert_eq!(contents.tensors.len(), 1);
    let size = ImageSize::of(&spec).expect("a picture");
    assert_eq!(size, source.info().size);
    Ok(Some(Frame { rgb: arena[range].to_vec(), size, meta: contents.meta.expect("an identity") }))
}

/// All frames, and the error that ended them, if one did.
pub fn play(source: &mut dyn VideoSource) -> (Vec<Frame>, Option<Error>) {
    let mut frames = Vec::new();
    loop {
        match next(source) {
            Ok(Some(frame)) => {
                assert_eq!(frame.meta.index, frames.len() as u64);
                frames.push(frame);
            }
            Ok(None) => return (frames, None),
            Err(e) => return (frames, Some(e)),
        }
    }
}

pub fn open_input(input: impl AsRef<Path>) -> Result<Box<dyn VideoSource>> {
    open(&input.as_ref().to_string_lossy(), &OpenOptions::default())
}

/// All frames of an input that must be whole.
pub fn play_all(input: impl AsRef<Path>) -> Vec<Frame> {
    let (frames, error) = play(&mut *open_input(input).unwrap());
    assert!(error.is_none(), "{error:?}");
    frames
}

/// Write `frames` test pictures to `target`.
pub fn record(target: &Path, geometry: &str, frames: u64) {
    let options = OpenOptions { frames: Some(frames), ..OpenOptions::default() };
    let mut source = open(&format!("testsrc:{geometry}"), &options).unwrap();
    let mut sink = create(&target.to_string_lossy(), &SinkSpec::like(source.info())).unwrap();
    let (pictures, _) = play(&mut *source);
    for frame in &pictures {
        sink.write(&frame.rgb, frame.size, &frame.meta).unwrap();
    }
    let summary = sink.finish().unwrap();
    assert_eq!(summary.frames, frames);
}

/// `Ok` or the sentence.
pub fn fails(input: impl AsRef<Path>) -> String {
    match open_input(&input) {
        Err(e) => sentence(&e),
        Ok(mut source) => sentence(&play(&mut *source).1.expect("an error")),
    }
}

/// What every error must be: one line that says something.
pub fn sentence(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() > 10, "{text:?}");
    text
}

/// Peak signal-to-noise ratio of two pictures, in decibel.
pub fn psnr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let error: f64 = a.iter().zip(b).map(|(&x, &y)| f64::from(x.abs_diff(y)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * a.len() as f64 / error.max(1e-9)).log10()
}

/// This package's folder: where it is now, as cargo says when it runs tests, or where it was compiled.
pub fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into()).into()
}

/// A folder for one test.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Whether the `ffmpeg` program is there.
pub fn has_ffmpeg() -> bool {
    std::process::Command::new("ffmpeg").arg("-version").output().is_ok_and(|o| o.status.success())
}

/// Whether a test that needs the `ffmpeg` program can go on; otherwise it is skipped.
pub fn ffmpeg() -> bool {
    let there = has_ffmpeg();
    if !there {
        skip("the ffmpeg program is not installed");
    }
    there
}

/// Run ffmpeg; panics with what it says if it fails.
pub fn run_ffmpeg(arguments: &[&str]) {
    let output = std::process::Command::new("ffmpeg")
        .args(["-hide_banner", "-v", "error", "-nostdin", "-y"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub const FPS30: FrameRate = FrameRate { num: 30, den: 1 };

pub fn path(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}
