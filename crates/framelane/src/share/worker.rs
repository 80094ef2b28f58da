//! The worker's side: it attaches to a window by name and shows frames there.

use super::fates::{self, Entry};
use super::memory::{DeviceSlots, Pixels, SharedMemory, write};
use super::message::{LATEST, MAX_BYTES, Message, is_pane_name};
use super::page::{self, About, Acquired, NAME_BYTES, SLOTS, SourceName, pitch_of};
use super::place::path_of;
use super::slot::WorkerSlot;
use super::system::{Heard, Socket, now, wait};
use super::{Fate, MAX_SLOT_BYTES, Shown, WorkerCounts, WorkerOptions, after};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{FrameMeta, ImageSize};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A pane in another process's window. Dropping it ends the pane's stream; the window keeps the last frame.
pub struct Worker {
    socket: Socket,
    window: Arc<str>,
    memory: Arc<SharedMemory>,
    /// Slots in a device's memory, until somebody opens them.
    device: Option<DeviceSlots>,
    way: String,
    patience: Duration,
    /// What larger slots were asked for, as long as there is no answer.
    asked: Option<usize>,
    number: u64,
    /// Frames whose fate is open, in the order of their numbers.
    open: VecDeque<Open>,
    /// Fates that were read in the page there is now.
    read: u64,
    counts: WorkerCounts,
    closed: Option<Closed>,
}

/// A frame that was handed over.
struct Open {
    number: u64,
    captured: u64,
    then: Option<Then>,
}

type Then = Box<dyn FnOnce(Fate, Duration) + Send>;

/// Frames whose fate can be open with a window that keeps to the protocol: one in each slot, twice while they grow.
const MOST_OPEN: usize = 2 * *SLOTS.end() + 1;

/// How often [`Worker::settle`] looks: nothing tells of a fate, and a refresh takes longer.
const LOOK: Duration = Duration::from_millis(2);

/// How the window ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// It said so.
    InOrder,
    /// Without a word.
    Lost,
}

/// What the window says.
enum Answer {
    Nothing,
    Memory(Given),
    Refused(String),
    Closed(Closed),
}

struct Given {
    memory: SharedMemory,
    device: Option<DeviceSlots>,
    way: String,
}

/// What [`Worker::begin`] found.
#[derive(Debug)]
pub enum Begun {
    /// A slot for the picture.
    Slot(WorkerSlot),
    /// The window holds every slot: the picture is dropped, and counted.
    Dropped,
    /// The window is closed.
    Closed,
}

impl Worker {
    /// Attach to the window that listens by the name `window`, as the pane `pane` (1 to 64 bytes of text).
    ///
    /// Waits for the window's answer, at most [`WorkerOptions::patience`]. A worker may attach again at any time: after
    /// its window has closed, and after it died itself.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if no such window listens, or it closes meanwhile; [`ErrorKind::Timeout`] if it does not
    /// answer; [`ErrorKind::Budget`] with the window's reason if it refuses; [`ErrorKind::Argument`] for names or options
    /// that cannot be; [`ErrorKind::Input`] if what listens there makes no sense; [`ErrorKind::Unsupported`] where the
    /// system is not Linux.
    pub fn attach(window: &str, pane: &str, options: WorkerOptions) -> Result<Self> {
        check(pane, &options)?;
        let path = path_of(window)?;
        let socket = Socket::connect(&path, options.patience).map_err(|e| no_window(window, e))?;
        let WorkerOptions { slots, slot_bytes, device, .. } = options;
        let hello = Message::Hello { policy: LATEST, slots, slot_bytes, device, pane };
        // One who closed without a word is told from the silence below.
        socket.send(&hello.to_bytes(), &[]).map_err(|e| broken(window, e))?;
        let until = after(options.patience);
        let Given { memory, device, way } = loop {
            match hear(&socket, window, slots)? {
                Answer::Memory(given) => break given,
                Answer::Refused(reason) => {
                    let sentence = format!("the window {window} does not take the pane {pane:?}: {reason}");
                    return Err(Error::new(ErrorKind::Budget, sentence));
                }
                Answer::Closed(_) => return Err(closed(window)),
                Answer::Nothing => wait_for_answer(&socket, window, until)?,
            }
        };
        if memory.slot_bytes < slot_bytes || device.is_some() && options.device.is_none() {
            return Err(nonsense(window, "other slots than were asked for"));
        }
        Ok(Self {
            socket,
            window: window.into(),
            memory: Arc::new(memory),
            device,
            way,
            patience: options.patience,
            asked: None,
            number: 0,
            open: VecDeque::with_capacity(MOST_OPEN + 1),
            read: 0,
            counts: WorkerCounts::default(),
            closed: None,
        })
    }

