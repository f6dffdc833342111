//! Columns as kubectl's: as wide as their widest cell, three spaces between them.

use carillon_plan::printable::one_line;

use super::color::Tone;

const GAP: &str = "   ";

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell in a tone, of one line.
    pub(crate) fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self {
            text: one_line(text.as_ref()).into_owned(),
            tone,
        }
    }

    /// The cell, cut to `most` characters.
    pub(crate) fn cut(mut self, most: usize) -> Self {
        if let Some((at, _)) = self.text.char_indices().nth(most.saturating_sub(1))
            && self.text[at..].chars().count() > 1
        {
            self.text.truncate(at);
            self.text.push('…');
        }
        self
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new<T: AsRef<str>>(headers: &[T]) -> Self {
        Self {
            headers: headers
                .iter()
                .map(|text| text.as_ref().to_owned())
                .collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Rows so far.
    pub(crate) fn height(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn render(&self, headers: bool, color: bool) -> String {
        let mut lines: Vec<Vec<Cell>> = Vec::new();
        if headers {
            lines.push(self.headers.iter().map(Cell::from).collect());
        }
        lines.extend(self.rows.iter().cloned());
        let widths: Vec<usize> = (0..self.headers.len())
            .map(|column| {
                let cells = lines.iter().filter_map(|line| line.get(column));
                cells.map(Cell::width).max().unwrap_or(0)
            })
            .collect();
        let mut out = String::new();
        for line in &lines {
            let mut text = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                let painted = if color {
                    cell.tone.paint(&cell.text)
                } else {
                    cell.text.clone()
                };
                text.push_str(&painted);
                text.push_str(&" ".repeat(width.saturating_sub(cell.width())));
                text.push_str(GAP);
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_spaces() {
        let mut table = Table::new(&["NAME", "WHY"]);
        table.row(["a".into(), Cell::new("two\nlines", Tone::Bad)]);
        table.row(["longer".into(), "".into()]);
        assert_eq!(
            table.render(true, false),
            "NAME     WHY\na        two lines\nlonger\n"
        );
        assert_eq!(
            table.render(false, true),
            "a        \x1b[31mtwo lines\x1b[0m\nlonger\n"
        );
    }

    #[test]
    fn a_cell_is_cut_at_characters_and_says_so() {
        let cut = |text: &str, most| Cell::from(text).cut(most).text;
        assert_eq!(cut("größer", 4), "grö…");
        assert_eq!(cut("four", 4), "four");
        assert_eq!(cut("", 4), "");
    }
}
