//! Where answers go: standard output, which may be a pipe that closes early.

use std::io::{ErrorKind, IsTerminal, Stdout, Write};

use anyhow::Result;
use serde::Serialize;

use super::color::{Tone, wanted};
use super::table::Table;
use crate::args::{Color, Format};

/// Several answers as one document.
#[derive(Debug, Serialize)]
struct List<'a, T> {
    items: &'a [T],
}

/// Standard output.
#[derive(Debug)]
pub(crate) struct Screen {
    stdout: Stdout,
    color: bool,
}

impl Screen {
    pub(crate) fn new(flag: Color) -> Self {
        let no_color = std::env::var("NO_COLOR").ok();
        let stdout = std::io::stdout();
        let color = wanted(flag, no_color.as_deref(), stdout.is_terminal());
        Self { stdout, color }
    }

    /// A text in a tone, if there are colours.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if self.color {
            tone.paint(text)
        } else {
            text.to_owned()
        }
    }

    /// Prints a text as it is. A reader that went away, as `head` does, is no error.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        let mut stdout = self.stdout.lock();
        match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        self.text(&format!("{line}\n"))
    }

    /// Prints a table.
    pub(crate) fn table(&mut self, table: &Table, headers: bool) -> Result<()> {
        let text = table.render(headers, self.color);
        self.text(&text)
    }

    /// Prints an answer as JSON or YAML, if that is the format; whether it was.
    pub(crate) fn document(
        &mut self,
        format: Option<Format>,
        value: &impl Serialize,
    ) -> Result<bool> {
        match format {
            Some(Format::Json) => self.line(&serde_json::to_string_pretty(value)?)?,
            Some(Format::Yaml) => {
                let text = serde_saphyr::to_string(value)?;
                self.line(text.trim_end())?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Prints answers as JSON or YAML, if that is the format: a list, or the only one alone where one
    /// thing was asked about. Says whether it was.
    pub(crate) fn documents(
        &mut self,
        format: Option<Format>,
        items: &[impl Serialize],
        of_one: bool,
    ) -> Result<bool> {
        match items {
            [one] if of_one => self.document(format, one),
            _ => self.document(format, &List { items }),
        }
    }
}
