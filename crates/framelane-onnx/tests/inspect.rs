//! What is found out from files alone, and what is asked for.

mod common;

use common::file;
use framelane::ErrorKind;
use framelane::tensor::DType;
use framelane_onnx::{
    ChannelOrder, Dim, InputRange, Layout, OnnxFile, OutputKind, OutputRange, Overrides, Plan, Resize, Sizing,
};
use proptest::prelude::*;

fn plan(name: &str) -> framelane::Result<Plan> {
    Plan::new(&file(name).inspect()?, &Overrides::default())
}

fn refused(name: &str, overrides: &Overrides) -> framelane::Error {
    file(name).inspect().and_then(|i| Plan::new(&i, overrides)).unwrap_err()
}

#[test]
fn reads_the_test_models() {
    let unit = (InputRange::UNIT, OutputRange::Span(0.0, 1.0));
    let bytes = (InputRange::BYTES, OutputRange::Span(0.0, 255.0));
    let meanstd = (InputRange::IMAGENET, OutputRange::Span(0.0, 1.0));
    let frame = (InputRange::UNIT, OutputRange::Frame);
    use Layout::{Nchw, Nhwc};
    use OutputKind::{Classes, Heat, Image, Mask};
    for (name, layout, channels, dtype, (input, output), kind) in [
        ("identity_nchw_f32", Nchw, 3, DType::F32, unit, Image),
        ("invert_nhwc_u8", Nhwc, 3, DType::U8, bytes, Image),
        ("gray_f16", Nchw, 1, DType::F16, unit, Image),
        ("rgba", Nchw, 4, DType::F32, unit, Image),
        ("mask", Nchw, 3, DType::F32, unit, Mask),
        ("classes", Nchw, 3, DType::F32, unit, Classes),
        ("fixed_64x48", Nchw, 3, DType::F32, unit, Image),
        ("heat_half", Nchw, 3, DType::F32, frame, Heat),
        ("meanstd", Nchw, 3, DType::F32, meanstd, Image),
    ] {
        let plan = plan(name).unwrap();
        assert_eq!((plan.layout, plan.channels, plan.dtype), (layout, channels, dtype), "{name}");
        assert_eq!((plan.input_range, plan.output_range, plan.kind), (input, output, kind), "{name}");
        match plan.sizing {
            Sizing::Picture => assert_ne!(name, "fixed_64x48"),
            Sizing::Fixed { size, resize, .. } => {
                assert_eq!((name, size, resize), ("fixed_64x48", common::size(64, 48), Resize::Tile));
            }
        }
    }
}

#[test]
fn inspection_says_what_is_inside() {
    let inspection = file("meanstd").inspect().unwrap();
    assert_eq!(inspection.opset, 13);
    assert_eq!(inspection.parameters, 6);
    assert_eq!(inspection.operators, [("Add".to_owned(), 1), ("Mul".to_owned(), 1)]);
    assert_eq!(inspection.metadata("framelane.output"), Some("image"));
    let dims = inspection.inputs[0].dims.as_ref().unwrap();
    assert_eq!(dims[1..3], [Dim::Fixed(3), Dim::Symbolic("height".into())]);
    let text = inspection.to_string();
    assert!(text.contains("input       image  f32[1×3×height×width]"), "{text}");
    let plan = Plan::new(&inspection, &Overrides::default()).unwrap().to_string();
    assert!(plan.contains("NCHW f32, RGB, range 0.485,0.456,0.406/0.229,0.224,0.225"), "{plan}");
}

