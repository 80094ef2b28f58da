//! Ctrl-C and its relatives.

use framelane::{Error, Result};

/// From now on the first request to stop (Ctrl-C, `kill`) calls `stop` with the exit code that belongs to it, and
/// a second one ends the process at once.
///
/// # Errors
/// [`framelane::ErrorKind::Io`] if the system refuses.
#[cfg(unix)]
pub fn listen(stop: impl Fn(u8) + Send + 'static) -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let failed = |e| Error::io("Ctrl-C cannot be listened to", e);
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let listen = move || {
        let mut asked = false;
        for signal in signals.forever() {
            let code = 128 + signal;
            if asked {
                std::process::exit(code);
            }
            asked = true;
            stop(u8::try_from(code).unwrap_or(1));
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(failed)?;
    Ok(())
}

/// From now on the first Ctrl-C calls `stop` with its exit code, and a second one ends the process at once.
///
/// # Errors
/// [`framelane::ErrorKind::Io`] if the system refuses.
#[cfg(not(unix))]
pub fn listen(stop: impl Fn(u8) + Send + 'static) -> Result<()> {
    let mut asked = false;
    ctrlc::set_handler(move || {
        if asked {
            std::process::exit(130);
        }
        asked = true;
        stop(130);
    })
    .map_err(|e| Error::io("Ctrl-C cannot be listened to", std::io::Error::other(e)))
}
