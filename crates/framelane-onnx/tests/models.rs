//! Each test model through each runtime, compared with what can be worked out on paper.

mod common;

use common::{asset, difference, model, picture, run, runtimes, size, with};
use framelane::ErrorKind;
use framelane::lanes::Model;
use framelane::tensor::{DType, TensorSpec};
use framelane_onnx::{
    ChannelOrder, InputRange, OnnxFile, Options, OutputKind, OutputRange, Overrides, Resize, Runtime, load,
    onnxruntime,
};

fn inverted(rgb: &[u8]) -> Vec<u8> {
    rgb.iter().map(|v| 255 - v).collect()
}

fn each_runtime(test: &str, f: impl Fn(Runtime)) {
    for runtime in runtimes(test) {
        f(runtime);
    }
}

#[test]
fn layouts_types_and_channels() {
    each_runtime("layouts_types_and_channels", |runtime| {
        let of = size(37, 21);
        let rgb = picture(of);
        let same = |name: &str, overrides: Overrides| {
            run(&model(name, runtime, overrides).unwrap(), &rgb, of).unwrap()
        };
        let none = Overrides::default();
        assert_eq!(same("identity_nchw_f32", none.clone()), (of, rgb.clone()), "{runtime}");
        assert_eq!(same("invert_nhwc_u8", none.clone()), (of, inverted(&rgb)), "{runtime}");
        let swapped: Vec<u8> = rgb.chunks_exact(3).flat_map(|p| [p[2], p[1], p[0]]).collect();
        assert_eq!(same("rgba", none.clone()), (of, swapped), "{runtime}");
        let grey: Vec<u8> = rgb
            .chunks_exact(3)
            .flat_map(|p| {
                let luma = 0.299 * f64::from(p[0]) + 0.587 * f64::from(p[1]) + 0.114 * f64::from(p[2]);
                [(255.0 - luma).round() as u8; 3]
            })
            .collect();
        assert!(difference(&same("gray_f16", none.clone()).1, &grey) <= 1, "{runtime}");
        assert!(difference(&same("meanstd", none.clone()).1, &rgb) <= 1, "{runtime}");
        for range in ["-1-1", "0-255", "imagenet"] {
            let range = Some(range.parse::<InputRange>().unwrap());
            for channels in [ChannelOrder::Rgb, ChannelOrder::Bgr] {
                let overrides = Overrides { input_range: range, channels: Some(channels), ..none.clone() };
                assert_eq!(same("identity_nchw_f32", overrides).1, rgb, "{runtime} {range:?} {channels}");
            }
        }
    });
}

#[test]
fn numbers_beyond_the_range_are_clamped() {
    each_runtime("numbers_beyond_the_range_are_clamped", |runtime| {
        let overrides = Overrides { output_range: Some(OutputRange::Span(0.2, 0.7)), ..Overrides::default() };
        let model = model("identity_nchw_f32", runtime, overrides).unwrap();
        let rgb = [0, 64, 255, 128, 178, 192];
        let (_, out) = run(&model, &rgb, size(2, 1)).unwrap();
        assert_eq!(out, [0, 26, 255, 154, 254, 255], "{runtime}");
    });
}

