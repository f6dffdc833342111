//! Draws what is looked at.

use carillon_dashboard::page::Address;
use carillon_plan::printable::one_line;
use carillon_plan::view::squares::{Class, Counts, Square};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use serde_json::Value;

use super::grid::{Density, Grid, Line, Row, arrange};
use super::view::View;
use super::words;
use crate::render::lengths;

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) color: bool,
    /// Signs beyond ASCII.
    pub(crate) unicode: bool,
}

const KEYS: &str =
    "arrows move   enter explain   n failed   / find   g group   esc back   ? help   q quit";
/// Signs of the bar of a group.
const GROUP_BAR: usize = 20;

impl Paint {
    /// Colours that people who see no red or no green tell apart, too.
    fn of(self, class: Class) -> Style {
        if !self.color {
            return Style::new();
        }
        Style::new().fg(match class {
            Class::Done => Color::Indexed(36),
            Class::Active => Color::Indexed(39),
            Class::Failed => Color::Indexed(208),
            Class::Waiting => Color::Indexed(244),
            Class::LeftOut => Color::Indexed(239),
        })
    }

    fn sign(self, class: Class) -> &'static str {
        match (class, self.unicode) {
            (Class::Done, true) => "■",
            (Class::Active, true) => "▸",
            (Class::Failed, true) => "✖",
            (Class::Waiting, true) => "·",
            (Class::LeftOut, true) => "○",
            (Class::Done, false) => "=",
            (Class::Active, false) => ">",
            (Class::Failed, false) => "x",
            (Class::Waiting, false) => ".",
            (Class::LeftOut, false) => "-",
        }
    }

    fn halves(self) -> bool {
        self.color && self.unicode
    }

    /// A bar of all classes, so many signs long.
    fn bar(self, counts: &Counts, width: usize) -> Vec<Span<'static>> {
        let parts = Class::ALL.map(|class| (counts.of_class(class), class == Class::Failed));
        let lengths = lengths(parts, counts.nodes, width);
        let spans = Class::ALL.into_iter().zip(lengths);
        let spans = spans
            .map(|(class, length)| Span::styled(self.sign(class).repeat(length), self.of(class)));
        spans.collect()
    }
}

/// Draws it; gives where the squares stand.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View, paint: Paint, now: Timestamp) -> Grid {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ]);
    let [title, bar, counts, note, body, pointed, keys] = areas.areas(frame.area());
    let head = &view.page.head;
    frame.render_widget(titled(view, now), title);
    if let Some(counts) = words::counts(head) {
        frame.render_widget(Text::from(paint.bar(&counts, bar.width.into())), bar);
    }
    frame.render_widget(Text::from(words::summary(head)), counts);
    let noted = words::note(view, now);
    let tone = if paint.color {
        Style::new().fg(Color::Indexed(208))
    } else {
        Style::new()
    };
    frame.render_widget(Text::styled(noted, tone), note);
    let grid = if view.page.fleet.is_some() {
        squares(frame, view, paint, body)
    } else {
        if view.at == Address::Overview {
            table(frame, view, paint, body);
        } else {
            frame.render_widget(Paragraph::new(words::lines(head, now)), body);
        }
        arrange(&[], body.width.into(), body.height.into(), false)
    };
    let said = match view.square() {
        Some(square) => words::square(square),
        None => String::new(),
    };
    frame.render_widget(Text::styled(said, Modifier::BOLD), pointed);
    let last = match &view.find {
        Some(text) => format!("/{}", one_line(text)),
        None => KEYS.to_owned(),
    };
    frame.render_widget(Text::styled(last, Modifier::DIM), keys);
    popup(frame, view);
    grid
}

fn titled(view: &View, now: Timestamp) -> Text<'static> {
    let (name, state) = words::title(&view.at, &view.page.head, now);
    Text::from(vec![
        Span::styled(name, Modifier::BOLD),
        Span::raw("  "),
        Span::raw(state),
    ])
}

fn squares(frame: &mut Frame<'_>, view: &View, paint: Paint, area: Rect) -> Grid {
    let fleet = view.page.fleet.as_ref();
    let groups = fleet.map_or(&[][..], |fleet| &fleet.groups);
    let (width, height) = (area.width.into(), area.height.into());
    let grid = arrange(groups, width, height, paint.halves());
    let first = scrolled(grid.line_of(view.cursor), grid.lines.len(), height);
    let mut start = 0;
    let begins: Vec<usize> = groups
        .iter()
        .map(|(_, size)| {
            start += size;
            start - size
        })
        .collect();
    let lines = grid
        .lines
        .iter()
        .skip(first)
        .take(height)
        .map(|line| match line {
            Line::Group(at) => {
                let (name, size) = &groups[*at];
                let all = &view.squares()[begins[*at]..begins[*at] + size];
                group(name, all, paint)
            }
            Line::Squares { upper, lower } => row(view, grid.density, paint, *upper, *lower),
        });
    let lines: Vec<Text<'_>> = lines.collect();
    frame.render_widget(Paragraph::new(lines), area);
    grid
}

/// The first line that is shown, so that the one of the cursor is in the middle.
fn scrolled(line: usize, lines: usize, height: usize) -> usize {
    line.saturating_sub(height / 2)
        .min(lines.saturating_sub(height))
}

fn group(name: &str, squares: &[Square], paint: Paint) -> Text<'static> {
    let counts = Counts::of(squares.iter().map(|one| one.look.class));
    let mut spans = paint.bar(&counts, GROUP_BAR);
    let Counts { done, failed, .. } = counts;
    let failed = if failed > 0 {
        format!(", {failed} failed")
    } else {
        String::new()
    };
    let text = format!(" {}  {done} of {}{failed}", one_line(name), squares.len());
    spans.push(Span::raw(text));
    Text::from(spans)
}

