//! Nodes stop, reboot, are cut off, and leave nothing behind.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use anyhow::{Context, Result, bail, ensure};
use carillon_nodes::{Network, Nodes, config, machine};
use carillon_testbed::{Cluster, wait};
use serde_json::{Value, json};

use crate::lab;

const LIMIT: Duration = Duration::from_mins(2);
const EVERY: Duration = Duration::from_millis(200);
/// Set for the process that is killed.
const VICTIM: &str = "CARILLON_NODES_VICTIM";

/// What nodes could leave on a machine.
#[derive(Debug, Eq, PartialEq)]
struct Traces {
    links: BTreeSet<String>,
    mounts: Vec<String>,
    cgroups: BTreeSet<String>,
    /// Of directories that kubelets and CNI plugins write to.
    files: BTreeSet<String>,
    processes: BTreeSet<String>,
}

/// Of now. Processes: those that have `word` in their command line.
fn traces(word: &str) -> Result<Traces> {
    let names = |dir: &str| -> Result<BTreeSet<String>> {
        let entries = fs::read_dir(dir)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    };
    let mut cgroups = BTreeSet::new();
    for hierarchy in names("/sys/fs/cgroup")? {
        let below = names(&format!("/sys/fs/cgroup/{hierarchy}")).unwrap_or_default();
        let ours = below.into_iter().chain([hierarchy]);
        cgroups.extend(ours.filter(|name| name.starts_with("carillon")));
    }
    let mut processes = BTreeSet::new();
    for pid in names("/proc")? {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(word) {
            processes.insert(line);
        }
    }
    let mut files = BTreeSet::new();
    for dir in [
        "/var/lib/cni/results",
        "/var/lib/kubelet/device-plugins",
        "/var/log/pods",
    ] {
        files.extend(names(dir).unwrap_or_default());
    }
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(Traces {
        links: names("/sys/class/net")?,
        mounts: mounts.lines().map(str::to_owned).collect(),
        cgroups,
        files,
        processes,
    })
}

/// A cluster with nodes alone; the nodes go first.
struct Bare {
    nodes: Nodes,
    cluster: Cluster,
}

impl Bare {
    fn start(name: &str, count: u8) -> Result<Self> {
        machine::check()?;
        let network = Network::create()?;
        let cluster = Cluster::start(config(name, &network))?;
        let nodes = Nodes::start(&cluster, network, count, &[])?;
        Ok(Self { nodes, cluster })
    }

    fn apply(&self, object: &Value) -> Result<()> {
        self.cluster
            .kubectl_stdin(["apply", "-f", "-"], &object.to_string())
            .map(drop)
    }

    fn get(&self, object: &str) -> Result<Value> {
        let text = self.cluster.kubectl_ok(["get", object, "--output=json"])?;
        serde_json::from_str(&text).context("kubectl's answer")
    }

    fn until(&self, what: &str, object: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let probe = || Ok(Some(self.get(object)?).filter(&holds));
        let hint = || {
            format!(
                "{:?}",
                self.get(object).map(|found| found["status"].clone())
            )
        };
        wait::until(what, LIMIT, EVERY, probe, hint)
    }

    fn ended(&self, pod: &str) -> Result<Value> {
        let ended = |pod: &Value| {
            ["Succeeded", "Failed"]
                .iter()
                .any(|phase| pod["status"]["phase"] == *phase)
        };
        self.until(&format!("{pod} has ended"), &format!("pod/{pod}"), ended)
    }
}

fn pod(name: &str, node: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "busybox:1.37", "command": ["sh", "-c", script]}],
        },
    })
}

fn is_ready(node: &Value, ready: bool) -> bool {
    let conditions = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut found = conditions.filter(|condition| condition["type"] == "Ready");
    found.any(|condition| (condition["status"] == "True") == ready)
}

#[test]
fn a_node_stops_reboots_and_is_cut_off_and_leaves_nothing_when_it_goes() -> Result<()> {
    // What is there on the whole machine is compared.
    let _none = lab::none();
    let before = traces("/nodes/node-")?;
    let mut lab = Bare::start("off", 2)?;
    let there = traces("/nodes/node-")?;
    assert_ne!(there.links, before.links);
    assert_ne!(there.cgroups, before.cgroups);
    assert!(there.processes.len() > before.processes.len());
    assert_eq!(
        there.mounts, before.mounts,
        "a node mounts for itself alone"
    );
    assert_eq!(
        there.files, before.files,
        "a node writes to files of its own"
    );

    lab.apply(&pod("runs", "node-1", "sleep 1000"))?;
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    lab.until("the pod runs", "pod/runs", runs)?;
    let boot_id = lab.get("node/node-1")?["status"]["nodeInfo"]["bootID"].clone();
    lab.nodes.all()[1].reboot()?;
    let rebooted =
        |node: &Value| is_ready(node, true) && node["status"]["nodeInfo"]["bootID"] != boot_id;
    lab.until("node-1 has another boot id", "node/node-1", rebooted)?;
    let ended = lab.ended("runs")?;
    assert_eq!(
        ended["status"]["phase"], "Failed",
        "its container did not survive: {ended}"
    );

    lab.nodes.all()[0].cut_off()?;
    lab.until("node-0 is not ready", "node/node-0", |node| {
        is_ready(node, false)
    })?;
    lab.nodes.all()[0].reconnect()?;
    lab.nodes.all()[0].restart_containerd()?;
    lab.nodes.all()[1].stop_kubelet()?;
    lab.until("node-0 is ready", "node/node-0", |node| {
        is_ready(node, true)
    })?;
    lab.until("node-1 is not ready", "node/node-1", |node| {
        is_ready(node, false)
    })?;
    lab.nodes.all()[1].start_kubelet()?;
    lab.nodes.wait_ready(&lab.cluster)?;

    drop(lab);
    assert_eq!(traces("/nodes/node-")?, before);
    Ok(())
}

/// Not a test by itself: the process that the next test kills.
#[test]
fn victim() -> Result<()> {
    if env::var_os(VICTIM).is_none() {
        return Ok(());
    }
    let lab = Bare::start("victim", 1)?;
    lab.apply(&pod("runs", "node-0", "sleep 1000"))?;
    lab.until("the pod runs", "pod/runs", |pod| {
        pod["status"]["phase"] == "Running"
    })?;
    println!("\nvictim {}", lab.cluster.dir().display());
    thread::sleep(Duration::from_mins(10));
    bail!("nobody killed the victim")
}

#[test]
fn nothing_is_left_when_who_started_the_nodes_is_killed() -> Result<()> {
    // What is there on the whole machine is compared.
    let _none = lab::none();
    let before = traces("/nodes/node-")?;
    let mut victim = Command::new(env::current_exe()?)
        .args(["bare_nodes::victim", "--exact", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(victim.stdout.take().context("stdout")?).lines();
    let line = lines
        .map_while(Result::ok)
        .find(|line| line.starts_with("victim "));
    let line = line.context("the victim started a cluster")?;
    let dir = line.trim_start_matches("victim ").to_owned();
    ensure!(Path::new(&dir).exists());
    victim.kill()?;
    victim.wait()?;
    let gone =
        || Ok((traces("/nodes/node-")? == before && !Path::new(&dir).exists()).then_some(()));
    let left = || format!("{:?}", traces("/nodes/node-"));
    wait::until(
        "nothing of the victim is left",
        Duration::from_secs(30),
        EVERY,
        gone,
        left,
    )
}
