//! A folder of PNG and JPEG pictures, in the order a person would count them, or one picture alone.

use crate::open::{VideoInfo, VideoSource, extension, short_name};
use framelane::feed::{SlotWriter, Source};
use framelane::frame::{ColorSpec, FrameMeta, ImageSize};
use framelane::{Error, ErrorKind, Result};
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageReader, Limits, RgbImage};
use std::cmp::Ordering;
use std::fs;
use std::io::{BufRead, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Pictures, one file each.
pub(crate) struct ImageSource {
    info: VideoInfo,
    files: Vec<PathBuf>,
    next: usize,
}

impl ImageSource {
    /// All PNG and JPEG files directly in `folder`; numbers in their names count as numbers.
    pub(crate) fn folder(folder: &Path) -> Result<Self> {
        let shown = folder.display();
        let refused = |e| Error::io(format!("{shown} cannot be read"), e);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(refused)? {
            let path = entry.map_err(refused)?.path();
            let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
            if matches!(extension(&path).as_str(), "png" | "jpg" | "jpeg") && !hidden && path.is_file() {
                files.push(path);
            }
        }
        if files.is_empty() {
            return Err(Error::new(ErrorKind::Input, format!("{shown} has no PNG or JPEG pictures in it")));
        }
        files.sort_by_cached_key(|path| Natural(path.as_os_str().to_string_lossy().into_owned()));
        let mut source = Self::new(short_name(folder), files)?;
        source.info.format = format!("{} pictures {}", source.files.len(), source.info.size);
        Ok(source)
    }

    /// One picture, as a video of one frame.
    pub(crate) fn single(path: &Path) -> Result<Self> {
        let mut source = Self::new(short_name(path), vec![path.to_owned()])?;
        source.info.format = format!("one picture {}", source.info.size);
        Ok(source)
    }

    fn new(name: Arc<str>, files: Vec<PathBuf>) -> Result<Self> {
        let size = open_picture(&files[0])?.size;
        let info = VideoInfo {
            name,
            size,
            rate: None,
            frames: Some(files.len() as u64),
            live: false,
            format: String::new(),
            color: ColorSpec::assumed(size.height),
        };
        Ok(Self { info, files, next: 0 })
    }
}

impl Source for ImageSource {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let Some(path) = self.files.get(self.next) else { return Ok(false) };
        let picture = open_picture(path)?;
        let wanted = self.info.size;
        if picture.size != wanted {
            return Err(Error::new(
                ErrorKind::Input,
                format!(
                    "{} is {}, but {} is {wanted}: all pictures of a folder must have one size",
                    path.display(),
                    picture.size,
                    self.files[0].display(),
                ),
            ));
        }
        let index = self.next as u64;
        self.next += 1;
        let meta = FrameMeta { source: self.info.name.clone(), index, pts: None, captured: Instant::now() };
        picture.decode_into(slot.image(wanted, meta)?).map_err(|e| e.context(path.display()))?;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        self.next = 0;
        Ok(true)
    }
}

impl VideoSource for ImageSource {
    fn info(&self) -> &VideoInfo {
        &self.info
    }
}

/// A picture of which only the header has been read.
pub(crate) struct Picture<'a> {
    /// Upright size.
    pub size: ImageSize,
    orientation: Orientation,
    decoder: Box<dyn ImageDecoder + 'a>,
}

fn open_picture(path: &Path) -> Result<Picture<'static>> {
    let shown = path.display();
    let file = fs::File::open(path).map_err(|e| Error::io(format!("{shown} cannot be opened"), e))?;
    Picture::open(std::io::BufReader::new(file)).map_err(|e| e.context(shown))
}

