//! H.264 by openh264, in MP4.

use super::{Sink, SinkSpec, Summary, check};
use crate::color::{Chroma, Planes, describe, rgb_to_420};
use crate::mp4::mux::{Coded, Muxer};
use framelane::frame::{ColorMatrix, ColorRange, FrameMeta, ImageSize};
use framelane::{Error, ErrorKind, Result};
use openh264::OpenH264API;
use openh264::encoder::{
    BitRate, Encoder, EncoderConfig, FrameRate, FrameType, IntraFramePeriod, QpRange, RateControlMode,
    VuiConfig,
};
use openh264::formats::YUVSlices;
use std::path::Path;

pub(super) struct Mp4Sink {
    target: String,
    spec: SinkSpec,
    /// The spec's size, made even.
    size: ImageSize,
    encoder: Encoder,
    muxer: Muxer,
    padded: Vec<u8>,
    planes: Vec<u8>,
    coded: Vec<u8>,
}

impl Mp4Sink {
    pub(super) fn create(path: &Path, spec: &SinkSpec) -> Result<Self> {
        let target = path.display().to_string();
        let size = ImageSize {
            width: spec.size.width.next_multiple_of(2),
            height: spec.size.height.next_multiple_of(2),
        };
        let (long, short) = (size.width.max(size.height), size.width.min(size.height));
        if long > 3840 || !(16..=2160).contains(&short) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{target}: openh264 encodes 16×16 to 3840×2160 pixels, not {}: write to FILE.y4m or FOLDER/",
                    spec.size
                ),
            ));
        }
        let encoder =
            Encoder::with_api_config(OpenH264API::from_source(), config(size, spec)).map_err(|e| {
                Error::new(
                    ErrorKind::Unsupported,
                    format!("{target}: openh264 cannot start (code {})", e.native_code()),
                )
            })?;
        let muxer = Muxer::create(path, spec.rate)?;
        let planes = vec![0; Chroma::C420.bytes(size)];
        Ok(Self { target, spec: *spec, size, encoder, muxer, padded: Vec::new(), planes, coded: Vec::new() })
    }
}

/// From 0 (lossless, nearly) to 51: visually close to the original.
const QUANTISER: u8 = 22;

fn config(size: ImageSize, spec: &SinkSpec) -> EncoderConfig {
    let fps = spec.rate.fps().clamp(1.0, 1000.0);
    let group = fps.round() as u32;
    let pixels = (size.width * size.height) as f64;
    // Required, but without effect: the quantiser is held at one step, for constant quality (about 39 dB).
    let bits = (pixels * fps * 0.4).clamp(200e3, 200e6) as u32;
    let vui = match spec.color.matrix {
        ColorMatrix::Bt601 => VuiConfig::bt601(),
        ColorMatrix::Bt709 => VuiConfig::bt709(),
    };
    EncoderConfig::new()
        .rate_control_mode(RateControlMode::Bufferbased)
        .bitrate(BitRate::from_bps(bits))
        .qp(QpRange::new(QUANTISER, QUANTISER))
        .max_frame_rate(FrameRate::from_hz(fps as f32))
        // A group of pictures a second: what a killed program loses at most.
        .intra_frame_period(IntraFramePeriod::from_num_frames(group))
        .skip_frames(false)
        .vui(vui.full_range(spec.color.range == ColorRange::Full))
}

impl Sink for Mp4Sink {
    fn write(&mut self, rgb: &[u8], size: ImageSize, meta: &FrameMeta) -> Result<()> {
        check(rgb, size, &self.spec, &self.target, meta)?;
        let rgb = if self.size == size {
            rgb
        } else {
            pad(rgb, size, self.size, &mut self.padded);
            &self.padded
        };
        rgb_to_420(rgb, self.size, self.spec.color, &mut self.planes)?;
        let Planes { y, u, v, y_stride, uv_stride, .. } =
            Planes::packed(&self.planes, self.size, Chroma::C420);
        let dimensions = (self.size.width, self.size.height);
        let slices = YUVSlices::new((y, u, v), dimensions, (y_stride, uv_stride, uv_stride));
        let failed = |why: &str| {
            Error::new(ErrorKind::Unsupported, format!("{}: {meta} cannot be encoded: {why}", self.target))
        };
        let stream = self
            .encoder
            .encode(&slices)
            .map_err(|e| failed(&format!("openh264 refuses it (code {})", e.native_code())))?;
        self.coded.clear();
        stream.write_vec(&mut self.coded);
        let key = stream.frame_type() == FrameType::IDR;
        if self.coded.is_empty() {
            return Err(failed("openh264 skipped it"));
        }
        self.muxer.add(&Coded { annex_b: &self.coded, key, pts: meta.pts }, self.size, self.spec.color)
    }

    fn finish(self: Box<Self>) -> Result<Summary> {
        let frames = self.muxer.frames();
        let bytes = self.muxer.finish()?;
        Ok(Summary { target: self.target, frames, bytes })
    }

    fn describe(&self) -> String {
        let padded = if self.size == self.spec.size {
            String::new()
        } else {
            format!(", made of {} by repeating the edge: H.264 has even sides only", self.spec.size)
        };
        format!("{} (H.264 {}{padded}, {}, via openh264)", self.target, self.size, describe(self.spec.color))
    }
}

/// Repeat the last column and row until the picture has the size `to`.
fn pad(rgb: &[u8], from: ImageSize, to: ImageSize, out: &mut Vec<u8>) {
    out.clear();
    for y in 0..to.height {
        let row = &rgb[y.min(from.height - 1) * from.width * 3..][..from.width * 3];
        out.extend(row);
        for _ in from.width..to.width {
            out.extend(&row[row.len() - 3..]);
        }
    }
}