    /// Show a picture. It is copied before the call returns: the memory may be reused at once.
    ///
    /// The call never waits for the screen. It waits for the window, at most [`WorkerOptions::patience`], if the picture
    /// needs larger slots than there are; so let [`WorkerOptions::slot_bytes`] fit the largest. A window that is gone is
    /// told by [`Shown::Closed`], now and ever after; [`Self::attach`] again for the next one.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] or [`ErrorKind::Input`] if the size is impossible or does not fit the bytes;
    /// [`ErrorKind::Budget`] if the window allows no slots that large, and [`ErrorKind::Timeout`] if it did not make them
    /// in time: the frame is dropped then, and the next may work. [`ErrorKind::Input`] also if the window makes no sense;
    /// the worker is then closed.
    pub fn show(&mut self, pixels: Pixels<'_>, size: ImageSize, meta: &FrameMeta) -> Result<Shown> {
        let size = ImageSize::new(size.width, size.height).map_err(|e| e.context(meta))?;
        let (got, each) = pixels.bytes();
        let want = size.width * size.height * each;
        if got != want {
            let sentence =
                format!("{meta}: the picture has {got} bytes, but {size} of {each} bytes needs {want}");
            return Err(Error::new(ErrorKind::Argument, sentence));
        }
        if self.memory.host.is_none() {
            let sentence =
                format!("{meta}: the slots are a device's, which bytes of the host do not go into");
            return Err(Error::new(ErrorKind::Unsupported, sentence));
        }
        let slot = match self.begin(size, meta)? {
            Begun::Slot(slot) => slot,
            Begun::Dropped => return Ok(Shown::Dropped),
            Begun::Closed => return Ok(Shown::Closed),
        };
        if let Some(words) = slot.words() {
            write(words, slot.pitch(), pixels, size);
        }
        slot.raise();
        Ok(self.hand_over(slot))
    }

