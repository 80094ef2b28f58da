//! How a picture is to be looked at, as it is said in Python.

use crate::errors::argument;
use framelane::TensorView;
use framelane::device::{Buffer, Device, Stream};
use framelane::frame::FrameMeta;
use framelane::tensor::TensorSpec;
use framelane_show::{Colours, Layout, Picture};
use pyo3::prelude::*;

use crate::dlpack::{Foreign, Place};

/// What `show` is told besides the array.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    layout: Option<Layout>,
    range: Option<(f32, f32)>,
    colours: Colours,
    bgr: bool,
    mark: bool,
}

impl Looks {
    pub fn parse(
        layout: Option<&str>,
        range: Option<(f32, f32)>,
        colours: Option<&str>,
        bgr: bool,
        mark: bool,
    ) -> PyResult<Self> {
        let layout = match layout.map(str::to_ascii_lowercase).as_deref() {
            None => None,
            Some("hwc") => Some(Layout::Hwc),
            Some("chw") => Some(Layout::Chw),
            Some(other) => {
                return Err(argument(format!("layout cannot be {other:?}: give \"hwc\" or \"chw\"")));
            }
        };
        let colours = match colours {
            None | Some("grey") => Colours::Grey,
            Some("viridis") => Colours::Viridis,
            Some("turbo") => Colours::Turbo,
            Some(other) => {
                return Err(argument(format!(
                    "colours cannot be {other:?}: give \"grey\", \"viridis\" or \"turbo\""
                )));
            }
        };
        Ok(Self { layout, range, colours, bgr, mark })
    }

    /// How the picture before is looked at: as this one if it is of its kind, else by what it is itself.
    fn of_before(&self, spec: &TensorSpec, before: &TensorSpec) -> Self {
        if (spec.dtype(), spec.shape()) == (before.dtype(), before.shape()) {
            return *self;
        }
        Self { layout: None, range: None, colours: Colours::Grey, bgr: self.bgr, mark: false }
    }

    fn of<'a>(&self, picture: Picture<'a>) -> Picture<'a> {
        let mut picture = picture.colours(self.colours);
        if let Some(layout) = self.layout {
            picture = picture.layout(layout);
        }
        if let Some((low, high)) = self.range {
            picture = picture.range(low, high);
        }
        if self.bgr {
            picture = picture.bgr();
        }
        if self.mark {
            picture = picture.mark();
        }
        picture
    }
}

/// An array that is shown: where a device finds it, for as long as the call takes.
pub enum Shown {
    Host(Foreign),
    Cuda(Buffer, TensorSpec),
}

impl Shown {
    /// An array of the host's, or of this device.
    pub fn new(foreign: Foreign, device: &Device) -> framelane::Result<Self> {
        match foreign.place {
            Place::Host => Ok(Self::Host(foreign)),
            Place::Cuda(_) => foreign.into_buffer(device).map(|(buffer, spec)| Self::Cuda(buffer, spec)),
        }
    }

    fn spec(&self) -> &TensorSpec {
        match self {
            Self::Host(foreign) => &foreign.spec,
            Self::Cuda(_, spec) => spec,
        }
    }

    pub fn picture(&self, looks: &Looks) -> framelane::Result<Picture<'_>> {
        let picture = match self {
            Self::Host(foreign) => Picture::of_bytes(foreign.bytes().unwrap_or_default(), &foreign.spec)?,
            Self::Cuda(buffer, spec) => Picture::new(TensorView::new(buffer, 0, spec)?),
        };
        Ok(looks.of(picture))
    }
}

/// Show an array, and the one before it, by `show`.
pub fn show<R>(
    device: &Device,
    stream: &Stream,
    (array, before): (Foreign, Option<Foreign>),
    looks: &Looks,
    meta: &FrameMeta,
    show: impl FnOnce(&Stream, &Picture<'_>, &FrameMeta) -> framelane::Result<R>,
) -> framelane::Result<R> {
    let array = Shown::new(array, device)?;
    let before = before.map(|before| Shown::new(before, device)).transpose()?;
    let mut picture = array.picture(looks).map_err(|e| e.context(meta))?;
    if let Some(before) = &before {
        let looks = looks.of_before(array.spec(), before.spec());
        picture = picture.before(before.picture(&looks).map_err(|e| e.context(meta))?);
    }
    show(stream, &picture, meta)
}
