//! CronJobs and their children, as the API server has them or as a manifest.

use carillon_api::DstPolicy;
use carillon_api::names::{
    ANNOTATION_RUN_NOW, ANNOTATION_SCHEDULED_TIMESTAMP, FINALIZER_RUN_TRACKING,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cron_job::{Api, Child, ChildKind, Children, CronJob, Ended};
use crate::uid::Uid;
use crate::view::read::{list, metadata, text, version};

/// Written by `kubectl create job --from`.
const ANNOTATION_INSTANTIATE: &str = "cronjob.kubernetes.io/instantiate";

/// A CronJob, and what only people want to know of it.
#[derive(Clone, Debug)]
pub struct StoredCron {
    /// As the planner reads it. A manifest that was not applied has uid 0.
    pub cron: CronJob,
    /// `spec.jitterSeconds`.
    pub jitter: i64,
}

/// Reads a CronJob, of carillon.dev or of batch/v1. Total, as [`CronJob::read`].
pub fn cron(object: &Value) -> StoredCron {
    let meta = &object["metadata"];
    let api = if text(&object["apiVersion"]).starts_with("batch/") {
        Api::Native
    } else {
        Api::Carillon
    };
    let run_now = meta["annotations"][ANNOTATION_RUN_NOW].as_str();
    let read = metadata(api.kind(), meta);
    let spec = &object["spec"];
    let mut cron = CronJob::read(read, run_now.map(str::to_owned), spec, &object["status"]);
    if cron.meta.owner.uid == Uid::MIN {
        // Which share of the jitter it gets follows from the uid.
        cron.offset = SignedDuration::ZERO;
    }
    StoredCron {
        cron,
        jitter: spec["jitterSeconds"].as_i64().unwrap_or(0),
    }
}

impl StoredCron {
    /// Whether it is an object of the API server, and not a manifest.
    pub fn exists(&self) -> bool {
        self.cron.meta.owner.uid != Uid::MIN
    }

    /// `spec.dstPolicy` is Once.
    pub fn is_once(&self) -> bool {
        self.cron.dst == DstPolicy::Once
    }

    /// Whether it is an `@every`, which knows no wall clock.
    pub fn is_every(&self) -> bool {
        let schedule = self.cron.timetable.as_ref();
        schedule.is_ok_and(|schedule| schedule.wall_clock().is_none())
    }

    /// Up to when it is decided what became of each tick; `None` for a manifest.
    pub(super) fn decided_until(&self) -> Option<Timestamp> {
        let cron = &self.cron;
        self.exists().then(|| cron.decided_until(&cron.status))
    }
}

/// Of Jobs and BroadcastJobs those that a CronJob controls.
pub fn children(owner: Uid, kind: ChildKind, objects: &[Value]) -> Children {
    let all = objects.iter().filter_map(run_of);
    let own = all.filter(|(by, ..)| by.uid == owner);
    own.map(|(_, name, child)| ((kind, name), child)).collect()
}

/// Which CronJob controls a job. Owners are of the same namespace: whoever names that of another is not its run.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Controller {
    /// Its namespace, which is that of the job.
    pub namespace: String,
    /// Its uid.
    pub uid: Uid,
}

impl Controller {
    /// That of a CronJob as it is stored.
    pub fn stored(cron: &StoredCron) -> Self {
        let owner = &cron.cron.meta.owner;
        Self {
            namespace: owner.namespace.clone(),
            uid: owner.uid,
        }
    }
}

/// A Job or BroadcastJob that a CronJob controls, with that and its own name.
pub fn run_of(object: &Value) -> Option<(Controller, Box<str>, Child)> {
    let meta = &object["metadata"];
    let mut references = list(&meta["ownerReferences"]);
    let of_cron = references
        .find(|reference| reference["controller"] == true && reference["kind"] == "CronJob")?;
    let controller = Controller {
        namespace: text(&meta["namespace"]).to_owned(),
        uid: text(&of_cron["uid"]).parse().ok()?,
    };
    Some((controller, text(&meta["name"]).into(), child(object)))
}

/// Reads a Job or BroadcastJob as the child of a CronJob.
pub fn child(object: &Value) -> Child {
    let (meta, status) = (&object["metadata"], &object["status"]);
    let annotation = |key: &str| meta["annotations"][key].as_str();
    let mut finalizers = list(&meta["finalizers"]);
    Child {
        uid: text(&meta["uid"]).parse().unwrap_or_default(),
        rv: version(meta),
        held: finalizers.any(|finalizer| finalizer == FINALIZER_RUN_TRACKING),
        deleting: meta["deletionTimestamp"].is_string(),
        retried: false,
        by_hand: annotation(ANNOTATION_INSTANTIATE).is_some(),
        scheduled: annotation(ANNOTATION_SCHEDULED_TIMESTAMP).and_then(|time| time.parse().ok()),
        request: annotation(ANNOTATION_RUN_NOW).map(Box::from),
        started: time(&status["startTime"]),
        ended: ended(status),
    }
}

