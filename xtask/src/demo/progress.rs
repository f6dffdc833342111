//! A bar per job, redrawn in place on a terminal; elsewhere a line when something changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stdout};
use std::time::{Duration, Instant};

use serde_json::Value;

const WIDTH: usize = 24;
/// Redrawing more often is seen by nobody.
const FRAME: Duration = Duration::from_millis(100);
/// Time between two lines of one job where there is no terminal, unless its phase changes.
const LINE: Duration = Duration::from_secs(4);

/// What is shown.
pub(crate) struct Progress {
    jobs: BTreeMap<String, Shown>,
    terminal: bool,
    /// The lines on the terminal that the next frame overwrites.
    drawn: Vec<String>,
    last_frame: Option<Instant>,
    start: Instant,
}

struct Shown {
    bar: Bar,
    /// The last line printed, and when.
    printed: Option<(Bar, Instant)>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Bar {
    phase: String,
    desired: usize,
    active: usize,
    succeeded: usize,
    failed: usize,
    refused: usize,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            jobs: BTreeMap::new(),
            terminal: stdout().is_terminal(),
            drawn: Vec::new(),
            last_frame: None,
            start: Instant::now(),
        }
    }

    /// A BroadcastJob as it is now.
    pub(crate) fn update(&mut self, name: &str, job: &Value) {
        let bar = Bar::of(job);
        match self.jobs.get_mut(name) {
            Some(shown) => shown.bar = bar,
            None => {
                self.jobs
                    .insert(name.to_owned(), Shown { bar, printed: None });
            }
        }
    }

    /// A line that stays.
    pub(crate) fn note(&mut self, text: &str) {
        self.erase();
        println!("{:>6.1}s  {text}", self.start.elapsed().as_secs_f64());
        self.last_frame = None;
        self.draw();
    }

    /// Shows what changed, but not too often.
    pub(crate) fn draw(&mut self) {
        if self.last_frame.is_some_and(|last| last.elapsed() < FRAME) {
            return;
        }
        self.last_frame = Some(Instant::now());
        if self.terminal {
            self.redraw();
        } else {
            self.print_changes();
        }
    }

    /// Shows the last state, and leaves it there.
    pub(crate) fn finish(&mut self) {
        self.last_frame = None;
        self.draw();
        self.drawn.clear();
    }

    fn redraw(&mut self) {
        let lines = self.jobs.iter().map(|(name, shown)| shown.bar.line(name));
        let lines: Vec<String> = lines.collect();
        if lines == self.drawn {
            return;
        }
        self.erase();
        for line in &lines {
            // Without wrapping at the edge: a frame must have as many lines as jobs.
            println!("\x1b[?7l{line}\x1b[?7h");
        }
        self.drawn = lines;
        let _ = stdout().flush();
    }

    fn erase(&mut self) {
        if !self.drawn.is_empty() {
            print!("\x1b[{}A\x1b[J", self.drawn.len());
            self.drawn.clear();
        }
    }

    fn print_changes(&mut self) {
        for (name, shown) in &mut self.jobs {
            let due = shown.printed.as_ref().is_none_or(|(bar, when)| {
                bar.phase != shown.bar.phase || (*bar != shown.bar && when.elapsed() >= LINE)
            });
            if due {
                let seconds = self.start.elapsed().as_secs_f64();
                println!("{seconds:>6.1}s  {}", shown.bar.line(name));
                shown.printed = Some((shown.bar.clone(), Instant::now()));
            }
        }
    }
}

impl Bar {
    fn of(job: &Value) -> Self {
        let status = &job["status"];
        let number = |key: &str| status[key].as_u64().unwrap_or(0) as usize;
        let refused = status["refused"].as_array().into_iter().flatten();
        Self {
            phase: status["phase"].as_str().unwrap_or("created").to_owned(),
            desired: number("desired"),
            active: number("active"),
            succeeded: number("succeeded"),
            failed: number("failed"),
            refused: refused
                .map(|one| one["count"].as_u64().unwrap_or(0) as usize)
                .sum(),
        }
    }

    fn line(&self, name: &str) -> String {
        let Self {
            phase,
            desired,
            active,
            succeeded,
            failed,
            refused,
        } = self;
        let done = succeeded + failed;
        let cells = |count: usize| {
            (count * WIDTH)
                .checked_div(*desired)
                .unwrap_or(0)
                .min(WIDTH)
        };
        let full = cells(done);
        let running = cells(done + active).saturating_sub(full);
        let empty = WIDTH - full - running;
        let bar = "█".repeat(full) + &"▒".repeat(running) + &"·".repeat(empty);
        let count = format!("{done}/{desired}");
        let mut line = format!("{name:<16} {bar} {count:>9}  {phase:<9}");
        for (count, what) in [(active, "active"), (failed, "failed"), (refused, "refused")] {
            if *count > 0 {
                let _ = write!(line, "  {count} {what}");
            }
        }
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bar_shows_done_and_running_nodes() {
        let job = json!({"status": {
            "phase": "running", "desired": 24, "active": 6, "succeeded": 11, "failed": 1,
            "refused": [{"reason": "NodeUnschedulable", "count": 2}],
        }});
        let line = Bar::of(&job).line("hello");
        assert_eq!(
            line,
            "hello            ████████████▒▒▒▒▒▒······     12/24  running    6 active  1 failed  2 refused"
        );
    }

    #[test]
    fn a_job_nobody_has_looked_at_has_an_empty_bar() {
        let line = Bar::of(&json!({})).line("hello");
        assert_eq!(
            line,
            format!("hello            {}       0/0  created", "·".repeat(WIDTH))
        );
    }
}
