//! Networks of every kind that the assets have, through the whole program.

use crate::help::*;

/// Runs a network of the assets over the counter of `bframes.mp4` and reads the result from a lossless folder.
#[track_caller]
fn through(model: &str, more: &[&str]) -> Vec<Picture> {
    let folder = Folder::new();
    let (clip, model, out) = (asset("test/bframes.mp4"), asset(model), folder.name("out/"));
    let args = [&["--frames", "6", "--model", &model, "--to", &out, "--json", "-", &clip], more].concat();
    assert_eq!(play(&args).ok().figures().frames(), [6, 6, 0, 0]);
    pictures(&folder.path("out"))
}

/// The grey of frame `n`, left: luma 16 + 8 n, limited range.
fn grey(n: usize) -> f64 {
    (8 * n) as f64 * 255.0 / 219.0
}

#[track_caller]
fn assert_near(got: [u8; 3], want: [f64; 3], within: f64) {
    let ok = got.iter().zip(want).all(|(g, w)| (f64::from(*g) - w).abs() <= within);
    assert!(ok, "{got:?} instead of {want:?}");
}

#[test]
fn pictures_pass_unchanged_through_identity() {
    for (n, picture) in through("test/identity_nchw_f32.onnx", &["--input-range", "0-1"]).iter().enumerate() {
        assert_near(picture.pixel(8, 24), [grey(n); 3], 2.0);
    }
}

#[test]
fn bytes_in_nhwc_are_inverted() {
    for (n, picture) in through("test/invert_nhwc_u8.onnx", &[]).iter().enumerate() {
        assert_near(picture.pixel(8, 24), [255.0 - grey(n); 3], 2.0);
    }
}

#[test]
fn half_floats_in_one_channel_are_inverted() {
    for (n, picture) in through("test/gray_f16.onnx", &["--input-range", "0-1"]).iter().enumerate() {
        assert_near(picture.pixel(8, 24), [255.0 - grey(n); 3], 2.0);
    }
}

#[test]
fn four_channels() {
    assert_eq!(through("test/rgba.onnx", &["--input-range", "0-1"]).len(), 6);
}

#[test]
fn mean_and_deviation_are_undone() {
    for (n, picture) in through("test/meanstd.onnx", &[]).iter().enumerate() {
        assert_near(picture.pixel(8, 24), [grey(n); 3], 2.0);
    }
}

#[test]
fn a_fixed_size_is_fitted_boxed_or_tiled() {
    for how in ["fit", "letterbox", "tile"] {
        let folder = Folder::new();
        let (model, out) = (asset("test/fixed_64x48.onnx"), folder.name("out/"));
        let (clip, range) = (asset("test/rotate.mp4"), ["--input-range", "0-1"]);
        let args = ["--model", &model, "--to", &out, "--resize", how, "--json", "-", &clip];
        let run = play(&[&args[..], &range].concat()).ok();
        assert_eq!(run.figures().frames(), [4, 4, 0, 0]);
        assert!(
            run.err.contains(how) || how == "tile" && run.err.contains("tiles"),
            "chosen visibly: {}",
            run.err
        );
        let picture = &pictures(&folder.path("out"))[0];
        assert_eq!(picture.size.to_string(), "48×64", "{how}");
        // Blue, red; white, green, inverted.
        assert_near(picture.pixel(12, 16), [255.0, 255.0, 0.0], 6.0);
        assert_near(picture.pixel(12, 48), [0.0, 0.0, 0.0], 6.0);
    }
}

#[test]
fn maps_are_shown_over_the_picture() {
    for (model, more) in [
        ("test/mask.onnx", &["--input-range", "0-1", "--output", "mask"][..]),
        ("test/classes.onnx", &["--input-range", "0-1", "--output", "classes"]),
        ("test/heat_half.onnx", &["--input-range", "0-1", "--output", "heat", "--output-range", "-20..80"]),
    ] {
        let pictures = through(model, more);
        assert_eq!((pictures.len(), pictures[0].size.to_string()), (6, "64×48".to_owned()), "{model}");
    }
}

#[test]
fn lanes_keep_the_order() {
    let folder = Folder::new();
    let out = folder.name("out.y4m");
    let model = asset("test/identity_nchw_f32.onnx");
    let args = ["testsrc:64x48", "--frames", "60", "--lanes", "4", "--input-range", "0-1", "--model", &model];
    play(&[&args[..], &["--to", &out]].concat()).ok();
    let numbers: Vec<_> = pictures(&folder.path("out.y4m")).iter().map(Picture::number).collect();
    assert_eq!(numbers, (0..60).map(Some).collect::<Vec<_>>());
}

#[test]
fn onnxruntime_where_it_is() {
    let Some(library) = std::env::var_os("FRAMELANE_TEST_ORT_DYLIB") else {
        return skip("onnxruntime_where_it_is", "FRAMELANE_TEST_ORT_DYLIB names no ONNX Runtime");
    };
    let args = ["play", "testsrc:64x48", "--frames", "5", "--to", "none", "--json", "-"];
    let run = run(framelane(args).env("ORT_DYLIB_PATH", &library)).ok();
    let runtime = run.figures().0["paths"]["runtime"].as_str().unwrap().to_owned();
    assert!(runtime.starts_with("ONNX Runtime"), "{runtime}");
}

#[test]
fn a_runtime_asked_for_is_not_replaced() {
    let said =
        play(&["testsrc:64x48", "--frames", "1", "--to", "none", "--runtime", "onnxruntime"]).failed(1);
    assert!(said.contains("ORT_DYLIB_PATH"), "{said}");
}
