//! S11: of DaemonSets the status is ours, and their pods and revisions.

use serde_json::Value;

use super::told::{WRITTEN, has_word};
use super::world::{REVISIONS, SETS, World, set_of};
use crate::history::{History, Request, Step};
use crate::invariant::Invariant::S11;
use crate::object::{self, PODS, at, has_ended, is_deleting, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};
use crate::writes::misdirected;

/// S11. For every step that a request of ours made on a DaemonSet, or on a pod or revision that one controls before or
/// after it:
/// - it is no `deletecollection`, and its path names the namespace of the object;
/// - a pod or revision is created only for a DaemonSet that exists and that nobody has deleted, in its namespace;
/// - of a pod that is there only the owner, the hash and that it goes are written, of a revision the owner and the
///   number, of a DaemonSet the status;
/// - with `bodies`: a delete has a precondition on the uid, a patch of a pod or revision its uid, one of a status, or
///   of the word that a pod goes, a resourceVersion.
pub fn only_its_own(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        if let Some(by) = step.by.as_deref().filter(|_| assumptions.ours(step))
            && is_judged_here(step)
        {
            let wrong = misdirected(step, by)
                .or_else(|| foreign(&world, step))
                .or_else(|| changed_too_much(step))
                .or_else(|| unconditional(step, by).filter(|_| assumptions.bodies));
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S11, step, what)
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

/// Whether a step is about a DaemonSet, or about what one controls.
pub(crate) fn is_judged_here(step: &Step) -> bool {
    let states = [step.old.as_deref(), step.new.as_deref()];
    match &*step.key.resource {
        resource if SETS.contains(&resource) => true,
        PODS | REVISIONS => states
            .into_iter()
            .flatten()
            .any(|state| set_of(state).is_some()),
        _ => false,
    }
}

fn foreign(world: &World<'_>, step: &Step) -> Option<String> {
    let new = step.new.as_deref().filter(|_| step.old.is_none())?;
    let Some(set) = world.of(new) else {
        return Some("the DaemonSet that it is created for does not exist".to_owned());
    };
    if set.key.namespace != step.key.namespace {
        return Some(format!("its DaemonSet is {}", set.key));
    }
    let begun = world.assumptions.is_created_after(step, set.going());
    begun.then(|| format!("its DaemonSet {} is gone, or goes", set.key))
}

fn changed_too_much(step: &Step) -> Option<String> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    // A delete sets the times of deletion, and nothing else. A second one does so, too, if the pod has ended: it then has
    // no grace period any more. A second process sends one that has not seen the first.
    let by_delete = step.by.as_deref().is_some_and(|by| by.verb == "delete");
    if is_deleting(new) && (!is_deleting(old) || has_ended(old) && by_delete) {
        return None;
    }
    let written: &[&[&str]] = match &*step.key.resource {
        PODS => &[
            &["metadata", "ownerReferences"],
            &["metadata", "labels", "controller-revision-hash"],
            WRITTEN[0],
            WRITTEN[1],
        ],
        REVISIONS => &[&["metadata", "ownerReferences"], &["revision"]],
        _ => &[&["status"]],
    };
    (without(old, written) != without(new, written))
        .then(|| "more than that was written".to_owned())
}

fn without(object: &Value, written: &[&[&str]]) -> Value {
    let mut object = object.clone();
    let bookkeeping: [&[&str]; 2] = [
        &["metadata", "resourceVersion"],
        &["metadata", "managedFields"],
    ];
    for path in written.iter().chain(&bookkeeping) {
        let Some((last, parents)) = path.split_last() else {
            continue;
        };
        let parent = parents
            .iter()
            .try_fold(&mut object, |object, key| object.get_mut(key));
        if let Some(parent) = parent.and_then(Value::as_object_mut) {
            parent.remove(*last);
        }
    }
    // None, and an empty map, are the same.
    let none = object["metadata"]["annotations"] == serde_json::json!({});
    if let Some(metadata) = object["metadata"].as_object_mut().filter(|_| none) {
        metadata.remove("annotations");
    }
    object
}

fn unconditional(step: &Step, by: &Request) -> Option<String> {
    let object = step.old.as_deref()?;
    let body = by.body.as_ref().unwrap_or(&Value::Null);
    let same_uid = |path: &[&str]| at(body, path).is_some_and(|uid| uid == object::uid(object));
    let conditional = match (&*by.verb, &*step.key.resource) {
        ("delete", _) => same_uid(&["preconditions", "uid"]),
        (_, resource) if SETS.contains(&resource) => {
            !text(body, &["metadata", "resourceVersion"]).is_empty()
        }
        (_, PODS)
            if step
                .new
                .as_deref()
                .is_some_and(|new| has_word(new) != has_word(object)) =>
        {
            same_uid(&["metadata", "uid"])
                && !text(body, &["metadata", "resourceVersion"]).is_empty()
        }
        _ => same_uid(&["metadata", "uid"]),
    };
    (!conditional).then(|| format!("the {} does not say which one it means: {body}", by.verb))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    use super::super::world::OURS;
    use crate::object::NODES;

    #[test]
    fn a_pod_that_has_ended_may_be_deleted_twice() {
        let stops = Scene::agents(json!({})).stops_on("carillon", "n1", 1);
        let twice = |scene: Scene| scene.stops_on("carillon", "n1", 1);
        holds(S11, &twice(stops.clone().fails_on("n1", 1)), &strict());
        let what = "more than that was written";
        breaks(S11, &twice(stops), &strict(), what);
    }

    #[test]
    fn of_others_nothing_is_written() {
        let scene = Scene::agents(json!({}));
        holds(S11, &scene.clone().stops_on("carillon", "n1", 1), &strict());
        let named = scene.clone().edit("carillon", (PODS, "agent-n1-1"), |pod| {
            pod["metadata"]["annotations"] = json!({"a": "b"});
        });
        breaks(S11, &named, &strict(), "more than that was written");
        let mut nobodys = scene.agent_pod("n1", 2);
        nobodys["metadata"]["ownerReferences"][0]["uid"] = json!("other-uid");
        let what = "the DaemonSet that it is created for does not exist";
        breaks(S11, &scene.clone().make_agent_pod(nobodys), &strict(), what);
        let goes = scene.clone().edit("kubectl", (OURS, "agent"), |set| {
            set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
        });
        let what = "is gone, or goes";
        breaks(S11, &goes.pod_of("n1", 2), &strict(), what);
        let blind = scene.clone().remove("carillon", (PODS, "agent-n1-1"));
        breaks(S11, &blind, &strict(), "does not say which one it means");
        let by_others = scene.edit("kubectl", (NODES, "n1"), |node| {
            node["metadata"]["labels"] = json!({"a": "b"});
        });
        holds(S11, &by_others, &strict());
    }
}
