//! What a worker and a window say to each other: five messages, each in one packet.
//!
//! ```text
//! all        "flsh", version u16, kind u16                    then, little-endian:
//! 1 Hello    policy u8, slots u8, name's length u16, takes u32, bytes of a slot u64,           worker → window
//!            the device's UUID 16 bytes, the pane's name
//! 2 Grow     bytes of a slot u64                                                               worker → window
//! 3 Memory   slots u64, bytes of a slot u64, bytes of an allocation u64, the way, UTF-8;       window → worker
//!            with descriptors: page, slots
//! 4 Refused  the reason, UTF-8                                                                 window → worker
//! 5 Bye      why, UTF-8; empty if there is nothing to say                                      both
//! ```
//! The window answers Hello and Grow with Memory or Refused. Whoever ends in order says Bye first: one that is gone without
//! it was killed, or crashed. Refused stays the same in every version, so that two sides that do not fit can tell each other.
//!
//! *takes* is 1 for a worker that takes host memory alone (its UUID is zeros then), 2 for one that also takes memory of
//! the device with this UUID. *bytes of an allocation* is 0 for slots in host memory; for slots in the device's, it is
//! what each allocation has in all, which whoever maps it must say. *the way* is how pictures come to the screen, in one
//! line, with the reason if the device's memory was not given to who takes it.
//!
//! A message comes from another program. It is of an exact length, each field has bounds, texts are UTF-8 without
//! control characters; anything else is refused in words, and nothing is taken from it.

use super::page::{NAME_BYTES, SLOTS};
use framelane_cuda::Mapped;
use std::str;

/// What this library speaks.
pub const VERSION: u16 = 3;
/// The longest message.
pub const MAX_BYTES: usize = 512;
/// The only policy so far: the window gets the newest frame.
pub const LATEST: u8 = 1;

/// The most bytes of an allocation: a slot and what a driver adds to it.
const MAX_ALLOCATION: usize = 2 * Mapped::MAX_BYTES;
const TAKES_HOST: u32 = 1;
const TAKES_DEVICE: u32 = 2;
/// Bytes of Hello before the name, and of Memory before the way.
const HELLO_BYTES: usize = 32;
const MEMORY_BYTES: usize = 24;

const MAGIC: &[u8; 4] = b"flsh";
const HEAD: usize = 8;
const HELLO: u16 = 1;
const GROW: u16 = 2;
const MEMORY: u16 = 3;
const REFUSED: u16 = 4;
const BYE: u16 = 5;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A worker would like to show frames.
    Hello {
        /// What happens to frames that come too fast. [`LATEST`].
        policy: u8,
        /// How many slots it wants, in [`SLOTS`].
        slots: usize,
        /// How many bytes each should have.
        slot_bytes: usize,
        /// The GPU whose memory it can take, besides host memory.
        device: Option<[u8; 16]>,
        /// The name of its pane: 1 to [`NAME_BYTES`] bytes.
        pane: &'a str,
    },
    /// A worker needs larger slots.
    Grow {
        /// How many bytes each should have.
        slot_bytes: usize,
    },
    /// The descriptors with this message are a control page and this many slots.
    Memory {
        /// In [`SLOTS`].
        slots: usize,
        /// Bytes of each slot.
        slot_bytes: usize,
        /// Bytes of each slot's allocation, if they are in the device's memory.
        allocated: Option<usize>,
        /// How pictures come to the screen, in one line.
        way: &'a str,
    },
    /// What was asked for is not given.
    Refused {
        /// Why, in words.
        reason: &'a str,
    },
    /// The last message: this side ends in order.
    Bye {
        /// Why, in words, if there is something to say.
        why: &'a str,
    },
}

