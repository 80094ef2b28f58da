//! Several inputs as one source, begun again if asked, up to so many frames.

use framelane::feed::{Interrupter, SlotWriter, Source};
use framelane::frame::{FrameRate, ImageSize};
use framelane::{Error, ErrorKind, Result};
use framelane_media::{VideoInfo, VideoSource};
use std::sync::Arc;

/// Inputs of one size, one after the other.
pub struct Playlist {
    sources: Vec<Box<dyn VideoSource>>,
    at: usize,
    looped: bool,
    left: Option<u64>,
    /// Whether the pass through all inputs that is going on has given a frame.
    gave: bool,
}

impl Playlist {
    /// `sources`, begun again at the end if `looped`, and no more than `frames` frames in all.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the sizes differ.
    pub fn new(sources: Vec<Box<dyn VideoSource>>, looped: bool, frames: Option<u64>) -> Result<Self> {
        if let Some((first, rest)) = sources.split_first()
            && let Some(other) = rest.iter().find(|s| s.info().size != first.info().size)
        {
            let (a, b) = (first.info(), other.info());
            return Err(Error::new(
                ErrorKind::Input,
                format!(
                    "{} is {} and {} is {}: inputs played one after the other must have one size",
                    a.name, a.size, b.name, b.size
                ),
            ));
        }
        Ok(Self { sources, at: 0, looped, left: frames, gave: false })
    }

    fn infos(&self) -> impl Iterator<Item = &VideoInfo> {
        self.sources.iter().map(|s| s.info())
    }

    /// Size of every picture.
    pub fn size(&self) -> Result<ImageSize> {
        self.infos()
            .next()
            .map(|info| info.size)
            .ok_or_else(|| Error::new(ErrorKind::Argument, "there is nothing to play: give an input"))
    }

    /// Frames per second of the first input.
    pub fn rate(&self) -> Option<FrameRate> {
        self.infos().next().and_then(|info| info.rate)
    }

    /// Frames to come, if that is known.
    pub fn frames(&self) -> Option<u64> {
        let pass = self.infos().map(|info| info.frames).sum::<Option<u64>>();
        match (self.looped, pass, self.left) {
            (true, _, left) => left,
            (false, Some(pass), Some(left)) => Some(pass.min(left)),
            (false, pass, left) => pass.or(left),
        }
    }

    /// Whether frames come at their own pace and are lost if nobody looks.
    pub fn is_live(&self) -> bool {
        self.infos().any(|info| info.live)
    }

    /// One line for each input.
    pub fn describe(&self) -> Vec<String> {
        let line = |info: &VideoInfo| {
            let rate = info.rate.map(|r| format!(", {} fps", rounded(r.fps()))).unwrap_or_default();
            let frames = match info.frames {
                Some(1) => ", 1 frame".to_owned(),
                Some(n) => format!(", {n} frames"),
                None => String::new(),
            };
            format!("{}: {}{rate}{frames}", info.name, info.format)
        };
        self.infos().map(line).collect()
    }

    /// From the end of the last input to the first again; `false`: not asked for.
    fn again(&mut self) -> Result<bool> {
        if !self.looped {
            return Ok(false);
        }
        if !std::mem::take(&mut self.gave) {
            return Err(Error::new(ErrorKind::Input, "there are no frames to play again"));
        }
        for source in &mut self.sources {
            if !source.rewind()? {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("{} cannot be played again: leave out --loop", source.info().name),
                ));
            }
        }
        self.at = 0;
        Ok(true)
    }
}

/// A rate with as many decimals as it needs, two at most.
fn rounded(fps: f64) -> String {
    let text = format!("{fps:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Source for Playlist {
    fn name(&self) -> &str {
        self.sources.get(self.at).map_or("input", |s| s.name())
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        if self.left == Some(0) {
            return Ok(false);
        }
        loop {
            while let Some(source) = self.sources.get_mut(self.at) {
                if source.next_into(slot)? {
                    self.gave = true;
                    self.left = self.left.map(|n| n - 1);
                    return Ok(true);
                }
                self.at += 1;
            }
            if !self.again()? {
                return Ok(false);
            }
        }
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let all: Vec<Interrupter> = self.sources.iter().filter_map(|s| s.interrupter()).collect();
        if all.is_empty() {
            return None;
        }
        Some(Arc::new(move || all.iter().for_each(|interrupt| interrupt())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framelane::feed::Contents;
    use framelane_media::{OpenOptions, open};

    fn testsrc(input: &str, frames: u64) -> Box<dyn VideoSource> {
        open(input, &OpenOptions { frames: Some(frames), ..OpenOptions::default() }).unwrap()
    }

    fn indices(mut list: Playlist, most: usize) -> Result<Vec<u64>> {
        let (mut arena, mut contents) = (Vec::new(), Contents::default());
        let mut indices = Vec::new();
        while indices.len() < most && list.next_into(&mut SlotWriter::new(&mut arena, &mut contents))? {
            indices.push(contents.meta.as_ref().unwrap().index);
        }
        Ok(indices)
    }

    #[test]
    fn one_after_the_other_and_again() {
        let list = |looped, frames| {
            let sources = vec![testsrc("testsrc:16x16@5", 2), testsrc("testsrc:16x16@5", 3)];
            Playlist::new(sources, looped, frames).unwrap()
        };
        assert_eq!(indices(list(false, None), 99).unwrap(), [0, 1, 0, 1, 2]);
        assert_eq!(indices(list(false, Some(3)), 99).unwrap(), [0, 1, 0]);
        assert_eq!(indices(list(true, Some(7)), 99).unwrap(), [0, 1, 0, 1, 2, 0, 1]);
        assert_eq!((list(false, None).frames(), list(false, Some(3)).frames()), (Some(5), Some(3)));
        assert_eq!((list(true, None).frames(), list(true, Some(9)).frames()), (None, Some(9)));
    }

    #[test]
    fn nothing_is_not_repeated_for_ever() {
        let error = indices(Playlist::new(vec![testsrc("testsrc:16x16@5", 0)], true, None).unwrap(), 1);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Input);
    }

    #[test]
    fn sizes_must_agree() {
        let sources = vec![testsrc("testsrc:16x16@5", 1), testsrc("testsrc:32x16@5", 1)];
        let error = Playlist::new(sources, false, None).err().unwrap().to_string();
        assert!(error.contains("16×16") && error.contains("32×16"), "{error}");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!((rounded(24.0), rounded(30000.0 / 1001.0)), ("24".into(), "29.97".into()));
    }
}
