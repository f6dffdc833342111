//! DaemonSets, their pods, their revisions and the nodes at a revision of the store, kept up to date step by step.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::told::is_told;
use crate::broadcast_job::eligible::{not_meant, untolerated};
use crate::history::{History, Key, Step};
use crate::object::{self, NODES, PODS, condition, list, number, text, time, uid};
use crate::verdict::Assumptions;

/// Resource of DaemonSets of carillon.dev.
pub(crate) const OURS: &str = "daemonsets.carillon.dev";
/// Resource of those of apps/v1.
pub const NATIVE: &str = "daemonsets.apps";
/// Both.
pub(crate) const SETS: [&str; 2] = [OURS, NATIVE];
/// Resource of ControllerRevisions.
pub(crate) const REVISIONS: &str = "controllerrevisions.apps";
/// What every pod of a DaemonSet tolerates.
pub(crate) const ALWAYS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// A revision and its time.
pub(crate) type Since = (u64, Timestamp);

/// All of it.
#[derive(Debug)]
pub(crate) struct World<'h> {
    pub(crate) assumptions: &'h Assumptions,
    /// By uid, also those that are gone.
    pub(crate) sets: BTreeMap<&'h str, Set<'h>>,
    /// By name.
    pub(crate) nodes: BTreeMap<&'h str, &'h Value>,
}

/// A DaemonSet.
#[derive(Debug)]
pub(crate) struct Set<'h> {
    pub(crate) key: &'h Key,
    /// It as it is, or was when it went.
    pub(crate) last: &'h Value,
    /// As it was at each change, oldest first.
    pub(crate) versions: Vec<(Since, &'h Value)>,
    /// When it went.
    pub(crate) gone: Option<Since>,
    /// Its pods by uid, as long as they exist.
    pub(crate) pods: BTreeMap<&'h str, Pod<'h>>,
    /// Its revisions by uid, as long as they exist.
    pub(crate) revisions: BTreeMap<&'h str, &'h Value>,
    /// The templates of its revisions by their hash, also of those that are gone.
    pub(crate) templates: BTreeMap<&'h str, Vec<&'h Value>>,
}

/// A pod of a DaemonSet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pod<'h> {
    pub(crate) last: &'h Value,
    /// We created it, in time.
    pub(crate) ours: bool,
}

impl<'h> World<'h> {
    /// Before the first revision.
    pub(crate) fn new(assumptions: &'h Assumptions) -> Self {
        Self {
            assumptions,
            sets: BTreeMap::new(),
            nodes: BTreeMap::new(),
        }
    }

    /// After the last revision that is not after `until`, and that.
    pub(crate) fn at(
        history: &'h History,
        assumptions: &'h Assumptions,
        until: Timestamp,
    ) -> (Self, Option<&'h Step>) {
        let mut world = Self::new(assumptions);
        let mut last = None;
        for step in history.steps.iter().take_while(|step| step.at <= until) {
            world.apply(step);
            last = Some(step);
        }
        (world, last)
    }

    /// The DaemonSet that controls an object.
    pub(crate) fn of(&self, object: &Value) -> Option<&Set<'h>> {
        self.sets.get(set_of(object)?)
    }

    /// The next state.
    pub(crate) fn apply(&mut self, step: &'h Step) {
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        let gone = step.new.is_none();
        match &*step.key.resource {
            NODES if gone => drop(self.nodes.remove(&*step.key.name)),
            NODES => drop(self.nodes.insert(&step.key.name, object)),
            resource if is_served(resource, self.assumptions) => {
                let set = self.sets.entry(uid(object)).or_insert_with(|| Set {
                    key: &step.key,
                    last: object,
                    versions: Vec::new(),
                    gone: None,
                    pods: BTreeMap::new(),
                    revisions: BTreeMap::new(),
                    templates: BTreeMap::new(),
                });
                set.last = object;
                set.versions.push(((step.rev, step.at), object));
                set.gone = gone.then_some((step.rev, step.at));
            }
            PODS => self.apply_pod(step, object),
            REVISIONS => {
                for set in self.sets.values_mut() {
                    set.revisions.remove(uid(object));
                }
                let set = set_of(object).and_then(|set| self.sets.get_mut(set));
                if let Some(set) = set.filter(|_| !gone) {
                    set.revisions.insert(uid(object), object);
                    let templates = set.templates.entry(hash(object)).or_default();
                    templates.push(&object["data"]["spec"]["template"]);
                }
            }
            _ => {}
        }
    }

    fn apply_pod(&mut self, step: &'h Step, object: &'h Value) {
        let known = self.sets.values_mut();
        let known = known.filter_map(|set| set.pods.remove(uid(object)));
        let known = known.last();
        let set = set_of(object).and_then(|set| self.sets.get_mut(set));
        if let Some(set) = set.filter(|_| step.new.is_some()) {
            let created = step.old.is_none()
                && !self.assumptions.others(step)
                && !(self.assumptions.late)(step);
            let ours = known.map_or(created, |known| known.ours);
            let pod = Pod { last: object, ours };
            set.pods.insert(uid(object), pod);
        }
    }
}

