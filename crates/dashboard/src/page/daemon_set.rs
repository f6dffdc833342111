//! The page of a DaemonSet, of carillon.dev or of apps/v1.

use carillon_plan::view::daemon_set::explain;
use carillon_plan::view::daemon_set::known::Known;
use carillon_plan::view::daemon_set::look::Look;
use carillon_plan::view::daemon_set::progress::Progress;
use carillon_plan::view::daemon_set::read::{self, SelectedPod, SetPods, SetRevisions, StoredSet};
use carillon_plan::view::daemon_set::squares::squares;
use carillon_plan::view::squares::Labels;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::around::{head, verb};
use super::{Explained, Fleet, ObjectAddress, Page, Sources, missing};
use crate::cluster::{Cluster, NATIVE_DAEMON_SETS, Object, REVISIONS, Resource, Selection, Table};

pub(super) fn page(cluster: &Cluster, at: &ObjectAddress, now: Timestamp) -> Page {
    let mut sources = Sources::default();
    let sets = cluster.all(at.resource);
    sources.add(at.resource.name(), sets.reading());
    let Some(object) = sets.get(&at.namespace, &at.name) else {
        return missing(at, &sources);
    };
    let known = known(cluster, at, &object, &mut sources);
    if sources.loading() {
        return missing(at, &sources);
    }
    let look = Look::at(&known, now);
    let mut progress = Progress::of(&known.stored);
    if known.stored.set.native && known.pods.is_some() {
        progress.look(&look);
    }
    // Without nodes or pods a square would say what nobody knows.
    let whole = known.pods.is_some() && cluster.nodes().reading().is_known();
    let fleet = whole.then(|| Fleet::grouped(squares(&look), &known.nodes, &at.group));
    let mut page = head(cluster, at, &object, &mut sources);
    page["page"] = "daemonset".into();
    page["headline"] = progress.headline().into();
    page["progress"] = json!(progress);
    if let Some(fleet) = &fleet {
        let all = explain::all(&look);
        fleet.tell(all.groups, &Labels::of(&known.nodes), &mut page);
    }
    page["revisions"] = revisions(&known, &progress);
    page["verbs"] = verbs(&known, at.resource);
    page["sources"] = sources.told();
    // What was counted before is all nodes, whatever is drawn.
    let fleet = fleet.map(|fleet| fleet.only(&known.nodes, &at.label));
    Page { head: page, fleet }
}

/// One node of it.
pub(super) fn node(cluster: &Cluster, at: &ObjectAddress, node: &str, now: Timestamp) -> Explained {
    let mut sources = Sources::default();
    let sets = cluster.all(at.resource);
    sources.add(at.resource.name(), sets.reading());
    let Some(object) = sets.get(&at.namespace, &at.name) else {
        return if sources.loading() {
            Explained::Loading
        } else {
            Explained::Missing
        };
    };
    let known = known(cluster, at, &object, &mut sources);
    if sources.loading() {
        return Explained::Loading;
    }
    if let Some(why) = sources.not_allowed(&["nodes"]) {
        return Explained::NotAllowed(why);
    }
    match explain::node(&Look::at(&known, now), node) {
        Some(explained) => Explained::Known(json!(explained)),
        None => Explained::Missing,
    }
}

fn known(cluster: &Cluster, at: &ObjectAddress, object: &Object, sources: &mut Sources) -> Known {
    let stored = read::set(object);
    let nodes = cluster.nodes();
    sources.add("nodes", nodes.reading());
    // Without a selector it has none, of neither.
    let labels = read::selector(&stored.set);
    let pods = labels.clone();
    let pods = pods.map(|labels| cluster.set_pods(&at.namespace, labels));
    let revisions = labels.map(|labels| {
        cluster.selected(Selection {
            resource: REVISIONS,
            namespace: Some(at.namespace.clone()),
            labels,
            fields: String::new(),
        })
    });
    if let Some(table) = &pods {
        sources.add("pods", table.reading());
    }
    if let Some(table) = &revisions {
        sources.add("controllerrevisions.apps", table.reading());
    }
    let pods = readable(pods.as_deref(), |table| pods_of(&stored, table));
    let revisions = readable(revisions.as_deref(), |table| {
        let mut found = SetRevisions::default();
        table.map(|_, object| found.add(&stored.set.meta.owner, object));
        found
    });
    Known::new(stored, pods, revisions, nodes.by_name())
}

fn pods_of(stored: &StoredSet, table: &Table<SelectedPod>) -> SetPods {
    let mut pods = SetPods::default();
    let owner = &stored.set.meta.owner;
    table.map(|(_, name), pod| pods.take(owner, name, pod.clone()));
    pods
}

/// What a table has. Without a selector there is nothing; without the right to read it is not known.
fn readable<R, T: Default>(
    table: Option<&Table<R>>,
    read: impl FnOnce(&Table<R>) -> T,
) -> Option<T> {
    match table {
        None => Some(T::default()),
        Some(table) => table.reading().is_known().then(|| read(table)),
    }
}

fn revisions(known: &Known, progress: &Progress) -> Value {
    let mut stored: Vec<_> = known.revisions.iter().flat_map(|all| &all.stored).collect();
    stored.sort_by_key(|one| std::cmp::Reverse(one.number));
    let told = stored.into_iter().map(|one| {
        json!({
            "number": one.number, "hash": one.hash, "created": one.created,
            "cause": one.change_cause, "current": progress.revision.as_deref() == Some(&*one.hash),
            "image": one.template["spec"]["containers"][0]["image"],
        })
    });
    told.collect()
}

/// Pausing is a field of ours alone.
fn verbs(known: &Known, resource: Resource) -> Value {
    let set = &known.stored.set;
    let when = |offered: bool| {
        if set.meta.deleting {
            Err(format!("{} is being deleted", set.meta.owner.name))
        } else {
            Ok(offered)
        }
    };
    let older = known
        .revisions
        .as_ref()
        .is_some_and(|all| all.stored.len() > 1);
    let mut verbs = vec![
        verb("undo", "Undo", when(older)),
        verb("restart", "Restart", when(true)),
    ];
    if resource != NATIVE_DAEMON_SETS {
        verbs.insert(0, verb("rollout-pause", "Pause", when(!set.spec.paused)));
        verbs.insert(1, verb("rollout-resume", "Resume", when(set.spec.paused)));
    }
    verbs.into()
}
