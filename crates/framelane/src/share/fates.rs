//! What became of frames: a log in the control page, which the window writes and the worker reads. As the page, a pure
//! state machine over words that both processes see.
//!
//! # Protocol
//! 1. The window, the only writer, writes entry `count % ENTRIES`, then `count + 1` with Release. The worker loads the count
//!    with Acquire: who sees it sees the entries below it.
//! 2. Frames that were drawn are told in the order of their numbers, since what is shown never goes back. So one of which
//!    nothing is said, below one that was drawn, was overtaken.
//! 3. An entry is overwritten [`ENTRIES`] later. A window has at most one frame more than there are slots whose fate is
//!    open (one that it copied and gave back), and a worker reads the log before each frame that it begins: an entry is
//!    read before it is overwritten.
//!
//! # Trust
//! What a hostile window writes is a wrong fate for frames of its own: a count that jumps is followed without reading, and
//! an entry that names no open frame, or no fate, says nothing.

use super::Fate;
use super::page::{FATES, SLOTS, Words};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of the log.
pub const ENTRIES: usize = (super::page::FIRST - FATES - 1) / WORDS;
/// Words of each: the frame's number and fate, and when.
const WORDS: usize = 2;

const _: () = assert!(ENTRIES > *SLOTS.end() + 2);

const DRAWN: u64 = 0;
const OVERTAKEN: u64 = 1;
const HIDDEN: u64 = 2;
const REFUSED: u64 = 3;

/// What the window says of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The frame's number.
    pub number: u64,
    /// What became of it: one of those that a window tells.
    pub fate: Fate,
    /// When, in nanoseconds of the clock that both processes see.
    pub at: u64,
}

fn word(entry: u64) -> usize {
    FATES + 1 + (entry % ENTRIES as u64) as usize * WORDS
}

/// Write what became of a frame, `count` having been written before. `false`: that is no word of a window's.
pub fn write(page: &(impl Words + ?Sized), count: u64, entry: Entry) -> bool {
    let fate = match entry.fate {
        Fate::Drawn => DRAWN,
        Fate::Overtaken => OVERTAKEN,
        Fate::Hidden => HIDDEN,
        Fate::Refused => REFUSED,
        Fate::Closed | Fate::Left => return false,
    };
    page.store(word(count), entry.number << 2 | fate, Relaxed);
    page.store(word(count) + 1, entry.at, Relaxed);
    page.store(FATES, count + 1, Release);
    true
}

/// The next entry after the `count` that were read before, which is then one more.
pub fn read(page: &(impl Words + ?Sized), count: &mut u64) -> Option<Entry> {
    let written = page.load(FATES, Acquire);
    match written.checked_sub(*count) {
        Some(1..) if written - *count <= ENTRIES as u64 => {}
        Some(0) => return None,
        // Nonsense, or more than there is room for.
        _ => {
            *count = written;
            return None;
        }
    }
    let said = page.load(word(*count), Relaxed);
    let at = page.load(word(*count) + 1, Relaxed);
    *count += 1;
    let fate = match said & 3 {
        DRAWN => Fate::Drawn,
        OVERTAKEN => Fate::Overtaken,
        HIDDEN => Fate::Hidden,
        _ => Fate::Refused,
    };
    Some(Entry { number: said >> 2, fate, at })
}
