//! The videos of `assets/test`, whose content can be worked out (`assets/README.md`).

mod common;

use common::*;
use framelane::frame::{ColorMatrix, ColorRange, FrameRate, ImageSize};
use std::path::PathBuf;
use std::time::Instant;

fn asset(name: &str) -> PathBuf {
    package().join("../../assets/test").join(name)
}

/// Luma 16 + 8 i (limited range, no colour) on the left of frame i.
fn counted(frame: &Frame) -> f64 {
    frame.mean(1, 5..45, 10..90) * 219.0 / 255.0 / 8.0
}

#[test]
fn b_frames_in_order() {
    let frames = play_all(asset("bframes.mp4"));
    assert_eq!(frames.len(), 24);
    for (i, frame) in frames.iter().enumerate() {
        assert!((counted(frame) - i as f64).abs() < 0.2, "frame {i} is {}", counted(frame));
        assert_eq!(frame.meta.pts.unwrap().as_micros(), i as u128 * 1_000_000 / 24);
    }
}

#[test]
fn no_frame_is_older_than_the_first_question() {
    let mut source = open_input(asset("bframes.mp4")).unwrap();
    for _ in 0..2 {
        let asked = Instant::now();
        let (frames, error) = play(&mut *source);
        assert!(error.is_none() && frames.len() == 24);
        assert!(frames.iter().all(|frame| frame.meta.captured >= asked));
        assert!(source.rewind().unwrap());
    }
}

#[test]
fn the_same_colours_from_each_coding() {
    let colours = [
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [255, 255, 255],
        [0, 0, 0],
        [128, 128, 128],
        [255, 128, 0],
        [200, 120, 80],
    ];
    for (name, matrix, range) in [
        ("main601.mp4", ColorMatrix::Bt601, ColorRange::Limited),
        ("main709.mp4", ColorMatrix::Bt709, ColorRange::Limited),
        ("full709.mp4", ColorMatrix::Bt709, ColorRange::Full),
        ("untagged.mp4", ColorMatrix::Bt601, ColorRange::Limited),
    ] {
        let source = open_input(asset(name)).unwrap();
        assert_eq!((source.info().color.matrix, source.info().color.range), (matrix, range), "{name}");
        let frames = play_all(asset(name));
        assert_eq!(frames.len(), 4);
        for (patch, colour) in colours.iter().enumerate() {
            let (x, y) = (patch % 4 * 25, patch / 4 * 50);
            for (channel, &want) in colour.iter().enumerate() {
                let got = frames[0].mean(channel, x + 8..x + 17, y + 15..y + 35);
                assert!(
                    (got - f64::from(want)).abs() < 3.0,
                    "{name}, patch {patch}: {got} instead of {want}"
                );
            }
        }
    }
}

#[test]
fn a_size_that_changes() {
    let (frames, error) = play(&mut *open_input(asset("resize.mp4")).unwrap());
    assert_eq!(frames.len(), 8);
    let text = sentence(&error.unwrap());
    assert!(["resize.mp4", "frame 8", "64×48", "96×64"].iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn uneven_times() {
    let times: Vec<_> = play_all(asset("vfr.mp4")).iter().map(|f| f.meta.pts.unwrap().as_millis()).collect();
    assert_eq!(times, [0, 40, 80, 200, 240, 500]);
}

#[test]
fn turned_upright() {
    let source = open_input(asset("rotate.mp4")).unwrap();
    assert_eq!(source.info().size, ImageSize { width: 48, height: 64 });
    assert!(source.info().format.contains("turned right"), "{}", source.info().format);
    let frame = &play_all(asset("rotate.mp4"))[0];
    let quarter = |x: usize, y: usize| {
        [0, 1, 2].map(|c| (frame.mean(c, x + 15..x + 35, y + 15..y + 35) / 255.0).round() as u8)
    };
    // Red, green above blue, white, turned a quarter clockwise.
    assert_eq!([quarter(0, 0), quarter(50, 0)], [[0, 0, 1], [1, 0, 0]]);
    assert_eq!([quarter(0, 50), quarter(50, 50)], [[1, 1, 1], [0, 1, 0]]);
}

#[test]
fn sound_is_passed_over() {
    let source = open_input(asset("audio.mp4")).unwrap();
    assert!(source.info().format.ends_with("; its sound is left out"), "{}", source.info().format);
    let without = open_input(asset("bframes.mp4")).unwrap();
    assert!(!without.info().format.contains("sound"), "{}", without.info().format);
    let frames = play_all(asset("audio.mp4"));
    assert_eq!(frames.len(), 12);
    assert!(frames.iter().enumerate().all(|(i, frame)| (counted(frame) - i as f64).abs() < 0.5));
}

#[test]
fn another_codec_needs_ffmpeg() {
    let there = has_ffmpeg();
    match open_input(asset("hevc.mp4")) {
        Ok(mut source) => {
            assert!(there && source.info().format.starts_with("hevc"), "{}", source.info().format);
            let (frames, error) = play(&mut *source);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(frames.len(), 8);
            assert!(frames.iter().enumerate().all(|(i, frame)| (counted(frame) - i as f64).abs() < 0.5));
        }
        Err(e) => {
            assert!(!there);
            assert!(sentence(&e).contains("hvc1") && e.to_string().contains("install"), "{e}");
        }
    }
}

#[test]
fn a_gif_that_moves() {
    let source = open_input(asset("anim.gif")).unwrap();
    assert_eq!((source.info().frames, source.info().rate), (Some(4), Some(FrameRate { num: 10, den: 1 })));
    let frames = play_all(asset("anim.gif"));
    for (i, frame) in frames.iter().enumerate() {
        assert_eq!(frame.meta.pts.unwrap().as_millis(), 100 * i as u128);
        for y in 0..24 {
            for x in 0..32 {
                let inside = (8 * i..8 * i + 8).contains(&x) && (8..16).contains(&y);
                let pixel = &frame.rgb[(y * 32 + x) * 3..][..3];
                assert_eq!(pixel[0] > 128, inside, "frame {i} at {x}, {y}: {pixel:?}");
                assert_eq!(pixel[2] > 128, !inside);
            }
        }
    }
}

#[test]
fn the_built_in_clip() {
    let path = package().join("../../assets/clip.mp4");
    let source = open_input(&path).unwrap();
    assert_eq!(source.info().format, "H.264 384×216, BT.709 limited, via openh264");
    assert_eq!((source.info().frames, source.info().rate), (Some(120), Some(FrameRate { num: 24, den: 1 })));
    assert_eq!(play_all(&path).len(), 120);
}
