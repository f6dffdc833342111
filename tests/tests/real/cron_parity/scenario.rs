//! A scenario: objects in a namespace of their own, and what is done to them when.

use http::Method;
use serde_json::{Value, json};

use crate::parity::merge;

/// Objects in a namespace that is named like the scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Its name, and that of its namespace.
    pub(crate) name: &'static str,
    /// What is created in the beginning, in this order: plural path below the namespace, object.
    pub(crate) objects: Vec<(&'static str, Value)>,
    /// What is done later, by seconds since the beginning of the first minute.
    pub(crate) acts: Vec<(i64, Deed)>,
}

/// What a user, or somebody past the API server, does.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// A request, its path below the namespace. An empty path is the namespace itself.
    Request(Method, String, Value),
    /// The first child of a CronJob is deleted.
    DeleteFirstChild(&'static str),
    /// kubectl, in the namespace.
    Kubectl(Vec<&'static str>),
    /// Fields of a stored object are replaced past the API server, which would refuse them:
    /// the object's place below `/registry`, and the fields by JSON pointer.
    Store(&'static str, Vec<(&'static str, Value)>),
}

const CRON_JOBS: &str = "apis/batch/v1/cronjobs";

/// A CronJob `c` of which the first run is in the next minute, with changes to its spec.
pub(crate) fn cron(spec: &Value) -> Value {
    named_cron("c", spec)
}

/// The same with a name.
pub(crate) fn named_cron(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job_spec()}},
    });
    merge(&mut object["spec"], spec);
    object
}

/// The Job of all of them: one pod, which runs for a second.
pub(crate) fn job_spec() -> Value {
    json!({
        "backoffLimit": 0,
        "template": {
            "metadata": {"annotations": {}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox:1.37"}],
            },
        },
    })
}

/// A change of a spec: its pods run so long.
pub(crate) fn runs(time: &str) -> Value {
    fate("run-time", time)
}

/// A change of a spec: its pods end so.
pub(crate) fn fate(key: &str, value: &str) -> Value {
    let key = format!("testbed.carillon.dev/{key}");
    json!({"jobTemplate": {"spec": {"template": {"metadata": {"annotations": {key: value}}}}}})
}

impl Scenario {
    /// Nothing yet.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            objects: Vec::new(),
            acts: Vec::new(),
        }
    }

    /// One CronJob `c` with changes to its spec.
    pub(crate) fn of(name: &'static str, spec: &Value) -> Self {
        Self::new(name).with(CRON_JOBS, cron(spec))
    }

    /// One object more.
    pub(crate) fn with(mut self, plural: &'static str, object: Value) -> Self {
        self.objects.push((plural, object));
        self
    }

    /// One CronJob more.
    pub(crate) fn with_cron(self, name: &str, spec: &Value) -> Self {
        self.with(CRON_JOBS, named_cron(name, spec))
    }

    /// One deed more, at this second.
    pub(crate) fn at(mut self, second: i64, deed: Deed) -> Self {
        self.acts.push((second, deed));
        self
    }

    /// The spec of the CronJob `c` is changed.
    pub(crate) fn patch(self, second: i64, spec: &Value) -> Self {
        let patch = Deed::Request(
            Method::PATCH,
            format!("{CRON_JOBS}/c"),
            json!({"spec": spec}),
        );
        self.at(second, patch)
    }

    /// The status of the CronJob `c` is changed. A text `T-90m` is the time so long before the start.
    pub(crate) fn patch_status(self, second: i64, status: &Value) -> Self {
        let path = format!("{CRON_JOBS}/c/status");
        self.at(
            second,
            Deed::Request(Method::PATCH, path, json!({"status": status})),
        )
    }

    /// The CronJob `c` is deleted.
    pub(crate) fn delete(self, second: i64, propagation: &str) -> Self {
        let options =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.at(
            second,
            Deed::Request(Method::DELETE, format!("{CRON_JOBS}/c"), options),
        )
    }

    /// A Job is made from the CronJob `c` by hand.
    pub(crate) fn by_hand(self, second: i64) -> Self {
        self.at(
            second,
            Deed::Kubectl(vec!["create", "job", "by-hand", "--from=cronjob/c"]),
        )
    }
}
