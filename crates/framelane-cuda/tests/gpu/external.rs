//! What is not a graphics API's is refused, and nothing is left behind. (Real imports are tested where there is a
//! graphics API to export: in the crate that shows.)

use crate::{download, gpu, pattern, stream, upload};
use framelane_cuda::{DeviceBuffer, Kind, Timeline};
use std::fs::File;

/// S8: after a failed import the next calls work as if there had been none.
#[test]
#[cfg(unix)]
fn a_descriptor_of_something_else_is_refused_and_leaves_no_error() {
    let Some(context) = gpu() else { return };
    let stream = stream(&context);
    for _ in 0..3 {
        let nothing = || std::os::fd::OwnedFd::from(File::open("/dev/null").unwrap());
        // SAFETY: it is no memory at all, and the driver must say so: that is the test.
        let memory = unsafe { DeviceBuffer::import(&context, nothing(), 4096, 4096, false) };
        let error = memory.unwrap_err();
        assert_eq!(error.kind(), Kind::Argument, "{error}");
        assert!(error.to_string().contains("memory of the graphics device"), "{error}");
        // SAFETY: as above.
        let timeline = unsafe { Timeline::import(&context, nothing()) };
        assert_eq!(timeline.unwrap_err().kind(), Kind::Argument);
        let bytes = pattern(5000, 3);
        assert_eq!(download(&stream, &upload(&stream, &bytes)), bytes);
    }
    let nothing = || std::os::fd::OwnedFd::from(File::open("/dev/null").unwrap());
    for (allocated, bytes) in [(10, 11), (10, 0)] {
        // SAFETY: refused before the driver is asked.
        let memory = unsafe { DeviceBuffer::import(&context, nothing(), allocated, bytes, false) };
        assert!(memory.unwrap_err().to_string().contains("cannot be mapped"));
    }
}