impl<'a> Message<'a> {
    /// The message in these bytes.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let Some((head, body)) = bytes.split_at_checked(HEAD).filter(|_| bytes.len() <= MAX_BYTES) else {
            return Err(format!("a message of {} bytes", bytes.len()));
        };
        if !head.starts_with(MAGIC) {
            return Err("a message that is not framelane's".into());
        }
        let (version, kind) = (u16_at(head, 4), u16_at(head, 6));
        if version != VERSION && kind != REFUSED {
            return Err(format!(
                "version {version} of the protocol, while this side speaks {VERSION}: use one release on both sides"
            ));
        }
        match (kind, body.len()) {
            (HELLO, HELLO_BYTES..) => {
                let (fixed, pane) = body.split_at(HELLO_BYTES);
                let (policy, slots, len) = (fixed[0], usize::from(fixed[1]), usize::from(u16_at(fixed, 2)));
                if pane.len() != len {
                    return Err(format!("a name of {} bytes that says it has {len}", pane.len()));
                }
                let slots = count(slots)?;
                let uuid = fixed[16..].try_into().expect("32 bytes less 16 are 16 bytes");
                let device = match u32_at(fixed, 4) {
                    TAKES_HOST if uuid == [0; 16] => None,
                    TAKES_DEVICE => Some(uuid),
                    takes => return Err(format!("a worker that takes memory of kind {takes} of {uuid:?}")),
                };
                Ok(Self::Hello { policy, slots, slot_bytes: size(fixed, 8)?, device, pane: name(pane)? })
            }
            (GROW, 8) => Ok(Self::Grow { slot_bytes: size(body, 0)? }),
            (MEMORY, MEMORY_BYTES..) => {
                let (fixed, way) = body.split_at(MEMORY_BYTES);
                let slots = usize::try_from(u64_at(fixed, 0)).unwrap_or(usize::MAX);
                let slot_bytes = size(fixed, 8)?;
                let allocated = allocation(u64_at(fixed, 16), slot_bytes)?;
                Ok(Self::Memory { slots: count(slots)?, slot_bytes, allocated, way: text(way)? })
            }
            (REFUSED, _) => Ok(Self::Refused { reason: text(body)? }),
            (BYE, _) => Ok(Self::Bye { why: text(body)? }),
            (kind, len) => Err(format!("a message of kind {kind} with {len} bytes")),
        }
    }

    /// Its bytes. Words that are too long are cut.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let kind = match self {
            Self::Hello { .. } => HELLO,
            Self::Grow { .. } => GROW,
            Self::Memory { .. } => MEMORY,
            Self::Refused { .. } => REFUSED,
            Self::Bye { .. } => BYE,
        };
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        match self {
            Self::Hello { policy, slots, slot_bytes, device, pane } => {
                bytes.extend([policy, slots as u8]);
                bytes.extend((pane.len() as u16).to_le_bytes());
                bytes.extend(device.map_or(TAKES_HOST, |_| TAKES_DEVICE).to_le_bytes());
                bytes.extend((slot_bytes as u64).to_le_bytes());
                bytes.extend(device.unwrap_or_default());
                bytes.extend(pane.as_bytes());
            }
            Self::Grow { slot_bytes } => bytes.extend((slot_bytes as u64).to_le_bytes()),
            Self::Memory { slots, slot_bytes, allocated, way } => {
                let numbers = [slots, slot_bytes, allocated.unwrap_or(0)];
                bytes.extend(numbers.map(|n| (n as u64).to_le_bytes()).concat());
                bytes.extend(cut(way, MAX_BYTES - HEAD - MEMORY_BYTES));
            }
            Self::Refused { reason } => bytes.extend(cut(reason, MAX_BYTES - HEAD)),
            Self::Bye { why } => bytes.extend(cut(why, MAX_BYTES - HEAD)),
        }
        bytes
    }
}

/// As much of a name as a worker's pane can have: its beginning, in one line of text.
pub fn pane_name(name: &str) -> String {
    let line: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let cut = &line[..line.floor_char_boundary(NAME_BYTES)];
    if cut.is_empty() { "pane".into() } else { cut.to_owned() }
}

/// Whether this can be the name of a pane.
pub fn is_pane_name(name: &str) -> bool {
    (1..=NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control)
}

fn name(bytes: &[u8]) -> Result<&str, String> {
    match str::from_utf8(bytes) {
        Ok(name) if is_pane_name(name) => Ok(name),
        _ => Err(format!("a name of a pane that is not 1 to {NAME_BYTES} bytes of text")),
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    let text = str::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control));
    text.ok_or_else(|| "words that are no text".into())
}

fn count(slots: usize) -> Result<usize, String> {
    let (least, most) = SLOTS.into_inner();
    if SLOTS.contains(&slots) { Ok(slots) } else { Err(format!("{slots} slots, not {least} to {most}")) }
}

fn size(bytes: &[u8], at: usize) -> Result<usize, String> {
    let asked = u64_at(bytes, at);
    let size = usize::try_from(asked).ok().filter(|size| (1..=Mapped::MAX_BYTES).contains(size));
    size.ok_or_else(|| format!("slots of {asked} bytes, not 1 to {}", Mapped::MAX_BYTES))
}

/// `None`: there is none.
fn allocation(bytes: u64, slot_bytes: usize) -> Result<Option<usize>, String> {
    match usize::try_from(bytes) {
        Ok(0) => Ok(None),
        Ok(n) if (slot_bytes..=MAX_ALLOCATION).contains(&n) => Ok(Some(n)),
        _ => Err(format!("slots of {slot_bytes} bytes in allocations of {bytes}")),
    }
}

