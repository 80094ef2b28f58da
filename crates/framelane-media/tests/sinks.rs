//! Sinks that cannot write.

mod common;

use common::*;
use framelane::ErrorKind;
use framelane::frame::{FrameMeta, ImageSize};
use framelane_media::{SinkSpec, create};

fn spec(width: usize, height: usize) -> SinkSpec {
    SinkSpec::new(ImageSize::new(width, height).unwrap(), None)
}

#[test]
fn targets_that_make_no_sense() {
    let folder = folder();
    for name in ["a.avi", "a", "none.such"] {
        let error = create(&path(&folder, name).to_string_lossy(), &spec(32, 32)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(sentence(&error).contains("FILE.mp4"));
    }
    for (size, says) in [((4000, 2000), "4000×2000"), ((8, 8), "8×8")] {
        let error = create(&path(&folder, "a.mp4").to_string_lossy(), &spec(size.0, size.1)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(sentence(&error).contains(says));
    }
}

#[test]
fn folders_that_are_not_there() {
    let folder = folder();
    for name in ["no/a.mp4", "no/a.y4m"] {
        let error = create(&path(&folder, name).to_string_lossy(), &spec(32, 32)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(sentence(&error).contains(name));
    }
    std::fs::write(path(&folder, "file"), "").unwrap();
    let target = format!("{}/sub/", path(&folder, "file").display());
    assert_eq!(create(&target, &spec(32, 32)).err().unwrap().kind(), ErrorKind::Io);
}

#[test]
fn another_size_in_mid_stream() {
    let folder = folder();
    for name in ["a.mp4", "a.y4m", "a/"] {
        let target = format!("{}/{name}", folder.path().display());
        let mut sink = create(&target, &spec(32, 32)).unwrap();
        let good = ImageSize::new(32, 32).unwrap();
        sink.write(&vec![0; good.bytes()], good, &FrameMeta::new("x", 0)).unwrap();
        let bad = ImageSize::new(64, 32).unwrap();
        let error = sink.write(&vec![0; bad.bytes()], bad, &FrameMeta::new("x", 1)).unwrap_err();
        let text = sentence(&error);
        assert!(text.contains("32×32") && text.contains("64×32") && text.contains("frame 1 of x"), "{text}");
        assert_eq!(sink.finish().unwrap().frames, 1);
        assert_eq!(play_all(&target).len(), 1);
    }
}

#[test]
fn nothing_written() {
    let folder = folder();
    let file = path(&folder, "a.mp4");
    let summary = create(&file.to_string_lossy(), &spec(32, 32)).unwrap().finish().unwrap();
    assert_eq!((summary.frames, summary.bytes), (0, 0));
    assert!(!file.exists());
    let file = path(&folder, "a.y4m");
    create(&file.to_string_lossy(), &spec(32, 32)).unwrap().finish().unwrap();
    assert_eq!(play_all(&file).len(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let folder = folder();
    for name in ["a.mp4", "a.y4m"] {
        let file = path(&folder, name);
        std::os::unix::fs::symlink("/dev/full", &file).unwrap();
        let size = ImageSize::new(64, 64).unwrap();
        let mut sink = create(&file.to_string_lossy(), &spec(64, 64)).unwrap();
        let error = (0..100)
            .find_map(|n| sink.write(&vec![0; size.bytes()], size, &FrameMeta::new("x", n)).err())
            .expect("an error");
        assert_eq!(error.kind(), ErrorKind::Io);
        let text = sentence(&error);
        assert!(text.contains(name) && text.contains("full"), "{text}");
        drop(sink);
    }
}
