//! YUV4MPEG2, to a file or to standard output.

use super::{Sink, SinkSpec, Summary, check, write_failed};
use crate::color::{Chroma, describe, rgb_to_420};
use crate::y4m::Header;
use framelane::frame::{ColorSpec, FrameMeta, ImageSize};
use framelane::{Error, Result};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

pub(super) struct Y4mSink {
    target: String,
    output: Output,
    spec: SinkSpec,
    /// Header and frames that are whole.
    end: u64,
    frames: u64,
    buffer: Vec<u8>,
}

enum Output {
    File(File),
    Stdout,
}

const MARK: &[u8] = b"FRAME\n";

impl Y4mSink {
    pub(super) fn create(path: &Path, spec: &SinkSpec) -> Result<Self> {
        let file =
            File::create(path).map_err(|e| Error::io(format!("{} cannot be created", path.display()), e))?;
        Ok(Self::new(path.display().to_string(), Output::File(file), spec))
    }

    pub(super) fn stdout(spec: &SinkSpec) -> Self {
        Self::new("standard output".into(), Output::Stdout, spec)
    }

    fn new(target: String, output: Output, spec: &SinkSpec) -> Self {
        // The format has no field for the matrix: readers assume one.
        let color = ColorSpec { range: spec.color.range, ..ColorSpec::assumed(spec.size.height) };
        let spec = SinkSpec { color, ..*spec };
        let buffer = Header::line(spec.size, spec.rate, color.range).into_bytes();
        Self { target, output, spec, end: 0, frames: 0, buffer }
    }

    /// Write the buffer, or nothing of it where the target allows that.
    fn flush(&mut self) -> Result<()> {
        let written = match &mut self.output {
            Output::File(file) => file.write_all(&self.buffer),
            Output::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&self.buffer).and_then(|()| stdout.flush())
            }
        };
        if let Err(e) = written {
            if let Output::File(file) = &mut self.output {
                // Devices and pipes cannot be cut.
                drop(file.set_len(self.end));
                drop(file.seek(SeekFrom::Start(self.end)));
            }
            return Err(write_failed(&self.target, e));
        }
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Sink for Y4mSink {
    fn write(&mut self, rgb: &[u8], size: ImageSize, meta: &FrameMeta) -> Result<()> {
        check(rgb, size, &self.spec, &self.target, meta)?;
        // The first frame goes out together with the header.
        if self.frames > 0 {
            self.buffer.clear();
        }
        self.buffer.extend(MARK);
        let planes = self.buffer.len();
        self.buffer.resize(planes + Chroma::C420.bytes(size), 0);
        rgb_to_420(rgb, size, self.spec.color, &mut self.buffer[planes..])?;
        self.flush()?;
        self.frames += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Summary> {
        if self.end == 0 && self.frames == 0 {
            let header = self.buffer.iter().position(|&b| b == b'\n').map_or(0, |at| at + 1);
            self.buffer.truncate(header);
            self.flush()?;
        }
        Ok(Summary { target: self.target, frames: self.frames, bytes: self.end })
    }

    fn describe(&self) -> String {
        format!("{} (y4m {}, 4:2:0, {})", self.target, self.spec.size, describe(self.spec.color))
    }
}
