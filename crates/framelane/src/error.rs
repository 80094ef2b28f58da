//! One error type for the library: a kind to match on and one sentence to read.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What went wrong, coarsely: enough to decide what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The data is damaged, truncated or not what its name says.
    Input,
    /// The data is fine, but this build or machine cannot handle it.
    Unsupported,
    /// An argument or option makes no sense here.
    Argument,
    /// A network failed to load or to run.
    Model,
    /// A device refused or failed an operation.
    Device,
    /// A stated budget of memory would be exceeded.
    Budget,
    /// The operating system refused to read or write.
    Io,
    /// The other side has stopped: nothing more will come or be taken.
    Closed,
    /// Something did not happen within the given time.
    Timeout,
    /// Somebody asked for the work to stop.
    Cancelled,
    /// Two accesses to the same bytes are not ordered (see [`crate::device::hazard`]).
    Hazard,
    /// Code given to the library panicked; the message is the panic's.
    Panic,
}

/// An error: its [`ErrorKind`], one sentence that says what, where and what to do, and its cause.
///
/// Cheap to clone, so that one failure can be told to several waiters. `{:?}` prints the sentence, too, since that is
/// what a `main` that returns it shows; `{:#?}` prints what it is made of.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: Arc<str>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Make an error from its kind and its sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into(), cause: None }
    }

    /// Attach the error that caused this one (see [`StdError::source`]).
    pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error, its sentence led by `context` (`"clip.mp4"` → `"clip.mp4: …"`).
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message).into();
        self
    }

    /// An error for a panic that was caught, with the panic's own message.
    pub fn from_panic(place: &str, payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a value that is not text".to_owned());
        Self::new(ErrorKind::Panic, format!("{place} panicked: {text}"))
    }

    /// An error for a failed system call, naming what was being done and to what.
    pub fn io(doing: impl fmt::Display, cause: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("{doing}: {cause}")).because(cause)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return write!(f, "{} ({:?})", self.message, self.kind);
        }
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("cause", &self.cause)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref().map(|c| c.as_ref() as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_main_prints_is_the_sentence() {
        let error =
            Error::io("clip.mp4 cannot be opened", std::io::ErrorKind::NotFound.into()).context("play");
        let sentence = error.to_string();
        assert_eq!(format!("{error:?}"), format!("{sentence} (Io)"));
        assert!(sentence.starts_with("play: clip.mp4 cannot be opened: ") && !sentence.contains('\n'));
        let parts = format!("{error:#?}");
        assert!(parts.contains("kind: Io") && parts.contains("cause: Some"), "{parts}");
    }
}
