//! `results`: what came out on the nodes of a job.

use std::collections::BTreeMap;

use anyhow::Result;
use carillon_api::NodeState;
use carillon_plan::view::broadcast_job::family::Members;
use carillon_plan::view::broadcast_job::outcomes;
use carillon_plan::view::broadcast_job::outcomes::{Attempt, Outcome, SAMPLE};
use jiff::Timestamp;
use serde::Serialize;

use crate::attempts::Attempts;
use crate::client::Api;
use crate::exit::DONE;
use crate::flags::Output;
use crate::render::{Cell, Format, Screen, Table, Tone, count, sample, seconds};

/// Show what came out on the nodes of a job and its retries, identical outcomes as one line
#[derive(Debug, clap::Args)]
pub(crate) struct Results {
    #[command(flatten)]
    attempts: Attempts,
    #[command(flatten)]
    output: Output,
}

/// What is printed as JSON or YAML.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    namespace: &'a str,
    job: &'a str,
    outcomes: &'a [Outcome],
    attempts: &'a [Attempt],
}

pub(crate) async fn run(api: &Api, args: &Results, screen: &mut Screen) -> Result<u8> {
    let members = args.attempts.members(api).await?;
    let members = Members::read(&members);
    let records = args.attempts.of(&members)?;
    let now = Timestamp::now();
    let attempts: Vec<Attempt> = records
        .iter()
        .map(|record| Attempt::of(record, now))
        .collect();
    let folded = outcomes::fold(records);
    let answer = Answer {
        namespace: &api.namespace,
        job: args.attempts.job(),
        outcomes: &folded,
        attempts: &attempts,
    };
    let format = args.output.output;
    if args.attempts.failed {
        tell_tried_again(&members, screen);
    }
    if screen.document(format, &answer)? {
        return Ok(DONE);
    }
    if attempts.is_empty() {
        screen.aside(&args.attempts.none_found(&members));
        return Ok(DONE);
    }
    if format == Some(Format::Name) {
        for attempt in &attempts {
            screen.line(&format!("node/{}", attempt.node_name))?;
        }
        return Ok(DONE);
    }
    let each = format == Some(Format::Wide) || args.attempts.node.is_some();
    let table = if each {
        by_attempt(&attempts, format == Some(Format::Wide))
    } else {
        by_outcome(&folded)
    };
    screen.table(&table, !args.output.no_headers)?;
    Ok(DONE)
}

/// Of nodes that have failed and are under way again nobody knows the outcome: they are no failures now.
fn tell_tried_again(members: &Members<'_>, screen: &mut Screen) {
    let mut by_job: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for tried in members.tried_again() {
        by_job
            .entry(tried.by)
            .or_default()
            .push(tried.node.to_owned());
    }
    for (by, nodes) in by_job {
        let (number, shown) = (count(nodes.len(), "node"), sample(&nodes, SAMPLE));
        screen.aside(&format!("{by} tries again {number}: {shown}"));
    }
}

fn by_outcome(folded: &[Outcome]) -> Table {
    let mut table = Table::new(&["NODES", "OUTCOME", "AMONG THEM"]).cut(&["OUTCOME", "AMONG THEM"]);
    for outcome in folded {
        table.row([
            outcome.count.to_string().into(),
            Cell::new(outcome.sentence(), tone(outcome.state)),
            sample(&outcome.nodes, SAMPLE).into(),
        ]);
    }
    table
}

/// A row for each attempt, with its times. `whole`: the outcome is not cut.
pub(crate) fn by_attempt(attempts: &[Attempt], whole: bool) -> Table {
    let mut table = Table::new(&[
        "NODE", "ATTEMPT", "OUTCOME", "STARTED", "FINISHED", "TOOK", "POD",
    ])
    .cut_unless(whole, &["OUTCOME"]);
    let time =
        |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"));
    for attempt in attempts {
        table.row([
            Cell::from(&attempt.node_name),
            attempt.attempt.to_string().into(),
            Cell::new(attempt.sentence(), tone(attempt.state)),
            time(attempt.start_time).into(),
            time(attempt.completion_time).into(),
            seconds(attempt.seconds).into(),
            Cell::from(&attempt.pod_name),
        ]);
    }
    table
}

fn tone(state: NodeState) -> Tone {
    match state {
        NodeState::Succeeded => Tone::Good,
        NodeState::Failed => Tone::Bad,
        NodeState::Started => Tone::Plain,
        NodeState::Disrupted | NodeState::Unknown | NodeState::Skipped => Tone::Care,
    }
}
