//! The window's side of one worker.

use super::fates::{self, Entry};
use super::memory::{SharedMemory, read};
use super::message::{MAX_BYTES, Message};
use super::offer::{Offer, Owned, Provider, Wanted};
use super::page::{self, About, Look, PAGE_BYTES};
use super::system::{Heard, Socket, now};
use super::{Fate, Limits, WindowCounts};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{FrameMeta, ImageSize};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Messages that are answered in one call: a worker that asks without end must not hold the window up.
const PER_CALL: usize = 4;

/// One worker that shows frames, as its window sees it. Dropping it ends the connection; the worker is told.
#[derive(Debug)]
pub struct Attached {
    socket: Socket,
    name: Arc<str>,
    limits: Limits,
    provider: Option<Provider>,
    /// The GPU whose memory the worker was given.
    device: Option<[u8; 16]>,
    way: String,
    current: Arc<Lent>,
    /// What the worker wrote into before its slots grew, until something is in the new ones.
    previous: Option<Arc<Lent>>,
    last: u64,
    /// Fates told in the current page.
    told: u64,
    /// The name of the last frame's source, so that it is not made again for each.
    source: Arc<str>,
    counts: WindowCounts,
    ended: Option<String>,
}

/// Memory, and which of its slots this process reads: what the page says about that may be wrong.
struct Lent {
    memory: SharedMemory,
    /// What the window's owner knows slots in a device's memory by.
    owned: Option<Owned>,
    held: AtomicU32,
    /// Slots that were not as this process left them when it gave them back.
    upset: AtomicU64,
}

impl Lent {
    /// Make memory, or take what is offered, and send it to the worker. The errors are in words. `None`: it is gone.
    fn send(
        socket: &Socket,
        slots: usize,
        slot_bytes: usize,
        offer: Offer,
    ) -> std::io::Result<Option<Arc<Self>>> {
        let (memory, descriptors, allocated, owned) = match offer.device {
            Some((device, owned)) => {
                if device.descriptors.len() != slots || device.allocated < slot_bytes {
                    return Err(std::io::Error::other(format!(
                        "the window's {device:?} are not what was wanted"
                    )));
                }
                let (memory, page) = SharedMemory::with_device(slots, slot_bytes)?;
                let descriptors: Vec<OwnedFd> = [page].into_iter().chain(device.descriptors).collect();
                (memory, descriptors, Some(device.allocated), Some(owned))
            }
            None => {
                let (memory, descriptors) = SharedMemory::create(slots, slot_bytes)?;
                (memory, descriptors, None, None)
            }
        };
        let message = Message::Memory { slots, slot_bytes, allocated, way: &offer.way }.to_bytes();
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|d| d.as_fd()).collect();
        let lent = Self { memory, owned, held: AtomicU32::new(0), upset: AtomicU64::new(0) };
        Ok(socket.send(&message, &descriptors)?.then(|| Arc::new(lent)))
    }
}

/// What the provider says to what is wanted; host memory if there is none.
fn offer(provider: Option<&Provider>, wanted: Wanted) -> Offer {
    let Some(provider) = provider else {
        let why = wanted.device.map_or("", |_| ": the window offers no GPU's memory");
        return Offer { way: format!("shared-memory{why}"), device: None };
    };
    let mut offer = provider.offer(&wanted);
    // It travels as text in one line.
    offer.way = offer.way.replace(char::is_control, " ");
    offer
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("memory", &self.memory).field("held", &self.held).finish_non_exhaustive()
    }
}

impl Attached {
    /// Answer a worker's hello, which asks for what `limits` allow. `None`: it is gone.
    pub(super) fn welcome(
        socket: Socket,
        pane: &str,
        wanted: Wanted,
        limits: Limits,
        provider: Option<Provider>,
    ) -> std::io::Result<Option<Self>> {
        let wanted = Wanted { slot_bytes: wanted.slot_bytes.next_multiple_of(PAGE_BYTES), ..wanted };
        let offer = offer(provider.as_ref(), wanted);
        let way = offer.way.clone();
        let lent = Lent::send(&socket, wanted.slots, wanted.slot_bytes, offer)?;
        Ok(lent.map(|current| Self {
            socket,
            name: pane.into(),
            limits,
            provider,
            device: wanted.device.filter(|_| current.owned.is_some()),
            way,
            current,
            previous: None,
            last: 0,
            told: 0,
            source: "".into(),
            counts: WindowCounts::default(),
            ended: None,
        }))
    }

    /// The name that the worker gave its pane.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its pictures come to the screen, as it was told. `None` if it was accepted without an offer.
    pub fn way(&self) -> Option<&str> {
        self.provider.as_ref().map(|_| &*self.way)
    }

