//! Bad input: one sentence, a non-zero exit code, what was written stays playable, never a panic or a hang.

use crate::help::*;
use std::io::Read;
use std::process::{Command, Stdio};

/// Plays a bad input through no network; the sentence.
#[track_caller]
fn refused(input: &str) -> String {
    play(&[input, "--model", "none", "--to", "none"]).failed(1)
}

#[test]
fn a_file_that_is_not_there() {
    let said = refused("/nonexistent/film.mp4");
    assert!(said.contains("/nonexistent/film.mp4"), "{said}");
}

#[test]
fn a_truncated_mp4_keeps_what_came_before() {
    let folder = Folder::new();
    let whole = std::fs::read(asset("test/bframes.mp4")).unwrap();
    for part in [1, whole.len() / 8, whole.len() / 2, whole.len() - 40] {
        let cut = folder.write("cut.mp4", &whole[..part]);
        let run = play(&[&cut, "--model", "none", "--to", &folder.name("out.mp4")]);
        let said = run.failed(1);
        assert!(said.contains("cut.mp4"), "{said}");
        if folder.path("out.mp4").exists() {
            pictures(&folder.path("out.mp4"));
            std::fs::remove_file(folder.path("out.mp4")).unwrap();
        }
    }
}

#[test]
fn a_corrupt_mp4_never_panics() {
    let folder = Folder::new();
    let whole = std::fs::read(asset("test/bframes.mp4")).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 12) {
        let mut bytes = whole.clone();
        let end = (at + 64).min(bytes.len());
        bytes[at..end].iter_mut().for_each(|b| *b ^= 0xa5);
        let run =
            play(&[&folder.write("corrupt.mp4", &bytes), "--model", "none", "--to", "none", "--json", "-"]);
        // Damage in the pictures themselves may be decoded around.
        match run.code {
            Some(0) => drop(run.ok()),
            _ => drop(run.failed(1)),
        }
    }
}

#[test]
fn a_truncated_y4m_keeps_what_came_before() {
    let folder = Folder::new();
    let file = folder.name("a.y4m");
    play(&["testsrc:64x48", "--frames", "6", "--model", "none", "--to", &file]).ok();
    let whole = std::fs::read(&file).unwrap();
    let cut = folder.write("cut.y4m", &whole[..whole.len() - 1000]);
    let run = play(&[&cut, "--model", "none", "--to", &folder.name("out.mp4"), "--json", "-"]);
    let said = run.failed(1);
    assert!(said.contains("cut.y4m") && said.contains("frame 5"), "{said}");
    assert_eq!(run.figures().frames(), [5, 5, 0, 0]);
    assert_eq!(run.figures().0["error"].as_str(), Some(said.as_str()));
    assert_eq!(pictures(&folder.path("out.mp4")).len(), 5);
}

#[test]
fn y4m_headers_that_make_no_sense() {
    let folder = Folder::new();
    for (header, says) in [
        ("YUV4MPEG2 W0 H48 F25:1\n", "0×48"),
        ("YUV4MPEG2 W999999 H999999 F25:1\nFRAME\n", "999999×999999"),
        ("YUV4MPEG2 W64 H48 C420p10\n", "C420p10"),
        ("YUV4MPEG2", "cut off"),
    ] {
        let said = refused(&folder.write("a.y4m", header.as_bytes()));
        assert!(said.contains(says), "{header:?}: {said}");
    }
    // An empty file, and one that holds no frame.
    assert!(refused(&folder.write("empty.y4m", b"")).contains("empty"));
}

#[test]
fn an_unknown_codec_asks_for_ffmpeg() {
    let mut command = framelane(["play", &asset("test/hevc.mp4"), "--model", "none", "--to", "none"]);
    let said = run(command.env("PATH", "/nonexistent")).failed(1);
    assert!(said.contains("ffmpeg"), "{said}");
}

