//! What this crate's tests share with those of others.

#[path = "../../../../testing/skip.rs"]
mod skip;
pub use skip::skip;

use framelane::ErrorKind;

/// What a machine without a graphics adapter cannot open; without one the test is skipped.
#[allow(dead_code, reason = "tests of OpenGL open none")]
#[track_caller]
pub fn opened<T>(opened: framelane::Result<T>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(why) if why.kind() == ErrorKind::Unsupported => {
            skip(why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
