//! What of a text of others may be stored and shown. The only list of characters that may not.

use std::borrow::Cow;

/// Stands for a character that is not shown, so that it is seen that there was one.
const INSTEAD: char = '\u{fffd}';

/// Whether a character could move the cursor, turn the direction of a text, hide a part of it, or make
/// two texts look the same: controls, marks of direction, and what takes no room. Variation selectors
/// are left: they choose between two shapes of one sign.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Soft hyphen, grapheme joiner, fillers.
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'
            | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            // Direction: Arabic letter mark, marks, embeddings, overrides, isolates.
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            // Without width; separators of lines and paragraphs; invisible operators.
            | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            // Annotations, formats of shorthand and music, tags.
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// The text as one line: what would end a line, or skip a part of it, is a space.
pub fn one_line(text: &str) -> Cow<'_, str> {
    replaced(text, |c| match c {
        '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        _ => INSTEAD,
    })
}

/// The text with its lines and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| match c {
        '\n' | '\t' => c,
        _ => INSTEAD,
    })
}

/// The text in quotes, on one line. Marks that belong to the sign before them stay, as they do no harm there; one that
/// would join the quote is escaped, as are signs that could mislead.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '\n' | '\r' | '\t' => out.extend(c.escape_debug()),
            c if is_harmful(c) => out.extend(c.escape_unicode()),
            c if out.len() == 1 && c != '\'' => out.extend(c.escape_debug()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn replaced(text: &str, instead: impl Fn(char) -> char) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let shown = |c| if is_harmful(c) { instead(c) } else { c };
    Cow::Owned(text.chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mislead_is_seen_and_the_rest_stays() {
        let bad = "\0\u{7}\u{8}\u{1b}\u{7f}\u{80}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\u{200f}\u{202a}\
                   \u{202e}\u{2060}\u{2066}\u{2069}\u{206f}\u{feff}\u{e0001}\u{e007f}";
        assert!(bad.chars().all(is_harmful));
        assert_eq!(
            one_line(bad),
            INSTEAD.to_string().repeat(bad.chars().count())
        );
        for good in ["größer, 日本語, שלום, مرحبا, é, 👍🏽, ✔️ …", "", "a b"]
        {
            assert!(
                matches!(one_line(good), Cow::Borrowed(same) if same == good),
                "{good}"
            );
            assert!(matches!(lines(good), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn what_is_quoted_keeps_its_marks_and_hides_nothing() {
        for (text, expected) in [
            ("", r#""""#),
            ("no space left", r#""no space left""#),
            ("it's \"a\\b\"\n\tc", r#""it's \"a\\b\"\n\tc""#),
            ("'tis", r#""'tis""#),
            (
                "cafe\u{301} nai\u{308}ve \u{e5}",
                "\"cafe\u{301} nai\u{308}ve \u{e5}\"",
            ),
            ("\u{301}e", r#""\u{301}e""#),
            (
                "a\u{202e}b\u{200b}c\u{1b}[2J\u{115f}",
                r#""a\u{202e}b\u{200b}c\u{1b}[2J\u{115f}""#,
            ),
        ] {
            assert_eq!(quoted(text), expected);
            assert!(!quoted(text).contains(is_harmful));
        }
    }

    #[test]
    fn a_line_stays_one_and_lines_stay_lines() {
        let text = "a\tb\nc\r\nd\u{85}e\u{2028}f\u{1b}[2J";
        assert_eq!(one_line(text), "a b c  d e f\u{fffd}[2J");
        assert_eq!(
            lines(text),
            "a\tb\nc\u{fffd}\nd\u{fffd}e\u{fffd}f\u{fffd}[2J"
        );
    }
}
