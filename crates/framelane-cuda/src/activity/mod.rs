//! What all code of this process copies between host and device, and what a thread waits for meanwhile: as CUPTI,
//! NVIDIA's tracing library, records it.
//!
//! Recording is for finding out: it makes each launch and copy a little slower. One recording a process at a time, and none
//! beside another profiler. What no copy engine moves is not seen: kernels that read host memory, and managed memory.

mod cupti;
mod split;

pub use split::{By, Crossed, Traffic};

use crate::context::Context;
use crate::device::{device_is_active, devices};
use crate::driver::driver;
use crate::error::{CudaError, Kind, Result, check};
use cupti::{Cupti, kind};
use split::{Call, CopyRecord, Records, Span, Waits};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The records of what the process does on its GPUs, from [`Recording::start`] to [`Recording::finish`].
pub struct Recording {
    cupti: &'static Cupti,
    subscriber: Subscriber,
    /// A child that was forked records nothing.
    process: u32,
    thread: u32,
    began: u64,
}

struct Subscriber(*mut c_void);

// SAFETY: CUPTI's handles may be given back on any thread.
unsafe impl Send for Subscriber {}
// SAFETY: nothing is done with it by reference.
unsafe impl Sync for Subscriber {}

struct Now {
    cupti: &'static Cupti,
    began: u64,
    records: Records,
    /// What functions may wait for, by kind and number.
    functions: HashMap<(u32, u32), Option<Waits>>,
}

/// What is being recorded.
static NOW: Mutex<Option<Now>> = Mutex::new(None);
/// Whether our own copies are named as such.
static NAMING: AtomicBool = AtomicBool::new(false);

// No code that can panic runs under the lock.
fn now() -> MutexGuard<'static, Option<Now>> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recording {
    /// Record from now on. The time that is split is the calling thread's. `near` names files that may be CUPTI, to try
    /// before those that the system knows. The first recording of a process takes some tenths of a second.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if CUPTI is not there or refuses; [`Kind::Busy`] if another recording or another profiler is at
    /// work; no driver.
    pub fn start(near: &[PathBuf]) -> Result<Self> {
        driver()?;
        let cupti = Cupti::load(near)?;
        let thread = thread();
        let began = cupti.now()?;
        {
            let mut now = now();
            if now.is_some() {
                let text = "copies are being counted already, around this";
                return Err(CudaError::refused(Kind::Busy, "recording", text));
            }
            *now = Some(Now { cupti, began, records: Records::default(), functions: HashMap::new() });
        }
        let mut subscriber = std::ptr::null_mut();
        // Nothing is called; who has subscribed is alone with CUPTI.
        // SAFETY: writes one handle.
        let code = unsafe { (cupti.cuptiSubscribe)(&mut subscriber, std::ptr::null(), std::ptr::null_mut()) };
        if let Err(error) = cupti.check("cuptiSubscribe", code) {
            *now() = None;
            return Err(error);
        }
        let process = std::process::id();
        let mut recording = Self { cupti, subscriber: Subscriber(subscriber), process, thread, began };
        // From here on, dropping it takes all back.
        recording.enable()?;
        recording.began = cupti.now()?;
        Ok(recording)
    }

    fn enable(&self) -> Result<()> {
        const SYSTEMS: u32 = 1;
        let cupti = self.cupti;
        // SAFETY: takes a number.
        cupti.check("cuptiSetThreadIdType", unsafe { (cupti.cuptiSetThreadIdType)(SYSTEMS) })?;
        // SAFETY: both functions keep to what CUPTI expects of them, and live as long as the process.
        cupti.check("cuptiActivityRegisterCallbacks", unsafe {
            (cupti.cuptiActivityRegisterCallbacks)(requested, completed)
        })?;
        for kind in kind::ALL {
            // SAFETY: takes a number.
            cupti.check("cuptiActivityEnable", unsafe { (cupti.cuptiActivityEnable)(kind) })?;
        }
        NAMING.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What was recorded since the start. The time ends with the call; then this waits for the process's devices, so that
    /// what was enqueued is counted.
    ///
    /// # Errors
    /// A lost device; what CUPTI says.
    pub fn finish(self) -> Result<Traffic> {
        if self.process != std::process::id() {
            let text = "a child process that was forked cannot end its parent's recording";
            return Err(CudaError::refused(Kind::Unsupported, "finish", text));
        }
        let block = Span { start: self.began, end: self.cupti.now()? };
        for device in devices()? {
            if !device_is_active(device.ordinal)? {
                continue;
            }
            let context = Context::open(device.ordinal)?;
            let _current = context.enter()?;
            // SAFETY: takes nothing; the context is current.
            check("cuCtxSynchronize", unsafe { (driver()?.cuCtxSynchronize)() })?;
        }
        self.cupti.check("cuptiActivityFlushAll", flush(self.cupti))?;
        let recorded = now().take();
        let thread = self.thread;
        Ok(recorded.map(|now| now.records.traffic(block, thread)).unwrap_or_default())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        NAMING.store(false, Ordering::Relaxed);
        *now() = None;
        for kind in kind::ALL {
            // It is not enabled if that failed.
            // SAFETY: takes a number.
            let _ = unsafe { (self.cupti.cuptiActivityDisable)(kind) };
        }
        // SAFETY: subscribed at the start, and given back once.
        let _ = unsafe { (self.cupti.cuptiUnsubscribe)(self.subscriber.0) };
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording(since {} ns)", self.began)
    }
}

