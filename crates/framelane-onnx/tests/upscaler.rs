//! The built-in network is better than what it replaces.

mod common;

use common::{asset, run, runtimes, size, with};
use framelane::frame::ImageSize;
use framelane_onnx::{Overrides, upscaler};

fn read(name: &str) -> (ImageSize, Vec<u8>) {
    let image = image::open(asset(name)).unwrap().into_rgb8();
    (size(image.width() as usize, image.height() as usize), image.into_raw())
}

/// Peak signal-to-noise ratio of two RGB pictures in dB, the outer 4 pixels left out.
fn psnr(a: &[u8], b: &[u8], of: ImageSize) -> f64 {
    const BORDER: usize = 4;
    let mut sum = 0.0;
    for y in BORDER..of.height - BORDER {
        let row = (y * of.width + BORDER) * 3..((y + 1) * of.width - BORDER) * 3;
        sum +=
            a[row.clone()].iter().zip(&b[row]).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum::<f64>();
    }
    let count = (of.height - 2 * BORDER) * (of.width - 2 * BORDER) * 3;
    10.0 * (255.0 * 255.0 * count as f64 / sum).log10()
}

#[test]
fn held_out_frames_come_out_better_than_bicubic() {
    for runtime in runtimes("held_out_frames_come_out_better_than_bicubic") {
        let model = upscaler(&with(runtime, Overrides::default())).unwrap();
        let mut pictures = 0;
        for entry in std::fs::read_dir(asset("heldout")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(stem) = name.strip_suffix("_low.png") else { continue };
            let (small, low) = read(&format!("heldout/{name}"));
            let (large, high) = read(&format!("heldout/{stem}_high.png"));
            let (_, bicubic) = read(&format!("heldout/{stem}_bicubic.png"));
            let (given, out) = run(&model, &low, small).unwrap();
            assert_eq!(given, large);
            let (ours, theirs) = (psnr(&out, &high, large), psnr(&bicubic, &high, large));
            println!("{runtime}, {stem}: {ours:.2} dB, bicubic {theirs:.2} dB");
            assert!(ours >= theirs + 0.5, "{runtime}, {stem}: {ours:.2} dB, bicubic {theirs:.2} dB");
            pictures += 1;
        }
        assert!(pictures >= 2, "held-out pictures are there");
    }
}
