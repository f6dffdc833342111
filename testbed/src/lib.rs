//! A real Kubernetes control plane on loopback, with kwok nodes, for tests, demos and benchmarks.
//!
//! [`Cluster::start`] gives etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok,
//! built from source once per user ([`tools`]); everything ends with the [`Cluster`], or with this
//! process if that dies first. What a pod does (how long it runs, how it ends) is written in
//! annotations of the pod: see [`fate`].
//!
//! All code here blocks; async callers use `spawn_blocking` or a plain thread.

mod answer;
pub mod audit;
mod backup;
mod base64;
pub mod browser;
pub mod cargo;
pub mod carillon;
mod clients;
pub mod cluster;
mod components;
mod controllers;
mod etcd;
pub mod fate;
pub mod fault_proxy;
pub mod http;
mod kubeconfig;
mod kubelet;
mod kwok;
mod nodes;
pub mod persistent;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod tools;
pub mod wait;
pub mod watchdog;
pub mod webhook;

pub use answer::answer;
pub use audit::AuditEvent;
pub use carillon::{Operator, Options};
pub use cluster::{Audit, Cluster, Component, Config};
pub use etcd::Put;
pub use fate::Fate;
pub use fault_proxy::FaultProxy;
pub use nodes::Taint;
pub use process::{Launch, Process, Signal};
pub use prometheus::Prometheus;
pub use webhook::SlowWebhook;
