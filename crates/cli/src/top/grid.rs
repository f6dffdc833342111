//! Where each square stands on a terminal: rows of nodes, group by group.

/// How much of the terminal a node takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Density {
    /// A sign and a space.
    Spaced,
    /// A sign.
    Signs,
    /// Half of a sign: two nodes, one above the other, as two colours.
    Halves,
}

/// A line of the grid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Line {
    /// The name of a group, with how far it is.
    Group(usize),
    /// Squares from a first one on, and below them in the same line others.
    Squares { upper: Row, lower: Row },
}

/// Squares that stand side by side.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Row {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Grid {
    pub(crate) density: Density,
    pub(crate) lines: Vec<Line>,
    rows: Vec<Row>,
}

/// Puts groups of squares into a room, as large as they fit. What fits in no density is scrolled.
pub(crate) fn arrange(
    groups: &[(String, usize)],
    width: usize,
    height: usize,
    halves: bool,
) -> Grid {
    let mut grid = of_density(groups, width, Density::Spaced);
    for (density, allowed) in [(Density::Signs, true), (Density::Halves, halves)] {
        if grid.lines.len() > height && allowed {
            grid = of_density(groups, width, density);
        }
    }
    grid
}

fn of_density(groups: &[(String, usize)], width: usize, density: Density) -> Grid {
    let columns = match density {
        Density::Spaced => width.div_ceil(2),
        Density::Signs | Density::Halves => width,
    };
    let columns = columns.max(1);
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    let mut begin = 0;
    for (at, (name, size)) in groups.iter().enumerate() {
        if !(name.is_empty() && groups.len() == 1) {
            lines.push(Line::Group(at));
        }
        let of_group: Vec<Row> = (begin..begin + size)
            .step_by(columns)
            .map(|start| Row {
                start,
                length: columns.min(begin + size - start),
            })
            .collect();
        let together = if density == Density::Halves { 2 } else { 1 };
        lines.extend(of_group.chunks(together).map(|pair| Line::Squares {
            upper: pair[0],
            lower: pair.get(1).copied().unwrap_or_default(),
        }));
        rows.extend(of_group);
        begin += size;
    }
    Grid {
        density,
        lines,
        rows,
    }
}

impl Row {
    fn has(self, square: usize) -> bool {
        (self.start..self.start + self.length).contains(&square)
    }
}

impl Grid {
    /// The square so many rows below another one, or above it.
    pub(crate) fn below(&self, square: usize, rows: isize) -> usize {
        let Some(at) = self.rows.iter().position(|row| row.has(square)) else {
            return square;
        };
        let last = self.rows.len() - 1;
        let to = self.rows[at.saturating_add_signed(rows).min(last)];
        let column = square - self.rows[at].start;
        to.start + column.min(to.length - 1)
    }

    /// The line in which a square stands.
    pub(crate) fn line_of(&self, square: usize) -> usize {
        let found = self.lines.iter().position(|line| match line {
            Line::Group(_) => false,
            Line::Squares { upper, lower } => upper.has(square) || lower.has(square),
        });
        found.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(sizes: &[usize]) -> Vec<(String, usize)> {
        let named = sizes.len() > 1;
        let name = |n: usize| {
            if named {
                format!("g{n}")
            } else {
                String::new()
            }
        };
        sizes
            .iter()
            .enumerate()
            .map(|(n, size)| (name(n), *size))
            .collect()
    }

    #[test]
    fn squares_are_as_large_as_they_fit() {
        for (size, halves, expected) in [
            (100, true, Density::Spaced),
            (101, true, Density::Signs),
            (200, true, Density::Signs),
            (201, true, Density::Halves),
            (201, false, Density::Signs),
            (9000, true, Density::Halves),
        ] {
            let grid = arrange(&groups(&[size]), 20, 10, halves);
            assert_eq!(grid.density, expected, "{size} {halves}");
        }
    }

    #[test]
    fn every_square_stands_in_one_line_and_each_group_begins_a_line() {
        for density in [Density::Spaced, Density::Signs, Density::Halves] {
            let grid = of_density(&groups(&[7, 0, 30]), 10, density);
            let mut squares = Vec::new();
            for line in &grid.lines {
                if let Line::Squares { upper, lower } = line {
                    for row in [upper, lower] {
                        squares.extend(row.start..row.start + row.length);
                    }
                }
            }
            assert_eq!(squares, (0..37).collect::<Vec<_>>(), "{density:?}");
            let headed = |line: &&Line| matches!(line, Line::Group(_));
            assert_eq!(grid.lines.iter().filter(headed).count(), 3);
            for square in 0..37 {
                let line = grid.lines[grid.line_of(square)];
                assert!(matches!(line, Line::Squares { .. }), "{density:?} {square}");
            }
        }
    }

    #[test]
    fn a_step_down_keeps_the_column_where_there_is_one() {
        let grid = of_density(&groups(&[13, 4]), 10, Density::Signs);
        // 0..10, 10..13, then 13..17 of the other group.
        assert_eq!(grid.below(1, 1), 11);
        assert_eq!(grid.below(9, 1), 12);
        assert_eq!(grid.below(12, 1), 15);
        assert_eq!(grid.below(16, 1), 16);
        assert_eq!(grid.below(15, -2), 2);
        assert_eq!(grid.below(2, -5), 2);
        assert_eq!(of_density(&[], 10, Density::Signs).below(0, 1), 0);
    }
}