    /// The newest complete frame, if it is newer than the last; what is taken never goes back. No system call, no wait.
    ///
    /// Of a worker's slots one always stays the worker's: whoever keeps all others gets no frame until one is dropped.
    /// A worker that has ended leaves its last frame to be taken.
    pub fn try_take(&mut self) -> Option<Taken> {
        let current = self.current.clone();
        let mut taken = self.take_from(&current);
        if taken.is_some() {
            self.previous = None;
        } else if let Some(previous) = self.previous.clone() {
            taken = self.take_from(&previous);
        }
        let (lent, slot, number, about) = taken?;
        // Checked to be text where it was read.
        let source = about.source.get().unwrap_or_default();
        if *self.source != *source {
            self.source = source.into();
        }
        let age = Duration::from_nanos(now().saturating_sub(about.captured));
        let now = Instant::now();
        let meta = FrameMeta {
            source: self.source.clone(),
            index: about.index,
            pts: about.pts.map(Duration::from_nanos),
            captured: now.checked_sub(age).unwrap_or(now),
        };
        Some(Taken { size: about.size, pitch: about.pitch, meta, lent, slot, number })
    }

    fn take_from(&mut self, lent: &Arc<Lent>) -> Option<(Arc<Lent>, usize, u64, About)> {
        let Self { last, counts, .. } = self;
        let held = lent.held.load(Ordering::Relaxed);
        let SharedMemory { page, slots, slot_bytes, .. } = &lent.memory;
        counts.spoiled += lent.upset.swap(0, Ordering::Relaxed);
        if held.count_ones() as usize + 1 >= *slots {
            return None;
        }
        let (number, found) = match page::take(page.words(), *slots, *slot_bytes, *last, held) {
            Look::Nothing => return None,
            Look::Spoiled { number } => (number, None),
            Look::Frame { slot, number, about } => (number, Some((slot, about))),
        };
        counts.skipped = counts.skipped.saturating_add(number - *last - 1);
        *last = number;
        let Some((slot, about)) = found else {
            counts.spoiled += 1;
            self.settle(number, Fate::Refused);
            return None;
        };
        counts.taken += 1;
        lent.held.fetch_or(1 << slot, Ordering::Relaxed);
        Some((lent.clone(), slot, number, about))
    }

    /// Tell the worker what became of the frame `number` ([`Taken::number`]), once: [`Fate::Drawn`], [`Fate::Overtaken`],
    /// [`Fate::Hidden`] or [`Fate::Refused`]. Never waits; the worker looks when it shows the next.
    pub fn settle(&mut self, number: u64, fate: Fate) {
        let entry = Entry { number, fate, at: now() };
        self.told += u64::from(fates::write(self.current.memory.page.words(), self.told, entry));
    }

    /// Say goodbye: the window closes, or the pane is dismissed. What was taken stays as it is.
    pub fn close(&mut self, why: &str) {
        if self.ended.is_none() {
            // One that does not hear it is gone, or finds the end of the connection.
            let _ = self.socket.send(&Message::Bye { why }.to_bytes(), &[]);
            self.ended = Some("the window was closed".into());
        }
    }

    /// Answer what the worker asked (larger slots), and see whether it is still there. Never waits.
    ///
    /// To be called when [`Self::as_fd`] is readable, or at each refresh: a worker that grows waits for it.
    pub fn poll_alive(&mut self) -> bool {
        for _ in 0..PER_CALL {
            if self.ended.is_some() || !self.answer_one() {
                break;
            }
        }
        self.ended.is_none()
    }

    /// Why the worker is no longer there, once [`Self::poll_alive`] has found so.
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// Whether there was something to answer.
    fn answer_one(&mut self) -> bool {
        let mut buffer = [0; MAX_BYTES];
        let said = match self.socket.receive(&mut buffer, None) {
            Ok(Heard::Nothing) => return false,
            Ok(Heard::Packet(bytes)) => Message::parse(&buffer[..bytes]),
            Ok(Heard::TooMuch) => Err("a message that is too long".into()),
            Ok(Heard::Closed) => {
                return self.end("killed, or crashed: it said no goodbye".into());
            }
            Err(e) => return self.end(format!("the worker cannot be heard: {e}")),
        };
        let grown = match said {
            Ok(Message::Grow { slot_bytes }) => self.grow(slot_bytes),
            Ok(Message::Bye { why: "" }) => return self.end("ended".into()),
            Ok(Message::Bye { why }) => return self.end(format!("ended: {why}")),
            Ok(_) => return self.end("the worker sent a message that has no place here".into()),
            Err(what) => return self.end(format!("the worker sent {what}")),
        };
        match grown {
            Ok(true) => true,
            Ok(false) => self.end("the worker does not hear what it is told".into()),
            Err(e) => self.end(format!("the worker's slots cannot grow: {e}")),
        }
    }

