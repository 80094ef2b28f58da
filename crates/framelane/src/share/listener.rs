//! The window's door: workers knock, say hello, and are let in or told why not.
//!
//! A worker that connects and says nothing holds nobody up: connections wait aside until their hello is there, a few at
//! most and a second at most, and the oldest goes first.

use super::attached::Attached;
use super::message::{LATEST, MAX_BYTES, Message};
use super::offer::{Provider, Wanted};
use super::place::{Place, path_of};
use super::system::{Gathered, Heard, Socket, own_user, wait};
use super::{Limits, MAX_SLOT_BYTES, after};
use crate::error::{Error, ErrorKind, Result};
use framelane_cuda::peer_user;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that have not said hello yet.
const MAX_SILENT: usize = 8;
/// One that came so lately gives its place to nobody.
const JUST_CAME: Duration = Duration::from_millis(50);
/// How long one may stay silent.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where workers of this user attach to show frames in this process. Dropping it removes the socket; workers that are
/// attached stay so.
#[derive(Debug)]
pub struct Listener {
    place: Place,
    /// The place's socket, and the silent ones.
    gathered: Gathered,
    silent: VecDeque<(Socket, Instant)>,
    limits: Limits,
    refused: u64,
    last_refusal: Option<String>,
}

impl Listener {
    /// Listen by this name: 1 to 64 letters, digits, `.`, `_` or `-`.
    ///
    /// The socket is in `$XDG_RUNTIME_DIR/framelane`, or where that is not set in `framelane-UID` in `/tmp`: a folder
    /// that only this user enters. One that a dead window left there is replaced.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for a name that cannot be one, or is another window's; [`ErrorKind::Io`] for a folder that
    /// others may enter, or what the system says; [`ErrorKind::Unsupported`] where the system is not Linux.
    pub fn bind(name: &str) -> Result<Self> {
        Self::bind_with(name, Limits::default())
    }

    /// As [`Self::bind`], with other limits for each worker.
    ///
    /// # Errors
    /// As [`Self::bind`]; [`ErrorKind::Argument`] for limits that cannot be.
    pub fn bind_with(name: &str, limits: Limits) -> Result<Self> {
        if !(1..=MAX_SLOT_BYTES).contains(&limits.slot_bytes) {
            let sentence = format!(
                "the slots of a worker can be limited to 1 to {MAX_SLOT_BYTES} bytes, not to {}",
                limits.slot_bytes
            );
            return Err(Error::new(ErrorKind::Argument, sentence));
        }
        let gathered = Gathered::new().map_err(failed)?;
        let place = Place::take(path_of(name)?)?;
        gathered.add(&place.socket).map_err(failed)?;
        Ok(Self { place, gathered, silent: VecDeque::new(), limits, refused: 0, last_refusal: None })
    }

    /// The socket's file.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// The next worker, which is given host memory. Waits up to `timeout` for one (zero: not at all); `None` if none
    /// came.
    ///
    /// Who is refused is told why, and counted ([`Self::refused`]).
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the system gives no more connections (too many open files).
    pub fn accept(&mut self, timeout: Duration) -> Result<Option<Attached>> {
        self.accept_as(timeout, None)
    }

