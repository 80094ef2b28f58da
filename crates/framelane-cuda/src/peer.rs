//! Who is at the other end of a socket.

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd};

/// The user whose process connected to this Unix socket, or listens at its other end.
///
/// # Errors
/// [`std::io::ErrorKind::Unsupported`] where the system cannot be asked; what it says if it is no connected Unix socket.
pub fn peer_user(socket: impl AsFd) -> Result<u32> {
    let Some((level, option)) = OPTION else { return Err(std::io::ErrorKind::Unsupported.into()) };
    let mut peer = Credentials::default();
    let mut bytes = size_of::<Credentials>() as u32;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: writes at most `bytes` bytes of three numbers, each of which may be anything.
    let code = unsafe { getsockopt(number, level, option, (&raw mut peer).cast(), &mut bytes) };
    match code {
        0 if bytes as usize == size_of::<Credentials>() => Ok(peer.user),
        0 => Err(std::io::ErrorKind::InvalidData.into()),
        _ => Err(Error::last_os_error()),
    }
}

/// The kernel's `ucred`. rustix's says that the process has a number other than 0, which one in a namespace that is
/// not seen from here (another container) has not.
#[repr(C)]
#[derive(Default)]
struct Credentials {
    process: i32,
    user: u32,
    group: u32,
}

/// `SOL_SOCKET` and `SO_PEERCRED`, which a few architectures number otherwise.
const OPTION: Option<(i32, i32)> = if cfg!(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64",
        target_arch = "loongarch64"
    )
)) {
    Some((1, 17))
} else {
    None
};

// SAFETY: as the C library, which the standard library links, declares it.
unsafe extern "C" {
    fn getsockopt(socket: i32, level: i32, option: i32, value: *mut std::ffi::c_void, bytes: *mut u32)
    -> i32;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn it_is_us_at_the_other_end() {
        use std::os::unix::fs::MetadataExt;
        let us = std::fs::metadata("/proc/self").unwrap().uid();
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!((peer_user(&here).unwrap(), peer_user(&there).unwrap()), (us, us));
        assert!(peer_user(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
