//! The program `framelane`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(framelane_cli::main(std::env::args_os()))
}
