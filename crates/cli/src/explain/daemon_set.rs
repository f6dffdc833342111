//! `explain` of a DaemonSet.

use anyhow::{Result, bail};
use carillon_plan::view::daemon_set::explain::{self, NodeExplanation, PodThere, SetExplanation};
use carillon_plan::view::daemon_set::look::{Look, Place};
use carillon_plan::view::daemon_set::progress::Progress;
use jiff::Timestamp;
use serde_json::Value;

use crate::client::Api;
use crate::exit::DONE;
use crate::flags::Output;
use crate::nodes::{print_checks, print_each, print_groups, tell_unknown};
use crate::problem;
use crate::render::{Cell, Format, Screen, Table, Tone, age};

pub(super) async fn run(
    api: &Api,
    (names, output): (&[String], &Output),
    object: &Value,
    screen: &mut Screen,
) -> Result<u8> {
    let (format, headers) = (output.output, !output.no_headers);
    let Some(nodes) = api.nodes_if_allowed().await? else {
        return without_nodes(format, screen);
    };
    let known = api.known(object, nodes).await?;
    tell_unknown(&known, screen);
    let look = Look::at(&known, Timestamp::now());
    if names.is_empty() {
        let all = explain::all(&look);
        if !screen.document(format, &all)? {
            let mut progress = Progress::of(&known.stored);
            if known.stored.set.native && known.pods.is_some() {
                progress.look(&look);
            }
            print_all(&all, &progress, (format, headers), screen)?;
        }
        return Ok(DONE);
    }
    let mut explained = Vec::new();
    for name in names {
        let Some(one) = explain::node(&look, name) else {
            let others: Vec<String> = known.nodes.keys().map(ToString::to_string).collect();
            return Err(problem::no_such_node(name, &others));
        };
        explained.push(one);
    }
    print_each(
        &explained,
        |one| &one.node_name,
        format,
        screen,
        |one, screen| print_node(one, known.pods.is_some(), headers, screen),
    )?;
    Ok(DONE)
}

fn without_nodes(format: Option<Format>, screen: &mut Screen) -> Result<u8> {
    let note = format!(
        "you may not read nodes ({}): what they say to the template is not known. What the status says: kubectl \
         carillon get",
        problem::VIEW_NODES
    );
    if format.is_some() {
        bail!(note);
    }
    screen.line(&format!("note: {note}"))?;
    Ok(DONE)
}

fn print_all(
    all: &SetExplanation,
    progress: &Progress,
    (format, headers): (Option<Format>, bool),
    screen: &mut Screen,
) -> Result<()> {
    if format != Some(Format::Name) {
        screen.line(&progress.line())?;
        screen.blank()?;
    }
    print_groups((&all.groups, all.nodes), tone, (format, headers), screen)
}

fn print_node(
    one: &NodeExplanation,
    pods_known: bool,
    headers: bool,
    screen: &mut Screen,
) -> Result<()> {
    let reason = match one.reason.as_str() {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    screen.painted(&[
        (
            Tone::Plain,
            &format!("{} in {}: ", one.node_name, one.daemon_set),
        ),
        (tone(one.place), &format!("{:?}", one.place)),
        (Tone::Plain, &reason),
    ])?;
    screen.blank()?;
    if one.checks.is_empty() {
        screen.line("The Node object does not exist any more.")?;
    } else {
        print_checks(&one.checks, "spec.template.spec", headers, screen)?;
    }
    screen.blank()?;
    if !one.pods.is_empty() {
        screen.table(&pods(&one.pods), headers)?;
    } else if pods_known {
        screen.line("It has no pod.")?;
    }
    screen.blank()?;
    screen.hint(&format!("Next: {}.", one.next))
}

fn pods(pods: &[PodThere]) -> Table {
    let mut table = Table::new(&["POD", "REVISION", "STATE", "AGE"]);
    let now = Timestamp::now();
    for pod in pods {
        let number = pod
            .number
            .map_or_else(|| pod.revision.clone(), |number| number.to_string());
        let is = if pod.current { "current" } else { "old" };
        let tone = if pod.state == "Available" {
            Tone::Good
        } else {
            Tone::Care
        };
        table.row([
            Cell::from(&pod.name),
            format!("{number} ({is})").into(),
            Cell::new(pod.state, tone),
            age(Some(pod.created), now).into(),
        ]);
    }
    table
}

fn tone(place: Place) -> Tone {
    match place {
        Place::Updated => Tone::Good,
        Place::InTurn | Place::Unknown => Tone::Plain,
        Place::Waiting | Place::Kept | Place::Excused | Place::Stays | Place::Gone => Tone::Care,
        Place::Refused => Tone::Faint,
    }
}
