//! Devices.
pub mod hazard {}