    /// A slot for a picture of `size` that something else than this call writes: a device, say, later. Then comes
    /// [`Self::hand_over`], or [`Self::abandon`]; a slot with which neither is done is not used again.
    ///
    /// What is written into slots is written in the order of these calls: a slot may be given whose last picture is still
    /// on its way, and will then be seen by nobody. The call waits for nothing, except for larger slots as
    /// [`Self::show`] does.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub fn begin(&mut self, size: ImageSize, meta: &FrameMeta) -> Result<Begun> {
        let size = ImageSize::new(size.width, size.height).map_err(|e| e.context(meta))?;
        let pitch = pitch_of(size);
        if !self.is_open()? || !self.make_room(pitch * size.height, meta)? {
            return Ok(Begun::Closed);
        }
        self.look();
        let (slots, page) = (self.memory.slots, self.memory.page.words());
        let Some(Acquired { slot, replaces }) = page::acquire(page, slots, self.number + 1) else {
            self.counts.dropped += 1;
            return Ok(Begun::Dropped);
        };
        self.number += 1;
        let about = About {
            size,
            pitch,
            index: meta.index,
            pts: meta.pts.and_then(|pts| u64::try_from(pts.as_nanos()).ok()),
            captured: now().saturating_sub(meta.captured.elapsed().as_nanos() as u64),
            source: SourceName::cut(&meta.source),
        };
        Ok(Begun::Slot(WorkerSlot::new(self.memory.clone(), slot, self.number, replaces, about)))
    }

    /// Give the window the picture whose writing into the slot has begun. It is shown once it is there:
    /// [`WorkerSlot::number`] is in the page, at [`SharedMemory::done_at`], or was raised ([`WorkerSlot::raise`]).
    pub fn hand_over(&mut self, slot: WorkerSlot) -> Shown {
        self.publish(slot, None)
    }

    /// As [`Self::hand_over`], and `then` is told what became of the picture, and how old it was when that happened: once, by
    /// a later call of this worker's, or when it is dropped. It must not wait.
    pub fn hand_over_then(
        &mut self,
        slot: WorkerSlot,
        then: impl FnOnce(Fate, Duration) + Send + 'static,
    ) -> Shown {
        self.publish(slot, Some(Box::new(then)))
    }

    fn publish(&mut self, slot: WorkerSlot, then: Option<Then>) -> Shown {
        let replaces = slot.replaces();
        if let Some(at) = replaces.and_then(|number| self.open.iter().position(|open| open.number == number))
            && let Some(replaced) = self.open.remove(at)
        {
            replaced.settle(Fate::Overtaken, now());
        }
        // Only a window that says nothing of what it takes lets them become more.
        if self.open.len() >= MOST_OPEN
            && let Some(oldest) = self.open.pop_front()
        {
            oldest.settle(Fate::Left, now());
        }
        self.open.push_back(Open { number: slot.number(), captured: slot.captured(), then });
        slot.publish();
        self.counts.shown += 1;
        self.counts.replaced += u64::from(replaces.is_some());
        if replaces.is_some() { Shown::Replaced } else { Shown::Shown }
    }

    /// Read what the window says of frames.
    fn look(&mut self) {
        let page = self.memory.page.words();
        // Bounded, whatever a window writes meanwhile.
        for _ in 0..fates::ENTRIES {
            let Some(Entry { number, fate, at }) = fates::read(page, &mut self.read) else { break };
            let Some(place) = self.open.iter().position(|open| open.number == number) else { continue };
            if fate == Fate::Drawn {
                self.counts.drawn += 1;
                self.counts.unseen += place as u64;
                self.open.drain(..place).for_each(|older| older.settle(Fate::Overtaken, at));
                self.open.pop_front().into_iter().for_each(|drawn| drawn.settle(fate, at));
            } else if let Some(open) = self.open.remove(place) {
                self.counts.unseen += 1;
                open.settle(fate, at);
            }
        }
    }

    /// Wait until it is known what became of each frame, at most for `limit`: of how many it is not. A window that is paused
    /// takes none.
    ///
    /// # Errors
    /// As [`Self::is_open`].
    pub fn settle(&mut self, limit: Duration) -> Result<usize> {
        let until = after(limit);
        loop {
            let is_open = self.is_open()?;
            self.look();
            let now = Instant::now();
            if self.open.is_empty() || !is_open || now >= until {
                return Ok(self.open.len());
            }
            wait(&self.socket, until.min(now + LOOK)).map_err(|e| broken(&self.window, e))?;
        }
    }

    /// End the pane, and let the window say why. Dropping a worker ends it without a reason.
    pub fn end(mut self, why: &str) {
        self.say_goodbye(why);
    }

    fn say_goodbye(&mut self, why: &str) {
        if self.closed.is_none() {
            // It travels as text in one line.
            let why = why.replace(char::is_control, " ");
            // A window that does not hear it is gone, or finds the end of the connection.
            let _ = self.socket.send(&Message::Bye { why: &why }.to_bytes(), &[]);
            self.closed = Some(Closed::InOrder);
        }
    }

    /// Whether the window is gone without having said so: it was killed, or crashed.
    pub fn is_lost(&self) -> bool {
        self.closed == Some(Closed::Lost)
    }

    /// Give back a slot into which nothing is written, and nothing will be.
    pub fn abandon(&mut self, slot: WorkerSlot) {
        slot.abandon();
    }

    /// How its pictures come to the screen, in one line, as the window says it.
    pub fn way(&self) -> &str {
        &self.way
    }

    /// What the window gave. Another one after [`Self::begin`] asked for larger slots.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    /// The slots, if they are in the memory of the device that [`WorkerOptions::device`] names; once, for whoever opens
    /// them.
    pub fn take_device_slots(&mut self) -> Option<DeviceSlots> {
        self.device.take()
    }

    /// Whether the window is still there. Never waits; [`Self::as_fd`] becomes readable when it may have changed.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the window says what makes no sense; the worker is then closed.
    pub fn is_open(&mut self) -> Result<bool> {
        // One answer at most is due.
        match self.hear()? {
            Answer::Refused(_) => self.asked = None,
            Answer::Nothing | Answer::Memory(_) | Answer::Closed(_) => {}
        }
        Ok(self.closed.is_none())
    }

    /// What was counted so far.
    pub fn counts(&self) -> WorkerCounts {
        self.counts
    }

    /// Listen, and take in what came.
    fn hear(&mut self) -> Result<Answer> {
        if let Some(how) = self.closed {
            return Ok(Answer::Closed(how));
        }
        let heard = hear(&self.socket, &self.window, self.memory.slots).and_then(|answer| {
            match (&answer, self.asked) {
                (Answer::Memory(given), Some(asked))
                    if given.memory.slot_bytes >= asked
                        && given.memory.host.is_some() == self.memory.host.is_some() =>
                {
                    Ok(answer)
                }
                (Answer::Refused(_), Some(_)) | (Answer::Nothing | Answer::Closed(_), _) => Ok(answer),
                _ => Err(nonsense(&self.window, "an answer to what was not asked")),
            }
        });
        match heard {
            Ok(Answer::Memory(Given { memory, device, way })) => {
                // What lies unseen in the old slots stays the window's to show; what it says from now on, it says in the
                // new page.
                self.look();
                self.memory = Arc::new(memory);
                self.read = 0;
                self.device = device;
                self.way = way;
                self.asked = None;
                self.counts.grown += 1;
                Ok(Answer::Nothing)
            }
            Ok(answer) => {
                if let Answer::Closed(how) = answer {
                    self.close(how);
                }
                Ok(answer)
            }
            Err(e) => {
                self.close(Closed::InOrder);
                Err(e)
            }
        }
    }

    /// The window is gone: what it did not draw, nobody saw.
    fn close(&mut self, how: Closed) {
        self.closed = Some(how);
        self.look();
        let now = now();
        self.open.drain(..).for_each(|open| open.settle(Fate::Closed, now));
    }

    /// See that slots hold `bytes`. `false`: the window is closed.
    fn make_room(&mut self, bytes: usize, meta: &FrameMeta) -> Result<bool> {
        let until = after(self.patience);
        while self.memory.slot_bytes < bytes {
            if bytes > MAX_SLOT_BYTES {
                let sentence = format!(
                    "{meta}: the picture needs {bytes} bytes, but a slot has at most {MAX_SLOT_BYTES}"
                );
                return Err(Error::new(ErrorKind::Budget, sentence));
            }
            if self.asked.is_none() {
                let grow = Message::Grow { slot_bytes: bytes }.to_bytes();
                let sent = self.socket.send(&grow, &[]).map_err(|e| broken(&self.window, e))?;
                self.asked = Some(bytes);
                if !sent {
                    self.close(Closed::Lost);
                    return Ok(false);
                }
            }
            match self.hear()? {
                Answer::Closed(_) => return Ok(false),
                Answer::Refused(reason) if self.asked.take() == Some(bytes) => {
                    let sentence =
                        format!("{meta}: the window {} has no room for {bytes} bytes: {reason}", self.window);
                    return Err(Error::new(ErrorKind::Budget, sentence));
                }
                // That was the answer to a call before; or there is larger memory now.
                Answer::Refused(_) | Answer::Memory(_) => {}
                Answer::Nothing if self.memory.slot_bytes >= bytes || self.asked.is_none() => {}
                Answer::Nothing => wait_for_answer(&self.socket, &self.window, until)?,
            }
        }
        Ok(true)
    }
}

