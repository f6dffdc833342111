//! The history of a cluster, and what the oracle says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};

use carillon_oracle::{Assumptions, History, Violation, audit, check_all, etcd};
use carillon_testbed::Cluster;
use serde_json::Value;

/// Every revision of a cluster's store so far, with the requests that caused them.
pub fn history(cluster: &Cluster) -> History {
    let last = cluster.revision().expect("etcd's revision");
    let mut reader = etcd::Reader::default();
    let read = cluster.watch_lines(last, |line| Ok(reader.line(line)?));
    read.expect("etcd's history");
    let mut history = reader.history();
    assert_whole(cluster, &history, last);
    let log = File::open(cluster.audit_log()).expect("an audit log");
    let lines = BufReader::new(log).lines().map_while(Result::ok);
    let writes: Vec<_> = lines.filter_map(|line| audit::read(&line)).collect();
    let attribution = audit::attribute(&mut history, &writes);
    println!("{last} revisions; requests: {attribution:?}");
    // Not recorded: leases of nodes, and events. Not to be known: what was under way when the API
    // server, or the client, was killed.
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    for step in history.steps.iter().filter(|step| step.by.is_none()) {
        *unknown.entry(&step.key.resource).or_default() += 1;
    }
    println!("changes without a known request: {unknown:?}");
    history
}

/// At a revision a history has the objects that the API server lists then, as they are, and no others: what was changed
/// or removed is part of it. (It may go on behind that revision.)
fn assert_whole(cluster: &Cluster, history: &History, revision: u64) {
    let kinds = [
        ("nodes", "/api/v1/nodes"),
        ("pods", "/api/v1/pods"),
        (
            "controllerrevisions.apps",
            "/apis/apps/v1/controllerrevisions",
        ),
    ];
    for (resource, path) in kinds {
        let at = format!("--raw={path}?resourceVersion={revision}&resourceVersionMatch=Exact");
        let list = cluster.kubectl_ok(["get", &at]).expect("a list of then");
        let list: Value = serde_json::from_str(&list).expect("JSON");
        let listed = list["items"].as_array().into_iter().flatten();
        let listed: BTreeSet<(&str, &str)> = listed.map(version).collect();
        let mut told = BTreeMap::new();
        let until = history.steps.iter().take_while(|step| step.rev <= revision);
        for step in until.filter(|step| &*step.key.resource == resource) {
            match step.new.as_deref() {
                Some(object) => drop(told.insert(&step.key, version(object))),
                None => drop(told.remove(&step.key)),
            }
        }
        let told: BTreeSet<_> = told.into_values().collect();
        assert_eq!(told, listed, "{resource} at revision {revision}");
    }
}

/// Uid and resourceVersion.
fn version(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("uid"), text("resourceVersion"))
}

/// Judges every invariant at every revision of a cluster's store, prints how much was checked, and
/// panics with all violations.
#[track_caller]
pub fn assert_no_violation(cluster: &Cluster, assumptions: &Assumptions) {
    let history = history(cluster);
    let report = check_all(&history, assumptions);
    println!("{report}");
    println!(
        "{} changes judged, {} evaluations, {} violations",
        history.steps.len(),
        report.evaluations(),
        report.violations().count()
    );
    assert!(!history.steps.is_empty() && report.evaluations() > 0);
    let told = |violation: &Violation| format!("{violation}\n{}", lives(&history, violation));
    let violations: Vec<String> = report.violations().map(told).collect();
    assert!(violations.is_empty(), "{}", violations.join("\n\n"));
}

/// More pods than this in a violation are a crowd, and the life of each would hide it.
const FEW: usize = 8;

/// What became of each pod that a violation names, revision by revision.
pub fn lives(history: &History, violation: &Violation) -> String {
    let named = |object: &Value| {
        let named = |field: &str| object["metadata"][field].as_str();
        [named("name"), named("uid")]
            .into_iter()
            .flatten()
            .any(|word| violation.what.contains(word))
    };
    let of_pods = history
        .steps
        .iter()
        .filter(|step| &*step.key.resource == "pods");
    let mut lives: BTreeMap<&str, String> = BTreeMap::new();
    for step in of_pods {
        let Some(pod) = step.new.as_deref().or(step.old.as_deref()) else {
            continue;
        };
        if !named(pod) {
            continue;
        }
        let by = step.by.as_ref().map_or_else(
            || "?".to_owned(),
            |by| format!("{} {} {}", by.user, by.verb, by.uri),
        );
        let state = if step.new.is_none() {
            "gone".to_owned()
        } else {
            let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
            format!(
                "{} on {}, deleted {}, finalizers {}",
                pod["status"]["phase"],
                spec["nodeName"],
                metadata["deletionTimestamp"],
                metadata["finalizers"]
            )
        };
        let line = format!(
            "  {} {} {}: {state} by {by}\n",
            step.rev, step.at, step.key.name
        );
        lives.entry(&step.key.name).or_default().push_str(&line);
    }
    if lives.len() > FEW {
        return String::new();
    }
    lives.into_values().collect()
}
