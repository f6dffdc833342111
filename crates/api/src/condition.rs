//! Every condition type and every reason of the project, in one place.

/// Condition types. Those of one object are metav1 conditions with `observedGeneration`.
pub mod types {
    /// The job has ended: every eligible node has an outcome.
    pub const COMPLETE: &str = "Complete";
    /// The job has ended early; the reason says why.
    pub const FAILED: &str = "Failed";
    /// The job is going to fail; its remaining pods are being stopped first.
    pub const FAILURE_TARGET: &str = "FailureTarget";
    /// No new pods are started, by request or because of failures.
    pub const PAUSED: &str = "Paused";
    /// CronJob: runs are started when the schedule says so. False: none are, the reason says why.
    pub const SCHEDULED: &str = "Scheduled";
    /// The time to live of the job is over, and it stays since another job needs its results.
    pub const EXPIRY_WAITS: &str = "ExpiryWaits";
    /// An annotation that asks for something cannot be read: it asks for nothing.
    pub const REQUEST_IGNORED: &str = "RequestIgnored";
    /// DaemonSet: every node that should have a pod has an available one of the current template.
    pub const READY: &str = "Ready";
    /// DaemonSet: an update goes on, or has come to its end. False: it does not go on, the reason says why.
    pub const PROGRESSING: &str = "Progressing";
    /// DaemonSet: no more nodes are without an available pod than the budget allows.
    pub const AVAILABLE: &str = "Available";
    /// kstatus: work remains.
    pub const RECONCILING: &str = "Reconciling";
    /// kstatus: progress needs a person.
    pub const STALLED: &str = "Stalled";
}

