//! DaemonSets, their pods and their revisions, as the API server has them.

use carillon_api::names::ANNOTATION_LIFECYCLE_TIMESTAMP;
use jiff::Timestamp;
use serde_json::Value;

use crate::daemon_set::pod::LABEL_REVISION;
use crate::daemon_set::{DaemonPod, DaemonPods, DaemonSet, DataDigest, Revision, Revisions};
use crate::meta::Meta;
use crate::node::Labels;
use crate::object_key::{DAEMON_SET, NATIVE_DAEMON_SET, ObjectKey};
use crate::placement::{Operator, Placement};
use crate::pod::{Deletion, PodPhase};
use crate::view::read::{entries, list, metadata, text, version};

/// Written by whoever changes a template, for `rollout history`.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// Kept by the API server, of apps/v1 only.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A DaemonSet, and what only people want to know of it.
#[derive(Clone, Debug)]
pub struct StoredSet {
    /// As the planner reads it. A manifest that was not applied has uid 0.
    pub set: DaemonSet,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Image of the first container.
    pub image: String,
}

/// Reads a DaemonSet; `apiVersion` tells whose. Total, as [`DaemonSet::read`].
pub fn set(object: &Value) -> StoredSet {
    let meta = &object["metadata"];
    let native = text(&object["apiVersion"]).starts_with("apps/");
    let kind = if native {
        NATIVE_DAEMON_SET
    } else {
        DAEMON_SET
    };
    let meta_read: Meta = metadata(kind, meta);
    let generation = text(&meta["annotations"][TEMPLATE_GENERATION]);
    let (spec, status) = (&object["spec"], &object["status"]);
    StoredSet {
        set: DaemonSet::read(meta_read, generation.parse().ok(), spec, status),
        created: text(&meta["creationTimestamp"]).parse().ok(),
        image: text(&spec["template"]["spec"]["containers"][0]["image"]).to_owned(),
    }
}

/// Who controls an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Whose {
    Ours,
    Nobodys,
    Others,
}

/// Who an object says controls it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Controller {
    uid: Box<str>,
    kind: Box<str>,
    api_version: Box<str>,
}

fn controller(meta: &Value) -> Option<Controller> {
    let mut references = list(&meta["ownerReferences"]);
    let found = references.find(|one| one["controller"] == true)?;
    Some(Controller {
        uid: text(&found["uid"]).into(),
        kind: text(&found["kind"]).into(),
        api_version: text(&found["apiVersion"]).into(),
    })
}

fn whose(owner: &ObjectKey, controller: Option<&Controller>) -> Whose {
    let Some(controller) = controller else {
        return Whose::Nobodys;
    };
    let same = *controller.uid == *owner.uid.to_string()
        && &*controller.kind == owner.kind
        && &*controller.api_version == owner.api_version;
    if same { Whose::Ours } else { Whose::Others }
}

/// A pod that a selector selects, and nothing of it that is not looked at.
#[derive(Clone, Debug)]
pub struct SelectedPod {
    controller: Option<Controller>,
    pod: DaemonPod,
    /// Seconds from its creation until it was ready, if it has never restarted.
    start: Option<i64>,
}

impl SelectedPod {
    /// `None` without a usable uid.
    pub fn read(object: &Value) -> Option<Self> {
        let pod = pod(object)?;
        let containers = list(&object["status"]["containerStatuses"]);
        let mut restarts = containers.filter_map(|one| one["restartCount"].as_i64());
        let first = restarts.all(|count| count == 0);
        let ready = pod.ready.filter(|ready| first && *ready < Timestamp::MAX);
        Some(Self {
            controller: controller(&object["metadata"]),
            start: ready.map(|ready| ready.duration_since(pod.created).as_secs().max(0)),
            pod,
        })
    }
}

/// The pods of a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct SetPods {
    /// Those that it controls.
    pub owned: DaemonPods,
    /// Those that its selector selects and nothing controls: it adopts them.
    pub free: DaemonPods,
    /// How many seconds pods that have never restarted took from their creation until they were ready.
    pub starts: Vec<i64>,
}

impl SetPods {
    /// Adds a pod that the selector selects.
    pub fn add(&mut self, owner: &ObjectKey, object: &Value) {
        if let Some(pod) = SelectedPod::read(object) {
            self.take(owner, text(&object["metadata"]["name"]), pod);
        }
    }

    /// Adds one that was read before.
    pub fn take(&mut self, owner: &ObjectKey, name: &str, selected: SelectedPod) {
        let SelectedPod {
            controller,
            pod,
            start,
        } = selected;
        let whose = whose(owner, controller.as_ref());
        if whose == Whose::Others {
            return;
        }
        self.starts.extend(start);
        if whose == Whose::Ours {
            self.owned.insert(name.into(), pod);
        } else if !pod.is_deleting() {
            self.free.insert(name.into(), pod);
        }
    }
}

