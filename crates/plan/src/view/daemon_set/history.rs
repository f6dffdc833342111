//! The templates that a DaemonSet has had.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::known::Known;
use super::read::{SetRevisions, StoredRevision};
use super::short;
use crate::daemon_set::{DaemonSet, Revision};

/// A revision, as `rollout history` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its number: the highest is the newest.
    pub revision: i64,
    /// Name of the ControllerRevision.
    pub name: String,
    /// The hash that its pods carry.
    pub hash: String,
    /// Its template is the current one.
    pub current: bool,
    /// Pods that were made from it and are not on their way out; absent where pods cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<usize>,
    /// When it was first stored.
    pub created: Option<Timestamp>,
    /// Why the template was changed; empty where nobody has said so.
    pub change_cause: String,
    /// The template; only of one that is asked for.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub template: Value,
}

/// All revisions, the oldest first.
pub fn history(known: &Known) -> Vec<Entry> {
    let Some(revisions) = &known.revisions else {
        return Vec::new();
    };
    let set = &known.stored.set;
    let entry = |stored: &StoredRevision| Entry {
        revision: stored.number,
        name: stored.name.clone(),
        hash: stored.hash.clone(),
        current: is_current(set, revisions, stored),
        pods: known.pods.as_ref().map(|pods| {
            let of = pods.owned.values();
            let of = of.filter(|pod| !pod.is_deleting() && pod.revision() == Some(&stored.hash));
            of.count()
        }),
        created: stored.created,
        change_cause: stored.change_cause.clone(),
        template: Value::Null,
    };
    let mut entries: Vec<Entry> = revisions.stored.iter().map(entry).collect();
    entries.sort_by(|a, b| (a.revision, &a.name).cmp(&(b.revision, &b.name)));
    entries
}

/// One revision with its template. The error says which there are.
pub fn one(known: &Known, number: i64) -> Result<Entry, String> {
    let entries = history(known);
    let found = entries.iter().find(|entry| entry.revision == number);
    let stored = known.revisions.iter().flat_map(|all| &all.stored);
    let mut stored = stored.filter(|stored| stored.number == number);
    match (found, stored.next()) {
        (Some(entry), Some(stored)) => Ok(Entry {
            template: stored.template.clone(),
            ..entry.clone()
        }),
        _ => Err(no_revision(known, number)),
    }
}

fn no_revision(known: &Known, number: i64) -> String {
    let set = &known.stored.set;
    let numbers: Vec<String> = history(known)
        .iter()
        .map(|entry| entry.revision.to_string())
        .collect();
    let there = match &*numbers {
        [] => "it has none yet".to_owned(),
        [one] => format!("it has only {one}"),
        numbers => format!("it has {}", numbers.join(", ")),
    };
    format!(
        "DaemonSet {} has no revision {number}: {there}; it keeps revisionHistoryLimit ({}) old ones",
        set.meta.owner.name, set.spec.revision_history_limit
    )
}

fn is_current(set: &DaemonSet, revisions: &SetRevisions, stored: &StoredRevision) -> bool {
    let row = revisions.rows.get(&*stored.name);
    row.is_some_and(|row: &Revision| row.data.is(set.data, set.native))
}

/// What an undo would do.
#[derive(Clone, Debug, PartialEq)]
pub enum Undo {
    /// The template of this revision is put back.
    To(Entry),
    /// The template is that of this revision already.
    Skipped(i64),
}

/// Finds what to go back to: the revision of this number, or the newest one before the current template.
pub fn undo(known: &Known, to: Option<i64>) -> Result<Undo, String> {
    let set = &known.stored.set;
    if set.meta.deleting {
        let name = &set.meta.owner.name;
        return Err(format!(
            "DaemonSet {name} is being deleted: there is nothing to undo"
        ));
    }
    if set.spec.paused {
        return Err(format!(
            "the update of DaemonSet {} is paused: resume it first, with kubectl carillon rollout resume {}, \
             and ask again",
            set.meta.owner.name,
            short(set)
        ));
    }
    let number = match to {
        Some(number) => number,
        None => previous(known)?,
    };
    let entry = one(known, number)?;
    if entry.current {
        return Ok(Undo::Skipped(number));
    }
    Ok(Undo::To(entry))
}

fn previous(known: &Known) -> Result<i64, String> {
    let entries = history(known).into_iter();
    let mut others: Vec<Entry> = entries.filter(|entry| !entry.current).collect();
    others.sort_by_key(|entry| Reverse(entry.revision));
    let name = &known.stored.set.meta.owner.name;
    let newest = others.first().map(|entry| entry.revision);
    newest.ok_or_else(|| {
        format!(
            "DaemonSet {name} has no revision before the current one: to go back, apply the older manifest"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::daemon_set::samples::{known, object, pod, revision, template};

    fn world(spec: &Value, revisions: &[Value]) -> Known {
        let pods = [
            pod(1, "new", true),
            pod(2, "old", true),
            pod(3, "old", true),
        ];
        known(
            &object("carillon.dev/v1alpha1", spec),
            revisions,
            &pods,
            &[],
        )
    }

    fn two() -> [Value; 2] {
        [revision(2, "new"), revision(1, "old")]
    }

    #[test]
    fn revisions_are_told_in_order_with_their_pods() {
        let told = history(&world(&json!({}), &two()));
        let told: Vec<_> = told
            .iter()
            .map(|one| (one.revision, &*one.change_cause, one.pods, one.current))
            .collect();
        assert_eq!(
            told,
            [(1, "to old", Some(2), false), (2, "to new", Some(1), true)]
        );
    }

    #[test]
    fn an_undo_goes_to_the_newest_revision_that_is_not_current_or_to_the_one_that_is_named() {
        let known = world(&json!({}), &two());
        let to = |to| match undo(&known, to) {
            Ok(Undo::To(entry)) => entry.template,
            other => panic!("{other:?}"),
        };
        assert_eq!(to(None), template("old"));
        assert_eq!(to(Some(1)), template("old"));
        assert_eq!(undo(&known, Some(2)), Ok(Undo::Skipped(2)));
        // The newest template is not stored yet: the one before is the newest that is.
        let edited = world(&json!({"template": template("newest")}), &two());
        let Ok(Undo::To(entry)) = undo(&edited, None) else {
            panic!("nothing to undo")
        };
        assert_eq!(entry.revision, 2);
    }

    #[test]
    fn what_cannot_be_undone_is_refused_with_what_there_is() {
        let error = |known: &Known, to| undo(known, to).unwrap_err();
        let known = world(&json!({}), &two());
        assert_eq!(
            error(&known, Some(7)),
            "DaemonSet agent has no revision 7: it has 1, 2; it keeps revisionHistoryLimit (10) old ones"
        );
        let alone = world(&json!({}), &[revision(2, "new")]);
        assert!(error(&alone, None).contains("no revision before the current one"));
        let paused = json!({"updateStrategy": {"rollingUpdate": {"paused": true}}});
        assert!(error(&world(&paused, &two()), None).contains("rollout resume cds/agent"));
    }
}
