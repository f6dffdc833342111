//! Who every object is, and who may speak for it.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::history::{History, Step};
use crate::object::{UID_LABEL, at, controller, name, text, uid};

/// Every object that there ever was, by uid.
#[derive(Debug)]
pub(super) struct Identities<'h>(HashMap<&'h str, Identity<'h>>);

#[derive(Debug)]
struct Identity<'h> {
    namespace: &'h str,
    object: &'h Value,
    /// Owners that ever controlled it, as it was written.
    controllers: Vec<&'h Value>,
    /// Whether it ever had the label of a BroadcastJob.
    labelled: bool,
}

impl<'h> Identities<'h> {
    pub(super) fn of(history: &'h History) -> Self {
        let mut all: HashMap<&str, Identity<'_>> = HashMap::new();
        for step in &history.steps {
            let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
                continue;
            };
            let identity = all.entry(uid(object)).or_insert_with(|| Identity {
                namespace: &step.key.namespace,
                object,
                controllers: Vec::new(),
                labelled: false,
            });
            let label = at(object, &["metadata", "labels", UID_LABEL]);
            identity.labelled |= label.is_some_and(Value::is_string);
            if let Some(owner) = controller(object)
                && identity.controllers.last() != Some(&owner)
            {
                identity.controllers.push(owner);
            }
        }
        Self(all)
    }

    /// The namespace of the object with this uid; empty for one of the cluster, or when there is none.
    pub(super) fn namespace_of(&self, uid: &str) -> &'h str {
        self.0.get(uid).map_or("", |identity| identity.namespace)
    }

    /// A uid that a step brings into an object of a namespace, from another namespace; and that.
    pub(super) fn brought_from_elsewhere(&self, step: &'h Step) -> Option<(&'h str, &'h str)> {
        let namespace = &*step.key.namespace;
        let new = uids_in(step.new.as_deref().filter(|_| !namespace.is_empty())?);
        let old = step.old.as_deref().map(uids_in).unwrap_or_default();
        let brought = new
            .difference(&old)
            .map(|uid| (*uid, self.namespace_of(uid)));
        let mut elsewhere = brought.filter(|(_, of)| !of.is_empty() && *of != namespace);
        elsewhere.next()
    }

    /// Whether an object of `namespace` is, or ever was, controlled by an object that exists or existed
    /// there, and that is who the reference says.
    pub(super) fn is_controlled(&self, object: &Value, namespace: &str) -> bool {
        let Some(identity) = self.0.get(uid(object)) else {
            return false;
        };
        identity.controllers.iter().any(|owner| {
            let of = self.0.get(text(owner, &["uid"]));
            of.is_some_and(|of| of.namespace == namespace && is_who(of.object, owner))
        })
    }

    /// Whether an object ever had the label of a BroadcastJob.
    pub(super) fn was_labelled(&self, object: &Value) -> bool {
        self.0
            .get(uid(object))
            .is_some_and(|identity| identity.labelled)
    }

    /// Whether an object was ever controlled by something of these groups and kinds, as it says.
    pub(super) fn was_controlled_by(&self, object: &Value, kinds: &[(&str, &str)]) -> bool {
        let identity = self.0.get(uid(object));
        let mut controllers = identity
            .into_iter()
            .flat_map(|identity| &identity.controllers);
        controllers.any(|owner| kinds.contains(&(group(owner), text(owner, &["kind"]))))
    }
}

/// Group of an object, or of what a reference means.
fn group(of: &Value) -> &str {
    let version = text(of, &["apiVersion"]);
    version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether an owner reference means an object, whatever the version.
fn is_who(object: &Value, owner: &Value) -> bool {
    group(object) == group(owner)
        && object["kind"] == owner["kind"]
        && text(owner, &["name"]) == name(object)
}

/// What fields say that hold uids.
pub(super) fn uids_in(value: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    collect(value, false, &mut found);
    found
}

fn collect<'v>(value: &'v Value, is_uid: bool, found: &mut BTreeSet<&'v str>) {
    match value {
        Value::String(text) if is_uid => {
            found.insert(text);
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, is_uid, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let named = name.ends_with("uid") || name.ends_with("UID");
                let listed = name == "uncountedTerminatedPods";
                collect(value, is_uid || named || listed, found);
            }
        }
        _ => {}
    }
}
