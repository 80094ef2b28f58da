//! A Wayland compositor of the test's own, without a screen.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Weston {
    server: Child,
    /// Where its socket is: `XDG_RUNTIME_DIR` of its clients.
    pub folder: tempfile::TempDir,
}

/// The socket's name: `WAYLAND_DISPLAY` of its clients.
pub const NAME: &str = "wayland-test";

impl Weston {
    /// # Errors
    /// Why there is none.
    pub fn start() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut command = Command::new("weston");
        command.args(["--backend=headless-backend.so", "--no-config", "--idle-time=0"]);
        command.arg(format!("--socket={NAME}")).env("XDG_RUNTIME_DIR", folder.path());
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let cannot = |e| format!("weston cannot be started: {e} (on Debian or Ubuntu: apt install weston)");
        let mut server = command.spawn().map_err(cannot)?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while !folder.path().join(NAME).exists() {
            if let Some(status) = server.try_wait().map_err(|e| e.to_string())? {
                return Err(format!("weston ended at once ({status})"));
            }
            if Instant::now() > deadline {
                let _ = server.kill();
                let _ = server.wait();
                return Err("weston does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { server, folder })
    }
}

impl Drop for Weston {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
