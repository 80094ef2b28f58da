//! The parsers, as the fuzz targets call them: any bytes may come, and none may panic, hang or take memory
//! that the bytes do not justify.

use crate::gif::GifReader;
use crate::images::Picture;
use crate::y4m::Y4mReader;
use std::io::Cursor;

/// A y4m stream.
pub fn y4m(bytes: &[u8]) {
    let Ok(mut reader) = Y4mReader::new(bytes) else { return };
    let mut planes = Vec::new();
    while let Ok(true) = reader.next_frame(&mut planes) {
        assert_eq!(planes.len(), reader.header.chroma.bytes(reader.header.size));
    }
}

/// The header of a PNG or JPEG picture, and the picture if it is small.
pub fn image_header(bytes: &[u8]) {
    let Ok(picture) = Picture::open(Cursor::new(bytes)) else { return };
    if picture.size.bytes() <= 1 << 18 {
        let mut rgb = vec![0; picture.size.bytes()];
        let _ = picture.decode_into(&mut rgb);
    }
}

/// An animated GIF.
pub fn gif(bytes: &[u8]) {
    let Ok(mut reader) = GifReader::new(bytes) else { return };
    if reader.size.bytes() <= 1 << 20 {
        while let Ok(Some(_)) = reader.next_frame() {
            assert_eq!(reader.canvas.len(), reader.size.bytes());
        }
    }
}

/// The tables of an MP4 file, and the pictures they lead to up to the decoder's door: openh264 is fuzzed by
/// its own makers.
pub fn mp4(bytes: &[u8]) {
    crate::mp4::inspect(Cursor::new(bytes));
}
