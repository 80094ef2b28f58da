//! The driver: there or not, which version, started once.

use crate::api::{Api, api};
use crate::error::{CudaError, Result, check};
use std::fmt;
use std::sync::OnceLock;

/// The newest CUDA version that a driver serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// 13 of 13.2.
    pub major: u32,
    /// 2 of 13.2.
    pub minor: u32,
}

impl DriverVersion {
    /// The oldest that this crate works with: its kernels are PTX of CUDA 12.0.
    pub const OLDEST: Self = Self { major: 12, minor: 0 };

    fn from_number(number: u32) -> Self {
        Self { major: number / 1000, minor: number % 1000 / 10 }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The driver's functions, with the driver started.
///
/// Success is remembered; a failure is not, so that a driver that was not ready is asked again.
pub(crate) fn driver() -> Result<&'static Api> {
    static STARTED: OnceLock<()> = OnceLock::new();
    let api = api()?;
    if STARTED.get().is_none() {
        let version = version(api)?;
        if version < DriverVersion::OLDEST {
            return Err(CudaError::old_driver(version, DriverVersion::OLDEST));
        }
        // SAFETY: takes a number; may be called any number of times, from any thread.
        check("cuInit", unsafe { (api.cuInit)(0) })?;
        let _ = STARTED.set(());
    }
    Ok(api)
}

/// The version of the installed driver. Starts nothing.
///
/// # Errors
/// [`crate::Kind::NoDriver`] or [`crate::Kind::OldDriver`].
pub fn driver_version() -> Result<DriverVersion> {
    version(api()?)
}

fn version(api: &Api) -> Result<DriverVersion> {
    let mut number = 0;
    // SAFETY: writes one number; needs no initialisation.
    check("cuDriverGetVersion", unsafe { (api.cuDriverGetVersion)(&mut number) })?;
    Ok(DriverVersion::from_number(number.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_driver_writes_them() {
        assert_eq!(DriverVersion::from_number(12040).to_string(), "12.4");
        assert_eq!(DriverVersion::from_number(13000).to_string(), "13.0");
        assert!(DriverVersion::from_number(11080) < DriverVersion::OLDEST);
    }
}
