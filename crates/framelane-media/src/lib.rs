//! Video files, image folders, raw pipes and cameras as framelane [sources](framelane::feed::Source), and
//! the files that results are written to.
//!
//! Pictures are 8-bit RGB, height × width × 3 ([`framelane::frame::ImageSize`]). A source writes each one
//! straight into the slot it will travel in; what it spends on turning the stream's YCbCr into RGB is
//! counted apart ([`framelane::feed::SlotWriter::converting`]).
//!
//! ```no_run
//! use framelane_media::{OpenOptions, SinkSpec, create, open};
//!
//! let video = open("clip.mp4", &OpenOptions::default())?;
//! println!("{}: {}", video.info().name, video.info().format);
//! let sink = create("result.mp4", &SinkSpec::like(video.info()))?;
//! println!("writes {}", sink.describe());
//! # Ok::<(), framelane::Error>(())
//! ```
//!
//! | input | read by |
//! |---|---|
//! | `.mp4`, `.mov`, `.m4v` with H.264 | this crate (openh264) |
//! | `.y4m`, a named pipe, `-` (standard input) | this crate |
//! | a folder of PNG/JPEG, one picture, an animated GIF | this crate |
//! | `testsrc[:WxH@FPS]` | made up here |
//! | any other file, `rtsp://…`, `/dev/video0`, other codecs | the user's `ffmpeg` program |

#![forbid(unsafe_code)]

mod color;
mod ffmpeg;
#[doc(hidden)]
pub mod fuzzing;
mod gif;
mod images;
mod mp4;
mod open;
mod pipe;
mod sink;
mod testsrc;
mod y4m;

pub use open::{OpenOptions, VideoInfo, VideoSource, open};
pub use sink::{Sink, SinkSpec, Summary, create};
pub use testsrc::read_frame_number;