#[test]
fn assumptions_are_visible_and_can_be_overridden() {
    let plan = plan("identity_nchw_f32").unwrap();
    let text = plan.to_string();
    assert!(
        text.contains("assumed input 0-1: the file does not say (override with --input-range)"),
        "{text}"
    );
    let overrides = Overrides {
        input_range: Some("-1-1".parse().unwrap()),
        channels: Some(ChannelOrder::Bgr),
        size: Some(common::size(32, 16)),
        resize: Some(Resize::Letterbox),
        ..Overrides::default()
    };
    let plan = Plan::new(&file("identity_nchw_f32").inspect().unwrap(), &overrides).unwrap();
    assert_eq!((plan.input_range, plan.order), (InputRange::SIGNED, ChannelOrder::Bgr));
    assert!(matches!(plan.sizing, Sizing::Fixed { resize: Resize::Letterbox, .. }));
    assert!(!plan.to_string().contains("assumed input"), "{plan}");
}

#[test]
fn what_cannot_be_fed_is_refused_in_one_sentence() {
    let none = Overrides::default();
    let error = refused("rank3", &none);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "rank3.onnx takes f32[batch×tokens×16] at tokens, which is no picture: framelane feeds inputs of 4 \
         dimensions (batch, channels, height, width; or batch, height, width, channels)"
    );
    let error = refused("two_inputs", &none);
    assert_eq!(
        error.to_string(),
        "two_inputs.onnx takes 2 inputs (left f32[1×3×height×width], right f32[1×3×height×width]), but framelane \
         feeds one picture: export it with the others fixed"
    );
    let error = refused("truncated", &none);
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().starts_with("truncated.onnx is not a whole ONNX file"), "{error}");
    let tiles = Overrides { resize: Some(Resize::Tile), size: Some(common::size(64, 64)), ..none.clone() };
    let error = refused("mask", &tiles);
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.to_string().contains("give --resize fit or letterbox"), "{error}");
    let sized = Overrides { size: Some(common::size(64, 64)), ..none.clone() };
    let error = refused("fixed_64x48", &sized);
    assert_eq!(error.to_string(), "fixed_64x48.onnx works at 64×48, not at the --size 64×64 given");
    let wrong = Overrides { layout: Some(Layout::Nhwc), ..none };
    assert_eq!(refused("fixed_64x48", &wrong).kind(), ErrorKind::Unsupported);
}

#[test]
fn unknown_operators_are_all_listed() {
    let inspection = file("unknown_op").inspect().unwrap();
    assert_eq!(inspection.unknown_operators, ["FancyOp", "com.example.FancyPool"]);
    assert!(inspection.to_string().contains("FancyOp, com.example.FancyPool (no runtime has these)"));
}

#[test]
fn files_that_are_no_networks_are_refused() {
    for bytes in [&b""[..], b"hello", &[0xFF; 100], &[0x3A, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]] {
        let error = OnnxFile::from_bytes("x.onnx", bytes).inspect().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().starts_with("x.onnx is not a whole ONNX file"), "{error}");
    }
    // The output's name, changed where it is declared alone.
    let mut bytes = std::fs::read(common::asset("test/identity_nchw_f32.onnx")).unwrap();
    let at = bytes.windows(3).rposition(|w| w == b"out").unwrap();
    bytes[at] = b'O';
    let error = OnnxFile::from_bytes("x.onnx", bytes).inspect().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(error.to_string(), "x.onnx is damaged: nothing in it makes \"Out\"; copy or export it again");
    assert_eq!(OnnxFile::open("no such file.onnx").unwrap_err().kind(), ErrorKind::Io);
}

/// Everything that reads a file's contents without running it. Must not panic, whatever the bytes.
fn read(bytes: &[u8]) {
    let Ok(inspection) = OnnxFile::from_bytes("x.onnx", bytes).inspect() else { return };
    let _ = inspection.to_string();
    match Plan::new(&inspection, &Overrides::default()) {
        Ok(plan) => assert!(!plan.to_string().is_empty()),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes);
    }

    #[test]
    fn damage_never_panics(
        which in 0usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        let name = ["mask", "classes", "invert_nhwc_u8", "meanstd", "heat_half", "unknown_op"][which];
        let mut bytes = std::fs::read(common::asset(&format!("test/{name}.onnx"))).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if !keep {
            bytes.truncate(cut.index(bytes.len()));
        }
        read(&bytes);
    }
}
