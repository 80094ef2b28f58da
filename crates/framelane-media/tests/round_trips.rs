//! What the sinks write, the sources read back.

mod common;

use common::*;
use framelane::frame::{FrameMeta, FrameRate, ImageSize};
use framelane_media::{OpenOptions, SinkSpec, create, open};
use std::time::Duration;

#[test]
fn mp4_comes_back_whole() {
    let folder = folder();
    let file = path(&folder, "a.mp4");
    record(&file, "320x180@30", 75);
    let mut source = open_input(&file).unwrap();
    let info = source.info().clone();
    assert_eq!(
        (info.size, info.rate, info.frames),
        (ImageSize { width: 320, height: 180 }, Some(FPS30), Some(75))
    );
    assert_eq!(info.format, "H.264 320×180, BT.601 limited, via openh264");
    assert_eq!(&*info.name, "a.mp4");
    let original = play(
        &mut *open("testsrc:320x180@30", &OpenOptions { frames: Some(75), ..Default::default() }).unwrap(),
    )
    .0;
    for pass in 0..2 {
        let (frames, error) = play(&mut *source);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(frames.len(), 75);
        for (n, frame) in frames.iter().enumerate() {
            assert_eq!(frame.number(), Some(n as u32), "pass {pass}");
            assert_eq!(frame.meta.pts.unwrap().as_micros(), n as u128 * 1_000_000 / 30);
            let quality = psnr(&frame.rgb, &original[n].rgb);
            assert!(quality > 28.0, "frame {n}: {quality} dB");
        }
        assert!(source.rewind().unwrap());
    }
}

#[test]
fn hd_is_bt709() {
    let folder = folder();
    let file = path(&folder, "hd.mp4");
    record(&file, "1280x720@25", 2);
    let source = open_input(&file).unwrap();
    assert_eq!(source.info().format, "H.264 1280×720, BT.709 limited, via openh264");
}

#[test]
fn colours_survive_mp4_and_y4m() {
    let folder = folder();
    let size = ImageSize::new(64, 64).unwrap();
    for name in ["c.mp4", "c.y4m"] {
        let file = path(&folder, name);
        let mut sink = create(&file.to_string_lossy(), &SinkSpec::new(size, None)).unwrap();
        let colours = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0], [200, 120, 40]];
        for (n, colour) in (0..).zip(colours) {
            let rgb: Vec<u8> = colour.into_iter().cycle().take(size.bytes()).collect();
            sink.write(&rgb, size, &FrameMeta::new("colours", n)).unwrap();
        }
        sink.finish().unwrap();
        let frames = play_all(&file);
        assert_eq!(frames.len(), colours.len());
        for (frame, colour) in frames.iter().zip(colours) {
            for (channel, want) in colour.into_iter().enumerate() {
                let got = frame.mean(channel, 10..90, 10..90);
                assert!((got - f64::from(want)).abs() < 4.0, "{name}: {got} instead of {want} in {colour:?}");
            }
        }
    }
}

#[test]
fn uneven_times_are_kept() {
    let folder = folder();
    let file = path(&folder, "vfr.mp4");
    let size = ImageSize::new(32, 32).unwrap();
    let mut sink = create(&file.to_string_lossy(), &SinkSpec::new(size, Some(FPS30))).unwrap();
    let times = [0, 40, 140, 150, 400].map(Duration::from_millis);
    for (n, time) in (0..).zip(times) {
        let meta = FrameMeta { pts: Some(time), ..FrameMeta::new("x", n) };
        sink.write(&vec![90; size.bytes()], size, &meta).unwrap();
    }
    sink.finish().unwrap();
    let got: Vec<_> = play_all(&file).iter().map(|f| f.meta.pts.unwrap()).collect();
    for (got, want) in got.into_iter().zip(times) {
        assert!(got.abs_diff(want) < Duration::from_millis(1), "{got:?} {want:?}");
    }
}

#[test]
fn odd_sizes() {
    let folder = folder();
    let size = ImageSize::new(101, 57).unwrap();
    let spec = SinkSpec::new(size, None);
    let file = path(&folder, "odd.mp4");
    let sink = create(&file.to_string_lossy(), &spec).unwrap();
    assert!(sink.describe().contains("102×58") && sink.describe().contains("101×57"), "{}", sink.describe());
    drop(sink);
    record(&file, "101x57", 3);
    let frames = play_all(&file);
    assert_eq!((frames.len(), frames[0].size), (3, ImageSize { width: 102, height: 58 }));
    assert_eq!(frames[2].number(), Some(2));
    let file = path(&folder, "odd.y4m");
    record(&file, "101x57", 3);
    let frames = play_all(&file);
    assert_eq!((frames[0].size, frames[2].number()), (size, Some(2)));
}

