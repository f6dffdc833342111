//! The configuration of kubelet and kube-proxy.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::containerd::SOCKET;

/// What a node is, as its kubelet has to know it.
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    pub(crate) dir: &'a Path,
    pub(crate) address: Ipv4Addr,
    pub(crate) dns: Ipv4Addr,
    pub(crate) cgroup: &'a str,
    pub(crate) kubeconfig: &'a Path,
}

/// Writes the configuration of the kubelet, and gives its arguments.
pub(crate) fn kubelet(about: &About<'_>) -> Result<Vec<OsString>> {
    let dir = about.dir;
    // Pods ask our DNS, and nobody else.
    let resolv = dir.join("resolv.conf");
    fs::write(&resolv, "")?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "address": about.address.to_string(),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", about.cgroup),
        "clusterDNS": [about.dns.to_string()],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        // The disk and the memory are those of everybody here: nobody is to be evicted for what others use.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
        "failCgroupV1": false,
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
        "podLogsDir": dir.join("pods"),
        "readOnlyPort": 0,
        "resolvConf": resolv,
        // Pods that start at once need no patience.
        "syncFrequency": "10s",
        "volumePluginDir": dir.join("volume-plugins"),
    });
    let path = dir.join("kubelet.json");
    fs::write(&path, config.to_string()).with_context(|| format!("writing {}", path.display()))?;
    Ok(vec![
        flag("config", &path),
        flag("kubeconfig", about.kubeconfig),
        flag("root-dir", &dir.join("kubelet")),
        flag("cert-dir", &dir.join("certs")),
        format!("--hostname-override={}", about.name).into(),
        format!("--node-ip={}", about.address).into(),
        "--v=2".into(),
    ])
}

/// Arguments of kube-proxy.
pub(crate) fn proxy(about: &About<'_>) -> Vec<OsString> {
    vec![
        flag("kubeconfig", about.kubeconfig),
        format!("--hostname-override={}", about.name).into(),
        "--proxy-mode=iptables".into(),
        // Limits of connections are of the whole machine, and not a node's to change.
        "--conntrack-max-per-core=0".into(),
        "--conntrack-tcp-timeout-established=0s".into(),
        "--conntrack-tcp-timeout-close-wait=0s".into(),
        "--healthz-bind-address=127.0.0.1:10256".into(),
    ]
}

fn flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value);
    flag
}
