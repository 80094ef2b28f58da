//! What can be typed, as it is typed. What it means is found out by each command (`play::options`).

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Run neural networks over live images and see the result.
#[derive(Debug, Parser)]
#[command(
    name = "framelane",
    version,
    about = "Runs neural networks over video and shows or writes the result.",
    after_help = "Start with `framelane play`: the built-in clip through the built-in network."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a network over a video; show or write the result
    Play(Box<PlayArgs>),
    /// Open a window in which other processes show their frames (`play … --to socket:NAME`)
    #[cfg(unix)]
    Window(WindowArgs),
    /// Say what goes in and out of an ONNX file, and how it would be fed
    Inspect(Box<InspectArgs>),
    /// Say what this machine offers, and what would be better
    Doctor,
}

const PLAY_EXAMPLES: &str = "\
Examples:
  framelane play                                  the built-in clip, twice as large
  framelane play holiday.mp4 --to result.mp4      a video of yours
  framelane play left.mp4 right.mp4               two of them side by side, through one copy of the network
  framelane play /dev/video0 --model depth.onnx   a camera, through a network of yours
  framelane play photos/ --to results/            a folder of pictures
  ffmpeg -i in.mkv -f yuv4mpegpipe - | framelane play - --to out.y4m
  framelane play testsrc:1280x720@60 --to none    how fast is this machine?

Keys in the window:
  space pause   f full screen   s screenshot   b before/after (left and right move the divider)
  wheel zoom    1 own size, 0 all of it    v the pixel under the mouse
  i figures     h all keys      q quit

Exit codes:
  0 done   1 failed   2 wrong command line   130 stopped by Ctrl-C (the file is finished)";

#[derive(Debug, ClapArgs)]
#[command(after_help = PLAY_EXAMPLES)]
pub struct PlayArgs {
    /// What to play: a video file, a folder of PNG or JPEG, an animated GIF, `-` (y4m on standard input),
    /// testsrc[:WxH@FPS], or anything ffmpeg reads (rtsp://…, /dev/video0). Several are shown side by side, or written
    /// one after the other. Without any: the built-in clip
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<String>,

    /// The network: an ONNX file, the built-in `upscale` (twice as large), or `none` (pictures pass through as
    /// they are)
    #[arg(long, value_name = "FILE.onnx|upscale|none", default_value = "upscale")]
    pub model: String,

    /// Where the result goes: a window, socket:NAME (the window of `framelane window NAME`), FILE.mp4, FILE.y4m, FOLDER/ (PNG), `-` (y4m on standard output) or
    /// none. auto: a window if there is a screen, otherwise framelane-out.mp4
    #[arg(long, value_name = "TARGET", default_value = "auto")]
    pub to: String,

    /// What runs the network. auto: ONNX Runtime if it is installed, otherwise tract, which is built in
    #[arg(long, value_name = "NAME", value_parser = ["auto", "tract", "onnxruntime"], default_value = "auto")]
    pub runtime: String,

    /// Where frames are fed: cpu, or a CUDA device (cuda, cuda:1). Networks run on the CPU for now, so that CUDA
    /// costs copies there and back and gains nothing but a test of the way. auto: cpu
    #[arg(long, value_name = "auto|cpu|cuda[:N]", default_value = "auto")]
    pub device: String,

    /// Frames that are in the network at once [default: up to 8, by cores; 2 for ONNX Runtime]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub lanes: Option<u32>,

    /// Frames that may wait on the device for the network [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: Option<u32>,

    /// When the network is slower than the source: fifo makes the source wait, latest drops old frames.
    /// auto: latest for cameras and network streams, fifo for files. With latest, testsrc is like a camera
    #[arg(long, value_enum, default_value_t = PolicyArg::Auto, hide_possible_values = false)]
    pub policy: PolicyArg,

    /// Stop after N frames (of each input, side by side)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub frames: Option<u64>,

    /// Begin again at the end
    #[arg(long = "loop")]
    pub looped: bool,

    /// Write the figures of the run as JSON; `-` is standard output
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<String>,

    #[command(flatten)]
    pub hints: Hints,
}

#[cfg(unix)]
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  framelane window wall                           and then, in other terminals:
  framelane play left.mp4 --to socket:wall
  framelane play right.mp4 --to socket:wall

Each process has a pane of its own. One that ends, or is killed, leaves its last picture, and may come again.")]
pub struct WindowArgs {
    /// The name by which the window is found: letters, digits, `.`, `_` and `-`
    #[arg(value_name = "NAME")]
    pub name: String,

    /// How large the window is at first
    #[arg(long, value_name = "WxH", default_value = "1280x720")]
    pub size: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    Auto,
    Fifo,
    Latest,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  framelane inspect depth.onnx
  framelane inspect depth.onnx --input-range imagenet --json")]
pub struct InspectArgs {
    /// The network
    #[arg(value_name = "FILE.onnx")]
    pub file: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub hints: Hints,
}

/// What the user says about the network where its file does not.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "About the network (what its file says, or else what is usual, if not given)")]
pub struct Hints {
    /// Order of the input's dimensions: nchw or nhwc
    #[arg(long, value_name = "ORDER")]
    pub layout: Option<String>,

    /// Order of the colours: rgb or bgr
    #[arg(long, value_name = "ORDER")]
    pub channels: Option<String>,

    /// What black and white are at the input: 0-1, -1-1, 0-255, imagenet, or R,G,B/R,G,B (means and deviations)
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub input_range: Option<String>,

    /// What comes out: image, mask, classes or heat
    #[arg(long, value_name = "KIND")]
    pub output: Option<String>,

    /// What black and white are at the output: as --input-range, LOW..HIGH, or frame (from each frame's least
    /// to its greatest)
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub output_range: Option<String>,

    /// How pictures are brought to a network of fixed size: fit, letterbox or tile
    #[arg(long, value_name = "HOW")]
    pub resize: Option<String>,

    /// The size at which a network that takes any size works, as in 640x360: pictures are brought to it (see
    /// --resize). Without it, at each picture's own size
    #[arg(long, value_name = "WxH")]
    pub size: Option<String>,

    /// Pixels that neighbouring tiles share
    #[arg(long, value_name = "N")]
    pub tile_overlap: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn ranges_may_begin_with_a_minus() {
        let args = Args::parse_from(["framelane", "play", "--input-range", "-1-1", "-", "--loop"]);
        let Command::Play(play) = args.command else { panic!("not play") };
        assert_eq!((play.hints.input_range.as_deref(), play.inputs), (Some("-1-1"), vec!["-".to_owned()]));
        assert!(play.looped);
    }
}