    fn grow(&mut self, slot_bytes: usize) -> std::io::Result<bool> {
        if slot_bytes <= self.current.memory.slot_bytes {
            return Err(std::io::Error::other(format!("{slot_bytes} bytes are no more than they have")));
        }
        if let Err(reason) = self.limits.allow(slot_bytes) {
            return self.socket.send(&Message::Refused { reason: &reason }.to_bytes(), &[]);
        }
        let (slots, slot_bytes) = (self.current.memory.slots, slot_bytes.next_multiple_of(PAGE_BYTES));
        let offer = offer(self.provider.as_ref(), Wanted { slots, slot_bytes, device: self.device });
        if self.device.is_some() && offer.device.is_none() {
            return self.socket.send(&Message::Refused { reason: &offer.way }.to_bytes(), &[]);
        }
        let way = offer.way.clone();
        let Some(grown) = Lent::send(&self.socket, slots, slot_bytes, offer)? else { return Ok(false) };
        self.way = way;
        self.previous = Some(std::mem::replace(&mut self.current, grown));
        self.told = 0;
        self.counts.grown += 1;
        Ok(true)
    }

    fn end(&mut self, why: String) -> bool {
        self.ended = Some(why);
        false
    }

    /// What was counted so far.
    pub fn counts(&self) -> WindowCounts {
        self.counts
    }

    /// The most frames that can be held at once.
    pub fn most_held(&self) -> usize {
        self.current.memory.slots - 1
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // A process that goes down says nothing: its worker is to know.
        if !std::thread::panicking() {
            self.close("");
        }
    }
}

/// Readable when [`Attached::poll_alive`] has something to do: the worker asks for something, or is gone. Not when there
/// is a frame: a device that completes one wakes nobody, so a window looks at each refresh.
impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A frame in memory that is shared, which the worker does not write until this is dropped. It outlives its [`Attached`]
/// and the worker. Who lets a device read it keeps this until the device is done.
///
/// The worker *could* write: a process that keeps to no protocol. So there is no slice of its bytes, only copies.
pub struct Taken {
    size: ImageSize,
    pitch: usize,
    meta: FrameMeta,
    lent: Arc<Lent>,
    slot: usize,
    number: u64,
}

impl Taken {
    /// Width and height.
    pub fn size(&self) -> ImageSize {
        self.size
    }

    /// Bytes from row to row: a multiple of 256, as displays upload them.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Who the frame is. `captured` is in this process's time.
    pub fn meta(&self) -> &FrameMeta {
        &self.meta
    }

    /// Its number among all frames of this worker: from 1, growing.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where it is, if it is in a device's memory: what the window's owner knows the slots by, and which of them.
    pub fn device(&self) -> Option<(&Owned, usize)> {
        Some((self.lent.owned.as_ref()?, self.slot))
    }

    /// Copy the RGBA rows as they lie, [`Self::pitch`] bytes apart, into pitch × height bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for another number of bytes; [`ErrorKind::Unsupported`] for a frame in a device's memory.
    pub fn copy_to(&self, out: &mut [u8]) -> Result<()> {
        self.copy(self.pitch, out)
    }

    /// Copy the RGBA rows without gaps, into width × height × 4 bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for another number of bytes; [`ErrorKind::Unsupported`] for a frame in a device's memory.
    pub fn copy_tight(&self, out: &mut [u8]) -> Result<()> {
        self.copy(self.size.width * 4, out)
    }

    fn copy(&self, row_bytes: usize, out: &mut [u8]) -> Result<()> {
        let want = row_bytes * self.size.height;
        if out.len() != want {
            let (got, meta, size) = (out.len(), &self.meta, self.size);
            let sentence = format!("{meta}: {size} is copied into {want} bytes, not {got}");
            return Err(Error::new(ErrorKind::Argument, sentence));
        }
        let Some(slots) = self.lent.memory.host_slots() else {
            let sentence = format!("{}: it is in a device's memory, of which there are no copies", self.meta);
            return Err(Error::new(ErrorKind::Unsupported, sentence));
        };
        read(slots[self.slot].words(), self.pitch, row_bytes, out);
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !page::release(self.lent.memory.page.words(), self.slot, self.number) {
            self.lent.upset.fetch_add(1, Ordering::Relaxed);
        }
        self.lent.held.fetch_and(!(1 << self.slot), Ordering::Relaxed);
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Taken({}, {}, number {})", self.meta, self.size, self.number)
    }
}
