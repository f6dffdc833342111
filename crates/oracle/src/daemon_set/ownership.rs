//! S11: of DaemonSets the status is ours, and their pods and revisions.

use serde_json::Value;

use super::world::{REVISIONS, SETS, World, set_of};
use crate::history::{History, Request, Step};
use crate::invariant::Invariant::S11;
use crate::object::{self, PODS, at, is_deleting, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};
use crate::writes::misdirected;

/// S11. For every step that a request of ours made on a DaemonSet, or on a pod or revision that one controls before or
/// after it:
/// - it is no `deletecollection`, and its path names the namespace of the object;
/// - a pod or revision is created only for a DaemonSet that exists, in its namespace;
/// - of a pod that is there only the owner and the hash are written, of a revision the owner and the number, of a
///   DaemonSet the status;
/// - with `bodies`: a delete has a precondition on the uid, a patch of a pod or revision its uid, one of a status a
///   resourceVersion.
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
        SETS => true,
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
    let begun = world.assumptions.is_created_after(step, set.gone);
    begun.then(|| format!("its DaemonSet {} is gone", set.key))
}

fn changed_too_much(step: &Step) -> Option<String> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    // A delete sets the times of deletion, and nothing else.
    if is_deleting(new) && !is_deleting(old) {
        return None;
    }
    let written: &[&[&str]] = match &*step.key.resource {
        PODS => &[
            &["metadata", "ownerReferences"],
            &["metadata", "labels", "controller-revision-hash"],
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
    object
}

fn unconditional(step: &Step, by: &Request) -> Option<String> {
    let object = step.old.as_deref()?;
    let body = by.body.as_ref().unwrap_or(&Value::Null);
    let same_uid = |path: &[&str]| at(body, path).is_some_and(|uid| uid == object::uid(object));
    let conditional = match (&*by.verb, &*step.key.resource) {
        ("delete", _) => same_uid(&["preconditions", "uid"]),
        (_, SETS) => !text(body, &["metadata", "resourceVersion"]).is_empty(),
        _ => same_uid(&["metadata", "uid"]),
    };
    (!conditional).then(|| format!("the {} does not say which one it means: {body}", by.verb))
}
