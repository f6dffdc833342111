//! Text of others as Markdown, and lines that fit the screen.

/// Columns of a line at most; `layout.rs` checks it.
const WIDTH: usize = 120;

/// The text with the signs escaped that Markdown would take for its own; what is code stays.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at > 0 {
            escaped.push('`');
        }
        let is_code = at % 2 == 1;
        for sign in part.chars() {
            if !is_code && "*<\\".contains(sign) {
                escaped.push('\\');
            }
            escaped.push(sign);
        }
    }
    escaped
}

/// The words in lines of [`WIDTH`] columns at most. `first` stands before the first line, blanks of the same width
/// before the others.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let mut lines = vec![first.to_owned()];
    let mut is_empty = true;
    for word in words(text) {
        let (length, line) = (word.chars().count(), lines.last_mut());
        match line {
            Some(line) if is_empty => line.push_str(&word),
            Some(line) if line.chars().count() + 1 + length <= WIDTH => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
        is_empty = false;
    }
    lines.join("\n") + "\n"
}

/// What may be parted by the end of a line: code is not, and a line that began with a dash would begin a list.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_code = false;
    for word in text.split_whitespace() {
        let is_mark = ["-", "+", "*", "#", ">"].contains(&word)
            || word.ends_with(['.', ')']) && word[..word.len() - 1].parse::<u32>().is_ok();
        match words.last_mut() {
            Some(last) if is_code || is_mark => *last = format!("{last} {word}"),
            _ => words.push(word.to_owned()),
        }
        is_code ^= word.matches('`').count() % 2 == 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_markdown_are_escaped_outside_of_code() {
        let text = r"a * or <b>, but `*/2 <c>` as it is";
        assert_eq!(escaped(text), r"a \* or \<b>, but `*/2 <c>` as it is");
    }

    #[test]
    fn lines_end_at_the_edge_and_the_next_begin_under_the_text() {
        let word = "x".repeat(60);
        let text = format!("{word} {} {word}", "y".repeat(57));
        let wanted = format!("- {word} {}\n  {word}\n", "y".repeat(57));
        assert_eq!(wrapped("- ", &text), wanted);
        assert_eq!(wanted.lines().next().unwrap().chars().count(), 120);
        assert_eq!(wrapped("- ", ""), "- \n");
    }

    #[test]
    fn no_line_begins_within_code_or_like_a_list() {
        let text = format!("{} `30 2 * * mon-fri` or - or 3. ends", "x".repeat(110));
        let wanted = format!("{}\n`30 2 * * mon-fri` or - or 3. ends\n", "x".repeat(110));
        assert_eq!(wrapped("", &text), wanted);
        let text = format!("{} - ends", "x".repeat(119));
        assert_eq!(wrapped("", &text), format!("{} -\nends\n", "x".repeat(119)));
    }
}
