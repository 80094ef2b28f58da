//! Runs the real program: each kind of input and output, each kind of bad input, and the ways to stop it.

mod bad;
mod command_line;
mod devices;
mod help;
mod inputs;
mod models;
mod outputs;
mod stopping;
mod window;