    /// As [`Self::accept`], with what `provider` offers the worker.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn accept_with(&mut self, timeout: Duration, provider: &Provider) -> Result<Option<Attached>> {
        self.accept_as(timeout, Some(provider))
    }

    fn accept_as(&mut self, timeout: Duration, provider: Option<&Provider>) -> Result<Option<Attached>> {
        let until = after(timeout);
        loop {
            self.let_knock()?;
            if let Some(attached) = self.let_in(provider) {
                return Ok(Some(attached));
            }
            if Instant::now() >= until || !wait(&self.gathered, until).map_err(failed)? {
                return Ok(None);
            }
        }
    }

    /// How many connections were not let in, by their own fault.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Why the last of them was not, in words.
    pub fn last_refusal(&self) -> Option<&str> {
        self.last_refusal.as_deref()
    }

    fn let_knock(&mut self) -> Result<()> {
        // No more at once than wait here: who connects again and again must not keep us from the others.
        for _ in 0..MAX_SILENT {
            // Several workers that come at once have said hello, which is only not read yet: the next waits outside.
            let full = self.silent.len() == MAX_SILENT;
            if full && self.silent.front().is_some_and(|(_, since)| since.elapsed() < JUST_CAME) {
                break;
            }
            let Some(socket) = self.place.socket.accept().map_err(failed)? else { break };
            let peer = peer_user(&socket)
                .map_err(|e| format!("it cannot be found out whose process this is: {e}"))
                .and_then(|peer| same_user(peer, own_user()));
            if let Err(reason) = peer {
                self.refuse(&socket, reason);
                continue;
            }
            if full && let Some((oldest, _)) = self.silent.pop_front() {
                self.refuse(&oldest, "too many connect and say nothing".into());
            }
            self.gathered.add(&socket).map_err(failed)?;
            self.silent.push_back((socket, Instant::now()));
        }
        Ok(())
    }

    fn let_in(&mut self, provider: Option<&Provider>) -> Option<Attached> {
        for _ in 0..self.silent.len() {
            let (socket, since) = self.silent.pop_front()?;
            let mut buffer = [0; MAX_BYTES];
            let said = match socket.receive(&mut buffer, None) {
                Ok(Heard::Nothing) if since.elapsed() < PATIENCE => {
                    self.silent.push_back((socket, since));
                    continue;
                }
                // Another window that asks whether this one lives.
                Ok(Heard::Closed) => continue,
                Ok(Heard::Nothing) => Err("it did not say hello".into()),
                Ok(Heard::TooMuch) => Err("it sent a message that is too long".into()),
                Ok(Heard::Packet(bytes)) => self.judge(&buffer[..bytes]),
                Err(e) => Err(format!("it cannot be heard: {e}")),
            };
            let (pane, wanted) = match said {
                Ok(wanted) => wanted,
                Err(reason) => {
                    self.refuse(&socket, reason);
                    continue;
                }
            };
            // The descriptor stays open, so that closing it would not take it out.
            let welcome = self.gathered.remove(&socket).and_then(|()| {
                let told = Attached::welcome(socket, &pane, wanted, self.limits, provider.cloned())?;
                told.ok_or_else(|| std::io::Error::other("it does not hear what it is told"))
            });
            match welcome {
                Ok(attached) => return Some(attached),
                Err(e) => self.count(format!("a worker's memory cannot be made and sent: {e}")),
            }
        }
        None
    }

    /// What a hello asks for, and for which pane.
    fn judge(&self, bytes: &[u8]) -> Result<(String, Wanted), String> {
        match Message::parse(bytes) {
            Ok(Message::Hello { policy: LATEST, slots, slot_bytes, device, pane }) => {
                self.limits.allow(slot_bytes)?;
                Ok((pane.to_owned(), Wanted { slots, slot_bytes, device }))
            }
            Ok(Message::Hello { policy, .. }) => {
                Err(format!("policy {policy} is not known here: this window shows the newest frame"))
            }
            Ok(_) => Err("it said something else than hello".into()),
            Err(what) => Err(format!("it sent {what}")),
        }
    }

    fn refuse(&mut self, socket: &Socket, reason: String) {
        // Who does not hear it is gone anyway.
        let _ = socket.send(&Message::Refused { reason: &reason }.to_bytes(), &[]);
        self.count(reason);
    }

    fn count(&mut self, reason: String) {
        self.refused += 1;
        self.last_refusal = Some(reason);
    }
}

/// Readable when [`Listener::accept`] has something to do.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.gathered.as_fd()
    }
}

fn same_user(peer: u32, own: u32) -> Result<(), String> {
    if peer == own {
        return Ok(());
    }
    Err(format!("it is a process of user {peer}, and this window serves user {own} alone"))
}

fn failed(e: std::io::Error) -> Error {
    Error::io("workers cannot be listened for", e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_refused_in_words() {
        assert_eq!(same_user(1000, 1000), Ok(()));
        for (peer, own) in [(1000, 1001), (0, 1000), (1000, 0), (u32::MAX, 0)] {
            assert!(same_user(peer, own).unwrap_err().contains(&format!("user {peer}, ")));
        }
    }
}
