//! Plays a simulated run in the squares of `top`.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_dashboard::cluster::BROADCAST_JOBS;
use carillon_dashboard::page::squares::MOST_GROUPS;
use carillon_dashboard::page::{Address, Fleet, ObjectAddress, Page};
use carillon_plan::view::broadcast_job::estimate::Estimate;
use carillon_plan::view::squares::{Class, Labels, Look, Square};
use carillon_simulate::{Node, Report, Sample};
use crossterm::event::{Event, EventStream, KeyCode};
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use ratatui::DefaultTerminal;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::render::duration;
use crate::top::draw::{Paint, draw};
use crate::top::terminated;
use crate::top::view::{Effect, Popup, View};

/// How long a run takes to play, unless somebody says how fast.
const WHOLE: Duration = Duration::from_secs(20);
const FRAME: Duration = Duration::from_millis(50);

/// A run that can be looked at as it was at any time.
#[derive(Debug)]
pub(super) struct Film<'a> {
    report: &'a Report,
    served: HashMap<&'a str, &'a Node>,
    left_out: HashSet<&'a str>,
    /// Labels by which nodes may be grouped.
    groupings: Vec<&'a str>,
}

impl<'a> Film<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        let served = report.served.iter().map(|node| (&*node.name, node));
        Self {
            report,
            served: served.collect(),
            left_out: report.left_out.iter().map(String::as_str).collect(),
            groupings: Labels::of(&report.fleet).grouping(MOST_GROUPS),
        }
    }

    pub(super) fn view(&self) -> View {
        let Report {
            namespace, name, ..
        } = self.report;
        View::new(Address::Object(ObjectAddress::new(
            BROADCAST_JOBS,
            namespace,
            name,
        )))
    }

    /// The moment of the run, as a clock would have shown it.
    pub(super) fn clock(at: f64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(at as i64)
    }

    /// The page as `top` would have shown it so many seconds after the creation of the job.
    pub(super) fn page(&self, at: f64, group: &str) -> Page {
        let report = self.report;
        let squares = report.fleet.keys().map(|node| Square {
            node: node.to_string(),
            look: self.look(node, at),
        });
        let fleet = Fleet::grouped(squares.collect(), &report.fleet, group);
        // It is not estimated anew at each sample.
        let estimated = |one: &&Sample| one.seconds as f64 <= at && one.eta.is_some();
        let eta = report.timeline.iter().rfind(estimated);
        let eta = eta.and_then(|one| left(one, at));
        let over = at >= report.end.after_seconds as f64;
        let head = json!({
            "page": "broadcastjob", "kind": report.kind, "namespace": report.namespace, "name": report.name,
            "headline": if over { &*report.end.headline } else { "Running" },
            "created": Timestamp::UNIX_EPOCH.to_string(),
            "progress": eta.filter(|_| !over),
            "counts": fleet.counts(),
            "groupings": self.groupings,
        });
        Page {
            head,
            fleet: Some(fleet),
        }
    }

    fn look(&self, node: &str, at: f64) -> Look {
        let look = |class, place: &str, words: String| Look {
            class,
            place: place.to_owned(),
            reason: String::new(),
            words,
        };
        let Some(served) = self.served.get(node) else {
            let (class, place) = if self.left_out.contains(node) {
                (Class::LeftOut, "LeftOut")
            } else {
                (Class::Waiting, "Waiting")
            };
            return look(class, place, String::new());
        };
        let begun = |ran: &&(i64, i64)| ran.0 as f64 <= at;
        let Some((begun, ended)) = served.ran.iter().rfind(begun) else {
            return look(Class::Waiting, "Waiting", String::new());
        };
        let attempts = match served.attempts {
            1 => String::new(),
            attempts => format!(", {attempts} attempts"),
        };
        let last = served.end_seconds == Some(*ended);
        if *ended as f64 > at {
            let runs = duration(at as i64 - begun);
            look(Class::Active, "Running", format!("for {runs}"))
        } else if last {
            let class = match &*served.state {
                "Succeeded" => Class::Done,
                _ => Class::Failed,
            };
            let ran = duration(ended - begun);
            look(class, &served.state, format!("after {ran}{attempts}"))
        } else {
            look(Class::Waiting, "Again", "an attempt has failed".to_owned())
        }
    }
}

/// What an estimate says a while later. One whose time is over says nothing any more.
fn left(sample: &Sample, at: f64) -> Option<Estimate> {
    let mut eta = sample.eta?;
    let passed = at as i64 - sample.seconds;
    for seconds in [
        &mut eta.eta_seconds,
        &mut eta.eta_earliest_seconds,
        &mut eta.eta_latest_seconds,
    ] {
        *seconds = (*seconds - passed).max(0);
    }
    (eta.eta_latest_seconds > 0).then_some(eta)
}

/// Plays it until somebody quits. `speed`: seconds of the run in a second.
pub(super) async fn play(report: &Report, speed: Option<u32>, paint: Paint) -> Result<()> {
    let end = report.end.after_seconds as f64;
    let speed = speed.map_or(end / WHOLE.as_secs_f64(), f64::from).max(1.0);
    let mut terminal = ratatui::try_init().context("opening the terminal")?;
    let played = on_terminal(&mut terminal, &Film::new(report), (end, speed), paint).await;
    ratatui::restore();
    played
}

async fn on_terminal(
    terminal: &mut DefaultTerminal,
    film: &Film<'_>,
    (end, speed): (f64, f64),
    paint: Paint,
) -> Result<()> {
    let mut view = film.view();
    let mut keys = EventStream::new();
    let mut ended = std::pin::pin!(terminated());
    let (mut at, mut halted, mut last) = (0.0_f64, false, Instant::now());
    let mut shown = None;
    loop {
        let passed = last.elapsed().as_secs_f64();
        last = Instant::now();
        if !halted {
            at = (at + passed * speed).min(end);
        }
        let group = match &view.at {
            Address::Object(at) => at.group.clone(),
            _ => String::new(),
        };
        // Nothing changes within a second of the run.
        let now = Some((at as i64, group));
        if now != shown {
            let group = now.as_ref().map_or("", |(_, group)| group);
            view.show(film.page(at, group));
            shown = now;
        }
        let mut grid = None;
        terminal.draw(|frame| grid = Some(draw(frame, &view, paint, Film::clock(at))))?;
        let grid = grid.context("nothing was drawn")?;
        tokio::select! {
            key = keys.next() => if let Event::Key(key) = key.context("the terminal is closed")?? {
                if key.code == KeyCode::Char(' ') && view.find.is_none() {
                    halted = !halted;
                    continue;
                }
                match view.on_key(key, &grid) {
                    Effect::Quit => return Ok(()),
                    Effect::Explain(_, node) => view.popup = Some(said(film, &node, at)),
                    Effect::None | Effect::Load => {}
                }
            },
            () = sleep(FRAME) => {}
            () = &mut ended => return Ok(()),
        }
    }
}

fn said(film: &Film<'_>, node: &str, at: f64) -> Popup {
    let look = film.look(node, at);
    Popup {
        title: node.to_owned(),
        text: format!("{} {}", look.place, look.words),
        scroll: 0,
    }
}
