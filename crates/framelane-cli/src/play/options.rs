//! What the command line of `play` means.

use super::overwrite;
use crate::args::{Hints, PlayArgs, PolicyArg};
use framelane::ring::Policy;
use framelane::{Error, ErrorKind, Result};
use framelane_onnx::{Overrides, Runtime, parse_size};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::str::FromStr;

/// What to do, all of it checked as far as it can be without touching anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// None: the built-in clip.
    pub inputs: Vec<String>,
    pub network: Network,
    pub overrides: Overrides,
    pub runtime: Runtime,
    pub device: On,
    pub to: To,
    pub json: Option<Json>,
    /// `None`: by runtime and cores.
    pub lanes: Option<usize>,
    /// `None`: as usual.
    pub depth: Option<usize>,
    /// `None`: by input.
    pub policy: Option<Policy>,
    pub frames: Option<u64>,
    pub looped: bool,
}

/// Which network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    Upscale,
    None,
    File(PathBuf),
}

/// Where frames are fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Auto,
    Cpu,
    /// The CUDA device of this number.
    Cuda(u32),
}

impl FromStr for On {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let number = |n: &str| n.parse().ok().map(Self::Cuda);
        match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            other => other.strip_prefix("cuda:").and_then(number),
        }
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Argument,
                format!("--device cannot be {text:?}: give auto, cpu, cuda or cuda:N (cuda:0 is the first)"),
            )
        })
    }
}

/// Where results go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    Auto,
    Window,
    /// The window of another process, by its name.
    Socket(String),
    None,
    /// y4m on standard output.
    Stdout,
    /// A file or folder, as `framelane_media::create` understands it.
    Path(String),
}

