//! The event loop: one a process, made on the thread that will show windows, kept between them.

use crate::caught::quietly;
use crate::link::Message;
use crate::server::{self, Server};
use framelane::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use winit::error::EventLoopError;
use winit::event_loop::EventLoop;

thread_local! {
    // Lives as long as the process: destructors of thread locals may run after the libraries that
    // winit loaded are gone.
    static KEPT: RefCell<Option<ManuallyDrop<EventLoop<Message>>>> = const { RefCell::new(None) };
}

/// The process's event loop, and the display server it belongs to. Give it back with [`keep`].
pub(crate) fn take() -> Result<(EventLoop<Message>, Server)> {
    // Also asked when the loop exists: the server may be gone.
    let (server, _until_connected) = server::find()?;
    if let Some(kept) = KEPT.with_borrow_mut(Option::take) {
        return Ok((ManuallyDrop::into_inner(kept), server));
    }
    let events = make(&server)?;
    Ok((events, server))
}

/// Keep the loop for this thread's next window.
pub(crate) fn keep(events: EventLoop<Message>) {
    KEPT.set(Some(ManuallyDrop::new(events)));
}

fn make(server: &Server) -> Result<EventLoop<Message>> {
    let mut builder = EventLoop::<Message>::with_user_event();
    #[cfg(all(unix, not(target_os = "macos")))]
    {
        use winit::platform::{wayland::EventLoopBuilderExtWayland, x11::EventLoopBuilderExtX11};
        // What was found to answer, not what winit would try first. Any thread may show windows here.
        match server {
            Server::Wayland(_) => EventLoopBuilderExtWayland::with_any_thread(builder.with_wayland(), true),
            Server::X11(_) => EventLoopBuilderExtX11::with_any_thread(builder.with_x11(), true),
        };
    }
    #[cfg(windows)]
    {
        use winit::platform::windows::EventLoopBuilderExtWindows;
        builder.with_any_thread(true);
    }
    #[cfg(not(all(unix, not(target_os = "macos"))))]
    let _ = server;
    match quietly("winit", || builder.build()) {
        Ok(Ok(events)) => Ok(events),
        Ok(Err(EventLoopError::RecreationAttempt)) => Err(Error::new(
            ErrorKind::Argument,
            "no window can be opened here: another thread of this process shows windows already, or its display server was lost",
        )),
        Ok(Err(error)) => {
            Err(server::explain(Error::new(ErrorKind::Unsupported, error.to_string()).because(error)))
        }
        Err(panic) => Err(server::explain(panic)),
    }
}
