//! Group, labels, annotations and finalizers: every string another program may rely on.

/// API group of every Carillon kind.
pub const GROUP: &str = "carillon.dev";
/// Version served and stored.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every Carillon object.
pub const API_VERSION: &str = "carillon.dev/v1alpha1";

/// On pods and result slices of a BroadcastJob: the job's name.
pub const LABEL_BROADCAST_JOB_NAME: &str = "carillon.dev/broadcastjob-name";
/// On pods and result slices of a BroadcastJob: the job's uid. Carillon watches pods by this label.
pub const LABEL_BROADCAST_JOB_UID: &str = "carillon.dev/broadcastjob-uid";

/// On result slices: their place in the order, from 0.
pub const LABEL_SLICE_INDEX: &str = "carillon.dev/slice-index";

/// On pods: kept until the pod's outcome is stored in a NodeResultSlice, so that no result is
/// lost when a pod is deleted early.
pub const FINALIZER_RESULT_TRACKING: &str = "carillon.dev/result-tracking";

/// On a BroadcastJob that failures have paused: each new value resumes it once.
pub const ANNOTATION_RESUME: &str = "carillon.dev/resume";

/// On a BroadcastJob that has not ended: names of pods whose attempts failed, comma separated. Each asks
/// for one more attempt on the node of that pod, and for nothing on a job that had no such pod: the name
/// follows from the uid of the job, the node and the number of the attempt.
pub const ANNOTATION_RETRY: &str = "carillon.dev/retry";

/// On a BroadcastJob made to try nodes of an earlier one again: the name of that one.
pub const ANNOTATION_RETRY_OF: &str = "carillon.dev/retry-of";

/// On the CRDs, by the chart: namespace and name of the operator's lease, with a slash between.
pub const ANNOTATION_LEASE: &str = "carillon.dev/lease";

/// On the children of a CronJob of carillon.dev: its name.
pub const LABEL_CRON_JOB_NAME: &str = "carillon.dev/cronjob-name";
/// On the children of a CronJob of carillon.dev: its uid.
pub const LABEL_CRON_JOB_UID: &str = "carillon.dev/cronjob-uid";

/// On the children of a CronJob: kept until the run is recorded in its status, so that a run is
/// not started again when its child is deleted early.
pub const FINALIZER_RUN_TRACKING: &str = "carillon.dev/run-tracking";

/// On a CronJob: `<uid of the CronJob>/<word>`. Each new word starts one run, whatever the schedule says;
/// the uid of another object asks for nothing, so that a CronJob that was copied, made anew or restored
/// from a backup does not run for it. On the child of that run: the word.
pub const ANNOTATION_RUN_NOW: &str = "carillon.dev/run-now";

/// On the children of a CronJob: the time they were scheduled for, RFC 3339. Set by Kubernetes'
/// own controller, too.
pub const ANNOTATION_SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// On a pod of a DaemonSet with `lifecycle.preDelete`, while it waits for its hook: [`STATE_PREPARING_DELETE`]. The key
/// is OpenKruise's, so that what reacts to it there does so here.
pub const LABEL_LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
/// That a pod is to be deleted as soon as its hook is gone.
pub const STATE_PREPARING_DELETE: &str = "PreparingDelete";
/// On the same pod: since when, RFC 3339.
pub const ANNOTATION_LIFECYCLE_TIMESTAMP: &str = "lifecycle.apps.kruise.io/timestamp";
