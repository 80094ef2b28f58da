//! Rust source without its comments and literals, so that rules meet code and nothing else.

/// `source` with every comment and the inside of every string and character literal made blank. Lines stay
/// where they are.
pub fn only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match literal_or_comment(&chars, at) {
            Some(end) => end,
            None => {
                code.push(chars[at]);
                at += 1;
                continue;
            }
        };
        code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    code
}

/// Where the comment or literal that begins at `at` ends, if one begins there.
fn literal_or_comment(chars: &[char], at: usize) -> Option<usize> {
    let next = |n: usize| chars.get(at + n).copied().unwrap_or(' ');
    match chars[at] {
        '/' if next(1) == '/' => Some(find(chars, at, |rest| rest[0] == '\n', 0)),
        '/' if next(1) == '*' => Some(block_comment(chars, at)),
        '"' => Some(string(chars, at + 1)),
        'r' if !continues_a_word(chars, at) => raw_string(chars, at + 1),
        '\'' if next(1) == '\\' => {
            let closing = find(chars, at + 3, |rest| rest[0] == '\'', 1);
            Some(closing)
        }
        // A character, not a lifetime: those have no second quote right after one character.
        '\'' if next(2) == '\'' => Some(at + 3),
        _ => None,
    }
}

fn find(chars: &[char], from: usize, found: impl Fn(&[char]) -> bool, length: usize) -> usize {
    (from..chars.len()).find(|i| found(&chars[*i..])).map_or(chars.len(), |i| i + length)
}

/// Block comments nest.
fn block_comment(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < chars.len() {
        if chars[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if chars[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at.min(chars.len())
}

fn string(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// The end of `r"…"` or `r#"…"#`, `at` being after its `r`.
fn raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    (chars.get(at + hashes) == Some(&'"')).then(|| {
        let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
        find(chars, at + hashes + 1, |rest| rest.starts_with(&closing), closing.len())
    })
}

/// Whether the `r` at `at` is the last letter of a name and not the prefix of a literal.
fn continues_a_word(chars: &[char], at: usize) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    match at.checked_sub(1).map(|i| chars[i]) {
        // `br"…"` and `cr"…"`.
        Some('b' | 'c') => at >= 2 && word(chars[at - 2]),
        Some(before) => word(before),
        None => false,
    }
}

/// Whether `line` holds `word` and not only as a part of a longer one.
pub fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squeezed(source: &str) -> String {
        only(source).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_go_and_lines_stay() {
        assert_eq!(squeezed("a // unsafe\nb /* x /* y */ unsafe */ c"), "a b c");
        assert_eq!(only("a\n/* b\nc */ d").lines().count(), 3);
    }

    #[test]
    fn literals_go() {
        assert_eq!(squeezed(r#"f("unsafe \" unsafe", 'x', '\'', '"') + g"#), "f( , , , ) + g");
        assert_eq!(squeezed("f(r#\"unsafe \" \"#, br\"a\\\", r\"b\") + g"), "f( , b , ) + g");
    }

    #[test]
    fn lifetimes_and_names_stay() {
        assert_eq!(squeezed("fn f<'a>(r: &'a str, bar: u8) {}"), "fn f<'a>(r: &'a str, bar: u8) {}");
        assert_eq!(squeezed("r#type + for_\"unsafe\""), "r#type + for_");
    }

    #[test]
    fn unfinished_sources_end() {
        for source in ["\"a", "/* a", "'\\", "r#\"a", "\"\\", "// a"] {
            assert_eq!(only(source).chars().count(), source.chars().count(), "{source}");
        }
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("x = unsafe {", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
    }
}
