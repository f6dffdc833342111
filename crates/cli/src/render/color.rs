//! Colour, where it helps and is wanted.

use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// What a text means; never the only sign of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Care,
    Faint,
}

impl Tone {
    /// The text with escape sequences around it.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Bad => "31",
            Self::Care => "33",
            Self::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether to use colour. `no_color` is the variable NO_COLOR; empty counts as unset
/// (no-color.org). A flag is stronger than the variable.
pub(crate) fn wanted(flag: Color, no_color: Option<&str>, terminal: bool) -> bool {
    match flag {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && no_color.is_none_or(str::is_empty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_and_yields_to_no_color() {
        for (flag, no_color, terminal, expected) in [
            (Color::Auto, None, true, true),
            (Color::Auto, Some(""), true, true),
            (Color::Auto, Some("1"), true, false),
            (Color::Auto, None, false, false),
            (Color::Always, Some("1"), false, true),
            (Color::Never, None, true, false),
        ] {
            assert_eq!(
                wanted(flag, no_color, terminal),
                expected,
                "{flag:?} {no_color:?}"
            );
        }
    }
}