impl<'a> Picture<'a> {
    /// Read the header of a PNG or JPEG picture.
    pub(crate) fn open<R: BufRead + Seek + 'a>(input: R) -> Result<Self> {
        let mut reader = ImageReader::new(input)
            .with_guessed_format()
            .map_err(|e| Error::io("the picture cannot be read", e))?;
        reader.limits(Limits::no_limits());
        let mut decoder = reader.into_decoder().map_err(damaged)?;
        let (width, height) = decoder.dimensions();
        // Before anything is allocated for it.
        let stored = ImageSize::new(width as usize, height as usize)?;
        let mut limits = Limits::no_limits();
        limits.max_alloc = Some(stored.bytes() as u64 * 4 + (1 << 24));
        decoder.set_limits(limits).map_err(damaged)?;
        // Wrong metadata is no reason to refuse the picture.
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let size = match orientation {
            Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH => ImageSize { width: stored.height, height: stored.width },
            _ => stored,
        };
        Ok(Self { size, orientation, decoder: Box::new(decoder) })
    }

    /// Decode to RGB; `rgb` is [`ImageSize::bytes`] long. What is transparent is laid over black.
    pub(crate) fn decode_into(self, rgb: &mut [u8]) -> Result<()> {
        let plain = self.orientation == Orientation::NoTransforms;
        if plain && self.decoder.color_type() == ColorType::Rgb8 {
            return self.decoder.read_image_boxed(rgb).map_err(damaged);
        }
        let alpha = self.decoder.color_type().has_alpha();
        let mut picture = DynamicImage::from_decoder(self.decoder).map_err(damaged)?;
        picture.apply_orientation(self.orientation);
        if alpha {
            let picture = picture.into_rgba8();
            for (out, pixel) in rgb.chunks_exact_mut(3).zip(picture.as_raw().chunks_exact(4)) {
                over_black(out, pixel);
            }
        } else {
            let picture: RgbImage = picture.into_rgb8();
            rgb.copy_from_slice(picture.as_raw());
        }
        Ok(())
    }
}

/// Lay one RGBA pixel over black.
fn over_black(out: &mut [u8], rgba: &[u8]) {
    let alpha = u16::from(rgba[3]);
    for c in 0..3 {
        out[c] = ((u16::from(rgba[c]) * alpha + 127) / 255) as u8;
    }
}

fn damaged(cause: image::ImageError) -> Error {
    let kind = match &cause {
        image::ImageError::IoError(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => ErrorKind::Io,
        image::ImageError::Unsupported(_) => ErrorKind::Unsupported,
        _ => ErrorKind::Input,
    };
    // The cause's own text may run over several lines.
    let text = cause.to_string().replace('\n', " ");
    Error::new(kind, format!("the picture cannot be decoded: {text}")).because(cause)
}

/// Text that sorts as people count: runs of digits by their value.
#[derive(PartialEq, Eq)]
struct Natural(String);

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (self.0.as_bytes(), other.0.as_bytes());
        while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
            if x.is_ascii_digit() && y.is_ascii_digit() {
                let (m, n) = (split_digits(&mut a), split_digits(&mut b));
                let order = m.len().cmp(&n.len()).then(m.cmp(n));
                if order.is_ne() {
                    return order;
                }
            } else if x != y {
                return x.cmp(&y);
            } else {
                (a, b) = (&a[1..], &b[1..]);
            }
        }
        // Equal as counted ("01" and "1"): any fixed order will do.
        a.len().cmp(&b.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Take the digits at the front, without leading zeros.
fn split_digits<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let (digits, rest) = text.split_at(text.iter().take_while(|b| b.is_ascii_digit()).count());
    *text = rest;
    &digits[digits.iter().take_while(|&&b| b == b'0').count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = ["img10", "img2", "img1", "a", "img02b", "img2b", "img", "b9999999999999999999999"];
        names.sort_by_key(|n| Natural((*n).into()));
        assert_eq!(
            names,
            ["a", "b9999999999999999999999", "img", "img1", "img2", "img02b", "img2b", "img10"]
        );
    }

    #[test]
    fn transparency_lies_over_black() {
        let mut out = [9; 3];
        over_black(&mut out, &[200, 100, 50, 0]);
        assert_eq!(out, [0, 0, 0]);
        over_black(&mut out, &[200, 100, 50, 255]);
        assert_eq!(out, [200, 100, 50]);
        over_black(&mut out, &[200, 100, 50, 128]);
        assert_eq!(out, [100, 50, 25]);
    }
}
