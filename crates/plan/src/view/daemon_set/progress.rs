//! How far a DaemonSet is, and what holds it up.

use carillon_api::Refused;
use carillon_api::condition::{reasons, types};
use jiff::Timestamp;
use serde::Serialize;

use super::look::Look;
use super::read::StoredSet;
use super::resource;
use crate::condition;
use crate::daemon_set::DaemonSet;
use crate::daemon_set::progress::told;
use crate::daemon_set::spec::Update;
use crate::view::remedy;

/// Where a DaemonSet stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Standing {
    /// No operator has acted on it, or on its last change, yet.
    NotStarted,
    /// Pods of an older template are being replaced, or nodes that never had a pod get one.
    Updating,
    /// The update was complete, and pods have become unavailable since.
    Unavailable,
    /// No pod is replaced until somebody resumes it.
    Paused,
    /// Nodes keep their old pod, as the spec says; all others are updated.
    OldPodsKept,
    /// Each node that should have a pod has an available one of the current template.
    Complete,
    /// It goes on only after a person has changed something.
    Stalled,
}

/// One DaemonSet, as `get` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// `apiVersion`.
    pub api_version: &'static str,
    /// `kind`.
    pub kind: &'static str,
    /// As in `daemonset.carillon.dev/NAME`.
    #[serde(skip)]
    pub resource: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Where it stands.
    pub standing: Standing,
    /// Reason of the condition that says so; empty where there is none, as of apps/v1.
    pub reason: String,
    /// Why, in words; empty when there is nothing to add.
    pub why: String,
    /// Nodes that should have a pod.
    pub desired: i32,
    /// Those of them that have one.
    pub current: i32,
    /// Those of them with one of the current template.
    pub updated: i32,
    /// Those of them with a ready one.
    pub ready: i32,
    /// Those of them with an available one.
    pub available: i32,
    /// Nodes that have a pod and should have none.
    pub misscheduled: i32,
    /// Hash of the current template, if the status has it.
    pub revision: Option<String>,
    /// Nodes that hold an update up, by reason. Of apps/v1 only where pods and nodes were looked at, as all that follows.
    pub waiting_for: Vec<Refused>,
    /// Nodes that were sick before the update reached them, by reason.
    pub excused: Vec<Refused>,
    /// Nodes that should have no pod, by reason.
    pub refused: Vec<Refused>,
    /// Image of the first container.
    pub image: String,
    /// When it was created.
    pub created: Option<Timestamp>,
}

impl Progress {
    /// The progress of a DaemonSet, as its status says.
    pub fn of(stored: &StoredSet) -> Self {
        let set = &stored.set;
        let status = &set.status;
        let (standing, reason) = standing(set);
        let mut progress = Self {
            api_version: set.meta.owner.api_version,
            kind: set.meta.owner.kind,
            resource: resource(set),
            namespace: set.meta.owner.namespace.clone(),
            name: set.meta.owner.name.clone(),
            standing,
            reason: reason.to_owned(),
            why: String::new(),
            desired: status.desired_number_scheduled,
            current: status.current_number_scheduled,
            updated: status.updated_number_scheduled.unwrap_or(0),
            ready: status.number_ready,
            available: status.number_available.unwrap_or(0),
            misscheduled: status.number_misscheduled,
            revision: status.update_revision.clone(),
            waiting_for: status.waiting_for.clone(),
            excused: status.excused.clone(),
            refused: status.refused.clone(),
            image: stored.image.clone(),
            created: stored.created,
        };
        progress.why = why(set, &progress);
        progress
    }

    /// Looks at pods and nodes for what the status of a native DaemonSet does not say.
    pub fn look(&mut self, at: &Look<'_>) {
        let known = at.known;
        let hash = &at.current.hash;
        let told = told(&known.snapshot(), &at.nodes, (hash, at.now));
        self.revision = Some(hash.clone());
        self.waiting_for = told.waiting_for;
        self.excused = told.excused;
        self.refused = told.refused;
        self.why = why(&known.stored.set, self);
    }

    /// `Updating: 1 node PodNotReady (node-0003)`.
    pub fn headline(&self) -> String {
        match self.why.as_str() {
            "" => format!("{:?}", self.standing),
            why => format!("{:?}: {why}", self.standing),
        }
    }

    /// `agent: 3/8 updated, 7 available, Updating: 1 node PodNotReady (node-0003)`.
    pub fn line(&self) -> String {
        let Self {
            name,
            updated,
            desired,
            available,
            ..
        } = self;
        let headline = self.headline();
        format!("{name}: {updated}/{desired} updated, {available} available, {headline}")
    }

