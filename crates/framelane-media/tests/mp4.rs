//! H.264 in MP4 by other encoders and muxers, and damage of every kind.

mod common;

use common::*;
use framelane::frame::{ColorMatrix, ColorRange, ImageSize};
use framelane_media::VideoSource;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Encode `frames` test pictures with libx264; `None` (said aloud) without ffmpeg.
fn x264(
    folder: &tempfile::TempDir,
    name: &str,
    geometry: &str,
    frames: u64,
    options: &[&str],
) -> Option<PathBuf> {
    if !ffmpeg() {
        return None;
    }
    let y4m = path(folder, "in.y4m");
    record(&y4m, geometry, frames);
    let file = path(folder, name);
    let (input, output) = (y4m.to_string_lossy(), file.to_string_lossy());
    let mut arguments = vec!["-i", &*input, "-c:v", "libx264", "-pix_fmt", "yuv420p"];
    arguments.extend(options);
    arguments.push(&output);
    run_ffmpeg(&arguments);
    Some(file)
}

fn numbers(file: &Path) -> Vec<u32> {
    play_all(file).iter().map(|f| f.number().expect("a test picture")).collect()
}

#[test]
fn b_frames_in_every_shape() {
    let folder = folder();
    for (name, options) in [
        ("pyramid.mp4", &["-bf", "3", "-x264-params", "b-pyramid=normal:keyint=30:scenecut=0"][..]),
        ("many.mp4", &["-bf", "8", "-refs", "8", "-x264-params", "b-adapt=0:keyint=50:open-gop=1"]),
        ("sliced.mov", &["-bf", "2", "-x264-params", "slices=4:weightp=2:8x8dct=1"]),
        ("main.m4v", &["-profile:v", "main", "-bf", "2", "-movflags", "+faststart"]),
        ("plain.mp4", &["-profile:v", "baseline"]),
        (
            "fragments.mp4",
            &["-bf", "3", "-g", "12", "-movflags", "frag_keyframe+empty_moov+default_base_moof"],
        ),
        ("old-fragments.mp4", &["-bf", "3", "-g", "12", "-movflags", "frag_keyframe"]),
        ("negative.mp4", &["-bf", "3", "-movflags", "negative_cts_offsets"]),
    ] {
        let Some(file) = x264(&folder, name, "160x96@25", 120, options) else { return };
        assert_eq!(numbers(&file), (0..120).collect::<Vec<_>>(), "{name}");
        let frames = play_all(&file);
        let first = frames[0].meta.pts.unwrap();
        assert!(first.as_millis() < 200, "{name}: {first:?}");
        for pair in frames.windows(2) {
            let step = pair[1].meta.pts.unwrap() - pair[0].meta.pts.unwrap();
            assert!(
                step.abs_diff(std::time::Duration::from_millis(40)).as_micros() < 100,
                "{name}: {step:?}"
            );
        }
    }
}

#[test]
fn colour_tags_are_used() {
    let folder = folder();
    for (options, matrix, range) in [
        (&["-colorspace", "bt709"][..], ColorMatrix::Bt709, ColorRange::Limited),
        (&["-colorspace", "smpte170m", "-color_range", "pc"], ColorMatrix::Bt601, ColorRange::Full),
        (&[], ColorMatrix::Bt601, ColorRange::Limited),
    ] {
        let Some(file) = x264(&folder, "c.mp4", "64x48", 2, options) else { return };
        let source = open_input(&file).unwrap();
        assert_eq!((source.info().color.matrix, source.info().color.range), (matrix, range), "{options:?}");
    }
}

#[test]
fn edit_lists_audio_and_turns() {
    let folder = folder();
    let Some(file) = x264(&folder, "a.mp4", "64x48@25", 50, &["-bf", "2", "-g", "25"]) else { return };
    let (file, cut) = (file.to_string_lossy(), path(&folder, "cut.mp4"));
    // Cut in mid-group without encoding anew: an edit list hides what is only needed for decoding.
    run_ffmpeg(&["-ss", "1.2", "-i", &file, "-c", "copy", &cut.to_string_lossy()]);
    assert_eq!(numbers(&cut), (30..50).collect::<Vec<_>>());
    let sound = path(&folder, "sound.mov");
    run_ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        "sine=d=2",
        "-i",
        &file,
        "-c:v",
        "copy",
        "-c:a",
        "aac",
        &sound.to_string_lossy(),
    ]);
    assert_eq!(numbers(&sound), (0..50).collect::<Vec<_>>());
    let format = open_input(&sound).unwrap().info().format.clone();
    assert!(format.ends_with("; its sound is left out"), "{format}");
    for (degrees, turned) in [("90", "left"), ("-90", "right"), ("180", "upside down")] {
        let file2 = path(&folder, "turned.mp4");
        run_ffmpeg(&[
            "-i",
            &file,
            "-c",
            "copy",
            "-metadata:s:v",
            &format!("rotate={degrees}"),
            &file2.to_string_lossy(),
        ]);
        let mut source = open_input(&file2).unwrap();
        let info = source.info().clone();
        if !info.format.contains("turned") {
            // This ffmpeg no longer writes the matrix from that tag.
            return;
        }
        let frame = next(&mut *source).unwrap().unwrap();
        let upright = degrees == "180";
        assert_eq!(
            info.size,
            if upright { ImageSize { width: 64, height: 48 } } else { ImageSize { width: 48, height: 64 } }
        );
        let reference = path(&folder, "turned.y4m");
        run_ffmpeg(&["-i", &file2.to_string_lossy(), &reference.to_string_lossy()]);
        let quality = psnr(&frame.rgb, &play_all(&reference)[0].rgb);
        assert!(quality > 25.0, "{turned}: {quality} dB; {}", info.format);
    }
}

