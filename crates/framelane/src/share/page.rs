//! The control page: which slot a worker writes and which one a window reads. A pure state machine over words that both
//! processes see; no locks, no waiting, no system calls.
//!
//! # Protocol
//! ```text
//!           acquire                  publish, raise                 take
//!   Free ───────────▶ Writing ───────────────────────▶ Ready ────────────────▶ Reading
//!    ▲                 │ ▲                               │                        │
//!    ◀──── abandon ────┘ └── acquire, if none is Free ◀──┘                        │
//!    └────────────────────────────────────────────────────────── release ◀────────┘
//! ```
//! 1. A slot's *state word* is `number << 2 | tag`. Numbers grow with each frame and are never used again, so a
//!    compare-exchange on the word fails if anything happened in between. States change by compare-exchange alone.
//!    The worker makes Writing and Ready, the window Reading and, of that, Free. (What the worker began to write and
//!    did not, it makes Free itself.)
//! 2. *Ready* says that the frame was handed over, its *done* word that its pixels are there: it is complete once
//!    `done` is its number. A worker on the CPU raises `done` itself, right after publishing; one on a GPU lets
//!    its stream write it (`cuStreamWriteValue64`), and no CPU waits. The word has a cache line of its own, since
//!    the window asks it again and again while a device may be writing it.
//! 3. `acquire` takes a Free slot; if there is none, the oldest complete Ready one, which nobody has seen and now nobody
//!    will; but not the only complete one while others are pending, so that a worker far ahead of its GPU leaves
//!    something to show: then, or if none is complete, it takes the newest pending one. Its device writes in order, the
//!    newer frame after the older, and *done* is never again what the older one's Ready says. So the older ones complete,
//!    the newest frame is never lost, and only if the window holds every slot is a frame dropped; nobody waits.
//! 4. `take` picks the complete Ready slot with the highest number, if that is higher than what was taken before: what is
//!    shown never goes back. Older ones stay, for the worker to write over.
//! 5. The window never holds all slots, so there is one for a well-behaved worker to write.
//!
//! # Orderings
//! - *Ready* is stored with Release and loaded with Acquire: who sees it sees what the frame is (the `About`).
//! - *done* is stored with Release (or by a device after its writes) and loaded with Acquire: who sees it sees the
//!   pixels.
//! - *Free* is stored with Release and *Writing* made with Acquire: what the window read, it read before it is written.
//! - All else is Relaxed: only the owner of the slot touches it.
//!
//! # Trust
//! Neither side believes the other. Whatever the page says, each call ends after a bounded number of steps and touches
//! no word outside it; `take` copies each value once and checks the copy; and what a process itself holds it keeps in its
//! own memory. A peer that writes nonsense spoils what is shown in its own pane.

use crate::frame::ImageSize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Bytes of a control page.
pub const PAGE_BYTES: usize = 4096;
/// Fewest and most slots of one worker. With two, one is read while the other is written.
pub const SLOTS: std::ops::RangeInclusive<usize> = 2..=8;
/// The longest name of a source that travels, in bytes.
pub const NAME_BYTES: usize = 64;
/// Rows begin at multiples of this, as displays upload them.
pub const PITCH: usize = 256;

// In words. The first 256 bytes are for what concerns the whole page: a word that is nobody's, and the log of what became
// of frames (`fates`).
pub(super) const FATES: usize = 1;
pub(super) const FIRST: usize = 32;
const STRIDE: usize = 32;
const STATE: usize = 0;
const SIZE: usize = 1;
const PITCH_AND_NAME: usize = 2;
const INDEX: usize = 3;
const PTS: usize = 4;
const CAPTURED: usize = 5;
/// A cache line of its own.
const DONE: usize = 8;
const NAME: usize = 16;

const _: () = assert!((FIRST + *SLOTS.end() * STRIDE) * 8 <= PAGE_BYTES);
const _: () = assert!(NAME + NAME_BYTES / 8 <= STRIDE);

const FREE: u64 = 0;
const READY: u64 = 1;
const READING: u64 = 2;
const WRITING: u64 = 3;

const NO_PTS: u64 = u64::MAX;

fn state(number: u64, tag: u64) -> u64 {
    number << 2 | tag
}

fn apart(state: u64) -> (u64, u64) {
    (state >> 2, state & 3)
}

