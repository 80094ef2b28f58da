//! What a worker and a window say to each other.

#![no_main]

use framelane::share::message::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Message::parse(bytes) {
        // A refusal may be of another version; everything else is written as it was read.
        Ok(message @ Message::Refused { .. }) => assert_eq!(Message::parse(&message.to_bytes()), Ok(message)),
        Ok(message) => assert_eq!(message.to_bytes(), bytes),
        Err(sentence) => assert!(!sentence.is_empty() && !sentence.contains('\n')),
    }
});