#[test]
fn what_openh264_cannot_decode_goes_to_ffmpeg() {
    let folder = folder();
    let Some(file) = x264(&folder, "ten.mp4", "64x48", 5, &["-pix_fmt", "yuv420p10le"]) else { return };
    let source = open_input(&file).unwrap();
    assert!(source.info().format.contains("via the ffmpeg program"), "{}", source.info().format);
    drop(source);
    assert_eq!(numbers(&file), (0..5).collect::<Vec<_>>());
    let Some(file) = x264(&folder, "interlaced.mp4", "64x64", 5, &["-flags", "+ildct+ilme"]) else { return };
    assert_eq!(numbers(&file).len(), 5);
}

#[test]
fn a_size_that_changes_is_named() {
    let folder = folder();
    let Some(a) = x264(&folder, "a.mp4", "64x48", 5, &["-bf", "0"]) else { return };
    let Some(b) = x264(&folder, "b.mp4", "96x48", 5, &["-bf", "0"]) else { return };
    let list = path(&folder, "list.txt");
    fs::write(&list, format!("file '{}'\nfile '{}'\n", a.display(), b.display())).unwrap();
    let file = path(&folder, "both.mp4");
    // Parameter sets in the stream, as in recordings of a camera that was reconfigured.
    run_ffmpeg(&[
        "-f",
        "concat",
        "-safe",
        "0",
        "-i",
        &list.to_string_lossy(),
        "-c",
        "copy",
        "-bsf:v",
        "h264_mp4toannexb",
        "-f",
        "h264",
        &path(&folder, "both.h264").to_string_lossy(),
    ]);
    run_ffmpeg(&["-i", &path(&folder, "both.h264").to_string_lossy(), "-c", "copy", &file.to_string_lossy()]);
    let (frames, error) = play(&mut *open_input(&file).unwrap());
    assert_eq!(frames.len(), 5);
    let text = sentence(&error.unwrap());
    assert!(["both.mp4", "frame 5", "64×48", "96×48"].iter().all(|part| text.contains(part)), "{text}");
}

/// One small fragmented and one finished file of ours, in memory.
fn films() -> &'static [Vec<u8>; 2] {
    static FILMS: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    FILMS.get_or_init(|| {
        let folder = folder();
        let (file, left) = (path(&folder, "a.mp4"), path(&folder, "left.mp4"));
        record(&file, "32x32@10", 30);
        // The state before the final index: its header is free again, the index is cut off.
        let whole = fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        let reserved = u32::from_be_bytes(*bytes.first_chunk().unwrap()) as usize;
        let end = reserved + u64::from_be_bytes(*bytes[reserved + 8..].first_chunk().unwrap()) as usize;
        bytes.truncate(end);
        bytes[reserved..reserved + 16].copy_from_slice(b"\0\0\0\x10free\0\0\0\0\0\0\0\0");
        fs::write(&left, &bytes).unwrap();
        assert_eq!(play_all(&left).len(), 30);
        [whole, bytes]
    })
}

/// Frames before the damage in order, then one sentence that names the file, or a clean end.
fn survive(bytes: &[u8]) -> (usize, Option<String>) {
    let folder = folder();
    let file = path(&folder, "damaged.mp4");
    fs::write(&file, bytes).unwrap();
    match open_input(&file) {
        Err(e) => (0, Some(sentence(&e))),
        Ok(mut source) => {
            let (frames, error) = play(&mut *source as &mut dyn VideoSource);
            (frames.len(), error.map(|e| sentence(&e)))
        }
    }
}

#[test]
fn a_cut_file_plays_up_to_the_cut() {
    let [whole, fragmented] = films();
    let (frames, error) = survive(&whole[..whole.len() - 9]);
    assert_eq!(frames, 0);
    assert!(error.unwrap().contains("cut off"));
    let (frames, error) = survive(&fragmented[..fragmented.len() - 9]);
    assert_eq!(frames, 29, "all but the last picture");
    let text = error.unwrap();
    assert!(text.contains("damaged.mp4") && text.contains("frame 29") && text.contains("cut off"), "{text}");
}

#[test]
fn a_damaged_picture_is_named_after_those_before_it() {
    let [whole, _] = films();
    let mut bytes = whole.clone();
    // The length of the second NAL unit in the last of three groups of ten pictures.
    let group = bytes.windows(4).rposition(|w| w == b"mdat").unwrap() + 4;
    let first = u32::from_be_bytes(*bytes[group..].first_chunk().unwrap()) as usize;
    bytes[group + 4 + first] = 0x7f;
    let (frames, error) = survive(&bytes);
    let text = error.unwrap();
    assert!(frames == 21 && text.contains("damaged.mp4: frame 21 (byte "), "{frames}: {text}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 60 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn cut_anywhere(cut in 0.0..1.0, which in 0..2_usize) {
        let film = &films()[which];
        let (frames, error) = survive(&film[..(film.len() as f64 * cut) as usize]);
        prop_assert!(frames <= 30);
        prop_assert!(error.is_some() || frames > 0);
    }

    #[test]
    fn a_byte_changed_anywhere(at in 0.0..1.0, to: u8, which in 0..2_usize) {
        let mut film = films()[which].clone();
        let at = (film.len() as f64 * at) as usize;
        film[at] = to;
        let (frames, _) = survive(&film);
        prop_assert!(frames <= 60);
    }
}