fn word(slot: usize, field: usize) -> usize {
    FIRST + slot * STRIDE + field
}

/// The words of a page: shared memory, or loom's when interleavings are explored.
pub trait Words {
    /// One word.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// Change one word.
    fn store(&self, at: usize, value: u64, order: Ordering);
    /// Change one word if it is `from`. Whether it was.
    fn exchange(&self, at: usize, from: u64, to: u64, order: Ordering) -> bool;
}

impl Words for [AtomicU64] {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self[at].load(order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self[at].store(value, order);
    }

    fn exchange(&self, at: usize, from: u64, to: u64, order: Ordering) -> bool {
        self[at].compare_exchange(from, to, order, Relaxed).is_ok()
    }
}

/// What a frame in a slot is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Width and height.
    pub size: ImageSize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Number of the frame in its source.
    pub index: u64,
    /// Its time in its source's clock, in nanoseconds.
    pub pts: Option<u64>,
    /// When it was captured, in nanoseconds of the clock that both processes see.
    pub captured: u64,
    /// The name of its source, cut to [`NAME_BYTES`].
    pub source: SourceName,
}

/// The name of a source in at most [`NAME_BYTES`] bytes, without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceName {
    bytes: [u8; NAME_BYTES],
    len: usize,
}

impl SourceName {
    /// As much of `name` as there is room for, in whole characters, without control characters.
    pub fn cut(name: &str) -> Self {
        let (mut bytes, mut len) = ([0; NAME_BYTES], 0);
        for c in name.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            let Some(room) = bytes[len..].get_mut(..c.len_utf8()) else { break };
            len += c.encode_utf8(room).len();
        }
        Self { bytes, len }
    }

    /// The name. `None` for what came from a peer and is no text.
    pub fn get(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.len)?).ok()
    }
}

/// Bytes from row to row of pictures this wide.
pub fn pitch_of(size: ImageSize) -> usize {
    (size.width * 4).next_multiple_of(PITCH)
}

/// A slot that the worker may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquired {
    /// Which.
    pub slot: usize,
    /// The number of the frame in it that nobody has seen, and now nobody will.
    pub replaces: Option<u64>,
}

/// At which byte of the page a device writes the number of the frame whose pixels are in the slot.
pub fn done_at(slot: usize) -> usize {
    word(slot, DONE) * size_of::<u64>()
}

/// A slot for frame `number`, which is above all numbers used before; `None` if there is none. Its pixels are to be
/// written after those of all frames before: a slot whose frame is still pending may be given.
pub fn acquire(page: &(impl Words + ?Sized), slots: usize, number: u64) -> Option<Acquired> {
    // The window may take what was picked, or free one slot and take another while they are looked at. Each time it takes
    // a frame, and there are no more of those than slots.
    for _ in 0..2 * slots {
        let Some(((slot, found), replaces)) = best_to_write(page, slots) else { continue };
        // Acquire: the window's reads come before our writes.
        if page.exchange(word(slot, STATE), found, state(number, WRITING), Acquire) {
            return Some(Acquired { slot, replaces: replaces.then(|| apart(found).0) });
        }
    }
    None
}

/// The slot and its state word, and whether it holds an unseen frame.
fn best_to_write(page: &(impl Words + ?Sized), slots: usize) -> Option<((usize, u64), bool)> {
    let (mut oldest, mut complete, mut pending) = (None, 0, None);
    for slot in 0..slots {
        // Acquire: who sees that another slot was taken sees, the next time round, which one was freed before.
        let found = page.load(word(slot, STATE), Acquire);
        match apart(found) {
            (_, FREE) => return Some(((slot, found), false)),
            (number, READY) if page.load(word(slot, DONE), Acquire) == number => {
                complete += 1;
                if oldest.is_none_or(|(_, oldest)| number < apart(oldest).0) {
                    oldest = Some((slot, found));
                }
            }
            (number, READY) if pending.is_none_or(|(_, newest)| number > apart(newest).0) => {
                pending = Some((slot, found));
            }
            _ => {}
        }
    }
    let best = if complete > 1 { oldest } else { pending.or(oldest) };
    best.map(|best| (best, true))
}

