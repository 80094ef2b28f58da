//! Screenshots: PNG files in the current folder, written by a thread of their own.

use crate::link::{Link, Wake};
use framelane::frame::{FrameMeta, ImageSize};
use image::ImageEncoder;
use image::codecs::png::PngEncoder;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Files of one name tried before giving up.
const TRIES: u32 = 10_000;

/// Write `rgb`, a picture of `pane`, into the current folder and tell the window how it went.
pub(crate) fn save(
    link: Arc<Link>,
    pane: usize,
    meta: &FrameMeta,
    split: bool,
    rgb: Vec<u8>,
    size: ImageSize,
) -> io::Result<JoinHandle<()>> {
    let stem = stem(meta, split);
    std::thread::Builder::new().name("screenshot".into()).spawn(move || {
        let saved = write(Path::new(""), &stem, &rgb, size)
            .map_err(|e| format!("the screenshot could not be saved: {e}"));
        link.wake(Wake::Saved(pane, saved));
    })
}

/// `clip-000123`: the source's file name without its ending, and the frame's number.
fn stem(meta: &FrameMeta, split: bool) -> String {
    let source = Path::new(&*meta.source).file_stem().and_then(|s| s.to_str()).unwrap_or("frame");
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = source.chars().map(safe).take(80).collect();
    let name = name.trim_matches(['-', '.']);
    let name = if name.is_empty() { "frame" } else { name };
    format!("{name}-{:06}{}", meta.index, if split { "-split" } else { "" })
}

/// Write into the first of `stem.png`, `stem-2.png`, … that does not exist yet: nothing is overwritten.
fn write(folder: &Path, stem: &str, rgb: &[u8], size: ImageSize) -> io::Result<PathBuf> {
    let (path, file) = create(folder, stem)?;
    let written = encode(file, rgb, size);
    if written.is_err() {
        // Half a picture is worth nothing.
        let _ = std::fs::remove_file(&path);
    }
    written.map(|()| path)
}

fn create(folder: &Path, stem: &str) -> io::Result<(PathBuf, File)> {
    for n in 1..=TRIES {
        let name = if n == 1 { format!("{stem}.png") } else { format!("{stem}-{n}.png") };
        let path = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("there are {TRIES} of {stem}.png already")))
}

fn encode(file: File, rgb: &[u8], size: ImageSize) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let side = |n: usize| u32::try_from(n).map_err(io::Error::other);
    PngEncoder::new(&mut out)
        .write_image(rgb, side(size.width)?, side(size.height)?, image::ExtendedColorType::Rgb8)
        .map_err(io::Error::other)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_source() {
        let stem = |source: &str, index, split| stem(&FrameMeta::new(source, index), split);
        assert_eq!(stem("films/clip.mp4", 123, false), "clip-000123");
        assert_eq!(stem("rtsp://camera:554/live?a=b", 7, true), "live-a-b-000007-split");
        assert_eq!(stem("..", 0, false), "frame-000000");
        assert_eq!(stem("-", 0, false), "frame-000000");
        assert_eq!(stem("", 0, false), "frame-000000");
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let size = ImageSize { width: 2, height: 1 };
        let first = write(folder.path(), "clip", &[1, 2, 3, 4, 5, 6], size).unwrap();
        let second = write(folder.path(), "clip", &[6, 5, 4, 3, 2, 1], size).unwrap();
        assert_eq!(
            (first.file_name().unwrap(), second.file_name().unwrap()),
            ("clip.png".as_ref(), "clip-2.png".as_ref())
        );
        let read = |path| image::open(path).unwrap().into_rgb8().into_raw();
        assert_eq!((read(first), read(second)), (vec![1, 2, 3, 4, 5, 6], vec![6, 5, 4, 3, 2, 1]));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let size = ImageSize { width: 1, height: 1 };
        assert!(write(Path::new("/nonexistent"), "clip", &[0; 3], size).is_err());
    }
}