    /// The end of waiting for an update, once it has come.
    pub fn end(&self) -> Option<End> {
        match self.standing {
            Standing::OldPodsKept if self.reason == ON_DELETE => Some(End::NeedsHelp),
            Standing::Complete | Standing::OldPodsKept => Some(End::Done),
            Standing::Stalled if self.reason == reasons::PROGRESS_DEADLINE_EXCEEDED => {
                Some(End::StandsStill)
            }
            Standing::Stalled | Standing::Paused => Some(End::NeedsHelp),
            Standing::NotStarted | Standing::Updating | Standing::Unavailable => None,
        }
    }
}

/// How waiting for an update ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Every node has an available pod of the current template, but for those that keep their old one as the spec says.
    Done,
    /// No node has moved for ten minutes, though one could.
    StandsStill,
    /// It goes on only after a person has changed something: it is Stalled, paused, or of type OnDelete.
    NeedsHelp,
}

/// Type `OnDelete` keeps old pods.
const ON_DELETE: &str = "OnDelete";

fn standing(set: &DaemonSet) -> (Standing, &str) {
    let status = &set.status;
    if status.observed_generation != Some(set.meta.generation) {
        return (Standing::NotStarted, "");
    }
    if set.native {
        return native(set);
    }
    let reason = |type_| {
        let found = condition::find(&status.conditions, type_);
        found.map_or("", |condition| &*condition.reason)
    };
    let (ready, progressing) = (reason(types::READY), reason(types::PROGRESSING));
    if condition::is_true(&status.conditions, types::STALLED) {
        return (Standing::Stalled, reason(types::STALLED));
    }
    let is_ready = condition::is_true(&status.conditions, types::READY);
    let on_delete = set.spec.update == Update::OnDelete;
    match (ready, progressing) {
        (reasons::OLD_PODS_KEPT, _) if on_delete => (Standing::OldPodsKept, ON_DELETE),
        (reasons::OLD_PODS_KEPT, _) => (Standing::OldPodsKept, ready),
        _ if is_ready => (Standing::Complete, ready),
        ("", _) => (Standing::NotStarted, ""),
        (_, reasons::PAUSED_BY_USER) => (Standing::Paused, progressing),
        (_, reasons::UPDATE_COMPLETE) => (Standing::Unavailable, ready),
        _ => (Standing::Updating, ready),
    }
}

/// By its numbers, as `kubectl rollout status` judges. Source: `DaemonSetStatusViewer`.
fn native(set: &DaemonSet) -> (Standing, &str) {
    let status = &set.status;
    let desired = status.desired_number_scheduled;
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let available = status.number_available.unwrap_or(0);
    match set.spec.update {
        Update::OnDelete if updated < desired => (Standing::OldPodsKept, ON_DELETE),
        _ if updated < desired || available < desired => (Standing::Updating, ""),
        _ => (Standing::Complete, ""),
    }
}

