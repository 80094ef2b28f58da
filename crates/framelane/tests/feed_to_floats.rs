//! Pictures become floats on the device, after the copy: the same bits on every device.

mod common;

use common::*;
use framelane::Result;
use framelane::feed::{Feeder, Layout, Options, SlotWriter, Source, ToFloats};
use framelane::tensor::{DType, HostArray, TensorSpec, Tree};
use framelane_cuda::kernels::twin;

/// One batch: pictures of these shapes, then a label.
struct Pictures(Option<Vec<Vec<usize>>>);

fn pixels(shape: &[usize]) -> Vec<u8> {
    content(shape.iter().sum::<usize>() as u64, 3, shape.iter().product())
}

impl Source for Pictures {
    fn name(&self) -> &str {
        "pictures"
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        let Some(shapes) = self.0.take() else { return Ok(false) };
        let bytes: Vec<_> = shapes.iter().map(|s| pixels(s)).collect();
        let arrays =
            shapes.iter().zip(&bytes).map(|(s, b)| HostArray::new(TensorSpec::new(DType::U8, s.clone()), b));
        let mut leaves = arrays.map(|a| Ok(Tree::Leaf(a?))).collect::<Result<Vec<_>>>()?;
        leaves.push(Tree::Leaf(HostArray::new(TensorSpec::new(DType::F32, [1]), &[1, 2, 3, 4])?));
        slot.put(&Tree::List(leaves))?;
        Ok(true)
    }
}

/// What the formula of the documentation says, pixel by pixel.
fn by_hand(shape: &[usize], dtype: DType, layout: Layout, scale: [f32; 4], bias: [f32; 4]) -> Vec<u8> {
    let [h, w, c] = shape[shape.len() - 3..] else { unreachable!() };
    let images: usize = shape[..shape.len() - 3].iter().product();
    let bytes = pixels(shape);
    let size = dtype.size();
    let mut out = vec![0; bytes.len() * size];
    for (i, &byte) in bytes.iter().enumerate() {
        let (channel, pixel) = (i % c, i / c);
        let (x, y, n) = (pixel % w, pixel / w % h, pixel / w / h);
        assert!(n < images);
        let at = match layout {
            Layout::Hwc => i,
            Layout::Chw => ((n * c + channel) * h + y) * w + x,
        };
        let value = f32::from(byte) * scale[channel] + bias[channel];
        let out = &mut out[at * size..][..size];
        match dtype {
            DType::F32 => out.copy_from_slice(&value.to_le_bytes()),
            DType::F16 => out.copy_from_slice(&twin::f16_bits(value).to_le_bytes()),
            _ => out.copy_from_slice(&twin::bf16_bits(value).to_le_bytes()),
        }
    }
    out
}

#[test]
fn pictures_become_floats_and_nothing_else_does() {
    let shapes: [&[usize]; 9] = [
        &[5, 7, 3],
        &[2, 16, 16, 3],
        &[3, 9, 33, 1],
        &[1, 1, 4],
        &[64, 48, 2],
        &[0, 8, 8, 3],
        &[4, 0, 3],
        // No pictures: too many channels, too few dimensions.
        &[4, 4, 5],
        &[12, 3],
    ];
    let (mean, std) = ([0.485, 0.456, 0.406, 0.5], [0.229, 0.224, 0.225, 0.25]);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for layout in [Layout::Chw, Layout::Hwc] {
            let device = device();
            let scale = [0.5, 1.0 / 3.0, 300.0, -2.0];
            let bias = [-1.0, 0.25, 1e-3, 7.0];
            let how = ToFloats::unit(dtype, layout).unwrap().scaled(scale, bias);
            let shapes: Vec<Vec<usize>> = shapes.iter().map(|s| s.to_vec()).collect();
            let options = Options { to_floats: Some(how), ..options("to floats", 2) };
            let feeder = Feeder::new(&device, Pictures(Some(shapes.clone())), options).unwrap();
            let batch = feeder.next_batch().unwrap().unwrap();
            let found = read_back(&device, &batch);
            let specs: Vec<_> = batch.specs().cloned().collect();
            assert_eq!(specs.len(), shapes.len() + 1);
            for ((shape, spec), found) in shapes[..7].iter().zip(&specs).zip(&found) {
                let (lead, last) = shape.split_at(shape.len() - 3);
                let last = match layout {
                    Layout::Hwc => last.to_vec(),
                    Layout::Chw => vec![last[2], last[0], last[1]],
                };
                assert_eq!(spec, &TensorSpec::new(dtype, [lead, &last].concat()));
                assert!(found == &by_hand(shape, dtype, layout, scale, bias), "{spec} from {shape:?}");
            }
            assert_eq!(specs[7], TensorSpec::new(DType::U8, [4, 4, 5]));
            assert_eq!((&found[7], &found[8]), (&pixels(&[4, 4, 5]), &pixels(&[12, 3])));
            assert_eq!(found[9], [1, 2, 3, 4]);
            assert!(feeder.next_batch().unwrap().is_none());
            let report = feeder.report();
            assert!(!report.device_convert.is_zero(), "{report}");
        }
    }
    // The two usual ways to say it.
    let unit = ToFloats::unit(DType::F32, Layout::Chw).unwrap();
    assert_eq!(unit, unit.scaled([1.0 / 255.0; 4], [0.0; 4]));
    assert_ne!(unit, unit.normalised(mean, std));
    let refused = ToFloats::unit(DType::I32, Layout::Chw).unwrap_err();
    assert_eq!(refused.to_string(), "pictures become f32, f16 or bf16 on the device, not i32");
}

/// Batch after batch through few slots: a conversion never meets the next copy, nor the last reader.
#[test]
fn conversions_are_ordered_like_copies() {
    let device = checked_device();
    let (slow, fast) = (device.stream("slow").unwrap(), device.stream("fast").unwrap());
    let how = ToFloats::unit(DType::F16, Layout::Chw).unwrap();
    for depth in [1, 2, 3] {
        let steps = steps(100).min(1000);
        let items = (0..steps).map(Ok);
        let convert = |n: u64, slot: &mut SlotWriter<'_>| {
            let bytes = content(n, 0, 8 * 12 * 3);
            let to = slot.tensor("image", &TensorSpec::new(DType::U8, [8, 12, 3]))?;
            to.copy_from_slice(&bytes);
            Ok(())
        };
        let options = Options { to_floats: Some(how), ..options("ordered", depth) };
        let feeder = Feeder::converting(&device, items, 2, convert, options).unwrap();
        let findings = Findings::default();
        for batch in &feeder {
            let batch = batch.unwrap();
            let number = batch.index();
            let bytes = content(number, 0, 8 * 12 * 3);
            let planes = (0..3).flat_map(|c| bytes.iter().skip(c).step_by(3));
            let floats: Vec<u8> =
                planes.flat_map(|&b| twin::f16_bits(f32::from(b) * (1.0 / 255.0)).to_le_bytes()).collect();
            let sum = vec![checksum(&floats)];
            batch.on(&slow).unwrap();
            delay(&slow, std::time::Duration::from_micros(300)).unwrap();
            findings.check(&batch, &slow, number, sum.clone()).unwrap();
            findings.check(&batch, &fast, number, sum).unwrap();
        }
        slow.synchronize("test").unwrap();
        fast.synchronize("test").unwrap();
        assert_eq!(findings.checks(), 2 * steps);
        findings.assert_none();
    }
    assert_eq!(device.hazards(), []);
}