/// Where the figures go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    Stdout,
    File(PathBuf),
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Argument`]: what does not go together.
    pub fn resolve(args: &PlayArgs) -> Result<Self> {
        let options = Self {
            inputs: args.inputs.clone(),
            network: match args.model.as_str() {
                "upscale" => Network::Upscale,
                "none" => Network::None,
                file => Network::File(file.into()),
            },
            overrides: overrides(&args.hints)?,
            runtime: args.runtime.parse()?,
            device: args.device.parse()?,
            to: target(&args.to)?,
            json: args.json.as_deref().map(|json| match json {
                "-" => Json::Stdout,
                file => Json::File(file.into()),
            }),
            lanes: args.lanes.map(|n| n as usize),
            depth: args.depth.map(|n| n as usize),
            policy: match args.policy {
                PolicyArg::Auto => None,
                PolicyArg::Fifo => Some(Policy::Fifo),
                PolicyArg::Latest => Some(Policy::Latest),
            },
            frames: args.frames,
            looped: args.looped,
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        let wrong = |text: String| Err(Error::new(ErrorKind::Argument, text));
        if self.to == To::Stdout && self.json == Some(Json::Stdout) {
            return wrong(
                "--to - and --json - would both write to standard output: give one of them a file".into(),
            );
        }
        if self.inputs.iter().filter(|i| *i == "-").count() > 1 {
            return wrong("standard input can be read once: give - once".into());
        }
        if self.looped && self.inputs.iter().any(|i| i == "-") {
            return wrong("standard input cannot be played again: leave out --loop, or give a file".into());
        }
        overwrite::check(self)
    }
}

fn target(to: &str) -> Result<To> {
    let is_folder = to.ends_with('/') || to.ends_with(MAIN_SEPARATOR) || Path::new(to).is_dir();
    let extension = Path::new(to).extension().map(|e| e.to_ascii_lowercase());
    let is_file = extension.is_some_and(|e| e == "mp4" || e == "m4v" || e == "y4m");
    match to {
        "auto" => Ok(To::Auto),
        "window" => Ok(To::Window),
        "none" => Ok(To::None),
        "-" => Ok(To::Stdout),
        _ if to.starts_with("socket:") => match to.strip_prefix("socket:") {
            #[cfg(unix)]
            Some(name) if !name.is_empty() => {
                framelane::share::check_window_name(name)?;
                Ok(To::Socket(name.to_owned()))
            }
            Some(_) if !cfg!(unix) => {
                Err(Error::new(ErrorKind::Unsupported, "--to socket:NAME works on Linux alone"))
            }
            _ => Err(Error::new(
                ErrorKind::Argument,
                "--to socket: needs the name that `framelane window NAME` was started with",
            )),
        },
        _ if is_folder || is_file => Ok(To::Path(to.to_owned())),
        _ => Err(Error::new(
            ErrorKind::Argument,
            format!(
                "--to cannot be {to:?}: give auto, window, socket:NAME, FILE.mp4, FILE.y4m, FOLDER/ (with the slash), - or none"
            ),
        )),
    }
}

/// What the user says about the network.
///
/// # Errors
/// [`ErrorKind::Argument`], naming the option and what it takes.
pub fn overrides(hints: &Hints) -> Result<Overrides> {
    fn parse<T: std::str::FromStr<Err = Error>>(text: &Option<String>) -> Result<Option<T>> {
        text.as_deref().map(str::parse).transpose()
    }
    if let Some(target) = hints.output.as_deref().filter(|o| target(o).is_ok() && *o != "-") {
        return Err(Error::new(
            ErrorKind::Argument,
            format!(
                "--output says what the network gives (image, mask, classes or heat); to write to {target:?} give --to"
            ),
        ));
    }
    Ok(Overrides {
        layout: parse(&hints.layout)?,
        channels: parse(&hints.channels)?,
        input_range: parse(&hints.input_range)?,
        output: parse(&hints.output)?,
        output_range: parse(&hints.output_range)?,
        resize: parse(&hints.resize)?,
        size: hints.size.as_deref().map(parse_size).transpose()?,
        tile_overlap: hints.tile_overlap,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn resolve(line: &[&str]) -> Result<Options> {
        let args = Args::parse_from(["framelane", "play"].iter().chain(line));
        let Command::Play(play) = args.command else { unreachable!("it is play") };
        Options::resolve(&play)
    }

    #[test]
    fn defaults() {
        let options = resolve(&[]).unwrap();
        assert_eq!((options.network, options.to), (Network::Upscale, To::Auto));
        assert_eq!((options.lanes, options.depth, options.policy), (None, None, None));
        assert_eq!(options.device, On::Auto);
    }

    #[test]
    fn devices_are_named_as_elsewhere() {
        let on = |name| resolve(&["--device", name]).map(|o| o.device);
        assert_eq!(on("cpu").unwrap(), On::Cpu);
        assert_eq!(on("cuda").unwrap(), On::Cuda(0));
        assert_eq!(on("cuda:3").unwrap(), On::Cuda(3));
        for wrong in ["gpu", "cuda:", "cuda:-1", "cuda0", ""] {
            assert!(on(wrong).unwrap_err().to_string().contains("cuda:N"), "{wrong}");
        }
    }

    #[test]
    fn targets_are_told_apart_before_anything_is_done() {
        assert_eq!(resolve(&["--to", "a.MP4"]).unwrap().to, To::Path("a.MP4".into()));
        assert_eq!(resolve(&["--to", "new/"]).unwrap().to, To::Path("new/".into()));
        assert_eq!(resolve(&["--to", "-"]).unwrap().to, To::Stdout);
        #[cfg(unix)]
        assert_eq!(resolve(&["--to", "socket:no/name"]).unwrap_err().kind(), ErrorKind::Argument);
        let error = resolve(&["--to", "a.avi"]).unwrap_err();
        assert!(error.to_string().contains("FILE.mp4"), "{error}");
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for line in [
            &["--to", "-", "--json", "-"][..],
            &["-", "-"],
            &["-", "--loop"],
            &["--layout", "nwhc"],
            &["--size", "0x1"],
        ] {
            assert_eq!(resolve(line).unwrap_err().kind(), ErrorKind::Argument, "{line:?}");
        }
    }

    #[test]
    fn the_input_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.y4m");
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let other = folder.path().join(".").join("a.y4m");
        assert!(resolve(&[file, "--to", other.to_str().unwrap()]).is_err());
        assert!(resolve(&[file, "--to", &format!("{file}.mp4")]).is_ok());
        assert!(resolve(&[file, "--json", other.to_str().unwrap()]).is_err());
        assert!(resolve(&["--model", file, "--json", other.to_str().unwrap()]).is_err());
        let same = format!("{file}.mp4");
        assert!(resolve(&[file, "--to", &same, "--json", &same]).is_err());
        let folder = folder.path().to_str().unwrap();
        assert!(resolve(&[folder, "--to", &format!("{folder}/")]).is_err());
    }
}