#[test]
fn maps_are_laid_over_the_picture() {
    each_runtime("maps_are_laid_over_the_picture", |runtime| {
        let none = Overrides::default();
        // Dark is left alone, bright is covered by half.
        let rgb = [0, 0, 0, 255, 255, 255, 10, 10, 10, 250, 250, 250];
        let (_, out) = run(&model("mask", runtime, none.clone()).unwrap(), &rgb, size(2, 2)).unwrap();
        let expected = [0, 0, 0, 160, 255, 160, 10, 10, 10, 157, 253, 157];
        assert!(difference(&out, &expected) <= 1, "{runtime} {out:?}");

        // Nothing, and classes 1, 2 and 3 at half strength.
        let rgb = [20, 20, 20, 200, 0, 0, 0, 200, 0, 0, 0, 200];
        let classes = model("classes", runtime, none.clone()).unwrap();
        let (_, out) = run(&classes, &rgb, size(4, 1)).unwrap();
        assert_eq!(out, [20, 20, 20, 164, 0, 0, 0, 164, 0, 64, 64, 100], "{runtime}");

        // Half as large, and brought back; from the least to the greatest of the frame.
        let of = size(8, 4);
        let rgb: Vec<u8> = (0..of.height).flat_map(|_| [[0; 12], [255; 12]].concat()).collect();
        let heat = model("heat_half", runtime, none.clone()).unwrap();
        let (given, out) = run(&heat, &rgb, of).unwrap();
        assert_eq!(
            (given, &out[..3], &out[21..24]),
            (of, &[68, 1, 84][..], &[253, 231, 37][..]),
            "{runtime}"
        );
        let range = Some(OutputRange::Span(-20.0, 180.0));
        let heat = model("heat_half", runtime, Overrides { output_range: range, ..none.clone() }).unwrap();
        let (_, out) = run(&heat, &rgb, of).unwrap();
        assert!(difference(&out[21..24], &[33, 144, 141]) <= 1, "{runtime} {:?}", &out[21..24]);

        let as_classes = Overrides { output: Some(OutputKind::Classes), ..none };
        let error = model("identity_nchw_f32", runtime, as_classes).map(|_| ()).err();
        assert!(error.is_none(), "three numbers may be the scores of three classes");
    });
}

#[test]
fn one_size_by_tiles_fit_and_letterbox() {
    each_runtime("one_size_by_tiles_fit_and_letterbox", |runtime| {
        let none = Overrides::default();
        let tiled = model("fixed_64x48", runtime, none.clone()).unwrap();
        // Its own size, larger, smaller, and larger one way alone: inverting has no seams.
        for of in [size(64, 48), size(200, 131), size(65, 49), size(20, 10), size(300, 20), size(20, 300)] {
            let rgb = picture(of);
            assert_eq!(run(&tiled, &rgb, of).unwrap(), (of, inverted(&rgb)), "{runtime} {of}");
        }
        for resize in [Resize::Fit, Resize::Letterbox] {
            let model =
                model("fixed_64x48", runtime, Overrides { resize: Some(resize), ..none.clone() }).unwrap();
            for of in [size(128, 96), size(160, 96), size(96, 160)] {
                let rgb = [30, 90, 200].repeat(of.width * of.height);
                let (given, out) = run(&model, &rgb, of).unwrap();
                assert_eq!(given, of);
                // The letterbox's border must not bleed in from the sides by more than scaling needs.
                let middle = (of.width * of.height / 2 + of.width / 2) * 3;
                assert_eq!(out[middle..middle + 3], [225, 165, 55], "{runtime} {resize} {of}");
                if resize == Resize::Fit {
                    assert_eq!(out, inverted(&rgb), "{runtime} {of}");
                }
            }
        }
        // A map at a fixed size, letterboxed.
        let overrides = Overrides { size: Some(size(32, 32)), resize: Some(Resize::Letterbox), ..none };
        let mask = model("mask", runtime, overrides).unwrap();
        let of = size(64, 16);
        let (given, out) = run(&mask, &[255].repeat(of.bytes()), of).unwrap();
        assert_eq!(given, of);
        let middle = (8 * 64 + 32) * 3;
        assert!(difference(&out[middle..middle + 3], &[160, 255, 160]) <= 1, "{runtime}");
    });
}

#[test]
fn a_failing_run_does_not_spoil_the_next() {
    each_runtime("a_failing_run_does_not_spoil_the_next", |runtime| {
        let heat = model("heat_half", runtime, Overrides::default()).unwrap();
        // One pixel is less than the network's window of two by two.
        assert!(run(&heat, &[1, 2, 3], size(1, 1)).is_err(), "{runtime}");
        assert!(run(&heat, &picture(size(4, 4)), size(4, 4)).is_ok(), "{runtime}");
    });
}