/// Have all records delivered, with what is not complete.
fn flush(cupti: &Cupti) -> u32 {
    const FORCED: u32 = 1;
    // SAFETY: takes a number; no lock is held that the delivery takes.
    unsafe { (cupti.cuptiActivityFlushAll)(FORCED) }
}

/// Make a call that enqueues a copy of ours.
pub(crate) fn ours<T>(call: impl FnOnce() -> T) -> T {
    let cupti = NAMING.load(Ordering::Relaxed).then(Cupti::loaded).flatten();
    let Some(cupti) = cupti else { return call() };
    // SAFETY: takes numbers.
    let named = unsafe { (cupti.cuptiActivityPushExternalCorrelationId)(cupti::OURS, 1) } == 0;
    let result = call();
    if named {
        let mut id = 0;
        // SAFETY: writes one number.
        let _ = unsafe { (cupti.cuptiActivityPopExternalCorrelationId)(cupti::OURS, &mut id) };
    }
    result
}

/// The calling thread, as CUPTI names it.
fn thread() -> u32 {
    #[cfg(target_os = "linux")]
    return rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    #[cfg(not(target_os = "linux"))]
    return 0;
}

/// Words of a buffer: a megabyte.
const WORDS: usize = 1 << 17;

extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let memory = Box::into_raw(vec![0_u64; WORDS].into_boxed_slice());
    // SAFETY: CUPTI gives the address of a place for this.
    unsafe { buffer.write(memory.cast()) };
    // SAFETY: as above.
    unsafe { size.write(WORDS * 8) };
    // As many as fit.
    // SAFETY: as above.
    unsafe { records.write(0) };
}

extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, written: usize) {
    if buffer.is_null() {
        return;
    }
    if let Some(now) = &mut *now() {
        now.read(buffer, written);
    }
    let memory = std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), WORDS);
    // SAFETY: CUPTI gives back what `requested` gave it, each once.
    drop(unsafe { Box::from_raw(memory) });
}

impl Now {
    fn read(&mut self, buffer: *mut u8, written: usize) {
        const NO_MORE: u32 = 12;
        let cupti = self.cupti;
        let mut record: *mut c_void = std::ptr::null_mut();
        loop {
            // SAFETY: the buffer is CUPTI's own work, and `record` null or its last answer.
            match unsafe { (cupti.cuptiActivityGetNextRecord)(buffer, written, &mut record) } {
                0 => self.record(record),
                NO_MORE => break,
                _ => {
                    self.records.lost += 1;
                    break;
                }
            }
        }
        let mut dropped = 0;
        // SAFETY: writes one number.
        let code =
            unsafe { (cupti.cuptiActivityGetNumDroppedRecords)(std::ptr::null_mut(), 0, &mut dropped) };
        self.records.lost += if code == 0 { dropped as u64 } else { 0 };
    }

    fn record(&mut self, record: *mut c_void) {
        // SAFETY: each record begins with its kind.
        match unsafe { record.cast::<u32>().read_unaligned() } {
            kind::COPY => {
                // SAFETY: a record of this kind begins so.
                let cupti::Copy { way, bytes, start, end, calls, .. } =
                    unsafe { record.cast::<cupti::Copy>().read_unaligned() };
                // To memory or an array of the device, or from it.
                let to_device = match way {
                    1 | 3 => true,
                    2 | 4 => false,
                    _ => return,
                };
                if self.is_old(end) {
                    return;
                }
                let span = Span { start, end };
                self.records.copies.push(CopyRecord { span, to_device, bytes, calls });
            }
            kind::KERNEL => {
                // SAFETY: a record of this kind begins so.
                let cupti::Kernel { start, end, .. } =
                    unsafe { record.cast::<cupti::Kernel>().read_unaligned() };
                if !self.is_old(end) {
                    self.records.kernels.push(Span { start, end });
                }
            }
            kind::DRIVER_CALL | kind::RUNTIME_CALL => {
                // SAFETY: a record of these kinds begins so.
                let call = unsafe { record.cast::<cupti::ApiCall>().read_unaligned() };
                let cupti::ApiCall { kind, function, start, end, thread, id, .. } = call;
                let cupti = self.cupti;
                let waits = *self.functions.entry((kind, function)).or_insert_with(|| {
                    let name = cupti.function(kind, function);
                    let copies = name.contains("Memcpy").then_some(Waits::Copy);
                    copies.or_else(|| name.contains("Synchronize").then_some(Waits::Synchronize))
                });
                if let Some(waits) = waits
                    && !self.is_old(end)
                {
                    self.records.calls.push(Call { span: Span { start, end }, id, thread, waits });
                }
            }
            kind::EXTERNAL => {
                // SAFETY: a record of this kind begins so.
                let named = unsafe { record.cast::<cupti::External>().read_unaligned() };
                if named.whose == cupti::OURS {
                    self.records.ours.insert(named.call);
                }
            }
            _ => {}
        }
    }

    /// Whether it is a rest of an earlier recording. What has no time could not be measured.
    fn is_old(&mut self, end: u64) -> bool {
        self.records.lost += u64::from(end == 0);
        end < self.began
    }
}
