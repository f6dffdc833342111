//! The fields that we read, by the numbers of k8s.io/api and k8s.io/apimachinery.

/// The fields of a message: number, name in JSON, and what they hold.
#[derive(Debug)]
pub struct Message(pub(super) &'static [(u32, &'static str, Holds)]);

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holds {
    Text,
    Integer,
    Bool,
    /// A time, in JSON a text; null when it is not set.
    Time,
    One(&'static Message),
    Texts,
    Many(&'static Message),
    /// From text to text.
    Map,
}

use Holds::{Bool, Integer, Many, Map, One, Text, Texts, Time};

/// A pod.
pub static POD: Message = Message(&[
    (1, "metadata", One(&OBJECT_META)),
    (2, "spec", One(&POD_SPEC)),
    (3, "status", One(&POD_STATUS)),
]);

/// Any object, of which only the metadata is read.
pub static METADATA: Message = Message(&[(1, "metadata", One(&OBJECT_META))]);

/// What the API server says instead of an object.
pub static STATUS: Message = Message(&[
    (2, "status", Text),
    (3, "message", Text),
    (4, "reason", Text),
    (5, "details", One(&STATUS_DETAILS)),
    (6, "code", Integer),
]);

static STATUS_DETAILS: Message = Message(&[
    (1, "name", Text),
    (2, "group", Text),
    (3, "kind", Text),
    (4, "causes", Many(&STATUS_CAUSE)),
    (5, "retryAfterSeconds", Integer),
    (6, "uid", Text),
]);

static STATUS_CAUSE: Message = Message(&[
    (1, "reason", Text),
    (2, "message", Text),
    (3, "field", Text),
]);

static OBJECT_META: Message = Message(&[
    (1, "name", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Integer),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", Integer),
    (11, "labels", Map),
    (12, "annotations", Map),
    (13, "ownerReferences", Many(&OWNER_REFERENCE)),
    (14, "finalizers", Texts),
]);

static OWNER_REFERENCE: Message = Message(&[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Bool),
]);

static POD_SPEC: Message = Message(&[
    (10, "nodeName", Text),
    (18, "affinity", One(&AFFINITY)),
    (20, "initContainers", Many(&CONTAINER)),
]);

static AFFINITY: Message = Message(&[(1, "nodeAffinity", One(&NODE_AFFINITY))]);

static NODE_AFFINITY: Message = Message(&[(
    1,
    "requiredDuringSchedulingIgnoredDuringExecution",
    One(&NODE_SELECTOR),
)]);

static NODE_SELECTOR: Message = Message(&[(1, "nodeSelectorTerms", Many(&NODE_SELECTOR_TERM))]);

static NODE_SELECTOR_TERM: Message = Message(&[(2, "matchFields", Many(&REQUIREMENT))]);

static REQUIREMENT: Message = Message(&[
    (1, "key", Text),
    (2, "operator", Text),
    (3, "values", Texts),
]);

static CONTAINER: Message = Message(&[(1, "name", Text), (24, "restartPolicy", Text)]);

static POD_STATUS: Message = Message(&[
    (1, "phase", Text),
    (2, "conditions", Many(&POD_CONDITION)),
    (3, "message", Text),
    (4, "reason", Text),
    (8, "containerStatuses", Many(&CONTAINER_STATUS)),
    (10, "initContainerStatuses", Many(&CONTAINER_STATUS)),
]);

static POD_CONDITION: Message = Message(&[
    (1, "type", Text),
    (2, "status", Text),
    (4, "lastTransitionTime", Time),
    (5, "reason", Text),
    (6, "message", Text),
]);

static CONTAINER_STATUS: Message = Message(&[
    (1, "name", Text),
    (2, "state", One(&CONTAINER_STATE)),
    (3, "lastState", One(&CONTAINER_STATE)),
    (5, "restartCount", Integer),
]);

static CONTAINER_STATE: Message = Message(&[
    (1, "waiting", One(&WAITING)),
    (2, "running", One(&RUNNING)),
    (3, "terminated", One(&TERMINATED)),
]);

static WAITING: Message = Message(&[(1, "reason", Text), (2, "message", Text)]);

static RUNNING: Message = Message(&[(1, "startedAt", Time)]);

static TERMINATED: Message = Message(&[
    (1, "exitCode", Integer),
    (3, "reason", Text),
    (4, "message", Text),
    (5, "startedAt", Time),
    (6, "finishedAt", Time),
]);
