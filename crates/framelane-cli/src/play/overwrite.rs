//! Refusing to write over what is read: creating an output would destroy the input before it is read.

use super::options::{Json, Network, Options, To};
use framelane::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// # Errors
/// [`ErrorKind::Argument`] if what is written, by `--to` or by `--json`, is something that is read, or both are one
/// file. Names, links and ways to a file may differ.
pub fn check(options: &Options) -> Result<()> {
    let json = match &options.json {
        Some(Json::File(path)) => Some(path.as_path()),
        _ => None,
    };
    if let To::Path(to) = &options.to {
        refuse(options, Path::new(to), "--to")?;
        if json.is_some_and(|json| is_same(json, Path::new(to))) {
            let text = format!("--to and --json would both write {to}: give one of them another name");
            return Err(Error::new(ErrorKind::Argument, text));
        }
    }
    json.map_or(Ok(()), |json| refuse(options, json, "--json"))
}

/// # Errors
/// [`ErrorKind::Argument`] if `target`, to be written because of `option`, is something that is read.
pub fn refuse(options: &Options, target: &Path, option: &str) -> Result<()> {
    let inputs = options.inputs.iter().map(PathBuf::from);
    let network = match &options.network {
        Network::File(path) => Some(path.clone()),
        Network::Upscale | Network::None => None,
    };
    let hit = inputs.chain(network).find(|read| is_same(read, target) || is_replaced(read, target));
    match hit {
        None => Ok(()),
        Some(read) => Err(Error::new(
            ErrorKind::Argument,
            format!("{} cannot be read and replaced at once: give {option} another name", read.display()),
        )),
    }
}

/// Whether a folder of pictures at `target` would replace the picture `read`, one of another such folder.
fn is_replaced(read: &Path, target: &Path) -> bool {
    let is_frame =
        read.file_name().is_some_and(|n| n.to_string_lossy().starts_with("frame-")) && read.is_file();
    is_frame && target.is_dir() && read.parent().is_some_and(|folder| is_same(&at(folder), target))
}

/// The folder, also if it is the one in which the program was started.
fn at(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
}

/// Whether two paths lead to one file or folder, or would if it were there.
fn is_same(a: &Path, b: &Path) -> bool {
    match (a.metadata(), b.metadata()) {
        (Ok(one), Ok(other)) => is_one(a, &one, b, &other),
        (Err(_), Err(_)) => {
            let place =
                |path: &Path| Some((at(path.parent()?).canonicalize().ok()?, path.file_name()?.to_owned()));
            place(a).is_some_and(|place_a| place(b) == Some(place_a))
        }
        _ => false,
    }
}

/// By what the file system calls it, so that a second name (a hard link) is seen, too.
#[cfg(unix)]
fn is_one(_: &Path, one: &std::fs::Metadata, _: &Path, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_one(a: &Path, _: &std::fs::Metadata, b: &Path, _: &std::fs::Metadata) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn one_file_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("a.y4m"), "").unwrap();
        fs::write(path("b.y4m"), "").unwrap();
        assert!(is_same(&path("a.y4m"), &path("sub/../a.y4m")));
        assert!(!is_same(&path("a.y4m"), &path("b.y4m")));
        assert!(!is_same(&path("a.y4m"), &path("c.y4m")));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("a.y4m", path("soft.y4m")).unwrap();
            fs::hard_link(path("a.y4m"), path("hard.y4m")).unwrap();
            assert!(is_same(&path("a.y4m"), &path("soft.y4m")));
            assert!(is_same(&path("hard.y4m"), &path("soft.y4m")));
        }
    }

    #[test]
    fn files_to_come_are_told_apart_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        assert!(is_same(&path("new.mp4"), &path("sub/../new.mp4")));
        assert!(!is_same(&path("new.mp4"), &path("newer.mp4")));
        assert!(is_same(Path::new("new-file.mp4"), Path::new("./new-file.mp4")));
        assert!(!is_same(&path("nowhere/a"), &path("nowhere/a")), "neither can be written");
    }

    #[test]
    fn pictures_of_the_folder_that_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("frame-000001.png"), "").unwrap();
        fs::write(path("cat.png"), "").unwrap();
        assert!(is_replaced(&path("frame-000001.png"), folder.path()));
        assert!(!is_replaced(&path("cat.png"), folder.path()));
        assert!(!is_replaced(&path("frame-000001.png"), &path("..")));
    }
}
