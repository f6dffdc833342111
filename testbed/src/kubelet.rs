//! Kubelets that stop and start, one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Component, random_hex};

const NAMESPACE: &str = "--namespace=kube-node-lease";
/// Holder of the lease of a node whose kubelet is stopped.
const STOPPED: &str = "stopped";
/// kwok renews a lease this short every second.
const PULSE_SECONDS: u32 = 1;
const EVERY: Duration = Duration::from_secs(2);
/// Leases that are to be renewed at a time.
const PROVOKED: usize = 4;

impl Cluster {
    /// Stops the kubelets of nodes: nothing that happens to their pods from now on is answered,
    /// their heartbeat stops, and after `--node-monitor-grace-period` (50 s) they become
    /// unreachable, Ready=Unknown. What a running pod was already about to do still happens, as
    /// containers outlive a kubelet.
    ///
    /// At least one other node must have a running kubelet. Takes a few seconds, the first time up
    /// to a quarter of the lease duration (10 s).
    pub fn stop_kubelets(&self, nodes: &[&str]) -> Result<()> {
        // kwok acts for a node only while it sees itself as the holder of the node's lease.
        let spec = json!({"spec": {"holderIdentity": STOPPED, "leaseDurationSeconds": i32::MAX}});
        let patch = format!("--patch={spec}");
        let fixed = ["patch", "lease", NAMESPACE, "--type=merge", &patch];
        self.kubectl_ok(fixed.into_iter().chain(nodes.iter().copied()))?;
        self.wait_kwok_saw_leases()
    }

    /// Starts stopped kubelets again, and waits until they are at work: up to a quarter of the lease
    /// duration (10 s).
    pub fn start_kubelets(&self, nodes: &[&str]) -> Result<()> {
        let fixed = ["delete", "lease", NAMESPACE, "--ignore-not-found"];
        self.kubectl_ok(fixed.into_iter().chain(nodes.iter().copied()))?;
        let what = format!("the kubelets of {nodes:?} hold their leases");
        self.wait_component(&what, &[Component::ApiServer, Component::Kwok], || {
            let held = self.renewals(nodes.iter().copied(), is_held)?;
            Ok(nodes
                .iter()
                .all(|node| held.contains_key(*node))
                .then_some(()))
        })
    }

    /// From now on all kubelets have leases of this duration, and renew each after a quarter of it. They start again,
    /// and this waits until each has its lease: about a minute for 5,000 nodes.
    pub fn set_node_lease_seconds(&mut self, seconds: u32) -> Result<()> {
        self.config.node_lease_seconds = seconds;
        self.restart(Component::Kwok)?;
        let nodes = self
            .kubectl_ok(["get", "nodes", "--output=name"])?
            .lines()
            .count();
        let is_new = |lease: &Value| lease["spec"]["leaseDurationSeconds"] == seconds;
        let what = format!("the kubelets of {nodes} nodes hold leases of {seconds} s");
        self.wait_component(&what, &[Component::ApiServer, Component::Kwok], || {
            // To read thousands again and again would keep kwok from writing any.
            sleep(EVERY);
            let held = self.renewals([], is_new)?;
            Ok((held.len() >= nodes).then_some(()))
        })
    }

    /// Waits until kwok has seen every change of a lease that was made before.
    ///
    /// It gives no sign of that, so we provoke one: we change leases that are its own, and wait
    /// until it renews one of them. A renewal names the resourceVersion that kwok has last seen, so
    /// it only succeeds once our change has come through kwok's watch, after all before it.
    fn wait_kwok_saw_leases(&self) -> Result<()> {
        let provoked = self.next_renewals()?;
        let names = || provoked.iter().map(String::as_str);
        // A patch that changes nothing would not be stored.
        let mark = json!({"testbed.carillon.dev/seen": random_hex(8)?});
        let change = json!({"spec": {"leaseDurationSeconds": PULSE_SECONDS},
            "metadata": {"annotations": mark}});
        let patch = format!("--patch={change}");
        let fixed = ["patch", "lease", NAMESPACE, "--type=merge", &patch];
        // One or the other may have gone with its node.
        self.kubectl(fixed.into_iter().chain(names()))?;
        let marked = |lease: &Value| lease["metadata"]["annotations"] == mark;
        let before: BTreeMap<String, String> = self.renewals(names(), marked)?;
        ensure!(
            !before.is_empty(),
            "no lease of {provoked:?} could be changed"
        );
        let what = format!("kwok renews a lease of {provoked:?}");
        self.wait_component(&what, &[Component::ApiServer, Component::Kwok], || {
            let now = self.renewals(names(), marked)?;
            let renewed = |(name, time): (&String, &String)| before.get(name) != Some(time);
            Ok(now.iter().any(renewed).then_some(()))
        })
    }

    /// Some of the leases that kwok will renew next: one of a node that goes must not keep us.
    fn next_renewals(&self) -> Result<BTreeSet<String>> {
        let pulse = |lease: &Value| {
            is_held(lease) && lease["spec"]["leaseDurationSeconds"] == PULSE_SECONDS
        };
        let mut others: Vec<_> = self.renewals([], is_held)?.into_iter().collect();
        others.sort_by(|(_, a), (_, b)| a.cmp(b));
        let pulses = self.renewals([], pulse)?.into_keys();
        let mut names: BTreeSet<String> = pulses.take(PROVOKED).collect();
        names.extend(others.into_iter().map(|(name, _)| name).take(PROVOKED));
        ensure!(
            !names.is_empty(),
            "no kubelet of the cluster runs: one must, to stop another"
        );
        Ok(names)
    }

    /// When leases that `wanted` picks were last renewed: of these nodes, or of all when there are
    /// none. To read a thousand again and again would keep kwok from renewing any.
    fn renewals<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n str>,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<BTreeMap<String, String>> {
        let fixed = [
            "get",
            "leases",
            NAMESPACE,
            "--ignore-not-found",
            "--output=json",
        ];
        let answer = self.kubectl_ok(fixed.into_iter().chain(nodes))?;
        let mut leases = match answer.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text)?,
        };
        // One that is asked for by name comes without a list.
        let leases = match leases["items"].take() {
            Value::Array(leases) => leases,
            _ => vec![leases],
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let renewal = |lease: &Value| {
            let (name, time) = (&lease["metadata"]["name"], &lease["spec"]["renewTime"]);
            (text(name), text(time))
        };
        let there = leases
            .iter()
            .filter(|lease| !lease["spec"].is_null() && wanted(lease));
        Ok(there.map(renewal).collect())
    }
}

/// Whether kwok is the holder.
fn is_held(lease: &Value) -> bool {
    lease["spec"]["holderIdentity"] != STOPPED
}