/// As many bytes of a text as there is room for, in whole characters.
fn cut(text: &str, room: usize) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(room)]
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes are 4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes are 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Message<'_> =
        Message::Hello { policy: LATEST, slots: 3, slot_bytes: 1 << 20, device: None, pane: "täglich" };
    const MEMORY: Message<'_> =
        Message::Memory { slots: 8, slot_bytes: 4096, allocated: Some(1 << 16), way: "vulkan-shared" };

    #[test]
    fn what_is_said_is_heard() {
        let all = [
            HELLO,
            Message::Hello {
                policy: LATEST,
                slots: 8,
                slot_bytes: 1,
                device: Some(*b"sixteen bytes of"),
                pane: "p",
            },
            Message::Grow { slot_bytes: Mapped::MAX_BYTES },
            MEMORY,
            Message::Memory { slots: 2, slot_bytes: 1, allocated: None, way: "" },
            Message::Refused { reason: "no" },
            Message::Bye { why: "" },
            Message::Bye { why: "done" },
        ];
        for message in all {
            let bytes = message.to_bytes();
            assert_eq!(Message::parse(&bytes), Ok(message));
            // What ends with a text is of any length, from some on.
            let least = match message {
                Message::Refused { .. } | Message::Bye { .. } => HEAD,
                Message::Memory { .. } => HEAD + MEMORY_BYTES,
                _ => bytes.len(),
            };
            for len in 0..least {
                assert!(Message::parse(&bytes[..len]).is_err(), "{message:?} cut to {len}");
            }
            assert!(Message::parse(&[&bytes[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = "ü".repeat(MAX_BYTES);
        let bytes = Message::Refused { reason: &long }.to_bytes();
        assert_eq!(bytes.len(), MAX_BYTES);
        assert!(
            matches!(Message::parse(&bytes), Ok(Message::Refused { reason }) if long.starts_with(reason))
        );
        let bytes = Message::Memory { slots: 2, slot_bytes: 8, allocated: None, way: &long }.to_bytes();
        assert_eq!(bytes.len(), MAX_BYTES);
        assert!(matches!(Message::parse(&bytes), Ok(Message::Memory { way, .. }) if long.starts_with(way)));
    }

    #[test]
    fn each_field_has_bounds() {
        let spoiled = |message: Message<'_>, at: usize, to: u8| {
            let mut bytes = message.to_bytes();
            bytes[at] = to;
            Message::parse(&bytes).map(|m| m.to_bytes()).unwrap_err()
        };
        let with = |at: usize, to: u8| spoiled(HELLO, at, to);
        assert!(with(0, b'F').contains("not framelane's"));
        assert!(with(4, 1).contains("version 1 of the protocol"));
        assert!(with(6, 9).contains("kind 9"));
        assert!(with(9, 1).contains("1 slots, not 2 to 8") && with(9, 9).contains("9 slots"));
        assert!(with(11, 1).contains("says it has"));
        assert!(with(12, 3).contains("memory of kind 3"));
        assert!(with(24, 1).contains("memory of kind 1 of [1, 0,"));
        assert!(with(23, 1).contains("slots of 7205759"));
        assert!(with(40, 0xFF).contains("of text") && with(40, b'\n').contains("of text"));
        assert!(spoiled(MEMORY, 18, 2).contains("in allocations of 65536"));
        assert!(spoiled(MEMORY, 31, 1).contains("slots of 4096 bytes in"));
        assert!(spoiled(MEMORY, 32, 7).contains("no text"));
        assert!(Message::Grow { slot_bytes: 0 }.to_bytes().len() == 16);
        assert!(Message::parse(&Message::Grow { slot_bytes: 0 }.to_bytes()).is_err());
        for pane in ["", &"x".repeat(65)] {
            let bytes = Message::Hello { policy: 1, slots: 2, slot_bytes: 1, device: None, pane }.to_bytes();
            assert!(Message::parse(&bytes).is_err());
        }
    }

    #[test]
    fn any_name_is_made_one_of_a_pane() {
        for name in ["", "clip.mp4", "two\nlines", &"ü".repeat(50), &"x".repeat(500)] {
            assert!(is_pane_name(&pane_name(name)), "{name:?}");
        }
        assert_eq!((pane_name("clip.mp4"), pane_name("a\tb")), ("clip.mp4".into(), "a b".into()));
    }

    #[test]
    fn a_refusal_is_understood_whatever_the_version() {
        let mut bytes = Message::Refused { reason: "too new" }.to_bytes();
        bytes[4] = 77;
        assert_eq!(Message::parse(&bytes), Ok(Message::Refused { reason: "too new" }));
    }
}
