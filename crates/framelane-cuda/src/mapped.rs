//! Host memory that two processes map, neither trusting the other.
//!
//! Both may write it at any time, so no `&[u8]` of it can be: the compiler may take such bytes to stay as they are. It is
//! seen as atomic words alone. Whatever the other process does is then at worst another number in a word, never
//! undefined behaviour; a torn picture is words of two pictures. All accesses have one size, since mixed sizes are not
//! ordered with each other.
//!
//! A file that shrinks under a mapping kills who touches it (SIGBUS). So the memory is a memfd whose size is sealed, and
//! one that came from elsewhere is not mapped before its seals and then its size were looked at.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;

/// Memory shared with another process: words, zero at first. Dropping it ends this process's mapping alone.
pub struct Mapped {
    start: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: it is reached as atomics alone, and owns its mapping.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The most bytes of one mapping.
    pub const MAX_BYTES: usize = 1 << 30;

    /// New memory of `bytes` bytes, and the descriptor by which another process can [open](Self::open) it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for 0 bytes, more than [`Self::MAX_BYTES`], or no multiple of 8;
    /// [`ErrorKind::Unsupported`] where the system is not Linux; what the system says otherwise.
    pub fn create(name: &str, bytes: usize) -> Result<(Self, OwnedFd)> {
        check_size(bytes)?;
        let memory = system::create(name, bytes)?;
        Ok((Self::map(&memory, bytes)?, memory))
    }

    /// Map memory that another process made. The descriptor is not needed afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if it is no memory of exactly `bytes` bytes whose size is sealed; otherwise as
    /// [`Self::create`].
    pub fn open(memory: impl AsFd, bytes: usize) -> Result<Self> {
        check_size(bytes)?;
        let memory = memory.as_fd();
        system::check(memory, bytes)?;
        Self::map(memory, bytes)
    }

    /// `memory` has exactly `bytes` bytes for ever.
    fn map(memory: impl AsFd, bytes: usize) -> Result<Self> {
        let start = system::map(memory.as_fd(), bytes)?;
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Its words. The other process may change them at any time.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, is `bytes` long, readable and writable, and lives as long as `self`;
        // its size is sealed, so that each word is backed; any bytes are words, and all in this process reach them
        // as atomics.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes / size_of::<AtomicU64>()) }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped once with this length; `words` are borrowed from `self`.
        let ended = unsafe { system::unmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(ended.is_ok(), "{ended:?}");
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapped({} bytes)", self.bytes)
    }
}

fn check_size(bytes: usize) -> Result<()> {
    if (1..=Mapped::MAX_BYTES).contains(&bytes) && bytes.is_multiple_of(size_of::<AtomicU64>()) {
        return Ok(());
    }
    let most = Mapped::MAX_BYTES;
    let sentence = format!("shared memory has a multiple of 8 bytes, at most {most}, not {bytes}");
    Err(Error::new(ErrorKind::InvalidInput, sentence))
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Error, ErrorKind, Result};
    use rustix::fs::{MemfdFlags, SealFlags};
    use rustix::mm::{MapFlags, ProtFlags};
    use std::ffi::c_void;
    use std::os::fd::{BorrowedFd, OwnedFd};

    /// Neither size nor seals change any more.
    const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

    /// `TMPFS_MAGIC`: ordinary pages. Huge ones can be sealed, too, but may be missing when they are touched.
    const ORDINARY: u64 = 0x0102_1994;

