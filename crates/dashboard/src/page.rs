//! Pages: what a browser or a terminal shows of the cluster at one moment.

mod around;
mod broadcast_job;
mod cron_job;
mod daemon_set;
mod job;
mod overview;
pub mod squares;

use carillon_plan::view::broadcast_job::pace::Pace;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

pub use self::squares::Fleet;
use crate::cluster::{
    BROADCAST_JOBS, CRON_JOBS, Cluster, DAEMON_SETS, JOBS, NATIVE_CRON_JOBS, NATIVE_DAEMON_SETS,
    Reading, Resource,
};

/// Which page.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Address {
    /// All objects.
    Overview,
    /// The runs of all CronJobs.
    Runs,
    /// One object.
    Object(ObjectAddress),
}

/// One object.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ObjectAddress {
    /// Of which resource: one of [`crate::cluster::LISTED`].
    pub resource: Resource,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The label by which nodes are grouped; empty for one group.
    pub group: String,
    /// A label selector of the nodes that are drawn; empty for all.
    pub label: String,
    /// Name of the time zone of whoever looks; empty for UTC.
    pub zone: String,
}

impl ObjectAddress {
    /// All its nodes in one group, in UTC.
    pub fn new(resource: Resource, namespace: &str, name: &str) -> Self {
        Self {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            group: String::new(),
            label: String::new(),
            zone: String::new(),
        }
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Everything but the squares.
    pub head: Value,
    /// The squares, if it has any.
    pub fleet: Option<Fleet>,
}

/// What went into a page, and how well it is known.
#[derive(Debug, Default)]
struct Sources(Vec<(String, Reading)>);

impl Sources {
    fn add(&mut self, what: impl Into<String>, reading: Reading) {
        let source = (what.into(), reading);
        if !self.0.contains(&source) {
            self.0.push(source);
        }
    }

    /// Those that are not up to date.
    fn told(&self) -> Value {
        let told = self
            .0
            .iter()
            .filter(|(_, reading)| *reading != Reading::Live);
        let told = told.map(|(what, reading)| {
            let mut told = serde_json::to_value(reading).unwrap_or_default();
            told["what"] = what.as_str().into();
            told
        });
        told.collect()
    }

    /// Which right is missing to know some of it.
    fn not_allowed(&self, needed: &[&str]) -> Option<String> {
        let hidden = self.0.iter().filter(|(what, reading)| {
            *reading == Reading::NotAllowed && needed.contains(&what.as_str())
        });
        let hidden: Vec<&str> = hidden.map(|(what, _)| what.as_str()).collect();
        (!hidden.is_empty()).then(|| {
            let what = hidden.join(", ");
            format!(
                "you may not list {what}: to explain a node needs the verbs list and watch of them"
            )
        })
    }

    fn loading(&self) -> bool {
        self.0.iter().any(|(_, reading)| reading.is_loading())
    }
}

/// Makes a page. The first time it is asked for, it starts the watches that it needs.
pub fn make(cluster: &Cluster, address: &Address, now: Timestamp) -> Page {
    match address {
        Address::Overview => overview::objects(cluster),
        Address::Runs => overview::runs(cluster, now),
        Address::Object(object) => match object.resource {
            BROADCAST_JOBS => broadcast_job::page(cluster, object),
            DAEMON_SETS | NATIVE_DAEMON_SETS => daemon_set::page(cluster, object, now),
            CRON_JOBS | NATIVE_CRON_JOBS => cron_job::page(cluster, object, now),
            JOBS => job::page(cluster, object),
            _ => missing(object, &Sources::default()),
        },
    }
}

/// How fast a BroadcastJob is that runs; of other pages there is nothing to say.
pub fn pace(cluster: &Cluster, address: &Address) -> Option<Pace> {
    match address {
        Address::Object(at) if at.resource == BROADCAST_JOBS => broadcast_job::pace(cluster, at),
        _ => None,
    }
}

/// What is known of something that was asked about.
#[derive(Clone, Debug, PartialEq)]
pub enum Explained<T = Value> {
    /// The answer: of a node as `explain --node -o json` has it.
    Known(T),
    /// There is no such object, or no such node in it.
    Missing,
    /// What it would be made from is being read.
    Loading,
    /// What it would be made from is not for whoever looks.
    NotAllowed(String),
    /// What it would be made from cannot be read by this version.
    Unreadable(String),
}

/// Explains one node of an object.
pub fn explain(cluster: &Cluster, at: &ObjectAddress, node: &str, now: Timestamp) -> Explained {
    match at.resource {
        BROADCAST_JOBS => broadcast_job::node(cluster, at, node, now),
        DAEMON_SETS | NATIVE_DAEMON_SETS => daemon_set::node(cluster, at, node, now),
        _ => Explained::Missing,
    }
}

/// The uid of an object.
pub fn uid(cluster: &Cluster, at: &ObjectAddress) -> Explained<String> {
    let objects = cluster.all(at.resource);
    let found = objects.get(&at.namespace, &at.name);
    match (found, objects.reading()) {
        (Some(object), _) => {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            Explained::Known(uid.to_owned())
        }
        (None, Reading::NotAllowed) => {
            Explained::NotAllowed(format!("you may not list {}", at.resource.name()))
        }
        (None, reading) if reading.is_loading() => Explained::Loading,
        (None, _) => Explained::Missing,
    }
}

/// The page of an object that is not there, or not yet.
fn missing(object: &ObjectAddress, sources: &Sources) -> Page {
    Page {
        head: serde_json::json!({
            "page": if sources.loading() { "loading" } else { "missing" },
            "namespace": object.namespace, "name": object.name, "kind": object.resource.kind,
            "sources": sources.told(),
        }),
        fleet: None,
    }
}

/// The zone of a name; UTC where there is none.
fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_may_not_be_read_is_not_said_to_be_gone() {
        let mut sources = Sources::default();
        sources.add("nodes", Reading::NotAllowed);
        sources.add("events", Reading::NotAllowed);
        sources.add("pods", Reading::Live);
        let why = sources.not_allowed(&["nodes", "pods"]).unwrap();
        assert!(why.starts_with("you may not list nodes: "), "{why}");
        assert!(why.contains("list and watch"), "{why}");
        assert_eq!(sources.not_allowed(&["pods"]), None);
    }
}
