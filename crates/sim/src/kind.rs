//! The kinds that are served, one row each.

mod broadcast_job;
mod cron_job;
mod daemon_set;
mod event;
mod job;
mod lease;
mod meta;
mod namespace;
mod node;
mod node_result_slice;
mod non_negative;
mod our_cron_job;
mod our_daemon_set;
mod pod;
mod pod_template;
mod schema;

use serde_json::{Value, json};

use crate::status::{Cause, Status, qualified};

pub(crate) use self::meta::normalize as normalize_meta;

/// A kind, and what makes it different from others.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // a row of a table
pub struct Kind {
    /// Empty for core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Plural, lower case.
    pub plural: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Fields besides `apiVersion`, `kind` and `metadata` of a built-in kind.
    pub(crate) fields: &'static [&'static str],
    /// Whether there is a status that only `/status` writes.
    pub(crate) status: bool,
    /// `openAPIV3Schema` of a custom resource.
    pub(crate) schema: Option<fn() -> &'static Value>,
    /// Whether a built-in kind counts changes of its spec.
    pub(crate) generation: bool,
    /// Whether a PUT without resourceVersion replaces what is there.
    pub(crate) unconditional_update: bool,
    /// Whether a PUT creates what is not there.
    pub(crate) create_on_update: bool,
    /// Whether the reply to a delete is the object.
    pub(crate) returns_deleted: bool,
    /// Whether dependents stay when a delete does not say what becomes of them.
    pub(crate) orphans: bool,
    /// Seconds that a delete gives, of the object and the seconds asked for.
    pub(crate) grace: Option<fn(&Value, Option<i64>) -> i64>,
    /// Fills in what was left out, of a decoded object.
    pub(crate) fill: fn(&mut Value),
    /// What only a new object gets.
    pub(crate) begin: fn(&mut Value),
    /// Carries over what a write may not touch: new, old, whether it is of `/status`.
    pub(crate) keep: fn(&mut Value, &Value, bool),
    /// What is wrong with an object; the old one where there is one.
    pub(crate) check: fn(&Value, Option<&Value>) -> Vec<Cause>,
}

/// A built-in kind in namespaces without anything special.
const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    namespaced: true,
    fields: &["spec", "status"],
    status: false,
    schema: None,
    generation: false,
    unconditional_update: true,
    create_on_update: false,
    returns_deleted: false,
    orphans: false,
    grace: None,
    fill: |_| {},
    begin: |_| {},
    keep: |_, _, _| {},
    check: |_, _| Vec::new(),
};

/// A kind of batch/v1: spec and status are written each through a path of its own.
const BATCH: Kind = Kind {
    group: "batch",
    status: true,
    generation: true,
    keep: node::keep,
    ..PLAIN
};

/// A custom kind of ours.
const OURS: Kind = Kind {
    group: "carillon.dev",
    version: "v1alpha1",
    generation: true,
    unconditional_update: false,
    ..PLAIN
};

/// Every kind.
#[rustfmt::skip]
pub(crate) static KINDS: [Kind; 13] = [
    Kind {
        plural: "pods", kind: "Pod", status: true, generation: true, returns_deleted: true,
        grace: Some(pod::grace), fill: pod::fill, begin: pod::begin, keep: pod::keep, check: pod::check, ..PLAIN
    },
    Kind { plural: "nodes", kind: "Node", namespaced: false, status: true, fill: node::fill, keep: node::keep, ..PLAIN },
    Kind {
        plural: "namespaces", kind: "Namespace", namespaced: false, status: true, returns_deleted: true,
        fill: namespace::fill, begin: namespace::begin, keep: namespace::keep, ..PLAIN
    },
    Kind { plural: "jobs", kind: "Job", orphans: true, fill: job::fill, begin: job::begin, check: job::check, ..BATCH },
    Kind { plural: "cronjobs", kind: "CronJob", fill: cron_job::fill, begin: cron_job::begin, check: cron_job::check, ..BATCH },
    Kind {
        group: "apps", plural: "daemonsets", kind: "DaemonSet", status: true, generation: true, fill: daemon_set::fill, begin: daemon_set::begin,
        keep: daemon_set::keep, check: daemon_set::check, ..PLAIN
    },
    Kind { group: "apps", plural: "controllerrevisions", kind: "ControllerRevision", fields: &["data", "revision"], ..PLAIN },
    Kind { plural: "broadcastjobs", kind: "BroadcastJob", status: true, schema: Some(broadcast_job::schema), check: broadcast_job::check, ..OURS },
    Kind { plural: "cronjobs", kind: "CronJob", status: true, schema: Some(our_cron_job::schema), check: our_cron_job::check, ..OURS },
    Kind { plural: "daemonsets", kind: "DaemonSet", status: true, schema: Some(our_daemon_set::schema), check: our_daemon_set::check, ..OURS },
    Kind { plural: "noderesultslices", kind: "NodeResultSlice", schema: Some(node_result_slice::schema), check: node_result_slice::check, ..OURS },
    Kind { group: "coordination.k8s.io", plural: "leases", kind: "Lease", fields: &["spec"], unconditional_update: false, create_on_update: true, fill: lease::fill, check: lease::check, ..PLAIN },
    Kind { group: "events.k8s.io", plural: "events", kind: "Event", fields: &event::FIELDS, create_on_update: true, check: event::check, ..PLAIN },
];

