//! Where a window listens: a socket by its name, in a folder that nobody else can enter.
//!
//! A window that died leaves its socket behind; the next of that name replaces it. Whether it is dead is found by
//! connecting. Between finding and replacing another could do the same, so both happen under a lock on the folder, which
//! the system lets go when its holder dies.

use super::system::{Socket, own_user};
use crate::error::{Error, ErrorKind, Result};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAX_NAME: usize = 64;

/// Where the window of this name listens, in a folder that was made or checked.
pub fn path_of(name: &str) -> Result<PathBuf> {
    check_window_name(name)?;
    Ok(folder(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))?.join(name))
}

/// Whether a window can have this name ([`super::Listener::bind`]).
///
/// # Errors
/// [`ErrorKind::Argument`] with what it may be.
pub fn check_window_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(fits) && !matches!(name, "." | "..") {
        return Ok(());
    }
    let sentence = format!(
        "{name:?} cannot be the name of a window that others show in: take 1 to {MAX_NAME} letters, digits, '.', \
         '_' or '-'"
    );
    Err(Error::new(ErrorKind::Argument, sentence))
}

fn folder(runtime: Option<PathBuf>) -> Result<PathBuf> {
    let folder = match runtime.filter(|folder| folder.is_absolute()) {
        Some(runtime) => runtime.join("framelane"),
        None => Path::new("/tmp").join(format!("framelane-{}", own_user())),
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io(format!("the folder {} cannot be made", folder.display()), e));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)
        .map_err(|e| Error::io(format!("the folder {} cannot be looked at", folder.display()), e))?;
    match fault_of(&found, own_user()) {
        None => Ok(folder),
        Some(fault) => {
            let sentence = format!(
                "the folder {} {fault}, so others could listen there in our place: remove it",
                folder.display()
            );
            Err(Error::new(ErrorKind::Io, sentence))
        }
    }
}

fn fault_of(found: &Metadata, user: u32) -> Option<&'static str> {
    match found {
        _ if !found.is_dir() => Some("is no folder"),
        _ if found.uid() != user => Some("is another user's"),
        _ if found.mode() & 0o077 != 0 => Some("is open to other users"),
        _ => None,
    }
}

/// A socket that listens, and its file, which is removed on drop.
#[derive(Debug)]
pub struct Place {
    pub socket: Socket,
    pub path: PathBuf,
    /// Device and number of the file, to tell it from another window's.
    file: (u64, u64),
}

impl Place {
    /// Listen at `path`, in place of a window that is dead.
    pub fn take(path: PathBuf) -> Result<Self> {
        let failed = |e| Error::io(format!("nobody can be heard at {}", path.display()), e);
        let _lock = lock(&path).map_err(failed)?;
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
            Ok(found) if !found.file_type().is_socket() => {
                let sentence = format!("{} is no socket: remove it, or take another name", path.display());
                return Err(Error::new(ErrorKind::Io, sentence));
            }
            Ok(_) => match Socket::connect(&path, Duration::ZERO) {
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(&path).map_err(failed)?;
                }
                // Whatever else it says, somebody is there.
                _ => {
                    let sentence = format!(
                        "another window listens at {}: close it, or take another name",
                        path.display()
                    );
                    return Err(Error::new(ErrorKind::Argument, sentence));
                }
            },
        }
        let socket = Socket::listen(&path).map_err(failed)?;
        let file = fs::symlink_metadata(&path).map(|m| (m.dev(), m.ino())).map_err(failed)?;
        Ok(Self { socket, path, file })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let removed = lock(&self.path).and_then(|_lock| {
            let found = fs::symlink_metadata(&self.path)?;
            // Somebody may have removed it, and another window made its own.
            if (found.dev(), found.ino()) == self.file { fs::remove_file(&self.path) } else { Ok(()) }
        });
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                log::warn!("{} stays behind, to be replaced by the next window: {e}", self.path.display());
            }
            _ => {}
        }
    }
}

/// Held for a few system calls, so waiting for it is short.
fn lock(path: &Path) -> io::Result<File> {
    let folder = File::open(path.parent().unwrap_or(path))?;
    folder.lock()?;
    Ok(folder)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let base = std::env::temp_dir().join(format!("framelane-place-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let made = folder(Some(base.clone())).unwrap();
        assert_eq!(made, base.join("framelane"));
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        assert_eq!(folder(Some(base.clone())).unwrap(), made, "it is there already");
        assert_eq!(fault_of(&fs::metadata(&made).unwrap(), own_user() + 1), Some("is another user's"));
        for mode in [0o710, 0o701, 0o777] {
            fs::set_permissions(&made, Permissions::from_mode(mode)).unwrap();
            let error = folder(Some(base.clone())).unwrap_err();
            assert!(error.to_string().contains("is open to other users"), "{error}");
        }
        fs::remove_dir(&made).unwrap();
        symlink("/", &made).unwrap();
        assert!(folder(Some(base.clone())).unwrap_err().to_string().contains("is no folder"));
        fs::remove_dir_all(&base).unwrap();
        let error = folder(Some(base)).unwrap_err();
        assert!(error.kind() == ErrorKind::Io && error.to_string().contains("cannot be made"), "{error}");
    }

    #[test]
    fn without_a_folder_of_the_session_it_is_the_users_in_tmp() {
        for runtime in [None, Some(PathBuf::new()), Some("relative".into())] {
            assert_eq!(folder(runtime).unwrap(), Path::new("/tmp").join(format!("framelane-{}", own_user())));
        }
    }
}