impl<'h> Set<'h> {
    /// The versions that an instance acting at a step may see, the last one included.
    pub(crate) fn seen<'s>(
        &'s self,
        assumptions: &Assumptions,
        now: &Step,
    ) -> impl Iterator<Item = &'h Value> + use<'s, 'h> {
        let known = |(since, _): &(Since, _)| !assumptions.may_see(now, *since);
        let first = self.versions.iter().rposition(known).unwrap_or(0);
        self.versions[first..].iter().map(|(_, set)| *set)
    }

    /// The specs that an instance acting at a step may see, each once.
    pub(crate) fn seen_specs(&self, assumptions: &Assumptions, now: &Step) -> Vec<&'h Value> {
        let mut specs: Vec<_> = self
            .seen(assumptions, now)
            .map(|version| &version["spec"])
            .collect();
        specs.dedup();
        specs
    }

    /// Whether it is of apps/v1.
    pub(crate) fn is_native(&self) -> bool {
        &*self.key.resource == NATIVE
    }

    /// Since when it is being deleted, or is gone.
    pub(crate) fn going(&self) -> Option<Since> {
        let mut versions = self.versions.iter();
        let deleted = versions.find(|(_, set)| object::is_deleting(set));
        deleted.map(|(since, _)| *since).or(self.gone)
    }

    /// Whether a node may have two pods: it might at some time.
    pub(crate) fn ever_surged(&self) -> bool {
        self.versions.iter().any(|(_, set)| {
            let surge = &rolling_update(set)["maxSurge"];
            !surge.is_null() && surge != 0 && surge != "0%"
        })
    }

    /// Its pods on a node, or for it.
    pub(crate) fn on(&self, node: &str) -> impl Iterator<Item = &Pod<'h>> {
        let pods = self.pods.values();
        pods.filter(move |pod| object::node_of(pod.last) == node)
    }

    /// The revision with the highest number.
    pub(crate) fn newest(&self) -> Option<&'h Value> {
        let revisions = self.revisions.values().copied();
        revisions.max_by_key(|revision| number(revision, &["revision"]))
    }
}

pub(crate) fn rolling_update(set: &Value) -> &Value {
    &set["spec"]["updateStrategy"]["rollingUpdate"]
}

/// The hash of the revision that an object carries.
pub(crate) fn hash(object: &Value) -> &str {
    text(object, &["metadata", "labels", "controller-revision-hash"])
}

/// Uid of the DaemonSet that controls an object, of whichever API it is.
pub(crate) fn set_of(object: &Value) -> Option<&str> {
    let owner = object::controller(object)?;
    let api = text(owner, &["apiVersion"]);
    let known = api.starts_with("carillon.dev/") || api.starts_with("apps/");
    (known && text(owner, &["kind"]) == "DaemonSet").then(|| text(owner, &["uid"]))
}

/// Whether DaemonSets of a resource are served by us.
pub(crate) fn is_served(resource: &str, assumptions: &Assumptions) -> bool {
    resource == OURS || resource == NATIVE && assumptions.native.contains(&NATIVE)
}

/// Whether a node should have a pod of a DaemonSet, and whether one that is there may stay.
pub(crate) fn should(set: &Value, node: &Value) -> (bool, bool) {
    let spec = &set["spec"]["template"]["spec"];
    if not_meant(spec, node).is_some() {
        return (false, false);
    }
    let mut tolerations = list(spec, &["tolerations"]).to_vec();
    tolerations.extend(
        ALWAYS.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})),
    );
    let bears = |effects: &[&str]| untolerated(node, &tolerations, effects).is_none();
    let stays = bears(&["NoExecute"]);
    (stays && bears(&["NoSchedule"]), stays)
}

/// Whether a pod counts as available at a time.
pub(crate) fn is_available(set: &Value, pod: &Value, now: Timestamp) -> bool {
    let seconds = number(set, &["spec", "minReadySeconds"]);
    let ready = condition(pod, "Ready").filter(|ready| ready["status"] == "True");
    let since = ready.and_then(|ready| time(ready, &["lastTransitionTime"]));
    let due = since.and_then(|since| since.checked_add(SignedDuration::from_secs(seconds)).ok());
    let goes = object::is_deleting(pod) || object::has_ended(pod) || is_told(set, pod);
    due.is_some_and(|due| due <= now) && !goes
}

/// Whether a node is well: what happens to a pod there is its own doing, or ours.
pub(crate) fn is_well(node: &Value) -> bool {
    let ready = condition(node, "Ready").is_none_or(|ready| ready["status"] == "True");
    ready && node["spec"]["unschedulable"] != true && !object::is_deleting(node)
}

/// A number, or a percentage of `total`, rounded up.
pub(crate) fn scaled(value: &Value, total: usize) -> Option<usize> {
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).ok();
    }
    let percent: usize = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    Some((total * percent).div_ceil(100))
}
