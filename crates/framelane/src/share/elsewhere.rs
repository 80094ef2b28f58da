//! In place of `system.rs` where the system is not Linux: nobody listens and nobody connects.

use std::convert::Infallible;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Socket(Infallible);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "nothing is ever heard")]
pub enum Heard {
    Nothing,
    Packet(usize),
    TooMuch,
    Closed,
}

impl Socket {
    pub fn listen(_: &Path) -> Result<Self> {
        Err(unsupported())
    }

    pub fn connect(_: &Path, _: Duration) -> Result<Self> {
        Err(unsupported())
    }

    pub fn accept(&self) -> Result<Option<Self>> {
        match self.0 {}
    }

    pub fn send(&self, _: &[u8], _: &[BorrowedFd<'_>]) -> Result<bool> {
        match self.0 {}
    }

    pub fn receive(&self, _: &mut [u8], _: Option<&mut Vec<OwnedFd>>) -> Result<Heard> {
        match self.0 {}
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

pub fn wait(_: impl AsFd, _: Instant) -> Result<bool> {
    Err(unsupported())
}

#[derive(Debug)]
pub struct Gathered(Infallible);

impl Gathered {
    pub fn new() -> Result<Self> {
        Err(unsupported())
    }

    pub fn add(&self, _: &Socket) -> Result<()> {
        match self.0 {}
    }

    pub fn remove(&self, _: &Socket) -> Result<()> {
        match self.0 {}
    }
}

impl AsFd for Gathered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

/// Nobody: what is asked first is refused.
pub fn own_user() -> u32 {
    u32::MAX
}

pub fn now() -> u64 {
    0
}

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "frames travel between processes on Linux only")
}