impl Open {
    fn settle(self, fate: Fate, at: u64) {
        if let Some(then) = self.then {
            then(fate, Duration::from_nanos(at.saturating_sub(self.captured)));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A process that goes down says nothing: its window is to know.
        if !std::thread::panicking() {
            self.look();
            self.say_goodbye("");
        }
        let now = now();
        self.open.drain(..).for_each(|open| open.settle(Fate::Left, now));
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { window, way, number, counts, closed, .. } = self;
        write!(f, "Worker(window {window}, {way}, number {number}, {counts:?}, closed {closed:?})")
    }
}

/// Readable when the window has answered, or is gone.
impl AsFd for Worker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn check(pane: &str, options: &WorkerOptions) -> Result<()> {
    let sentence = if !is_pane_name(pane) {
        format!("{pane:?} cannot be the name of a pane: take 1 to {NAME_BYTES} bytes of text")
    } else if !SLOTS.contains(&options.slots) {
        format!(
            "the pane {pane:?} can have {} to {} slots, not {}",
            SLOTS.start(),
            SLOTS.end(),
            options.slots
        )
    } else if !(1..=MAX_SLOT_BYTES).contains(&options.slot_bytes) {
        let asked = options.slot_bytes;
        format!("the slots of the pane {pane:?} can have 1 to {MAX_SLOT_BYTES} bytes, not {asked}")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Argument, sentence))
}

