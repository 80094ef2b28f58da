//! A folder of PNG pictures.

use super::{Sink, SinkSpec, Summary, check, write_failed};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::{Error, ErrorKind, Result};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageError};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) struct FolderSink {
    folder: PathBuf,
    spec: SinkSpec,
    older: usize,
    frames: u64,
    bytes: u64,
    png: Vec<u8>,
}

impl FolderSink {
    pub(super) fn create(folder: &Path, spec: &SinkSpec) -> Result<Self> {
        let cannot = |e| Error::io(format!("{} cannot be created", folder.display()), e);
        fs::create_dir_all(folder).map_err(cannot)?;
        let mut older = 0;
        for entry in fs::read_dir(folder).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name();
            let name = name.to_string_lossy();
            older += usize::from(name.starts_with("frame-") && name.ends_with(".png"));
        }
        Ok(Self { folder: folder.to_owned(), spec: *spec, older, frames: 0, bytes: 0, png: Vec::new() })
    }
}

impl Sink for FolderSink {
    fn write(&mut self, rgb: &[u8], size: ImageSize, meta: &FrameMeta) -> Result<()> {
        check(rgb, size, &self.spec, &self.folder.display().to_string(), meta)?;
        let path = self.folder.join(format!("frame-{:06}.png", self.frames + 1));
        self.png.clear();
        PngEncoder::new_with_quality(&mut self.png, CompressionType::Fast, FilterType::Adaptive)
            .write_image(rgb, size.width as u32, size.height as u32, ExtendedColorType::Rgb8)
            .map_err(|e: ImageError| {
                Error::new(ErrorKind::Unsupported, format!("{} cannot be encoded: {e}", path.display()))
            })?;
        if let Err(e) = fs::write(&path, &self.png) {
            // Half a picture is worse than none. It may never have been there.
            drop(fs::remove_file(&path));
            return Err(write_failed(&path.display().to_string(), e));
        }
        self.frames += 1;
        self.bytes += self.png.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Summary> {
        Ok(Summary { target: self.folder.display().to_string(), frames: self.frames, bytes: self.bytes })
    }

    fn describe(&self) -> String {
        let older = match self.older {
            0 => String::new(),
            n => format!("; the {n} older frames in it are replaced as far as there are new ones"),
        };
        format!("{} (PNG {}{older})", self.folder.display(), self.spec.size)
    }
}
