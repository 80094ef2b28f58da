//! Panes: where other threads push their frames.

use crate::link::{Link, Wake};
use crate::mailbox::Sent;
use framelane::frame::{FrameMeta, ImageSize};
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Instant;

/// What [`Pane::show`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a closed window is told here and nowhere else"]
pub enum Shown {
    /// The frame will be shown next.
    Shown,
    /// The frame will be shown next, in place of one that nobody saw.
    Replaced,
    /// The window is closed, or the pane was finished: stop.
    Closed,
}

/// One picture to show, borrowed for the length of the call.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// u8, height × width × 3, sRGB, rows from the top.
    pub rgb: &'a [u8],
    /// Width and height of `rgb`.
    pub size: ImageSize,
    /// Who the frame is.
    pub meta: &'a FrameMeta,
    /// The picture that went into the network, for the before/after split: same form as `rgb`, any size.
    pub before: Option<(&'a [u8], ImageSize)>,
}

impl Frame<'_> {
    pub(crate) fn check(&self) -> Result<()> {
        check_picture("the picture", self.meta, self.rgb, self.size)?;
        self.before.map_or(Ok(()), |(rgb, size)| check_picture("the picture before", self.meta, rgb, size))
    }
}

fn check_picture(what: &str, meta: &FrameMeta, rgb: &[u8], size: ImageSize) -> Result<()> {
    ImageSize::new(size.width, size.height).map_err(|e| e.context(meta))?;
    if rgb.len() == size.bytes() {
        return Ok(());
    }
    let (got, want) = (rgb.len(), size.bytes());
    Err(Error::new(
        ErrorKind::Argument,
        format!("{meta}: {what} has {got} bytes, but {size} RGB needs {want}"),
    ))
}

/// A handle to the pane of a window. Clones push into the same pane, from any thread.
///
/// When the last clone is dropped the stream has ended: the window keeps the last picture, or closes
/// if it was opened with [`close_at_end`](crate::WindowOptions::close_at_end).
#[derive(Debug, Clone)]
pub struct Pane {
    link: Arc<Link>,
    _end: Arc<EndOnDrop>,
}

impl Pane {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { _end: Arc::new(EndOnDrop(link.clone())), link }
    }

    /// Show a frame. It is copied before the call returns: the memory may be reused at once.
    ///
    /// With [`crate::Policy::Latest`] the call never waits for the screen. With [`crate::Policy::Fifo`] it waits until
    /// the window has taken the frame before, so for as long as the window is paused; closing the window
    /// ends the wait.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] or [`ErrorKind::Input`] if a size is impossible or does not fit its bytes.
    pub fn show(&self, frame: Frame<'_>) -> Result<Shown> {
        frame.check()?;
        if self.link.has_ended() {
            return Ok(Shown::Closed);
        }
        let Some(mut slot) = self.link.mailbox.lease() else { return Ok(Shown::Closed) };
        slot.fill(&frame);
        Ok(match self.link.mailbox.send(slot) {
            Sent::Closed => Shown::Closed,
            Sent::Fresh => {
                self.link.wake_for_frame();
                Shown::Shown
            }
            Sent::Replaced => {
                self.link.count_replaced();
                self.link.wake_for_frame();
                Shown::Replaced
            }
        })
    }

    /// Wait until `due` (see [`Pace`](crate::Pace)). `false`, at once, if the window is closed.
    pub fn wait_until(&self, due: Instant) -> bool {
        self.link.mailbox.open_until(due)
    }

    /// Whether the window is closed: no frame will be taken any more.
    pub fn is_closed(&self) -> bool {
        self.link.mailbox.is_closed()
    }

    /// Say that no frame follows, for all clones. Dropping the last clone says the same.
    pub fn finish(&self) {
        self.link.end();
    }
}

/// Tells the window that the last pane is gone, also when its thread panicked.
#[derive(Debug)]
struct EndOnDrop(Arc<Link>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A picture in the form the GPU takes: u8, height × width × 4, the fourth byte 255.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(crate) rgba: Vec<u8>,
    pub(crate) size: Option<ImageSize>,
}

impl Picture {
    fn fill(&mut self, rgb: &[u8], size: ImageSize) {
        self.rgba.resize(size.width * size.height * 4, 255);
        for (to, from) in self.rgba.chunks_exact_mut(4).zip(rgb.chunks_exact(3)) {
            to.copy_from_slice(&[from[0], from[1], from[2], 255]);
        }
        self.size = Some(size);
    }
}

/// One slot of a pane's mailbox.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) picture: Picture,
    /// Its `size` is `None` if the frame has no picture before.
    pub(crate) before: Picture,
    /// `None` only in a slot that was never filled.
    pub(crate) meta: Option<FrameMeta>,
}

impl Slot {
    /// `frame` must have been checked.
    pub(crate) fn fill(&mut self, frame: &Frame<'_>) {
        self.picture.fill(frame.rgb, frame.size);
        self.before.size = None;
        if let Some((rgb, size)) = frame.before {
            self.before.fill(rgb, size);
        }
        self.meta = Some(frame.meta.clone());
    }
}

impl Link {
    fn wake_for_frame(&self) {
        if self.claim_wake() {
            self.wake(Wake::Frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_fit_the_size() {
        let meta = FrameMeta::new("clip", 7);
        let size = ImageSize { width: 2, height: 2 };
        let frame = Frame { rgb: &[0; 11], size, meta: &meta, before: None };
        let error = frame.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert_eq!(error.to_string(), "frame 7 of clip: the picture has 11 bytes, but 2×2 RGB needs 12");
        let frame =
            Frame { rgb: &[0; 12], before: Some((&[0; 12], ImageSize { width: 1, height: 1 })), ..frame };
        assert!(frame.check().unwrap_err().to_string().contains("the picture before has 12 bytes"));
        let none = ImageSize { width: 0, height: 2 };
        let frame = Frame { rgb: &[], size: none, meta: &meta, before: None };
        assert_eq!(frame.check().unwrap_err().kind(), ErrorKind::Input);
    }

    #[test]
    fn a_reused_slot_forgets_the_frame_before() {
        let meta = FrameMeta::new("clip", 0);
        let one = ImageSize { width: 1, height: 1 };
        let two = ImageSize { width: 2, height: 1 };
        let mut slot = Slot::default();
        let first =
            Frame { rgb: &[1, 2, 3, 4, 5, 6], size: two, meta: &meta, before: Some((&[7, 8, 9], one)) };
        slot.fill(&first);
        assert_eq!(slot.picture.rgba, [1, 2, 3, 255, 4, 5, 6, 255]);
        assert_eq!((slot.before.rgba.as_slice(), slot.before.size), (&[7, 8, 9, 255][..], Some(one)));
        slot.fill(&Frame { rgb: &[9, 9, 9], size: one, meta: &meta, before: None });
        assert_eq!((slot.picture.rgba.as_slice(), slot.before.size), (&[9, 9, 9, 255][..], None));
    }
}
