//! Pages that tell how to install, upgrade, remove and move are held to what they say: their commands are run, as they
//! stand there.

mod install;
mod kube_controller_manager;
mod openkruise;

use std::time::Duration;

use anyhow::Result;
use carillon_testbed::{Cluster, wait};
use carillon_tests::documented::blocks;
use serde_json::Value;

const INSTALL: &str = "docs/install.md";
const README: &str = "README.md";
const KUBE_CONTROLLER_MANAGER: &str = "docs/coming-from-kube-controller-manager.md";
const OPENKRUISE: &str = "docs/coming-from-openkruise.md";
const DAEMON_SET: &str = "docs/daemonset.md";

const SOURCES: [&str; 3] = [
    include_str!("documented/install.rs"),
    include_str!("documented/kube_controller_manager.rs"),
    include_str!("documented/openkruise.rs"),
];

/// Blocks of commands that are not run here, and why.
const NOT_RUN: [(&str, &str); 3] = [
    (
        "cargo xtask image",
        "the tests on real nodes build the image, and those of carillon-release what is in it",
    ),
    ("skopeo copy", "there is no registry here"),
    (
        "kubectl carillon get ",
        "a list of what one may type: the tests in cli.rs run each",
    ),
];

/// `daemonset.md` and the README are more than steps.
#[test]
fn each_command_of_the_pages_that_tell_how_to_move_is_run_or_says_why_not() {
    for page in [INSTALL, KUBE_CONTROLLER_MANAGER, OPENKRUISE] {
        let blocks = blocks(page);
        let is_command = |block: &&String| {
            let first = block.split_whitespace().next().unwrap_or_default();
            ["cargo", "helm", "jq", "kubectl", "sed", "skopeo"].contains(&first)
        };
        let commands: Vec<&String> = blocks.iter().filter(is_command).collect();
        assert!(commands.len() >= 3, "{page}");
        for block in commands {
            let is_run = SOURCES.iter().any(|source| {
                let literals = source.split('"').map(|text| text.replace("\\n", "\n"));
                literals
                    .into_iter()
                    .any(|text| text.len() >= 8 && block.starts_with(&text))
            });
            let says_why_not = NOT_RUN.iter().any(|(begins, _)| block.starts_with(begins));
            assert!(is_run || says_why_not, "{page}: nobody runs\n{block}");
        }
    }
}

fn until(cluster: &Cluster, what: &str, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let hint = || {
        let now = cluster.kubectl_ok(["get", "cbj,ccj,cds,cronjobs,jobs,daemonsets,pods", "-A"]);
        now.unwrap_or_else(|error| format!("{error:#}"))
    };
    let (limit, every) = (Duration::from_mins(2), Duration::from_millis(200));
    wait::until(what, limit, every, || Ok(probe()?.then_some(())), hint)
}

fn get(cluster: &Cluster, what: &[&str]) -> Result<Value> {
    let args = ["get", "-o=json"].iter().chain(what);
    Ok(serde_json::from_str(&cluster.kubectl_ok(args)?)?)
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

fn create(cluster: &Cluster, object: &Value) -> Result<()> {
    cluster
        .kubectl_stdin(["create", "-f", "-"], &object.to_string())
        .map(drop)
}

/// A pod that runs.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Running {
    name: String,
    uid: String,
    /// The uid of who owns it; empty when nobody does.
    owner: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Those in the namespace `default`.
fn running(cluster: &Cluster) -> Result<Vec<Running>> {
    let pods = items(&get(cluster, &["pods"])?).into_iter();
    let runs = |pod: &Value| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let pods = pods.filter(runs).map(|pod| {
        let meta = &pod["metadata"];
        Running {
            name: text(&meta["name"]),
            uid: text(&meta["uid"]),
            owner: text(&meta["ownerReferences"][0]["uid"]),
        }
    });
    let mut pods: Vec<_> = pods.collect();
    pods.sort();
    Ok(pods)
}

fn uids(pods: &[Running]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.uid).collect()
}

/// How many of them an object owns.
fn owned(pods: &[Running], owner: &Value) -> usize {
    let is_owned = |pod: &&Running| owner["metadata"]["uid"] == *pod.owner;
    pods.iter().filter(is_owned).count()
}
