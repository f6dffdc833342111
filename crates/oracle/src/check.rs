//! Which functions judge which invariant, by the kind that is served.

use crate::broadcast_job::{
    amplification, content, counting, deletion, finalizer, liveness, once, outcome, ownership,
    parallelism, stopping, terminal,
};
use crate::history::History;
use crate::invariant::Invariant;
use crate::verdict::{Assumptions, Checked, Report, Verdict, both};
use crate::{cron_job, daemon_set, hygiene, isolation, job, silence};

type Judge = fn(&History, &Assumptions) -> Verdict;

/// Judges one invariant. S15, L7 and L8 need more than a history: they have functions of their own,
/// and are not evaluated here.
pub fn check(invariant: Invariant, history: &History, assumptions: &Assumptions) -> Verdict {
    let verdicts = judges(invariant).iter();
    let verdicts = verdicts.map(|judge| judge(history, assumptions));
    let verdict = verdicts.reduce(both);
    verdict.unwrap_or_else(|| Ok(Checked::default()))
}

/// Judges all that a history alone can break. What is in the namespace of a tenant is judged by S18 alone.
pub fn check_all(history: &History, assumptions: &Assumptions) -> Report {
    let outside = assumptions.tenant.as_deref();
    let outside = outside.map(|tenant| history.outside(tenant));
    let judge = |invariant| match (invariant, &outside) {
        (Invariant::S18, _) | (_, None) => check(invariant, history, assumptions),
        (_, Some(outside)) => check(invariant, outside, assumptions),
    };
    let judged = Invariant::ALL
        .into_iter()
        .filter(|invariant| !judges(*invariant).is_empty());
    Report {
        unattributed: history
            .steps
            .iter()
            .filter(|step| step.by.is_none())
            .count() as u64,
        verdicts: judged
            .map(|invariant| (invariant, judge(invariant)))
            .collect(),
    }
}

