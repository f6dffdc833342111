//! Where answers go: standard output, which may be a pipe that closes early, and what is said beside
//! them: standard error. Nothing else in this crate prints, and what is not ours is made harmless here.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Stderr, Stdout, Write};

use anyhow::{Error, Result};
use carillon_plan::printable::{lines, one_line};
use serde::Serialize;
use terminal_size::terminal_size_of;

use super::bar::{Parts, bar};
use super::color::{Color, Tone, wanted};
use super::document;
use super::format::Format;
use super::table::{Style, Table, cut};

/// Several answers as one document.
#[derive(Debug, Serialize)]
struct List<'a, T> {
    items: &'a [T],
}

/// Standard output and standard error.
#[derive(Debug)]
pub(crate) struct Screen {
    stdout: Stdout,
    stderr: Stderr,
    color: bool,
    /// Columns of the terminal that standard output is.
    room: Option<usize>,
    /// The flags with which a hint has to be written to mean the same cluster and namespace.
    flags: String,
    closed: bool,
    /// Whether a bar stands in the last line of standard error.
    drawn: bool,
    /// What was printed, where it is kept for somebody else.
    kept: Option<String>,
}

/// Goes to the begin of the line, and empties it.
const ERASE: &str = "\r\x1b[K";

/// What hints begin with.
const PROGRAM: &str = "kubectl carillon ";

impl Screen {
    /// `flags`: what whoever asks has said of cluster and namespace.
    pub(crate) fn new(flag: Color, flags: String) -> Self {
        let no_color = std::env::var("NO_COLOR").ok();
        let stdout = std::io::stdout();
        let terminal = stdout.is_terminal();
        let color = wanted(flag, no_color.as_deref(), terminal);
        let size = terminal_size_of(&stdout).filter(|_| terminal);
        Self {
            stdout,
            stderr: std::io::stderr(),
            color,
            room: size.map(|(width, _)| width.0.into()),
            flags,
            closed: false,
            drawn: false,
            kept: None,
        }
    }

    /// A screen that keeps what is printed: for answers that are shown elsewhere.
    pub(crate) fn kept(flags: String) -> Self {
        let screen = Self::new(Color::Never, flags);
        Self {
            kept: Some(String::new()),
            room: None,
            ..screen
        }
    }

    /// What was printed on a screen that keeps it.
    pub(crate) fn into_kept(self) -> String {
        self.kept.unwrap_or_default()
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        self.print(&format!("{}\n", one_line(line)))
    }

    /// Prints a line that offers a command.
    pub(crate) fn hint(&mut self, line: &str) -> Result<()> {
        let line = hinted(line, &self.flags).into_owned();
        self.line(&line)
    }

    /// Offers a command beside the answer.
    pub(crate) fn hint_aside(&mut self, text: &str) {
        let text = hinted(text, &self.flags).into_owned();
        self.aside(&text);
    }

    /// Prints a line of parts, each in its tone, if there are colours.
    pub(crate) fn painted(&mut self, parts: &[(Tone, &str)]) -> Result<()> {
        let part = |(tone, text): &(Tone, &str)| {
            let tone = if self.color { *tone } else { Tone::Plain };
            tone.paint(&one_line(text))
        };
        let line: String = parts.iter().map(part).collect();
        self.print(&format!("{line}\n"))
    }

    /// Prints an empty line.
    pub(crate) fn blank(&mut self) -> Result<()> {
        self.print("\n")
    }

    /// Prints lines that are ours.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        self.print(&lines(text))
    }

    /// Says beside the answer how far something is: on a terminal as a bar in place of the one before, or else as a
    /// line, unless that was `said` before.
    pub(crate) fn progress(&mut self, parts: Parts, line: &str, said: &mut String) {
        if let Some((width, _)) = terminal_size_of(&self.stderr) {
            let text = format!("{} {}", bar(parts), one_line(line));
            let text = cut(&text, usize::from(width.0).saturating_sub(1));
            let _ = write!(self.stderr.lock(), "{ERASE}{text}");
            self.drawn = true;
        } else if line != said {
            self.aside(line);
            line.clone_into(said);
        }
    }

    /// Takes the bar away: what comes next stands in its line.
    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(self.stderr.lock(), "{ERASE}");
        }
    }

    /// Says something beside the answer.
    pub(crate) fn aside(&mut self, text: &str) {
        self.erase();
        let text = lines(text);
        // Later lines may be of others: they must not look like new words of ours.
        let text = text.trim_end().replace('\n', "\n  ");
        if let Some(kept) = &mut self.kept {
            *kept += &text;
            kept.push('\n');
            return;
        }
        // Who closed it does not want to know.
        let _ = writeln!(self.stderr.lock(), "{text}");
    }

    /// Says why what was asked for was not done.
    pub(crate) fn error(&mut self, error: &Error) {
        self.hint_aside(&format!("error: {}", chain(error)));
    }

    /// Whether the reader went away: nothing that is printed from now on is read.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// A reader that went away, as `head` does, is no error.
    fn print(&mut self, text: &str) -> Result<()> {
        if let Some(kept) = &mut self.kept {
            *kept += text;
            return Ok(());
        }
        self.erase();
        let mut stdout = self.stdout.lock();
        match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            printed => printed.map_err(Error::from),
        }
    }

    /// Prints a table.
    pub(crate) fn table(&mut self, table: &Table, headers: bool) -> Result<()> {
        let text = table.render(self.style(headers));
        self.print(&text)
    }

    /// Where standard output is a terminal: whether to use colours there, and whether it shows signs beyond ASCII.
    pub(crate) fn paint(&self) -> Option<(bool, bool)> {
        self.room?;
        let set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(set);
        let locale = locale.and_then(|name| std::env::var(name).ok());
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let unicode = locale.contains("utf-8") || locale.contains("utf8");
        Some((self.color, unicode))
    }

    /// How a table is printed here.
    pub(crate) fn style(&self, headers: bool) -> Style {
        Style {
            headers,
            color: self.color,
            room: self.room,
        }
    }

    /// Prints an answer as JSON or YAML, if that is the format; whether it was.
    pub(crate) fn document(
        &mut self,
        format: Option<Format>,
        value: &impl Serialize,
    ) -> Result<bool> {
        match format {
            Some(Format::Json) => self.print(&document::json(value)?)?,
            Some(Format::Yaml) => self.print(&document::yaml(value)?)?,
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

/// A command that is offered means what was asked about: it has the same flags. Not for what others wrote.
fn hinted<'t>(text: &'t str, flags: &str) -> Cow<'t, str> {
    if flags.is_empty() || !text.contains(PROGRAM) {
        return text.into();
    }
    text.replace(PROGRAM, &format!("{PROGRAM}{flags} ")).into()
}

/// An error and its causes, each but once: many say themselves what caused them.
fn chain(error: &Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_offered_has_the_flags_of_the_one_that_was_typed() {
        let hint = "It is paused: kubectl carillon resume fix";
        assert_eq!(hinted(hint, ""), hint);
        assert_eq!(
            hinted(hint, "-n team-a"),
            "It is paused: kubectl carillon -n team-a resume fix"
        );
        assert_eq!(hinted("nothing to do", "-n team-a"), "nothing to do");
    }

    #[test]
    fn what_an_error_has_said_of_its_cause_is_not_said_again() {
        let error = Error::msg("no such file").context("reading k: no such file");
        let error = error.context("no cluster");
        assert_eq!(chain(&error), "no cluster: reading k: no such file");
    }
}
