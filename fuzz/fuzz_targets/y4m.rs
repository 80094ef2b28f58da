//! YUV4MPEG2 streams.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| framelane_media::fuzzing::y4m(bytes));
