//! Kubelets that stop and start, one by one.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Component, random_hex};

const NAMESPACE: &str = "--namespace=kube-node-lease";
/// Holder of the lease of a node whose kubelet is stopped.
const STOPPED: &str = "stopped";
/// kwok renews a lease this short every second.
const PULSE_SECONDS: u32 = 1;

impl Cluster {
    /// Stops the kubelets of nodes: nothing that happens to their pods from now on is answered,
    /// their heartbeat stops, and after `--node-monitor-grace-period` (50 s) they become
    /// unreachable, Ready=Unknown. What a running pod was already about to do still happens, as
    /// containers outlive a kubelet.
    ///
    /// At least one other node must have a running kubelet. Takes a second, the first time up to
    /// a quarter of the lease duration (10 s).
    pub fn stop_kubelets(&self, nodes: &[&str]) -> Result<()> {
        // kwok acts for a node only while it sees itself as the holder of the node's lease.
        let spec = json!({"spec": {"holderIdentity": STOPPED, "leaseDurationSeconds": i32::MAX}});
        let patch = format!("--patch={spec}");
        let fixed = ["patch", "lease", NAMESPACE, "--type=merge", &patch];
        self.kubectl_ok(fixed.iter().chain(nodes))?;
        self.wait_kwok_saw_leases()
    }

    /// Starts a stopped kubelet again; it takes up to a quarter of the lease duration (10 s).
    pub fn start_kubelet(&self, node: &str) -> Result<()> {
        self.kubectl_ok(["delete", "lease", node, NAMESPACE])?;
        Ok(())
    }

    /// Waits until kwok has seen every change of a lease that was made before.
    ///
    /// It gives no sign of that, so we provoke one: we change a lease that is its own, and wait
    /// until it renews that. A renewal names the resourceVersion that kwok has last seen, so it
    /// only succeeds once our change has come through kwok's watch, after all before it.
    fn wait_kwok_saw_leases(&self) -> Result<()> {
        let lease = self.next_renewal()?;
        // A patch that changes nothing would not be stored.
        let mark = json!({"testbed.carillon.dev/seen": random_hex(8)?});
        let change = json!({"spec": {"leaseDurationSeconds": PULSE_SECONDS},
            "metadata": {"annotations": mark}});
        let patch = format!("--patch={change}");
        let changed = [
            "patch",
            "lease",
            &lease,
            NAMESPACE,
            "--type=merge",
            &patch,
            "--output=json",
        ];
        let changed: Value = serde_json::from_str(&self.kubectl_ok(changed)?)?;
        let what = format!("kwok renews the lease of {lease}");
        self.wait_component(&what, &[Component::ApiServer, Component::Kwok], || {
            let now = self.kubectl_ok(["get", "lease", &lease, NAMESPACE, "--output=json"])?;
            let now: Value = serde_json::from_str(&now)?;
            Ok((now["spec"]["renewTime"] != changed["spec"]["renewTime"]).then_some(()))
        })
    }

    /// The lease that kwok will renew next.
    fn next_renewal(&self) -> Result<String> {
        let leases = self.kubectl_ok(["get", "leases", NAMESPACE, "--output=json"])?;
        let leases: Value = serde_json::from_str(&leases)?;
        let held = leases["items"].as_array().into_iter().flatten();
        let held = held.filter(|lease| lease["spec"]["holderIdentity"] != STOPPED);
        let next = held.min_by_key(|lease| {
            let spec = &lease["spec"];
            let renewed = spec["renewTime"].as_str().unwrap_or_default();
            (spec["leaseDurationSeconds"] != PULSE_SECONDS, renewed)
        });
        let name = next.and_then(|lease| lease["metadata"]["name"].as_str());
        let name = name.context("no kubelet of the cluster runs: one must, to stop another")?;
        Ok(name.to_owned())
    }
}
