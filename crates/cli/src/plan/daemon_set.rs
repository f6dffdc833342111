//! `plan` of a DaemonSet.

use anyhow::Result;
use carillon_plan::daemon_set::action::NewPod;
use carillon_plan::daemon_set::pod_body::pod_body;
use carillon_plan::node::Nodes;
use carillon_plan::view::daemon_set::preview::{Fate, Preview, preview};
use carillon_plan::view::daemon_set::read::{self, StoredSet};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::said::{Said, ask_about_pod, print_about, print_notes};
use crate::apply::{self, Effect, TEMPLATE};
use crate::client::Api;
use crate::nodes::{group_table, tell_unknown};
use crate::render::{Cell, Format, Screen, Tone, count, duration};
use crate::two_apis::{SETS, set_side};

/// A DaemonSet of the manifests.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Planned {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    preview: Preview,
    #[serde(flatten)]
    said: Said,
}

impl Planned {
    /// Nothing is refused, and some node has or gets a pod, as far as nodes are known.
    pub(super) fn is_good(&self, nodes_known: bool) -> bool {
        let has_nodes = self.preview.has_nodes() || !nodes_known;
        self.said.apply != Effect::Refused && (has_nodes || self.said.apply == Effect::Unchanged)
    }
}

pub(super) async fn plan_one(
    api: &Api,
    object: &Value,
    nodes: Option<&Nodes>,
    screen: &mut Screen,
) -> Result<Planned> {
    let manifest = read::set(object);
    let kind = SETS.kind;
    let answer = apply::ask(api, SETS.of(set_side(&manifest.set)), kind, object).await?;
    let mut unasked = Vec::new();
    if answer.effect == Effect::NotAllowed {
        unasked.push(format!(
            "whether the API server would accept it, and whether it is there already, was not asked: you may not \
             create {kind}s in this namespace"
        ));
    }
    let problems = answer.problems;
    let mut planned = Planned {
        api_version: manifest.set.meta.owner.api_version,
        kind,
        preview: Preview::of_nothing(&manifest.set, problems),
        said: Said {
            apply: answer.effect,
            changes: answer.changes,
            notes: unasked,
        },
    };
    let stored = answer.stored.as_ref().unwrap_or(object);
    let said = &mut planned.said;
    if said.apply == Effect::Refused || said.apply == Effect::Unchanged {
        return Ok(planned);
    }
    let of_template = said.changes.iter();
    let of_template = of_template.filter(|change| change.field.starts_with(TEMPLATE));
    if said.apply != Effect::Changed || of_template.count() > 0 {
        let (problems, unchecked) = ask_about_template(api, &read::set(stored), nodes).await?;
        said.notes.extend(unchecked);
        if !problems.is_empty() {
            said.apply = Effect::Refused;
            planned.preview.problems.extend(problems);
            return Ok(planned);
        }
    }
    if let Some(nodes) = nodes {
        let mut known = api.known(stored, nodes.clone()).await?;
        tell_unknown(&known, screen);
        planned.preview = preview(&mut known, Timestamp::now());
    }
    Ok(planned)
}

/// Whether the API server would accept a pod of the template; what else is to be said.
async fn ask_about_template(
    api: &Api,
    stored: &StoredSet,
    nodes: Option<&Nodes>,
) -> Result<(Vec<String>, Option<String>)> {
    let set = &stored.set;
    let node = nodes.and_then(|nodes| nodes.keys().next());
    let pod = NewPod {
        name: format!("{}-plan", set.meta.owner.name),
        node: node.map_or("any", |name| &**name).to_owned(),
        hash: "plan".to_owned(),
    };
    let body = pod_body(set, &set.template.value(), &pod);
    ask_about_pod(api, &body).await
}

/// What the manifest comes to, in a line.
fn headline(one: &Planned, nodes_known: bool) -> String {
    let Preview {
        daemon_set,
        namespace,
        nodes,
        ..
    } = &one.preview;
    let subject = format!("{daemon_set} in namespace {namespace}");
    let told = if nodes_known {
        fates(&one.preview)
    } else {
        "what becomes of which node is not known".to_owned()
    };
    match one.said.apply {
        Effect::Refused => format!("{subject}: REFUSED, nothing would change"),
        Effect::Unchanged => format!("{subject} exists: unchanged"),
        Effect::Changed => format!("{subject} exists and would be changed: {told}"),
        Effect::Created | Effect::NotAllowed if nodes_known => {
            format!("{subject}: {told}, of {}", count(*nodes, "node"))
        }
        Effect::Created | Effect::NotAllowed => format!("{subject}: {told}"),
    }
}

