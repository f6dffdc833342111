//! Columns as kubectl's: as wide as their widest cell, three spaces between them. Where a row would not fit the
//! terminal, free text is cut.

use std::borrow::Cow;

use carillon_plan::printable::one_line;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::color::Tone;

const GAP: &str = "   ";

/// No column is cut to less.
const LEAST: usize = 12;

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

    fn cut(&self, most: usize) -> Cow<'_, str> {
        cut(&self.text, most)
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// The text, cut to `most` columns of the terminal.
pub(super) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.width() <= most {
        return Cow::Borrowed(text);
    }
    let mut cut = String::new();
    for c in text.chars() {
        if cut.width() + c.width().unwrap_or(0) + 1 > most {
            break;
        }
        cut.push(c);
    }
    cut.push('…');
    Cow::Owned(cut)
}

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// With a line of headers.
    pub(crate) headers: bool,
    /// With colours.
    pub(crate) color: bool,
    /// Columns of the terminal; `None` where nothing is cut.
    pub(crate) room: Option<usize>,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Columns of free text, which may be cut.
    free: Vec<bool>,
    /// Columns are at least so wide.
    least: Vec<usize>,
}

impl Table {
    pub(crate) fn new<T: AsRef<str>>(headers: &[T]) -> Self {
        Self {
            headers: headers
                .iter()
                .map(|text| text.as_ref().to_owned())
                .collect(),
            rows: Vec::new(),
            free: vec![false; headers.len()],
            least: vec![0; headers.len()],
        }
    }

    /// Columns with these headers are cut where a row would not fit the terminal.
    pub(crate) fn cut(self, headers: &[&str]) -> Self {
        self.cut_unless(false, headers)
    }

    /// The same, but not where the whole text is asked for.
    pub(crate) fn cut_unless(mut self, whole: bool, headers: &[&str]) -> Self {
        let headers = if whole { &[] } else { headers };
        for (header, free) in self.headers.iter().zip(&mut self.free) {
            *free |= headers.contains(&header.as_str());
        }
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Rows so far.
    pub(crate) fn height(&self) -> usize {
        self.rows.len()
    }

    /// As wide as a table printed before, so that rows that are printed later stand below it.
    pub(crate) fn at_least(&mut self, widths: &[usize]) {
        for (least, width) in self.least.iter_mut().zip(widths) {
            *least = *width.max(least);
        }
    }

    /// The widths of the columns.
    pub(crate) fn widths(&self, style: Style) -> Vec<usize> {
        let header = |column: usize| {
            if style.headers {
                self.headers[column].width()
            } else {
                0
            }
        };
        let widths = (0..self.headers.len()).map(|column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(Cell::width).max().unwrap_or(0);
            widest.max(header(column)).max(self.least[column])
        });
        let widths = widths.collect();
        match style.room {
            Some(room) => fit(widths, &self.free, room),
            None => widths,
        }
    }

    pub(crate) fn render(&self, style: Style) -> String {
        let widths = self.widths(style);
        let headers: Vec<Cell> = self.headers.iter().map(Cell::from).collect();
        let headers = style.headers.then_some(&headers);
        let mut out = String::new();
        for line in headers.into_iter().chain(&self.rows) {
            let mut text = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                let shown = cell.cut(*width);
                let painted = if style.color {
                    Cow::Owned(cell.tone.paint(&shown))
                } else {
                    Cow::Borrowed(&*shown)
                };
                text.push_str(&painted);
                text.push_str(&" ".repeat(width.saturating_sub(shown.width())));
                text.push_str(GAP);
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Takes from the widest column of free text, again and again, until a row fits or none can be narrower.
fn fit(mut widths: Vec<usize>, free: &[bool], room: usize) -> Vec<usize> {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > room {
        let columns = widths.iter_mut().zip(free);
        let widest = columns.filter(|(width, free)| **free && **width > LEAST);
        let Some((width, _)) = widest.max_by_key(|(width, _)| **width) else {
            break;
        };
        *width -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_spaces() {
        let mut table = Table::new(&["NAME", "WHY"]);
        table.row(["a".into(), Cell::new("two\nlines", Tone::Bad)]);
        table.row(["longer".into(), "".into()]);
        let plain = Style {
            headers: true,
            ..Style::default()
        };
        let color = Style {
            color: true,
            ..Style::default()
        };
        assert_eq!(
            table.render(plain),
            "NAME     WHY\na        two lines\nlonger\n"
        );
        assert_eq!(
            table.render(color),
            "a        \x1b[31mtwo lines\x1b[0m\nlonger\n"
        );
    }

    #[test]
    fn a_cell_is_cut_at_signs_and_says_so() {
        let cut = |text: &str, most| Cell::from(text).cut(most).into_owned();
        assert_eq!(cut("größer", 4), "grö…");
        assert_eq!(cut("four", 4), "four");
        assert_eq!(cut("", 4), "");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("cafe\u{301} au lait", 5), "cafe\u{301}…");
    }

    #[test]
    fn on_a_terminal_the_widest_free_text_is_cut_and_nothing_else() {
        let mut table = Table::new(&["NAME", "STATUS", "AGE"]).cut(&["STATUS"]);
        table.row([
            "a-name-as-long-as-this".into(),
            "x".repeat(60).into(),
            "5m".into(),
        ]);
        let style = |room| Style {
            room,
            ..Style::default()
        };
        let whole = table.render(style(None));
        assert_eq!(whole.trim_end().chars().count(), 22 + 3 + 60 + 3 + 2);
        let cut = table.render(style(Some(60)));
        assert_eq!(cut.trim_end().chars().count(), 60);
        assert!(cut.contains("xxx…   5m"), "{cut}");
        let narrow = table.render(style(Some(10)));
        let expected = format!("a-name-as-long-as-this   {}…   5m\n", "x".repeat(LEAST - 1));
        assert_eq!(narrow, expected);
    }

    #[test]
    fn of_two_free_columns_the_wider_gives_way_first() {
        for (widths, room, expected) in [
            (vec![4, 40, 20], 200, vec![4, 40, 20]),
            (vec![4, 40, 20], 60, vec![4, 30, 20]),
            (vec![4, 40, 20], 40, vec![4, 15, 15]),
            (vec![4, 40, 20], 3, vec![4, LEAST, LEAST]),
            (vec![50, 5, 5], 20, vec![50, 5, 5]),
        ] {
            assert_eq!(fit(widths, &[false, true, true], room), expected, "{room}");
        }
    }

    #[test]
    fn wide_signs_keep_columns_below_each_other() {
        let mut table = Table::new(&["NAME", "AGE"]);
        table.row(["日本".into(), "1s".into()]);
        table.row(["cafe\u{301}".into(), "2s".into()]);
        assert_eq!(
            table.render(Style::default()),
            "日本   1s\ncafe\u{301}   2s\n"
        );
    }
}