#[test]
fn a_size_change_ends_the_file_well() {
    let folder = Folder::new();
    let run = play(&[&asset("test/resize.mp4"), "--model", "none", "--to", &folder.name("out.mp4")]);
    let said = run.failed(1);
    assert!(said.contains("64×48") && said.contains("96×64"), "{said}");
    assert_eq!(pictures(&folder.path("out.mp4")).len(), 8);
}

#[test]
fn networks_that_cannot_be_played() {
    for (model, says) in [
        ("test/truncated.onnx", &["not a whole ONNX file"][..]),
        ("test/unknown_op.onnx", &["FancyOp", "FancyPool"]),
        ("test/rank3.onnx", &["rank3.onnx"]),
        ("test/two_inputs.onnx", &["two_inputs.onnx"]),
        ("test/bframes.mp4", &["not a whole ONNX file"]),
    ] {
        let said =
            play(&["testsrc:64x48", "--frames", "3", "--to", "none", "--model", &asset(model)]).failed(1);
        assert!(says.iter().all(|s| said.contains(s)), "{model}: {said}");
    }
    let said = play(&["testsrc:64x48", "--to", "none", "--model", "/nonexistent.onnx"]).failed(1);
    assert!(said.contains("/nonexistent.onnx") && said.contains("an ONNX file, upscale or none"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let folder = Folder::new();
    let full = folder.path("full.y4m");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let args =
        ["testsrc:64x48", "--frames", "50", "--model", "none", "--to", full.to_str().unwrap(), "--json", "-"];
    let run = play(&args);
    let said = run.failed(1);
    assert!(said.contains("disk is full"), "{said}");
    let [came, out, dropped, failed] = run.figures().frames();
    assert_eq!((out, failed, dropped), (0, 0, came));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_the_mp4_playable() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("small")).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "framelane-test", &folder.name("small")])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        return skip(
            "a_full_disk_keeps_the_mp4_playable",
            "a small file system cannot be mounted (not root?)",
        );
    }
    let out = folder.name("small/out.mp4");
    let run = play(&["testsrc:320x240", "--frames", "2000", "--model", "none", "--to", &out, "--json", "-"]);
    let read = std::panic::catch_unwind(|| pictures(std::path::Path::new(&out)).len());
    assert!(Command::new("umount").arg(folder.path("small")).status().unwrap().success());
    let said = run.failed(1);
    assert!(said.contains("disk is full"), "{said}");
    let kept = read.expect("the file is playable");
    assert!(kept > 0 && kept as u64 <= run.figures().frames()[1], "{kept} frames kept");
}

#[test]
fn folders_that_cannot_be_written() {
    let folder = Folder::new();
    let file = folder.write("file", b"");
    let mut places = vec![format!("{file}/out.mp4"), format!("{file}/out.y4m"), format!("{file}/out/")];
    if cfg!(target_os = "linux") {
        places.push("/proc/out.mp4".into());
    }
    for place in places {
        let said = play(&["testsrc:64x48", "--frames", "2", "--model", "none", "--to", &place]).failed(1);
        assert!(said.contains(place.trim_end_matches('/')), "{said}");
    }
    let json = format!("{file}/figures.json");
    let said = play(&["testsrc:64x48", "--frames", "2", "--model", "none", "--to", "none", "--json", &json])
        .failed(1);
    assert!(said.contains(&json), "{said}");
}

#[test]
fn a_closed_pipe_ends_the_run() {
    let mut command = framelane(["play", "testsrc:64x48", "--model", "none", "--to", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As `head` does: read a little, then go.
    let mut some = [0; 5000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    let run = Run {
        code: output.status.code(),
        out: output.stdout,
        err: String::from_utf8(output.stderr).unwrap(),
    };
    let said = run.failed(1);
    assert!(said.contains("pipe"), "{said}");
}

#[test]
fn a_reader_of_words_may_go() {
    let figures =
        ["play", "testsrc:64x48", "--frames", "2", "--model", "none", "--to", "none", "--json", "-"];
    for args in [&["doctor"][..], &["inspect", &asset("upscale.onnx")], &["play", "--help"], &figures] {
        let mut child = framelane(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{args:?}");
    }
}