fn row(view: &View, density: Density, paint: Paint, upper: Row, lower: Row) -> Text<'static> {
    let all = view.squares();
    let pointed = |square: usize| square == view.cursor;
    let spans = (0..upper.length).map(|column| {
        let square = upper.start + column;
        let class = all[square].look.class;
        if density == Density::Halves {
            let below = (column < lower.length).then(|| lower.start + column);
            let color = |square: usize| {
                if pointed(square) {
                    return Some(Color::White);
                }
                paint.of(all[square].look.class).fg
            };
            let mut style = Style::new();
            style.fg = color(square);
            style.bg = below.and_then(color);
            return Span::styled("▀", style);
        }
        let mut style = paint.of(class);
        if pointed(square) {
            style = style.add_modifier(Modifier::REVERSED | Modifier::BOLD);
        }
        Span::styled(paint.sign(class), style)
    });
    let spans: Vec<Span<'_>> = match density {
        Density::Spaced => spans.flat_map(|span| [span, Span::raw(" ")]).collect(),
        Density::Signs | Density::Halves => spans.collect(),
    };
    Text::from(spans)
}

fn table(frame: &mut Frame<'_>, view: &View, paint: Paint, area: Rect) {
    let rows = view.rows();
    let height = usize::from(area.height);
    let first = scrolled(view.cursor, rows.len(), height);
    let name = |row: &Value| words::name(row);
    let widest = rows.iter().map(|row| name(row).chars().count()).max();
    let widest = widest.unwrap_or(0).min(usize::from(area.width) / 2);
    let lines = rows.iter().enumerate().skip(first).take(height);
    let lines = lines.map(|(at, row)| {
        let style = if at == view.cursor {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        let mut spans = vec![Span::styled(format!("{:<widest$} ", name(row)), style)];
        match words::counts(row) {
            Some(counts) => spans.extend(paint.bar(&counts, GROUP_BAR)),
            None => spans.push(Span::raw(" ".repeat(GROUP_BAR))),
        }
        spans.push(Span::raw(format!(" {}", words::state(row))));
        Text::from(spans)
    });
    let lines: Vec<Text<'_>> = lines.collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn popup(frame: &mut Frame<'_>, view: &View) {
    let Some(popup) = &view.popup else { return };
    let area = frame.area();
    let area = Rect {
        x: 0,
        y: 1.min(area.height),
        width: area.width,
        height: area.height.saturating_sub(2),
    };
    let block = Block::bordered().title(popup.title.clone());
    let text = Paragraph::new(popup.text.clone()).wrap(Wrap { trim: false });
    frame.render_widget(Clear, area);
    frame.render_widget(text.block(block).scroll((popup.scroll, 0)), area);
}

#[cfg(test)]
mod tests {
    use carillon_dashboard::page::{Fleet, ObjectAddress, Page};
    use carillon_plan::view::squares::Look;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;

    fn square(n: usize) -> Square {
        Square {
            node: format!("node-{n:05}"),
            look: Look {
                class: Class::ALL[n % 5],
                place: "Place".to_owned(),
                reason: String::new(),
                words: String::new(),
            },
        }
    }

    fn view(nodes: usize) -> View {
        let resource = carillon_dashboard::cluster::BROADCAST_JOBS;
        let mut view = View::new(Address::Object(ObjectAddress::new(resource, "ops", "fix")));
        let fleet = Fleet::alone((0..nodes).map(square).collect());
        view.show(Page {
            head: json!({"page": "broadcastjob", "headline": "Running", "counts": fleet.counts(),
                         "progress": {"etaSeconds": 100, "etaEarliestSeconds": 90, "etaLatestSeconds": 130}}),
            fleet: Some(fleet),
        });
        view
    }

    fn drawn(view: &View, paint: Paint, (width, height): (u16, u16)) -> (String, Grid) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut grid = None;
        terminal
            .draw(|frame| grid = Some(draw(frame, view, paint, Timestamp::UNIX_EPOCH)))
            .unwrap();
        (terminal.backend().to_string(), grid.unwrap())
    }

    const COLOR: Paint = Paint {
        color: true,
        unicode: true,
    };
    const PLAIN: Paint = Paint {
        color: false,
        unicode: false,
    };

    #[test]
    fn ten_thousand_nodes_fit_a_terminal_of_130_columns_and_50_lines() {
        let view = view(10_000);
        let (text, grid) = drawn(&view, COLOR, (130, 50));
        assert_eq!(grid.density, Density::Halves);
        assert!(grid.lines.len() <= 50 - 6, "{}", grid.lines.len());
        assert!(
            text.contains("10000 nodes: 2000 done, 2000 active"),
            "{text}"
        );
        assert!(text.contains("ETA 100s (90s to 2m10s)"), "{text}");
        // 38 lines of two rows each, and one of a row.
        assert_eq!(text.matches('▀').count(), 38 * 130 + 120);
    }

    #[test]
    fn without_colours_each_node_keeps_a_sign_of_its_own_and_the_rest_is_scrolled_to() {
        let mut view = view(1_000);
        let (text, grid) = drawn(&view, PLAIN, (40, 16));
        assert_eq!(grid.density, Density::Signs);
        assert!(text.contains("=>x.-=>x.-"), "{text}");
        view.cursor = 999;
        let (text, _) = drawn(&view, PLAIN, (40, 16));
        assert!(text.contains("node-00999"), "{text}");
    }

    #[test]
    fn no_size_of_a_terminal_is_too_small() {
        for size in [(1, 1), (3, 9), (200, 2), (7, 40)] {
            for nodes in [0, 1, 500] {
                drawn(&view(nodes), COLOR, size);
                drawn(&view(nodes), PLAIN, size);
            }
        }
    }
}