#[test]
fn only_pictures_are_taken() {
    let model = model("identity_nchw_f32", Runtime::Tract, Overrides::default()).unwrap();
    let error = model.outputs(&[TensorSpec::new(DType::F32, [4, 4, 3])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert_eq!(
        error.to_string(),
        "identity_nchw_f32.onnx takes one RGB picture (u8, height × width × 3), not f32[4×4×3]"
    );
}

#[test]
fn unknown_operators_are_named_by_every_runtime() {
    let mut kinds = runtimes("unknown_operators_are_named_by_every_runtime");
    kinds.push(Runtime::Auto);
    for runtime in kinds {
        let error = model("unknown_op", runtime, Overrides::default()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert_eq!(
            error.to_string(),
            "unknown_op.onnx uses operators that neither tract nor ONNX Runtime has: FancyOp, \
             com.example.FancyPool; export it without them",
            "{runtime}"
        );
    }
}

#[test]
fn the_runtime_and_the_assumptions_are_told() {
    let auto = model("identity_nchw_f32", Runtime::Auto, Overrides::default()).unwrap();
    match onnxruntime() {
        Ok(runtime) => {
            assert_eq!(auto.runtime(), format!("ONNX Runtime {} (from {})", runtime.version, runtime.origin));
            assert!(runtime.version.starts_with("1."), "{}", runtime.version);
        }
        Err(why) => assert_eq!(auto.runtime(), format!("tract 0.23 ({why})")),
    }
    let text = auto.describe();
    for part in
        ["model       identity_nchw_f32.onnx", "assumed input 0-1", "assumed output 0-1", "runtime     "]
    {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

fn own(name: &str) -> std::path::PathBuf {
    common::package().join("tests/models").join(name)
}

#[test]
fn tract_says_which_operators_it_lacks() {
    let file = OnnxFile::open(own("lppool.onnx")).unwrap();
    let error = load(&file, &with(Runtime::Tract, Overrides::default())).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "lppool.onnx uses operators that tract does not have: LpPool");
    let text = file.inspect().unwrap().to_string();
    assert!(text.contains("ONNX Runtime, for LpPool (tract does not have them)"), "{text}");
    for runtime in runtimes("tract_says_which_operators_it_lacks") {
        if runtime == Runtime::OnnxRuntime {
            let model = load(&file, &with(Runtime::Auto, Overrides::default())).unwrap();
            let rgb = picture(size(9, 5));
            assert_eq!(run(&model, &rgb, size(9, 5)).unwrap().1, rgb);
        }
    }
}

#[test]
fn auto_falls_back_and_says_why() {
    // A format of the future, which tract does not mind.
    let mut bytes = std::fs::read(asset("test/identity_nchw_f32.onnx")).unwrap();
    assert_eq!(bytes[..2], [8, 8], "the file begins with its format's version");
    bytes[1] = 99;
    let file = OnnxFile::from_bytes("future.onnx", bytes);
    let model = load(&file, &Options::default()).unwrap();
    assert!(model.runtime().starts_with("tract 0.23 ("), "{}", model.runtime());
    if runtimes("auto_falls_back_and_says_why").contains(&Runtime::OnnxRuntime) {
        let why = model.runtime();
        assert!(why.contains("ONNX Runtime could not load future.onnx") && why.contains("99"), "{why}");
        let error = load(&file, &with(Runtime::OnnxRuntime, Overrides::default())).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with("ONNX Runtime could not load future.onnx: "), "{error}");
    }
}

/// Runs as a child of the next test, with a library that is none.
#[test]
fn child_without_onnxruntime() {
    if std::env::var_os("FRAMELANE_TEST_CHILD").is_none() {
        return;
    }
    let auto = model("identity_nchw_f32", Runtime::Auto, Overrides::default()).unwrap();
    assert!(auto.runtime().starts_with("tract 0.23 (ORT_DYLIB_PATH names "), "{}", auto.runtime());
    let error =
        model("identity_nchw_f32", Runtime::OnnxRuntime, Overrides::default()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let start = "--runtime onnxruntime cannot be used: ORT_DYLIB_PATH names ";
    assert!(error.to_string().starts_with(start), "{error}");
}

#[test]
fn an_unfit_library_is_reported_and_not_fatal() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("libonnxruntime.so");
    std::fs::write(&text, "not a library").unwrap();
    for path in [text, folder.path().join("missing.so"), folder.path().to_owned()] {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_without_onnxruntime"])
            .env("ORT_DYLIB_PATH", &path)
            .env("FRAMELANE_TEST_CHILD", "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && output.contains("1 passed"), "{}: {output}", path.display());
    }
}
