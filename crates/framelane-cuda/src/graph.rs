//! Graphs: work recorded once, enqueued again with one call.

use crate::context::{Context, Raw, lock};
use crate::error::{CudaError, Kind, Result, check};
use crate::memory::DeviceBuffer;
use crate::stream::Stream;
use cudarc::driver::sys::{CUgraph, CUgraph_st, CUgraphExec, CUgraphExec_st};
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

thread_local! {
    /// Memory used by what this thread is capturing; `None` when it is not.
    static KEPT: RefCell<Option<Vec<DeviceBuffer>>> = const { RefCell::new(None) };
    static THREAD: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// A number for the calling thread, from 1.
pub(crate) fn this_thread() -> u64 {
    THREAD.try_with(|t| *t).unwrap_or(u64::MAX)
}

/// Whether the calling thread is inside [`Stream::capture`].
pub(crate) fn is_capturing_here() -> bool {
    KEPT.try_with(|k| k.borrow().is_some()).unwrap_or(false)
}

/// Keep memory with the graph that the calling thread is capturing. `false`: it captures none.
pub(crate) fn keep(buffer: &DeviceBuffer) -> bool {
    KEPT.try_with(|k| {
        let mut kept = k.borrow_mut();
        let Some(kept) = kept.as_mut() else { return false };
        if !kept.iter().any(|b| b.same(buffer)) {
            kept.push(buffer.clone());
        }
        true
    })
    .unwrap_or(false)
}

/// Work that was captured, not yet ready to run.
pub struct Graph {
    context: Context,
    raw: Raw<CUgraph_st>,
    kept: Vec<DeviceBuffer>,
}

/// A graph ready to launch; clones are the same. Keeps alive the memory that the captured work uses.
#[derive(Clone)]
pub struct GraphExec {
    inner: Arc<Exec>,
}

struct Exec {
    context: Context,
    raw: Raw<CUgraphExec_st>,
    foreign: bool,
    kept: Vec<DeviceBuffer>,
    /// The driver takes one launch of one graph at a time.
    launching: Mutex<()>,
}

const THREAD_LOCAL: u32 = 1;

impl Stream {
    /// Capture into a graph what `work` enqueues on this stream, and on streams that it orders after this one
    /// and back (by events), all from the calling thread. Nothing runs. Other threads go on as they like on
    /// other streams; on this one their calls are refused.
    ///
    /// A call that waits for a whole context (`cuCtxSynchronize`, `torch.cuda.synchronize`), on any thread, breaks
    /// an open capture and fails itself: that is the driver's rule. This crate makes no such call.
    ///
    /// Device memory used inside is kept alive by the graph. Copies of pinned memory and allocations on this
    /// stream are refused.
    ///
    /// # Errors
    /// What `work` returned; [`Kind::Capture`] if this thread is capturing already, or the captured work does
    /// not come back to this stream.
    pub fn capture(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        if is_capturing_here() {
            return Err(CudaError::refused(
                Kind::Capture,
                "capture",
                "this thread is capturing a graph already: end that first",
            ));
        }
        self.inner().check_capturer("capture")?;
        let current = self.context().enter()?;
        // SAFETY: the stream is alive; the legacy default stream is refused by the driver.
        check("cuStreamBeginCapture_v2", unsafe {
            (self.api().cuStreamBeginCapture_v2)(self.raw(), THREAD_LOCAL)
        })?;
        drop(current);
        let capture = Capture::begin(self);
        let result = work(self);
        let graph = capture.end();
        self.context().reap();
        result.and(graph)
    }
}

/// Ends the capture, also when the work inside panics.
struct Capture<'a> {
    stream: &'a Stream,
    open: bool,
}

impl<'a> Capture<'a> {
    fn begin(stream: &'a Stream) -> Self {
        stream.inner().set_capturer(this_thread());
        KEPT.with(|k| *k.borrow_mut() = Some(Vec::new()));
        Self { stream, open: true }
    }

