//! Events: points in a stream's order.

use crate::api::Api;
use crate::context::{Context, Raw, RawEvent, lock};
use crate::error::{NOT_READY, Result, check};
use cudarc::driver::sys::{CUevent, CUevent_st};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What an event can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventOptions {
    /// [`Event::since`] can be asked. Costs the GPU a time stamp.
    pub timed: bool,
    /// A CPU thread that waits for it sleeps instead of spinning: wakes some tens of µs later, and leaves
    /// the core to others.
    pub sleeping: bool,
}

impl EventOptions {
    fn flags(self) -> u32 {
        u32::from(self.sleeping) | if self.timed { 0 } else { UNTIMED }
    }
}

pub(crate) const UNTIMED: u32 = 2;
const KINDS: usize = 4;
const KEPT_PER_KIND: usize = 256;

/// Driver events that nobody refers to any more, by their flags. Making an event takes the driver longer than
/// recording it.
///
/// An event may come back while the GPU has not reached it, or while streams still wait for it: what was
/// captured by an earlier wait does not change when the event is recorded again.
#[derive(Default)]
pub(crate) struct Pool {
    kinds: [Mutex<Vec<Raw<CUevent_st>>>; KINDS],
}

impl Pool {
    /// A context must be current.
    pub fn take(&self, api: &Api, flags: u32) -> Result<RawEvent> {
        if let Some(event) = lock(&self.kinds[flags as usize]).pop() {
            return Ok(event.0);
        }
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: writes one handle, which belongs to this pool's context.
        check("cuEventCreate", unsafe { (api.cuEventCreate)(&mut event, flags) })?;
        Ok(event)
    }

    pub fn put(&self, api: &Api, event: RawEvent, flags: u32) {
        let mut kept = lock(&self.kinds[flags as usize]);
        if kept.len() < KEPT_PER_KIND {
            kept.push(Raw(event));
        } else {
            drop(kept);
            destroy(api, event);
        }
    }

    pub fn destroy(&self, api: &Api) {
        for kind in &self.kinds {
            for event in lock(kind).drain(..) {
                destroy(api, event.0);
            }
        }
    }

    #[cfg(test)]
    fn kept(&self, flags: u32) -> usize {
        lock(&self.kinds[flags as usize]).len()
    }
}

fn destroy(api: &Api, event: RawEvent) {
    // SAFETY: ours, and no handle is left. The driver finishes a pending one by itself.
    unsafe { (api.cuEventDestroy_v2)(event) };
}

/// A point in the order of one stream. Each [`crate::Stream::record`] makes a fresh one: an event is never
/// recorded twice while anybody holds it, so what it means never changes. Clones are the same event.
#[derive(Clone)]
pub struct Event {
    inner: Arc<Inner>,
}

struct Inner {
    raw: Raw<CUevent_st>,
    context: Context,
    flags: u32,
    /// The host has seen it reached.
    done: AtomicBool,
    /// Its handle was given away: it is never used again.
    given: AtomicBool,
}