fn ended(status: &Value) -> Option<Ended> {
    let conditions = list(&status["conditions"]).map(|condition| {
        let words = ["type", "status", "reason"].map(|field| text(&condition[field]));
        (words, time(&condition["lastTransitionTime"]))
    });
    Ended::read(conditions, time(&status["completionTime"]))
}

fn time(value: &Value) -> Option<Timestamp> {
    text(value).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::RunOutcome;
    use crate::view::cron_job::samples::{UID, at, hourly};
    use serde_json::json;

    #[test]
    fn a_manifest_has_no_share_of_the_jitter_yet_and_a_stored_one_has() {
        let spec = json!({"schedule": "0 * * * *", "jitterSeconds": 600});
        let manifest = cron(&json!({"apiVersion": "batch/v1", "spec": spec}));
        assert!(!manifest.exists() && manifest.cron.is_native());
        assert_eq!((manifest.cron.offset.as_secs(), manifest.jitter), (0, 600));
        let stored = hourly(&json!({"jitterSeconds": 600}), &json!({}));
        assert!(stored.exists() && !stored.cron.is_native());
        assert!((1..=600).contains(&stored.cron.offset.as_secs()));
    }

    #[test]
    fn a_job_that_names_the_cron_job_of_another_namespace_is_not_its_run() {
        let stored = hourly(&json!({}), &json!({}));
        let job = |namespace: &str| {
            let owner = json!({"controller": true, "kind": "CronJob", "uid": UID});
            run_of(
                &json!({"metadata": {"namespace": namespace, "name": "x", "ownerReferences": [owner]}}),
            )
        };
        let own = stored.cron.meta.owner.namespace.clone();
        assert_eq!(job(&own).unwrap().0, Controller::stored(&stored));
        assert_ne!(job("stranger").unwrap().0, Controller::stored(&stored));
    }

    #[test]
    fn the_wall_clock_of_a_schedule_has_no_zone_and_every_has_none() {
        for (written, every) in [
            ("CRON_TZ=Europe/Berlin 0 9 * * *", false),
            ("0 9 * * *", false),
            ("TZ=Asia/Tokyo @every 1h", true),
            ("@every 1h", true),
        ] {
            let stored = hourly(&json!({"schedule": written}), &json!({}));
            assert_eq!(stored.is_every(), every, "{written}");
            let schedule = stored.cron.timetable.unwrap();
            let first = schedule
                .wall_clock()
                .and_then(|wall| wall.next(at("2026-01-01T00:00:00Z")));
            let nine = (!every).then(|| at("2026-01-01T09:00:00Z"));
            assert_eq!(first, nine, "{written}");
        }
    }

    #[test]
    fn only_what_it_controls_is_a_child() {
        let job = |name: &str, uid: &str, controller: bool| {
            json!({
                "metadata": {
                    "name": name,
                    "annotations": {ANNOTATION_SCHEDULED_TIMESTAMP: "2026-01-01T02:00:00+01:00"},
                    "ownerReferences": [{"kind": "CronJob", "uid": uid, "controller": controller}],
                },
                "status": {"startTime": "2026-01-01T01:00:01Z", "conditions": [
                    {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T01:05:00Z"},
                ]},
            })
        };
        let other = "4e0c5d6a-0b1c-4d2e-8f3a-00000000ffff";
        let jobs = [
            job("a", UID, true),
            job("b", UID, false),
            job("c", other, true),
        ];
        let found = children(UID.parse().unwrap(), ChildKind::Job, &jobs);
        let child = &found[&(ChildKind::Job, "a".into())];
        assert_eq!(found.len(), 1);
        assert_eq!(child.scheduled, Some(at("2026-01-01T01:00:00Z")));
        let ended = child.ended.unwrap();
        assert_eq!(
            (ended.outcome, ended.at),
            (RunOutcome::Failed, Some(at("2026-01-01T01:05:00Z")))
        );
    }

    #[test]
    fn anything_can_be_read_without_a_panic() {
        for object in [
            json!(null),
            json!([1]),
            json!({"metadata": 3, "spec": [], "status": "x"}),
        ] {
            assert!(cron(&object).cron.timetable.is_err(), "{object}");
            let _ = child(&object);
        }
    }
}
