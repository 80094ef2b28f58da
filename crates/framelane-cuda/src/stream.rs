//! Streams: queues of work that runs in order, later than the call that enqueued it.

use crate::api::Api;
use crate::context::{Context, Raw};
use crate::error::{CudaError, Kind, NOT_READY, Result, check};
use crate::event::{Event, EventOptions};
use crate::graph;
use cudarc::driver::sys::{CUevent, CUstream, CUstream_st};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A queue of work on a device; clones are the same stream. Any thread may enqueue. Only the calls named
/// `synchronize` wait.
///
/// Dropping the last handle does not wait: the driver finishes what was enqueued.
#[derive(Clone)]
pub struct Stream {
    handle: Arc<Handle>,
}

/// What the program holds. Memory used on the stream holds only the [`Inner`].
struct Handle {
    inner: Arc<Inner>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.abandoned.store(true, Ordering::Release);
    }
}

pub(crate) struct Inner {
    pub context: Context,
    /// Its own for ever; the driver may give a handle again once a stream is gone.
    pub id: u64,
    raw: Raw<CUstream_st>,
    /// Made by another library, which may destroy it when it likes once our calls on it have returned.
    pub foreign: bool,
    /// The program has dropped it.
    pub abandoned: AtomicBool,
    /// The thread that captures it into a graph, or 0.
    capturer: AtomicU64,
}

const NON_BLOCKING: u32 = 1;
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// A new stream that never waits for the legacy default stream; the context is current.
pub(crate) fn create(api: &Api, stream: &mut CUstream, priority: i32) -> Result<()> {
    // SAFETY: writes one handle.
    check("cuStreamCreateWithPriority", unsafe {
        (api.cuStreamCreateWithPriority)(stream, NON_BLOCKING, priority)
    })
}

impl Stream {
    /// A new stream. `priority` 0 is normal; lower is more urgent, down to [`Context::priorities`], and is
    /// clamped to what the device has. It never waits for, nor holds up, a legacy default stream.
    ///
    /// # Errors
    /// [`Kind::OutOfMemory`], or a lost device.
    pub fn new(context: &Context, priority: i32) -> Result<Self> {
        let mut raw: CUstream = std::ptr::null_mut();
        let current = context.enter()?;
        create(context.inner.api, &mut raw, context.inner.clamp_priority(priority))?;
        drop(current);
        Ok(Self::wrap(context, raw, false))
    }

    /// A stream that another library made, for example PyTorch's `stream.cuda_stream`. It is not destroyed
    /// when the last handle is dropped. The legacy default stream (0 or 1) is taken as it is: see
    /// [`Stream::is_legacy_default`].
    ///
    /// # Errors
    /// [`Kind::Argument`] for the per-thread default stream (2): it is another stream in each thread.
    ///
    /// # Safety
    /// - `raw` is a stream of `context`'s device's primary context.
    /// - It is not destroyed before the last handle of this stream is dropped. (Memory used on it may be
    ///   dropped later.)
    pub unsafe fn from_raw(context: &Context, raw: CUstream) -> Result<Self> {
        if raw as usize == PER_THREAD {
            return Err(CudaError::argument(
                "Stream::from_raw",
                "the per-thread default stream is another stream in each thread: give a stream of its own",
            ));
        }
        Ok(Self::wrap(context, raw, true))
    }

    fn wrap(context: &Context, raw: CUstream, foreign: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let inner = Arc::new(Inner {
            context: context.clone(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            raw: Raw(raw),
            foreign,
            abandoned: AtomicBool::new(false),
            capturer: AtomicU64::new(0),
        });
        Self { handle: Arc::new(Handle { inner }) }
    }

    /// Its device's context.
    pub fn context(&self) -> &Context {
        &self.inner().context
    }

    /// The driver's handle, for other libraries. Valid while a handle of this stream lives.
    pub fn raw(&self) -> CUstream {
        self.inner().raw.0
    }

    /// Whether both are one stream of the driver.
    pub fn same(&self, other: &Stream) -> bool {
        self.inner().same(other.inner())
    }

    /// Whether this is the legacy default stream, which waits for, and holds up, every blocking stream of
    /// its context: work on it does not overlap with such streams.
    pub fn is_legacy_default(&self) -> bool {
        self.raw() as usize <= LEGACY
    }

    /// Its priority: lower is more urgent.
    ///
    /// # Errors
    /// A lost device.
    pub fn priority(&self) -> Result<i32> {
        let _current = self.context().enter()?;
        let mut priority = 0;
        // SAFETY: writes one number; the stream is alive.
        check("cuStreamGetPriority", unsafe { (self.api().cuStreamGetPriority)(self.raw(), &mut priority) })?;
        Ok(priority)
    }

    /// A fresh event, reached when all work enqueued so far is done.
    ///
    /// # Errors
    /// A lost device.
    pub fn record(&self) -> Result<Event> {
        self.record_with(EventOptions::default())
    }

    /// As [`Stream::record`], with the options given.
    ///
    /// # Errors
    /// A lost device.
    pub fn record_with(&self, options: EventOptions) -> Result<Event> {
        self.inner().record(options)
    }

    /// Work enqueued from now on waits until `event`, of any device, is reached. The calling thread does not.
    ///
    /// # Errors
    /// A lost device; [`Kind::Capture`] if only one of both belongs to a graph's capture.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { self.wait_raw(event.handle()) }
    }