fn why(set: &DaemonSet, progress: &Progress) -> String {
    let by_reason = |nodes: &[Refused]| {
        let said = nodes.iter().map(|one| {
            let more = if one.count as usize > one.sample.len() {
                ", …"
            } else {
                ""
            };
            let noun = if one.count == 1 { "node" } else { "nodes" };
            let names = one.sample.join(", ");
            format!("{} {noun} {} ({names}{more})", one.count, one.reason)
        });
        said.collect::<Vec<_>>().join("; ")
    };
    match progress.standing {
        Standing::NotStarted => "no operator has acted on it yet".to_owned(),
        Standing::Stalled => {
            let stalled = condition::find(&set.status.conditions, types::STALLED);
            let message =
                stalled.map_or_else(String::new, |stalled| remedy::told(&stalled.message));
            let waiting = by_reason(&progress.waiting_for);
            let parts = [&*progress.reason, &message, &waiting];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join(": ")
        }
        Standing::Updating | Standing::Unavailable => by_reason(&progress.waiting_for),
        Standing::Paused => "rollingUpdate.paused is true".to_owned(),
        Standing::OldPodsKept if progress.reason == ON_DELETE => {
            "of type OnDelete: an old pod is replaced when somebody deletes it".to_owned()
        }
        Standing::OldPodsKept => "as partition or rollingUpdate.selector say".to_owned(),
        Standing::Complete if !progress.excused.is_empty() => {
            format!("but for {}", by_reason(&progress.excused))
        }
        Standing::Complete => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::daemon_set::read;
    use crate::view::daemon_set::samples::{condition, object};

    fn progress(status: &Value, strategy: &Value) -> Progress {
        let mut object = object(
            "carillon.dev/v1alpha1",
            &json!({"updateStrategy": strategy}),
        );
        object["status"] = status.clone();
        Progress::of(&read::set(&object))
    }

    #[test]
    fn where_an_update_stands_is_what_its_conditions_say_and_waiting_ends_accordingly() {
        let waiting = json!([{"reason": "PodNotReady", "count": 4, "sample": ["a", "b", "c"]}]);
        let on_delete = json!({"type": "OnDelete"});
        for (conditions, strategy, headline, end) in [
            (
                json!([]),
                json!({}),
                "NotStarted: no operator has acted on it yet",
                None,
            ),
            (
                json!([condition("Ready", true, "UpdateComplete")]),
                json!({}),
                "Complete",
                Some(End::Done),
            ),
            (
                json!([
                    condition("Ready", false, "PodsUnavailable"),
                    condition("Progressing", true, "Updating")
                ]),
                json!({}),
                "Updating: 4 nodes PodNotReady (a, b, c, …)",
                None,
            ),
            (
                json!([
                    condition("Ready", false, "PodsUnavailable"),
                    condition("Progressing", true, "UpdateComplete")
                ]),
                json!({}),
                "Unavailable: 4 nodes PodNotReady (a, b, c, …)",
                None,
            ),
            (
                json!([
                    condition("Ready", false, "PodsUnavailable"),
                    condition("Progressing", false, "PausedByUser")
                ]),
                json!({}),
                "Paused: rollingUpdate.paused is true",
                Some(End::NeedsHelp),
            ),
            (
                json!([
                    condition("Ready", true, "OldPodsKept"),
                    condition("Progressing", true, "UpdateComplete")
                ]),
                json!({"rollingUpdate": {"partition": 3}}),
                "OldPodsKept: as partition or rollingUpdate.selector say",
                Some(End::Done),
            ),
            (
                json!([condition("Ready", true, "OldPodsKept")]),
                on_delete,
                "OldPodsKept: of type OnDelete: an old pod is replaced when somebody deletes it",
                Some(End::NeedsHelp),
            ),
            (
                json!([
                    condition("Stalled", true, "ProgressDeadlineExceeded"),
                    condition("Ready", false, "Updating")
                ]),
                json!({}),
                "Stalled: ProgressDeadlineExceeded: 4 nodes PodNotReady (a, b, c, …)",
                Some(End::StandsStill),
            ),
            (
                json!([condition("Stalled", true, "SelectingAll")]),
                json!({}),
                "Stalled: SelectingAll: 4 nodes PodNotReady (a, b, c, …)",
                Some(End::NeedsHelp),
            ),
        ] {
            let status =
                json!({"conditions": conditions, "observedGeneration": 3, "waitingFor": waiting});
            let found = progress(&status, &strategy);
            assert_eq!(
                (&*found.headline(), found.end()),
                (headline, end),
                "{conditions}"
            );
        }
    }

    #[test]
    fn what_the_operator_has_not_seen_yet_has_not_ended() {
        let ready = json!([condition("Ready", true, "UpdateComplete")]);
        let found = progress(
            &json!({"conditions": ready, "observedGeneration": 2}),
            &json!({}),
        );
        assert_eq!((found.standing, found.end()), (Standing::NotStarted, None));
    }

    /// One without a status, and one with that of the CRD.
    #[test]
    fn a_set_that_nobody_has_looked_at_is_not_started() {
        for status in [Value::Null, json!({"observedGeneration": -1})] {
            let mut object = object("carillon.dev/v1alpha1", &json!({}));
            object["status"] = status.clone();
            let set = read::set(&object);
            assert_eq!(set.set.status.observed_generation, None, "{status}");
            let found = Progress::of(&set);
            assert_eq!(
                (found.standing, found.end()),
                (Standing::NotStarted, None),
                "{status}"
            );
        }
    }

    #[test]
    fn a_native_one_is_judged_by_its_numbers() {
        for (updated, available, strategy, standing) in [
            (1, 2, json!({}), Standing::Updating),
            (2, 1, json!({}), Standing::Updating),
            (2, 2, json!({}), Standing::Complete),
            (1, 2, json!({"type": "OnDelete"}), Standing::OldPodsKept),
        ] {
            let mut object = object("apps/v1", &json!({"updateStrategy": strategy}));
            object["status"] = json!({"observedGeneration": 3, "desiredNumberScheduled": 2,
                "updatedNumberScheduled": updated, "numberAvailable": available});
            let found = Progress::of(&read::set(&object));
            assert_eq!(found.standing, standing, "{object}");
        }
    }
}