    fn end(mut self) -> Result<Graph> {
        self.close()
    }

    fn close(&mut self) -> Result<Graph> {
        self.open = false;
        let kept = KEPT.with(|k| k.borrow_mut().take()).unwrap_or_default();
        let context = self.stream.context();
        let mut raw: CUgraph = std::ptr::null_mut();
        let ended = context.enter().and_then(|_current| {
            // SAFETY: this thread began the capture; writes one handle.
            check("cuStreamEndCapture", unsafe {
                (self.stream.api().cuStreamEndCapture)(self.stream.raw(), &mut raw)
            })
        });
        self.stream.inner().set_capturer(0);
        ended?;
        Ok(Graph { context: context.clone(), raw: Raw(raw), kept })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open {
            drop(self.close());
        }
    }
}

impl Graph {
    /// Make it ready to launch. Takes some tens of µs per piece of work.
    ///
    /// # Errors
    /// [`Kind::OutOfMemory`], or a lost device.
    pub fn instantiate(&self) -> Result<GraphExec> {
        let _current = self.context.enter()?;
        let mut raw: CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph is alive; writes one handle.
        check("cuGraphInstantiateWithFlags", unsafe {
            (self.context.inner.api.cuGraphInstantiateWithFlags)(&mut raw, self.raw.0, 0)
        })?;
        Ok(GraphExec::wrap(&self.context, raw, false, self.kept.clone()))
    }
}

impl GraphExec {
    /// A graph that another library made, for example PyTorch's `CUDAGraph.raw_cuda_graph_exec()`. It is not
    /// destroyed with the last handle.
    ///
    /// # Safety
    /// - `raw` is an executable graph of `context`'s device, which lives, with the memory its work uses, until
    ///   the last handle is dropped and what was launched is over.
    /// - Nobody else launches it at the same time.
    pub unsafe fn from_raw(context: &Context, raw: CUgraphExec) -> Self {
        Self::wrap(context, raw, true, Vec::new())
    }

    fn wrap(context: &Context, raw: CUgraphExec, foreign: bool, kept: Vec<DeviceBuffer>) -> Self {
        let (context, raw, launching) = (context.clone(), Raw(raw), Mutex::new(()));
        Self { inner: Arc::new(Exec { context, raw, foreign, kept, launching }) }
    }

    /// Enqueue the captured work on `stream`. A second launch waits, on the GPU, for the first to end.
    ///
    /// # Errors
    /// [`Kind::Argument`] for a stream of another device; a lost device.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        let exec = &self.inner;
        if !exec.context.same(stream.context()) {
            return Err(CudaError::argument(
                "GraphExec::launch",
                "the graph belongs to another device than the stream",
            ));
        }
        for buffer in &exec.kept {
            buffer.before(stream)?;
        }
        {
            let _one = lock(&exec.launching);
            let _current = exec.context.enter()?;
            stream.inner().check_capturer("GraphExec::launch")?;
            // SAFETY: both are alive, the memory of the captured work is kept alive, and this is the only
            // launch at this moment.
            check("cuGraphLaunch", unsafe { (stream.api().cuGraphLaunch)(exec.raw.0, stream.raw()) })?;
        }
        for buffer in &exec.kept {
            buffer.used(stream)?;
        }
        Ok(())
    }

    /// Its device's context.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: ours; executable graphs made from it are copies.
            unsafe { (self.context.inner.api.cuGraphDestroy)(self.raw.0) };
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        if self.foreign {
            return;
        }
        if let Ok(_current) = self.context.enter() {
            // SAFETY: ours, and this was the last handle; the driver lets launches that are under way end first.
            unsafe { (self.context.inner.api.cuGraphExecDestroy)(self.raw.0) };
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({:?}, keeps {} buffers)", self.context, self.kept.len())
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphExec({:?}, keeps {} buffers)", self.context(), self.inner.kept.len())
    }
}
