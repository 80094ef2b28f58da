//! What a worker and a window say to each other: four messages, each in one packet.
//!
//! ```text
//! all        "flsh", version u16, kind u16                    then, little-endian:
//! 1 Hello    policy u8, slots u8, name's length u16, bytes of a slot u64, the pane's name      worker → window
//! 2 Grow     bytes of a slot u64                                                               worker → window
//! 3 Memory   slots u64, bytes of a slot u64; with descriptors: page, slots                     window → worker
//! 4 Refused  the reason, UTF-8                                                                 window → worker
//! ```
//! The window answers Hello and Grow with Memory or Refused, and says nothing else. Refused stays the same in every
//! version, so that two sides that do not fit can tell each other.
//!
//! A message comes from another program. It is of an exact length, each field has bounds, texts are UTF-8 without
//! control characters; anything else is refused in words, and nothing is taken from it.

use super::page::{NAME_BYTES, SLOTS};
use framelane_cuda::Mapped;
use std::str;

/// What this library speaks.
pub const VERSION: u16 = 1;
/// The longest message.
pub const MAX_BYTES: usize = 512;
/// The only policy so far: the window gets the newest frame.
pub const LATEST: u8 = 1;

const MAGIC: &[u8; 4] = b"flsh";
const HEAD: usize = 8;
const HELLO: u16 = 1;
const GROW: u16 = 2;
const MEMORY: u16 = 3;
const REFUSED: u16 = 4;

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
    },
    /// What was asked for is not given.
    Refused {
        /// Why, in words.
        reason: &'a str,
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
            (HELLO, 12..) => {
                let (fixed, pane) = body.split_at(12);
                let (policy, slots, len) = (fixed[0], usize::from(fixed[1]), usize::from(u16_at(fixed, 2)));
                if pane.len() != len {
                    return Err(format!("a name of {} bytes that says it has {len}", pane.len()));
                }
                let slots = count(slots)?;
                Ok(Self::Hello { policy, slots, slot_bytes: size(fixed, 4)?, pane: name(pane)? })
            }
            (GROW, 8) => Ok(Self::Grow { slot_bytes: size(body, 0)? }),
            (MEMORY, 16) => {
                let slots = usize::try_from(u64_at(body, 0)).unwrap_or(usize::MAX);
                Ok(Self::Memory { slots: count(slots)?, slot_bytes: size(body, 8)? })
            }
            (REFUSED, _) => Ok(Self::Refused { reason: text(body)? }),
            (kind, len) => Err(format!("a message of kind {kind} with {len} bytes")),
        }
    }

    /// Its bytes. A reason that is too long is cut.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let kind = match self {
            Self::Hello { .. } => HELLO,
            Self::Grow { .. } => GROW,
            Self::Memory { .. } => MEMORY,
            Self::Refused { .. } => REFUSED,
        };
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        match self {
            Self::Hello { policy, slots, slot_bytes, pane } => {
                bytes.extend([policy, slots as u8]);
                bytes.extend((pane.len() as u16).to_le_bytes());
                bytes.extend((slot_bytes as u64).to_le_bytes());
                bytes.extend(pane.as_bytes());
            }
            Self::Grow { slot_bytes } => bytes.extend((slot_bytes as u64).to_le_bytes()),
            Self::Memory { slots, slot_bytes } => {
                bytes.extend([slots as u64, slot_bytes as u64].map(u64::to_le_bytes).concat());
            }
            Self::Refused { reason } => {
                bytes.extend(&reason.as_bytes()[..reason.floor_char_boundary(MAX_BYTES - HEAD)]);
            }
        }
        bytes
    }
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
    text.ok_or_else(|| "a reason that is not text".into())
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

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes are 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Message<'_> =
        Message::Hello { policy: LATEST, slots: 3, slot_bytes: 1 << 20, pane: "täglich" };

    #[test]
    fn what_is_said_is_heard() {
        let all = [
            HELLO,
            Message::Grow { slot_bytes: Mapped::MAX_BYTES },
            Message::Memory { slots: 8, slot_bytes: 4096 },
            Message::Refused { reason: "no" },
        ];
        for message in all {
            let bytes = message.to_bytes();
            assert_eq!(Message::parse(&bytes), Ok(message));
            // Refused is text, of any length.
            if !matches!(message, Message::Refused { .. }) {
                for len in 0..bytes.len() {
                    assert!(Message::parse(&bytes[..len]).is_err(), "{message:?} cut to {len}");
                }
                assert!(Message::parse(&[&bytes[..], &[0]].concat()).is_err());
            }
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
    }

    #[test]
    fn each_field_has_bounds() {
        let with = |at: usize, to: u8| {
            let mut bytes = HELLO.to_bytes();
            bytes[at] = to;
            Message::parse(&bytes).map(|m| m.to_bytes()).unwrap_err()
        };
        assert!(with(0, b'F').contains("not framelane's"));
        assert!(with(4, 2).contains("version 2 of the protocol"));
        assert!(with(6, 9).contains("kind 9"));
        assert!(with(9, 1).contains("1 slots, not 2 to 8") && with(9, 9).contains("9 slots"));
        assert!(with(11, 1).contains("says it has"));
        assert!(with(19, 1).contains("slots of 7205759"));
        assert!(with(20, 0xFF).contains("of text") && with(20, b'\n').contains("of text"));
        assert!(Message::Grow { slot_bytes: 0 }.to_bytes().len() == 16);
        assert!(Message::parse(&Message::Grow { slot_bytes: 0 }.to_bytes()).is_err());
        for pane in ["", &"x".repeat(65)] {
            let bytes = Message::Hello { policy: 1, slots: 2, slot_bytes: 1, pane }.to_bytes();
            assert!(Message::parse(&bytes).is_err());
        }
    }

    #[test]
    fn a_refusal_is_understood_whatever_the_version() {
        let mut bytes = Message::Refused { reason: "too new" }.to_bytes();
        bytes[4] = 77;
        assert_eq!(Message::parse(&bytes), Ok(Message::Refused { reason: "too new" }));
    }
}
