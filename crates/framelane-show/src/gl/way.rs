//! Which way pictures come to OpenGL, and what both ways have in common.

use super::raw::{Calls, Drawn, Gl};
use crate::Picture;
use crate::display::by_host;
use crate::display::picture::{self, How};
use crate::display::staging::Staging;
use crate::gpu::AdapterInfo;
use framelane::device::{Access, Buffer, Device, Event, Stream};
use framelane::framelane_cuda::{self as cuda, CudaError, DeviceBuffer, Kind, Place};
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a picture came to OpenGL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlWay {
    /// CUDA wrote it where OpenGL has it. (A picture of the host's got to CUDA by a copy first, which is counted.)
    Shared,
    /// OpenGL got it from the host: by one copy of its driver's, and one from the device if it was made on one.
    Upload,
}

static LEFT: AtomicU64 = AtomicU64::new(0);

/// How many textures and buffers stayed registered with CUDA, in this process, since no OpenGL context was current where
/// they were dropped.
pub fn left_registered() -> u64 {
    LEFT.load(Ordering::Relaxed)
}

/// Why the CPU waits on the `host-upload` way.
const WAIT: &str = "host-upload to OpenGL";

/// On Linux, OpenGL's programs are sent to an NVIDIA GPU beside the one that drives the screen by these (NVIDIA driver's
/// README, "PRIME Render Offload").
const OFFLOAD: &str = if cfg!(target_os = "linux") {
    ": start the program with __NV_PRIME_RENDER_OFFLOAD=1 and __GLX_VENDOR_LIBRARY_NAME=nvidia to draw on the first"
} else {
    ""
};

/// What a texture or buffer of the caller's is shown on with, whichever it is.
pub(super) struct Shower {
    pub gl: Gl,
    device: Device,
    adapter: AdapterInfo,
    pub path: String,
    pub shown: u64,
    pub host_copies: u64,
    /// The end of what CUDA was given last.
    last: Option<Event>,
    pub staging: Arc<Staging>,
    /// Made when first needed, and as large as the largest picture.
    host: Option<Host>,
}

/// Where a picture is made for the `host-upload` way.
struct Host {
    /// Written by the kernel.
    target: Buffer,
    /// Pinned host memory: `target` itself on the host device.
    seen: Buffer,
}

/// Whether CUDA may write what OpenGL has, and if not, why.
pub(super) type May<T> = std::result::Result<T, String>;

impl Shower {
    /// On the context that is current, for pictures of `device`.
    pub fn new(device: &Device) -> Result<Self> {
        let mut gl = Gl::of_current()?;
        let adapter = adapter(&gl.enter()?);
        let staging = Arc::new(Staging::new(device));
        let (device, path) = (device.clone(), String::new());
        Ok(Self { gl, device, adapter, path, shown: 0, host_copies: 0, last: None, staging, host: None })
    }