/// How an invariant is judged, by the kind that is served; not at all where that needs more than one history.
fn judges(invariant: Invariant) -> &'static [Judge] {
    match invariant {
        Invariant::S1 => &[
            once::one_pod_per_node,
            daemon_set::once::one_pod_per_node,
            job::once::one_pod_per_index,
        ],
        Invariant::S2 => &[once::run_once, job::once::a_name_and_an_index_once],
        Invariant::S3 => &[
            parallelism::parallelism_is_kept,
            daemon_set::budget::no_more_than_may_be,
            job::parallelism::parallelism_is_kept,
        ],
        Invariant::S4 => &[
            counting::counted_exactly_once,
            outcome::what_pods_meant,
            cron_job::hold::notes_only_grow,
            job::counting::counted_exactly_once,
        ],
        Invariant::S5 => &[
            finalizer::nothing_is_lost,
            cron_job::hold::held_until_noted,
            daemon_set::revisions::kept_while_used,
            job::tracking::counted_before_it_goes,
        ],
        Invariant::S6 => &[
            terminal::terminal_is_absorbing,
            job::terminal::terminal_is_absorbing,
        ],
        Invariant::S7 => &[cron_job::once::cron_once],
        Invariant::S8 => &[cron_job::policy::policy_is_kept],
        Invariant::S9 => &[
            stopping::stopped_for_a_reason,
            cron_job::ending::child_ended_for_a_reason,
            daemon_set::stopping::stopped_for_a_reason,
            daemon_set::hook::no_pod_is_deleted_with_its_hook,
            job::stopping::stopped_for_a_reason,
        ],
        Invariant::S11 => &[
            ownership::only_what_is_ours,
            daemon_set::ownership::only_its_own,
            cron_job::ownership::only_what_it_started,
            job::ownership::only_its_own,
        ],
        Invariant::S12 => &[
            amplification::bounded_cost,
            cron_job::cost::bounded_runs,
            daemon_set::cost::bounded_pods,
            job::cost::bounded_cost,
        ],
        Invariant::S13 => &[silence::silent_when_done],
        Invariant::S16 => &[
            content::pod_is_its_template,
            cron_job::content::child_is_its_template,
            daemon_set::content::pod_is_its_template,
            job::content::pod_is_its_template,
        ],
        Invariant::S17 => &[hygiene::clean_words],
        Invariant::S18 => &[isolation::namespaces_are_isolated],
        Invariant::L1 => &[
            liveness::all_is_done,
            cron_job::settled::every_tick_is_settled,
            daemon_set::settled::every_node_is_served,
            job::settled::every_job_is_settled,
        ],
        Invariant::L2 => &[
            liveness::done_in_time,
            cron_job::settled::every_tick_is_settled_in_time,
            daemon_set::settled::every_node_is_served_in_time,
            job::settled::every_job_is_settled_in_time,
        ],
        Invariant::L3 => &[
            deletion::deletion_ends,
            cron_job::deletion::nothing_is_held,
            job::deletion::nothing_is_held,
        ],
        Invariant::L4 => &[
            counting::last_status::status_is_what_happened,
            cron_job::settled::notes_are_what_happened,
            cron_job::conditions::conditions_are_true,
            daemon_set::settled::status_is_what_is_there,
            job::settled::status_is_what_happened,
        ],
        Invariant::L6 => &[
            liveness::all_is_done_under_pressure,
            cron_job::settled::every_tick_is_settled_under_pressure,
            daemon_set::settled::every_node_is_served_under_pressure,
            job::settled::every_job_is_settled_under_pressure,
        ],
        Invariant::S15 | Invariant::L7 | Invariant::L8 => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;
    use serde_json::json;

    #[test]
    fn a_clean_run_holds_everywhere_and_says_how_much_was_looked_at() {
        let over = Assumptions {
            over: true,
            ..Assumptions::default()
        };
        let report = check_all(&Scene::good().history(), &over);
        assert_eq!(report.violations().count(), 0, "{report}");
        assert!(report.evaluations() > 100, "{report}");
        assert_eq!(report.verdicts.len(), Invariant::ALL.len() - 3);
    }

    #[test]
    fn a_cron_job_and_what_it_starts_hold_everywhere() {
        let over = Assumptions {
            over: true,
            ..Assumptions::default()
        };
        let report = check_all(&Scene::two_runs().history(), &over);
        assert_eq!(report.violations().count(), 0, "{report}");
        // A BroadcastJob comes, is released and is deleted by the one that serves it, too.
        let (scene, (resource, name)) = cron_job::scene::broadcast(&json!({
            "concurrencyPolicy": "Replace",
        }));
        let scene = scene.cron_status(|status| {
            status["active"][0]["uid"] = json!("run-5");
            status["lastScheduleTime"] = json!("2026-01-01T00:05:00Z");
        });
        let mut job = scene.object(resource, &name);
        job["metadata"]["finalizers"] = json!([]);
        let body = json!({"metadata": {"uid": "run-5"}});
        let place = (resource, &*name);
        let free = scene.step("carillon", "patch", place, Some(job), Some(body));
        let body = json!({"preconditions": {"uid": "run-5", "resourceVersion": "7"}});
        let gone = free.step("carillon", "delete", place, None, Some(body));
        let none = gone.cron_status(|status| status["active"] = json!([]));
        let report = check_all(&none.history(), &over);
        assert_eq!(report.violations().count(), 0, "{report}");
    }

    #[test]
    fn a_job_and_its_pods_hold_everywhere() {
        let over = Assumptions {
            over: true,
            ..Assumptions::default()
        };
        let report = check_all(&Scene::summed().history(), &over);
        assert_eq!(report.violations().count(), 0, "{report}");
    }

    #[test]
    fn a_violation_shows_the_object_before_and_after_and_the_request() {
        let scene = Scene::good().node("n3").create("n3", 1);
        let report = check_all(&scene.history(), &Assumptions::default());
        let text = report.to_string();
        let violation = report
            .violations()
            .find(|v| v.invariant == Invariant::S6)
            .unwrap();
        let shown = violation.to_string();
        for part in [
            "S6 does not hold",
            "first bad revision",
            "pods ops/fix-n3-1",
            "before  (none)",
            "\"phase\":\"Pending\"",
            "carillon (carillon/1) create /api/v1/namespaces/ops/pods",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(text.contains("0 steps without a known request"), "{text}");
    }
}