    /// As [`Stream::wait`], for an event that another library made and recorded.
    ///
    /// # Errors
    /// As [`Stream::wait`].
    ///
    /// # Safety
    /// `event` is an event of the driver that is not destroyed during this call.
    pub unsafe fn wait_raw(&self, event: CUevent) -> Result<()> {
        let _current = self.context().enter()?;
        self.inner().check_capturer("wait")?;
        // SAFETY: the stream is alive, and the caller vouches for the event.
        check("cuStreamWaitEvent", unsafe { (self.api().cuStreamWaitEvent)(self.raw(), event, 0) })
    }

    /// Whether all work enqueued so far is done. Never waits.
    ///
    /// # Errors
    /// A failure of that work ([`Kind::Lost`]).
    pub fn is_idle(&self) -> Result<bool> {
        let _current = self.context().enter()?;
        // SAFETY: the stream is alive.
        match unsafe { (self.api().cuStreamQuery)(self.raw()) } {
            NOT_READY => Ok(false),
            code => check("cuStreamQuery", code).map(|()| true),
        }
    }

    /// Wait on the CPU until all work enqueued so far is done.
    ///
    /// # Errors
    /// A failure of that work ([`Kind::Lost`]).
    pub fn synchronize(&self) -> Result<()> {
        let _current = self.context().enter()?;
        // SAFETY: the stream is alive.
        check("cuStreamSynchronize", unsafe { (self.api().cuStreamSynchronize)(self.raw()) })
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.inner().context.inner.api
    }
}

impl Inner {
    pub fn raw(&self) -> CUstream {
        self.raw.0
    }

    pub fn same(&self, other: &Inner) -> bool {
        // One number can be a stream in each of two contexts (the default stream is).
        self.raw.0 == other.raw.0 && self.context.same(&other.context)
    }

    pub fn record(&self, options: EventOptions) -> Result<Event> {
        let _current = self.context.enter()?;
        self.check_capturer("record")?;
        let event = Event::fresh(&self.context, options)?;
        // SAFETY: both are alive and of one context.
        check("cuEventRecord", unsafe {
            (self.context.inner.api.cuEventRecord)(event.handle(), self.raw.0)
        })?;
        Ok(event)
    }

    /// Whether the driver is capturing it into a graph. A stream that cannot say is not.
    pub fn is_capturing(&self) -> bool {
        let Ok(_current) = self.context.enter() else { return false };
        let mut status = 0;
        // SAFETY: writes one number; the stream is alive.
        let code = unsafe { (self.context.inner.api.cuStreamIsCapturing)(self.raw.0, &mut status) };
        code == 0 && status != 0
    }

    pub fn set_capturer(&self, thread: u64) {
        self.capturer.store(thread, Ordering::Release);
    }

    /// # Errors
    /// [`Kind::Capture`] if another thread is capturing this stream: what we enqueued would become part of
    /// its graph.
    pub fn check_capturer(&self, call: &'static str) -> Result<()> {
        let capturer = self.capturer.load(Ordering::Acquire);
        if capturer == 0 || capturer == graph::this_thread() {
            return Ok(());
        }
        Err(CudaError::refused(
            Kind::Capture,
            call,
            "another thread is capturing this stream into a graph: use a stream of your own, or wait until it is done",
        ))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.foreign {
            return;
        }
        let result = self.context.enter().and_then(|_current| {
            // SAFETY: ours, and this was the last handle. The driver finishes what is pending.
            check("cuStreamDestroy_v2", unsafe { (self.context.inner.api.cuStreamDestroy_v2)(self.raw.0) })
        });
        if let Err(error) = result {
            self.context.inner.late(error);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let foreign = if self.inner().foreign { ", foreign" } else { "" };
        write!(f, "Stream({:?}, {:?}{foreign})", self.context(), self.raw())
    }
}
