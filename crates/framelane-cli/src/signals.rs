//! Ctrl-C and its relatives.

use framelane::{Error, Result};

/// From now on the first request to stop (Ctrl-C, `kill`, a terminal that closes) calls `stop` with the exit code that belongs to it, and
/// a second one ends the process at once.
///
/// # Errors
/// [`framelane::ErrorKind::Io`] if the system refuses.
#[cfg(unix)]
pub fn listen(stop: impl Fn(u8) + Send + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let failed = |e| Error::io("Ctrl-C cannot be listened to", e);
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    if hears_of_terminal() {
        signals.handle().add_signal(SIGHUP).map_err(failed)?;
    }
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

/// Whether a terminal that closes stops the program: not if that was switched off (`nohup`).
#[cfg(unix)]
fn hears_of_terminal() -> bool {
    // Only Linux says so without asking the system in an unsafe way.
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 0)
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