    pub fn create(name: &str, bytes: usize) -> Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Some systems allow no memory that could be executed; those before Linux 6.3 do not know the question.
        let memory = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
            made => made?,
        };
        rustix::fs::ftruncate(&memory, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&memory, SEALS)?;
        Ok(memory)
    }

    pub fn check(memory: BorrowedFd<'_>, bytes: usize) -> Result<()> {
        // Seals first: once they are there, the size is what it will be.
        let seals = rustix::fs::fcntl_get_seals(memory).unwrap_or(SealFlags::empty());
        if !seals.contains(SEALS) || rustix::fs::fstatfs(memory)?.f_type as u64 != ORDINARY {
            return Err(refusal("no ordinary memory with a sealed size".into()));
        }
        match rustix::fs::fstat(memory)?.st_size {
            size if u64::try_from(size).is_ok_and(|size| size == bytes as u64) => Ok(()),
            size => Err(refusal(format!("memory of {size} bytes, not {bytes}"))),
        }
    }

    fn refusal(what: String) -> Error {
        Error::new(ErrorKind::InvalidData, format!("a descriptor of shared memory is {what}"))
    }

    pub fn map(memory: BorrowedFd<'_>, bytes: usize) -> Result<*mut c_void> {
        let (access, at) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: the system picks the place, so nothing that is mapped is replaced.
        Ok(unsafe { rustix::mm::mmap(at, bytes, access, MapFlags::SHARED, memory, 0) }?)
    }

    /// # Safety
    /// `start` was mapped with `bytes`, and nothing refers to it any more.
    pub unsafe fn unmap(start: *mut c_void, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        Ok(unsafe { rustix::mm::munmap(start, bytes) }?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{ErrorKind, Result};
    use std::ffi::c_void;
    use std::os::fd::{BorrowedFd, OwnedFd};

    pub fn create(_: &str, _: usize) -> Result<OwnedFd> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn check(_: BorrowedFd<'_>, _: usize) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn map(_: BorrowedFd<'_>, _: usize) -> Result<*mut c_void> {
        Err(ErrorKind::Unsupported.into())
    }

    /// # Safety
    /// None: nothing is ever mapped.
    pub unsafe fn unmap(_: *mut c_void, _: usize) -> Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_one_mapping_writes_the_other_reads() {
        let (ours, memory) = Mapped::create("test", 4096).unwrap();
        let theirs = Mapped::open(&memory, 4096).unwrap();
        drop(memory);
        assert!(ours.words().len() == 512 && theirs.words().iter().all(|w| w.load(Relaxed) == 0));
        theirs.words()[511].store(7, Relaxed);
        assert_eq!(ours.words()[511].load(Relaxed), 7);
        drop(ours);
        assert_eq!(theirs.words()[511].load(Relaxed), 7);
    }

    #[test]
    fn its_size_is_for_ever() {
        let (_ours, memory) = Mapped::create("test", 4096).unwrap();
        for bytes in [0, 4095, 8192] {
            assert!(rustix::fs::ftruncate(&memory, bytes).is_err());
        }
        assert!(rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).is_err());
    }

    #[test]
    fn foreign_descriptors_are_refused() {
        let kind = |memory: &OwnedFd, bytes| Mapped::open(memory, bytes).unwrap_err().kind();
        let (_ours, memory) = Mapped::create("test", 4096).unwrap();
        assert_eq!(kind(&memory, 8192), ErrorKind::InvalidData);
        assert_eq!(kind(&memory, 8), ErrorKind::InvalidData);
        for bytes in [0, 12, Mapped::MAX_BYTES + 8, usize::MAX] {
            assert_eq!(kind(&memory, bytes), ErrorKind::InvalidInput);
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = rustix::fs::memfd_create("test", flags).unwrap();
        rustix::fs::ftruncate(&open, 4096).unwrap();
        assert_eq!(kind(&open, 4096), ErrorKind::InvalidData);
        rustix::fs::fcntl_add_seals(&open, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        assert_eq!(kind(&open, 4096), ErrorKind::InvalidData, "seals could still be added");
        rustix::fs::fcntl_add_seals(&open, SealFlags::WRITE | SealFlags::SEAL).unwrap();
        assert!(Mapped::open(&open, 4096).is_err(), "it cannot be written");
        for other in ["/dev/zero", "/proc/self/exe", "/"] {
            let other = std::fs::File::open(other).unwrap().into();
            assert_eq!(kind(&other, 4096), ErrorKind::InvalidData);
        }
    }
}