    /// Find out by trying whether CUDA may write it: `register` it, and `map` it once.
    pub fn choose<T>(
        &mut self,
        register: impl FnOnce(&Drawn<'_>) -> cuda::Result<T>,
        map: impl FnOnce(&mut T, &cuda::Stream) -> cuda::Result<()>,
    ) -> Result<May<T>> {
        let chosen = self.try_shared(register, map)?;
        match &chosen {
            Ok(_) => self.path = self.adapter.reached_by("gl-shared"),
            Err(why) => self.path = self.by_host(why),
        }
        Ok(chosen)
    }

    fn try_shared<T>(
        &mut self,
        register: impl FnOnce(&Drawn<'_>) -> cuda::Result<T>,
        map: impl FnOnce(&mut T, &cuda::Stream) -> cuda::Result<()>,
    ) -> Result<May<T>> {
        let Some(context) = self.device.cuda_context() else {
            return Ok(Err(format!("pictures are made on the {}", self.device.name())));
        };
        // Whatever stands in the way says so itself.
        Ok(match Drawn::by(context, self.gl.enter()?) {
            Ok(Some(drawn)) => cuda::Stream::new(context, 0)
                .and_then(|stream| {
                    let mut registered = register(&drawn)?;
                    map(&mut registered, &stream)?;
                    Ok(registered)
                })
                .map_err(|why| why.to_string()),
            Ok(None) => {
                let (theirs, ours) = (context.info(), &self.adapter);
                Err(format!("pictures are made on {theirs}, and drawn by another one, {ours}{OFFLOAD}"))
            }
            Err(why) => Err(why.to_string()),
        })
    }

    /// From now on pictures go by the host, though they did not before.
    pub fn fall_back(&mut self, why: &str) {
        self.path = self.by_host(why);
        log::warn!("OpenGL gets its pictures by {} from now on", self.path);
    }

    fn by_host(&self, why: &str) -> String {
        format!("{}: {why}", self.adapter.reached_by("host-upload"))
    }

    /// Enqueue `write`, which has CUDA write what OpenGL has, after what was shown before. If it cannot from now on, why.
    pub fn share(
        &mut self,
        stream: &Stream,
        read: Access<'_>,
        write: impl FnOnce(&cuda::Stream, &DeviceBuffer, usize) -> cuda::Result<()>,
    ) -> Result<May<GlWay>> {
        let mut refused = None;
        let enqueued = stream.launch_on_cuda("show in OpenGL", &[read], |stream, places| {
            let [(Place::Device(from), at)] = places else { unreachable!("pictures are device memory") };
            write(stream, from, at.start).inspect_err(|why| refused = Some(why.clone()))
        });
        match (enqueued, refused) {
            (Ok(()), _) => {
                self.last = Some(stream.record()?);
                self.shown += 1;
                Ok(Ok(GlWay::Shared))
            }
            (Err(_), Some(why)) if is_of_sharing(&why) => Ok(Err(why.to_string())),
            (Err(error), _) => Err(error),
        }
    }

    /// # Errors
    /// [`ErrorKind::Argument`] for a stream of another device.
    pub fn check(&self, stream: &Stream) -> Result<()> {
        if stream.device().same(&self.device) {
            return Ok(());
        }
        let (ours, theirs, name) = (self.device.name(), stream.device().name(), stream.name());
        Err(Error::new(
            ErrorKind::Argument,
            format!("OpenGL was registered for pictures of {ours}, not of stream {name:?} on {theirs}"),
        ))
    }

    /// Work that is enqueued on `stream` now comes after the last that was shown.
    pub fn after_last(&self, stream: &Stream) -> Result<()> {
        self.last.iter().try_for_each(|end| stream.wait(end))
    }

    /// Make the picture in host memory, wait for it, and hand it over: `take` gives it to OpenGL.
    pub fn upload(
        &mut self,
        stream: &Stream,
        picture: &Picture<'_>,
        how: &How,
        take: impl FnOnce(&Calls<'_>, &[u8]) -> Result<()>,
    ) -> Result<GlWay> {
        let bytes = how.bytes();
        let host = match self.host.take().filter(|host| host.target.len() >= bytes) {
            Some(host) => host,
            None => {
                let (target, seen) = by_host(&self.device, bytes)?;
                Host { target, seen }
            }
        };
        let host = self.host.insert(host);
        self.staging
            .with(stream, picture.source(), |from| picture::enqueue(stream, how, from, (&host.target, 0)))?;
        if self.device.cuda_context().is_some() {
            stream.copy(&host.target, 0..bytes, &host.seen, 0)?;
        }
        stream.synchronize(WAIT)?;
        take(&self.gl.enter()?, &host.seen.read_host()?[..bytes])?;
        self.shown += 1;
        self.host_copies += 1;
        Ok(GlWay::Upload)
    }

    /// At the end: whether what CUDA knows may be unregistered, on this thread, now.
    pub fn may_unregister(&mut self, what: &str) -> bool {
        if let Some(end) = self.last.take()
            && let Err(why) = end.synchronize("unregistering from OpenGL")
        {
            log::warn!("{what} of OpenGL's is unregistered from CUDA after a failure: {why}");
        }
        let Err(why) = self.gl.enter().map(|_| ()) else { return true };
        LEFT.fetch_add(1, Ordering::Relaxed);
        log::warn!("{what} of OpenGL's stays registered with CUDA until the process ends: {why}");
        false
    }
}

/// Whether a failure is the driver's on this way to OpenGL, so that the other one is taken from then on.
fn is_of_sharing(error: &CudaError) -> bool {
    // Without a code it was refused before the driver was asked: the caller's to mend. The others would fail there, too.
    error.code() != 0 && !matches!(error.kind(), Kind::Lost | Kind::Capture | Kind::OutOfMemory)
}

/// `NVIDIA H200/PCIe/SSE2`, `llvmpipe (LLVM 15.0.6, 256 bits)`.
fn adapter(gl: &Calls<'_>) -> AdapterInfo {
    let renderer = gl.renderer();
    let name = renderer.split("/PCIe").next().unwrap_or(&renderer).to_owned();
    AdapterInfo { name, backend: "OpenGL", kind: "unknown", driver: gl.vendor(), uuid: None, shares: false }
}
