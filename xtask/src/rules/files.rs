//! The text files that the rules read: what git tracks, and new files that it does not ignore.

use super::{File, output, program, root};

pub fn of_repository() -> Result<Vec<File>, String> {
    let listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listing = output(program("git").args(listing))
        .map_err(|e| format!("the rules read the files that git knows, so they need a git checkout: {e}"))?;
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|p| !p.is_empty()) {
        // A file deleted but not yet committed has no text; one that is not UTF-8 is no text.
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    if files.is_empty() {
        return Err("git lists no files here, so no rule was checked".into());
    }
    Ok(files)
}
