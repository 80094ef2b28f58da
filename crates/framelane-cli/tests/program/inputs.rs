//! Each kind of input.

use crate::help::*;
use std::process::{Command, Stdio};

/// Plays through no network into nowhere, and says how many frames went in and out.
#[track_caller]
fn count(args: &[&str]) -> u64 {
    let all: Vec<&str> =
        args.iter().copied().chain(["--model", "none", "--to", "none", "--json", "-"]).collect();
    let [came, out, dropped, failed] = play(&all).ok().figures().frames();
    assert_eq!((out, dropped, failed), (came, 0, 0));
    out
}

#[test]
fn mp4_with_frames_out_of_order() {
    assert_eq!(count(&[&asset("test/bframes.mp4")]), 24);
}

#[test]
fn mp4_with_sound() {
    assert_eq!(count(&[&asset("test/audio.mp4")]), 12);
}

#[test]
fn animated_gif() {
    assert_eq!(count(&[&asset("test/anim.gif")]), 4);
}

#[test]
fn test_picture() {
    assert_eq!(count(&["testsrc:64x48@30", "--frames", "17"]), 17);
}

#[test]
fn y4m_file_and_standard_input() {
    let folder = Folder::new();
    let file = folder.name("a.y4m");
    play(&["testsrc:64x48@30", "--frames", "9", "--model", "none", "--to", &file]).ok();
    assert_eq!(count(&[&file]), 9);

    let mut command = framelane(["play", "-", "--model", "none", "--to", "none", "--json", "-"]);
    let mut started = Started::new(command.stdin(Stdio::piped()));
    started.feed(&std::fs::read(&file).unwrap());
    assert_eq!(started.finish().ok().figures().frames(), [9, 9, 0, 0]);
}

#[test]
fn folder_of_pictures() {
    let folder = Folder::new();
    let pictures = folder.name("pictures/");
    play(&["testsrc:64x48@30", "--frames", "5", "--model", "none", "--to", &pictures]).ok();
    assert_eq!(count(&[&pictures]), 5);
    assert_eq!(count(&[&folder.name("pictures/frame-000003.png")]), 1);
}

#[test]
fn what_ffmpeg_reads() {
    if has_ffmpeg("what_ffmpeg_reads") {
        assert_eq!(count(&[&asset("test/hevc.mp4")]), 8);
        let folder = Folder::new();
        let file = folder.name("a.mkv");
        let made = Command::new("ffmpeg")
            .args([
                "-v",
                "error",
                "-f",
                "lavfi",
                "-i",
                "testsrc=size=64x48:rate=10:duration=1",
                "-c:v",
                "ffv1",
            ])
            .arg(&file)
            .status()
            .unwrap();
        assert!(made.success());
        assert_eq!(count(&[&file]), 10);
    }
}

#[test]
fn several_inputs_are_one_stream() {
    let folder = Folder::new();
    let out = folder.name("out.mp4");
    let (a, b) = (asset("test/bframes.mp4"), asset("test/audio.mp4"));
    play(&[&a, &b, "--model", "none", "--to", &out]).ok();
    let pictures = pictures(&folder.path("out.mp4"));
    assert_eq!(pictures.len(), 36);
    let times: Vec<_> = pictures.iter().map(|p| p.meta.pts.unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
}

#[test]
fn loop_goes_on_in_time() {
    let folder = Folder::new();
    let out = folder.name("out.mp4");
    let clip = asset("test/vfr.mp4");
    let run = play(&[&clip, "--loop", "--frames", "15", "--model", "none", "--to", &out, "--json", "-"]).ok();
    assert_eq!(run.figures().frames(), [15, 15, 0, 0]);
    let times: Vec<_> =
        pictures(&folder.path("out.mp4")).iter().map(|p| p.meta.pts.unwrap().as_millis()).collect();
    // Six frames at 0, 40, 80, 200, 240, 500; the last one lasts as long as the step before it.
    let near = |a: u128, b: u128| a.abs_diff(b) <= 1;
    for (n, time) in times.iter().enumerate().skip(6) {
        assert!(near(*time, times[n - 6] + 760), "{times:?}");
    }
}

#[test]
fn without_a_screen_the_clip_is_written_here() {
    let folder = Folder::new();
    let run = run(framelane(["play", "--frames", "3"]).current_dir(folder.path("."))).ok();
    assert!(run.out.is_empty(), "nothing was asked for on standard output");
    assert!(run.err.contains("framelane-out.mp4") && run.err.contains("there is no screen"), "{}", run.err);
    let pictures = pictures(&folder.path("framelane-out.mp4"));
    assert_eq!((pictures.len(), pictures[0].size.to_string()), (3, "768×432".to_owned()));
}