impl Event {
    /// An event that is about to be recorded; the context is current.
    pub(crate) fn fresh(context: &Context, options: EventOptions) -> Result<Self> {
        let flags = options.flags();
        let raw = Raw(context.inner.events.take(context.inner.api, flags)?);
        let (done, given) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { inner: Arc::new(Inner { raw, context: context.clone(), flags, done, given }) })
    }

    /// Whether the work before the event is done. Never waits.
    ///
    /// # Errors
    /// A failure of the work before it ([`crate::Kind::Lost`]); [`crate::Kind::Capture`] for an event recorded in a
    /// graph's capture.
    pub fn is_done(&self) -> Result<bool> {
        if self.inner.done.load(Ordering::Acquire) {
            return Ok(true);
        }
        let _current = self.inner.context.enter()?;
        // SAFETY: the event is alive.
        match unsafe { (self.api().cuEventQuery)(self.inner.raw.0) } {
            NOT_READY => Ok(false),
            code => self.reached("cuEventQuery", code).map(|()| true),
        }
    }

    /// Wait on the CPU until the work before the event is done.
    ///
    /// # Errors
    /// As [`Event::is_done`].
    pub fn synchronize(&self) -> Result<()> {
        if self.inner.done.load(Ordering::Acquire) {
            return Ok(());
        }
        let _current = self.inner.context.enter()?;
        // SAFETY: the event is alive.
        let code = unsafe { (self.api().cuEventSynchronize)(self.inner.raw.0) };
        self.reached("cuEventSynchronize", code)
    }

    /// As [`Event::synchronize`], but gives up after `limit` with `Ok(false)`.
    ///
    /// The driver has no wait with a limit: this asks again and again, ever less often (at most 0.2 ms apart).
    ///
    /// # Errors
    /// As [`Event::is_done`].
    pub fn synchronize_for(&self, limit: Duration) -> Result<bool> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(2);
        loop {
            if self.is_done()? {
                return Ok(true);
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_micros(200));
        }
    }

    /// GPU time between two timed events, if both were reached; about 0.5 µs fine, zero if `earlier` was the
    /// later.
    ///
    /// # Errors
    /// [`crate::Kind::Argument`] or the driver's refusal if one is not timed; as [`Event::is_done`].
    pub fn since(&self, earlier: &Event) -> Result<Option<Duration>> {
        if !(self.is_done()? && earlier.is_done()?) {
            return Ok(None);
        }
        let mut milliseconds = 0f32;
        let _current = self.inner.context.enter()?;
        let (start, end) = (earlier.inner.raw.0, self.inner.raw.0);
        // SAFETY: writes one number; both events are alive.
        check("cuEventElapsedTime", unsafe {
            (self.api().cuEventElapsedTime)(&mut milliseconds, start, end)
        })?;
        Ok(Some(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3)))
    }

    /// Its device's context.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The driver's handle, for other libraries. Valid while a handle of this event lives; recording it again
    /// would break what it means.
    pub fn raw(&self) -> CUevent {
        self.inner.given.store(true, Ordering::Release);
        self.inner.raw.0
    }

    pub(crate) fn handle(&self) -> CUevent {
        self.inner.raw.0
    }

    /// Whether the host has seen it done; asks nobody.
    pub(crate) fn known_done(&self) -> bool {
        self.inner.done.load(Ordering::Acquire)
    }

    fn reached(&self, call: &'static str, code: u32) -> Result<()> {
        check(call, code)?;
        self.inner.done.store(true, Ordering::Release);
        Ok(())
    }

    fn api(&self) -> &'static Api {
        self.inner.context.inner.api
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let inner = &self.context.inner;
        if !*self.given.get_mut() {
            inner.events.put(inner.api, self.raw.0, self.flags);
        } else if let Ok(_current) = self.context.enter() {
            destroy(inner.api, self.raw.0);
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Event({:?}, {})",
            self.inner.context,
            if self.known_done() { "done" } else { "not seen done" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs a GPU; elsewhere it says so.
    #[test]
    fn an_event_goes_back_only_when_nobody_holds_it() {
        let context = match Context::open(0) {
            Ok(context) => context,
            Err(e) => return crate::common::skip(format_args!("no CUDA device: {e}")),
        };
        let current = context.enter().unwrap();
        let pool = &context.inner.events;
        let options = EventOptions { timed: true, sleeping: true };
        let (a, b) = (Event::fresh(&context, options).unwrap(), Event::fresh(&context, options).unwrap());
        let second = a.clone();
        drop(a);
        assert_eq!(pool.kept(options.flags()), 0, "a clone is still held");
        drop(second);
        assert_eq!(pool.kept(options.flags()), 1);
        b.raw();
        drop(b);
        assert_eq!(pool.kept(options.flags()), 1, "an event given away is not used again");
        let many: Vec<Event> =
            (0..KEPT_PER_KIND + 10).map(|_| Event::fresh(&context, options).unwrap()).collect();
        let mut handles: Vec<_> = many.iter().map(Event::handle).collect();
        handles.sort();
        handles.dedup();
        assert_eq!(handles.len(), many.len(), "no two live events are one");
        drop(many);
        assert_eq!(pool.kept(options.flags()), KEPT_PER_KIND);
        drop(current);
    }
}
