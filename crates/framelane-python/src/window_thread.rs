//! The thread that a process's windows live on, one after the other: made with the first, and kept, since a display
//! server's connection belongs to the thread that made it. Where windows must be the main thread's, or the program wants
//! it, that one is lent to them ([`lend`]).

use crate::panes::lock;
use framelane::share::Listener;
use framelane::{Error, ErrorKind, Result};
use framelane_show::{Window, WindowHandle, WindowOptions};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// A window that is opened.
#[derive(Clone)]
pub struct Opened {
    pub handle: WindowHandle,
    pub adapter: String,
    over: Arc<Over>,
}

/// How it went, once it is closed.
#[derive(Default)]
struct Over {
    how: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

/// A window that closes takes no longer; one whose server hangs may.
const PATIENCE: Duration = Duration::from_secs(5);

impl Opened {
    pub fn is_over(&self) -> bool {
        lock(&self.over.how).is_some()
    }

    /// Wait until it is closed, at most for so long. Whether it is.
    ///
    /// # Errors
    /// What ended it, each time that it is asked.
    pub fn wait(&self, limit: Duration) -> Result<bool> {
        let until = Instant::now() + limit;
        let mut how = lock(&self.over.how);
        loop {
            if let Some(how) = &*how {
                return how.clone().map(|()| true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            how = self.over.changed.wait_timeout(how, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Close it, and wait until it is gone.
    ///
    /// # Errors
    /// What ended it; [`ErrorKind::Timeout`] if the display server does not answer.
    pub fn close(&self) -> Result<()> {
        self.handle.close();
        if self.wait(PATIENCE)? {
            return Ok(());
        }
        let text = "the window does not close: see whether the display server hangs";
        Err(Error::new(ErrorKind::Timeout, text))
    }
}

enum Message {
    Open(Box<Order>),
    /// Whether one could be opened, and where.
    Ask(Sender<Result<String>>),
    /// A signal came: the interpreter looks which.
    Look,
    /// The thread is not lent any longer.
    End,
}

struct Order {
    options: WindowOptions,
    gpu: Option<[u8; 16]>,
    listener: Option<Listener>,
    over: Arc<Over>,
    opened: Sender<Result<(WindowHandle, String)>>,
}

/// The window that was opened last. It has a lock of its own, since who waits for the next one holds the thread's.
type Last = Arc<Mutex<Option<Opened>>>;

/// The thread's orders, and its last window.
struct Thread {
    process: u32,
    orders: Sender<Message>,
    /// The thread that is lent, or was: a thread of their own has no end.
    lent: Option<ThreadId>,
    last: Last,
}

static THREAD: Mutex<Option<Thread>> = Mutex::new(None);

impl Thread {
    /// Whether it is this process's: a child that was forked has none.
    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// The window that is open.
    fn showing(&self) -> Option<Opened> {
        lock(&self.last).clone().filter(|last| !last.is_over())
    }

    /// Have the thread do something, and wait for what it answers.
    fn order<A>(&self, message: Message, answer: &Receiver<Result<A>>) -> Result<A> {
        let ended = || match self.lent {
            Some(_) => Error::new(
                ErrorKind::Argument,
                "windows of this process are those of the thread that called framelane.run, which has returned: call it again",
            ),
            None => Error::new(ErrorKind::Panic, "the thread of the windows is gone"),
        };
        self.orders.send(message).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }

    fn new(orders: Sender<Message>, lent: Option<ThreadId>) -> Self {
        Self { process: std::process::id(), orders, lent, last: Last::default() }
    }
}

/// Put the process's thread of windows there. The old one, if any, is the parent's, or a lent one's.
fn put(thread: &mut Option<Thread>, new: Thread) {
    if let Some(old) = thread.replace(new)
        && !old.is_here()
    {
        std::mem::forget(old);
    }
}

/// The process's thread of windows; one of their own is made if there is none.
fn made(thread: &mut Option<Thread>) -> Result<&Thread> {
    if !thread.as_ref().is_some_and(Thread::is_here) {
        if cfg!(target_os = "macos") {
            let text = "windows are the main thread's on this system: call framelane.run(main), and open them in main";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let (orders, ordered) = channel();
        let serve = move || while serve_until(&ordered) == Served::Look {};
        std::thread::Builder::new().name("framelane windows".into()).spawn(serve).map_err(|e| {
            Error::new(ErrorKind::Device, format!("the system gives no thread for windows: {e}")).because(e)
        })?;
        put(thread, Thread::new(orders, None));
    }
    let Some(thread) = thread else { unreachable!("just made") };
    Ok(thread)
}

/// Open a window, beside which no other is open. It listens for workers by the name `listen`.
///
/// # Errors
/// As [`Window::open`] and [`Listener::bind`]; [`ErrorKind::Argument`] if another one is open.
pub fn open(options: WindowOptions, gpu: Option<[u8; 16]>, listen: Option<&str>) -> Result<Opened> {
    let mut thread = lock(&THREAD);
    let thread = made(&mut thread)?;
    if thread.showing().is_some() {
        let text = "another window is open, and a process has one at a time: show in a pane of it, win[\"name\"], or close it";
        return Err(Error::new(ErrorKind::Argument, text));
    }
    let listener = listen.map(Listener::bind).transpose()?;
    let (over, (opened, answer)) = (Arc::new(Over::default()), channel());
    let order = Order { options, gpu, listener, over: over.clone(), opened };
    let (handle, adapter) = thread.order(Message::Open(Box::new(order)), &answer)?;
    let opened = Opened { handle, adapter, over };
    *lock(&thread.last) = Some(opened.clone());
    Ok(opened)
}

/// Whether a window could be opened, and where, as [`framelane_show::available`]: asked there where windows are shown, since
/// the first connection to a display server is that thread's.
///
/// # Errors
/// As [`framelane_show::available`].
pub fn available() -> Result<String> {
    let mut thread = lock(&THREAD);
    let has = thread.as_ref().filter(|thread| thread.is_here());
    let is_its = match has {
        Some(thread) => thread.lent == Some(std::thread::current().id()),
        None => cfg!(target_os = "macos"),
    };
    if is_its {
        return framelane_show::available();
    }
    let thread = made(&mut thread)?;
    match thread.showing() {
        Some(window) => Ok(format!("the screen of the open window, {}", window.adapter)),
        None => {
            let (asked, answer) = channel();
            thread.order(Message::Ask(asked), &answer)
        }
    }
}

/// Why a thread serves no window for now.
#[derive(Debug, PartialEq, Eq)]
pub enum Served {
    Look,
    Ended,
}

fn serve_until(orders: &Receiver<Message>) -> Served {
    for message in orders {
        let Order { options, gpu, listener, over, opened } = match message {
            Message::Open(order) => *order,
            Message::Ask(asked) => {
                // Who asked waits for it.
                let _ = asked.send(framelane_show::available());
                continue;
            }
            Message::Look => return Served::Look,
            Message::End => break,
        };
        let mut window = match Window::open_on(options, gpu) {
            Ok(window) => window,
            Err(error) => {
                // Who asked waits for it.
                let _ = opened.send(Err(error));
                continue;
            }
        };
        if let Some(listener) = listener {
            window.listen(listener);
        }
        let _ = opened.send(Ok((window.handle(), window.adapter().to_string())));
        let how = window.run().map(|_| ());
        *lock(&over.how) = Some(how);
        over.changed.notify_all();
    }
    Served::Ended
}

/// A thread that is lent to windows.
pub struct Lent {
    process: u32,
    /// Gone at its end: what is still asked of it is refused.
    ordered: Mutex<Option<Receiver<Message>>>,
    orders: Sender<Message>,
    last: Last,
}

/// Lend the calling thread to the process's windows. `None` if they have a thread already.
///
/// # Errors
/// [`ErrorKind::Argument`] if another thread was lent before.
pub fn lend() -> Result<Option<Lent>> {
    let mut thread = lock(&THREAD);
    let here = std::thread::current().id();
    if let Some(has) = thread.as_ref().filter(|thread| thread.is_here()) {
        match has.lent {
            None => return Ok(None),
            Some(lent) if lent != here => {
                let text =
                    "windows of this process are those of another thread, which called framelane.run first";
                return Err(Error::new(ErrorKind::Argument, text));
            }
            // It serves, around this, if it takes this; otherwise its end is behind it.
            Some(_) if has.orders.send(Message::Look).is_ok() => return Ok(None),
            Some(_) => {}
        }
    }
    let (orders, ordered) = channel();
    let lent = Thread::new(orders.clone(), Some(here));
    let (process, last) = (lent.process, lent.last.clone());
    put(&mut thread, lent);
    Ok(Some(Lent { process, ordered: Mutex::new(Some(ordered)), orders, last }))
}

impl Lent {
    /// Show windows until the thread is wanted back, or has to look for signals.
    pub fn serve(&self) -> Served {
        let mut ordered = lock(&self.ordered);
        let served = ordered.as_ref().map_or(Served::Ended, serve_until);
        if served == Served::Ended {
            *ordered = None;
        }
        served
    }

    /// Have `serve` return, also from within a window: that is closed then, and told so.
    pub fn look(&self, close: bool) {
        if close {
            self.close_last();
        }
        // It ended, if nobody listens.
        let _ = self.orders.send(Message::Look);
    }

    /// Take the thread back: the window that is open is closed, and who waits for one is refused.
    pub fn end(&self) {
        // In a child that was forked nobody serves, and locks may be held for ever.
        if self.process != std::process::id() {
            return;
        }
        self.close_last();
        match self.ordered.try_lock() {
            Ok(mut ordered) => *ordered = None,
            // It is served, and its end comes in its turn.
            Err(_) => {
                let _ = self.orders.send(Message::End);
            }
        }
    }

    /// Have the open window close, if there is one.
    fn close_last(&self) {
        if let Some(window) = &*lock(&self.last) {
            window.handle.close();
        }
    }
}

/// The interpreter ends: close the window that is open.
pub fn shut_down() {
    let last = lock(&THREAD).as_ref().filter(|thread| thread.is_here()).and_then(|t| lock(&t.last).take());
    // Nobody is left to be told.
    let _ = last.map(|window| window.close());
}