/// Reasons of conditions.
pub mod reasons {
    /// ExpiryWaits: a retry of the job has not ended.
    pub const RETRY_HAS_NOT_ENDED: &str = "RetryHasNotEnded";
    /// ExpiryWaits: the job is a retry, and the job that it retries is there.
    pub const RETRIED_JOB_THERE: &str = "RetriedJobThere";
    /// ExpiryWaits is false: the job was given more time.
    pub const NOT_EXPIRED: &str = "NotExpired";
    /// Complete: every eligible node has succeeded.
    pub const ALL_NODES_SUCCEEDED: &str = "AllNodesSucceeded";
    /// Complete: every eligible node has an outcome, and some have failed, as `failurePolicy` or a resume allows. A
    /// CronJob does not count such a run as a success.
    pub const COMPLETED_WITH_FAILURES: &str = "CompletedWithFailures";
    /// Failed, FailureTarget, Stalled: more nodes failed than `failurePolicy.maxFailedNodes` allows, and the failure
    /// policy is FailFast.
    pub const MAX_FAILED_NODES_EXCEEDED: &str = "MaxFailedNodesExceeded";
    /// Failed, FailureTarget: `activeDeadlineSeconds` has passed.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Failed, FailureTarget: a rule of `podFailurePolicy` with the action FailJob matched.
    pub const POD_FAILURE_POLICY: &str = "PodFailurePolicy";
    /// Paused: `spec.paused` is true.
    pub const PAUSED_BY_USER: &str = "PausedByUser";
    /// Paused: more nodes failed than `failurePolicy.maxFailedNodes` allows, and the failure policy is
    /// Pause.
    pub const PAUSED_BY_FAILURE: &str = "PausedByFailure";
    /// Paused or Stalled is false: the job runs (again).
    pub const RESUMED: &str = "Resumed";
    /// Reconciling: pods are being started or are running.
    pub const RUNNING: &str = "Running";
    /// Reconciling: the remaining pods of a failing job are being stopped.
    pub const STOPPING: &str = "Stopping";
    /// Reconciling: no node passes the checks of the pod template. Also Complete or Failed and
    /// FailureTarget, with `noEligibleNodesPolicy` Complete or Fail.
    pub const NO_ELIGIBLE_NODES: &str = "NoEligibleNodes";
    /// Reconciling: type Never, every node of now is served, later ones will be.
    pub const WAITING_FOR_NODES: &str = "WaitingForNodes";
    /// Reconciling: only nodes are left whose pod was interrupted (drain, eviction) and that are not
    /// eligible for the moment; uncordon them, or delete the node objects.
    pub const WAITING_FOR_INTERRUPTED_NODES: &str = "WaitingForInterruptedNodes";
    /// Reconciling: only nodes are left whose last attempt failed, and that wait for their next one.
    pub const WAITING_FOR_RETRIES: &str = "WaitingForRetries";
    /// Reconciling: only pods are left whose node has been gone or not ready for
    /// `nodeLostTimeoutSeconds`.
    pub const WAITING_FOR_LOST_NODES: &str = "WaitingForLostNodes";
    /// Only nodes are left on which a pod of the job is that belongs to none of their attempts.
    pub const WAITING_FOR_OTHER_PODS: &str = "WaitingForOtherPods";
    /// Reconciling: only pods are left that somebody has taken from the job: they have lost its label, or the
    /// owner reference to it, and their end is awaited.
    pub const WAITING_FOR_TAKEN_PODS: &str = "WaitingForTakenPods";
    /// Reconciling: a retry waits until the job that it retries, or another retry of that job, has ended.
    pub const WAITING_FOR_JOB: &str = "WaitingForJob";
    /// Reconciling: only nodes are left on which a pod of another job of the family may still run.
    pub const RUNS_ELSEWHERE: &str = "RunsElsewhere";
    /// Stalled: the job that a retry belongs to is gone, or another retry of it whose results are needed.
    pub const RETRIED_JOB_GONE: &str = "RetriedJobGone";
    /// Stalled: the job that a retry belongs to has as many retries as it can have.
    pub const TOO_MANY_RETRIES: &str = "TooManyRetries";
    /// Complete: all nodes that a retry was made for have succeeded in another job of its family.
    pub const ALREADY_SUCCEEDED: &str = "AlreadySucceeded";
    /// Complete: nothing was left to do for a retry, and some of its nodes have failed in another one that
    /// whoever made it did not know.
    pub const ALREADY_TRIED: &str = "AlreadyTried";
    /// Reconciling: the namespace's quota refuses more pods, or the next run of a CronJob, for now.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// Reconciling: the API server refuses or drops pod creations for now.
    pub const POD_CREATION_FAILING: &str = "PodCreationFailing";
    /// Stalled: the API server does not accept the pod template, or the template of a CronJob.
    pub const INVALID_TEMPLATE: &str = "InvalidTemplate";
    /// Stalled: the API server forbids such pods in this namespace (e.g. Pod Security).
    pub const POD_FORBIDDEN: &str = "PodForbidden";
    /// Reconciling is false: the Stalled condition says what a person has to do.
    pub const STALLED: &str = "Stalled";
    /// Stalled: the plan for the job broke a rule that holds always, and was refused. A defect.
    pub const INTERLOCK_TRIPPED: &str = "InterlockTripped";
    /// Stalled: the API server refuses a write that the object needs, again and again. The message says
    /// which one, and in whose words. It is tried again with growing delays.
    pub const WRITE_REFUSED: &str = "WriteRefused";
    /// Stalled: a stored field has a value this version cannot act on.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// RequestIgnored: the message says what was found, and what to write instead.
    pub const UNREADABLE_REQUEST: &str = "UnreadableRequest";
    /// RequestIgnored is false: the request can be read, or is gone.
    pub const NOTHING_IGNORED: &str = "NothingIgnored";
    /// Reconciling or Stalled is false: nothing is left to do.
    pub const FINISHED: &str = "Finished";
    /// Scheduled: the next run is known.
    pub const SCHEDULED: &str = "Scheduled";
    /// Scheduled is false: `spec.suspend` is true.
    pub const SUSPENDED: &str = "Suspended";
    /// Scheduled is false, Stalled: `spec.schedule` cannot be read.
    pub const INVALID_SCHEDULE: &str = "InvalidSchedule";
    /// Scheduled is false, Stalled: no time zone is called as `spec.timeZone` says.
    pub const UNKNOWN_TIME_ZONE: &str = "UnknownTimeZone";
    /// Scheduled is false, Stalled: `spec.schedule` names no time that ever comes, e.g. 30 February.
    pub const NEVER_FIRES: &str = "NeverFires";
    /// Reconciling: the API server refuses or drops the creation of the job of a CronJob for now.
    pub const JOB_CREATION_FAILING: &str = "JobCreationFailing";
    /// Stalled: the API server forbids the job of a CronJob in this namespace (e.g. an admission webhook).
    pub const JOB_FORBIDDEN: &str = "JobForbidden";
    /// Ready, Progressing: every node that should have a pod has an available one of the current template.
    pub const UPDATE_COMPLETE: &str = "UpdateComplete";
    /// Progressing, and Ready is false: pods of an older template are being replaced.
    pub const UPDATING: &str = "Updating";
    /// Ready, Available are false: nodes are without an available pod.
    pub const PODS_UNAVAILABLE: &str = "PodsUnavailable";
    /// Available: no more nodes are without an available pod than the budget allows.
    pub const ENOUGH_AVAILABLE: &str = "EnoughAvailable";
    /// Ready is true: all is as wanted, and some nodes keep their old pod, as `partition`, `selector` or type OnDelete say.
    pub const OLD_PODS_KEPT: &str = "OldPodsKept";
    /// Progressing is false: no node has moved for ten minutes, though one could.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Stalled: the selector selects every pod of the namespace.
    pub const SELECTING_ALL: &str = "SelectingAll";
    /// Stalled: an object with the name of the next job of a CronJob exists and belongs to somebody else.
    pub const NAME_CONFLICT: &str = "NameConflict";
}

