//! Panics of foreign code, made into errors.

use framelane::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex, PoisonError};

static HOOK: Mutex<()> = Mutex::new(());

/// Run foreign start-up code that panics where it should return an error (winit without an X
/// extension or library does), and make its panic an error instead of a message on the terminal.
/// Other threads' panics are still printed. Not for code that may itself come back here.
pub(crate) fn quietly<T>(place: &str, run: impl FnOnce() -> T) -> Result<T> {
    // One at a time: the hook belongs to the whole process.
    let _one = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let me = std::thread::current().id();
    let before = Arc::new(take_hook());
    let others = before.clone();
    set_hook(Box::new(move |panic| {
        if std::thread::current().id() != me {
            others(panic);
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(run));
    drop(take_hook());
    if let Some(before) = Arc::into_inner(before) {
        set_hook(before);
    }
    result.map_err(|payload| Error::from_panic(place, payload.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use framelane::ErrorKind;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(quietly("here", || 3).unwrap(), 3);
        let error = quietly("winit", || panic!("no {}", "XInput")).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Panic, "winit panicked: no XInput")
        );
    }
}