#[test]
fn y4m_comes_back() {
    let folder = folder();
    let file = path(&folder, "a.y4m");
    record(&file, "160x90@30000/1001", 10);
    let mut source = open_input(&file).unwrap();
    let info = source.info().clone();
    assert_eq!(info.rate, Some(FrameRate { num: 30000, den: 1001 }));
    assert_eq!(info.frames, Some(10));
    assert_eq!(info.format, "y4m 160×90, 4:2:0, BT.601 limited");
    let (frames, _) = play(&mut *source);
    assert_eq!(frames.iter().map(|f| f.number().unwrap()).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!(source.rewind().unwrap());
    assert_eq!(play(&mut *source).0.len(), 10);
}

#[test]
fn pictures_come_back_exactly_and_in_order() {
    let folder = folder();
    let target = format!("{}/", path(&folder, "new/pictures").display());
    record(target.as_ref(), "48x40", 12);
    let mut source = open_input(&target).unwrap();
    assert_eq!(source.info().frames, Some(12));
    let (frames, _) = play(&mut *source);
    let original =
        play(&mut *open("testsrc:48x40", &OpenOptions { frames: Some(12), ..Default::default() }).unwrap()).0;
    assert!(frames.iter().zip(&original).all(|(a, b)| a.rgb == b.rgb));
    let sink = create(&target, &SinkSpec::like(source.info())).unwrap();
    assert!(sink.describe().contains("12 older"), "{}", sink.describe());
}

#[test]
fn nothing_counts() {
    record("none".as_ref(), "16x16", 5);
}

#[test]
fn the_limit_counts_each_pass() {
    let mut source =
        open("testsrc:16x20", &OpenOptions { frames: Some(3), ..OpenOptions::default() }).unwrap();
    assert_eq!(source.info().frames, Some(3));
    for _ in 0..2 {
        assert_eq!(play(&mut *source).0.len(), 3);
        assert!(source.rewind().unwrap());
    }
}

#[test]
fn an_unfinished_mp4_plays() {
    let folder = folder();
    let file = path(&folder, "killed.mp4");
    let mut source =
        open("testsrc:64x48@10", &OpenOptions { frames: Some(25), ..Default::default() }).unwrap();
    let mut sink = create(&file.to_string_lossy(), &SinkSpec::like(source.info())).unwrap();
    for frame in play(&mut *source).0 {
        sink.write(&frame.rgb, frame.size, &frame.meta).unwrap();
    }
    // As a killed program leaves it: two seconds are on disk, the half third one is not.
    let left = path(&folder, "left.mp4");
    std::fs::copy(&file, &left).unwrap();
    let frames = play_all(&left);
    assert_eq!(frames.len(), 20);
    assert_eq!(frames[19].number(), Some(19));
    // As an unwinding one leaves it.
    drop(sink);
    assert_eq!(play_all(&file).len(), 25);
    if ffmpeg() {
        let count = probe(&left, "nb_read_frames");
        assert_eq!(count, "20");
    }
}

#[test]
fn ffmpeg_agrees_about_our_mp4() {
    if !ffmpeg() {
        return;
    }
    let folder = folder();
    let file = path(&folder, "a.mp4");
    record(&file, "320x180@30000/1001", 60);
    assert_eq!(probe(&file, "nb_frames"), "60");
    assert_eq!(probe(&file, "nb_read_frames"), "60");
    assert_eq!(probe(&file, "r_frame_rate"), "30000/1001");
    assert_eq!(probe(&file, "avg_frame_rate"), "30000/1001");
    assert_eq!(probe(&file, "color_space"), "smpte170m");
    assert_eq!(probe(&file, "color_range"), "tv");
    let duration: f64 = probe(&file, "duration").parse().unwrap();
    assert!((duration - 60.0 * 1001.0 / 30000.0).abs() < 0.001, "{duration}");
    run_ffmpeg(&["-xerror", "-i", &file.to_string_lossy(), "-f", "null", "-"]);
}

fn probe(file: &std::path::Path, entry: &str) -> String {
    let output = std::process::Command::new("ffprobe")
        .args(["-v", "error", "-count_frames", "-select_streams", "v:0", "-show_entries"])
        .args([&format!("stream={entry}"), "-of", "csv=p=0"])
        .arg(file)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
