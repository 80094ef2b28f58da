//! The framelane program.
fn main() {}
