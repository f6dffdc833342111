//! Text for people: tables as kubectl prints them, ages, colour.

mod age;
mod bar;
mod color;
mod document;
mod format;
mod screen;
mod table;

pub(crate) use self::age::{age, duration, eta, seconds};
pub(crate) use self::bar::{Parts, lengths};
pub(crate) use self::color::{Color, Tone};
pub(crate) use self::document::yaml;
pub(crate) use self::format::Format;
pub(crate) use self::screen::Screen;
#[cfg(test)]
pub(crate) use self::table::Style;
pub(crate) use self::table::{Cell, Table};

/// Names that are shown of several.
pub(crate) const SAMPLE: usize = 3;

/// Names, and how many more there are.
pub(crate) fn sample(names: &[String], most: usize) -> String {
    let mut text = names
        .iter()
        .take(most)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > most {
        text.push_str(", …");
    }
    text
}

/// `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Each line further to the right.
pub(crate) fn indented(text: &str, by: usize) -> String {
    let lines = text.lines().map(|line| format!("{:by$}{line}\n", ""));
    lines.collect()
}