/// Reasons of per-node results (`NodeResult.reason`).
pub mod results {
    /// Failed: more container restarts than `failurePolicy.restartLimit`.
    pub const RESTART_LIMIT_EXCEEDED: &str = "RestartLimitExceeded";
    /// Failed: stopped because another node failed (FailFast).
    pub const STOPPED_BY_FAILURE: &str = "StoppedByFailure";
    /// Failed: stopped because the job's deadline passed.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Failed: a container exited with a code other than 0.
    pub const NON_ZERO_EXIT_CODE: &str = "NonZeroExitCode";
    /// Failed: the pod was bound to another node than that of its attempt, or to none.
    pub const WRONG_NODE: &str = "WrongNode";
    /// Failed: no container of the pod had started `podStartDeadlineSeconds` after its creation, and
    /// nothing says why. Otherwise the reason is the kubelet's, such as ImagePullBackOff, or the
    /// scheduler's, Unschedulable.
    pub const POD_START_DEADLINE_EXCEEDED: &str = "PodStartDeadlineExceeded";
    /// Failed: the pod was never bound to its node, as the scheduler found no room.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Failed: a rule of `podFailurePolicy` with the action FailNode matched.
    pub const FAILED_BY_RULE: &str = "NodeFailedByPodFailurePolicy";
    /// Failed: a rule of `podFailurePolicy` with the action FailJob matched.
    pub const JOB_FAILED_BY_RULE: &str = "JobFailedByPodFailurePolicy";
    /// Disrupted: a rule of `podFailurePolicy` with the action Ignore matched.
    pub const IGNORED_BY_RULE: &str = "IgnoredByPodFailurePolicy";
    /// Failed: a pod of that name exists and belongs to somebody else.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// Disrupted: the pod was deleted by somebody else before it ended.
    pub const POD_DELETED: &str = "PodDeleted";
    /// Disrupted: eviction, preemption, node shutdown or pod garbage collection.
    pub const POD_DISRUPTED: &str = "PodDisrupted";
    /// Disrupted: nothing ran. The pod was not created, or was deleted before it was bound to its
    /// node: the node became ineligible or is gone, or somebody deleted the pod.
    pub const WITHDRAWN: &str = "Withdrawn";
    /// Disrupted: nothing ran. The kubelet has refused the pod, e.g. as the node had too little CPU left; the
    /// message says why.
    pub const REJECTED: &str = "RejectedByKubelet";
    /// Disrupted: the node object was deleted while the pod ran.
    pub const NODE_GONE: &str = "NodeGone";
    /// Not of an attempt, but in `status.refused`: `spec.nodeNames` has it, and no node is called so.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// Not of an attempt, but in `status.refused` of a retry: the node has succeeded in another job of the
    /// family.
    pub const ALREADY_SUCCEEDED: &str = "AlreadySucceeded";
    /// Not of an attempt, but in `status.refused` of a retry: the node was tried by another retry that whoever
    /// made this one did not know.
    pub const ALREADY_TRIED: &str = "AlreadyTried";
    /// Unknown: the pod disappeared before its outcome was seen.
    pub const POD_VANISHED: &str = "PodVanished";
    /// A retry was deleted before the outcome was stored, and its pod is gone: it may have succeeded. No
    /// other retry runs the node.
    pub const JOB_DELETED: &str = "JobDeleted";
    /// Unknown: the pod could not be stopped because its node does not answer.
    pub const NODE_LOST: &str = "NodeLost";
    /// Skipped: the job ended before this node's pod was started.
    pub const NOT_STARTED: &str = "NotStarted";
}
