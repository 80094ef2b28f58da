//! ONNX files: inspection and planning.

#![no_main]

use framelane_onnx::{OnnxFile, Overrides, Plan};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(inspection) = OnnxFile::from_bytes("fuzz.onnx", bytes).inspect() else { return };
    let _ = inspection.to_string();
    match Plan::new(&inspection, &Overrides::default()) {
        Ok(plan) => assert!(!plan.to_string().is_empty()),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
