//! What sharing asks of Linux: packets between two processes that carry descriptors, waiting for them, a clock that both
//! see. `elsewhere.rs` stands in for it on other systems.
//!
//! Packets (SOCK_SEQPACKET), since a message then arrives whole or not at all and a peer that sends half of one holds
//! nobody up. Nothing here blocks except [`wait`] and [`Socket::connect`], each with a limit, and no call raises SIGPIPE.

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use std::io::{IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The most descriptors that one packet brings.
const MAX_DESCRIPTORS: usize = 9;
const _: () = assert!(MAX_DESCRIPTORS == 1 + *super::page::SLOTS.end());
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// One end of a connection, or what listens for them.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// What [`Socket::receive`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// No packet so far.
    Nothing,
    /// A packet of so many bytes.
    Packet(usize),
    /// A packet that is too long, or with too many descriptors.
    TooMuch,
    /// The other side is gone, and so is what it said last.
    Closed,
}

impl Socket {
    /// Listen at `path`, where nothing may be yet.
    pub fn listen(path: &Path) -> Result<Self> {
        let socket = Self::new(SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket.0, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket.0, BACKLOG)?;
        Ok(socket)
    }

    /// Connect to who listens at `path`. Waits up to `patience` if too many others wait there, too.
    pub fn connect(path: &Path, patience: Duration) -> Result<Self> {
        let socket = Self::new(SocketFlags::empty())?;
        let address = SocketAddrUnix::new(path)?;
        // 0 would be for ever.
        let patience = patience.clamp(Duration::from_millis(1), super::LONGEST);
        sockopt::set_socket_timeout(&socket.0, sockopt::Timeout::Send, Some(patience))?;
        loop {
            match rustix::net::connect(&socket.0, &address) {
                Err(Errno::INTR) => {}
                done => return Ok(done.map(|()| socket)?),
            }
        }
    }

    fn new(flags: SocketFlags) -> Result<Self> {
        let flags = flags | SocketFlags::CLOEXEC;
        Ok(Self(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?))
    }

    /// The next connection, if one is there.
    pub fn accept(&self) -> Result<Option<Self>> {
        loop {
            match rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Some(Self(socket))),
                Err(Errno::AGAIN) => return Ok(None),
                // One that is gone already.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Send one packet. `false`: the other side is gone, or does not read what it is sent.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<bool> {
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::AGAIN) => return Ok(false),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The next packet, if one is there. Its descriptors are added to `descriptors`; without, they are closed unseen.
    pub fn receive(&self, buffer: &mut [u8], descriptors: Option<&mut Vec<OwnedFd>>) -> Result<Heard> {
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        // With no room for descriptors none comes into this process.
        let room = if descriptors.is_some() { CONTROL_BYTES } else { 0 };
        let mut control = RecvAncillaryBuffer::new(&mut space[..room]);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut was_reset = false;
        let got = loop {
            match rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
                Ok(got) => break got,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Heard::Nothing),
                // One that ends without having read all that it was sent resets the connection; what it said before is
                // there still.
                Err(Errno::CONNRESET) if !was_reset => was_reset = true,
                Err(Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN) => return Ok(Heard::Closed),
                Err(e) => return Err(e.into()),
            }
        };
        let mut too_much = got.flags.contains(ReturnFlags::TRUNC);
        if let Some(descriptors) = descriptors {
            too_much |= got.flags.contains(ReturnFlags::CTRUNC);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
        }
        Ok(match got.bytes {
            _ if too_much => Heard::TooMuch,
            // An empty packet looks like the end, and is nothing that anybody should send.
            0 => Heard::Closed,
            bytes => Heard::Packet(bytes),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Wait until `on` has something to read, or is hung up. `false`: `until` has passed.
pub fn wait(on: impl AsFd, until: Instant) -> Result<bool> {
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match rustix::event::poll(&mut [PollFd::new(&on, PollFlags::IN)], left.as_ref()) {
            Ok(0) if Instant::now() >= until => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Sockets in one descriptor: readable while one of them is.
#[derive(Debug)]
pub struct Gathered(OwnedFd);

impl Gathered {
    /// None so far.
    pub fn new() -> Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// One more, until it is closed or [removed](Self::remove).
    pub fn add(&self, socket: &Socket) -> Result<()> {
        Ok(epoll::add(&self.0, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
    }

    /// One less.
    pub fn remove(&self, socket: &Socket) -> Result<()> {
        Ok(epoll::delete(&self.0, socket)?)
    }
}

impl AsFd for Gathered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The user whose process this is.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Nanoseconds of the clock that all processes see.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + now.tv_nsec as u64
}
