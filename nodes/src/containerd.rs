//! The configuration of containerd.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use crate::images::PAUSE;
use crate::machine;

/// Where it listens, inside the node.
pub(crate) const SOCKET: &str = "/run/containerd/containerd.sock";

/// Writes it, and gives its path. Its data lies below `dir`, its state in the node's own /run.
pub(crate) fn configure(dir: &Path, pods: &str) -> Result<PathBuf> {
    let networks = dir.join("cni");
    fs::create_dir_all(&networks)?;
    let network = json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            // A pod's packets all pass through the node, so that kube-proxy sees answers, too.
            {"type": "ptp", "ipMasq": true, "ipam": {
                "type": "host-local",
                // Goes when the node reboots, as its pods do.
                "dataDir": "/run/cni",
                "ranges": [[{"subnet": pods}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            }},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    fs::write(networks.join("pods.conflist"), network.to_string())?;
    let text = format!(
        r#"version = 2
root = {root:?}
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
disable_apparmor = true
# Without CAP_SYS_RESOURCE a container may not have a lower score than we have.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {plugins:?}
conf_dir = {networks:?}
"#,
        root = dir.join("containerd").display().to_string(),
        plugins = machine::plugins()?.display().to_string(),
        networks = networks.display().to_string(),
    );
    let path = dir.join("containerd.toml");
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
