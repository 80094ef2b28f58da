//! A control page that another process wrote: the first two bytes say how it is looked at, the rest is the page.

#![no_main]

use framelane::share::fates;
use framelane::share::page::{Look, PAGE_BYTES, SLOTS, abandon, acquire, done_at, release, take};
use std::sync::atomic::AtomicU64;

const SLOT_BYTES: usize = 1 << 16;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((how, rest)) = bytes.split_first_chunk::<2>() else { return };
    let mut page = [0; PAGE_BYTES];
    let len = rest.len().min(PAGE_BYTES);
    page[..len].copy_from_slice(&rest[..len]);
    let words = page.as_chunks().0.iter().map(|&word| AtomicU64::new(u64::from_le_bytes(word)));
    let words: Vec<AtomicU64> = words.collect();
    let slots = SLOTS.start() + usize::from(how[0]) % (SLOTS.end() - SLOTS.start() + 1);
    let held = u32::from(how[1]);
    let mut last = 0;
    // Each look at a page that nobody writes takes one of its frames.
    for look in 0.. {
        assert!(look <= slots);
        match take(&words[..], slots, SLOT_BYTES, last, held) {
            Look::Nothing => break,
            Look::Spoiled { number } => {
                assert!(number > last);
                last = number;
            }
            Look::Frame { slot, number, about } => {
                assert!(slot < slots && held & 1 << slot == 0 && number > last);
                assert!(about.size.width * 4 <= about.pitch && about.pitch * about.size.height <= SLOT_BYTES);
                assert!(about.source.get().is_some());
                assert!(release(&words[..], slot, number));
                last = number;
            }
        }
    }
    // A worker, too, does not believe the page: each slot it begins is one, and is its own until it gives it back.
    for _ in 0..=slots {
        let Some(acquired) = acquire(&words[..], slots, last + 1) else { break };
        assert!(acquired.slot < slots && done_at(acquired.slot) + 8 <= PAGE_BYTES);
        abandon(&words[..], acquired.slot, last + 1);
        // What was given back is free, and another may be before it.
        let again = acquire(&words[..], slots, last + 2);
        assert!(again.is_some_and(|again| again.replaces.is_none() && again.slot <= acquired.slot));
        last += 2;
    }
    // What a window says of frames ends, wherever its count begins.
    for from in [0, u64::MAX - 1, u64::from(how[0])] {
        let mut read = from;
        let mut said = 0;
        while fates::read(&words[..], &mut read).is_some() {
            said += 1;
            assert!(said <= fates::ENTRIES);
        }
    }
});
