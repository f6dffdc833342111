//! The invariants by name.

use crate::history::History;
use crate::judge::{Assumptions, Checked, Report, Verdict, both};
use crate::{
    amplification, content, counting, cron_job, deletion, finalizer, hygiene, isolation, job,
    liveness, once, outcome, ownership, parallelism, silence, stopping, terminal,
};

/// What must hold. What each says exactly stands at the function that judges it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Invariant {
    /// One per node: [`once::one_pod_per_node`],
    /// [`job::once::one_pod_per_index`].
    S1,
    /// Run once: [`once::run_once`],
    /// [`job::once::a_name_and_an_index_once`].
    S2,
    /// Parallelism: [`parallelism::parallelism_is_kept`],
    /// [`job::parallelism::parallelism_is_kept`].
    S3,
    /// Counted exactly once: [`counting::counted_exactly_once`],
    /// [`cron_job::hold::notes_only_grow`], [`job::counting::counted_exactly_once`].
    S4,
    /// Nothing lost: [`finalizer::nothing_is_lost`],
    /// [`cron_job::hold::held_until_noted`], [`job::tracking::counted_before_it_goes`].
    S5,
    /// Terminal is absorbing: [`terminal::terminal_is_absorbing`],
    /// [`job::terminal::terminal_is_absorbing`].
    S6,
    /// A run once: [`cron_job::once::cron_once`].
    S7,
    /// Policy: [`cron_job::policy::policy_is_kept`].
    S8,
    /// Nothing is stopped without a reason: [`stopping::stopped_for_a_reason`],
    /// [`cron_job::ending::child_ended_for_a_reason`],
    /// [`job::stopping::stopped_for_a_reason`].
    S9,
    /// Ownership: [`ownership::only_what_is_ours`],
    /// [`cron_job::ownership::only_what_it_started`], [`job::ownership::only_its_own`].
    S11,
    /// Amplification: [`amplification::bounded_cost`],
    /// [`cron_job::cost::bounded_runs`], [`job::cost::bounded_cost`].
    S12,
    /// Silence: [`silence::silent_when_done`].
    S13,
    /// Determinism: [`crate::determinism::replays_equally`].
    S15,
    /// Content: [`content::pod_is_its_template`],
    /// [`cron_job::content::child_is_its_template`],
    /// [`job::content::pod_is_its_template`].
    S16,
    /// Hygiene: [`hygiene::clean_words`].
    S17,
    /// Isolation: [`isolation::namespaces_are_isolated`], [`isolation::requests::asked_within_bounds`].
    S18,
    /// What is wanted comes to pass: [`liveness::all_is_done`],
    /// [`cron_job::settled::every_tick_is_settled`], [`job::settled::every_job_is_settled`].
    L1,
    /// Bounded: [`liveness::done_in_time`],
    /// [`cron_job::settled::every_tick_is_settled_in_time`],
    /// [`job::settled::every_job_is_settled_in_time`].
    L2,
    /// Deletion ends: [`deletion::deletion_ends`],
    /// [`cron_job::deletion::nothing_is_held`], [`job::deletion::nothing_is_held`].
    L3,
    /// The status is what happened: [`counting::status_is_what_happened`],
    /// [`cron_job::settled::notes_are_what_happened`],
    /// [`cron_job::conditions::conditions_are_true`],
    /// [`job::settled::status_is_what_happened`].
    L4,
    /// Progress under pressure: [`liveness::all_is_done_under_pressure`],
    /// [`cron_job::settled::every_tick_is_settled_under_pressure`],
    /// [`job::settled::every_job_is_settled_under_pressure`].
    L6,
    /// Path independence: [`crate::same_end::same_end`].
    L7,
    /// Rollback: [`crate::same_end::same_end`].
    L8,
}

type Judge = fn(&History, &Assumptions) -> Verdict;

impl Invariant {
    /// All of them, in order.
    pub const ALL: [Self; 23] = [
        Self::S1,
        Self::S2,
        Self::S3,
        Self::S4,
        Self::S5,
        Self::S6,
        Self::S7,
        Self::S8,
        Self::S9,
        Self::S11,
        Self::S12,
        Self::S13,
        Self::S15,
        Self::S16,
        Self::S17,
        Self::S18,
        Self::L1,
        Self::L2,
        Self::L3,
        Self::L4,
        Self::L6,
        Self::L7,
        Self::L8,
    ];