/// `6 nodes replace their pod, 1 gets one`.
fn fates(preview: &Preview) -> String {
    let parts = [
        (Fate::Replaced, "replaces its pod", "replace their pod"),
        (Fate::Gets, "gets a pod", "get a pod"),
        (Fate::Loses, "loses its pod", "lose their pod"),
    ];
    let told = parts
        .into_iter()
        .filter_map(|(fate, one, more)| match preview.count(fate) {
            0 => None,
            1 => Some(format!("1 node {one}")),
            many => Some(format!("{many} nodes {more}")),
        });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        "no node gets, replaces or loses a pod".to_owned()
    } else {
        told.join(", ")
    }
}

pub(super) fn print(
    one: &Planned,
    nodes_known: bool,
    (format, headers): (Option<Format>, bool),
    screen: &mut Screen,
) -> Result<()> {
    let preview = &one.preview;
    if format == Some(Format::Name) {
        let changed = preview.groups.iter();
        let changed = changed
            .filter(|group| matches!(group.place, Fate::Gets | Fate::Replaced | Fate::Loses));
        for node in changed.flat_map(|group| &group.nodes) {
            screen.line(&format!("node/{node}"))?;
        }
        return Ok(());
    }
    screen.line(&headline(one, nodes_known))?;
    print_about(&preview.problems, &one.said.changes, screen)?;
    if !preview.groups.is_empty() {
        screen.blank()?;
        let table = group_table(&preview.groups, word, format == Some(Format::Wide));
        screen.table(&table, headers)?;
    }
    let pace = pace(preview);
    if !pace.is_empty() {
        screen.blank()?;
    }
    for line in pace {
        screen.line(&line)?;
    }
    print_notes(&one.said.notes, nodes_known, screen)
}

fn word(fate: Fate) -> Cell {
    let (word, tone) = match fate {
        Fate::Gets => ("gets a pod", Tone::Good),
        Fate::Replaced => ("replaced", Tone::Care),
        Fate::Loses => ("loses its pod", Tone::Bad),
        Fate::Kept => ("stays old", Tone::Plain),
        Fate::Unchanged => ("unchanged", Tone::Plain),
        Fate::Stays => ("stays", Tone::Plain),
        Fate::Refused => ("refused", Tone::Faint),
        Fate::NotChosen => ("not chosen", Tone::Faint),
    };
    Cell::new(word, tone)
}

/// In which order pods are replaced, and how long that takes.
fn pace(preview: &Preview) -> Vec<String> {
    let mut lines = Vec::new();
    if preview.adopted > 0 {
        lines.push(format!(
            "{} of nobody's that the selector selects: adopted.",
            count(preview.adopted, "pod")
        ));
    }
    if preview.failed > 0 {
        lines.push(format!(
            "{} of this template failed: replaced when the back-off of the node is over, within 15 minutes of its creation; \
             an edit of the DaemonSet ends it.",
            count(preview.failed, "pod")
        ));
    }
    if preview.hooked > 0 {
        lines.push(format!(
            "{} told to go and kept until somebody takes from it what spec.lifecycle.preDelete names.",
            match preview.hooked {
                1 => "1 pod is".to_owned(),
                many => format!("Each of {many} pods is"),
            }
        ));
    }
    if preview.rounds == 0 {
        return lines;
    }
    lines.push(format!(
        "Pods are replaced in the order of the names of their nodes, {} at a time: {}.",
        preview.at_a_time,
        count(preview.rounds, "round")
    ));
    lines.push(match (preview.seconds, preview.start_seconds) {
        (Some(seconds), Some(start)) => {
            let min_ready = match preview.min_ready_seconds {
                0 => String::new(),
                seconds => format!(" and minReadySeconds ({seconds}s)"),
            };
            format!(
                "That takes about {} if each round takes {}{min_ready}, within which half of {} of now became ready.",
                duration(seconds),
                duration(start),
                count(preview.paced_by, "pod")
            )
        }
        _ => "How long that takes is not known: no pod of now has become ready without a restart.".to_owned(),
    });
    if preview.seconds.is_some() {
        let what = if preview.hooked > 0 {
            "wait for their hook and terminate"
        } else {
            "terminate"
        };
        lines.push(format!("The time in which old pods {what} comes on top."));
    }
    lines
}
