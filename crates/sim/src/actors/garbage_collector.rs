//! The garbage collector: dependents go with their owners. An owner in another namespace is none: anybody
//! can write its uid into a reference.
//!
//! That of Kubernetes decides so, too, who is without an owner; a foreground deletion, though, waits there
//! for dependents that name the owner's uid from anywhere. Here it does not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::component::uid;
use crate::actor::{Actor, Delete, Propagation};
use crate::kind::{KINDS, Kind};
use crate::server::Server;

/// Who it is.
pub const USER: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// Collects for ever: `delay` after a change, everything that is due.
///
/// Run it as a local task, and abort that to be without a garbage collector.
pub async fn run(server: Server, delay: Duration) {
    let actor = server.actor(USER);
    let mut changes = server.changes();
    loop {
        // What this does is a change again, so that cascades go on.
        changes.see();
        collect(&actor);
        changes.changed().await;
        sleep(delay).await;
    }
}

/// Does once what is due; says whether it did anything.
pub fn collect(actor: &Actor) -> bool {
    let objects = objects(actor);
    let known = Known::of(&objects);
    let before = actor.server().revision();
    for (kind, object) in &objects {
        follow_owners(actor, &known, kind, object);
        finalize(actor, &known, kind, object);
    }
    actor.server().revision() > before
}

/// Deletes a dependent whose owners are gone or wait for it.
fn follow_owners(actor: &Actor, known: &Known<'_>, kind: &Kind, object: &Value) {
    let owners = owners(object);
    if owners.is_empty() {
        return;
    }
    let (solid, dangling): (Vec<_>, Vec<_>) = owners
        .iter()
        .partition(|owner| known.exists(namespace(object), text(&owner["uid"])));
    let ends_first = |owner: &Value| known.is_foreground(object, text(&owner["uid"]));
    let waiting = solid
        .iter()
        .any(|owner| owner["blockOwnerDeletion"] == true && ends_first(owner));
    let all_waiting = !solid.is_empty() && solid.iter().all(|owner| ends_first(owner));
    if solid.is_empty() {
        delete(actor, kind, object, None);
    } else if all_waiting && waiting {
        let deeper = known.dependents(object).next().is_some();
        delete(
            actor,
            kind,
            object,
            deeper.then_some(Propagation::Foreground),
        );
    } else if !dangling.is_empty() {
        set_meta(actor, kind, object, "ownerReferences", &json!(solid));
    }
}

/// Lets go of an owner whose dependents are gone or set free.
fn finalize(actor: &Actor, known: &Known<'_>, kind: &Kind, object: &Arc<Value>) {
    if object["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    if has_finalizer(object, "orphan") {
        for (kind, dependent) in known.dependents(object) {
            let others: Vec<&Value> = owners(dependent)
                .iter()
                .filter(|owner| owner["uid"] != object["metadata"]["uid"])
                .collect();
            set_meta(actor, kind, dependent, "ownerReferences", &json!(others));
        }
        remove_finalizer(actor, kind, object, "orphan");
    } else if has_finalizer(object, "foregroundDeletion") {
        let blocked = known.dependents(object).any(|(_, dependent)| {
            owners(dependent).iter().any(|owner| {
                owner["uid"] == object["metadata"]["uid"] && owner["blockOwnerDeletion"] == true
            })
        });
        if !blocked {
            remove_finalizer(actor, kind, object, "foregroundDeletion");
        }
    }
}

type Item = (&'static Kind, Arc<Value>);

/// All but events, which that of Kubernetes ignores, too.
fn objects(actor: &Actor) -> Vec<Item> {
    KINDS
        .iter()
        .filter(|kind| kind.plural != "events")
        .flat_map(|kind| {
            let objects = actor.server().all(&kind.resource(), "");
            objects.into_iter().map(move |object| (kind, object))
        })
        .collect()
}

/// What there is, by uid, and by the uids that it names as its owners.
struct Known<'a> {
    by_uid: HashMap<&'a str, Vec<&'a Value>>,
    by_owner: HashMap<&'a str, Vec<&'a Item>>,
}

impl<'a> Known<'a> {
    fn of(objects: &'a [Item]) -> Self {
        let mut known = Self {
            by_uid: HashMap::new(),
            by_owner: HashMap::new(),
        };
        for item in objects {
            let (_, object) = item;
            known.by_uid.entry(uid(object)).or_default().push(object);
            for owner in owners(object) {
                let of = known.by_owner.entry(text(&owner["uid"])).or_default();
                // Who names one twice is one dependent.
                if of.last().is_none_or(|last| !std::ptr::eq(*last, item)) {
                    of.push(item);
                }
            }
        }
        known
    }

    /// The objects of a uid that may own something in a namespace.
    fn owners(&self, namespace: &str, uid: &str) -> impl Iterator<Item = &'a Value> {
        let of = self.by_uid.get(uid).into_iter().flatten().copied();
        of.filter(move |owner| reaches(owner, namespace))
    }

    fn exists(&self, namespace: &str, uid: &str) -> bool {
        self.owners(namespace, uid).next().is_some()
    }

    fn dependents(&self, owner: &Value) -> impl Iterator<Item = &'a Item> {
        let of = self.by_owner.get(uid(owner)).into_iter().flatten().copied();
        of.filter(move |(_, object)| reaches(owner, namespace(object)))
    }

    /// Whether an owner waits for what it owns to go first.
    fn is_foreground(&self, dependent: &Value, uid_of_owner: &str) -> bool {
        let mut owners = self.owners(namespace(dependent), uid_of_owner);
        owners.any(|object| {
            !object["metadata"]["deletionTimestamp"].is_null()
                && has_finalizer(object, "foregroundDeletion")
        })
    }
}

/// Whether an object may own another one, by where they are.
fn reaches(owner: &Value, of: &str) -> bool {
    let own = namespace(owner);
    own.is_empty() || own == of
}

fn namespace(object: &Value) -> &str {
    text(&object["metadata"]["namespace"])
}

fn delete(actor: &Actor, kind: &Kind, object: &Value, propagation: Option<Propagation>) {
    let meta = &object["metadata"];
    // It would change nothing, again and again.
    if !meta["deletionTimestamp"].is_null() {
        return;
    }
    let how = Delete {
        uid: meta["uid"].as_str().map(str::to_owned),
        resource_version: meta["resourceVersion"].as_str().map(str::to_owned),
        propagation: propagation.or(Some(Propagation::Background)),
        grace: None,
    };
    let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
    // Somebody was quicker: the change brings the next look.
    let _ = actor.delete(&kind.resource(), namespace, name, &how);
}

fn set_meta(actor: &Actor, kind: &Kind, object: &Value, field: &str, value: &Value) {
    let meta = &object["metadata"];
    let mut patch =
        json!({"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}});
    patch["metadata"][field] = value.clone();
    let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
    let _ = actor.patch_merge(&kind.resource(), namespace, name, &patch);
}

fn remove_finalizer(actor: &Actor, kind: &Kind, object: &Value, finalizer: &str) {
    let all = object["metadata"]["finalizers"].as_array();
    let rest: Vec<&Value> = all
        .into_iter()
        .flatten()
        .filter(|name| **name != finalizer)
        .collect();
    set_meta(actor, kind, object, "finalizers", &json!(rest));
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let all = object["metadata"]["finalizers"].as_array();
    all.into_iter().flatten().any(|name| name == finalizer)
}

fn owners(object: &Value) -> &[Value] {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