/// Give back a slot that was acquired for frame `number`, which nothing writes and nothing will.
pub fn abandon(page: &(impl Words + ?Sized), slot: usize, number: u64) {
    // It fails only if the window writes where it may not; the slot is then lost, in its own window.
    page.exchange(word(slot, STATE), state(number, WRITING), state(number, FREE), Release);
}

/// Hand over the frame that was written into `slot`; it is complete once [`raise`]d.
pub fn publish(page: &(impl Words + ?Sized), slot: usize, number: u64, about: &About) {
    let set = |field, value| page.store(word(slot, field), value, Relaxed);
    set(SIZE, (about.size.width as u64) << 32 | about.size.height as u64);
    set(PITCH_AND_NAME, (about.pitch as u64) << 32 | about.source.len as u64);
    set(INDEX, about.index);
    set(PTS, about.pts.unwrap_or(NO_PTS));
    set(CAPTURED, about.captured);
    for (i, bytes) in about.source.bytes.chunks_exact(8).enumerate() {
        set(NAME + i, u64::from_ne_bytes(bytes.try_into().expect("a chunk is 8 bytes")));
    }
    // It fails only if the window writes where it may not; the frame is then lost, in its own window.
    page.exchange(word(slot, STATE), state(number, WRITING), state(number, READY), Release);
}

/// Say that the pixels of frame `number` are there.
pub fn raise(page: &(impl Words + ?Sized), slot: usize, number: u64) {
    page.store(word(slot, DONE), number, Release);
}

/// What [`take`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// No frame that is newer than the last.
    Nothing,
    /// The newest. The slot is to be [`release`]d.
    Frame {
        /// Where its pixels are.
        slot: usize,
        /// Its number.
        number: u64,
        /// What it is. Its rows fit the slot.
        about: About,
    },
    /// A frame that makes no sense, already given back.
    Spoiled {
        /// Its number.
        number: u64,
    },
}

/// The newest complete frame above number `last`, in slots of `slot_bytes` bytes, but in none of those whose bits are
/// set in `held`.
pub fn take(page: &(impl Words + ?Sized), slots: usize, slot_bytes: usize, last: u64, held: u32) -> Look {
    // The worker may write over what was picked; a newer one is then complete, or about to be.
    for _ in 0..2 * slots {
        let mut newest = None;
        for slot in (0..slots).filter(|slot| held & 1 << slot == 0) {
            let (number, tag) = apart(page.load(word(slot, STATE), Acquire));
            let above = newest.map_or(last, |(_, number)| number);
            // Acquire: the pixels were written before.
            if tag == READY && number > above && page.load(word(slot, DONE), Acquire) == number {
                newest = Some((slot, number));
            }
        }
        let Some((slot, number)) = newest else { return Look::Nothing };
        if page.exchange(word(slot, STATE), state(number, READY), state(number, READING), AcqRel) {
            return match about(page, slot, slot_bytes) {
                Some(about) => Look::Frame { slot, number, about },
                None => {
                    release(page, slot, number);
                    Look::Spoiled { number }
                }
            };
        }
    }
    Look::Nothing
}

/// Copied once, then checked.
fn about(page: &(impl Words + ?Sized), slot: usize, slot_bytes: usize) -> Option<About> {
    let get = |field| page.load(word(slot, field), Relaxed);
    let halves = |word: u64| ((word >> 32) as u32 as usize, word as u32 as usize);
    let (width, height) = halves(get(SIZE));
    let (pitch, len) = halves(get(PITCH_AND_NAME));
    let mut bytes = [0; NAME_BYTES];
    for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&get(NAME + i).to_ne_bytes());
    }
    let size = ImageSize::new(width, height).ok()?;
    let source = SourceName { bytes, len };
    let fits = pitch == pitch_of(size) && pitch.checked_mul(height)? <= slot_bytes;
    let named = source.get().is_some_and(|name| !name.contains(char::is_control));
    let pts = Some(get(PTS)).filter(|&pts| pts != NO_PTS);
    let about = About { size, pitch, index: get(INDEX), pts, captured: get(CAPTURED), source };
    (fits && named).then_some(about)
}

/// Give back the slot of frame `number`. `false`: its state is not what this process made it.
pub fn release(page: &(impl Words + ?Sized), slot: usize, number: u64) -> bool {
    page.exchange(word(slot, STATE), state(number, READING), state(number, FREE), Release)
}
