//! Parts of a kind that are another one's type, and are described there.

/// A type that the pages name and do not repeat.
#[derive(Debug)]
pub(super) struct Foreign {
    /// With its link.
    pub(super) link: &'static str,
    /// Whether it is the spec of a BroadcastJob, and what that refuses need not be told again.
    pub(super) is_broadcast_job: bool,
}

// Pages of Go packages: they know the last version, and their anchors stay.
const POD_TEMPLATE: Foreign =
    upstream("[PodTemplateSpec](https://pkg.go.dev/k8s.io/api/core/v1#PodTemplateSpec) of core/v1");
const JOB_SPEC: Foreign =
    upstream("[JobSpec](https://pkg.go.dev/k8s.io/api/batch/v1#JobSpec) of batch/v1");
const OBJECT_META: Foreign = upstream(OBJECT_META_LINK);
/// The type of `metadata`.
pub(super) const OBJECT_META_LINK: &str =
    "[ObjectMeta](https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#ObjectMeta) of meta/v1";
const SELECTOR: Foreign = upstream(
    "[LabelSelector](https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#LabelSelector) of meta/v1",
);
const CONDITION: Foreign = upstream(
    "[Condition](https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#Condition) of meta/v1",
);
const BROADCAST_JOB: Foreign = Foreign {
    link: "[spec of a BroadcastJob](broadcastjob.md#spec)",
    is_broadcast_job: true,
};

/// Where they are, by kind and path.
pub(super) static PLACES: [(&str, &str, Foreign); 11] = [
    ("BroadcastJob", "spec.template", POD_TEMPLATE),
    ("BroadcastJob", "status.conditions", CONDITION),
    ("CronJob", "spec.broadcastJobTemplate.metadata", OBJECT_META),
    ("CronJob", "spec.broadcastJobTemplate.spec", BROADCAST_JOB),
    ("CronJob", "spec.jobTemplate.metadata", OBJECT_META),
    ("CronJob", "spec.jobTemplate.spec", JOB_SPEC),
    ("CronJob", "status.conditions", CONDITION),
    ("DaemonSet", "spec.selector", SELECTOR),
    ("DaemonSet", "spec.template", POD_TEMPLATE),
    (
        "DaemonSet",
        "spec.updateStrategy.rollingUpdate.selector",
        SELECTOR,
    ),
    ("DaemonSet", "status.conditions", CONDITION),
];

const fn upstream(link: &'static str) -> Foreign {
    Foreign {
        link,
        is_broadcast_job: false,
    }
}

/// The type of another one that this field has.
pub(super) fn at(kind: &str, path: &str) -> Option<&'static Foreign> {
    let place = PLACES.iter().find(|(of, at, _)| (*of, *at) == (kind, path));
    place.map(|(_, _, foreign)| foreign)
}
