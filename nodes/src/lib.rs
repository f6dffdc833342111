//! Real nodes on one machine, for clusters of the test bed: kubelet, containerd, runc, CNI plugins and kube-proxy, with
//! containers that really run and end.
//!
//! Each node has Linux namespaces of its own: processes, mounts, network, host name. The first process of a node is its
//! machine: when it ends, for whatever reason, the kernel ends everything in it, and takes its mounts and network
//! devices away. So nothing of a node is left behind but files and cgroups, which have names of ours.
//!
//! Linux and root are needed, and a few packages: [`machine::check`] says which.

mod address;
mod cgroups;
mod containerd;
pub mod images;
mod inside;
mod kubelet;
pub mod machine;
mod network;
mod node;
mod nodes;

pub use network::Network;
pub use node::Node;
pub use nodes::{Kept, Nodes, config};
