//! How the program ends: exit codes, and the one sentence about what went wrong.

use crate::console;
use framelane::Error;

/// How a command ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It did what was asked.
    Done,
    /// A signal stopped it, in good order; this is the exit code for that signal.
    Signal(u8),
}

/// How a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line makes no sense: exit code 2.
    Usage(Error),
    /// The work could not be done: exit code 1.
    Work(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Work(error)
    }
}

/// What a command returns.
pub type Outcome = Result<Ended, Failure>;

/// Say what is to be said about the outcome, and make the process's exit code of it.
pub fn code(outcome: Outcome) -> u8 {
    match outcome {
        Ok(Ended::Done) => 0,
        Ok(Ended::Signal(code)) => code,
        Err(Failure::Work(error)) => {
            console::say(&format!("framelane: {error}"));
            1
        }
        Err(Failure::Usage(error)) => {
            console::say(&format!("framelane: {error} (see `--help` of the command)"));
            2
        }
    }
}
