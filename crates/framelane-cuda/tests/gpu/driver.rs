//! Devices, contexts, and what is said where there are none.

use crate::common::skip;
use crate::gpu;
use framelane_cuda::{Context, Kind, device_count, device_is_active, devices, driver_version};
use std::process::Command;

/// One sentence, whatever is missing.
#[test]
fn without_a_gpu_one_sentence_says_why() {
    let Err(error) = Context::open(0) else { return skip("there is a GPU") };
    let sentence = error.to_string();
    assert!(matches!(error.kind(), Kind::NoDriver | Kind::OldDriver | Kind::NoDevice), "{sentence}");
    assert!(!sentence.contains('\n') && sentence.len() < 250, "{sentence}");
    assert_eq!(devices().unwrap_err().kind(), error.kind());
    if error.kind() == Kind::NoDriver {
        assert_eq!(driver_version().unwrap_err(), error);
        assert!(sentence.contains("there is no NVIDIA driver"), "{sentence}");
    }
}

#[test]
fn devices_are_described_without_being_started() {
    let Some(context) = gpu() else { return };
    let all = devices().unwrap();
    assert_eq!(all.len(), device_count().unwrap() as usize);
    for device in &all {
        println!("{device} {} pci {:?} pools {}", device.uuid_text(), device.pci, device.memory_pools);
        assert!(
            device.memory > 1 << 28 && device.multiprocessors > 0 && device.uuid != [0; 16],
            "{device:?}"
        );
    }
    println!("driver for CUDA {}", driver_version().unwrap());
    let none = Context::open(all.len() as u32).unwrap_err();
    assert_eq!(none.kind(), Kind::Argument, "{none}");
    assert!(none.to_string().contains(&format!("no GPU cuda:{}", all.len())), "{none}");
    assert!(context.memory().is_ok(), "after the failure the next call works");
}

#[test]
fn one_device_has_one_context() {
    let Some(first) = gpu() else { return };
    assert!(first.same(&Context::open(0).unwrap()));
    let memory = first.memory().unwrap();
    assert!(memory.free <= memory.total && memory.total <= first.info().memory);
}

/// In a process of its own: other tests here use device 0.
#[test]
fn looking_at_devices_starts_none_and_device_1_leaves_device_0_alone() {
    let Some(_gpu) = gpu() else { return };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "driver::child_touches_only_its_device", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    if device_count().unwrap() < 2 {
        println!("not checked: one GPU, so nothing was run on device 1");
    }
}

#[test]
#[ignore = "run by the test above"]
fn child_touches_only_its_device() {
    let count = devices().unwrap().len() as u32;
    for ordinal in 0..count {
        assert!(!device_is_active(ordinal).unwrap(), "looking started cuda:{ordinal}");
    }
    let used = count - 1;
    let context = Context::open(used).unwrap();
    let stream = crate::stream(&context);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = crate::pattern(5000, 1);
            let device = crate::upload(&stream, &bytes);
            assert_eq!(crate::download(&stream, &device), bytes);
        });
    });
    for ordinal in 0..count {
        assert_eq!(device_is_active(ordinal).unwrap(), ordinal == used, "cuda:{ordinal}");
    }
    drop((stream, context));
    assert!(!device_is_active(used).unwrap(), "the last handle lets the context go");
}