impl Kind {
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        KINDS
            .iter()
            .find(|k| k.group == group && k.version == version && k.plural == plural)
    }

    /// The kind of a name as in [`Key::resource`](carillon_oracle::Key::resource), without its group
    /// where that is no question: `pods`, `broadcastjobs`, `leases.coordination.k8s.io`.
    pub fn named(resource: &str) -> Option<&'static Self> {
        let whole = KINDS.iter().find(|k| k.resource() == resource);
        let mut plural = KINDS.iter().filter(|k| k.plural == resource);
        whole.or_else(|| plural.next().filter(|_| plural.next().is_none()))
    }

    /// The kind of an object's `apiVersion` and `kind`.
    pub fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        KINDS
            .iter()
            .find(|k| k.kind == kind && k.api_version() == api_version)
    }

    /// Plural and, unless it is core, group.
    pub fn resource(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// `v1`, `carillon.dev/v1alpha1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Path of all objects of a namespace (empty: of all), or of one of them.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if !namespace.is_empty() {
            path = format!("{path}/namespaces/{namespace}");
        }
        path = format!("{path}/{}", self.plural);
        if !name.is_empty() {
            path = format!("{path}/{name}");
        }
        path
    }

    /// Makes of JSON what the API server would have read: unknown fields go, defaults come.
    pub(crate) fn decode(&self, object: &mut Value) -> Result<(), Status> {
        meta::normalize(object)?;
        object["apiVersion"] = json!(self.api_version());
        object["kind"] = json!(self.kind);
        if let Some(schema) = self.schema {
            schema::prune(object, schema());
            schema::fill(object, schema());
        } else {
            self.decode_built_in(object)?;
        }
        (self.fill)(object);
        Ok(())
    }

    /// Fills in the defaults of the schema.
    pub(crate) fn fill_in(&self, object: &mut Value) {
        if let Some(schema) = self.schema {
            schema::fill(object, schema());
        }
    }

    /// Whether a status that is absent reads as a default.
    pub(crate) fn defaults_status(&self) -> bool {
        let status = |schema: fn() -> &'static Value| &schema()["properties"]["status"];
        self.schema
            .is_some_and(|schema| status(schema).get("default").is_some())
    }

    fn decode_built_in(&self, object: &mut Value) -> Result<(), Status> {
        if let Some(root) = object.as_object_mut() {
            let meta = ["apiVersion", "kind", "metadata"];
            root.retain(|key, _| meta.iter().chain(self.fields).any(|known| known == key));
        }
        drop_nulls(object);
        for part in ["spec", "status"] {
            if object.get(part).is_some_and(|part| !part.is_object()) {
                return Err(Status::bad_request(format!(
                    "{} in version {:?} cannot be handled: json: cannot unmarshal into field {part}",
                    self.kind, self.version
                )));
            }
        }
        Ok(())
    }

    /// What is wrong with an object.
    pub(crate) fn problems(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut problems = meta::check(self.group, self.plural, object, old);
        if let Some(schema) = self.schema {
            problems.extend(schema::check(object, schema()));
        }
        // Rules see only what has the right types.
        if problems.is_empty() {
            problems = (self.check)(object, old);
        }
        problems
    }
}

/// A built-in type does not remember whether a field was null or absent.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_path_and_by_name() {
        for kind in &KINDS {
            let (group, version, plural) = (kind.group, kind.version, kind.plural);
            assert_eq!(Kind::find(group, version, plural).unwrap().kind, kind.kind);
            assert_eq!(Kind::named(&kind.resource()).unwrap().group, group);
            let alone = KINDS.iter().filter(|kind| kind.plural == plural).count() == 1;
            if alone {
                assert_eq!(Kind::named(plural).unwrap().group, group);
            }
            assert_eq!(
                Kind::of(&kind.api_version(), kind.kind).unwrap().plural,
                plural
            );
        }
        let leases = Kind::named("leases").unwrap();
        assert_eq!(
            leases.path("a", "b"),
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b"
        );
        assert_eq!(Kind::named("nodes").unwrap().path("", ""), "/api/v1/nodes");
    }

    #[test]
    fn custom_kinds_know_their_schema() {
        for kind in KINDS.iter().filter_map(|kind| kind.schema) {
            assert_eq!(kind()["type"], "object");
        }
    }
}
