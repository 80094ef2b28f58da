//! Each kind of output: the frames in it are the frames that went in.

use crate::help::*;
use std::path::Path;

const FRAMES: u64 = 12;

/// Writes test pictures to `target`, and reads their numbers back.
#[track_caller]
fn through(target: &str, read: &Path) {
    let run =
        play(&["testsrc:64x48@25", "--frames", "12", "--model", "none", "--to", target, "--json", "-"]).ok();
    assert_eq!(run.figures().frames(), [FRAMES, FRAMES, 0, 0]);
    let bytes = run.figures().0["bytes"].clone();
    assert_eq!((bytes["to_device"].as_u64(), bytes["from_device"].as_u64()), (Some(110_592), Some(110_592)));
    let numbers: Vec<_> = pictures(read).iter().map(Picture::number).collect();
    assert_eq!(numbers, (0..FRAMES).map(Some).collect::<Vec<_>>());
}

#[test]
fn mp4() {
    let folder = Folder::new();
    through(&folder.name("a.mp4"), &folder.path("a.mp4"));
    let times: Vec<_> =
        pictures(&folder.path("a.mp4")).iter().map(|p| p.meta.pts.unwrap().as_millis()).collect();
    assert_eq!(times, (0..u128::from(FRAMES)).map(|n| n * 40).collect::<Vec<_>>());
}

#[test]
fn y4m() {
    let folder = Folder::new();
    through(&folder.name("a.y4m"), &folder.path("a.y4m"));
}

#[test]
fn folder_of_png() {
    let folder = Folder::new();
    through(&folder.name("new/"), &folder.path("new"));
}

#[test]
fn standard_output() {
    let folder = Folder::new();
    let json = folder.name("figures.json");
    let run =
        play(&["testsrc:64x48@25", "--frames", "12", "--model", "none", "--to", "-", "--json", &json]).ok();
    assert!(run.out.starts_with(b"YUV4MPEG2 W64 H48 F25:1 "), "messages go elsewhere");
    folder.write("a.y4m", &run.out);
    let numbers: Vec<_> = pictures(&folder.path("a.y4m")).iter().map(Picture::number).collect();
    assert_eq!(numbers, (0..FRAMES).map(Some).collect::<Vec<_>>());
    assert_eq!(Figures::read(&folder.path("figures.json")).frames(), [FRAMES, FRAMES, 0, 0]);
}

#[test]
fn nowhere_reads_nothing_back() {
    let run =
        play(&["testsrc:64x48", "--frames", "12", "--model", "none", "--to", "none", "--json", "-"]).ok();
    assert_eq!(run.figures().0["bytes"]["from_device"].as_u64(), Some(0));
}

#[test]
fn an_input_is_not_its_own_output() {
    let folder = Folder::new();
    let file = folder.name("a.y4m");
    play(&["testsrc:64x48", "--frames", "2", "--model", "none", "--to", &file]).ok();
    let before = std::fs::read(folder.path("a.y4m")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a.y4m", folder.path("soft.y4m")).unwrap();
        std::fs::hard_link(folder.path("a.y4m"), folder.path("hard.y4m")).unwrap();
    }
    std::fs::create_dir(folder.path("sub")).unwrap();
    let names =
        if cfg!(unix) { &["soft.y4m", "hard.y4m", "sub/../a.y4m", "./a.y4m"][..] } else { &["./a.y4m"] };
    for name in names {
        for option in ["--to", "--json"] {
            for (input, output) in [(&*file, *name), (*name, &*file)] {
                let mut command = framelane(["play", input, option, output]);
                let said = run(command.current_dir(folder.path("."))).failed(2);
                assert!(
                    said.contains(input) && said.contains(&format!("give {option} another name")),
                    "{said}"
                );
                assert_eq!(std::fs::read(folder.path("a.y4m")).unwrap(), before);
            }
        }
    }
}

#[test]
fn what_an_earlier_run_wrote_is_not_replaced_while_it_is_read() {
    let folder = Folder::new();
    let file = folder.name("framelane-out.mp4");
    play(&["testsrc:64x48", "--frames", "2", "--model", "none", "--to", &file]).ok();
    let before = std::fs::read(&file).unwrap();
    // Without a screen and without --to, this is also the name of the output.
    let mut command = framelane(["play", "framelane-out.mp4", "--model", "none"]);
    let said = run(command.current_dir(folder.path("."))).failed(1);
    assert!(said.contains("framelane-out.mp4 cannot be read and replaced at once"), "{said}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn pictures_are_not_replaced_while_they_are_read() {
    let folder = Folder::new();
    let pictures = folder.name("pictures/");
    play(&["testsrc:64x48", "--frames", "2", "--model", "none", "--to", &pictures]).ok();
    for input in [&*pictures, &folder.name("pictures"), &folder.name("pictures/frame-000001.png")] {
        let said = play(&[input, "--model", "none", "--to", &pictures]).failed(2);
        assert!(said.contains("cannot be read and replaced at once"), "{said}");
    }
}

#[test]
fn the_json_is_complete() {
    let figures =
        play(&["testsrc:64x48@30", "--frames", "8", "--to", "none", "--json", "-"]).ok().figures().0;
    for number in ["/fps", "/wall_s", "/age_ms/p50", "/age_ms/p95", "/age_ms/p99"] {
        assert!(figures.pointer(number).unwrap().as_f64().unwrap() > 0.0, "{number}: {figures}");
    }
    assert!(figures["bytes"]["to_device"].as_u64().unwrap() == 8 * 64 * 48 * 3);
    let stages: Vec<&str> =
        figures["stages"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(stages, ["source", "convert", "copy", "network", "sink"]);
    for stage in figures["stages"].as_array().unwrap() {
        assert!(stage["busy_ms"].as_f64().unwrap() >= 0.0 && stage["wait_ms"].as_f64().unwrap() >= 0.0);
    }
    assert_eq!(figures["bottleneck"], "network");
    assert_eq!(figures["paths"]["device"], "cpu");
    assert!(figures["paths"]["runtime"].as_str().unwrap().starts_with("tract"), "{figures}");
    assert_eq!(figures["paths"]["display"], "none");
    assert!(figures["error"].is_null() && figures["stopped"].is_null() && figures["window"].is_null());
}

#[test]
fn the_table_says_it_to_people() {
    let run = play(&["testsrc:64x48@30", "--frames", "8", "--to", "none"]).ok();
    assert!(run.out.is_empty());
    for words in [
        "8 in = 8 out + 0 dropped + 0 failed",
        "frames a second",
        "<- bottleneck",
        "runtime     tract",
        "cpu",
    ] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
    assert!(!run.err.contains('\x1b'), "no colours where nobody sees them");
}
