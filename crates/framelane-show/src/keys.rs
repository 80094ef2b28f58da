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
    /// Larger or smaller by this factor, around the mouse.
    Zoom(f64),
    /// The whole picture.
    Fit,
    /// A pixel of the picture on each of the screen.
    OwnSize,
    /// The pixel under the mouse, in numbers.
    Value,
    Info,
    Help,
    /// Take away the panes that have ended.
    Dismiss,
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
    ("wheel + -", "larger and smaller"),
    ("drag", "move the picture"),
    ("1", "its own size"),
    ("0", "all of it"),
    ("v", "the pixel under the mouse"),
    ("i", "rate, age and drops"),
    ("x", "take ended panes away"),
    ("h", "these keys"),
    ("q", "close"),
];

/// One hundredth of the picture's width.
const STEP: f32 = 0.01;

/// What one step of the wheel or the keys magnifies by.
pub(crate) const MAGNIFY: f64 = 1.25;

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
            "+" | "=" => Action::Zoom(MAGNIFY),
            "-" => Action::Zoom(1.0 / MAGNIFY),
            "0" => Action::Fit,
            "1" => Action::OwnSize,
            "v" => Action::Value,
            "i" => Action::Info,
            "h" | "?" => Action::Help,
            "x" => Action::Dismiss,
            "q" => Action::Close,
            _ => return None,
        },
        _ => return None,
    })
}

/// What a key is called: the text that it writes, or the name of one that writes none (`ArrowLeft`, `Escape`, `Space`).
pub(crate) fn name(key: &Key) -> String {
    match key {
        Key::Character(text) => text.to_string(),
        Key::Named(NamedKey::Space) => "Space".into(),
        Key::Named(named) => format!("{named:?}"),
        Key::Dead(_) | Key::Unidentified(_) => "Unidentified".into(),
    }
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
        assert_eq!(action(&Key::Character("y".into())), None);
    }
}
