//! What is put in comes out: types, strides, nesting, sizes, and memory within its budget.

mod common;

use common::*;
use framelane::device::{Device, Memory};
use framelane::feed::{Feeder, Options, Pump, Pumped, SlotWriter, Source};
use framelane::tensor::{DType, HostArray, TensorSpec, Tree};
use framelane::{ALIGNMENT, Batch, ErrorKind, Result};
use std::collections::VecDeque;

/// A source that calls one closure after the other.
type Write = Box<dyn FnOnce(&mut SlotWriter<'_>) -> Result<bool> + Send>;

struct Script(VecDeque<Write>);

impl Script {
    fn new(writes: impl IntoIterator<Item = Write>) -> Self {
        Self(writes.into_iter().collect())
    }
}

impl Source for Script {
    fn name(&self) -> &str {
        "script"
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        self.0.pop_front().map_or(Ok(false), |write| write(slot))
    }
}

fn one(device: &Device, write: Write) -> Batch {
    Feeder::new(device, Script::new([write]), options("one", 1)).unwrap().next_batch().unwrap().unwrap()
}

/// The bytes change, and then go, right after they were handed over, while the copy cannot even begin.
#[test]
fn f5_source_changes_after_handing_over() {
    let device = device();
    let (compute, gate) = (device.stream("compute").unwrap(), Gate::new());
    let write = |number: u64| -> Write {
        Box::new(move |slot| {
            let mut bytes = content(number, 0, 3000);
            let spec = TensorSpec::new(DType::U8, [3000]);
            slot.put(&Tree::Leaf(HostArray::new(spec, &bytes)?))?;
            bytes.fill(0xEE);
            Ok(true)
        })
    };
    for pinned_slots in [None, Some(1), Some(4)] {
        let options = Options { pinned_slots, ..options("f5", 1) };
        let feeder = Feeder::new(&device, Script::new((0..6).map(write)), options).unwrap();
        let findings = Findings::default();
        hold(&compute, &gate).unwrap();
        for (number, batch) in (&feeder).enumerate() {
            let (number, batch) = (number as u64, batch.unwrap());
            // The first copy is held up through this; the source goes on as far as it may.
            findings.check(&batch, &compute, number, vec![checksum(&content(number, 0, 3000))]).unwrap();
            if number == 0 {
                drop(batch);
                std::thread::sleep(ms(20));
                gate.open();
            }
        }
        compute.synchronize("test").unwrap();
        assert_eq!(findings.checks(), 6);
        findings.assert_none();
    }
}

#[test]
fn f15_small_and_empty() {
    let device = device();
    // No batches; fewer than the depth; batches of one row; an empty tensor in a dict.
    let (numbers, error) = drain(&Feeder::new(&device, Numbers::new(0), options("f15", 4)).unwrap());
    assert!(numbers.is_empty() && error.is_none());
    let (numbers, error) = drain(&Feeder::new(&device, Numbers::even(2, 1), options("f15", 4)).unwrap());
    assert_eq!((numbers, error.is_none()), (vec![0, 1], true));
    let row = |rows: usize| -> Write {
        Box::new(move |slot| {
            slot.tensor("rows", &TensorSpec::new(DType::I32, [rows, 3]))?.fill(rows as u8);
            slot.tensor("none", &TensorSpec::new(DType::F32, [0, 7]))?;
            slot.tensor("scalar", &TensorSpec::new(DType::I64, []))?.fill(9);
            Ok(true)
        })
    };
    for depth in [1, 2] {
        let feeder =
            Feeder::new(&device, Script::new([row(4), row(4), row(1)]), options("f15", depth)).unwrap();
        for rows in [4, 4, 1] {
            let batch = feeder.next_batch().unwrap().unwrap();
            let specs: Vec<_> = batch.specs().map(ToString::to_string).collect();
            assert_eq!(specs, [format!("i32[{rows}×3]"), "f32[0×7]".to_owned(), "i64[]".to_owned()]);
            assert_eq!(
                read_back(&device, &batch),
                [vec![rows as u8; 12 * rows], vec![], vec![9; 8]],
                "depth {depth}, {rows} rows"
            );
        }
        assert!(feeder.next_batch().unwrap().is_none());
    }
    // Nothing in a batch at all is still a batch.
    let nothing: Write = Box::new(|_| Ok(true));
    let feeder = Feeder::new(&device, Script::new([nothing]), options("f15", 2)).unwrap();
    assert_eq!(feeder.next_batch().unwrap().unwrap().specs().len(), 0);
    assert!(feeder.next_batch().unwrap().is_none());
}

/// A batch that is larger, or smaller, than the one in use leaves that one as it was.
#[test]
fn f16_ragged_batches_leave_held_ones_alone() {
    let device = checked_device();
    let compute = device.stream("compute").unwrap();
    let sizes = [100, 5000, 1, 40_000, 300, 7];
    let write = |size: usize| -> Write {
        Box::new(move |slot| {
            slot.tensor("x", &TensorSpec::new(DType::U8, [size]))?.copy_from_slice(&content(0, size, size));
            Ok(true)
        })
    };
    for depth in [1, 2, 3] {
        let feeder = Feeder::new(&device, Script::new(sizes.map(write)), options("f16", depth)).unwrap();
        let findings = Findings::default();
        let mut held = VecDeque::new();
        for size in sizes {
            let batch = feeder.next_batch().unwrap().unwrap();
            assert_eq!(batch.specs().next().unwrap().shape(), [size]);
            held.push_back((batch, size));
            for (batch, size) in &held {
                delay(&compute, ms(1)).unwrap();
                findings
                    .check(batch, &compute, *size as u64, vec![checksum(&content(0, *size, *size))])
                    .unwrap();
            }
            if held.len() == depth {
                held.pop_front();
            }
        }
        drop(held);
        compute.synchronize("test").unwrap();
        findings.assert_none();
        assert_eq!(device.hazards(), []);
    }
}

#[test]
fn f23_types_strides_and_nesting() {
    let device = device();
    let f64s: Vec<u8> =
        [1.5_f64, -0.0, f64::NAN, f64::MIN_POSITIVE].iter().flat_map(|v| v.to_le_bytes()).collect();
    let bools = [1_u8, 0, 1];
    // A 4×3 matrix of u16, transposed, every second column of it.
    let matrix: Vec<u8> = (0_u16..12).flat_map(u16::to_le_bytes).collect();
    let (f, b, m) = (f64s.clone(), bools, matrix.clone());
    let batch = one(
        &device,
        Box::new(move |slot| {
            let array = |dtype, shape: &[usize], bytes| HostArray::new(TensorSpec::new(dtype, shape), bytes);
            let strided = |shape: [usize; 2], strides: [usize; 2]| {
                HostArray::new(TensorSpec::strided(DType::U16, shape, strides)?, &m)
            };
            slot.put(&Tree::Map(vec![
                ("f64".into(), Tree::Leaf(array(DType::F64, &[2, 2], &f)?)),
                (
                    "pair".into(),
                    Tree::Tuple(vec![
                        Tree::Leaf(array(DType::Bool, &[3], &b)?),
                        Tree::None,
                        Tree::List(vec![
                            Tree::Leaf(strided([3, 4], [1, 3])?),
                            Tree::Leaf(strided([4, 2], [3, 2])?),
                            // One row, seen twice.
                            Tree::Leaf(strided([2, 3], [0, 1])?),
                        ]),
                    ]),
                ),
            ]))?;
            Ok(true)
        }),
    );
    let expected_tree = Tree::Map(vec![
        ("f64".to_owned(), Tree::Leaf(0)),
        (
            "pair".to_owned(),
            Tree::Tuple(vec![
                Tree::Leaf(1),
                Tree::None,
                Tree::List(vec![Tree::Leaf(2), Tree::Leaf(3), Tree::Leaf(4)]),
            ]),
        ),
    ]);
    assert_eq!(batch.tree(), &expected_tree);
    let u16s = |values: &[u16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(
        read_back(&device, &batch),
        [
            f64s,
            bools.to_vec(),
            u16s(&[0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]),
            u16s(&[0, 2, 3, 5, 6, 8, 9, 11]),
            u16s(&[0, 1, 2, 0, 1, 2]),
        ]
    );
    let specs: Vec<_> = batch.specs().map(ToString::to_string).collect();
    assert_eq!(specs, ["f64[2×2]", "bool[3]", "u16[3×4]", "u16[4×2]", "u16[2×3]"]);
    assert!(batch.specs().all(TensorSpec::is_contiguous));
    let stream = device.stream("s").unwrap();
    let view = batch.on(&stream).unwrap();
    assert_eq!(view.tensor("pair.2.1").unwrap().spec().shape(), [4, 2]);
    let missing = view.tensor("pair.1").unwrap_err();
    assert!(missing.kind() == ErrorKind::Argument && missing.to_string().contains("pair.1"), "{missing}");
    // Printed with what the leaves are.
    let tensors = "{f64: f64[2×2], pair: (bool[3], none, [u16[3×4], u16[4×2], u16[2×3]])}";
    assert!(missing.to_string().ends_with(tensors), "{missing}");
    assert_eq!(format!("{batch:?}"), format!("Batch {{ index: 0, tensors: {tensors}, .. }}"));
}

/// Every 16-bit pattern, NaN payloads and all, as f16 and as bf16.
#[test]
fn f24_halves_bit_for_bit() {
    let device = device();
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let theirs = all.clone();
    let batch = one(
        &device,
        Box::new(move |slot| {
            for (name, dtype) in [("f16", DType::F16), ("bf16", DType::BF16)] {
                slot.tensor(name, &TensorSpec::new(dtype, [256, 256]))?.copy_from_slice(&theirs);
            }
            Ok(true)
        }),
    );
    assert_eq!(read_back(&device, &batch), [all.clone(), all]);
}

#[test]
fn tensors_are_aligned_and_travel_in_one_copy() {
    let device = device();
    let batch = one(
        &device,
        Box::new(|slot| {
            for n in 0..50 {
                slot.tensor(&format!("t{n}"), &TensorSpec::new(DType::U8, [n + 1]))?.fill(n as u8);
            }
            Ok(true)
        }),
    );
    assert_eq!(device.counters().copies, 1);
    assert_eq!(device.counters().to_device, 49 * ALIGNMENT as u64 + 50);
    let expected: Vec<Vec<u8>> = (0..50).map(|n| vec![n as u8; n + 1]).collect();
    assert_eq!(read_back(&device, &batch), expected);
}

#[test]
fn budgets_name_the_sum_before_anything_is_allocated() {
    for memory in [Memory::Pinned, Memory::Device] {
        let device = device();
        let mut options = Options { pinned_slots: Some(2), ..options("tight", 2) };
        match memory {
            Memory::Pinned => options.pinned_budget = 9_999,
            Memory::Device => options.device_budget = 9_999,
        }
        let write = |size: usize| -> Write {
            Box::new(move |slot| slot.tensor("x", &TensorSpec::new(DType::U8, [size])).map(|_| true))
        };
        // 4 000 bytes are 4 096 in a slot: two slots fit, one slot of 8 000 beside another does not.
        let feeder =
            Feeder::new(&device, Script::new([write(4000), write(4000), write(8000)]), options).unwrap();
        assert!(feeder.next_batch().unwrap().is_some());
        assert!(feeder.next_batch().unwrap().is_some());
        let error = feeder.next_batch().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
        let kind = if memory == Memory::Pinned { "pinned" } else { "device" };
        for part in [kind, "tight", "12288 bytes", "a slot of 8192", "4096 in the others", "9999"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(feeder.next_batch().unwrap().is_none());
        let (pinned, on_device, _) = held(&device);
        let used = if memory == Memory::Pinned { pinned } else { on_device };
        assert_eq!(used, 8192, "nothing was allocated for what was refused");
    }
}

/// A budget of slots × the largest batch is enough, however the batch is written and in whatever order sizes
/// come.
#[test]
fn budget_of_slots_times_batch_is_enough() {
    let write = |tensors: usize, by_name: bool| -> Write {
        Box::new(move |slot| {
            let spec = TensorSpec::new(DType::U8, [256]);
            if by_name {
                for n in 0..tensors {
                    slot.tensor(&n.to_string(), &spec)?.fill(n as u8);
                }
            } else {
                let arrays: Vec<Vec<u8>> = (0..tensors).map(|n| vec![n as u8; 256]).collect();
                let leaf = |a| HostArray::new(spec.clone(), a).map(Tree::Leaf);
                slot.put(&Tree::List(arrays.iter().map(|a| leaf(a)).collect::<Result<_>>()?))?;
            }
            Ok(true)
        })
    };
    // Nor is more taken where no budget is stated.
    for (by_name, budget) in [(true, 3 * 768), (false, 3 * 768), (true, usize::MAX), (false, usize::MAX)] {
        for sizes in [[3, 3, 3, 3, 3, 3], [1, 2, 3, 3, 3, 3], [3, 1, 2, 1, 3, 3], [1, 1, 1, 3, 3, 3]] {
            let device = device();
            let options = Options {
                pinned_slots: Some(3),
                pinned_budget: budget,
                device_budget: budget,
                ..options("exact", 3)
            };
            let script = Script::new(sizes.map(|tensors| write(tensors, by_name)));
            let feeder = Feeder::new(&device, script, options).unwrap();
            for tensors in sizes {
                let batch = feeder.next_batch().unwrap().unwrap();
                let expected: Vec<Vec<u8>> = (0..tensors).map(|n| vec![n as u8; 256]).collect();
                assert_eq!(read_back(&device, &batch), expected);
            }
            let c = device.counters();
            assert!(c.pinned_bytes <= 3 * 768 && c.device_bytes <= 3 * 768, "{c:?}");
        }
    }
}

#[test]
fn growth_to_max_depth_is_bounded() {
    let device = device();
    let options = Options { max_depth: Some(4), ..options("grow", 1) };
    let feeder = Feeder::new(&device, Numbers::even(30, 512), options).unwrap();
    let mut held: Vec<_> = (0..4).map(|_| feeder.next_batch().unwrap().unwrap()).collect();
    assert_eq!(feeder.next_batch_for(ms(50)).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(device.counters().device_bytes, 4 * 512);
    held.clear();
    assert_eq!(drain(&feeder).0, (4..30).collect::<Vec<_>>());
    assert_eq!(device.counters().device_bytes, 4 * 512);
    // A budget is met while growing, too: the batch that needs one slot more than it allows is refused.
    let options = Options { max_depth: Some(4), device_budget: 1100, ..self::options("grow", 1) };
    let feeder = Feeder::new(&device, Numbers::even(30, 512), options).unwrap();
    let first: Vec<_> = (0..2).map(|_| feeder.next_batch().unwrap().unwrap()).collect();
    assert_eq!(feeder.next_batch().unwrap_err().kind(), ErrorKind::Budget);
    assert_eq!(read_back(&device, &first[1]), [content(1, 0, 512)]);
}

#[test]
fn impossible_shapes_are_refused() {
    let device = device();
    let half = usize::MAX / 2;
    for shape in
        [vec![usize::MAX, 2], vec![half, 2, 2], vec![half + 1], vec![half - 10], vec![1 << 33, 1 << 33]]
    {
        let write: Write = Box::new(move |slot| {
            slot.tensor("small", &TensorSpec::new(DType::U8, [10]))?;
            slot.tensor("huge", &TensorSpec::new(DType::U8, shape)).map(|_| true)
        });
        let feeder = Feeder::new(&device, Script::new([write]), options("huge", 1)).unwrap();
        let error = feeder.next_batch().unwrap_err();
        assert!(!matches!(error.kind(), ErrorKind::Panic), "{error}");
        assert!(feeder.next_batch().unwrap().is_none());
    }
    // An extent of 0 makes any shape empty.
    let write: Write =
        Box::new(|slot| slot.tensor("empty", &TensorSpec::new(DType::U8, [1 << 40, 0])).map(|_| true));
    assert_eq!(read_back(&device, &one(&device, write)), [vec![]; 1]);
}

/// A source that was refused room may go on with less, and nothing of what was refused remains.
#[test]
fn refused_tensors_leave_nothing_behind() {
    let device = device();
    let write: Write = Box::new(|slot| {
        let big = TensorSpec::new(DType::U8, [10_000]);
        slot.tensor("kept", &TensorSpec::new(DType::U8, [5]))?.fill(5);
        assert_eq!(slot.tensor("big", &big).unwrap_err().kind(), ErrorKind::Budget);
        let zeros = vec![0; 10_000];
        let array = Tree::Leaf(HostArray::new(big, &zeros)?);
        assert_eq!(slot.put(&Tree::List(vec![array.clone(), array])).unwrap_err().kind(), ErrorKind::Budget);
        slot.tensor("small", &TensorSpec::new(DType::U8, [3]))?.fill(3);
        Ok(true)
    });
    let options = Options { pinned_budget: 2000, ..options("refused", 1) };
    let feeder = Feeder::new(&device, Script::new([write]), options).unwrap();
    let batch = feeder.next_batch().unwrap().unwrap();
    assert_eq!(read_back(&device, &batch), [vec![5; 5], vec![3; 3]]);
    let tree = Tree::Map(vec![("kept".to_owned(), Tree::Leaf(0)), ("small".to_owned(), Tree::Leaf(1))]);
    assert_eq!(batch.tree(), &tree);
}

#[test]
fn a_batch_the_device_has_no_room_for_ends_a_pump_too() {
    let device = Device::simulated(3);
    let options = Options { device_budget: 300, ..options("pump", 2) };
    let mut pump = Pump::new(&device, Numbers::even(5, 256), options).unwrap();
    assert_eq!(pump.step().unwrap(), Pumped::Fed);
    assert_eq!(pump.step().unwrap(), Pumped::Ended);
    assert_eq!(pump.step().unwrap(), Pumped::Ended);
    assert_eq!(pump.try_next_batch().unwrap().unwrap().index(), 0);
    assert_eq!(pump.try_next_batch().unwrap_err().kind(), ErrorKind::Budget);
    assert_eq!(pump.try_next_batch().unwrap_err().kind(), ErrorKind::Closed);
}

/// Slots that are made at the start keep their memory, whatever comes; what does not fit is refused.
#[test]
fn fixed_slots_never_move() {
    let device = device();
    let sizes = [100, 4000, 1, 4096, 0, 333, 4096, 7];
    let write = |size: usize| -> Write {
        Box::new(move |slot| {
            slot.tensor("x", &TensorSpec::new(DType::U8, [size]))?.copy_from_slice(&content(9, size, size));
            Ok(true)
        })
    };
    let fixed = Options { slot_bytes: Some(4096), ..options("fixed", 3) };
    let too_large = 4097;
    let script = Script::new(sizes.into_iter().chain([too_large]).map(write));
    let feeder = Feeder::new(&device, script, fixed).unwrap();
    assert_eq!(device.counters().device_bytes, 3 * 4096, "made at the start");
    let mut addresses = [None; 3];
    for size in sizes {
        let batch = feeder.next_batch().unwrap().unwrap();
        assert_eq!(read_back(&device, &batch), [content(9, size, size)]);
        let stream = device.stream("reader").unwrap();
        let now = batch.on(&stream).unwrap().tensor("x").unwrap().cuda_address();
        assert_eq!(now.is_some(), on_cuda());
        assert_eq!(*addresses[batch.slot()].get_or_insert(now), now, "slot {}", batch.slot());
    }
    assert_eq!(device.counters().device_bytes, 3 * 4096);
    let refused = feeder.next_batch().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Budget);
    for part in ["4097 bytes", "\"fixed\"", "4096", "slot_bytes"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    let both = Options { slot_bytes: Some(4096), device_budget: 8000, ..options("both", 3) };
    let refused = Feeder::new(&device, Script::new([]), both).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Budget, "{refused}");
}