fn pod(object: &Value) -> Option<DaemonPod> {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    let bound = spec["nodeName"].as_str().filter(|node| !node.is_empty());
    let node = bound.map(str::to_owned).or_else(|| wanted_node(spec));
    let deletion: Option<Timestamp> = text(&meta["deletionTimestamp"]).parse().ok();
    let grace_seconds = meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let deletion = deletion.map(|due| Deletion { due, grace_seconds });
    let mut conditions = list(&object["status"]["conditions"]);
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let ready = ready.filter(|ready| ready["status"] == "True");
    let since = |ready: &Value| {
        let since = text(&ready["lastTransitionTime"]).parse();
        since.unwrap_or(Timestamp::MAX)
    };
    Some(DaemonPod {
        uid: text(&meta["uid"]).parse().ok()?,
        rv: version(meta),
        phase: PodPhase::read(text(&object["status"]["phase"])),
        deletion: deletion.map(Deletion::asked),
        node: node.map(Into::into),
        bound: bound.is_some(),
        ready: ready.map(since),
        created: text(&meta["creationTimestamp"]).parse().unwrap_or_default(),
        labels: labels(meta),
        told: text(&meta["annotations"][ANNOTATION_LIFECYCLE_TIMESTAMP])
            .parse()
            .ok(),
        finalizers: list(&meta["finalizers"])
            .filter_map(|name| Some(name.as_str()?.into()))
            .collect(),
    })
}

/// The one node that the required affinity of a pod names, as that of a DaemonSet's pod does.
fn wanted_node(spec: &Value) -> Option<String> {
    let terms = Placement::read(spec).required_terms?;
    let mut fields = terms.into_iter().flat_map(|term| term.fields);
    let named =
        fields.find(|field| field.key == "metadata.name" && field.operator == Operator::In)?;
    match <[String; 1]>::try_from(named.values) {
        Ok([name]) => Some(name),
        Err(_) => None,
    }
}

fn labels(meta: &Value) -> Labels {
    let labels = entries(&meta["labels"]);
    let labels = labels.filter_map(|(key, value)| Some((key.into(), value.as_str()?.into())));
    labels.collect()
}

/// The revisions of a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct SetRevisions {
    /// As the planner reads them, by name.
    pub rows: Revisions,
    /// What only people want to know of them, in the order in which they were listed.
    pub stored: Vec<StoredRevision>,
}

/// A revision.
#[derive(Clone, Debug)]
pub struct StoredRevision {
    /// Its name.
    pub name: String,
    /// `revision`.
    pub number: i64,
    /// The hash that its pods carry.
    pub hash: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Why the template was changed; empty where nobody has said so.
    pub change_cause: String,
    /// The template.
    pub template: Value,
}

impl SetRevisions {
    /// Adds a revision that the selector selects. Those of others are left out.
    pub fn add(&mut self, owner: &ObjectKey, object: &Value) {
        let meta = &object["metadata"];
        let name = text(&meta["name"]);
        let Ok(uid) = text(&meta["uid"]).parse() else {
            return;
        };
        if whose(owner, controller(meta).as_ref()) != Whose::Ours {
            return;
        }
        let created = text(&meta["creationTimestamp"]).parse();
        let row = Revision {
            uid,
            rv: version(meta),
            number: object["revision"].as_i64().unwrap_or(0),
            data: DataDigest::of_data(object["data"].clone()),
            labels: labels(meta),
            created: created.clone().unwrap_or_default(),
            deleting: meta["deletionTimestamp"].is_string(),
        };
        let mut template = object["data"]["spec"]["template"].clone();
        if let Some(template) = template.as_object_mut() {
            template.remove("$patch");
        }
        let hash = meta["labels"][LABEL_REVISION].as_str().unwrap_or(name);
        self.stored.push(StoredRevision {
            name: name.to_owned(),
            number: row.number,
            hash: hash.to_owned(),
            created: created.ok(),
            change_cause: text(&meta["annotations"][CHANGE_CAUSE]).to_owned(),
            template,
        });
        self.rows.insert(name.into(), row);
    }
}

/// The selector of a DaemonSet as a question about objects: `app=agent,tier in (a,b)`. `None`: it cannot be asked, or
/// selects everything.
pub fn selector(set: &DaemonSet) -> Option<String> {
    let selector = &set.spec.selector;
    let equal = selector.match_labels.iter().flatten();
    let mut parts: Vec<String> = equal.map(|(key, value)| format!("{key}={value}")).collect();
    for requirement in selector.match_expressions.iter().flatten() {
        let key = &requirement.key;
        let values = requirement.values.clone().unwrap_or_default().join(",");
        parts.push(match requirement.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    Some(parts.join(",")).filter(|parts| !parts.is_empty())
}
