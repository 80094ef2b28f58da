//! PNG and JPEG headers, and small pictures whole.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| framelane_media::fuzzing::image_header(bytes));
