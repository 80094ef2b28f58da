//! The thread that a process's windows live on, one after the other: made with the first, and kept, since a display
//! server's connection belongs to the thread that made it.

use crate::panes::lock;
use framelane::share::Listener;
use framelane::{Error, ErrorKind, Result};
use framelane_show::{Window, WindowHandle, WindowOptions};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A window that is opened.
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

struct Order {
    options: WindowOptions,
    gpu: Option<[u8; 16]>,
    listener: Option<Listener>,
    over: Arc<Over>,
    opened: Sender<Result<(WindowHandle, String)>>,
}

/// The thread's orders, and how its last window goes.
struct Thread {
    process: u32,
    orders: Sender<Order>,
    last: Option<(WindowHandle, Arc<Over>)>,
}

static THREAD: Mutex<Option<Thread>> = Mutex::new(None);

/// Open a window, beside which no other is open. It listens for workers by the name `listen`.
///
/// # Errors
/// As [`Window::open`] and [`Listener::bind`]; [`ErrorKind::Argument`] if another one is open.
pub fn open(options: WindowOptions, gpu: Option<[u8; 16]>, listen: Option<&str>) -> Result<Opened> {
    let mut thread = lock(&THREAD);
    // A child that was forked has none.
    if thread.as_ref().is_none_or(|thread| thread.process != std::process::id()) {
        let (orders, ordered) = channel();
        std::thread::Builder::new().name("framelane windows".into()).spawn(move || serve(&ordered)).map_err(
            |e| {
                Error::new(ErrorKind::Device, format!("the system gives no thread for windows: {e}"))
                    .because(e)
            },
        )?;
        // The old one, if any, is the parent's.
        std::mem::forget(thread.replace(Thread { process: std::process::id(), orders, last: None }));
    }
    let Some(thread) = &mut *thread else { unreachable!("just made") };
    if thread.last.as_ref().is_some_and(|(_, over)| lock(&over.how).is_none()) {
        let text = "another window is open, and a process has one at a time: show in a pane of it, win[\"name\"], or close it";
        return Err(Error::new(ErrorKind::Argument, text));
    }
    let listener = listen.map(Listener::bind).transpose()?;
    let (over, (opened, answer)) = (Arc::new(Over::default()), channel());
    let order = Order { options, gpu, listener, over: over.clone(), opened };
    let gone = || Error::new(ErrorKind::Panic, "the thread of the windows is gone");
    thread.orders.send(order).map_err(|_| gone())?;
    let (handle, adapter) = answer.recv().map_err(|_| gone())??;
    thread.last = Some((handle.clone(), over.clone()));
    Ok(Opened { handle, adapter, over })
}

fn serve(orders: &Receiver<Order>) {
    for Order { options, gpu, listener, over, opened } in orders {
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
}

/// The interpreter ends: close the window that is open.
pub fn shut_down() {
    let last = lock(&THREAD)
        .as_mut()
        .filter(|thread| thread.process == std::process::id())
        .and_then(|thread| thread.last.take());
    if let Some((handle, over)) = last {
        let opened = Opened { handle, adapter: String::new(), over };
        // Nobody is left to be told.
        let _ = opened.close();
    }
}
