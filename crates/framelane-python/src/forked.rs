//! What does not outlive a fork: threads, and the driver's contexts, are the parent's alone.

use framelane::{Error, ErrorKind, Result};

/// A value that belongs to the process that made it. In a child that was forked it cannot be reached, and is not dropped:
/// its threads are not there to end.
pub struct Own<T> {
    /// Until it is dropped.
    value: Option<T>,
    process: u32,
}

impl<T> Own<T> {
    pub fn new(value: T) -> Self {
        Self { value: Some(value), process: std::process::id() }
    }

    /// # Errors
    /// [`ErrorKind::Unsupported`] in a child that was forked.
    pub fn get(&self) -> Result<&T> {
        self.value.as_ref().filter(|_| self.is_here()).ok_or_else(|| {
            let text = "this was made before the process was forked, and works in the parent alone: make it anew here, or \
                        start processes with the method \"spawn\"";
            Error::new(ErrorKind::Unsupported, text)
        })
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if !self.is_here() {
            std::mem::forget(value);
        }
    }
}
