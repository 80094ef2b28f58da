//! Which display server there is, and whether it answers. Never waits longer than a few seconds.

use framelane::{Error, ErrorKind, Result};
use std::fmt;
#[cfg(all(unix, not(target_os = "macos")))]
use {
    std::path::{Path, PathBuf},
    std::sync::mpsc,
    std::time::Duration,
};

/// A connection to the server that answered, to be kept until the window's own connection is made: an X server
/// that is told so, as Xvfb is by default, starts afresh when its last client leaves, and refuses or forgets
/// whoever comes in that moment.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    #[cfg(all(unix, not(target_os = "macos")))]
    _x11: Option<x11rb::rust_connection::RustConnection>,
}

/// A display server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// By the name or path of its socket.
    #[cfg(all(unix, not(target_os = "macos")))]
    Wayland(String),
    /// By its `DISPLAY`.
    #[cfg(all(unix, not(target_os = "macos")))]
    X11(String),
    /// The one of Windows or macOS.
    #[cfg(not(all(unix, not(target_os = "macos"))))]
    Native,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(all(unix, not(target_os = "macos")))]
            Self::Wayland(name) => write!(f, "Wayland {name}"),
            #[cfg(all(unix, not(target_os = "macos")))]
            Self::X11(name) => write!(f, "X11 {name}"),
            #[cfg(not(all(unix, not(target_os = "macos"))))]
            Self::Native => f.write_str(std::env::consts::OS),
        }
    }
}

/// How long an X server may take to answer.
#[cfg(all(unix, not(target_os = "macos")))]
const PATIENCE: Duration = Duration::from_secs(5);

/// Find a display server: Wayland first, then X11 (which a Wayland desktop usually offers too).
#[cfg(all(unix, not(target_os = "macos")))]
pub(crate) fn find() -> Result<(Server, Answered)> {
    let var = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut refused = Vec::new();
    if let Some(name) = var("WAYLAND_DISPLAY").or_else(|| var("WAYLAND_SOCKET")) {
        match ask_wayland(&name, var("XDG_RUNTIME_DIR").as_deref()) {
            Ok(()) => return Ok((Server::Wayland(name), Answered::default())),
            Err(why) => refused.push(format!("Wayland {name}: {why}")),
        }
    }
    if let Some(name) = var("DISPLAY") {
        match ask_x11(&name) {
            Ok(connection) => return Ok((Server::X11(name), Answered { _x11: Some(connection) })),
            Err(why) => refused.push(format!("X11 {name}: {why}")),
        }
    }
    Err(if refused.is_empty() {
        Error::new(
            ErrorKind::Unsupported,
            "there is no screen: neither WAYLAND_DISPLAY nor DISPLAY is set (write to a file instead, or start a display server)",
        )
    } else {
        Error::new(
            ErrorKind::Unsupported,
            format!(
                "there is no screen that answers ({}); write to a file instead, or start a display server",
                refused.join("; ")
            ),
        )
    })
}

/// Find the display server: the only one there is.
#[cfg(not(all(unix, not(target_os = "macos"))))]
pub(crate) fn find() -> Result<(Server, Answered)> {
    Ok((Server::Native, Answered::default()))
}

#[cfg(all(unix, not(target_os = "macos")))]
fn ask_wayland(name: &str, runtime: Option<&str>) -> Result<(), String> {
    // A socket handed over as an open file (WAYLAND_SOCKET) is used up by whoever tries it.
    if name.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    let path: PathBuf = if Path::new(name).is_absolute() {
        name.into()
    } else {
        Path::new(runtime.ok_or("XDG_RUNTIME_DIR is not set")?).join(name)
    };
    std::os::unix::net::UnixStream::connect(path).map(drop).map_err(|e| e.to_string())
}

#[cfg(all(unix, not(target_os = "macos")))]
fn ask_x11(name: &str) -> Result<x11rb::rust_connection::RustConnection, String> {
    // In a thread of its own: a server that is stopped, or a host that is not there, answers never.
    let (tell, answer) = mpsc::channel();
    let display = name.to_owned();
    std::thread::Builder::new()
        .name("ask the X server".into())
        .spawn(move || {
            let said = x11rb::connect(Some(&display)).map(|(connection, _)| connection);
            let _ = tell.send(said.map_err(|e| e.to_string()));
        })
        .map_err(|e| e.to_string())?;
    answer
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(format!("no answer within {} seconds", PATIENCE.as_secs())))
}

/// A foreign sentence without the place in foreign source code that winit puts before it.
pub(crate) fn plain(text: &str) -> &str {
    match text.strip_prefix("os error at ").and_then(|rest| rest.split_once(": ")) {
        Some((_place, sentence)) => sentence,
        None => text,
    }
}

/// Make winit's complaint about a library that cannot be loaded into a sentence that names the package.
pub(crate) fn explain(error: Error) -> Error {
    /// Library, and the Debian package that brings it.
    const PACKAGES: &[(&str, &str)] = &[
        ("libxkbcommon-x11", "libxkbcommon-x11-0"),
        ("libxkbcommon", "libxkbcommon0"),
        ("libX11-xcb", "libx11-xcb1"),
        ("libX11", "libx11-6"),
        ("libXcursor", "libxcursor1"),
        ("libXi.", "libxi6"),
        ("libXrandr", "libxrandr2"),
        ("libwayland-client", "libwayland-client0"),
    ];
    let text = error.to_string();
    match PACKAGES.iter().find(|(library, _)| text.contains(library)) {
        Some((library, package)) => Error::new(
            ErrorKind::Unsupported,
            format!(
                "no window can be opened: the library {} cannot be loaded (on Debian or Ubuntu: apt install {package})",
                library.trim_end_matches('.')
            ),
        )
        .because(error),
        None => Error::new(ErrorKind::Unsupported, format!("no window can be opened: {}", plain(&text))).because(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let foreign = |text: &str| explain(Error::new(ErrorKind::Panic, text)).to_string();
        assert_eq!(
            foreign("winit panicked: Library libxkbcommon-x11.so could not be loaded."),
            "no window can be opened: the library libxkbcommon-x11 cannot be loaded (on Debian or Ubuntu: apt install libxkbcommon-x11-0)"
        );
        assert!(foreign("opening library failed (libX11-xcb.so.1: no)").contains("apt install libx11-xcb1"));
        assert!(foreign("opening library failed (libX11.so.6: no)").contains("apt install libx11-6"));
        assert_eq!(foreign("bad day"), "no window can be opened: bad day");
        assert_eq!(
            foreign("os error at /a/mod.rs:788: no such: thing"),
            "no window can be opened: no such: thing"
        );
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn a_server_that_is_not_there_is_an_error() {
        assert!(ask_x11(":6543").is_err());
        assert!(ask_x11("nonsense").is_err());
        assert!(ask_wayland("wayland-6543", Some("/nonexistent")).is_err());
        assert!(ask_wayland("wayland-6543", None).unwrap_err().contains("XDG_RUNTIME_DIR"));
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn a_wayland_server_that_listens_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let _server = std::os::unix::net::UnixListener::bind(folder.path().join("wayland-7")).unwrap();
        ask_wayland("wayland-7", folder.path().to_str()).unwrap();
    }
}
