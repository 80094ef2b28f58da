//! Each kind of input, and each way in which it can be bad.

mod common;

use common::*;
use framelane::frame::ImageSize;
use framelane::{ErrorKind, Result};
use framelane_media::{OpenOptions, VideoSource, open};
use image::{ImageBuffer, Rgb, Rgba};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn picture(path: &Path, width: u32, height: u32, colour: [u8; 3]) {
    ImageBuffer::from_pixel(width, height, Rgb(colour)).save(path).unwrap();
}

#[test]
fn a_folder_in_natural_order() {
    let folder = folder();
    for n in [10, 2, 1] {
        picture(&path(&folder, &format!("img{n}.png")), 8, 6, [n * 20, 0, 0]);
    }
    fs::write(path(&folder, "notes.txt"), "not a picture").unwrap();
    fs::write(path(&folder, ".hidden.png"), "not a picture").unwrap();
    let frames = play_all(folder.path());
    assert_eq!(frames.iter().map(|f| f.rgb[0]).collect::<Vec<_>>(), [20, 40, 200]);
    assert_eq!(frames[0].meta.pts, None);
}

#[test]
fn a_folder_of_two_sizes_names_both() {
    let folder = folder();
    picture(&path(&folder, "a.png"), 8, 6, [1, 2, 3]);
    picture(&path(&folder, "b.png"), 9, 6, [1, 2, 3]);
    let mut source = open_input(folder.path()).unwrap();
    let (frames, error) = play(&mut *source);
    assert_eq!(frames.len(), 1);
    let text = sentence(&error.unwrap());
    assert!(["a.png", "b.png", "8×6", "9×6"].iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn damaged_pictures_are_named() {
    let folder = folder();
    picture(&path(&folder, "a.png"), 8, 6, [1, 2, 3]);
    let whole = fs::read(path(&folder, "a.png")).unwrap();
    fs::write(path(&folder, "b.png"), &whole[..whole.len() - 20]).unwrap();
    let text = fails(folder.path());
    assert!(text.contains("b.png"), "{text}");
    let empty = path(&folder, "empty");
    fs::create_dir(&empty).unwrap();
    assert!(fails(&empty).contains("no PNG or JPEG"));
    fs::write(path(&folder, "zero.png"), "").unwrap();
    assert!(fails(path(&folder, "zero.png")).contains("empty"));
    fs::write(path(&folder, "junk.png"), "this is text").unwrap();
    assert!(fails(path(&folder, "junk.png")).contains("junk.png"));
}

#[test]
fn a_picture_of_a_billion_pixels_is_refused() {
    let folder = folder();
    let file = path(&folder, "bomb.png");
    picture(&file, 1, 1, [0; 3]);
    let mut bytes = fs::read(&file).unwrap();
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    // The header's check sum, so that only the size is wrong.
    let sum = crc(&bytes[12..29]).to_be_bytes();
    bytes[29..33].copy_from_slice(&sum);
    fs::write(&file, bytes).unwrap();
    let text = fails(&file);
    assert!(text.contains("65536×65536"), "{text}");
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

#[test]
fn one_picture_is_one_frame() {
    let folder = folder();
    let file = path(&folder, "one.jpg");
    picture(&file, 16, 16, [200, 100, 50]);
    let frames = play_all(&file);
    assert_eq!(frames.len(), 1);
    assert!(frames[0].rgb[0].abs_diff(200) < 6);
    let file = path(&folder, "clear.png");
    ImageBuffer::from_pixel(2, 2, Rgba([200_u8, 100, 50, 0])).save(&file).unwrap();
    assert_eq!(play_all(&file)[0].rgb, [0; 12]);
    let file = path(&folder, "grey16.png");
    ImageBuffer::from_pixel(2, 1, image::Luma([0x8080_u16])).save(&file).unwrap();
    assert_eq!(play_all(&file)[0].rgb, [0x80; 6]);
}

fn animation(path: &Path) {
    let mut encoder =
        gif::Encoder::new(fs::File::create(path).unwrap(), 4, 4, &[255, 0, 0, 0, 255, 0]).unwrap();
    for (colour, delay) in [(0, 10), (1, 30), (0, 20)] {
        let frame =
            gif::Frame { width: 4, height: 4, delay, buffer: vec![colour; 16].into(), ..Default::default() };
        encoder.write_frame(&frame).unwrap();
    }
}

#[test]
fn gif_delays_become_times() {
    let folder = folder();
    let file = path(&folder, "a.gif");
    animation(&file);
    let mut source = open_input(&file).unwrap();
    assert_eq!(source.info().frames, Some(3));
    assert_eq!(source.info().rate.unwrap().fps(), 5.0);
    for _ in 0..2 {
        let (frames, _) = play(&mut *source);
        let times: Vec<_> = frames.iter().map(|f| f.meta.pts.unwrap().as_millis()).collect();
        assert_eq!(times, [0, 100, 400]);
        assert_eq!(frames[1].rgb[..3], [0, 255, 0]);
        assert!(source.rewind().unwrap());
    }
}

#[test]
fn a_cut_gif_plays_up_to_the_cut() {
    let folder = folder();
    let file = path(&folder, "a.gif");
    animation(&file);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 6]).unwrap();
    let mut source = open_input(&file).unwrap();
    assert_eq!(source.info().frames, None);
    let (frames, error) = play(&mut *source);
    assert_eq!(frames.len(), 2);
    assert!(sentence(&error.unwrap()).contains("a.gif"));
}

#[test]
fn bad_y4m() {
    let folder = folder();
    let file = path(&folder, "a.y4m");
    for (bytes, says) in [
        (&b"YUV4MPEG2 W2 H2\nFRAME\n123456FRAME\n12345"[..], "frame 1 is cut off"),
        (b"YUV4MPEG2 W2 H2\nFRAME\n123456FLAME\n", "frame 1 does not begin with FRAME"),
        (b"YUV4MPEG2 W2 H2", "cut off"),
        (b"YUV4MPEG2 W0 H2\n", "0×2"),
        (b"YUV4MPEG2 W2000000 H2000000\n", "2000000×2000000"),
        (b"YUV4MPEG2 W2 H2 C420p10\n", "8-bit"),
        (b"something else entirely", "a.y4m"),
    ] {
        fs::write(&file, bytes).unwrap();
        let text = fails(&file);
        assert!(text.contains(says) && text.contains("a.y4m"), "{text}");
    }
}

#[test]
fn y4m_in_every_chroma_and_range() {
    let folder = folder();
    let file = path(&folder, "c.y4m");
    for (chroma, planes) in [("420jpeg", 1), ("422", 2), ("444", 4)] {
        // BT.601 limited red.
        let mut bytes = format!("YUV4MPEG2 W2 H2 F25:1 C{chroma}\nFRAME\n").into_bytes();
        bytes.extend([81; 4]);
        bytes.extend(vec![90; planes]);
        bytes.extend(vec![240; planes]);
        fs::write(&file, bytes).unwrap();
        let frame = &play_all(&file)[0];
        for pixel in frame.rgb.chunks(3) {
            assert!(pixel[0] >= 253 && pixel[1] <= 2 && pixel[2] <= 2, "{chroma}: {pixel:?}");
        }
    }
    fs::write(&file, b"YUV4MPEG2 W2 H1 Cmono XCOLORRANGE=FULL\nFRAME\n\x10\xf0").unwrap();
    assert_eq!(play_all(&file)[0].rgb, [16, 16, 16, 240, 240, 240]);
}

#[test]
fn bad_arguments() {
    for (input, kind) in [
        ("no/such/file.mp4", ErrorKind::Io),
        ("", ErrorKind::Io),
        ("testsrc:0x0", ErrorKind::Input),
        ("testsrc:big", ErrorKind::Argument),
    ] {
        let error = open(input, &OpenOptions::default()).err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        sentence(&error);
    }
}

#[test]
fn testsrc_keeps_its_pace_and_can_be_interrupted() {
    let options = OpenOptions { realtime: true, frames: Some(6) };
    let mut source = open("testsrc:16x20@50", &options).unwrap();
    assert!(source.info().live);
    let start = Instant::now();
    assert_eq!(play(&mut *source).0.len(), 6);
    assert!(start.elapsed() >= Duration::from_millis(100));

    let options = OpenOptions { realtime: true, frames: None };
    let mut source = open("testsrc:16x20@0.01", &options).unwrap();
    assert!(next(&mut *source).unwrap().is_some());
    let stop = source.interrupter().unwrap();
    let waiting = std::thread::spawn(move || play(&mut *source).1.unwrap().kind());
    stop();
    assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled);
}

