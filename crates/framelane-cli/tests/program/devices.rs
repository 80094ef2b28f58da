//! `--device`: the same pictures by every way, and one sentence where there is no such device.

use crate::help::*;
use framelane::device::cuda_devices;

/// The y4m that a run writes, and its figures. `more`: its further options.
#[track_caller]
fn written(more: &[&str]) -> (Vec<u8>, Figures, String) {
    let folder = Folder::new();
    let to = folder.name("a.y4m");
    let args = ["testsrc:64x48@25", "--frames", "12", "--runtime", "tract", "--to", &to, "--json", "-"];
    let run = play(&[&args[..], more].concat()).ok();
    (std::fs::read(folder.path("a.y4m")).unwrap(), run.figures(), run.err.clone())
}

#[test]
fn cuda_gives_the_same_pictures_or_says_why_not() {
    let there = cuda_devices();
    if let Err(why) = &there {
        // Before the network is loaded, and where the reader can do something about it.
        let run = play(&["testsrc", "--frames", "1", "--to", "none", "--device", "cuda"]);
        let said = run.failed(1);
        assert!(said.contains(&format!("--device cuda:0: {why}; or leave out --device")), "{said}");
        assert!(!run.err.contains("\nmodel "), "{}", run.err);
        skip("cuda_gives_the_same_pictures_or_says_why_not (its half with a GPU)", why);
        return;
    }
    for model in ["none", "upscale"] {
        let (by_cpu, ..) = written(&["--model", model, "--device", "cpu"]);
        let (by_cuda, figures, said) = written(&["--model", model, "--device", "cuda"]);
        assert!(by_cpu == by_cuda, "{model}: the pictures differ");
        assert_eq!(figures.frames(), [12, 12, 0, 0]);
        let bytes = |key: &str| figures.0["bytes"][key].as_u64().unwrap();
        let picture = 64 * 48 * 3 * 12;
        let expected = match model {
            "none" => ("cuda:0", picture, picture),
            // There and back, there again for the network, and four times as much back.
            _ => ("cuda:0, network on cpu", 2 * picture, 5 * picture),
        };
        let device = figures.0["paths"]["device"].as_str().unwrap();
        assert_eq!((device, bytes("to_device"), bytes("from_device")), expected);
        if model == "upscale" {
            assert!(said.contains("by way of   cuda:0: 12 batches"), "{said}");
            assert!(said.contains("copied to cuda:0 and back"), "{said}");
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let said = play(&["testsrc", "--frames", "1", "--to", "none", "--device", "cuda:99"]).failed(1);
    assert!(said.contains("CUDA") || said.contains("cuda:99"), "{said}");
    let said = play(&["testsrc", "--frames", "1", "--to", "none", "--device", "gpu"]).failed(2);
    assert!(said.contains("cuda:N"), "{said}");
}
