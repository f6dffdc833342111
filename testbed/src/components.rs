//! The command line of each component.

use std::ffi::OsString;
use std::path::Path;

use crate::cluster::{Audit, Component, Config};
use crate::process::Launch;
use crate::tools::ControlPlane;

/// Where a cluster's files lie.
#[derive(Clone, Debug)]
pub(crate) struct Layout<'a> {
    pub dir: &'a Path,
    pub etcd_port: u16,
    pub apiserver_port: u16,
}

pub(crate) fn kubeconfig_file(component: Component) -> String {
    format!("{}.kubeconfig", component.name())
}

/// How to start `component`; not yet started.
pub(crate) fn launch(
    component: Component,
    tools: &ControlPlane,
    config: &Config,
    at: &Layout<'_>,
) -> Launch {
    let (program, args) = match component {
        Component::Etcd => (&tools.etcd, etcd(at)),
        Component::ApiServer => (&tools.kube_apiserver, apiserver(config, at)),
        Component::ControllerManager => (
            &tools.kube_controller_manager,
            controller_manager(config, at),
        ),
        Component::Scheduler => (&tools.kube_scheduler, scheduler(config, at)),
        Component::Kwok => (&tools.kwok, kwok(config, at)),
    };
    let log = at.dir.join(format!("{}.log", component.name()));
    // kwok and kubectl look for configuration at home; tests must not depend on what lies there.
    Launch::new(component.name(), program, log)
        .args(args)
        .env("HOME", at.dir)
}

fn flag(name: &str, value: impl Into<OsString>) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value.into());
    flag
}

fn etcd(at: &Layout<'_>) -> Vec<OsString> {
    let clients = format!("http://127.0.0.1:{}", at.etcd_port);
    vec![
        flag("data-dir", at.dir.join("etcd")),
        flag("listen-client-urls", &clients),
        flag("advertise-client-urls", &clients),
        // A single member has no peers; any free port will do.
        flag("listen-peer-urls", "http://127.0.0.1:0"),
        // A test's data need not survive a power cut.
        "--unsafe-no-fsync".into(),
        flag("quota-backend-bytes", "8589934592"),
        flag("log-level", "warn"),
    ]
}

fn apiserver(config: &Config, at: &Layout<'_>) -> Vec<OsString> {
    let key = at.dir.join("certs/apiserver.key");
    let mut args = vec![
        flag("etcd-servers", format!("http://127.0.0.1:{}", at.etcd_port)),
        flag("bind-address", config.address.to_string()),
        flag("advertise-address", config.address.to_string()),
        flag("secure-port", at.apiserver_port.to_string()),
        // It makes its own serving certificate there, and uses it again after a restart.
        flag("cert-dir", at.dir.join("certs")),
        // The serving key signs ServiceAccount tokens too: it is made before it is read here.
        flag("service-account-signing-key-file", &key),
        flag("service-account-key-file", &key),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag("token-auth-file", at.dir.join("tokens.csv")),
        flag("authorization-mode", "RBAC"),
        flag("service-cluster-ip-range", "10.0.0.0/24"),
        flag("endpoint-reconciler-type", "none"),
        flag("allow-privileged", "true"),
        flag("max-requests-inflight", "3000"),
        flag("max-mutating-requests-inflight", "1000"),
        // Every object lies in etcd as JSON, with all its history: what the oracle judges.
        flag("storage-media-type", "application/json"),
        flag("etcd-compaction-interval", "0"),
        flag("profiling", "false"),
    ];
    // Our nodes register as Ready: a taint on each until kube-controller-manager has taken it off
    // again would double the time that 1,000 nodes take.
    let simulated = config.address.is_loopback();
    let mut without = if simulated {
        vec!["TaintNodesByCondition"]
    } else {
        Vec::new()
    };
    if !config.controller_manager {
        // Nobody would make the ServiceAccounts that pods need.
        without.push("ServiceAccount");
    }
    if !without.is_empty() {
        args.push(flag("disable-admission-plugins", without.join(",")));
    }
    if config.audit != Audit::Off {
        args.push(flag("audit-policy-file", at.dir.join("audit-policy.json")));
        args.push(flag("audit-log-path", at.dir.join("audit.log")));
        // Never rotated: a reader wants it whole.
        args.push(flag("audit-log-maxsize", "0"));
    }
    args.extend(config.apiserver_args.iter().map(OsString::from));
    args
}

pub(crate) fn controller_manager(config: &Config, at: &Layout<'_>) -> Vec<OsString> {
    let kubeconfig = at.dir.join(kubeconfig_file(Component::ControllerManager));
    let mut args = vec![
        flag("kubeconfig", kubeconfig),
        flag("leader-elect", "false"),
        flag("secure-port", "0"),
        flag(
            "service-account-private-key-file",
            at.dir.join("certs/apiserver.key"),
        ),
        flag("root-ca-file", at.dir.join("certs/apiserver.crt")),
        flag("use-service-account-credentials", "true"),
        // The default of 20 requests a second would be what a benchmark measures.
        flag("kube-api-qps", "5000"),
        flag("kube-api-burst", "5000"),
    ];
    args.extend(config.controller_manager_args.iter().map(OsString::from));
    args
}

fn scheduler(config: &Config, at: &Layout<'_>) -> Vec<OsString> {
    let mut args = vec![
        flag(
            "kubeconfig",
            at.dir.join(kubeconfig_file(Component::Scheduler)),
        ),
        flag("leader-elect", "false"),
        flag("secure-port", "0"),
        flag("kube-api-qps", "5000"),
        flag("kube-api-burst", "5000"),
    ];
    args.extend(config.scheduler_args.iter().map(OsString::from));
    args
}

fn kwok(config: &Config, at: &Layout<'_>) -> Vec<OsString> {
    vec![
        flag("kubeconfig", at.dir.join(kubeconfig_file(Component::Kwok))),
        flag("config", at.dir.join("kwok.yaml")),
        flag(
            "manage-nodes-with-annotation-selector",
            "kwok.x-k8s.io/node=fake",
        ),
        flag(
            "node-lease-duration-seconds",
            config.node_lease_seconds.to_string(),
        ),
        flag("node-ip", "10.255.0.1"),
        flag("cidr", "10.64.0.0/10"),
        flag("v", "WARN"),
    ]
}
