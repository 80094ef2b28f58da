//! What the keys do.

use winit::keyboard::{Key, NamedKey};

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Action {
    Pause,
    FullScreen,
    Screenshot,
    Split,
    /// Move the divider by this share of the picture's width.
    MoveDivider(f32),
    Info,
    Help,
    /// Escape: leave the help, then full screen, then the window.
    Back,
    Close,
}

/// The help, line by line.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("space", "pause and go on"),
    ("f", "full screen"),
    ("s", "save a screenshot"),
    ("b", "before and after"),
    ("left right", "move the divider"),
    ("i", "rate, age and drops"),
    ("h", "these keys"),
    ("q", "close"),
];

/// One hundredth of the picture's width.
const STEP: f32 = 0.01;

pub(crate) fn action(key: &Key) -> Option<Action> {
    Some(match key {
        Key::Named(NamedKey::Space) => Action::Pause,
        Key::Named(NamedKey::Escape) => Action::Back,
        Key::Named(NamedKey::ArrowLeft) => Action::MoveDivider(-STEP),
        Key::Named(NamedKey::ArrowRight) => Action::MoveDivider(STEP),
        Key::Named(NamedKey::F1) => Action::Help,
        Key::Named(NamedKey::F11) => Action::FullScreen,
        Key::Character(c) => match c.to_lowercase().as_str() {
            " " => Action::Pause,
            "f" => Action::FullScreen,
            "s" => Action::Screenshot,
            "b" => Action::Split,
            "i" => Action::Info,
            "h" | "?" => Action::Help,
            "q" => Action::Close,
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_of_the_help_does_something() {
        for (name, _) in HELP.iter().filter(|(name, _)| name.chars().count() == 1) {
            assert!(action(&Key::Character((*name).into())).is_some(), "{name}");
            assert!(action(&Key::Character(name.to_uppercase().into())).is_some(), "{name} with shift");
        }
        assert_eq!(action(&Key::Character("?".into())), Some(Action::Help));
        assert_eq!(action(&Key::Character("x".into())), None);
    }
}
