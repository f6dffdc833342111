//! Decisions made again: from what a flight recorder holds, and the objects as they were.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_operator::controllers::{Irreproducible, Replay};
use carillon_operator::flight_recorder::{Decision, FlightRecorder};
use carillon_operator::gate::Kind;
use carillon_operator::kinds::SERVED;
use carillon_oracle::determinism::Decision as Replayed;
use carillon_oracle::{History, Key};
use serde_json::Value;

use crate::kinds::KINDS;

/// The label by which pods and slices are watched.
const LABEL: &str = "carillon.dev/broadcastjob-uid";
/// Longer histories are left alone: each decision looks at every object of one.
const LONGEST: usize = 3000;

/// The versions that each object had, oldest first, by resource.
type Versions<'h> = BTreeMap<&'h str, BTreeMap<&'h Key, Vec<(u64, Option<&'h Value>)>>>;

/// Every decision that was recorded and can be made again.
pub fn all(history: &History, flights: &[Arc<FlightRecorder>]) -> Vec<Replayed> {
    if history.steps.len() > LONGEST {
        return Vec::new();
    }
    let versions = versions(history);
    let mut replayed = Vec::new();
    for served in &SERVED {
        for kind in served.kinds {
            let of_kind = |replay| of_kind(&versions, flights, *kind, replay);
            replayed.extend(served.replay.into_iter().flat_map(of_kind));
        }
    }
    replayed
}

fn versions(history: &History) -> Versions<'_> {
    let mut versions = Versions::new();
    for step in &history.steps {
        let of_resource = versions.entry(&*step.key.resource).or_default();
        let of_object = of_resource.entry(&step.key).or_default();
        of_object.push((step.rev, step.new.as_deref()));
    }
    versions
}

/// Those about objects of a kind.
fn of_kind(
    versions: &Versions<'_>,
    flights: &[Arc<FlightRecorder>],
    kind: Kind,
    replay: Replay,
) -> Vec<Replayed> {
    let decisions = flights
        .iter()
        .flat_map(|flights| flights.of_kind(kind.api_kind()));
    decisions
        .filter_map(|decision| again(versions, kind, replay, &decision))
        .collect()
}

/// As in keys.
fn resource(kind: Kind) -> String {
    match kind.group_version() {
        ("", _) => kind.plural().to_owned(),
        (group, _) => format!("{}.{group}", kind.plural()),
    }
}

/// `None` when the record says itself that it is not enough.
fn again(
    versions: &Versions<'_>,
    about: Kind,
    replay: Replay,
    decision: &Decision,
) -> Option<Replayed> {
    let object = Key {
        resource: resource(about).into(),
        namespace: decision.namespace.as_str().into(),
        name: decision.name.as_str().into(),
    };
    let seen = |kind: Kind| decision.seen.get(kind.word()).copied().unwrap_or(0);
    let of_kind: Vec<&Value> = at_revision(versions, about, seen(about)).collect();
    let mut proved = KINDS
        .iter()
        .filter(|proved| proved.kind == about.api_kind().1);
    let family = proved
        .next()
        .map(|proved| (proved.together)(&of_kind, &decision.uid));
    let family = family.unwrap_or_default();
    let mut objects = Kind::ALL.into_iter().flat_map(|kind| {
        let ours = objects(versions, kind, seen(kind), &family);
        ours.into_iter().map(move |object| (kind, object))
    });
    let replayed = match replay(&mut objects, decision) {
        Ok(digest) => digest,
        Err(Irreproducible::Incomplete(_)) => return None,
        Err(error) => format!("cannot be made again: {error}"),
    };
    Some(Replayed {
        at: decision.now,
        job: object,
        recorded: decision.digest.clone(),
        replayed,
    })
}

/// The objects of a kind as they were at a revision.
fn at_revision<'h>(
    versions: &Versions<'h>,
    kind: Kind,
    revision: u64,
) -> impl Iterator<Item = &'h Value> {
    let of_resource = versions.get(&*resource(kind)).into_iter().flatten();
    of_resource.filter_map(move |(_, versions)| {
        let later = versions.partition_point(|(rev, _)| *rev <= revision);
        versions[..later].last()?.1
    })
}

/// The objects of a kind that concern those with these uids, as they were at a revision.
fn objects(versions: &Versions<'_>, kind: Kind, revision: u64, uids: &[String]) -> Vec<Value> {
    let is = |uid: &Value| uids.iter().any(|known| uid == known);
    let concern = |object: &Value| {
        let meta = &object["metadata"];
        let owners = meta["ownerReferences"].as_array();
        match kind {
            // Those that a CronJob started, pods, and revisions.
            Kind::NativeJob | Kind::BroadcastJob | Kind::Pod | Kind::Revision
                if owners.into_iter().flatten().any(|o| is(&o["uid"])) =>
            {
                true
            }
            // It may adopt those that nobody controls; an owner need not control.
            Kind::Pod | Kind::Revision if !has_controller(owners) => true,
            _ => is(&meta["labels"][LABEL]) || is(&meta["uid"]),
        }
    };
    at_revision(versions, kind, revision)
        .filter(|object| kind == Kind::Node || concern(object))
        .cloned()
        .collect()
}

fn has_controller(owners: Option<&Vec<Value>>) -> bool {
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["controller"] == true)
}
