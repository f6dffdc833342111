//! The invariants by name.

/// What must hold. What each says exactly stands at the function that judges it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Invariant {
    /// One per node: [`crate::broadcast_job::once::one_pod_per_node`],
    /// [`crate::daemon_set::once::one_pod_per_node`], [`crate::job::once::one_pod_per_index`].
    S1,
    /// Run once: [`crate::broadcast_job::once::run_once`],
    /// [`crate::job::once::a_name_and_an_index_once`].
    S2,
    /// Parallelism: [`crate::broadcast_job::parallelism::parallelism_is_kept`],
    /// [`crate::daemon_set::budget::no_more_than_may_be`], [`crate::job::parallelism::parallelism_is_kept`].
    S3,
    /// Counted exactly once: [`crate::broadcast_job::counting::counted_exactly_once`],
    /// [`crate::cron_job::hold::notes_only_grow`], [`crate::job::counting::counted_exactly_once`].
    S4,
    /// Nothing lost: [`crate::broadcast_job::finalizer::nothing_is_lost`],
    /// [`crate::cron_job::hold::held_until_noted`], [`crate::daemon_set::revisions::kept_while_used`],
    /// [`crate::job::tracking::counted_before_it_goes`].
    S5,
    /// Terminal is absorbing: [`crate::broadcast_job::terminal::terminal_is_absorbing`],
    /// [`crate::job::terminal::terminal_is_absorbing`].
    S6,
    /// A run once: [`crate::cron_job::once::cron_once`].
    S7,
    /// Policy: [`crate::cron_job::policy::policy_is_kept`].
    S8,
    /// Nothing is stopped without a reason: [`crate::broadcast_job::stopping::stopped_for_a_reason`],
    /// [`crate::cron_job::ending::child_ended_for_a_reason`],
    /// [`crate::daemon_set::stopping::stopped_for_a_reason`],
    /// [`crate::daemon_set::hook::no_pod_is_deleted_with_its_hook`], [`crate::job::stopping::stopped_for_a_reason`].
    S9,
    /// Ownership: [`crate::broadcast_job::ownership::only_what_is_ours`],
    /// [`crate::cron_job::ownership::only_what_it_started`], [`crate::daemon_set::ownership::only_its_own`],
    /// [`crate::job::ownership::only_its_own`].
    S11,
    /// Amplification: [`crate::broadcast_job::amplification::bounded_cost`],
    /// [`crate::cron_job::cost::bounded_runs`], [`crate::daemon_set::cost::bounded_pods`],
    /// [`crate::job::cost::bounded_cost`].
    S12,
    /// Silence: [`crate::silence::silent_when_done`].
    S13,
    /// Determinism: [`crate::determinism::replays_equally`].
    S15,
    /// Content: [`crate::broadcast_job::content::pod_is_its_template`],
    /// [`crate::cron_job::content::child_is_its_template`], [`crate::daemon_set::content::pod_is_its_template`],
    /// [`crate::job::content::pod_is_its_template`].
    S16,
    /// Hygiene: [`crate::hygiene::clean_words`].
    S17,
    /// Isolation: [`crate::isolation::namespaces_are_isolated`], [`crate::isolation::requests::asked_within_bounds`].
    S18,
    /// What is wanted comes to pass: [`crate::broadcast_job::liveness::all_is_done`],
    /// [`crate::cron_job::settled::every_tick_is_settled`], [`crate::daemon_set::settled::every_node_is_served`],
    /// [`crate::job::settled::every_job_is_settled`].
    L1,
    /// Bounded: [`crate::broadcast_job::liveness::done_in_time`],
    /// [`crate::cron_job::settled::every_tick_is_settled_in_time`],
    /// [`crate::daemon_set::settled::every_node_is_served_in_time`],
    /// [`crate::job::settled::every_job_is_settled_in_time`].
    L2,
    /// Deletion ends: [`crate::broadcast_job::deletion::deletion_ends`],
    /// [`crate::cron_job::deletion::nothing_is_held`], [`crate::job::deletion::nothing_is_held`].
    L3,
    /// The status is what happened: [`crate::broadcast_job::counting::last_status::status_is_what_happened`],
    /// [`crate::cron_job::settled::notes_are_what_happened`],
    /// [`crate::cron_job::conditions::conditions_are_true`],
    /// [`crate::daemon_set::settled::status_is_what_is_there`], [`crate::job::settled::status_is_what_happened`].
    L4,
    /// Progress under pressure: [`crate::broadcast_job::liveness::all_is_done_under_pressure`],
    /// [`crate::cron_job::settled::every_tick_is_settled_under_pressure`],
    /// [`crate::daemon_set::settled::every_node_is_served_under_pressure`],
    /// [`crate::job::settled::every_job_is_settled_under_pressure`].
    L6,
    /// Path independence: [`crate::broadcast_job::same_end::same_end`].
    L7,
    /// Rollback: [`crate::broadcast_job::same_end::same_end`].
    L8,
}

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
            Self::S5 => ("S5", "no pod or run is released before it is noted"),
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
}