/// What the window says next, if anything; its memory is mapped here.
fn hear(socket: &Socket, window: &str, slots: usize) -> Result<Answer> {
    let (mut buffer, mut descriptors) = ([0; MAX_BYTES], Vec::<OwnedFd>::new());
    let bytes = match socket.receive(&mut buffer, Some(&mut descriptors)) {
        Ok(Heard::Nothing) => return Ok(Answer::Nothing),
        Ok(Heard::Closed) => return Ok(Answer::Closed(Closed::Lost)),
        Ok(Heard::TooMuch) => return Err(nonsense(window, "a message that is too long")),
        Ok(Heard::Packet(bytes)) => bytes,
        Err(e) => return Err(broken(window, e)),
    };
    match Message::parse(&buffer[..bytes]) {
        Ok(Message::Memory { slots: given, slot_bytes, allocated, way }) if given == slots => {
            let (memory, device) = SharedMemory::open(descriptors, slots, slot_bytes, allocated)
                .map_err(|e| nonsense(window, &e.to_string()).because(e))?;
            Ok(Answer::Memory(Given { memory, device, way: way.to_owned() }))
        }
        Ok(Message::Refused { reason }) => Ok(Answer::Refused(reason.to_owned())),
        Ok(Message::Bye { .. }) => Ok(Answer::Closed(Closed::InOrder)),
        Ok(_) => Err(nonsense(window, "a message that has no place here")),
        Err(what) => Err(nonsense(window, &what)),
    }
}

fn wait_for_answer(socket: &Socket, window: &str, until: Instant) -> Result<()> {
    if wait(socket, until).map_err(|e| broken(window, e))? {
        return Ok(());
    }
    let sentence = format!("the window {window} does not answer: see whether it hangs");
    Err(Error::new(ErrorKind::Timeout, sentence))
}

fn no_window(window: &str, e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            let sentence = format!("no window listens by the name {window}: open it first");
            Error::new(ErrorKind::Closed, sentence).because(e)
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let sentence = format!("the window {window} accepts nobody: see whether it hangs");
            Error::new(ErrorKind::Timeout, sentence).because(e)
        }
        io::ErrorKind::Unsupported => Error::new(ErrorKind::Unsupported, e.to_string()),
        _ => broken(window, e),
    }
}

fn closed(window: &str) -> Error {
    Error::new(ErrorKind::Closed, format!("the window {window} closed before it answered: try again"))
}

fn broken(window: &str, e: io::Error) -> Error {
    Error::io(format!("the window {window} cannot be reached"), e)
}

fn nonsense(window: &str, what: &str) -> Error {
    let sentence = format!("the window {window} sent {what}: use one release on both sides");
    Error::new(ErrorKind::Input, sentence)
}
