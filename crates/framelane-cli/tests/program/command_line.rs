//! Words: help, wrong options, `inspect`, `doctor`.

use crate::help::*;

fn text(run: &Run) -> String {
    String::from_utf8(run.out.clone()).unwrap()
}

#[test]
fn help_is_on_standard_output() {
    let run = run(&mut framelane(["--help"])).ok();
    assert!(text(&run).contains("framelane play") && run.err.is_empty());
    let run = crate::help::run(&mut framelane(["play", "--help"])).ok();
    for word in ["--model", "--runtime", "--json", "--input-range", "Examples:", "Exit codes:", "rtsp://"] {
        assert!(text(&run).contains(word), "{word}");
    }
}

#[test]
fn wrong_command_lines_are_code_2() {
    for args in
        [&[][..], &["bogus"], &["play", "--bogus"], &["play", "--lanes", "0"], &["play", "--frames", "0"]]
    {
        assert_eq!(run(&mut framelane(args)).code, Some(2), "{args:?}");
    }
    for (args, says) in [
        (&["--to", "film.avi"][..], "FILE.mp4"),
        (&["--to", "socket:no/name"], "letters, digits"),
        (&["--layout", "nwhc"], "nchw or nhwc"),
        (&["--input-range", "-1-x"], "--input-range"),
        (&["--to", "-", "--json", "-"], "standard output"),
        (&["--output", "out.mp4"], "give --to"),
        (&["--output", "picture"], "image, mask, classes or heat"),
    ] {
        let said = play(args).failed(2);
        assert!(said.contains(says), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_window_has_a_name_that_can_be_one() {
    let said = run(&mut framelane(["window", "no/name"])).failed(2);
    assert!(said.contains("letters, digits"), "{said}");
}

#[test]
fn inputs_of_two_sizes_are_refused() {
    let said = play(&["testsrc:64x48", "testsrc:32x32", "--model", "none", "--to", "none"]).failed(1);
    assert!(said.contains("64×48") && said.contains("32×32"), "{said}");
}

#[test]
fn inspect_says_how_a_network_is_fed() {
    let run = run(&mut framelane(["inspect", &asset("upscale.onnx")])).ok();
    for words in ["parameters", "image", "NCHW", "range 0-1", "runtime"] {
        assert!(text(&run).contains(words), "{words}: {}", text(&run));
    }
}

#[test]
fn inspect_as_json() {
    let run = run(&mut framelane(["inspect", "--json", &asset("upscale.onnx")])).ok();
    let json: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    assert!(json["parameters"].as_u64().unwrap() > 7000);
    assert_eq!((&json["inputs"][0]["name"], &json["inputs"][0]["dims"][1]), (&"image".into(), &3.into()));
    assert_eq!((&json["plan"]["layout"], &json["plan"]["input_range"]), (&"NCHW".into(), &"0-1".into()));
    assert!(json["problem"].is_null());
}

#[test]
fn inspect_of_what_cannot_be_played_says_why() {
    for (model, says) in [("test/rank3.onnx", "rank3.onnx"), ("test/unknown_op.onnx", "FancyOp")] {
        let run = run(&mut framelane(["inspect", &asset(model)])).ok();
        assert!(text(&run).contains("cannot be played") && text(&run).contains(says), "{}", text(&run));
    }
    let said = run(&mut framelane(["inspect", &asset("test/truncated.onnx")])).failed(1);
    assert!(said.contains("not a whole ONNX file"), "{said}");
}

#[test]
fn doctor_works_everywhere() {
    let run = run(&mut framelane(["doctor"])).ok();
    for words in
        ["screen", "ffmpeg", "ONNX Runtime", "CUDA", "framelane-out.mp4", "because there is no screen"]
    {
        assert!(text(&run).contains(words), "{words}: {}", text(&run));
    }
    // A machine with nothing, and one whose screen does not answer.
    let run = crate::help::run(framelane(["doctor"]).env("PATH", "").env("DISPLAY", ":6543")).ok();
    assert!(text(&run).contains("apt install ffmpeg") || !cfg!(target_os = "linux"), "{}", text(&run));
    assert!(text(&run).contains(":6543"), "{}", text(&run));
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_vulkan_driver_a_sentence_says_what_to_do_and_files_are_written() {
    let folder = Folder::new();
    let no_vulkan = |args: &[&str]| {
        let mut command = framelane(args);
        for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
            command.env(name, "/nonexistent/icd.json");
        }
        command.env("WGPU_BACKEND", "vulkan").current_dir(folder.path("."));
        crate::help::run(&mut command)
    };
    let doctor = no_vulkan(&["doctor"]).ok();
    let said = text(&doctor);
    assert!(said.contains("graphics      none") && said.contains("mesa-vulkan-drivers"), "{said}");
    if !said.contains("CUDA          none") {
        assert!(said.contains("by host-upload: "), "{said}");
    }
    let played =
        no_vulkan(&["play", "testsrc:64x48@25", "--frames", "3", "--model", "none", "--json", "-"]).ok();
    assert_eq!(played.figures().frames(), [3, 3, 0, 0]);
    assert!(folder.path("framelane-out.mp4").exists());
    // There is no screen either, which is asked first.
    let said = no_vulkan(&["window", "wall"]).failed(1);
    assert!(said.contains("screen"), "{said}");
}
