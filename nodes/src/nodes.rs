//! The nodes of a cluster, with their network and their DNS.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use carillon_testbed::process::Identity;
use carillon_testbed::{Cluster, Config, Launch, Process, tools, wait};
use serde::{Deserialize, Serialize};

use crate::address::Range;
use crate::images;
use crate::machine;
use crate::network::Network;
use crate::node::{self, Node, Plan};

/// Most nodes of a cluster.
const MOST: u8 = 9;
const READY: Duration = Duration::from_mins(3);
const EVERY: Duration = Duration::from_millis(200);
/// Kept beside the cluster: what has to go with it.
const STATE: &str = "nodes.json";

/// The nodes of a cluster. Dropping them ends all that runs in them.
#[derive(Debug)]
pub struct Nodes {
    // First of these to go: the nodes' cables end on the bridge.
    all: Vec<Node>,
    dns: Process,
    network: Network,
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    range: Range,
    /// Of this machine: after another boot nothing of it is there any more, and its names may be those of others.
    boot_id: String,
    cgroups: Vec<String>,
    machines: Vec<Identity>,
}

/// What the control plane of such a cluster is to be: it listens in the nodes' network.
pub fn config(name: &str, network: &Network) -> Config {
    let mut config = Config::new(name);
    config.kwok = false;
    config.address = network.address();
    config.apiserver_args = [
        "--endpoint-reconciler-type=lease",
        "--kubelet-preferred-address-types=InternalIP",
    ]
    .map(str::to_owned)
    .into();
    config
}

impl Nodes {
    /// Boots so many nodes for a cluster of [`config`], and waits until they are Ready.
    pub fn start(
        cluster: &Cluster,
        network: Network,
        count: u8,
        further_images: &[PathBuf],
    ) -> Result<Self> {
        machine::check()?;
        ensure!(
            (1..=MOST).contains(&count),
            "real nodes: {count}; expected 1 to {MOST}"
        );
        let programs = tools::node()?;
        let dns = start_dns(cluster, &network)?;
        let dir = cluster.dir().join("nodes");
        fs::create_dir_all(&dir)?;
        let mut images = images::write(&dir)?;
        images.extend_from_slice(further_images);
        let mut nodes = Self {
            all: Vec::new(),
            dns,
            network,
        };
        for index in 0..count {
            let name = format!("node-{index}");
            let plan = Plan {
                dir: dir.join(&name),
                index,
                count,
                cgroup: cgroup(nodes.network.range, index),
                kubeconfig: cluster.kubeconfig(),
                programs: programs.clone(),
                name,
            };
            nodes.all.push(Node::start(plan, &nodes.network, &images)?);
        }
        nodes.wait_ready(cluster)?;
        Ok(nodes)
    }

    /// Waits until all nodes are Ready, and nothing keeps pods off them.
    pub fn wait_ready(&self, cluster: &Cluster) -> Result<()> {
        let expected = self.all.len();
        let what = format!("{expected} real nodes are Ready");
        let query = "--output=jsonpath={range .items[*]}{.metadata.name} {.spec.taints[*].key} \
                     {.status.conditions[?(@.type=='Ready')].status}{'\\n'}{end}";
        let ready = || {
            let found = cluster.kubectl_ok(["get", "nodes", query])?;
            let ready = found.lines().filter(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.len() == 2 && words[1] == "True"
            });
            Ok((ready.count() == expected).then_some(()))
        };
        let hint = || {
            let logs = self.all.iter().map(|node| node.dir().join("kubelet.log"));
            let tails = logs.map(|log| carillon_testbed::process::tail(&log, 8));
            tails.collect::<Vec<_>>().join("\n")
        };
        wait::until(&what, READY, EVERY, ready, hint)
    }

    /// All of them, in the order of their names.
    pub fn all(&mut self) -> &mut [Node] {
        &mut self.all
    }

    /// Lets them outlive this process, until somebody reads what was [`Kept`]. `keep_cluster` does the same for the
    /// cluster, and for what else runs beside it.
    pub fn keep<T>(
        mut self,
        cluster: &Path,
        keep_cluster: impl FnOnce(Vec<Process>) -> Result<T>,
    ) -> Result<T> {
        let mut state = State {
            range: self.network.range,
            boot_id: boot_id()?,
            cgroups: Vec::new(),
            machines: Vec::new(),
        };
        for (index, node) in (0..).zip(&self.all) {
            state.cgroups.push(cgroup(self.network.range, index));
            state.machines.push(node.identity()?);
        }
        // First it is written down, then it is let go.
        fs::write(cluster.join(STATE), serde_json::to_string(&state)?)?;
        let kept = keep_cluster(vec![self.dns])?;
        let cables = u8::try_from(self.all.len())?;
        for node in self.all {
            node.keep()?;
        }
        self.network.keep(cables)?;
        Ok(kept)
    }
}

/// What was kept of the nodes of a cluster, to be ended by another process.
#[derive(Debug)]
pub struct Kept(State);

impl Kept {
    /// Reads what lies beside the cluster; `None` if it has no real nodes.
    pub fn of(cluster: &Cluster) -> Result<Option<Self>> {
        let path = cluster.dir().join(STATE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path)?;
        let state = serde_json::from_str(&text);
        state
            .map(|state| Some(Self(state)))
            .with_context(|| format!("reading {}", path.display()))
    }

    /// Ends all processes of the nodes, and removes what has no process: cgroups, cables, the bridge. What fails does
    /// not keep the rest from being tried.
    pub fn end(&self) -> Result<()> {
        let state = &self.0;
        if boot_id()? != state.boot_id {
            return Ok(());
        }
        let network = Network::adopt(state.range);
        let mut result = Ok(());
        let mut then = |done: Result<()>| {
            if result.is_ok() {
                result = done;
            }
        };
        for identity in &state.machines {
            then(Process::adopt("a node", *identity, "").kill());
        }
        for (index, name) in (0..).zip(&state.cgroups) {
            then(node::remove_cgroup(name));
            then(network.unplug(index));
        }
        then(network.delete());
        result
    }
}

/// No other cluster on this machine has the number of the network.
fn cgroup(range: Range, index: u8) -> String {
    format!("carillon{}-{index}", range.0)
}

fn boot_id() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// CoreDNS, as pods of a cluster expect it.
fn start_dns(cluster: &Cluster, network: &Network) -> Result<Process> {
    let kubeconfig = cluster.kubeconfig();
    let zones = "cluster.local in-addr.arpa ip6.arpa";
    let text = format!(
        ".:53 {{\n  bind {}\n  errors\n  kubernetes {zones} {{\n    kubeconfig {}\n  }}\n}}\n",
        network.address(),
        kubeconfig.display()
    );
    let path = cluster.dir().join("Corefile");
    fs::write(&path, text)?;
    Launch::new("dns", tools::dns()?, cluster.dir().join("dns.log"))
        .arg("-conf")
        .arg(path)
        .detached(true)
        .start()
}