    /// Its name in reports.
    pub fn id(self) -> &'static str {
        self.words().0
    }

    /// What it says, for people.
    pub fn sentence(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::S1 => (
                "S1",
                "a job has at most one pod on a node that has not ended",
            ),
            Self::S2 => (
                "S2",
                "a node whose work is done gets no further pod, and an attempt has one pod",
            ),
            Self::S3 => (
                "S3",
                "no more pods run or are promised than parallelism allows",
            ),
            Self::S4 => (
                "S4",
                "each outcome is counted exactly once, and stays as it was recorded",
            ),
            Self::S5 => ("S5", "no pod or run is let go before it is noted"),
            Self::S6 => (
                "S6",
                "a job that has ended stays as it ended and starts nothing",
            ),
            Self::S7 => (
                "S7",
                "a tick of a CronJob is run at most once, and was promised before",
            ),
            Self::S8 => (
                "S8",
                "a run begins when its time and the policy of its CronJob allow it",
            ),
            Self::S9 => (
                "S9",
                "no pod or run is stopped without a reason that is stored",
            ),
            Self::S11 => (
                "S11",
                "only what is ours is written, and each write says which version it means",
            ),
            Self::S12 => (
                "S12",
                "the pods and writes of a job are bounded by its nodes and what happened to them, those of a CronJob by its runs",
            ),
            Self::S13 => (
                "S13",
                "no write changes nothing, and none is made while nothing happens",
            ),
            Self::S15 => ("S15", "the same snapshot gives the same plan"),
            Self::S16 => (
                "S16",
                "a pod is its template, pinned to its node, a run is that of its CronJob, and nothing else",
            ),
            Self::S17 => (
                "S17",
                "no value of a variable is in what we write, and no interlock tripped",
            ),
            Self::S18 => (
                "S18",
                "what a tenant does in its namespace changes nothing elsewhere, and costs little",
            ),
            Self::L1 => (
                "L1",
                "every eligible node gets an outcome, the job ends as its policy says, and every tick is settled",
            ),
            Self::L2 => (
                "L2",
                "that comes to pass in a bounded time after the last fault",
            ),
            Self::L3 => (
                "L3",
                "nothing is left of a deleted job, and nothing of a deleted CronJob is held",
            ),
            Self::L4 => ("L4", "the last status says what happened"),
            Self::L6 => (
                "L6",
                "every node gets an outcome and every tick is settled although faults never end",
            ),
            Self::L7 => (
                "L7",
                "a chain of edits ends where its last spec alone would",
            ),
            Self::L8 => ("L8", "a bad value that is taken back leaves no trace"),
        }
    }

    /// How it is judged, by the kind that is served; not at all where that needs more than one history.
    fn judges(self) -> &'static [Judge] {
        match self {
            Self::S1 => &[once::one_pod_per_node, job::once::one_pod_per_index],
            Self::S2 => &[once::run_once, job::once::a_name_and_an_index_once],
            Self::S3 => &[
                parallelism::parallelism_is_kept,
                job::parallelism::parallelism_is_kept,
            ],
            Self::S4 => &[
                counting::counted_exactly_once,
                outcome::what_pods_meant,
                cron_job::hold::notes_only_grow,
                job::counting::counted_exactly_once,
            ],
            Self::S5 => &[
                finalizer::nothing_is_lost,
                cron_job::hold::held_until_noted,
                job::tracking::counted_before_it_goes,
            ],
            Self::S6 => &[
                terminal::terminal_is_absorbing,
                job::terminal::terminal_is_absorbing,
            ],
            Self::S7 => &[cron_job::once::cron_once],
            Self::S8 => &[cron_job::policy::policy_is_kept],
            Self::S9 => &[
                stopping::stopped_for_a_reason,
                cron_job::ending::child_ended_for_a_reason,
                job::stopping::stopped_for_a_reason,
            ],
            Self::S11 => &[
                ownership::only_what_is_ours,
                cron_job::ownership::only_what_it_started,
                job::ownership::only_its_own,
            ],
            Self::S12 => &[
                amplification::bounded_cost,
                cron_job::cost::bounded_runs,
                job::cost::bounded_cost,
            ],
            Self::S13 => &[silence::silent_when_done],
            Self::S16 => &[
                content::pod_is_its_template,
                cron_job::content::child_is_its_template,
                job::content::pod_is_its_template,
            ],
            Self::S17 => &[hygiene::clean_words],
            Self::S18 => &[isolation::namespaces_are_isolated],
            Self::L1 => &[
                liveness::all_is_done,
                cron_job::settled::every_tick_is_settled,
                job::settled::every_job_is_settled,
            ],
            Self::L2 => &[
                liveness::done_in_time,
                cron_job::settled::every_tick_is_settled_in_time,
                job::settled::every_job_is_settled_in_time,
            ],
            Self::L3 => &[
                deletion::deletion_ends,
                cron_job::deletion::nothing_is_held,
                job::deletion::nothing_is_held,
            ],
            Self::L4 => &[
                counting::status_is_what_happened,
                cron_job::settled::notes_are_what_happened,
                cron_job::conditions::conditions_are_true,
                job::settled::status_is_what_happened,
            ],
            Self::L6 => &[
                liveness::all_is_done_under_pressure,
                cron_job::settled::every_tick_is_settled_under_pressure,
                job::settled::every_job_is_settled_under_pressure,
            ],
            Self::S15 | Self::L7 | Self::L8 => &[],
        }
    }
}

/// Judges one invariant. S15, L7 and L8 need more than a history: they have functions of their own,
/// and are not evaluated here.
pub fn check(invariant: Invariant, history: &History, assumptions: &Assumptions) -> Verdict {
    let verdicts = invariant.judges().iter();
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
        .filter(|invariant| !invariant.judges().is_empty());
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
        // A BroadcastJob comes, is let go and is deleted by the one that serves it, too.
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
