//! MP4 tables and H.264 parameter sets, up to the decoder's door.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| framelane_media::fuzzing::mp4(bytes));
