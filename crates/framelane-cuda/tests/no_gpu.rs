//! What is said when the driver is too old, finds no GPU, or is not ready: with a driver made for the purpose.
//!
//! A library with the driver's functions is compiled on the spot (by rustc) and put first on the library path of
//! a child process.
#![cfg(target_os = "linux")]

mod common;

use framelane_cuda::{Context, Kind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The driver's functions, as this crate's table names them.
fn names() -> Vec<String> {
    let table = include_str!("../src/api.rs");
    let lines = table.lines().map(str::trim_start).filter(|l| l.starts_with("cu") && l.contains('('));
    lines.filter_map(|l| l.split('(').next()).map(str::to_owned).collect()
}

/// A driver that says it serves `version`, answers `cuInit` with the codes given, one after the other, and sees
/// no GPU. `None` where it cannot be made.
fn fake_driver(folder: &Path, names: &[String], version: u32, init: &[u32]) -> Option<()> {
    let mut source = format!(
        "use std::sync::atomic::{{AtomicUsize, Ordering}};
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        const INIT: &[u32] = &{init:?};
        #[unsafe(no_mangle)] pub extern \"C\" fn cuInit(_: u32) -> u32 {{
            INIT[CALLS.fetch_add(1, Ordering::SeqCst).min(INIT.len() - 1)]
        }}
        #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuDriverGetVersion(v: *mut i32) -> u32 {{ unsafe {{ *v = {version} }}; 0 }}
        #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuDeviceGetCount(v: *mut i32) -> u32 {{ unsafe {{ *v = 0 }}; 0 }}
        #[unsafe(no_mangle)] pub extern \"C\" fn cuDeviceGet(_: *mut i32, _: i32) -> u32 {{ 101 }}\n"
    );
    let special = ["cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet"];
    for name in names.iter().filter(|n| !special.contains(&n.as_str())) {
        source += &format!("#[unsafe(no_mangle)] pub extern \"C\" fn {name}() -> u32 {{ 999 }}\n");
    }
    let (file, library) = (folder.join("fake.rs"), folder.join("libcuda.so"));
    std::fs::write(&file, source).ok()?;
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let made = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-A", "warnings", "-C", "panic=abort", "-o"])
        .args([&library, &file])
        .status();
    made.is_ok_and(|s| s.success()).then_some(())
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("framelane-fake-driver-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What a child with such a driver says to two attempts to open device 0.
fn attempts(name: &str, names: &[String], version: u32, init: &[u32]) -> Option<Vec<String>> {
    let folder = folder(name);
    let made = fake_driver(&folder, names, version, init);
    if made.is_none() {
        common::skip("there is no rustc here to make a driver with");
    }
    let said = made.map(|()| {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_opens_twice", "--ignored", "--nocapture"])
            .env("LD_LIBRARY_PATH", &folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
        said.lines().filter(|l| l.contains(" | ")).map(str::to_owned).collect()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    said
}

#[test]
#[ignore = "run by the tests here"]
fn child_opens_twice() {
    for _ in 0..2 {
        let error = Context::open(0).unwrap_err();
        let sentence = error.to_string();
        assert!(!sentence.contains('\n'));
        println!("\n{:?} | {sentence}", error.kind());
    }
}

#[test]
fn the_table_is_read_in_full() {
    let names = names();
    assert!(names.len() > 50 && names.iter().any(|n| n == "cuGraphLaunch"), "{names:?}");
}

#[test]
fn a_driver_without_a_function_is_too_old() {
    let names: Vec<String> = names().into_iter().filter(|n| n != "cuMemAllocFromPoolAsync").collect();
    let Some(said) = attempts("lacking", &names, 12040, &[0]) else { return };
    assert_eq!(said.len(), 2);
    assert!(
        said[0].starts_with("OldDriver | ") && said[0].contains("no cuMemAllocFromPoolAsync"),
        "{said:?}"
    );
    assert_eq!(said[0], said[1]);
}

#[test]
fn a_driver_for_an_older_cuda_is_named() {
    let Some(said) = attempts("old", &names(), 11080, &[0]) else { return };
    assert!(said[0].contains("for CUDA 11.8; one for CUDA 12.0 or newer is needed"), "{said:?}");
    assert!(said[0].starts_with(&format!("{:?}", Kind::OldDriver)), "{said:?}");
}

#[test]
fn a_driver_without_a_gpu_says_so() {
    let Some(said) = attempts("none", &names(), 13000, &[100]) else { return };
    assert!(said[0].starts_with("NoDevice | ") && said[0].contains("no NVIDIA GPU is visible"), "{said:?}");
}

/// A failure is not remembered: the next call asks again, and here gets one step further.
#[test]
fn a_driver_that_was_not_ready_is_asked_again() {
    let Some(said) = attempts("busy", &names(), 12000, &[802, 0]) else { return };
    assert!(said[0].starts_with("Busy | ") && said[0].contains("try again in a moment"), "{said:?}");
    assert!(said[1].starts_with("Argument | ") && said[1].contains("no GPU cuda:0"), "{said:?}");
}

#[test]
fn a_driver_that_does_not_fit_its_kernel_module_says_what_to_do() {
    let Some(said) = attempts("mismatch", &names(), 12080, &[803]) else { return };
    assert!(said[0].starts_with("OldDriver | ") && said[0].contains("restart the machine"), "{said:?}");
}
