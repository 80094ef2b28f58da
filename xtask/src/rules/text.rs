//! What the pages and all other text keep to.

use super::File;

/// What a newcomer types; the README must hold both as they are.
const COMMANDS: &[&str] = &["cargo run --release -- play", "cargo xtask test"];

/// The tops of folders that exist on somebody's machine only. (In two parts, so that this file obeys, too.)
const MACHINE: &[&str] = &[
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "home/"),
    concat!("/", "Users/"),
    concat!("/", "tmp/"),
];

/// Files in which other people's text is kept as it is.
const FOREIGN: &[&str] = &["Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE"];

pub fn readme(files: &[File]) -> Vec<String> {
    let Some(readme) = files.iter().find(|f| f.path == "README.md") else {
        return vec!["README.md: it is missing; it is the first thing a newcomer reads".into()];
    };
    let missing = COMMANDS.iter().filter(|command| !readme.text.contains(*command));
    missing.map(|command| format!("README.md: it must show `{command}` as it is typed")).collect()
}

pub fn machine_paths(files: &[File]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in files.iter().filter(|f| !FOREIGN.contains(&f.path.as_str())) {
        for (i, line) in file.text.lines().enumerate() {
            if let Some(path) = MACHINE.iter().find(|path| starts_a_path(line, path)) {
                violations.push(format!(
                    "{}:{}: {path}… is a folder of one machine; use a path from the root of the repository, or \
                     ask the system for its temporary folder",
                    file.path,
                    i + 1
                ));
            }
        }
    }
    violations
}

/// Whether `top` stands in `line` as the beginning of a path, and not in the middle of one or of an address.
fn starts_a_path(line: &str, top: &str) -> bool {
    line.match_indices(top).any(|(at, _)| {
        !line[..at]
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')' | '>'))
    })
}

/// Relative links in Markdown pages whose file is not in the repository.
pub fn links(files: &[File]) -> Vec<String> {
    let mut violations = Vec::new();
    for page in files.iter().filter(|f| f.path.ends_with(".md")) {
        for link in relative_links(&page.text) {
            let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let target = resolve(folder, link);
            let below = format!("{target}/");
            let exists = target.is_empty()
                || files.iter().any(|f| f.path == target || f.path.starts_with(&below))
                || super::root().join(&target).exists();
            if !exists {
                violations
                    .push(format!("{}: the link to {link} leads nowhere; correct or remove it", page.path));
            }
        }
    }
    violations
}

/// The targets of `[…](target)` that are neither addresses nor places in the same page, without their `#place`.
fn relative_links(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](").filter_map(|(at, _)| {
        let target = text[at + 2..].split_once(')')?.0;
        let target = target.split('#').next().unwrap_or_default();
        let is_file = !target.is_empty() && !target.contains(':') && !target.contains(char::is_whitespace);
        is_file.then_some(target)
    })
}

fn resolve(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_readme_without_its_commands_is_told() {
        assert!(readme(&[])[0].contains("missing"));
        let violations = readme(&[file("README.md", "Run `cargo run --release -- play`.")]);
        assert_eq!(violations, ["README.md: it must show `cargo xtask test` as it is typed"]);
        assert!(readme(&[file("README.md", &COMMANDS.join("\n"))]).is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_told() {
        for top in MACHINE {
            assert_eq!(machine_paths(&[file("a.md", &format!("see `{top}me/a.txt`"))]).len(), 1, "{top}");
            assert_eq!(machine_paths(&[file("a.md", &format!("see docs{top}a.txt"))]).len(), 0, "{top}");
            assert_eq!(machine_paths(&[file("Cargo.lock", top)]).len(), 0, "{top}");
        }
    }

    #[test]
    fn a_link_to_nothing_is_told() {
        let pages = |link: &str| [file("docs/a.md", &format!("[b]({link})")), file("docs/b.md", "")];
        assert!(links(&pages("c-that-is-not-there.md"))[0].contains("leads nowhere"));
        for link in ["b.md", "./b.md#top", "../docs/b.md", "../docs", "#here", "https://example.org/a"] {
            assert!(links(&pages(link)).is_empty(), "{link}");
        }
    }
}