#[cfg(unix)]
#[test]
fn a_named_pipe_that_ends_in_mid_frame() {
    use std::io::Write;
    let folder = folder();
    let pipe = path(&folder, "pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = pipe.clone();
    let writing = std::thread::spawn(move || {
        let mut file = fs::OpenOptions::new().write(true).open(writer).unwrap();
        file.write_all(b"YUV4MPEG2 W2 H2\nFRAME\n123456FRAME\n123").unwrap();
    });
    let mut source = open_input(&pipe).unwrap();
    let (frames, error) = play(&mut *source);
    writing.join().unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!(sentence(&error.unwrap()), "pipe: frame 1 is cut off: 3 of its 6 bytes came");
    assert!(!source.rewind().unwrap());
}

// Through the ffmpeg program.

#[test]
fn other_formats_through_ffmpeg() {
    if !ffmpeg() {
        return;
    }
    let folder = folder();
    let y4m = path(&folder, "in.y4m");
    record(&y4m, "160x96@25", 12);
    for (name, codec) in [("a.mkv", "mpeg4"), ("b.mp4", "mpeg4"), ("c: 1.avi", "mjpeg")] {
        let file = path(&folder, name);
        run_ffmpeg(&["-i", &y4m.to_string_lossy(), "-c:v", codec, "-q:v", "2", &file.to_string_lossy()]);
        let mut source = open_input(&file).unwrap();
        assert_eq!(source.info().size, ImageSize { width: 160, height: 96 });
        assert!(source.info().format.starts_with(codec), "{}", source.info().format);
        for _ in 0..2 {
            let (frames, error) = play(&mut *source);
            assert!(error.is_none(), "{error:?}");
            let numbers: Vec<_> = frames.iter().map(|f| f.number().unwrap()).collect();
            assert_eq!(numbers, (0..12).collect::<Vec<_>>(), "{name}");
            assert!(source.rewind().unwrap());
        }
        // Dropped in the middle: the child must go, and go soon.
        assert!(next(&mut *source).unwrap().is_some());
        let start = Instant::now();
        drop(source);
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

#[test]
fn colours_through_ffmpeg() {
    if !ffmpeg() {
        return;
    }
    let folder = folder();
    // Full range; RGB, in a size that would be BT.709 if it were not RGB; tagged.
    for (name, size, format, options) in [
        ("full.avi", "64x64", "yuvj420p", &["-c:v", "mjpeg", "-q:v", "2"][..]),
        ("rgb.mkv", "1280x720", "gbrp", &["-c:v", "ffv1"]),
        (
            "tagged.mkv",
            "64x64",
            "gbrp,scale=out_color_matrix=bt709,format=yuv444p",
            &["-c:v", "ffv1", "-colorspace", "bt709"],
        ),
    ] {
        let file = path(&folder, name);
        let input = format!("color=0xff0000:s={size}:r=5:d=0.2,format={format}");
        let output = file.to_string_lossy();
        let mut arguments = vec!["-f", "lavfi", "-i", &input];
        arguments.extend(options);
        arguments.push(&output);
        run_ffmpeg(&arguments);
        let frame = &play_all(&file)[0];
        let red = [0, 1, 2].map(|channel| frame.mean(channel, 0..100, 0..100).round());
        assert!(red[0] >= 252.0 && red[1] <= 3.0 && red[2] <= 3.0, "{name}: {red:?}");
    }
}

#[test]
fn what_not_even_ffmpeg_reads() {
    if !ffmpeg() {
        return;
    }
    let folder = folder();
    let file = path(&folder, "junk.avi");
    fs::write(&file, "RIFF, but not really").unwrap();
    let text = fails(&file);
    assert!(text.starts_with("junk.avi cannot be read by ffmpeg: "), "{text}");
    let text = fails("http://127.0.0.1:9/none.mp4");
    assert!(text.contains("http://127.0.0.1:9/none.mp4"), "{text}");
}

#[cfg(unix)]
#[test]
fn ffmpeg_that_waits_for_ever_is_interrupted() {
    if !ffmpeg() {
        return;
    }
    // A server that accepts, sends the start of a film and then nothing.
    let folder = folder();
    let file = path(&folder, "a.ts");
    let y4m = path(&folder, "in.y4m");
    record(&y4m, "64x48@25", 200);
    run_ffmpeg(&["-i", &y4m.to_string_lossy(), "-c:v", "mpeg2video", &file.to_string_lossy()]);
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", server.local_addr().unwrap());
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let serving = std::thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        std::io::Write::write_all(&mut client, &fs::read(file).unwrap()).unwrap();
        wait.recv().ok();
    });
    let mut source = open(&address, &OpenOptions::default()).unwrap();
    assert!(source.info().live);
    let stop = source.interrupter().unwrap();
    let (first, started) = std::sync::mpsc::channel();
    let playing = std::thread::spawn(move || -> Result<u64> {
        let mut frames = 0;
        while next(&mut *source as &mut dyn VideoSource)?.is_some() {
            frames += 1;
            first.send(()).ok();
        }
        Ok(frames)
    });
    started.recv().unwrap();
    let start = Instant::now();
    stop();
    assert_eq!(playing.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(start.elapsed() < Duration::from_secs(1));
    drop(done);
    serving.join().unwrap();
}
