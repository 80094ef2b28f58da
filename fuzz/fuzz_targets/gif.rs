//! Animated GIF, composed frame by frame.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| framelane_media::fuzzing::gif(bytes));
