//! What the tests of this crate share: the test models, the runtimes that are there, and running one picture.

#![allow(dead_code, reason = "each test uses its own part")]

use framelane::frame::{FrameMeta, ImageSize};
use framelane::lanes::{Job, JobTimes, Model, Session};
use framelane::{Error, Result};
use framelane_onnx::{ImageModel, OnnxFile, Options, Overrides, Runtime, load, onnxruntime};
use std::io::Write;
use std::path::PathBuf;

/// This package's folder: where it is now, as cargo says when it runs tests, or where it was compiled.
pub fn package() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into()).into()
}

pub fn asset(name: &str) -> PathBuf {
    package().join("../../assets").join(name)
}

pub fn file(name: &str) -> OnnxFile {
    OnnxFile::open(asset(&format!("test/{name}.onnx"))).unwrap()
}

/// The runtimes to test with: tract, and ONNX Runtime where it is. Says so where it is not, past the capture of
/// the tests' output.
pub fn runtimes(test: &str) -> Vec<Runtime> {
    match onnxruntime() {
        Ok(_) => vec![Runtime::Tract, Runtime::OnnxRuntime],
        Err(why) => {
            let mut stderr = std::io::stderr();
            writeln!(stderr, "skipped: {test} with ONNX Runtime: {why}").unwrap();
            vec![Runtime::Tract]
        }
    }
}

pub fn with(runtime: Runtime, overrides: Overrides) -> Options {
    Options { overrides, runtime, ..Options::default() }
}

pub fn model(name: &str, runtime: Runtime, overrides: Overrides) -> Result<ImageModel> {
    load(&file(name), &with(runtime, overrides))
}

pub fn size(width: usize, height: usize) -> ImageSize {
    ImageSize { width, height }
}

/// A picture in which each pixel differs from its neighbours.
pub fn picture(size: ImageSize) -> Vec<u8> {
    let pixel = |i: usize| {
        let (x, y) = (i % size.width, i / size.width);
        [(x * 7 + y * 3) as u8, (x * 2 + y * 11 + 40) as u8, (200 + x * 5 + y) as u8]
    };
    (0..size.width * size.height).flat_map(pixel).collect()
}

/// One picture through one session.
pub fn run_in(
    session: &mut dyn Session,
    model: &ImageModel,
    rgb: &[u8],
    of: ImageSize,
    meta: Option<&FrameMeta>,
) -> Result<(ImageSize, Vec<u8>)> {
    let input = of.spec();
    let output = model.outputs(std::slice::from_ref(&input))?.remove(0);
    let given =
        ImageSize::of(&output).ok_or_else(|| Error::new(framelane::ErrorKind::Model, "no picture"))?;
    let mut out = vec![0xEE; given.bytes()];
    let mut times = JobTimes::default();
    session.run(&mut Job::new(&[(&input, rgb)], &mut [(&output, &mut out)], meta, &mut times))?;
    Ok((given, out))
}

/// One picture through a fresh session.
pub fn run(model: &ImageModel, rgb: &[u8], of: ImageSize) -> Result<(ImageSize, Vec<u8>)> {
    run_in(&mut *model.session()?, model, rgb, of, None)
}

/// The greatest difference of two pictures.
pub fn difference(a: &[u8], b: &[u8]) -> u8 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}
